//! The kernel for a K that is known when it is compiled: how often a thread loads is a constant, so its loads are written
//! out one by one, without a mask where K divides evenly.

use super::parts::{load_rows, store_row};
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` as [`gemv`](struct@super::kernel::gemv), compiled for each K it meets.
///
/// A thread's share of a row is as many loads of `VEC` elements as K takes; it keeps all of them in flight, or an even
/// part of them of at most `UNROLL`, for each of `ROWS` rows and `STAGES` steps. Two sums a row, taken in turns, halve
/// the chain of additions. The weights may be read before the previous kernel is done.
#[tile_kernel(
    instances(
        (WARPS, ROWS, GROUPS, UNROLL, STAGES) in [
            (1, 1, 4, 4, 1), (1, 1, 4, 8, 1), (2, 1, 2, 2, 1), (2, 1, 2, 4, 1), (4, 1, 1, 4, 2), (4, 1, 1, 8, 1),
            (4, 1, 1, 8, 2), (8, 1, 1, 2, 1), (8, 1, 1, 4, 1), (8, 2, 1, 1, 1), (8, 2, 1, 1, 2), (8, 2, 1, 4, 1),
            (1, 2, 4, 4, 1), (2, 2, 2, 4, 1), (16, 1, 1, 4, 1), (32, 1, 1, 4, 1),
        ],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(K % VEC == 0),
    specialize(K),
    stream(w),
    pdl(independent = [w]),
    uses(load_rows, store_row)
)]
pub fn gemv_specialized<
    T: Float,
    const WARPS: usize,
    const ROWS: usize,
    const GROUPS: usize,
    const UNROLL: usize,
    const STAGES: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
) {
    let step = 32 * WARPS * VEC; // columns the group covers with one load a thread
    let share = max(1, ceil_div(K, step)); // loads of a row that a thread makes
    let chunks = ceil_div(share, UNROLL);
    let loads = ceil_div(share, chunks);
    let [block] = blocks([ceil_div(N, ROWS * GROUPS)]);
    let [tk, group] = threads([32 * WARPS, GROUPS]);
    let row = (block * GROUPS + group) * ROWS;

    let mut sums = alloc_local::<f32>([ROWS, 2]);
    let mut ws = alloc_local::<T>([loads, ROWS, VEC]);
    clear(&mut sums);
    for chunk in pipelined(0..chunks, STAGES) {
        let first = chunk * (loads * step) + tk * VEC;
        load_rows(w, &mut ws, row, 1, first, step);
        for u in unroll(0..loads) {
            let mut xs = alloc_local::<T>([VEC]);
            for v in vectorized(0..VEC) {
                xs[v] = x.masked([first + u * step + v]);
            }
            for r in unroll(0..ROWS) {
                for v in unroll(0..VEC) {
                    sums[[r, u % 2]] += ws[[u, r, v]].cast::<f32>() * xs[v].cast::<f32>();
                }
            }
        }
    }
    let mut totals = alloc_local::<f32>([ROWS]);
    for r in unroll(0..ROWS) {
        totals[r] = sums[[r, 0]] + sums[[r, 1]];
    }
    thread_allreduce(Sum, &mut totals, tk);
    if tk == 0 {
        for r in unroll(0..ROWS) {
            store_row(y, row + r, totals[r], alpha, beta);
        }
    }
}
