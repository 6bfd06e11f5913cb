//! `reduce` of a tile over one of its axes, in the order of `ir::reduction::combine_axis`.
//!
//! The rows of an accumulator are combined where they lie: a thread's pairs, the chunks that the row has in this warp, then,
//! through shared memory where several warps have a part of the row, all chunks, and at last the four threads that share
//! the row, by shuffles. Of an accumulator with exchanged operands a lane has one column of a pair, its neighbour's comes by a shuffle. Where the four parts of a row are kept apart (`bind::sums`), the shuffles are left out, and done by the
//! reduction of the parts. Anything else goes through shared memory whole, a thread an element of the result.

use super::fragment::Registers;
use super::*;
use crate::ir::reduction::{ATOM, CHUNK, PARTS};
use crate::layout::{Fragment, Index};

/// Atoms of a chunk.
const ATOMS: u32 = CHUNK / ATOM;
/// The lane, by its number's difference, that has the other column of a pair of an accumulator with exchanged operands.
const PAIR: u32 = 4;
/// The lanes that have the other parts of a row, of an accumulator and of one with exchanged operands.
const SHARERS: [[u32; 2]; 2] = [[1, 2], [2 * PAIR, 4 * PAIR]];

/// Whether the lanes of a warp have all that a tile's reduction combines: it goes through no shared memory.
pub(super) fn is_within_warps(layout: &Fragment, axis: u8) -> bool {
    layout.is_parts() || axis == 1 && layout.accumulator_columns() == Some(1)
}

