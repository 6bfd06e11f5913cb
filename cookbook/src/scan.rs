//! Prefix sums of a long array, in two launches.
//!
//! What an element's result needs, the sum of all before it, crosses blocks, and blocks cannot wait for each other. So the array is
//! cut into chunks, one a block: the first launch sums each, the second adds up the sums of the chunks before its own and then
//! scans its chunk with that as a start. Three transfers an element where the best single-pass algorithm (decoupled look-back)
//! makes two, by blocks that poll what others have published; the language has no such waiting.

use crate::vector::width;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `sums[c]` is the sum of chunk `c` of `x`, of `tiles * 1024` elements. A block a chunk.
#[tile_kernel(instances(VEC in [4, 1]), dtypes(T in [f32, i32, u32]), require(N % VEC == 0))]
pub fn chunk_sums<T: Number, const VEC: usize>(x: &Tensor<T, (N,)>, sums: &mut Tensor<T, (C,)>, tiles: usize) {
    let [block] = blocks([C]);
    let [t] = threads([256]);
    let mut values = alloc_local::<T>([VEC]);
    let mut sum = T::ZERO;
    for step in serial(0..tiles * (4 / VEC)).unroll(4) {
        for v in vectorized(0..VEC) {
            values[v] = x.masked([block * tiles * 1024 + (step * 256 + t) * VEC + v]);
        }
        for v in unroll(0..VEC) {
            sum += values[v];
        }
    }
    let total = thread_allreduce(Sum, sum, t);
    if t == 0 {
        sums[block] = total;
    }
}

/// `y[i] = x[0] + .. + x[i]`. A block scans a chunk, `256 * VEC` elements a step.
#[tile_kernel(instances(VEC in [4, 1]), dtypes(T in [f32, i32, u32]), require(N % VEC == 0))]
pub fn scan_chunks<T: Number, const VEC: usize>(
    x: &Tensor<T, (N,)>,
    sums: &Tensor<T, (C,)>,
    y: &mut Tensor<T, (N,)>,
    tiles: usize,
) {
    let [block] = blocks([C]);
    let [t] = threads([256]);
    let mut values = alloc_local::<T>([VEC]);
    let mut warps = alloc_shared::<T>([8]);
    let mut mine = T::ZERO;
    for step in 0..ceil_div(block, 256) {
        mine += if step * 256 + t < block { sums.masked([step * 256 + t]) } else { T::ZERO };
    }
    let mut before = thread_allreduce(Sum, mine, t); // of all chunks before this one
    for step in 0..tiles * (4 / VEC) {
        let first = block * tiles * 1024 + (step * 256 + t) * VEC;
        for v in vectorized(0..VEC) {
            values[v] = x.masked([first + v]);
        }
        for v in unroll(1..VEC) {
            values[v] += values[v - 1];
        }
        let mut sum = values[VEC - 1]; // of this lane and, at last, all lanes below it
        for d in unroll(0..5) {
            let other = shfl_up(sum, 1 << d);
            sum += if t % 32 >= 1 << d { other } else { T::ZERO };
        }
        let below = shfl_up(sum, 1);
        if t % 32 == 31 {
            warps[t / 32] = sum;
        }
        sync_threads();
        let mut start = before + if t % 32 > 0 { below } else { T::ZERO };
        for w in unroll(0..8) {
            start += if w < t / 32 { warps[w] } else { T::ZERO };
            before += warps[w];
        }
        for v in unroll(0..VEC) {
            values[v] += start;
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([first + v]) = values[v];
        }
        sync_threads();
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// The prefix sums of `x` in `y`, inclusive: `y[i]` has `x[i]` in it. `sums` is scratch, an element a chunk; [`chunks`] says how
/// many are good. The order of additions depends on the lengths alone, so equal calls give equal bits.
///
/// # Errors
/// Where lengths differ or tensors overlap, and whatever a launch may fail with.
pub fn scan<T: Number>(
    on: &impl LaunchOn,
    x: TensorView<'_, T, 1>,
    mut sums: TensorViewMut<'_, T, 1>,
    mut y: impl TensorOutput<T, 1>,
) -> Result<(), LaunchError> {
    let vec = width(4, &[x.argument(), y.argument()]);
    let tiles = x.len().div_ceil(1024 * sums.len().max(1));
    chunk_sums::<T>::instance(on.device(), ChunkSumsParams { VEC: vec })?.launch_on(on, x, &mut sums, tiles)?;
    scan_chunks::<T>::instance(on.device(), ScanChunksParams { VEC: vec })?.launch_on(on, x, sums.view(), y, tiles)
}
// ANCHOR_END: host

/// How many chunks to cut an array into: enough blocks for the largest GPUs, each with at least 1,024 elements.
pub fn chunks(elements: usize) -> usize {
    elements.div_ceil(1024).clamp(1, 1024)
}

/// Inclusive prefix sums of integers, wrapping.
pub fn reference(x: &[u32]) -> Vec<u32> {
    let next = |sum: &mut u32, value: &u32| {
        *sum = sum.wrapping_add(*value);
        Some(*sum)
    };
    x.iter().scan(0, next).collect()
}
