//! The kernel for few long rows: the blocks of a cluster share a row.

use super::parts::{add_products, load_rows, store_row};
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` as [`gemv`](struct@super::kernel::gemv), with the columns of `ROWS` rows split over the `PARTS` blocks of a
/// cluster.
///
/// The blocks take steps of `32 * WARPS * VEC` columns in turn, so that they have equally much to do within a step. Their sums are
/// added through distributed shared memory in the order of the blocks' ranks: equal calls give equal bits, and nothing is put aside
/// in global memory.
#[tile_kernel(
    instances(
        (WARPS, ROWS, UNROLL, PARTS) in [
            (8, 1, 2, 8), (8, 1, 4, 8),
        ],
        VEC in [8, 4, 2, 1],
        where VEC * T::BITS == 128 || VEC == 1 && UNROLL == 4
    ),
    require(K % VEC == 0),
    targets(sm_90a),
    stream(w),
    pdl(independent = [w]),
    uses(load_rows, add_products, store_row)
)]
pub fn gemv_split<
    T: Float,
    const WARPS: usize,
    const ROWS: usize,
    const UNROLL: usize,
    const PARTS: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
) {
    let step = 32 * WARPS * VEC; // columns that a block covers with one load a thread
    let [part, block] = blocks([PARTS, ceil_div(N, ROWS)]);
    cluster([PARTS, 1]);
    let [thread] = threads([32 * WARPS]);
    let row = block * ROWS;

    let mut sums = alloc_local::<f32>([ROWS]);
    let mut ws = alloc_local::<T>([UNROLL, ROWS, VEC]);
    let mut parts = alloc_shared::<f32>([ROWS, 32 * WARPS]);
    let mut tile = alloc_fragment::<f32>([ROWS, 32 * WARPS]);
    let mut totals = alloc_fragment::<f32>([ROWS]);
    clear(&mut sums);
    for chunk in 0..ceil_div(K, PARTS * UNROLL * step) {
        let first = (chunk * (UNROLL * PARTS) + part) * step + thread * VEC;
        load_rows(w, &mut ws, row, 1, first, PARTS * step);
        add_products(&ws, x, &mut sums, first, PARTS * step);
    }
    // A tile of the threads' sums, since tiles are what a cluster adds.
    for r in unroll(0..ROWS) {
        parts[[r, thread]] = sums[r];
    }
    for [r, i] in parallel([ROWS, 32 * WARPS]) {
        tile[[r, i]] = parts[[r, i]];
    }
    cluster_reduce(Sum, &mut tile);
    if part == 0 {
        reduce(Sum, &tile, &mut totals, 1);
        for [r] in parallel([ROWS]) {
            store_row(y, row + r, totals[r], alpha, beta);
        }
    }
}
