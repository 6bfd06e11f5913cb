//! Loops.

use super::shadow;
use std::ops::Range;

/// `for i in serial(a..b)`: one iteration after another, as `for i in a..b`.
pub fn serial(range: impl LoopRange) -> SerialLoop {
    let _ = range;
    shadow()
}

/// `for i in unroll(a..b)`: all iterations written out; the extent is constant.
pub fn unroll(range: impl LoopRange) -> LoopIndices {
    let _ = range;
    shadow()
}

/// `for v in vectorized(0..vec)`: each memory access of the body is one transaction over the whole range.
///
/// The body is straight-line; each access has stride 0 or 1 in the index, and is one access of 2, 4, 8 or 16 bytes.
/// Arithmetic is per element. It is a demand: an access that cannot be proven aligned is an error that names the
/// `require(..)` to add.
pub fn vectorized(range: impl LoopRange) -> LoopIndices {
    let _ = range;
    shadow()
}

/// `for i in pipelined(a..b, stages)`: as `serial`, with the loads of an iteration issued `stages - 1` iterations ahead.
///
/// The loads are the statements that lead the body: they only fill arrays, allocated before the loop, from `&` tensors,
/// at addresses made of constants, dims and indices, the same elements in every iteration. The loop keeps `stages` copies
/// of those arrays, 1 to 8; nothing outside of it may use them. An array that is allocated in the body is not loaded ahead.
///
/// Arrays of `alloc_local` are loaded into registers, arrays of `alloc_shared` by asynchronous copies, by `copy` or element
/// by element. The waits and barriers of the latter are the compiler's: every thread of the block must come by, equally
/// often, and none needs to synchronise.
pub fn pipelined(range: impl LoopRange, stages: usize) -> LoopIndices {
    let _ = (range, stages);
    shadow()
}

/// `for [i, j] in parallel([m, n])`: every index tuple once, spread over the threads of the block; the last index
/// varies fastest. Every thread of the block must reach it; which thread takes which tuple is the compiler's choice.
pub fn parallel<const N: usize>(extents: [usize; N]) -> impl Iterator<Item = [usize; N]> {
    let _ = extents;
    std::iter::from_fn(|| shadow())
}

/// A loop whose execution can be steered.
pub struct SerialLoop(());

/// The indices of a loop.
pub struct LoopIndices(());

impl SerialLoop {
    /// Every `step`-th index only.
    pub fn step_by(self, step: usize) -> SerialLoop {
        let _ = step;
        shadow()
    }

    /// Writes out `factor` iterations at a time; a constant.
    pub fn unroll(self, factor: usize) -> SerialLoop {
        let _ = factor;
        shadow()
    }
}

/// What a loop runs over: `a..b` of `usize`.
#[diagnostic::on_unimplemented(
    message = "a loop of the kernel language runs over `a..b` of `usize`, not over `{Self}`",
    label = "expected a range `a..b`"
)]
pub trait LoopRange: Sized {
    /// Writes out `factor` iterations at a time; a constant.
    fn unroll(self, factor: usize) -> SerialLoop {
        let _ = factor;
        shadow()
    }
}

impl LoopRange for Range<usize> {}
impl LoopRange for std::iter::StepBy<Range<usize>> {}
impl LoopRange for SerialLoop {}

impl Iterator for SerialLoop {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        shadow()
    }
}

impl Iterator for LoopIndices {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        shadow()
    }
}
