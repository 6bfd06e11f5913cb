//! Loads staged in registers: what the asynchronous copies cannot move. Every thread loads its elements of a tile into registers, and
//! stores them to shared memory an iteration later.

use super::super::tile::CopySide;
use super::super::uses::declared;
use super::super::*;
use crate::analysis::SharedLoad;
use crate::ir::pipeline::Split;

/// Registers that accumulators and held elements may take together. Beyond it they would be spilled, which costs more than
/// waiting for the loads. What is left of 255 is for addresses and the operands of a product.
const MOST_REGISTERS: u32 = 176;
/// Registers of a held element: its own, and what guards and places it, which ptxas keeps from iteration to iteration.
const EACH: u32 = 3;

/// A copy whose elements are held.
pub(super) struct Held {
    stmt: StmtId,
    local: LocalId,
    /// Elements a thread.
    count: u32,
}

/// Which way elements go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the tensor to registers.
    Load,
    /// From registers to shared memory.
    Store,
}

impl<'a> Lowering<'a> {
    /// The copies of a loop's loads, if all are held.
    pub(super) fn held(&mut self, split: &Split, body: &[StmtId], stages: u32) -> Option<Vec<Held>> {
        let kernel = self.kernel;
        if kernel.class.reads != Width::Element || stages < 2 || split.shared(kernel).count() != split.buffers.len() {
            return None;
        }
        let loads = body[..split.loads].iter().filter(|stmt| declared(kernel, **stmt).is_none());
        let mut copies = Vec::new();
        for &stmt in loads {
            let (StmtKind::Tile(TileOp::Copy { src, .. }), Some(SharedLoad::Synchronous { .. })) =
                (&kernel.stmts[stmt].kind, self.analysis.shared_loads.get(&stmt))
            else {
                return None;
            };
            let elements: u32 = self.analysis.copies.get(&stmt)?.extents.iter().product();
            copies.push((stmt, src.place, elements.div_ceil(self.thread_total().max(1))));
        }
        let accumulators: u32 = self.layouts.fragments.values().map(crate::layout::Fragment::registers).sum();
        let held: u32 = copies.iter().map(|copy| copy.2).sum();
        if EACH * held + accumulators > MOST_REGISTERS {
            let text = format!(
                "elements are not held in registers until they are needed, every load is waited for: {held} a thread, of \
                 {EACH} registers each, beside {accumulators} of fragments are more than {MOST_REGISTERS}"
            );
            self.remark_here(RemarkKind::Fallback, text);
            return None;
        }
        let text =
            format!("elements of the next iteration are held in registers, {held} a thread, while this one computes");
        self.remark_here(RemarkKind::Choice, text);
        let hold = |(stmt, place, count): (StmtId, Place, u32)| {
            let name = format!("{}_held", kernel.place_name(place));
            let dtype = self.dtype_of(place);
            let local = self.local(&name, dtype, count);
            Held { stmt, local, count }
        };
        Some(copies.into_iter().map(hold).collect())
    }

    /// The elements of iteration `index`, on one half of their way.
    pub(super) fn move_held(&mut self, var: VarId, index: ValueId, loads: &'a [StmtId], held: &[Held], way: Way) {
        let kernel = self.kernel;
        // Where an array is filled as a whole, storing to it needs no index.
        let indexed = |copy: &Held| matches!(&kernel.stmts[copy.stmt].kind, StmtKind::Tile(TileOp::Copy { dst, .. }) if !dst.start.is_empty());
        self.beside(var, Binding::Value(index), loads, |l| {
            if way == Way::Load || held.iter().any(indexed) {
                l.names(loads, loads);
            }
            held.iter().for_each(|copy| l.move_copy(copy, way));
        });
    }

    /// A thread's elements of one copy: neighbouring threads have neighbouring ones.
    fn move_copy(&mut self, &Held { stmt, local, count }: &Held, way: Way) {
        let kernel = self.kernel;
        let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind else {
            return self.bug("what is held in registers is no copy");
        };
        let Some(facts) = self.analysis.copies.get(&stmt) else { return self.bug("nothing is known of a copy") };
        self.span = kernel.stmts[stmt].span;

        let side = match way {
            Way::Load => CopySide::src(facts, src),
            Way::Store => CopySide::dst(facts, dst),
        };
        let total: u32 = facts.extents.iter().product();
        let threads = self.thread_total();
        let walked = match way {
            Way::Load => self.first_row(&side, &facts.extents),
            Way::Store => None,
        };
        self.unrolled("i", count, |l, i| {
            let thread = l.linear_thread();
            let element = l.once("element", thread + i * threads);
            let inside = (!total.is_multiple_of(threads)).then(|| l.binary(BinaryOp::Lt, element, total));
            let own = l.at(local, i);
            let ops = l.nested(|l| {
                let indices = l.split(element, &facts.extents);
                let indices = l.named(indices);
                let mut memory = l.tile_memory(&side, &indices);
                if let Some((offset, _)) = walked {
                    memory.offset = l.read(offset);
                }
                let (from, to) = if way == Way::Load { (memory, own) } else { (own, memory) };
                l.carry(from, to);
            });
            match inside {
                Some(cond) => l.guarded(cond, ops),
                None => l.ops.extend(ops),
            }
            if let Some((offset, step)) = walked {
                l.set(offset, offset + step);
            }
        });
    }

    /// Where a thread's elements stand below one another in the tensor: the offset of the first, in a register that is moved on
    /// from row to row, and by how much. An address each would take two registers that ptxas keeps from iteration to iteration.
    fn first_row(&mut self, src: &CopySide<'_>, extents: &[u32]) -> Option<(RegId, ValueId)> {
        let (Place::Tensor(_), [ones @ .., _, inner]) = (src.tile.place, extents) else { return None };
        let threads = self.thread_total();
        if ones.iter().any(|extent| *extent != 1) || !threads.is_multiple_of(*inner) {
            return None;
        }
        let thread = self.linear_thread();
        let place = [thread / *inner, thread % *inner].map(|index| self.eval(index));
        self.walked(src, place, threads / inner)
    }

    /// The offset of an element of a tile in a tensor, in a register, and by how much that of one `apart` rows below it is more; `None` where that is not
    /// the same for all rows.
    pub(in super::super) fn walked(
        &mut self,
        src: &CopySide<'_>,
        [row, col]: [ValueId; 2],
        apart: u32,
    ) -> Option<(RegId, ValueId)> {
        let place = src.tile.place;
        let stride = self.row_stride(place).filter(|_| src.rows.is_empty())?;
        let first = self.tile_memory(&src.clipped(Vec::new()), &[row, col]).offset;
        let offset = self.out.reg(&format!("{}_offset", self.kernel.place_name(place)), ValueType::Wide, true);
        self.define(offset, first);
        Some((offset, self.binary(BinaryOp::Mul, apart, stride)))
    }

    /// The distance of a tensor's rows, in elements.
    pub(super) fn row_stride(&mut self, place: Place) -> Option<ValueId> {
        let Place::Tensor(tensor) = place else { return None };
        let axis = self.rank(place).checked_sub(2)?;
        let stride = self.param(ParameterKind::Stride(tensor, axis as u8));
        Some(self.widen(stride))
    }
}
