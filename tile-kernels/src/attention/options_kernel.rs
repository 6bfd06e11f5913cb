//! The kernel of [`forward`](super::forward) where it has a window, a soft cap or sinks, or where queries may see no key at all.

use super::parts::{begin_rows, divide_rows, step_in_window, write_sums};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// [`forward`](fn@super::forward_kernel::forward) of queries that see a window of the keys: query `i`, whose own key is number `N - M + i`, sees those
/// from `left` before to `right` after it. Blocks of keys that no query of a tile sees are not visited. `CAP`: scores are `tanh(inner s)`, and
/// `scale` is the cap times log2(e). `sinks`: one more score a head, of a key without a value. Rows that see no key are 0.
#[tile_kernel(
    instances(
        (BM, BN, D, THREADS) in [(128, 128, 64, 256), (128, 128, 128, 256), (128, 64, 256, 256)],
        CAP in [false, true]
    ),
    require(HK > 0 && H % HK == 0 && group > 0),
    uses(begin_rows, divide_rows, step_in_window, write_sums)
)]
pub fn forward_options<
    T: Half,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const THREADS: usize,
    const CAP: bool,
>(
    q: &Tensor<T, (B, H, M, D)>,
    k: &Tensor<T, (B, HK, N, D)>,
    v: &Tensor<T, (B, HK, N, D)>,
    o: &mut Tensor<T, (B, H, M, D)>,
    sinks: Option<&Tensor<f32, (H,)>>,
    sums: Option<&mut Tensor<f32, (B, H, M)>>,
    scale: f32,
    inner: f32,
    group: usize,
    left: usize,
    right: usize,
    taken: &mut Workspace<u32, (Fixed<1>,)>,
) {
    threads([THREADS]);
    let queries = min(M, 1 << 28); // bounds that let indices be computed in 32 bits
    let keys = min(N, 1 << 28);
    let before = min(left, 1 << 29);
    let after = min(right, 1 << 29);
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
    for [h, tile, b] in persistent([H, ceil_div(M, BM), B]).counter(&mut taken[0]) {
        let row = max(ceil_div(queries, BM) - 1 - tile, 0) * BM;
        let own = row + keys - queries; // the key of the tile's first query; less than 0 where there are fewer keys than queries
        clear(&mut acc);
        begin_rows(&mut most, &mut total, sinks, h);
        copy(q.at([b, h, row, 0]), &mut q_s);
        let begin = min(max(own - before, 0), 1 << 28) / BN;
        let end = ceil_div(max(min(own + BM + after, keys), 0), BN);
        for step in pipelined(begin..max(end, begin + 1), 2) {
            copy(k.at([b, h / group, step * BN, 0]), &mut k_s);
            copy(v.at([b, h / group, step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            step_in_window::<T, true, CAP, 1>(
                &mut scores,
                &mut weights,
                &mut most,
                &mut here,
                &mut shrink,
                &mut total,
                &mut acc,
                scale,
                inner,
                step,
                own,
                keys,
                before,
                after,
            );
            gemm(&weights, &v_s, &mut acc);
        }
        write_sums::<1>(sums, &mut most, &mut total, b, h, row);
        divide_rows(&mut acc, &mut total);
        copy(&acc, o.at_mut([b, h, row, 0]));
    }
}
// ANCHOR_END: kernel