impl Lowering<'_> {
    pub(super) fn reduce_tile(&mut self, op: ReduceOp, src: BufferId, dst: BufferId, axis: u8) {
        let Some(registers) = self.fragments[src] else {
            return self.reduce_elements(op, src, dst, axis, |l, at| l.element_of(src, &at));
        };
        let layout = registers.layout;
        if layout.is_parts() {
            return self.reduce_parts(op, registers, dst);
        }
        let apart = self.kernel.buffers[dst].extents.len() == 2;
        if apart && !self.fragments[dst].is_some_and(|held| held.layout.is_parts()) {
            return self.bug("the parts of rows do not lie where the rows do");
        }
        let rows_where_they_lie = axis == 1
            && layout
                .accumulator_columns()
                .is_some_and(|warps| warps == 1 || layout.across().is_multiple_of(ATOMS) && !layout.is_exchanged());
        if rows_where_they_lie { self.reduce_rows(op, registers, dst) } else { self.reduce_spilled(op, src, dst, axis) }
    }

    /// Four parts of a row, one in each of the lanes that share it.
    fn reduce_parts(&mut self, op: ReduceOp, src: Registers, dst: BufferId) {
        let layout = src.layout;
        let ty = ValueType::Element(self.program.locals[src.local].dtype);
        let total = self.undefined("total", ty);
        self.unrolled("i", layout.slots(0), |l, index| {
            let part = l.get(src.local, index);
            l.set(total, part);
            l.meet(op, total, &SHARERS[usize::from(layout.is_exchanged())]);
            l.finish_row(&layout, index, total, dst);
        });
    }

    /// The rows of an accumulator.
    fn reduce_rows(&mut self, op: ReduceOp, src: Registers, dst: BufferId) {
        let (layout, dtype) = (src.layout, self.program.locals[src.local].dtype);
        let ty = ValueType::Element(dtype);
        // Columns of a warp in eights: of two in an atom of exchanged operands a lane has a column each, where its neighbour has the other of the pair.
        let exchanged = layout.is_exchanged();
        let apart = self.takes_parts(dst);
        // The largest and the least are the same in every order: pairs meet when the lane's own columns have.
        let is_late = exchanged && !apart && op != ReduceOp::Sum;
        let sharers: &[u32] = match (apart, is_late) {
            (true, _) => &[],
            (false, true) => &[PAIR, 2 * PAIR, 4 * PAIR],
            (false, false) => &SHARERS[usize::from(exchanged)],
        };
        let across = if exchanged { layout.across() * 2 } else { layout.across() };
        let chunks = across.div_ceil(ATOMS);
        let all_chunks = layout.cols() / CHUNK;
        let split = layout.accumulator_columns() != Some(1);
        let scratch = split.then(|| self.shared_array("partial", dtype, layout.rows() * all_chunks * PARTS, true));
        let [total, part] = ["total", "part"].map(|name| self.undefined(name, ty));
        // Where the chunks of a row begin, and this thread's part in them.
        let slot = |l: &mut Self, row: ValueId, chunk: Term| {
            let thread = l.compute_thread();
            let offset = l.formula([row.into(), chunk, thread.into()], |[row, chunk, thread]| {
                row.times(all_chunks).add(chunk).times(PARTS).add(thread.and(PARTS - 1))
            });
            l.at(scratch.map_or(Space::Local(src.local), Space::Shared), offset)
        };
        self.unrolled("i", layout.slots(0), |l, index| {
            let first = l.representative(&layout, 0, index);
            for chunk in 0..chunks {
                let atoms = chunk * ATOMS..across.min((chunk + 1) * ATOMS);
                for atom in atoms.clone() {
                    let pair = if exchanged {
                        let own = l.get(src.local, first + (atom / 2 * 4 + atom % 2 * 2));
                        if is_late {
                            own
                        } else {
                            let other = l.butterfly(own, PAIR);
                            l.combine(op, own, other)
                        }
                    } else {
                        let [a, b] = [0, 1].map(|by| l.get(src.local, first + (atom * 4 + by)));
                        l.combine(op, a, b)
                    };
                    l.gather(op, part, pair, atom == atoms.start);
                }
                let sum = l.read(part);
                if split {
                    let register = l.eval(first + atoms.start * 4);
                    let [row, col] = l.element_position(&layout, register);
                    let number = l.formula([col], |[col]| col.over(CHUNK));
                    let memory = slot(l, row, number.into());
                    l.store(memory, sum);
                } else {
                    l.gather(op, total, sum, chunk == 0);
                }
            }
            if !split {
                l.meet(op, total, sharers);
                l.finish_row(&layout, index, total, dst);
            }
        });
        if !split {
            return;
        }
        self.block_barrier();
        self.unrolled("i", layout.slots(0), |l, index| {
            let first = l.representative(&layout, 0, index);
            let [row, _] = l.element_position(&layout, first);
            let row = l.once("row", row);
            for chunk in 0..all_chunks {
                let memory = slot(l, row, chunk.into());
                let sum = l.fetch(memory);
                l.gather(op, total, sum, chunk == 0);
            }
            l.meet(op, total, sharers);
            l.finish_row(&layout, index, total, dst);
        });
        self.barrier_in_a_loop();
    }

    /// The rows of an accumulator of which a thread has two, side by side: an atom of both, behind what `make` does with the atom's elements, then the next atom. ptxas
    /// interleaves what stands together.
    pub(super) fn reduce_side_by_side(
        &mut self,
        op: ReduceOp,
        src: Registers,
        dst: BufferId,
        mut make: impl FnMut(&mut Self, u32),
    ) {
        let (layout, dtype) = (src.layout, self.program.locals[src.local].dtype);
        let (rows, across) = (layout.slots(0), layout.across());
        // The largest and the least are the same in every order.
        let chunk = if op == ReduceOp::Sum { ATOMS } else { across };
        let [totals, parts] = ["totals", "parts"].map(|name| self.local(name, dtype, rows));
        for atom in 0..across {
            make(self, atom);
            self.unrolled("i", rows, |l, index| {
                let first = l.representative(&layout, 0, index);
                let [a, b] = [0, 1].map(|by| l.get(src.local, first + (atom * 4 + by)));
                let pair = l.combine(op, a, b);
                l.gather_at(op, parts, index, pair, atom % chunk == 0);
                if atom % chunk == chunk - 1 || atom + 1 == across {
                    let part = l.get(parts, index);
                    l.gather_at(op, totals, index, part, atom < chunk);
                }
            });
        }
        let apart = self.takes_parts(dst);
        let sharers: &[u32] = if apart { &[] } else { &SHARERS[0] };
        for &mask in sharers {
            self.unrolled("i", rows, |l, index| {
                let own = l.get(totals, index);
                let other = l.butterfly(own, mask);
                l.gather_at(op, totals, index, other, false);
            });
        }
        self.unrolled("i", rows, |l, index| {
            let total = l.get(totals, index);
            if let Some(Registers { local, .. }) = l.fragments[dst] {
                l.put(local, index, total);
            }
        });
    }

    /// A fragment that [`Lowering::reduce_side_by_side`] can reduce into `dst`.
    pub(super) fn two_rows_of(&self, src: BufferId, dst: BufferId) -> Option<Registers> {
        let held = self.fragments[src]?;
        let layout = held.layout;
        let is_plain = layout.accumulator_columns() == Some(1) && !layout.is_exchanged() && layout.is_whole();
        (is_plain && layout.slots(0) == 2 && self.fragments[dst].is_some()).then_some(held)
    }

    /// `array[index] = value`, or `array[index] = array[index] op value`.
    fn gather_at(&mut self, op: ReduceOp, array: LocalId, index: ValueId, value: ValueId, first: bool) {
        let value = if first { value } else { self.combined(op, |l| l.get(array, index), value) };
        self.put(array, index, value);
    }

    /// `total = value`, or `total = total op value`.
    fn gather(&mut self, op: ReduceOp, total: RegId, value: ValueId, first: bool) {
        let value = if first { value } else { self.combined(op, |l| l.read(total), value) };
        self.set(total, value);
    }

    /// `current op value`, of what is read then.
    fn combined(&mut self, op: ReduceOp, current: impl FnOnce(&mut Self) -> ValueId, value: ValueId) -> ValueId {
        let current = current(self);
        self.combine(op, current, value)
    }

    /// Combines what the lanes of a row have, those with numbers that differ by `masks` one after the other.
    fn meet(&mut self, op: ReduceOp, total: RegId, masks: &[u32]) {
        for &mask in masks {
            let value = self.read(total);
            let other = self.butterfly(value, mask);
            self.gather(op, total, other, false);
        }
    }

    /// Whether what lanes have of a row stays apart in a reduction's result.
    fn takes_parts(&self, dst: BufferId) -> bool {
        self.fragments[dst].is_some_and(|held| held.layout.is_parts() && held.kept.is_none())
    }

    /// Stores a row's result, or the thread's part of it.
    fn finish_row(&mut self, layout: &Fragment, slot: ValueId, total: RegId, dst: BufferId) {
        let value = self.read(total);
        if let Some(Registers { local, .. }) = self.fragments[dst] {
            return self.put(local, slot, value);
        }
        let first = self.representative(layout, 0, slot);
        let [row, col] = self.element_position(layout, first);
        let memory = self.element_of(dst, &[row]);
        self.when(col.equals(0), |l| l.store(memory, value));
    }

    /// An element of an array, which is inside of it.
    fn element_of(&mut self, buffer: BufferId, indices: &[ValueId]) -> Memory {
        let (space, offset) = (self.space(Place::Buffer(buffer)), self.offset(Place::Buffer(buffer), indices));
        self.at(space, offset)
    }

    /// A fragment by way of shared memory.
    fn reduce_spilled(&mut self, op: ReduceOp, src: BufferId, dst: BufferId, axis: u8) {
        let Some(Registers { local, layout, .. }) = self.held_in(src) else { return };
        let dtype = self.program.locals[local].dtype;
        // Neighbouring threads read neighbouring rows: an odd pitch keeps them in banks of their own.
        let pitch = layout.cols() + u32::from(axis == 1);
        let scratch = self.shared_array("spilled", dtype, layout.rows() * pitch, true);
        let at = move |l: &mut Self, position: [ValueId; 2]| {
            let offset = l.formula(position, |[row, col]| row.times(pitch).add(col));
            l.at(scratch, offset)
        };
        self.unrolled("i", layout.registers(), |l, register| {
            let position = l.element_position(&layout, register);
            let memory = at(l, position);
            let own = l.at(local, register);
            l.carry(own, memory);
        });
        self.block_barrier();
        self.reduce_elements(op, src, dst, axis, at);
        self.barrier_in_a_loop();
    }

    /// A thread an element of the result, from where `at` says that the elements are.
    fn reduce_elements(
        &mut self,
        op: ReduceOp,
        src: BufferId,
        dst: BufferId,
        axis: u8,
        at: impl Fn(&mut Self, [ValueId; 2]) -> Memory,
    ) {
        let [rows, cols] = self.kernel.buffer_extents(src)[..] else {
            return self.bug("a reduced tile of other than two axes");
        };
        let (extent, stays) = if axis == 0 { (rows, cols) } else { (cols, rows) };
        let dtype = self.kernel.buffer_dtype(src);
        let held = self.fragments[dst];
        let scratch = held.map(|_| self.shared_array("reduced", dtype, stays, true));
        self.spread("element", &[stays], |l, indices| {
            let kept = indices[0];
            let result = l.combine_elements(op, dtype, extent, |l, index| {
                let memory = at(l, if axis == 0 { [index, kept] } else { [kept, index] });
                l.fetch(memory)
            });
            let Some(value) = result else { return l.bug("a reduction of no elements") };
            let memory = match scratch {
                Some(scratch) => l.at(scratch, kept),
                None => l.element_of(dst, &[kept]),
            };
            l.store(memory, value);
        });
        let (Some(Registers { local, layout, .. }), Some(scratch)) = (held, scratch) else { return };
        self.block_barrier();
        let kept = 1 - axis;
        self.unrolled("i", layout.slots(kept), |l, slot| {
            let register = l.representative(&layout, kept, slot);
            let position = l.element_position(&layout, register);
            let value = l.get(scratch, position[usize::from(kept)]);
            l.put(local, slot, value);
        });
        self.barrier_in_a_loop();
    }

    /// `extent` elements combined by one thread.
    fn combine_elements(
        &mut self,
        op: ReduceOp,
        dtype: Dtype,
        extent: u32,
        element: impl Fn(&mut Self, ValueId) -> ValueId,
    ) -> Option<ValueId> {
        let ty = ValueType::Element(dtype);
        let parts = PARTS.min(extent.div_ceil(2));
        let totals: Vec<RegId> = (0..parts).map(|_| self.undefined("total", ty)).collect();
        let sum = self.undefined("part", ty);
        // One chunk from `start`, of which `most` elements exist.
        let chunk = |l: &mut Self, start: ValueId, most: u32, first: bool| {
            for (part, &total) in totals.iter().enumerate() {
                let mut any = false;
                for atom in (0..CHUNK).step_by(ATOM as usize) {
                    let at = atom + 2 * part as u32;
                    if at >= most {
                        break;
                    }
                    let get = |l: &mut Self, at: u32| {
                        let index = l.binary(BinaryOp::Add, start, at);
                        element(l, index)
                    };
                    let mut value = get(l, at);
                    if at + 1 < most {
                        let next = get(l, at + 1);
                        value = l.combine(op, value, next);
                    }
                    l.gather(op, sum, value, !any);
                    any = true;
                }
                if any {
                    let value = l.read(sum);
                    l.gather(op, total, value, first);
                }
            }
        };
        let (whole, rest) = (extent / CHUNK, extent % CHUNK);
        if whole > 0 {
            let zero = self.int(0);
            chunk(self, zero, CHUNK, true);
        }
        if whole > 1 {
            let bounds = [CHUNK, whole * CHUNK, CHUNK];
            self.stepped("start", bounds, Unroll::By(1), |l, start| chunk(l, start, CHUNK, false));
        }
        if rest > 0 {
            let start = self.int(i64::from(whole * CHUNK));
            chunk(self, start, rest, whole == 0);
        }
        let mut values: Vec<ValueId> = totals.iter().map(|&reg| self.read(reg)).collect();
        while values.len() > 1 {
            let joined = values.chunks(2).map(|pair| match *pair {
                [a, b] => self.combine(op, a, b),
                _ => pair[0],
            });
            values = joined.collect();
        }
        values.first().copied()
    }

    /// The next iteration's threads overwrite what slower ones still read.
    pub(super) fn barrier_in_a_loop(&mut self) {
        if self.loop_depth > 0 {
            self.block_barrier();
        }
    }
}
