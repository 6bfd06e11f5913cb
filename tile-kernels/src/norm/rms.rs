//! RMSNorm: `y = x / sqrt(mean(x^2) + epsilon) * weight`.

use crate::reduce::{row_sum, row_sum_of_two};
use tile_runtime::prelude::*;

/// RMSNorm of rows that stay in registers between the sum and the scaling.
///
/// `WARPS` warps have a row, `VECS` vectors of `VEC` elements a thread; a block has `ROWS` rows. The weights are loaded behind the
/// row, which is needed first: that is worth 1 to 4% where there are few rows.
#[tile_kernel(
    instances(
        (WARPS, VECS, ROWS) in [(1, 1, 8), (1, 4, 2), (4, 2, 1), (8, 2, 1), (16, 2, 1)],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(N % VEC == 0),
    require(N <= 32 * WARPS * VECS * VEC),
    stream(x, y),
    pdl(independent = [], trigger = AtStart),
    uses(row_sum, row_sum_of_two)
)]
pub fn rms_norm_rows<T: Float, const WARPS: usize, const VECS: usize, const ROWS: usize, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [block] = blocks([ceil_div(M, ROWS)]);
    let [t, group] = threads([32 * WARPS, ROWS]);
    let row = block * ROWS + group;
    let mut w = alloc_local::<T>([VECS, VEC]);
    let mut a = alloc_local::<T>([VECS, VEC]);
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            a[[s, v]] = x.masked([row, (s * 32 * WARPS + t) * VEC + v]);
        }
    }
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            w[[s, v]] = weight.masked([(s * 32 * WARPS + t) * VEC + v]);
        }
    }
    let share = 1.0 / N as f32; // while loads are in flight
    let mut squares = alloc_local::<f32>([VECS]);
    clear(&mut squares);
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            squares[s] += a[[s, v]].cast::<f32>() * a[[s, v]].cast::<f32>();
        }
    }
    let mut total = 0.0f32;
    if WARPS == 16 {
        total = row_sum_of_two::<WARPS>(squares[0], squares[1], t);
    } else {
        for s in unroll(0..VECS) {
            total += squares[s];
        }
        total = row_sum::<WARPS>(total, t);
    }
    let scale = rsqrt(total * share + epsilon);
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            a[[s, v]] = (a[[s, v]].cast::<f32>() * scale * w[[s, v]].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (s * 32 * WARPS + t) * VEC + v]) = a[[s, v]];
        }
    }
}

/// RMSNorm of rows of any length, read twice: the second time from a cache. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0),
    pdl(independent = []),
    uses(row_sum)
)]
pub fn rms_norm_long<T: Float, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [row] = blocks([M]);
    let [t] = threads([512]);
    let mut a = alloc_local::<T>([VEC]);
    let mut w = alloc_local::<T>([VEC]);
    let mut squares = 0.0f32;
    for step in 0..ceil_div(N, 512 * VEC) {
        for v in vectorized(0..VEC) {
            a[v] = x.masked([row, (step * 512 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            squares += a[v].cast::<f32>() * a[v].cast::<f32>();
        }
    }
    let total = row_sum::<16>(squares, t);
    let scale = rsqrt(total / N as f32 + epsilon);
    for step in 0..ceil_div(N, 512 * VEC) {
        for v in vectorized(0..VEC) {
            a[v] = x.masked([row, (step * 512 + t) * VEC + v]);
            w[v] = weight.masked([(step * 512 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            a[v] = (a[v].cast::<f32>() * scale * w[v].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (step * 512 + t) * VEC + v]) = a[v];
        }
    }
}
