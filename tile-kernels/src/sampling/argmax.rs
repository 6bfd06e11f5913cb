//! The place of the largest logit of each row.

use crate::reduce::block_argmax;
use crate::vector::{extents, widest};
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// The place of the first of the largest elements of a part of a row, the same for all of a block's 1,024 threads, and its value
/// in `most[0]` where there are several parts; `u32::MAX` and -inf where no element is a number. `t` is the thread's index.
///
/// The row's vectors are dealt out to `PARTS` blocks 1,024 at a time. A thread goes from its last element to its first, so that one
/// comparison does: an element that is no less than what was seen takes its place, -inf too, and NaN never does.
#[tile_fn(uses(block_argmax))]
pub fn greedy<T: Float, const VEC: usize, const PARTS: usize>(
    logits: &Tensor<T, (S, V)>,
    row: usize,
    part: usize,
    t: usize,
    most: &mut LocalArray<f32, (ONE,)>,
) -> u32 {
    let loads = if PARTS > 4 { 1 } else { 4 }; // in flight; of many parts each has few elements
    let mut values = alloc_local::<T>([loads, VEC]);
    let mut best = f32::NEG_INFINITY;
    let mut place = 0xffffffffu32;
    let steps = ceil_div(V, loads * PARTS * 1024 * VEC);
    for done in 0..steps {
        let step = steps - 1 - done;
        let first = ((step * loads * PARTS + part) * 1024 + t) * VEC;
        for u in unroll(0..loads) {
            for v in vectorized(0..VEC) {
                values[[u, v]] = logits.masked([row, first + u * PARTS * 1024 * VEC + v]);
            }
        }
        for back in unroll(0..loads) {
            let begin = first + (loads - 1 - back) * PARTS * 1024 * VEC;
            if begin < V {
                let mut within = VEC as u32;
                for v in unroll(0..VEC) {
                    let value = values[[loads - 1 - back, VEC - 1 - v]].cast::<f32>();
                    if value >= best {
                        best = value;
                        within = (VEC - 1 - v) as u32;
                    }
                }
                if within < VEC as u32 {
                    place = begin as u32 + within;
                }
            }
        }
    }
    block_argmax::<PARTS>(best, place, t, most)
}

/// Of the parts' results of one row, the place of the first of the largest elements; in the threads of the first warp. `t` is the
/// thread's index.
#[tile_fn]
pub fn first_of_parts<const PARTS: usize>(
    values: &Tensor<f32, (ROWS, MOST)>,
    places: &Tensor<u32, (ROWS, MOST)>,
    row: usize,
    t: usize,
) -> u32 {
    let mut answer = 0xffffffffu32;
    if t < 32 {
        let mut value = f32::NEG_INFINITY;
        let mut place = 0xffffffffu32;
        if t < PARTS {
            value = values[[row, t]];
            place = places[[row, t]];
        }
        let (_, least) = warp_argmax(value, place);
        answer = least;
    }
    answer
}

/// `tokens[row]` is the place of the first of the largest elements of row `row`. `PARTS` blocks of 1,024 threads a row; where they
/// are several, the last to be done combines their results.
#[tile_kernel(
    instances(VEC in [8, 4, 1], PARTS in [1, 4, 32], where VEC * T::BITS == 128 || VEC == 1, where PARTS != 4 || VEC > 1),
    require(V % VEC == 0),
    require(PARTS == 1 || S <= 128),
    pdl(independent = []),
    uses(greedy, first_of_parts, block_argmax)
)]
pub fn argmax_rows<T: Float, const VEC: usize, const PARTS: usize>(
    logits: &Tensor<T, (S, V)>,
    tokens: &mut Tensor<u32, (S,)>,
    values: &mut Workspace<f32, (Fixed<128>, Fixed<32>)>,
    places: &mut Workspace<u32, (Fixed<128>, Fixed<32>)>,
    arrived: &mut Workspace<u32, (Fixed<128>,)>,
) {
    let [row, part] = blocks([S, PARTS]);
    let [t] = threads([1024]);
    let mut most = alloc_local::<f32>([1]);
    let answer = greedy::<T, VEC, PARTS>(logits, row, part, t, &mut most);
    if PARTS == 1 {
        if t == 0 {
            tokens[row] = answer;
        }
    } else {
        if t == 0 {
            values[[row, part]] = most[0];
            places[[row, part]] = answer;
        }
        if last_arriver(&mut arrived[row], PARTS) {
            let token = first_of_parts::<PARTS>(values, places, row, t);
            if t == 0 {
                tokens[row] = token;
            }
        }
    }
}

/// How many blocks read a row: as many as leave a GPU of the size of an H200 no multiprocessor idle, where a row is more than one
/// block loads at once. What is found is the same.
pub(super) fn parts(rows: usize, columns: usize, vec: usize) -> usize {
    match rows {
        _ if columns <= 4 * 1024 * vec => 1,
        0..=8 => 32,
        9..=66 if vec > 1 => 4,
        _ => 1,
    }
}

/// `tokens[i]` is the place of the largest element of row `i` of `logits`, of equal ones the least: `logits` of shape `[S, V]`,
/// `tokens` of `[S]`. NaN is never the largest; a row of nothing but NaN, or of no element, gives `u32::MAX`.
///
/// f16, bf16 and f32; any shape, and views with a row pitch.
///
/// # Errors
/// Where shapes differ, a tensor lives elsewhere, or `tokens` overlaps `logits`; and whatever compiling and launching may fail
/// with. Nothing is launched then.
#[track_caller]
pub fn argmax<T: Float>(
    on: &impl LaunchOn,
    logits: impl TensorInput<T, 2>,
    tokens: impl TensorOutput<u32, 1>,
) -> Result<(), LaunchError> {
    let vec = widest::<T>(&[logits.argument()]);
    let [rows, columns] = extents(&logits.argument());
    let params = ArgmaxRowsParams { VEC: vec, PARTS: parts(rows, columns, vec) };
    argmax_rows::<T>::instance(on.device(), params)?.launch_on(on, logits, tokens)
}
