//! The least logit that is kept, found without sorting: by radix selection.

use tile_runtime::prelude::*;

/// A word whose order is that of the numbers: 0 and -0 have one, NaN has 0, which is below all others.
#[tile_fn]
pub fn ordered(x: f32) -> u32 {
    let bits = to_bits(x);
    let mut key = 0x80000000u32;
    if x > 0.0 {
        key = bits | 0x80000000u32;
    } else if x < 0.0 {
        key = !bits;
    } else if is_nan(x) {
        key = 0u32;
    }
    key
}

/// How far below the largest logit one lies, divided by the temperature: the logarithm of its weight, 0 or less.
#[tile_fn]
pub fn distance(x: f32, largest: f32, temperature: f32) -> f32 {
    let mut value = 0.0f32;
    if x != largest {
        value = (x - largest) / temperature;
    }
    value
}

/// Among the elements of a row whose [`ordered`] word is at least `lower`, the greatest word such that those from it on make up
/// `amount`: with `MASS` that part of the sum of all weights, else that many elements. `lower` where they never do.
///
/// The words' leading 11 bits are counted in shared memory, then the next ones of those elements that have the bits in which
/// the amount is reached, then the last ones. Weights are counted in units of 2^-28 of the largest, as two sums of 14 bits each, so that
/// what is found depends neither on the order of additions nor on how many threads there are. 1,024 threads; `t` is the thread.
#[tile_fn(uses(ordered, distance))]
pub fn threshold<T: Float, const VEC: usize, const MASS: bool>(
    logits: &Tensor<T, (S, V)>,
    row: usize,
    t: usize,
    lower: u32,
    amount: f32,
    largest: f32,
    temperature: f32,
    low: &mut SharedArray<u32, (BINS,)>,
    high: &mut SharedArray<u32, (BINS,)>,
    parts: &mut SharedArray<u32, (PARTS, WARPS)>,
) -> u32 {
    let per = max(VEC, 4);
    let lane = t % 32;
    let warp = t / 32;
    // The last 10 bits of a 16-bit float's word follow from the others.
    let levels = if T::BITS == 16 { 2 } else { 3 };
    let mut prefix = 0u32;
    let mut above_low = 0u32; // of the elements that are greater than all with this prefix
    let mut above_high = 0u32;
    let mut goal = amount;
    for level in 0..levels {
        let shift = if level == 0 {
            21u32
        } else if level == 1 {
            10u32
        } else {
            0u32
        };
        let before = if level == 1 { 21u32 } else { 10u32 };
        let mask = if level == 2 { 1023u32 } else { 2047u32 };
        low[t] = 0;
        low[1024 + t] = 0;
        high[t] = 0;
        high[1024 + t] = 0;
        sync_threads();
        if t < 3 {
            parts[[2, t]] = 0; // the bin that is chosen, and what is above it
        }
        for step in 0..ceil_div(V, 1024 * per) {
            let first = (step * 1024 + t) * per;
            let mut values = alloc_local::<T>([per]);
            for part in unroll(0..per / VEC) {
                for v in vectorized(0..VEC) {
                    values[part * VEC + v] = logits.masked([row, first + part * VEC + v]);
                }
            }
            for v in unroll(0..per) {
                let x = values[v].cast::<f32>();
                let key = ordered(x);
                if first + v < V && key >= lower && (level == 0 || key >> before == prefix) {
                    let bin = ((key >> shift) & mask) as usize;
                    if MASS {
                        let weight = exp(distance(x, largest, temperature));
                        let units = min((weight * 268435456.0 + 0.5).cast::<u32>(), 268435455u32);
                        atomic_add(&mut low[bin], units & 16383u32);
                        atomic_add(&mut high[bin], units >> 14u32);
                    } else {
                        atomic_add(&mut low[bin], 1u32);
                    }
                }
            }
        }
        sync_threads();
        // Sums over the bins from the greatest down: of a thread's two, of the threads of its warp up to it, of the warps before.
        let low0 = low[2047 - 2 * t];
        let low1 = low[2046 - 2 * t];
        let high0 = high[2047 - 2 * t];
        let high1 = high[2046 - 2 * t];
        let mut sum_low = low0 + low1;
        let mut sum_high = high0 + high1;
        for step in unroll(0..5) {
            let other_low = shfl_up(sum_low, 1 << step);
            let other_high = shfl_up(sum_high, 1 << step);
            if lane >= 1 << step {
                sum_low += other_low;
                sum_high += other_high;
            }
        }
        if lane == 31 {
            parts[[0, warp]] = sum_low;
            parts[[1, warp]] = sum_high;
        }
        sync_threads();
        let mut warps_low = parts[[0, lane]];
        let mut warps_high = parts[[1, lane]];
        for step in unroll(0..5) {
            let other_low = shfl_up(warps_low, 1 << step);
            let other_high = shfl_up(warps_high, 1 << step);
            if lane >= 1 << step {
                warps_low += other_low;
                warps_high += other_high;
            }
        }
        let before_low = shfl(warps_low, max(warp, 1) - 1);
        let before_high = shfl(warps_high, max(warp, 1) - 1);
        let all_low = shfl(warps_low, 31);
        let all_high = shfl(warps_high, 31);
        if level == 0 {
            if MASS {
                goal = amount * (all_high.cast::<f32>() * 16384.0 + all_low.cast::<f32>());
            }
            goal = max(goal, 0.5); // at least one element
        }
        let mut base_low = above_low + sum_low - low0 - low1;
        let mut base_high = above_high + sum_high - high0 - high1;
        if warp > 0 {
            base_low += before_low;
            base_high += before_high;
        }
        // Exactly one bin takes the sum across the goal, if any does.
        let start = base_high.cast::<f32>() * 16384.0 + base_low.cast::<f32>();
        let middle = (base_high + high0).cast::<f32>() * 16384.0 + (base_low + low0).cast::<f32>();
        let end = (base_high + high0 + high1).cast::<f32>() * 16384.0 + (base_low + low0 + low1).cast::<f32>();
        if start < goal && middle >= goal {
            parts[[2, 0]] = (2047 - 2 * t) as u32;
            parts[[2, 1]] = base_low;
            parts[[2, 2]] = base_high;
        } else if middle < goal && end >= goal {
            parts[[2, 0]] = (2046 - 2 * t) as u32;
            parts[[2, 1]] = base_low + low0;
            parts[[2, 2]] = base_high + high0;
        }
        sync_threads();
        prefix = if level == 2 { (prefix << 10u32) | parts[[2, 0]] } else { (prefix << 11u32) | parts[[2, 0]] };
        above_low = parts[[2, 1]];
        above_high = parts[[2, 2]];
    }
    if T::BITS == 16 {
        prefix = prefix << 10u32;
    }
    max(prefix, lower)
}
