//! RMSNorm with the residual added first, as between the layers of a transformer.

use crate::reduce::row_sum;
use tile_runtime::prelude::*;

/// `residual += x`, and `y = residual / sqrt(mean(residual^2) + epsilon) * weight`, for rows that stay in registers; threads
/// share rows as in [`rms_norm_rows`](struct@super::rms::rms_norm_rows).
#[tile_kernel(
    instances(
        (WARPS, VECS, ROWS) in [(1, 1, 8), (1, 4, 8), (4, 2, 1), (8, 2, 1), (16, 2, 1), (28, 1, 1)],
        VEC in [8, 4],
        where VEC * T::BITS == 128,
        where WARPS != 28 || VEC == 8
    ),
    require(N % VEC == 0),
    require(N <= 32 * WARPS * VECS * VEC),
    stream(x, residual, y),
    pdl(independent = []),
    uses(row_sum)
)]
pub fn add_rms_norm_rows<T: Float, const WARPS: usize, const VECS: usize, const ROWS: usize, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    residual: &mut Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [block] = blocks([ceil_div(M, ROWS)]);
    let [t, group] = threads([32 * WARPS, ROWS]);
    let row = block * ROWS + group;
    let mut w = alloc_local::<T>([VECS, VEC]);
    let mut a = alloc_local::<T>([VECS, VEC]);
    let mut b = alloc_local::<T>([VECS, VEC]);
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            a[[s, v]] = x.masked([row, (s * 32 * WARPS + t) * VEC + v]);
            b[[s, v]] = residual.masked([row, (s * 32 * WARPS + t) * VEC + v]);
        }
    }
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            w[[s, v]] = weight.masked([(s * 32 * WARPS + t) * VEC + v]);
        }
    }
    let share = 1.0 / N as f32; // while loads are in flight
    let mut squares = 0.0f32;
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            a[[s, v]] += b[[s, v]]; // rounded to T: what is normalised is what the next layer will read
            squares += a[[s, v]].cast::<f32>() * a[[s, v]].cast::<f32>();
        }
        for v in vectorized(0..VEC) {
            *residual.masked_mut([row, (s * 32 * WARPS + t) * VEC + v]) = a[[s, v]];
        }
    }
    let total = row_sum::<WARPS>(squares, t);
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

/// Addition and RMSNorm for rows of any length. Each thread reads again only what it has written itself, so no barrier stands between the
/// passes. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0),
    pdl(independent = []),
    uses(row_sum)
)]
pub fn add_rms_norm_long<T: Float, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    residual: &mut Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [row] = blocks([M]);
    let [t] = threads([512]);
    let mut a = alloc_local::<T>([VEC]);
    let mut b = alloc_local::<T>([VEC]);
    let mut squares = 0.0f32;
    for step in 0..ceil_div(N, 512 * VEC) {
        for v in vectorized(0..VEC) {
            a[v] = x.masked([row, (step * 512 + t) * VEC + v]);
            b[v] = residual.masked([row, (step * 512 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            a[v] += b[v];
            squares += a[v].cast::<f32>() * a[v].cast::<f32>();
        }
        for v in vectorized(0..VEC) {
            *residual.masked_mut([row, (step * 512 + t) * VEC + v]) = a[v];
        }
    }
    let total = row_sum::<16>(squares, t);
    let scale = rsqrt(total / N as f32 + epsilon);
    for step in 0..ceil_div(N, 512 * VEC) {
        for v in vectorized(0..VEC) {
            a[v] = residual.masked([row, (step * 512 + t) * VEC + v]);
            b[v] = weight.masked([(step * 512 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            a[v] = (a[v].cast::<f32>() * scale * b[v].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (step * 512 + t) * VEC + v]) = a[v];
        }
    }
}
