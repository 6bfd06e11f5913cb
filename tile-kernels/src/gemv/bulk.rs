//! The kernel whose weights arrive by bulk copies: where a launch is dependent, shared memory fills with them while the
//! previous kernel drains.

use super::parts::{all_warps, keep_sums, load_columns, row_part, store_row};
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` as [`gemv_specialized`](struct@super::specialized::gemv_specialized), for rows that fit into shared memory
/// several times.
///
/// A block has `ROWS` neighbouring rows and takes `SPAN` of them at a time from shared memory, in
/// `STAGES` stages. Each of `WARPS` warps has its part of the columns of all rows, and keeps its part
/// of `x` in registers; the warps' sums are added at the end.
#[tile_kernel(
    instances(
        (WARPS, SPAN, STAGES, ROWS) in [
            (4, 4, 1, 4), (4, 8, 1, 8), (2, 4, 1, 4), (2, 2, 1, 2),
            (8, 4, 3, 16), (8, 2, 6, 16), (8, 1, 8, 16), (4, 4, 3, 16), (16, 4, 3, 16), (8, 2, 3, 8), (8, 4, 6, 32),
            (4, 2, 6, 16),
            (8, 4, 2, 16), (8, 2, 4, 16), (8, 1, 8, 11),
            (8, 1, 6, 55), (4, 2, 8, 140), (4, 1, 7, 70), (8, 2, 3, 110), (7, 1, 7, 218),
        ],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(K % VEC == 0),
    specialize(K),
    targets(sm_90a),
    pdl(independent = [w]),
    uses(load_columns, row_part, keep_sums, all_warps, store_row)
)]
pub fn gemv_bulk<
    T: Float,
    const WARPS: usize,
    const SPAN: usize,
    const STAGES: usize,
    const ROWS: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
) {
    let step = 32 * WARPS * VEC; // columns that the block covers with one load a thread
    let loads = max(1, ceil_div(K, step)); // loads of a row that a thread makes
    let [block] = blocks([ceil_div(N, ROWS)]);
    let [lane, warp] = threads([32, WARPS]);
    let thread = warp * 32 + lane;
    let first = block * ROWS;

    let mut xs = alloc_local::<f32>([loads, VEC]);
    load_columns(x, &mut xs, step, thread);
    // ANCHOR: bulk
    let mut ws = alloc_shared::<T>([SPAN, loads * step]);
    let mut parts = alloc_shared::<f32>([ROWS, WARPS]);
    for s in pipelined(0..ROWS / SPAN, STAGES) {
        copy(w.at([first + s * SPAN, 0]), &mut ws).evict(First);
        let mut sums = alloc_local::<f32>([SPAN]);
        for r in unroll(0..SPAN) {
            sums[r] = row_part(&ws, r, &xs, thread);
        }
        keep_sums(&sums, &mut parts, s * SPAN, lane, warp);
    }
    // ANCHOR_END: bulk
    sync_threads();
    for i in 0..ceil_div(ROWS, 32 * WARPS) {
        let r = i * (32 * WARPS) + thread;
        if r < ROWS {
            store_row(y, first + r, all_warps(&parts, r), alpha, beta);
        }
    }
}
