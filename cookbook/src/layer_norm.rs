//! LayerNorm with the residual added first, the row in registers from beginning to end.
//!
//! `specialize(N)` makes the row length a constant of the compiled kernel, so that each thread's share of the row is an
//! array of constant extent, which is what registers need. The row is read once. The variance is the mean of squared
//! differences from the mean, computed after it: exact where `mean(x^2) - mean(x)^2` cancels.
//!
//! Every row length is a kernel of its own, compiled at its first launch and kept. A model has a handful.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `residual += x`, and `y = (residual - mean) / sqrt(variance + epsilon) * gamma + beta`. A block a row.
#[tile_kernel(
    specialize(N),
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0)
)]
pub fn add_layer_norm<T: Float, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    residual: &mut Tensor<T, (M, N)>,
    gamma: &Tensor<T, (N,)>,
    beta: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let steps = ceil_div(N, 256 * VEC); // vectors a thread
    let [row] = blocks([M]);
    let [t] = threads([256]);
    let mut a = alloc_local::<T>([steps, VEC]);
    let mut b = alloc_local::<T>([VEC]);
    let mut c = alloc_local::<T>([VEC]);
    let mut sum = 0.0f32;
    for s in unroll(0..steps) {
        for v in vectorized(0..VEC) {
            a[[s, v]] = x.masked([row, (s * 256 + t) * VEC + v]);
            b[v] = residual.masked([row, (s * 256 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            a[[s, v]] += b[v];
            sum += a[[s, v]].cast::<f32>(); // 0 past the end
        }
        for v in vectorized(0..VEC) {
            *residual.masked_mut([row, (s * 256 + t) * VEC + v]) = a[[s, v]];
        }
    }
    let mean = thread_allreduce(Sum, sum, t) / N as f32;
    let mut squares = 0.0f32;
    for s in unroll(0..steps) {
        for v in unroll(0..VEC) {
            let difference = a[[s, v]].cast::<f32>() - mean;
            squares += if (s * 256 + t) * VEC < N { difference * difference } else { 0.0 };
        }
    }
    let scale = rsqrt(thread_allreduce(Sum, squares, t) / N as f32 + epsilon);
    for s in unroll(0..steps) {
        for v in vectorized(0..VEC) {
            b[v] = gamma.masked([(s * 256 + t) * VEC + v]);
            c[v] = beta.masked([(s * 256 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            b[v] = ((a[[s, v]].cast::<f32>() - mean) * scale * b[v].cast::<f32>() + c[v].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (s * 256 + t) * VEC + v]) = b[v];
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Adds `x` to `residual`, and normalises the sum into `y`. Rows of up to about 32,768 elements: longer ones are more
/// than the registers of a block.
///
/// # Errors
/// Where the shapes differ or tensors overlap, and whatever a launch may fail with.
pub fn layer_norm<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut residual: impl TensorOutput<T, 2>,
    gamma: impl TensorInput<T, 1>,
    beta: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 2>,
    epsilon: f32,
) -> Result<(), LaunchError> {
    let tensors = [x.argument(), residual.argument(), gamma.argument(), beta.argument(), y.argument()];
    let params = AddLayerNormParams { VEC: widest::<T>(&tensors) };
    add_layer_norm::<T>::instance(on.device(), params)?.launch_on(on, x, residual, gamma, beta, y, epsilon)
}
// ANCHOR_END: host

/// LayerNorm of rows of `gamma.len()` elements, in f64; `x` is the sum with the residual.
pub fn reference(x: &[f64], gamma: &[f64], beta: &[f64], epsilon: f64) -> Vec<f64> {
    let n = gamma.len().max(1);
    let row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        let scale = 1.0 / (variance + epsilon).sqrt();
        row.iter().zip(gamma.iter().zip(beta)).map(|(v, (g, b))| (v - mean) * scale * g + b).collect::<Vec<f64>>()
    };
    x.chunks(n).flat_map(row).collect()
}
