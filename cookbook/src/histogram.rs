//! How often each value occurs.
//!
//! A block counts in shared memory, where an atomic addition costs little, and adds its counters to those in global
//! memory once, at its end. Each block takes 16,384 elements: so many that the additions to global memory are few
//! beside the loads, and few enough that there are blocks for every multiprocessor.

use crate::vector::{row, width};
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// Adds to `counts[b]` how often `b` occurs in `x`; values from `BINS` on are not counted.
#[tile_kernel(instances(BINS in [256, 1024], VEC in [4, 1]), require(N % VEC == 0))]
pub fn count_bins<const BINS: usize, const VEC: usize>(x: &Tensor<u32, (N,)>, counts: &mut Tensor<u32, (BINS,)>) {
    let [block] = blocks([ceil_div(N, 16384)]);
    let [t] = threads([256]);
    let mut bins = alloc_shared::<u32>([BINS]);
    let mut values = alloc_local::<u32>([VEC]);
    for b in (0..BINS).step_by(256) {
        bins[b + t] = 0;
    }
    sync_threads();
    for step in 0..64 / VEC {
        let first = block * 16384 + (step * 256 + t) * VEC;
        if first < N {
            for v in vectorized(0..VEC) {
                values[v] = x[first + v];
            }
            for v in unroll(0..VEC) {
                let bin = values[v] as usize;
                if bin < BINS {
                    atomic_add(&mut bins[bin], 1);
                }
            }
        }
    }
    sync_threads();
    for b in (0..BINS).step_by(256) {
        if bins[b + t] > 0 {
            atomic_add(&mut counts[b + t], bins[b + t]);
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Adds to `counts`, of 256 or 1,024 counters, how often each value below their number occurs in `x`. Counters wrap.
///
/// # Errors
/// Where there are other than 256 or 1,024 counters, or they overlap `x`, and whatever a launch may fail with.
pub fn histogram(
    on: &impl LaunchOn,
    x: impl TensorInput<u32, 1>,
    mut counts: impl TensorOutput<u32, 1>,
) -> Result<(), LaunchError> {
    let params = CountBinsParams { BINS: row(&counts.argument()), VEC: width(4, &[x.argument()]) };
    count_bins::instance(on.device(), params)?.launch_on(on, x, counts)
}
// ANCHOR_END: host

/// The counts of `bins` values.
pub fn reference(x: &[u32], bins: usize) -> Vec<u32> {
    let mut counts = vec![0; bins];
    for value in x {
        if let Some(count) = counts.get_mut(*value as usize) {
            *count += 1;
        }
    }
    counts
}
