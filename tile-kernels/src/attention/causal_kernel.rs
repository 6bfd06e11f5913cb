//! The kernel of [`forward`](super::forward) where a query sees the keys up to its own: [`forward_kernel`](super::forward_kernel)'s loop over the keys that a tile
//! sees. Tiles are of different length, so whichever block is done first takes the next one.

use super::parts::{begin_tile, divide_seen_rows, hide_later, softmax_step, write_sums};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// [`forward`](fn@super::forward_kernel::forward) where query `i` sees the keys up to number `past + i`; the tiles with most keys come first. A tile's rows are
/// `BM / GROUP` queries of `GROUP` heads, which share keys: those of the first query, then those of the next.
#[tile_kernel(
    instances(
        (BM, BN, D, DV, THREADS) in [
            (128, 128, 64, 64, 256), (192, 128, 64, 64, 384), (128, 128, 96, 96, 256), (128, 128, 128, 128, 256),
            (192, 80, 128, 128, 384), (128, 112, 192, 128, 256), (128, 64, 256, 256, 256)
        ],
        GROUP in [1, 2, 4, 8],
        where GROUP == 1 || D == DV && (D == 64 || D == 128)
    ),
    require(HK > 0 && H % HK == 0 && group > 0 && group % GROUP == 0),
    require(N > 0 && N <= 1 << 30),
    uses(begin_tile, divide_seen_rows, hide_later, softmax_step, write_sums)
)]
pub fn causal<
    T: Half,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const DV: usize,
    const THREADS: usize,
    const GROUP: usize,
>(
    q: &Tensor<T, (B, M, H, D)>,
    k: &Tensor<T, (B, HK, N, D)>,
    v: &Tensor<T, (B, HK, N, DV)>,
    o: &mut Tensor<T, (B, M, H, DV)>,
    sums: Option<&mut Tensor<f32, (B, H, M)>>,
    scale: f32,
    group: usize,
    past: usize,
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
    let of_tile = BM / GROUP;
    for [part, tile, b] in persistent([H / GROUP, ceil_div(M, of_tile), B]).counter(&mut taken[0]) {
        let h = part * GROUP;
        let row = (ceil_div(M, of_tile) - 1 - tile) * of_tile;
        begin_tile(&mut acc, &mut most, &mut total);
        copy(q.tile([b..b + 1, row..row + BM / GROUP, h..h + GROUP, 0..D]), &mut q_s);
        // A step's keys at least: the steps are known to fit 32 bits.
        let seen = max(min(before + min(row + of_tile, M), 1 << 30), BN);
        let own = before + row; // the last key that the tile's first query sees
        for step in pipelined(0..ceil_div(seen, BN), BM / 64) {
            copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
            copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            hide_later::<GROUP>(&mut scores, step, own);
            softmax_step(&mut scores, &mut weights, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
            gemm(&weights, &v_s, &mut acc);
        }
        write_sums::<GROUP>(sums, &mut most, &mut total, b, h, row);
        divide_seen_rows(&mut acc, &mut total);
        copy(&acc, o.tile_mut([b..b + 1, row..row + BM / GROUP, h..h + GROUP, 0..DV]));
    }
}
// ANCHOR_END: kernel
