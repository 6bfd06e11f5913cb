//! The kernel of [`forward_packed`](super::forward_packed): sequences of different length, one behind the other.

use super::parts::{begin_rows_of, divide_rows, log_of_sum, offset, sequence_of, step_in_window};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// [`forward_options`](fn@super::options_kernel::forward_options) of packed sequences: sequence `z` has the queries from `first_query[z]` to before `first_query[z + 1]`,
/// and keys likewise; its last query's own key is its last key. A tile's rows are `BM / GROUP` queries of `GROUP` heads, which share keys: those of the first query, then those of the next. Sequence `z` has the tiles from number `first_query[z] / (BM / GROUP) + z` on, which are more than it needs by one at most, so that the grid depends on no length;
/// `halvings` of `sequences` leave one of them. Without `WINDOW` a query sees all keys before its own, whatever `left` is.
#[tile_kernel(
    instances(
        (BM, BN, D, DV, THREADS) in [
            (128, 128, 64, 64, 256), (192, 128, 64, 64, 384), (128, 128, 128, 128, 256), (192, 80, 128, 128, 384),
            (128, 112, 192, 128, 256), (128, 64, 256, 256, 256)
        ],
        WINDOW in [false, true],
        CAP in [false, true],
        GROUP in [1, 2, 4, 8],
        where (!CAP || WINDOW && D == DV) && (BM == 128 || !WINDOW) && (GROUP == 1 || !WINDOW && D == DV && D < 256)
    ),
    partial(o, sums),
    require(HK > 0 && H % HK == 0 && group % GROUP == 0 && group > 0),
    require(Z == sequences + 1),
    uses(begin_rows_of, divide_rows, log_of_sum, offset, sequence_of, step_in_window)
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
    const GROUP: usize,
>(
    q: &Tensor<T, (S, H, D)>,
    k: &Tensor<T, (HK, K, D)>,
    v: &Tensor<T, (HK, K, DV)>,
    first_query: &Tensor<i32, (Z,)>,
    first_key: &Tensor<i32, (Z,)>,
    o: &mut Tensor<T, (S, H, DV)>,
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
    let of_tile = BM / GROUP;
    for [part, slot] in persistent([H / GROUP, S / of_tile + sequences]).counter(&mut taken[0]) {
        let h = part * GROUP;
        let z = sequence_of(first_query, of_tile, slot, sequences, halvings, S);
        let from = offset(first_query, z, S);
        let queries = max(offset(first_query, z + 1, S) - from, 0);
        let base = offset(first_key, z, K);
        let keys = max(offset(first_key, z + 1, K) - base, 0);
        let end_slot = from / of_tile + z + ceil_div(queries, of_tile);
        let is_used = from / of_tile + z <= slot && slot < end_slot;
        let row = max(min(end_slot - 1 - slot, 1 << 22), 0) * of_tile;
        let own = row + keys - queries;
        clear(&mut acc);
        begin_rows_of::<GROUP>(&mut most, &mut total, sinks, h);
        copy(q.tile([from + row..from + row + BM / GROUP, h..h + GROUP, 0..D]), &mut q_s);
        let begin = if WINDOW { min(max(own - before, 0), 1 << 28) / BN } else { 0 };
        let end = ceil_div(if is_used { max(min(own + of_tile + after, keys), 0) } else { 0 }, BN);
        for step in pipelined(begin..max(end, begin), BM / 64) {
            copy(k.at([h / group, base + step * BN, 0]), &mut k_s);
            copy(v.at([h / group, base + step * BN, 0]), &mut v_s);
            gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
            step_in_window::<T, WINDOW, CAP, GROUP>(
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
                if is_used && row + i / GROUP < queries {
                    *sums.masked_mut([0, h + i % GROUP, from + row + i / GROUP]) = log_of_sum(most[i], total[i]);
                }
            }
        }
        divide_rows(&mut acc, &mut total);
        if is_used && row + of_tile <= queries {
            copy(&acc, o.tile_mut([from + row..from + row + BM / GROUP, h..h + GROUP, 0..DV]));
        } else {
            for [i, j] in parallel([BM, DV]) {
                if is_used && row + i / GROUP < queries {
                    *o.masked_mut([from + row + i / GROUP, h + i % GROUP, j]) = acc[[i, j]].cast::<T>();
                }
            }
        }
    }
}
// ANCHOR_END: kernel
