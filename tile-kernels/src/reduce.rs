//! Sums and maxima over the threads that share a row, and where a maximum is.

use tile_runtime::prelude::*;

/// The sum of `value` over a warp, or over the `WARPS` warps of the block where there are several; the same in every thread. `t`
/// is the thread's index in its row.
///
/// Each lane reads one warp's sum and the rest is shuffles: every thread reading all of them costs a quarter more time in a
/// block of 512 threads.
#[tile_fn]
pub fn row_sum<const WARPS: usize>(value: f32, t: usize) -> f32 {
    let mut sum = warp_reduce(Sum, value);
    if WARPS > 1 {
        let mut partial = alloc_shared::<f32>([WARPS]);
        if t % 32 == 0 {
            partial[t / 32] = sum;
        }
        sync_threads();
        if WARPS & (WARPS - 1) == 0 {
            sum = partial[t % WARPS];
        } else {
            sum = if t % 32 < WARPS { partial[t % 32] } else { 0.0 };
        }
        for step in unroll(0..5) {
            if (1 << step) < WARPS {
                sum += shfl_xor(sum, 1 << step);
            }
        }
    }
    sum
}

/// Two sums over a row, which share the barrier: [`row_sum`] of each row of `values`, left in its first column. Column `p` of a thread is added as if it were that of
/// thread `p * 32 * WARPS + t` of a block with so many times the threads: that block's sums are the same bits.
#[tile_fn]
pub fn row_sums<const WARPS: usize>(values: &mut LocalArray<f32, (TWO, PARTS)>, t: usize) {
    for i in unroll(0..2) {
        for p in unroll(0..PARTS) {
            values[[i, p]] = warp_reduce(Sum, values[[i, p]]);
        }
    }
    if WARPS > 1 {
        let mut partial = alloc_shared::<f32>([2, PARTS * WARPS]);
        if t % 32 == 0 {
            for i in unroll(0..2) {
                for p in unroll(0..PARTS) {
                    partial[[i, p * WARPS + t / 32]] = values[[i, p]];
                }
            }
        }
        sync_threads();
        for i in unroll(0..2) {
            values[[i, 0]] = partial[[i, t % (PARTS * WARPS)]];
            for step in unroll(0..5) {
                if (1 << step) < PARTS * WARPS {
                    values[[i, 0]] += shfl_xor(values[[i, 0]], 1 << step);
                }
            }
        }
    } else {
        for i in unroll(0..2) {
            for p in unroll(1..PARTS) {
                values[[i, 0]] += values[[i, p]];
            }
        }
    }
}

/// [`row_sum`] of `a + b`, where 16 warps have a row: lanes 16 apart exchange one of the two values each and go on with the other, which shortens what one
/// row takes by 2%.
#[tile_fn]
pub fn row_sum_of_two<const WARPS: usize>(a: f32, b: f32, t: usize) -> f32 {
    let is_first = t % 32 < 16;
    let mut sum = if is_first { a } else { b } + shfl_xor(if is_first { b } else { a }, 16);
    for step in unroll(0..4) {
        sum += shfl_xor(sum, 8 >> step);
    }
    let mut partial = alloc_shared::<f32>([2 * WARPS]);
    if t % 16 == 0 {
        partial[t % 32 / 16 * WARPS + t / 32] = sum;
    }
    sync_threads();
    sum = partial[t % (2 * WARPS)];
    for step in unroll(0..5) {
        if (1 << step) < 2 * WARPS {
            sum += shfl_xor(sum, 1 << step);
        }
    }
    sum
}

/// The largest `value` of a warp, or of the `WARPS` warps of the block; the same in every thread. NaNs are passed over.
#[tile_fn]
pub fn row_max<const WARPS: usize>(value: f32, t: usize) -> f32 {
    let mut most = warp_reduce(Max, value);
    if WARPS > 1 {
        let mut partial = alloc_shared::<f32>([WARPS]);
        if t % 32 == 0 {
            partial[t / 32] = most;
        }
        sync_threads();
        most = partial[t % WARPS];
        for step in unroll(0..5) {
            if (1 << step) < WARPS {
                most = max(most, shfl_xor(most, 1 << step));
            }
        }
    }
    most
}

/// The least `place` of the greatest `value` of a block of 1,024 threads, in every thread; with several `PARTS` that value is `most[0]` then. `t` is the
/// thread's index. NaNs are passed over.
///
/// `thread_argmax` has every thread read the results of all 32 warps, twice; here each lane reads one, once.
#[tile_fn]
pub fn block_argmax<const PARTS: usize>(value: f32, place: u32, t: usize, most: &mut LocalArray<f32, (ONE,)>) -> u32 {
    let mut tops = alloc_shared::<f32>([32]);
    let mut places = alloc_shared::<u32>([32]);
    let (warp_most, warp_place) = warp_argmax(value, place);
    if t % 32 == 0 {
        tops[t / 32] = warp_most;
        places[t / 32] = warp_place;
    }
    sync_threads();
    let (largest, answer) = warp_argmax(tops[t % 32], places[t % 32]);
    if PARTS > 1 {
        most[0] = largest;
    }
    answer
}
