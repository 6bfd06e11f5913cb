//! Batches of operands that are copied first to where TMA fetches them and `wgmma` multiplies them, as [`pack`] has it for one product: rows that
//! do not begin at multiples of 16 bytes into others ([`pack_rows_batch`]), and of operands as tf32 that both lie across K one, transposed
//! ([`pack_transposed_batch`]).

use super::super::pack::{self, Pack, PackRowsBatchParams, pack_rows_batch, pack_transposed_batch};
use super::super::span;
use super::Choice;
use crate::gemm::{Gemm, GemmElement};
use tile_runtime::kernel::{Argument, LaunchOn, Lent, Place, Scratch};
use tile_runtime::prelude::*;

/// Launches what a choice says. `behind`: where a launch goes that has nothing but others of this call in front of it.
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
    static SCRATCH: [Scratch; 2] = [const { Scratch::new() }; 2];
    if choice.packs == [None; 2] {
        return T::launch_batch(on, choice, a, b, c, options);
    }
    let [of_a, of_b] = choice.packs;
    let [scratch_a, scratch_b] = &SCRATCH;
    let copy_of_a = of_a.map(|pack| copied(on, scratch_a, pack, &a)).transpose()?;
    // A second copy has the first one in front of it.
    let second = if copy_of_a.is_some() { behind } else { on };
    let copy_of_b = of_b.map(|pack| copied(second, scratch_b, pack, &b)).transpose()?;
    let turned = choice.packs.map(|pack| pack == Some(Pack::Transposed));
    let a_transposed = options.a_transposed ^ turned[0];
    let b_transposed = options.b_transposed ^ turned[1];
    let (a, b) = (part_of(&copy_of_a, a, turned[0])?, part_of(&copy_of_b, b, turned[1])?);
    let choice = Choice { packs: [None; 2], ..choice };
    T::launch_batch(behind, choice, a, b, c, &Gemm { a_transposed, b_transposed, ..*options })
}

/// Launches the copy of an operand, into memory that has room for rows of its pitch.
#[track_caller]
fn copied<T: Element>(
    on: &Place<'_>,
    scratch: &'static Scratch,
    pack: Pack,
    x: &TensorView<'_, T, 3>,
) -> Result<Lent<T, 3>, LaunchError> {
    let [matrices, height, width] = extents(x, pack == Pack::Transposed);
    let pitch = pack::pitch(width as i64, size_of::<T>() as i64) as usize;
    let mut lent = scratch.lend::<T, 3>(on, [matrices, height, pitch])?;
    let y = lent.view_mut().slice([0..matrices, 0..height, 0..width])?;
    match pack {
        Pack::Rows { vec } => {
            pack_rows_batch::<T>::instance(on.device(), PackRowsBatchParams { VEC: vec })?.launch_on(on, *x, y)?;
        }
        Pack::Transposed => pack_transposed_batch::<T>::instance(on.device())?.launch_on(on, *x, y)?,
    }
    Ok(lent)
}

/// Matrices, rows and columns of an operand's copy.
fn extents<T: Element>(x: &TensorView<'_, T, 3>, turned: bool) -> [usize; 3] {
    let [matrices, rows, cols] = x.shape();
    if turned { [matrices, cols, rows] } else { [matrices, rows, cols] }
}

/// What an operand was copied to, or itself.
fn part_of<'a, T: Element>(
    copy: &'a Option<Lent<T, 3>>,
    x: TensorView<'a, T, 3>,
    turned: bool,
) -> Result<TensorView<'a, T, 3>, Error> {
    let Some(copy) = copy else { return Ok(x) };
    let [matrices, height, width] = extents(&x, turned);
    copy.view().slice([0..matrices, 0..height, 0..width])
}

/// Whether the launch of a product that follows copies will not be refused: all tensors are on the device, the result is apart from the
/// operands, and the bias has its length. Their extents agree already where there may be a copy.
pub(super) fn is_accepted<T: Element>(on: &impl LaunchOn, tensors: [Argument<'_>; 3], options: &Gemm<'_, T>) -> bool {
    let [Argument::Tensor(a), Argument::Tensor(b), Argument::Tensor(c)] = tensors else { return false };
    let columns = c.shape().last().copied().unwrap_or(0);
    let bias = options.bias.is_none_or(|bias| bias.is_on(on.device()) && bias.len() as i64 == columns);
    let apart = [&a, &b].into_iter().all(|x| span(x).1 <= span(&c).0 || span(&c).1 <= span(x).0);
    bias && apart && [&a, &b, &c].into_iter().all(|x| x.is_on(on.device()))
}
