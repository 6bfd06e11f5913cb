//! Products of tf32 whose operands both lie across K. `wgmma` takes one of them at least along K, so one is copied first, transposed
//! ([`pack_transposed_batch`]), where that is expected to take less than multiplying them by `mma.sync` as they are.

use super::super::pack::{self, pack_transposed_batch};
use super::super::span;
use super::Choice;
use crate::gemm::{Gemm, GemmElement};
use tile_runtime::kernel::{Argument, LaunchOn, Place, Scratch};
use tile_runtime::prelude::*;

/// Launches what a choice says. `behind`: where a launch goes that has nothing but another one of this call in front of it.
#[track_caller]
pub(super) fn launch<T: GemmElement<C>, C: Element>(
    on: &Place<'_>,
    behind: &Place<'_>,
    choice: Choice,
    a: TensorView<'_, T, 3>,
    b: TensorView<'_, T, 3>,
    c: TensorViewMut<'_, C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    static SCRATCH: Scratch = Scratch::new();
    let [of_a, of_b] = choice.turned;
    if !of_a && !of_b {
        return T::launch_batch(on, choice, a, b, c, options);
    }
    let x = if of_a { a } else { b };
    let [batches, depth, width] = x.shape();
    let pitch = pack::pitch(depth as i64, size_of::<T>() as i64) as usize;
    let mut lent = SCRATCH.lend::<T, 3>(on, [batches, width, pitch])?;
    let part = [0..batches, 0..width, 0..depth];
    let y = lent.view_mut().slice(part.clone())?;
    pack_transposed_batch::<T>::instance(on.device())?.launch_on(on, x, y)?;
    let y = lent.view().slice(part)?;
    let (a, b) = if of_a { (y, b) } else { (a, y) };
    let [a_transposed, b_transposed] = [options.a_transposed ^ of_a, options.b_transposed ^ of_b];
    let options = Gemm { a_transposed, b_transposed, ..*options };
    let choice = Choice { turned: [false; 2], ..choice };
    T::launch_batch(behind, choice, a, b, c, &options)
}

/// Whether the launch of a product that follows a copy will not be refused: all tensors are on the device, the result is apart from the
/// operands, and the bias has its length. Their extents agree already where there may be a copy.
pub(super) fn is_accepted<T: Element>(
    on: &impl LaunchOn,
    tensors: [Argument<'_>; 3],
    options: &Gemm<'_, T>,
) -> bool {
    let [Argument::Tensor(a), Argument::Tensor(b), Argument::Tensor(c)] = tensors else { return false };
    let columns = c.shape().last().copied().unwrap_or(0);
    let bias = options.bias.is_none_or(|bias| bias.is_on(on.device()) && bias.len() as i64 == columns);
    let apart = [&a, &b].into_iter().all(|x| span(x).1 <= span(&c).0 || span(&c).1 <= span(x).0);
    bias && apart && [&a, &b, &c].into_iter().all(|x| x.is_on(on.device()))
}
