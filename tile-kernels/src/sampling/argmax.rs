//! The place of the largest logit of each row.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// The place of the first of the largest elements of a row, the same for all of a block's 1,024 threads; `u32::MAX` where no element is a
/// number. `t` is the thread's index.
#[tile_fn]
pub fn greedy<T: Float, const VEC: usize>(logits: &Tensor<T, (S, V)>, row: usize, t: usize) -> u32 {
    let mut values = alloc_local::<T>([4, VEC]);
    let mut best = f32::NEG_INFINITY;
    let mut place = 0xffffffffu32;
    for step in 0..ceil_div(V, 4 * 1024 * VEC) {
        let first = (step * 4 * 1024 + t) * VEC;
        for u in unroll(0..4) {
            for v in vectorized(0..VEC) {
                values[[u, v]] = logits.masked([row, first + u * 1024 * VEC + v]); // four loads in flight
            }
        }
        for u in unroll(0..4) {
            for v in unroll(0..VEC) {
                let value = values[[u, v]].cast::<f32>();
                let at = first + u * 1024 * VEC + v;
                // A thread's places ascend; -inf is a number, and the first one counts where there is no larger.
                if at < V && (value > best || value == best && (at as u32) < place) {
                    best = value;
                    place = at as u32;
                }
            }
        }
    }
    let (_, answer) = thread_argmax(best, place, t);
    answer
}

/// `tokens[row]` is the place of the first of the largest elements of row `row`. A block of 1,024 threads a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(V % VEC == 0),
    pdl(independent = []),
    uses(greedy)
)]
pub fn argmax_rows<T: Float, const VEC: usize>(logits: &Tensor<T, (S, V)>, tokens: &mut Tensor<u32, (S,)>) {
    let [row] = blocks([S]);
    let [t] = threads([1024]);
    let answer = greedy::<T, VEC>(logits, row, t);
    if t == 0 {
        tokens[row] = answer;
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
    let params = ArgmaxRowsParams { VEC: widest::<T>(&[logits.argument()]) };
    argmax_rows::<T>::instance(on.device(), params)?.launch_on(on, logits, tokens)
}
