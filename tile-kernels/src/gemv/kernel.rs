//! The kernel: memory bound, so everything here is about loads.

use super::parts::{add_products, load_rows, store_row};
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` for a row-major `W` of N rows and K columns, accumulated in f32.
///
/// `WARPS` warps share a group of `ROWS` rows; a block has `GROUPS` such groups. Every thread keeps `UNROLL * ROWS`
/// independent loads of `VEC` elements of `W` in flight for each of `STAGES` steps: those of the next `STAGES - 1` steps
/// are on their way while one is summed. The weights may be read before the previous kernel, which makes `x`, is done.
/// With `beta == 0`, `y` is not read.
#[tile_kernel(
    instances(
        (WARPS, ROWS, GROUPS, UNROLL, STAGES) in [
            (1, 1, 4, 4, 1), (1, 1, 8, 2, 1), (4, 1, 1, 4, 1), (4, 2, 1, 2, 1), (8, 2, 1, 1, 1), (8, 2, 1, 4, 1),
            (4, 1, 1, 4, 2), (4, 1, 1, 8, 2), (8, 2, 1, 1, 2),
        ],
        VEC in [8, 4, 1],
        where VEC * T::BITS == 128 || VEC == 1 && STAGES == 1
    ),
    require(K % VEC == 0),
    stream(w),
    pdl(independent = [w]),
    uses(load_rows, add_products, store_row)
)]
pub fn gemv<
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
    let [block] = blocks([ceil_div(N, ROWS * GROUPS)]);
    let [tk, group] = threads([32 * WARPS, GROUPS]);
    let row = (block * GROUPS + group) * ROWS;

    let mut sums = alloc_local::<f32>([ROWS]);
    let mut ws = alloc_local::<T>([UNROLL, ROWS, VEC]);
    clear(&mut sums);
    for chunk in pipelined(0..ceil_div(K, UNROLL * step), STAGES) {
        let first = chunk * (UNROLL * step) + tk * VEC;
        load_rows(w, &mut ws, row, 1, first, step);
        add_products(&ws, x, &mut sums, first, step);
    }
    thread_allreduce(Sum, &mut sums, tk);
    if tk == 0 {
        for r in unroll(0..ROWS) {
            store_row(y, row + r, sums[r], alpha, beta);
        }
    }
}
