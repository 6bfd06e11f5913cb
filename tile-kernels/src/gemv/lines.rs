//! The kernel for rows that lie side by side but are not aligned: 16-byte loads inside of rows, single elements at their ends.

use super::parts::store_row;
use tile_runtime::prelude::*;

/// `y = alpha W x + beta y` as [`gemv`](struct@super::kernel::gemv), for rows that begin anywhere.
///
/// `lines` is the memory of `w` in lines of 16 bytes, aligned as 16-byte loads need it. Its line 0 begins `before` lines after the one
/// that the first element of `w` is in, `start` elements into it: `before` is 0 where `start` is 0, else 1. A row is the elements up to its
/// first line, whole lines, and the elements after the last one.
///
/// Rows `VEC` apart begin at the same place within a line, whatever K is. So a group of `LANES` threads has `ROWS` rows that are `VEC` apart:
/// x is then needed at the same elements for all of them, and is loaded once, element by element. Every thread keeps
/// `ROWS * UNROLL` loads of a line in flight.
#[tile_kernel(
    instances(
        (LANES, ROWS, GROUPS, UNROLL) in [
            (32, 4, 8, 1), (32, 4, 4, 2), (64, 4, 4, 2), (128, 2, 1, 2), (256, 1, 1, 4), (256, 2, 1, 2), (256, 8, 1, 1),
        ],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(start < VEC),
    require(before <= 1),
    stream(w, lines),
    pdl(independent = [w, lines]),
    uses(store_row)
)]
pub fn gemv_lines<
    T: Float,
    const LANES: usize,
    const ROWS: usize,
    const GROUPS: usize,
    const UNROLL: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    lines: &Tensor<T, (M, VEC)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
    start: usize,
    before: usize,
) {
    let [block] = blocks([ceil_div(ceil_div(N, VEC * ROWS) * VEC, GROUPS)]);
    let [lane, group] = threads([LANES, GROUPS]);
    let id = block * GROUPS + group;
    let row = id / VEC * (VEC * ROWS) + id % VEC;
    let place = start + row * K;
    // Elements before the first line, and lines.
    let head = ceil_div(place, VEC) * VEC - place;
    let count = if head < K { (K - head) / VEC } else { 0 };
    let first = ceil_div(place, VEC) - before;
    let last = head + count * VEC;

    let mut sums = alloc_local::<f32>([ROWS]);
    let mut ws = alloc_local::<T>([UNROLL, ROWS, VEC]);
    let mut ends = alloc_local::<T>([2, ROWS]);
    clear(&mut sums);
    // Column K is none: what is masked there is 0, of w and of x.
    let begin = if lane < head { lane } else { K };
    let end = if lane < VEC { last + lane } else { K };
    for chunk in 0..ceil_div(K, UNROLL * LANES * VEC) {
        for u in unroll(0..UNROLL) {
            let line = (chunk * UNROLL + u) * LANES + lane;
            for r in unroll(0..ROWS) {
                let at = if line < count && row + r * VEC < N { first + r * K + line } else { M };
                for v in vectorized(0..VEC) {
                    ws[[u, r, v]] = lines.masked([at, v]);
                }
            }
        }
        // The ends, once. They are loaded with the first lines: the launch waits for the previous one behind the loads that begin a loop,
        // and would wait before the loop if some stood there.
        let begin_at = if chunk == 0 { begin } else { K };
        let end_at = if chunk == 0 { end } else { K };
        for r in unroll(0..ROWS) {
            ends[[0, r]] = w.masked([row + r * VEC, begin_at]);
            ends[[1, r]] = w.masked([row + r * VEC, end_at]);
        }
        for u in unroll(0..UNROLL) {
            let line = (chunk * UNROLL + u) * LANES + lane;
            let column = if line < count { head + line * VEC } else { K };
            for v in unroll(0..VEC) {
                let value = x.masked([column + v]).cast::<f32>();
                for r in unroll(0..ROWS) {
                    sums[r] += ws[[u, r, v]].cast::<f32>() * value;
                }
            }
        }
        let x_begin = x.masked([begin_at]).cast::<f32>();
        let x_end = x.masked([end_at]).cast::<f32>();
        for r in unroll(0..ROWS) {
            sums[r] += ends[[0, r]].cast::<f32>() * x_begin + ends[[1, r]].cast::<f32>() * x_end;
        }
    }
    thread_allreduce(Sum, &mut sums, lane);
    if lane == 0 {
        for r in unroll(0..ROWS) {
            store_row(y, row + r * VEC, sums[r], alpha, beta);
        }
    }
}
