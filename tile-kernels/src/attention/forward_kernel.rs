//! The kernel of [`forward`](super::forward) without a mask: two or three warpgroups multiply with wgmma what TMA brings. The author's text has no
//! barrier, no warp roles and no ring of slots; the compiler issues the scores of the next step before this one's weighted values.

use super::parts::{begin_tile, divide_seen_rows, hide_beyond, softmax_step, write_sums};
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
    uses(begin_tile, divide_seen_rows, hide_beyond, softmax_step, write_sums)
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
        begin_tile(&mut acc, &mut most, &mut total);
        copy(q.at([b, h, row, 0]), &mut q_s);
        for step in pipelined(0..ceil_div(N, BN), BM / 64) {
            copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
            copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            hide_beyond(&mut scores, step, N);
            softmax_step(&mut scores, &mut weights, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
            gemm(&weights, &v_s, &mut acc);
        }
        write_sums::<1>(sums, &mut most, &mut total, b, h, row);
        divide_seen_rows(&mut acc, &mut total);
        copy(&acc, o.at_mut([b, h, row, 0]));
    }
}
// ANCHOR_END: kernel
