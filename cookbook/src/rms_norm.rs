//! RMSNorm with the residual added first, as between the layers of a transformer.
//!
//! The first pass adds, writes the sum back as the new residual and sums its squares; the second reads what it wrote
//! and scales it. Each thread reads only elements that it has written itself, so no barrier stands between the passes.
//! The second read is a hit in a cache, where a separate kernel for the addition would have gone through memory.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `residual += x`, and `y = residual / sqrt(mean(residual^2) + epsilon) * weight`. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0)
)]
pub fn add_rms_norm<T: Float, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    residual: &mut Tensor<T, (M, N)>,
    weight: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    epsilon: f32,
) {
    let [row] = blocks([M]);
    let [t] = threads([256]);
    let mut a = alloc_local::<T>([VEC]);
    let mut b = alloc_local::<T>([VEC]);
    let mut squares = 0.0f32;
    for step in 0..ceil_div(N, 256 * VEC) {
        let first = (step * 256 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                a[v] = x[[row, first + v]];
                b[v] = residual[[row, first + v]];
            }
            for v in unroll(0..VEC) {
                a[v] += b[v]; // rounded to T: what is normalised is what the next layer will read
                squares += a[v].cast::<f32>() * a[v].cast::<f32>();
            }
            for v in vectorized(0..VEC) {
                residual[[row, first + v]] = a[v];
            }
        }
    }
    let scale = rsqrt(thread_allreduce(Sum, squares, t) / N as f32 + epsilon);
    for step in 0..ceil_div(N, 256 * VEC) {
        let first = (step * 256 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                a[v] = residual[[row, first + v]];
                b[v] = weight[first + v];
            }
            for v in unroll(0..VEC) {
                a[v] = (a[v].cast::<f32>() * scale * b[v].cast::<f32>()).cast::<T>();
            }
            for v in vectorized(0..VEC) {
                y[[row, first + v]] = a[v];
            }
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Adds `x` to `residual`, and normalises the sum into `y`.
///
/// # Errors
/// Where the shapes differ or tensors overlap, and whatever a launch may fail with.
pub fn rms_norm<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut residual: impl TensorOutput<T, 2>,
    weight: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 2>,
    epsilon: f32,
) -> Result<(), LaunchError> {
    let tensors = [x.argument(), residual.argument(), weight.argument(), y.argument()];
    let params = AddRmsNormParams { VEC: widest::<T>(&tensors) };
    add_rms_norm::<T>::instance(on.device(), params)?.launch_on(on, x, residual, weight, y, epsilon)
}
// ANCHOR_END: host

/// RMSNorm of rows of `weight.len()` elements, in f64; `x` is the sum with the residual.
pub fn reference(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let n = weight.len().max(1);
    let row = |row: &[f64]| {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / n as f64 + epsilon).sqrt();
        row.iter().zip(weight).map(|(v, w)| v * scale * w).collect::<Vec<f64>>()
    };
    x.chunks(n).flat_map(row).collect()
}
