//! The place of the largest element of each row: greedy sampling from logits.
//!
//! Each thread keeps the best of its own elements and where it was; `thread_argmax` combines the threads' pairs. Of equal
//! elements the one with the least place wins, in a thread and between threads, so that ties go to the first element, on every
//! executor and whatever the number of threads.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `y[row]` is the place of the first of the largest elements of row `row` of `x`. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0)
)]
pub fn argmax_rows<T: Float, const VEC: usize>(x: &Tensor<T, (M, N)>, y: &mut Tensor<u32, (M,)>) {
    let [row] = blocks([M]);
    let [t] = threads([512]);
    let mut values = alloc_local::<T>([4, VEC]);
    let mut best = f32::NEG_INFINITY;
    let mut place = 0u32;
    for step in 0..ceil_div(N, 4 * 512 * VEC) {
        let first = (step * 4 * 512 + t) * VEC;
        for u in unroll(0..4) {
            for v in vectorized(0..VEC) {
                values[[u, v]] = x.masked([row, first + u * 512 * VEC + v]); // four loads in flight
            }
        }
        for u in unroll(0..4) {
            for v in unroll(0..VEC) {
                let value = values[[u, v]].cast::<f32>();
                let at = first + u * 512 * VEC + v;
                if value > best && at < N {
                    best = value;
                    place = at as u32;
                }
            }
        }
    }
    let (_, answer) = thread_argmax(best, place, t);
    if t == 0 {
        y[row] = answer;
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// The place of the first of the largest elements of each row; NaNs are passed over, and a row without a number above
/// -inf gives 0.
///
/// # Errors
/// Where the shapes differ or `y` overlaps `x`, and whatever a launch may fail with.
pub fn argmax<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    y: impl TensorOutput<u32, 1>,
) -> Result<(), LaunchError> {
    let params = ArgmaxRowsParams { VEC: widest::<T>(&[x.argument()]) };
    argmax_rows::<T>::instance(on.device(), params)?.launch_on(on, x, y)
}
// ANCHOR_END: host

/// The places, for rows of `n` elements.
pub fn reference(x: &[f64], n: usize) -> Vec<u32> {
    let place = |row: &[f64]| {
        let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter().position(|value| *value == best).unwrap_or(0) as u32
    };
    x.chunks(n.max(1)).map(place).collect()
}
