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
pub fn pipelined(range: impl LoopRange, stages: usize) -> PipelinedLoop {
    let _ = (range, stages);
    shadow()
}

/// `for [i, j] in parallel([m, n])`: every index tuple once, spread over the threads of the block; the last index
/// varies fastest. Every thread of the block must reach it; which thread takes which tuple is the compiler's choice.
pub fn parallel<const N: usize>(extents: [usize; N]) -> impl Iterator<Item = [usize; N]> {
    let _ = extents;
    std::iter::from_fn(|| shadow())
}

/// `for [x, y] in persistent([tx, ty])`: every tile of a grid once, in place of [`super::blocks`]. The grid is as large as
/// what the device holds at once; a block takes one tile after another, and its loads run ahead into the next.
///
/// It stands at the end of the body; before it are declarations only.
pub fn persistent<const N: usize>(extents: [usize; N]) -> PersistentTiles<N> {
    let _ = extents;
    shadow()
}

/// The tiles of a [`persistent`] loop.
pub struct PersistentTiles<const N: usize>(());

impl<const N: usize> PersistentTiles<N> {
    /// How many blocks a multiprocessor holds, instead of as many as fit; a constant.
    pub fn per_sm(self, blocks: usize) -> PersistentTiles<N> {
        let _ = blocks;
        shadow()
    }

    /// A block takes tiles that follow each other, instead of tiles a grid apart.
    pub fn contiguous(self) -> PersistentTiles<N> {
        shadow()
    }

    /// A block that is done with a tile takes the next one that no block has, instead of one a grid apart: for tiles that take differently
    /// long, the longest first. They are counted in `counter`, an element with a constant index of a [`super::Workspace`], which is
    /// 0 before and after a launch. A block takes its first tile without counting, and where a target has blocks of one tile each, nothing is
    /// counted.
    pub fn counter(self, counter: &mut u32) -> PersistentTiles<N> {
        let _ = counter;
        shadow()
    }
}

impl<const N: usize> Iterator for PersistentTiles<N> {
    type Item = [usize; N];
    fn next(&mut self) -> Option<[usize; N]> {
        shadow()
    }
}

/// A loop whose loads run ahead.
pub struct PipelinedLoop(());

impl PipelinedLoop {
    /// Who computes while whom, in a loop of [`super::gemm`]s: [`Auto`], [`Cooperative`], [`PingPong`] or [`Rolled`].
    pub fn schedule(self, schedule: impl ScheduleName) -> PipelinedLoop {
        let _ = schedule;
        shadow()
    }
}

impl Iterator for PipelinedLoop {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        shadow()
    }
}

/// A schedule of a pipelined loop: `Auto`, `Cooperative`, `PingPong`, `Rolled`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a schedule of a pipelined loop",
    label = "expected `Auto`, `Cooperative`, `PingPong` or `Rolled`"
)]
pub trait ScheduleName {}

/// The type of [`Auto`].
#[derive(Clone, Copy)]
pub struct AutoChoice(());
impl ScheduleName for AutoChoice {}
impl super::array::SwizzleName for AutoChoice {}

/// The type of [`Cooperative`], [`PingPong`] and [`Rolled`].
#[derive(Clone, Copy)]
pub struct ScheduleChoice(());
impl ScheduleName for ScheduleChoice {}

/// The compiler chooses.
#[allow(non_upper_case_globals)]
pub const Auto: AutoChoice = AutoChoice(());
/// Every computing warp works on the same tile, and its products are issued in the order of the text.
#[allow(non_upper_case_globals)]
pub const Cooperative: ScheduleChoice = ScheduleChoice(());
/// Two groups of warps work on two tiles: one computes while the other stores.
#[allow(non_upper_case_globals)]
pub const PingPong: ScheduleChoice = ScheduleChoice(());
/// Every warp loads and computes, and the loop's body is in the program once, not once a stage.
#[allow(non_upper_case_globals)]
pub const Rolled: ScheduleChoice = ScheduleChoice(());

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
