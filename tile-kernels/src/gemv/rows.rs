//! The kernel for short rows, and for rows that 16-byte loads cannot read.

use super::parts::{add_products, load_rows, store_row};
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` as [`gemv`](struct@super::kernel::gemv), with `LANES` threads a row: a part of a warp, a warp or several.
///
/// A block has `GROUPS` groups of `LANES` threads, and a group has `ROWS` rows, `GROUPS` rows apart, so that neighbouring groups read
/// neighbouring rows: where rows lie side by side, a warp's load is one run of memory however short they are. Every thread keeps
/// `ROWS * UNROLL` loads of `VEC` elements in flight. A load of x serves all rows of the group.
///
/// Rows whose addresses are multiples of 8 or 4 bytes, or of an element, are read by loads that wide. These need as many more in
/// flight, and are the reason for instances with many `ROWS * UNROLL`.
#[tile_kernel(
    instances(
        (LANES, ROWS, GROUPS, UNROLL) in [
            (4, 4, 64, 2), (8, 4, 32, 2), (16, 4, 16, 1), (16, 4, 16, 2), (32, 4, 8, 1), (32, 4, 8, 2), (32, 2, 4, 8),
            (128, 4, 1, 4), (256, 1, 1, 8), (1024, 1, 1, 8),
        ],
        VEC in [8, 4, 2, 1],
        where VEC * T::BITS == 128 && LANES <= 32 && ROWS == 4 && UNROLL <= 2
            || VEC * T::BITS < 128 && LANES >= 32 && ROWS * UNROLL >= 8
    ),
    require(K % VEC == 0),
    stream(w),
    pdl(independent = [w]),
    uses(load_rows, add_products, store_row)
)]
pub fn gemv_rows<
    T: Float,
    const LANES: usize,
    const ROWS: usize,
    const GROUPS: usize,
    const UNROLL: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
) {
    let step = LANES * VEC; // columns that a group covers with one load a thread
    let [block] = blocks([ceil_div(N, ROWS * GROUPS)]);
    let [lane, group] = threads([LANES, GROUPS]);
    let row = block * (ROWS * GROUPS) + group;

    let mut sums = alloc_local::<f32>([ROWS]);
    let mut ws = alloc_local::<T>([UNROLL, ROWS, VEC]);
    clear(&mut sums);
    for chunk in 0..ceil_div(K, UNROLL * step) {
        let first = chunk * (UNROLL * step) + lane * VEC;
        load_rows(w, &mut ws, row, GROUPS, first, step);
        add_products(&ws, x, &mut sums, first, step);
    }
    thread_allreduce(Sum, &mut sums, lane);
    if lane == 0 {
        for r in unroll(0..ROWS) {
            store_row(y, row + r * GROUPS, sums[r], alpha, beta);
        }
    }
}
