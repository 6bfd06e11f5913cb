//! Softmax of the rows, online: a thread keeps the largest element it has seen and the sum of `exp(element - largest)`.
//!
//! When a larger element comes, the sum so far is multiplied by `exp(old - new)`. So one pass over the row finds both
//! what is subtracted and what is divided by, and a second one writes: two reads and a write, where the textbook's
//! three steps read three times. The second read comes out of the second-level cache, unless the rows in flight do not
//! fit there.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `y = exp(x - max) / sum(exp(x - max))` of each row. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0)
)]
pub fn softmax_rows<T: Float, const VEC: usize>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    let [row] = blocks([M]);
    let [t] = threads([256]);
    let mut values = alloc_local::<T>([VEC]);
    // Finite, so that a thread that has seen nothing but -inf subtracts it and not -inf from -inf, which is NaN.
    let mut most = -3.4028235e38f32;
    let mut total = 0.0f32;
    for step in 0..ceil_div(N, 256 * VEC) {
        let first = (step * 256 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                values[v] = x[[row, first + v]];
            }
            let mut top = most;
            for v in unroll(0..VEC) {
                top = max(top, values[v].cast::<f32>());
            }
            total *= fast::exp(most - top);
            for v in unroll(0..VEC) {
                total += fast::exp(values[v].cast::<f32>() - top);
            }
            most = top;
        }
    }
    // What the threads have found is combined as each has combined its own.
    let largest = thread_allreduce(Max, most, t);
    let sum = thread_allreduce(Sum, total * fast::exp(most - largest), t);
    for step in 0..ceil_div(N, 256 * VEC) {
        let first = (step * 256 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                values[v] = x[[row, first + v]];
            }
            for v in unroll(0..VEC) {
                values[v] = (fast::exp(values[v].cast::<f32>() - largest) / sum).cast::<T>();
            }
            for v in vectorized(0..VEC) {
                y[[row, first + v]] = values[v];
            }
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Softmax over the last axis. A row of nothing but -inf gives NaN, as PyTorch's does.
///
/// # Errors
/// Where the shapes differ or `y` overlaps `x`, and whatever a launch may fail with.
pub fn softmax<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let params = SoftmaxRowsParams { VEC: widest::<T>(&[x.argument(), y.argument()]) };
    softmax_rows::<T>::instance(on.device(), params)?.launch_on(on, x, y)
}
// ANCHOR_END: host

/// Softmax of rows of `n` elements, in f64.
pub fn reference(x: &[f64], n: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = row.iter().map(|value| (value - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / sum).collect::<Vec<f64>>()
    };
    x.chunks(n.max(1)).flat_map(row).collect()
}
