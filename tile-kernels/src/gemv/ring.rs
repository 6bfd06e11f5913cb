//! The kernel whose blocks have equally many rows: weights arrive by bulk copies in a ring that never runs dry between rows.

use super::parts::{all_warps, keep_sums, load_columns, row_part, store_row};
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` as [`gemv_bulk`](struct@super::bulk::gemv_bulk), where the launch says how many rows a block has: as many as give
/// each multiprocessor equally much, [`rows_of_block`](super::Choice).
///
/// A block takes `SPAN` of its rows at a time from a ring of `STAGES` stages in shared memory. Each of `WARPS` warps has its part of the
/// columns of all rows, and keeps its part of `x` in registers; the warps' sums are added at the end.
#[tile_kernel(
    instances(
        (WARPS, SPAN, STAGES, MOST) in [
            (4, 8, 6, 512), (4, 4, 6, 512), (4, 2, 6, 512), (8, 1, 6, 256), (16, 1, 3, 128),
        ],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(K % VEC == 0),
    require(rows >= 1),
    require(rows <= MOST),
    specialize(K),
    targets(sm_90a),
    pdl(independent = [w]),
    uses(load_columns, row_part, keep_sums, all_warps, store_row)
)]
pub fn gemv_ring<
    T: Float,
    const WARPS: usize,
    const SPAN: usize,
    const STAGES: usize,
    const MOST: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
    rows: usize,
) {
    let step = 32 * WARPS * VEC; // columns that the block covers with one load a thread
    let loads = max(1, ceil_div(K, step)); // loads of a row that a thread makes
    let [block] = blocks([ceil_div(N, max(rows, 1))]);
    let [lane, warp] = threads([32, WARPS]);
    let thread = warp * 32 + lane;
    let first = block * rows;

    let mut xs = alloc_local::<f32>([loads, VEC]);
    load_columns(x, &mut xs, step, thread);
    let mut parts = alloc_shared::<f32>([MOST + SPAN, WARPS]);
    let mut ws = alloc_shared::<T>([SPAN, loads * step]);
    for s in pipelined(0..ceil_div(min(rows, MOST), SPAN), STAGES) {
        copy(w.at([first + s * SPAN, 0]), &mut ws).evict(First);
        let mut sums = alloc_local::<f32>([SPAN]);
        for r in unroll(0..SPAN) {
            sums[r] = row_part(&ws, r, &xs, thread);
        }
        keep_sums(&sums, &mut parts, s * SPAN, lane, warp);
    }
    sync_threads();
    for i in 0..ceil_div(min(rows, MOST), 32 * WARPS) {
        let r = i * (32 * WARPS) + thread;
        if r < rows {
            store_row(y, first + r, all_warps(&parts, r), alpha, beta);
        }
    }
}
