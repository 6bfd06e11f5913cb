//! The kernel of prefill attention: bound by arithmetic, so two warpgroups multiply with wgmma what TMA brings.

use super::parts::{begin_tile, divide_seen_rows, hide_later, softmax_step};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v` for the S newest tokens of a sequence, over keys and values in pages. `scale` is log2(e) / sqrt(D).
/// A tile's rows are `BM / GROUP` queries of `GROUP` heads, which share keys: those of the first query, then those of the next. It visits no step of keys that all of them precede. Tiles with most keys come first, and whichever block is done first takes the next one.
#[tile_kernel(
    instances((BM, BN, D, THREADS, STAGES) in [(128, 128, 64, 256, 2), (128, 128, 128, 256, 2)], GROUP in [1, 2, 4, 8]),
    require(HK > 0 && H % (HK * GROUP) == 0),
    require(PAGE % BN == 0),
    require(PAGE > 0),
    specialize(HK, PAGE),
    uses(begin_tile, divide_seen_rows, hide_later, softmax_step)
)]
pub fn prefill<
    T: Half,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const THREADS: usize,
    const STAGES: usize,
    const GROUP: usize,
>(
    q: &Tensor<T, (S, H, D)>,
    k: &Tensor<T, (P, HK, PAGE, D)>,
    v: &Tensor<T, (P, HK, PAGE, D)>,
    pages: &Tensor<u32, (L,)>,
    o: &mut Tensor<T, (S, H, D)>,
    scale: f32,
    past: usize,
    taken: &mut Workspace<u32, (Fixed<1>,)>,
) {
    threads([THREADS]);
    let before = min(past, 1 << 30); // keys of earlier launches
    let mut q_s = alloc_shared::<T>([BM, D]);
    let mut k_s = alloc_shared::<T>([BN, D]);
    let mut v_s = alloc_shared::<T>([BN, D]);
    let mut scores = alloc_fragment::<f32>([BM, BN]);
    let mut weights = alloc_fragment::<T>([BM, BN]);
    let mut acc = alloc_fragment::<f32>([BM, D]);
    let mut most = alloc_fragment::<f32>([BM]);
    let mut here = alloc_fragment::<f32>([BM]);
    let mut shrink = alloc_fragment::<f32>([BM]);
    let mut total = alloc_fragment::<f32>([BM]);
    let of_tile = BM / GROUP;
    for [part, tile] in persistent([H / GROUP, ceil_div(S, of_tile)]).counter(&mut taken[0]) {
        let h = part * GROUP;
        let row = (ceil_div(S, of_tile) - 1 - tile) * of_tile;
        let last = before + row; // the last key that the tile's first query sees
        begin_tile(&mut acc, &mut most, &mut total);
        copy(q.tile([row..row + BM / GROUP, h..h + GROUP, 0..D]), &mut q_s);
        // Each query sees at least the first key, which is in the first tile; with a step at least, the steps are known to fit 32 bits.
        let seen = min(before + min(row + of_tile, S), 1 << 30);
        for step in pipelined(0..ceil_div(max(seen, BN), BN), STAGES) {
            let page = min(pages.masked([step * BN / PAGE]) as usize, P); // beyond them all: zeros
            copy(k.at([page, h / (H / HK), step * BN % PAGE, 0]), &mut k_s);
            copy(v.at([page, h / (H / HK), step * BN % PAGE, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            hide_later::<GROUP>(&mut scores, step, last);
            softmax_step(&mut scores, &mut weights, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
            gemm(&weights, &v_s, &mut acc);
        }
        divide_seen_rows(&mut acc, &mut total);
        copy(&acc, o.tile_mut([row..row + BM / GROUP, h..h + GROUP, 0..D]));
    }
}
// ANCHOR_END: kernel
