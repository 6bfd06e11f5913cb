//! Rows of a pipelined loop's arrays that one warp alone reads: the warp copies them itself, and no other warp is waited for.
//!
//! A grouped product gives every warp a matrix of its own. Where that is all that an iteration does with the arrays that the loop loads, a warp
//! that copies its matrix by `cp.async` needs to know of its own copies only: the ring is a ring for each warp, whose slots are awaited and released by
//! a barrier of the warp instead of one of the block.

use super::super::block::{Form, WARP};
use super::super::uses::{mentions, statements, touches};
use super::super::*;
use super::async_copy::MOST_BELOW;
use super::pipelined::is_touched_outside;
use crate::analysis::{CopyFacts, SharedLoad};
use crate::ir::pipeline::Split;
use crate::layout::swizzle::ATOM_ROWS;

/// What a thread copies of the rows of its warp: pieces below one another, each an asynchronous copy.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    /// Rows of a warp.
    pub(super) rows: u32,
    /// Pieces of a row.
    pub(super) columns: u32,
}

impl Pieces {
    /// The pieces of a thread of one of `warps` warps, where they come out even.
    pub(super) fn of(rows: u32, columns: u32, warps: u32) -> Option<Pieces> {
        let even = warps > 0 && rows.is_multiple_of(warps) && columns > 0 && WARP.is_multiple_of(columns);
        let pieces = Pieces { rows: rows.checked_div(warps)?, columns };
        // A thread's first row has none of the bits of the distances to the others, which swizzles are turned by.
        let apart = pieces.rows.is_power_of_two() || pieces.rows.is_multiple_of(ATOM_ROWS);
        (even && apart && pieces.rows.is_multiple_of(pieces.apart()) && (1..=MOST_BELOW).contains(&pieces.count()))
            .then_some(pieces)
    }

    /// Rows between two pieces of a thread.
    pub(super) fn apart(self) -> u32 {
        WARP / self.columns
    }

    /// Pieces of a thread.
    pub(super) fn count(self) -> u32 {
        self.rows / self.apart()
    }
}

impl Lowering<'_> {
    /// The arrays that the loop loads, in the order of their loads, where every warp can copy what it reads of them, and an iteration stores to no shared array.
    pub(super) fn own_rows(&self, split: &Split, body: &[StmtId]) -> Option<Vec<BufferId>> {
        let kernel = self.kernel;
        let (loads, rest) = body.split_at(split.loads);
        let load = |array: BufferId| loads.iter().position(|stmt| mentions(kernel, *stmt, array));
        let mut arrays: Vec<BufferId> = split.shared(kernel).collect();
        arrays.sort_by_key(|array| load(*array));
        let stores = statements(kernel, rest).into_iter().flat_map(|stmt| effects(kernel, stmt)).any(|effect| {
            matches!(effect, Effect::Write(place) | Effect::Atomic(place) if kernel.scope_of(place) == Some(Scope::Shared))
        });
        let is_own = |&array: &BufferId| {
            let mut loads = loads.iter().filter(|stmt| mentions(kernel, **stmt, array));
            loads.next().is_some_and(|load| self.copies_rows(*load, array))
                && loads.next().is_none()
                && self.is_the_warps(rest, array)
                && !is_touched_outside(kernel, array, body)
        };
        (!stores && !arrays.is_empty() && arrays.iter().all(is_own)).then_some(arrays)
    }

    /// Whether a load is one copy into all of an array of 16-bit elements, of which each thread has pieces of its warp's rows.
    fn copies_rows(&self, load: StmtId, buffer: BufferId) -> bool {
        let kernel = self.kernel;
        let StmtKind::Tile(TileOp::Copy { dst, .. }) = &kernel.stmts[load].kind else { return false };
        let Some(SharedLoad::Asynchronous { width }) = self.analysis.shared_loads.get(&load) else { return false };
        let [rows, columns] = kernel.buffer_extents(buffer)[..] else { return false };
        let is_plain = |facts: &CopyFacts| facts.rows.iter().all(Vec::is_empty);
        dst.start.is_empty()
            && self.analysis.copies.get(&load).is_some_and(is_plain)
            && kernel.buffer_dtype(buffer).bytes() == 2
            && columns.is_multiple_of(*width)
            && Pieces::of(rows, columns / width, self.thread_total() / WARP).is_some()
    }

    /// Whether statements read an array by products of warps alone, each of which has a matrix of its own.
    fn is_the_warps(&self, body: &[StmtId], buffer: BufferId) -> bool {
        let warps = self.thread_total() / WARP;
        let is_own = |product: &block::Product| {
            let by_warps = matches!(product.form, Form::Mma(grid) if (grid.rows, grid.cols) == (warps, 1));
            by_warps && product.groups == warps && product.b.0 == buffer && product.a.0 != buffer
        };
        let mut reading = statements(self.kernel, body).into_iter().filter(|stmt| touches(self.kernel, *stmt, buffer));
        reading.all(|stmt| self.products.get(&stmt).is_some_and(is_own))
    }
}
