//! The kernel of [`forward`](super::forward) where a query sees the keys up to its own: [`forward_kernel`](super::forward_kernel)'s loop over the keys that a tile
//! sees, a block a tile. Tiles are of different length, and the hardware gives the next one to the block that is done first.

use super::parts::{log_of_sum, softmax_step};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// [`forward`](fn@super::forward_kernel::forward) where query `i` sees the keys up to number `past + i`; the tiles with most keys come first.
#[tile_kernel(
    instances(
        (BM, BN, D, DV, THREADS) in [
            (128, 128, 64, 64, 256), (128, 128, 96, 96, 256), (128, 128, 128, 128, 256), (128, 112, 192, 128, 256),
            (128, 64, 256, 256, 256)
        ]
    ),
    require(HK > 0 && H % HK == 0 && group > 0),
    require(N > 0 && N <= 1 << 30),
    require(N >= M),
    uses(log_of_sum, softmax_step)
)]
pub fn causal<T: Half, const BM: usize, const BN: usize, const D: usize, const DV: usize, const THREADS: usize>(
    q: &Tensor<T, (B, H, M, D)>,
    k: &Tensor<T, (B, HK, N, D)>,
    v: &Tensor<T, (B, HK, N, DV)>,
    o: &mut Tensor<T, (B, H, M, DV)>,
    sums: Option<&mut Tensor<f32, (B, H, M)>>,
    scale: f32,
    group: usize,
    past: usize,
) {
    let [h, tile, b] = blocks([H, ceil_div(M, BM), B]);
    threads([THREADS]);
    let row = (ceil_div(M, BM) - 1 - tile) * BM;
    let before = min(past, 1 << 30);
    let last = before + row; // the last key that the block's first query sees
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
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, f32::NEG_INFINITY);
    copy(q.at([b, h, row, 0]), &mut q_s);
    for step in pipelined(
        0..ceil_div(
            if BN < BM {
                max(min(before + min(row + BM, M), 1 << 30), BN) // a step's at least: the steps are known to fit 32 bits
            } else {
                min(before + min(row + BM, M), 1 << 30)
            },
            BN,
        ),
        2,
    ) {
        copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
        copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
        if step * BN + BN > last + 1 {
            for [i, j] in parallel([BM, BN]) {
                if step * BN + j > last + i {
                    scores[[i, j]] = f32::NEG_INFINITY;
                }
            }
        }
        softmax_step(&mut scores, &mut weights, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
        gemm(&weights, &v_s, &mut acc);
    }
    if let Some(sums) = sums {
        for [i] in parallel([BM]) {
            *sums.masked_mut([b, h, row + i]) = log_of_sum(most[i], total[i]);
        }
    }
    for [i] in parallel([BM]) {
        total[i] = 1.0 / total[i];
    }
    for [i, j] in parallel([BM, DV]) {
        acc[[i, j]] *= total[i];
    }
    copy(&acc, o.at_mut([b, h, row, 0]));
}
// ANCHOR_END: kernel
