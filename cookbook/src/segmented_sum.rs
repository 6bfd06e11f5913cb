//! Sums of segments of any length: elements `offsets[s]..offsets[s + 1]` of an array, as in a sparse matrix in CSR
//! form.
//!
//! A warp has a segment. Its lanes take every 32nd element, so that they read neighbours together, and add up at the
//! end. Segments differ in length, so warps do: a block of eight is as slow as its longest. That is fine while no
//! segment is much longer than the rest.

use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `sums[s]` is the sum of `values[offsets[s]..offsets[s + 1]]`, as far as that is within `values`. A warp a segment.
#[tile_kernel(dtypes(T in [f32, i32, u32]), require(E == S + 1))]
pub fn sum_segments<T: Number>(values: &Tensor<T, (N,)>, offsets: &Tensor<u32, (E,)>, sums: &mut Tensor<T, (S,)>) {
    let [block] = blocks([ceil_div(S, 8)]);
    let [lane, warp] = threads([32, 8]);
    let segment = block * 8 + warp;
    let begin = offsets.masked([segment]) as usize;
    let end = min(offsets.masked([segment + 1]) as usize, N);
    let mut sum = T::ZERO;
    for step in 0..ceil_div(max(end, begin) - begin, 128) {
        for u in unroll(0..4) {
            let at = begin + step * 128 + u * 32 + lane;
            sum += if at < end { values[at] } else { T::ZERO };
        }
    }
    let total = warp_reduce(Sum, sum);
    if lane == 0 && segment < S {
        sums[segment] = total;
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// The sums of the segments that begin at `offsets[s]` and end before `offsets[s + 1]`; offsets have one element more
/// than sums. A segment that ends before it begins is empty; one that ends behind the values ends with them.
///
/// # Errors
/// Where the shapes differ or `sums` overlaps an input, and whatever a launch may fail with.
pub fn segmented_sum<T: Number>(
    on: &impl LaunchOn,
    values: impl TensorInput<T, 1>,
    offsets: impl TensorInput<u32, 1>,
    sums: impl TensorOutput<T, 1>,
) -> Result<(), LaunchError> {
    sum_segments::<T>::instance(on.device())?.launch_on(on, values, offsets, sums)
}
// ANCHOR_END: host

/// The sums in f64.
pub fn reference(values: &[f64], offsets: &[u32]) -> Vec<f64> {
    let sum = |pair: &[u32]| {
        let end = (pair[1] as usize).min(values.len());
        values.get(pair[0] as usize..end).map_or(0.0, |segment| segment.iter().sum())
    };
    offsets.windows(2).map(sum).collect()
}
