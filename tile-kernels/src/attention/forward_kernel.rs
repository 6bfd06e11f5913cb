//! The kernel of [`forward`](super::forward) without a mask: two or three warpgroups multiply with wgmma what TMA brings. The author's text has no
//! barrier, no warp roles and no ring of slots; the compiler issues the scores of the next step before this one's weighted values.

use super::parts::{log_of_sum, softmax_step};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v` for whole sequences, of which every query sees every key. `scale` is log2(e) / sqrt(D) or what stands for it;
/// head `h` uses head `h / group` of `k` and `v`. A block takes tile after tile, and fetches the next one's queries, keys and values while it
/// finishes the last; blocks that run at the same time work on neighbouring tiles of a head. `sums` are the logarithms of the softmax's denominators.
#[tile_kernel(
    instances(
        (BM, BN, D, DV, THREADS) in [
            (128, 128, 64, 64, 256), (192, 128, 64, 64, 384), (128, 128, 96, 96, 256), (128, 128, 128, 128, 256),
            (192, 80, 128, 128, 384), (128, 112, 192, 128, 256), (128, 64, 256, 256, 256)
        ]
    ),
    require(HK > 0 && H % HK == 0 && group > 0),
    require(N > 0 && N <= 1 << 30),
    uses(log_of_sum, softmax_step)
)]
pub fn forward<T: Half, const BM: usize, const BN: usize, const D: usize, const DV: usize, const THREADS: usize>(
    q: &Tensor<T, (B, H, M, D)>,
    k: &Tensor<T, (B, HK, N, D)>,
    v: &Tensor<T, (B, HK, N, DV)>,
    o: &mut Tensor<T, (B, H, M, DV)>,
    sums: Option<&mut Tensor<f32, (B, H, M)>>,
    scale: f32,
    group: usize,
) {
    threads([THREADS]);
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
    for [tile, h, b] in persistent([ceil_div(M, BM), H, B]) {
        let row = tile * BM;
        clear(&mut acc);
        clear(&mut total);
        fill(&mut most, f32::NEG_INFINITY);
        copy(q.at([b, h, row, 0]), &mut q_s);
        for step in pipelined(0..ceil_div(N, BN), BM / 64) {
            copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
            copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            if step * BN + BN > N {
                for [i, j] in parallel([BM, BN]) {
                    if step * BN + j >= N {
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
}
// ANCHOR_END: kernel
