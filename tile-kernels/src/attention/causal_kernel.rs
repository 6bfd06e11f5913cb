//! The kernel of [`forward`](super::forward) where a query sees the keys up to its own: [`forward_kernel`](super::forward_kernel)'s loop over the keys that a tile
//! sees. Tiles are of different length, so whichever block is done first takes the next one.

use super::parts::{begin_tile, divide_seen_rows, hide_later_in_turn, softmax_step, write_sums};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// [`forward`](fn@super::forward_kernel::forward) where query `i` sees the keys up to number `past + i`; the tiles with most keys come first. `MERGED`: a head's queries
/// are those of all heads that share its keys, `queries` of each, one head behind the other.
#[tile_kernel(
    instances(
        (BM, BN, D, DV, THREADS) in [
            (128, 128, 64, 64, 256), (192, 128, 64, 64, 384), (128, 128, 96, 96, 256), (128, 128, 128, 128, 256),
            (192, 80, 128, 128, 384), (128, 112, 192, 128, 256), (128, 64, 256, 256, 256)
        ],
        MERGED in [false, true],
        where !MERGED || D == DV && (D == 64 || D == 128)
    ),
    require(HK > 0 && H % HK == 0 && group > 0),
    require(N > 0 && N <= 1 << 30),
    require(queries > 0 && M % queries == 0 && N >= queries),
    uses(begin_tile, divide_seen_rows, hide_later_in_turn, softmax_step, write_sums)
)]
pub fn causal<
    T: Half,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const DV: usize,
    const THREADS: usize,
    const MERGED: bool,
>(
    q: &Tensor<T, (B, H, M, D)>,
    k: &Tensor<T, (B, HK, N, D)>,
    v: &Tensor<T, (B, HK, N, DV)>,
    o: &mut Tensor<T, (B, H, M, DV)>,
    sums: Option<&mut Tensor<f32, (B, H, M)>>,
    scale: f32,
    group: usize,
    past: usize,
    queries: usize,
    taken: &mut Workspace<u32, (Fixed<1>,)>,
) {
    threads([THREADS]);
    let before = min(past, 1 << 30);
    let mut q_s = alloc_shared::<T>([BM, D]);
    let mut k_s = alloc_shared::<T>([BN, D]);
    let mut v_s = alloc_shared::<T>([BN, DV]);
    let mut scores = alloc_fragment::<f32>([BM, BN]);
    let mut weights = alloc_fragment::<T>([BM, BN]);
    let mut acc = alloc_fragment::<f32>([BM, DV]);
    let mut most = alloc_fragment::<f32>([BM]);
    let mut here = alloc_fragment::<f32>([BM]);
    let mut shrink = alloc_fragment::<f32>([BM]);
    let mut total = alloc_fragment::<f32>([BM]);
    for [h, tile, b] in persistent([H, ceil_div(M, BM), B]).counter(&mut taken[0]) {
        let row = (ceil_div(M, BM) - 1 - tile) * BM;
        let of_head = if MERGED { min(queries, M) } else { M };
        let first = if MERGED { row % of_head } else { row }; // of its head's queries, the tile's first one
        // The last key that all queries of the tile see, which may have the first queries of the next head, too.
        let last = before + if MERGED && first + BM > of_head { 0 } else { first };
        let seen = min(before + min(first + BM, of_head), 1 << 30);
        begin_tile(&mut acc, &mut most, &mut total);
        copy(q.at([b, h, row, 0]), &mut q_s);
        // A step's keys at least: the steps are known to fit 32 bits.
        for step in pipelined(0..ceil_div(max(seen, BN), BN), BM / 64) {
            copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
            copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            hide_later_in_turn::<MERGED>(&mut scores, step, last, before, first, of_head);
            softmax_step(&mut scores, &mut weights, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
            gemm(&weights, &v_s, &mut acc);
        }
        write_sums(sums, &mut most, &mut total, b, h, row);
        divide_seen_rows(&mut acc, &mut total);
        copy(&acc, o.at_mut([b, h, row, 0]));
    }
}
// ANCHOR_END: kernel
