//! LayerNorm: `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`.

use crate::reduce::row_sums;
use tile_runtime::prelude::*;

/// The mean of the row's first `VEC` elements.
///
/// The variance is computed as the mean square of differences from it less the square of their mean. Since those elements are among the row's, that
/// square is at most `N / VEC` times the variance, and so is the loss: the variance is right to about `N / VEC` ulp of f32, however far from 0 the row is.
#[tile_fn]
fn origin_of_row<T: Float, const VEC: usize>(x: &Tensor<T, (M, N)>, row: usize) -> f32 {
    let mut first = alloc_local::<T>([VEC]);
    for v in vectorized(0..VEC) {
        first[v] = x.masked([row, v]);
    }
    let mut sum = 0.0f32;
    for v in unroll(0..VEC) {
        sum += first[v].cast::<f32>();
    }
    sum / VEC as f32
}

/// LayerNorm of rows that stay in registers; threads share rows as in [`rms_norm_rows`](struct@super::rms::rms_norm_rows).
///
/// Mean and variance take one exchange between threads: they are those of differences from [`origin_of_row`].
#[tile_kernel(
    instances(
        (WARPS, VECS, ROWS) in [(1, 1, 8), (1, 4, 2), (4, 2, 1), (8, 2, 1), (4, 4, 1), (16, 2, 1)],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(N % VEC == 0),
    require(N <= 32 * WARPS * VECS * VEC),
    stream(x, y),
    pdl(independent = []),
    uses(origin_of_row, row_sums)
)]
pub fn layer_norm_rows<T: Float, const WARPS: usize, const VECS: usize, const ROWS: usize, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    bias: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [block] = blocks([ceil_div(M, ROWS)]);
    let [t, group] = threads([32 * WARPS, ROWS]);
    let row = block * ROWS + group;
    let mut w = alloc_local::<T>([VECS, VEC]);
    let mut b = alloc_local::<T>([VECS, VEC]);
    let mut a = alloc_local::<T>([VECS, VEC]);
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            a[[s, v]] = x.masked([row, (s * 32 * WARPS + t) * VEC + v]);
        }
    }
    let origin = origin_of_row::<T, VEC>(x, row);
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            w[[s, v]] = weight.masked([(s * 32 * WARPS + t) * VEC + v]);
            b[[s, v]] = bias.masked([(s * 32 * WARPS + t) * VEC + v]);
        }
    }
    let share = 1.0 / N as f32; // while loads are in flight
    // Of differences, and of their squares; four vectors in two parts, as two threads with two vectors each have them.
    let mut sums = alloc_local::<f32>([2, VECS / 4 + 1]);
    clear(&mut sums);
    for s in unroll(0..VECS) {
        if (s * 32 * WARPS + t) * VEC < N {
            for v in unroll(0..VEC) {
                let difference = a[[s, v]].cast::<f32>() - origin;
                sums[[0, s % (VECS / 4 + 1)]] += difference;
                sums[[1, s % (VECS / 4 + 1)]] += difference * difference;
            }
        }
    }
    row_sums::<WARPS>(&mut sums, t);
    let mean = sums[[0, 0]] * share; // from the origin
    let scale = rsqrt(max(sums[[1, 0]] * share - mean * mean, 0.0) + epsilon);
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            let value = (a[[s, v]].cast::<f32>() - origin - mean) * scale;
            a[[s, v]] = (value * w[[s, v]].cast::<f32>() + b[[s, v]].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (s * 32 * WARPS + t) * VEC + v]) = a[[s, v]];
        }
    }
}

/// LayerNorm of rows of any length, in one pass for mean and variance, which are of differences from [`origin_of_row`], and one that writes. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0),
    pdl(independent = []),
    uses(origin_of_row, row_sums)
)]
pub fn layer_norm_long<T: Float, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    bias: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [row] = blocks([M]);
    let [t] = threads([512]);
    let origin = origin_of_row::<T, VEC>(x, row);
    let mut a = alloc_local::<T>([VEC]);
    let mut w = alloc_local::<T>([VEC]);
    let mut b = alloc_local::<T>([VEC]);
    let mut sums = alloc_local::<f32>([2, 1]); // of differences, and of their squares
    clear(&mut sums);
    for step in 0..ceil_div(N, 512 * VEC) {
        let first = (step * 512 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                a[v] = x[[row, first + v]];
            }
            for v in unroll(0..VEC) {
                let difference = a[v].cast::<f32>() - origin;
                sums[[0, 0]] += difference;
                sums[[1, 0]] += difference * difference;
            }
        }
    }
    row_sums::<16>(&mut sums, t);
    let mean = sums[[0, 0]] / N as f32; // from the origin
    let scale = rsqrt(max(sums[[1, 0]] / N as f32 - mean * mean, 0.0) + epsilon);
    for step in 0..ceil_div(N, 512 * VEC) {
        let first = (step * 512 + t) * VEC;
        for v in vectorized(0..VEC) {
            a[v] = x.masked([row, first + v]);
            w[v] = weight.masked([first + v]);
            b[v] = bias.masked([first + v]);
        }
        for v in unroll(0..VEC) {
            let value = (a[v].cast::<f32>() - origin - mean) * scale;
            a[v] = (value * w[v].cast::<f32>() + b[v].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, first + v]) = a[v];
        }
    }
}
