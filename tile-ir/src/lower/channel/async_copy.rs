//! Loads by `cp.async`: every thread copies its part of a tile, 4, 8 or 16 bytes at a time, while the block computes.

use super::super::block::WARP;
use super::super::tile::CopySide;
use super::super::vector::Vector;
use super::super::*;
use super::own_rows::Pieces;
use crate::analysis::SharedLoad;

/// Copies of a tile that a thread issues one by one; more stay a loop.
const MOST_WRITTEN_OUT: u32 = 4;
/// Copies of a tile of 16-bit elements that a thread issues one by one where they lie below one another, which takes fewer registers. Products in
/// f32 have none left: they spill.
pub(super) const MOST_BELOW: u32 = 8;

/// Copies of a tile that is stored column after column that a thread issues one by one: of an element each.
const MOST_TURNED: u32 = 16;
/// Of these, how many addresses in a row are computed each from that of the one before. The assembler makes products of longer rows.
const MOST_WALKED: u32 = 4;

impl Lowering<'_> {
    /// The elements of one asynchronous copy, if a load is made of such; else that is remarked. `None` also for what is
    /// no load of a pipelined loop.
    pub(in crate::lower) fn asynchronous_width(&mut self, stmt: StmtId) -> Option<u32> {
        match self.analysis.shared_loads.get(&stmt)? {
            SharedLoad::Asynchronous { width } => Some(*width),
            SharedLoad::Synchronous { why } => {
                let text = format!("this load is not asynchronous, it waits for its data when it is issued: {why}");
                self.out.remark(RemarkKind::Fallback, self.kernel.stmts[stmt].span, text);
                None
            }
        }
    }

    /// The asynchronous copy of an element that a pipelined loop loads, or of the elements of a vectorised loop; whether it is one.
    pub(in crate::lower) fn asynchronous_element(
        &mut self,
        stmt: StmtId,
        access: AccessId,
        value: ExprId,
        vector: Option<Vector>,
    ) -> bool {
        let Some(width) = self.asynchronous_width(stmt) else { return false };
        if let ExprKind::Load(source) = self.kernel.exprs[value].kind {
            let [from, to] = [source, access].map(|access| match vector {
                Some(vector) => self.at_first(vector, |l| l.memory(access)),
                None => self.memory(access),
            });
            self.op(OpKind::AsyncCopy { to, from, width });
        }
        true
    }

    /// A tile copy by transactions of `width` elements, which its rows are made of.
    pub(in crate::lower) fn asynchronous_tile(
        &mut self,
        src: &CopySide<'_>,
        dst: &CopySide<'_>,
        extents: &[u32],
        width: u32,
    ) {
        // Neighbours of a row lie in as many columns.
        let array = dst.tile.place.buffer();
        let layout = array.and_then(|array| self.layouts.shared.get(&array).copied());
        let turned = layout.is_some_and(|layout| layout.is_column_major());
        let width = if turned { 1 } else { width };
        let mut parts = extents.to_vec();
        parts.iter_mut().last().into_iter().for_each(|inner| *inner /= width);
        let copy = |l: &mut Self, mut indices: Vec<ValueId>| {
            if let Some(last) = indices.last_mut() {
                *last = l.binary(BinaryOp::Mul, *last, width);
            }
            let indices = l.named(indices);
            let [from, to] = [src, dst].map(|side| l.tile_memory(side, &indices));
            l.copy_if_there(from, to, width);
        };
        let (total, threads) = (parts.iter().product::<u32>(), self.thread_total());
        if let (true, [_, columns]) = (turned && self.rank(src.tile.place) >= 2 && src.rows.is_empty(), &parts[..])
            && total.is_multiple_of(threads)
            && total / threads <= MOST_TURNED
            && threads.is_multiple_of(*columns)
        {
            // An element's offset in the tensor follows from that of the one above, a few times in a row.
            let thread = self.linear_thread();
            let place = self.split(thread, &parts);
            let (each, apart) = (total / threads, threads / columns);
            for first in (0..each).step_by(MOST_WALKED as usize) {
                let row = self.binary(BinaryOp::Add, place[0], first * apart);
                let Some((offset, step)) = self.walked(src, [row, place[1]], apart) else {
                    return self.bug("a tile of a tensor without rows");
                };
                let count = MOST_WALKED.min(each - first);
                self.copy_below([row, place[1]], count, apart, |l, indices| {
                    let mut from = l.tile_memory(src, &indices);
                    from.offset = l.read(offset);
                    let to = l.tile_memory(dst, &indices);
                    l.copy_if_there(from, to, width);
                    l.set(offset, offset + step);
                });
            }
            return;
        }
        if let [rows, columns] = parts[..]
            && array.is_some_and(|array| self.own_rows.contains(&array))
            && let Some(pieces) = Pieces::of(rows, columns, threads / WARP)
        {
            return self.copy_own_rows(src, dst, pieces, width);
        }
        if layout.is_none() || !total.is_multiple_of(threads) {
            return self.spread("part", &parts, copy);
        }
        // Every thread has as many: written out, their addresses are computed before the loop over K.
        let each = total / threads;
        if each > MOST_WRITTEN_OUT {
            let below =
                self.dtype_of(dst.tile.place).bytes() == 2 && each <= MOST_BELOW || turned && each <= MOST_TURNED;
            if !matches!(parts[..], [_, columns] if below && threads.is_multiple_of(columns)) {
                return self.spread("part", &parts, copy);
            }
            // A thread's pieces have one column, and rows a constant apart.
            let thread = self.linear_thread();
            let place = self.split(thread, &parts);
            return self.copy_below([place[0], place[1]], each, threads / parts[1], copy);
        }
        self.unrolled("i", each, |l, index| {
            let thread = l.linear_thread();
            let part = l.once("part", thread + index * threads);
            let indices = l.split(part, &parts);
            copy(l, indices);
        });
    }

    /// A thread's pieces of the rows that its warp alone reads: addresses of the first piece are computed once, those of the others differ by a few rows.
    fn copy_own_rows(&mut self, src: &CopySide<'_>, dst: &CopySide<'_>, pieces: Pieces, width: u32) {
        let layout = dst.tile.place.buffer().and_then(|array| self.layouts.shared.get(&array).copied());
        let (Some(layout), Some(stride)) = (layout, self.row_stride(src.tile.place)) else {
            return self.bug("a warp copies its rows from a tensor to an array of rows");
        };
        let thread = self.linear_thread();
        let row = self.once("first_row", thread / WARP * pieces.rows + thread % WARP / pieces.columns);
        let column = self.once("column", thread % pieces.columns * width);
        let [from, to] = [src, dst].map(|side| {
            let name = format!("{}_first", self.kernel.place_name(side.tile.place));
            let first = self.tile_memory(side, &[row, column]);
            Memory { offset: self.once(&name, first.offset), ..first }
        });
        self.unrolled("i", pieces.count(), |l, index| {
            let rows = l.eval(index * pieces.apart());
            let below = l.eval(row + rows);
            let apart = l.widen(rows);
            let source =
                Memory { offset: l.eval(from.offset + apart * stride), ..l.tile_memory(src, &[below, column]) };
            let to = Memory { offset: l.formula([to.offset, rows], |[first, rows]| layout.below(first, rows)), ..to };
            l.copy_if_there(source, to, width);
        });
    }

    /// An asynchronous copy, which reads something where there is an iteration that it is for.
    fn copy_if_there(&mut self, mut from: Memory, to: Memory, width: u32) {
        if let Some(exists) = self.exists {
            from.guard = Some(match from.guard {
                Some(guard) => Guard { cond: self.binary(BinaryOp::And, exists, guard.cond), ..guard },
                None => Guard { cond: exists, reason: GuardReason::Masked },
            });
        }
        self.op(OpKind::AsyncCopy { to, from, width });
    }

    /// `count` copies of a thread, the first at a row and column and the others `apart` rows below one another.
    fn copy_below(
        &mut self,
        [row, column]: [ValueId; 2],
        count: u32,
        apart: u32,
        copy: impl FnOnce(&mut Self, Vec<ValueId>),
    ) {
        let (row, column) = (self.once("first_row", row), self.once("column", column));
        self.unrolled("i", count, |l, index| {
            let row = l.binary(BinaryOp::Add, row, index * apart);
            copy(l, vec![row, column]);
        });
    }
}
