//! LayerNorm: `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`.

use crate::reduce::row_sum;
use tile_runtime::prelude::*;

/// LayerNorm of rows that stay in registers; threads share rows as in [`rms_norm_rows`](struct@super::rms::rms_norm_rows).
///
/// The variance is the mean of squared differences from the mean, computed after it: exact where `mean(x^2) - mean(x)^2` cancels.
#[tile_kernel(
    instances(
        (WARPS, VECS, ROWS) in [(1, 1, 8), (1, 4, 2), (4, 2, 1), (4, 4, 1), (16, 2, 1)],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(N % VEC == 0),
    require(N <= 32 * WARPS * VECS * VEC),
    stream(x, y),
    pdl(independent = [weight, bias]),
    uses(row_sum)
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
            w[[s, v]] = weight.masked([(s * 32 * WARPS + t) * VEC + v]);
            b[[s, v]] = bias.masked([(s * 32 * WARPS + t) * VEC + v]);
        }
    }
    let mut sum = 0.0f32;
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            a[[s, v]] = x.masked([row, (s * 32 * WARPS + t) * VEC + v]);
        }
    }
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            sum += a[[s, v]].cast::<f32>(); // 0 past the end
        }
    }
    let total = row_sum::<WARPS>(sum, t);
    let mean = total / N as f32;
    let mut squares = 0.0f32;
    for s in unroll(0..VECS) {
        if (s * 32 * WARPS + t) * VEC < N {
            for v in unroll(0..VEC) {
                let difference = a[[s, v]].cast::<f32>() - mean;
                squares += difference * difference;
            }
        }
    }
    let total_squares = row_sum::<WARPS>(squares, t);
    let scale = rsqrt(total_squares / N as f32 + epsilon);
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            let value = (a[[s, v]].cast::<f32>() - mean) * scale;
            a[[s, v]] = (value * w[[s, v]].cast::<f32>() + b[[s, v]].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (s * 32 * WARPS + t) * VEC + v]) = a[[s, v]];
        }
    }
}

/// LayerNorm of rows of any length, in one pass for mean and variance and one that writes. A block a row.
///
/// Sums are of differences from the row's first element, so that a row far from 0 loses nothing.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0),
    pdl(independent = []),
    uses(row_sum)
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
    let origin = x.masked([row, 0]).cast::<f32>();
    let mut a = alloc_local::<T>([VEC]);
    let mut w = alloc_local::<T>([VEC]);
    let mut b = alloc_local::<T>([VEC]);
    let mut sum = 0.0f32;
    let mut squares = 0.0f32;
    for step in 0..ceil_div(N, 512 * VEC) {
        let first = (step * 512 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                a[v] = x[[row, first + v]];
            }
            for v in unroll(0..VEC) {
                let difference = a[v].cast::<f32>() - origin;
                sum += difference;
                squares += difference * difference;
            }
        }
    }
    let total = row_sum::<16>(sum, t);
    let total_squares = row_sum::<16>(squares, t);
    let shift = total / N as f32; // of the mean from the origin
    let variance = max(total_squares / N as f32 - shift * shift, 0.0);
    let scale = rsqrt(variance + epsilon);
    for step in 0..ceil_div(N, 512 * VEC) {
        let first = (step * 512 + t) * VEC;
        for v in vectorized(0..VEC) {
            a[v] = x.masked([row, first + v]);
            w[v] = weight.masked([first + v]);
            b[v] = bias.masked([first + v]);
        }
        for v in unroll(0..VEC) {
            let value = (a[v].cast::<f32>() - origin - shift) * scale;
            a[v] = (value * w[v].cast::<f32>() + b[v].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, first + v]) = a[v];
        }
    }
}
