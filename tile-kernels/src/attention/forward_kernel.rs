//! The kernel of [`forward`](super::forward): two or three warpgroups multiply with wgmma what TMA brings. The author's text has no barrier, no
//! role and no ring; the compiler issues the scores of the next step before this one's weighted values.

use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v` for whole sequences. `scale` is log2(e) / sqrt(D) or what stands for it; head `h` uses head `h / group` of `k`
/// and `v`. `CAUSAL`: query `i` sees the keys up to number `past + i`; blocks with most keys come first.
#[tile_kernel(
    instances(
        (BM, BN, D, THREADS) in [(128, 128, 64, 256), (192, 128, 64, 384), (128, 128, 128, 256), (192, 80, 128, 384)],
        CAUSAL in [false, true],
        where !CAUSAL || BM == 128
    ),
    require(HK > 0 && H % HK == 0 && group > 0),
    require(N > 0 && N <= 1 << 30),
    require(!CAUSAL || N >= M)
)]
pub fn forward<T: Half, const BM: usize, const BN: usize, const D: usize, const THREADS: usize, const CAUSAL: bool>(
    q: &Tensor<T, (B, H, M, D)>,
    k: &Tensor<T, (B, HK, N, D)>,
    v: &Tensor<T, (B, HK, N, D)>,
    o: &mut Tensor<T, (B, H, M, D)>,
    scale: f32,
    group: usize,
    past: usize,
) {
    let [h, tile, b] = blocks([H, ceil_div(M, BM), B]);
    threads([THREADS]);
    let row = (ceil_div(M, BM) - 1 - tile) * BM;
    let before = min(past, 1 << 30);
    let last = if CAUSAL { before + row } else { N - 1 }; // the last key that the block's first query sees
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
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, f32::NEG_INFINITY);
    copy(q.at([b, h, row, 0]), &mut q_s);
    for step in pipelined(0..ceil_div(if CAUSAL { min(before + min(row + BM, M), 1 << 30) } else { N }, BN), 2) {
        copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
        copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
        if step * BN + BN > last + 1 {
            for [i, j] in parallel([BM, BN]) {
                if step * BN + j > (if CAUSAL { last + i } else { last }) {
                    scores[[i, j]] = f32::NEG_INFINITY;
                }
            }
        }
        reduce(Max, &scores, &mut here, 1);
        for [i] in parallel([BM]) {
            let top = max(most[i], here[i] * scale);
            shrink[i] = fast::exp2(most[i] - top);
            most[i] = top;
        }
        for [i, j] in parallel([BM, BN]) {
            scores[[i, j]] = fast::exp2(scores[[i, j]] * scale - most[i]);
        }
        reduce(Sum, &scores, &mut here, 1);
        for [i] in parallel([BM]) {
            total[i] = total[i] * shrink[i] + here[i];
        }
        for [i, j] in parallel([BM, BN]) {
            weights[[i, j]] = scores[[i, j]].cast::<T>();
        }
        for [i, j] in parallel([BM, D]) {
            acc[[i, j]] *= shrink[i];
        }
        gemm(&weights, &v_s, &mut acc);
    }
    for [i] in parallel([BM]) {
        total[i] = 1.0 / total[i];
    }
    for [i, j] in parallel([BM, D]) {
        acc[[i, j]] *= total[i];
    }
    copy(&acc, o.at_mut([b, h, row, 0]));
}
// ANCHOR_END: kernel
