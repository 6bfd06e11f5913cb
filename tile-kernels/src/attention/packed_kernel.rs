//! The kernel of [`forward_packed`](super::forward_packed): sequences of different length, one behind the other.

use super::parts::{begin_rows, divide_rows, log_of_sum, offset, sequence_of, step_in_window};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// [`forward_options`](fn@super::options_kernel::forward_options) of packed sequences: sequence `z` has the queries from `first_query[z]` to before `first_query[z + 1]`,
/// and keys likewise; its last query's own key is its last key. Sequence `z` has the tiles from number `first_query[z] / BM + z` on, which are more than it needs by one at
/// most, so that the grid depends on no length; `halvings` of `sequences` leave one of them. Without `WINDOW` a query sees all keys before its own, whatever `left` is.
#[tile_kernel(
    instances(
        (BM, BN, D, DV, THREADS) in [
            (128, 128, 64, 64, 256), (192, 128, 64, 64, 384), (128, 128, 128, 128, 256), (192, 80, 128, 128, 384),
            (128, 112, 192, 128, 256), (128, 64, 256, 256, 256)
        ],
        WINDOW in [false, true],
        CAP in [false, true],
        where (!CAP || WINDOW && D == DV) && (BM == 128 || !WINDOW)
    ),
    partial(o, sums),
    require(HK > 0 && H % HK == 0 && group > 0),
    require(Z == sequences + 1),
    uses(begin_rows, divide_rows, log_of_sum, offset, sequence_of, step_in_window)
)]
pub fn packed<
    T: Half,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const DV: usize,
    const THREADS: usize,
    const WINDOW: bool,
    const CAP: bool,
>(
    q: &Tensor<T, (H, S, D)>,
    k: &Tensor<T, (HK, K, D)>,
    v: &Tensor<T, (HK, K, DV)>,
    first_query: &Tensor<i32, (Z,)>,
    first_key: &Tensor<i32, (Z,)>,
    o: &mut Tensor<T, (H, S, DV)>,
    sinks: Option<&Tensor<f32, (H,)>>,
    sums: Option<&mut Tensor<f32, (Fixed<1>, H, S)>>,
    scale: f32,
    inner: f32,
    group: usize,
    sequences: usize,
    halvings: usize,
    left: usize,
    right: usize,
    taken: &mut Workspace<u32, (Fixed<1>,)>,
) {
    threads([THREADS]);
    let before = min(left, 1 << 29);
    let after = min(right, 1 << 29);
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
    for [h, slot] in persistent([H, S / BM + sequences]).counter(&mut taken[0]) {
        let z = sequence_of::<BM>(first_query, slot, sequences, halvings, S);
        let from = offset(first_query, z, S);
        let queries = max(offset(first_query, z + 1, S) - from, 0);
        let base = offset(first_key, z, K);
        let keys = max(offset(first_key, z + 1, K) - base, 0);
        let end_slot = from / BM + z + ceil_div(queries, BM);
        let is_used = from / BM + z <= slot && slot < end_slot;
        let row = max(min(end_slot - 1 - slot, 1 << 22), 0) * BM;
        let own = row + keys - queries;
        clear(&mut acc);
        begin_rows(&mut most, &mut total, sinks, h);
        copy(q.at([h, from + row, 0]), &mut q_s);
        let begin = if WINDOW { min(max(own - before, 0), 1 << 28) / BN } else { 0 };
        let end = ceil_div(if is_used { max(min(own + BM + after, keys), 0) } else { 0 }, BN);
        for step in pipelined(begin..max(end, begin), BM / 64) {
            copy(k.at([h / group, base + step * BN, 0]), &mut k_s);
            copy(v.at([h / group, base + step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            step_in_window::<T, WINDOW, CAP>(
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
        if let Some(sums) = sums {
            for [i] in parallel([BM]) {
                if is_used && row + i < queries {
                    *sums.masked_mut([0, h, from + row + i]) = log_of_sum(most[i], total[i]);
                }
            }
        }
        divide_rows(&mut acc, &mut total);
        if is_used && row + BM <= queries {
            copy(&acc, o.at_mut([h, from + row, 0]));
        } else {
            for [i, j] in parallel([BM, DV]) {
                if is_used && row + i < queries {
                    *o.masked_mut([h, from + row + i, j]) = acc[[i, j]].cast::<T>();
                }
            }
        }
    }
}
// ANCHOR_END: kernel
