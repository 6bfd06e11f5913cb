//! Fragments: a tile in the registers of the block's threads, by a layout.
//!
//! Work on a fragment is a loop over a thread's registers; the layout says which row and column each of them is.

use super::tile::CopySide;
use super::uses::{accesses, statements};
use super::value::OpenAxis;
use super::*;
use crate::layout::{Fragment, Index};

/// A fragment that has registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) local: LocalId,
    pub(super) layout: Fragment,
    /// A fragment of one axis: the axis of the layout whose indices are its own. Every thread has the elements of the rows
    /// (or columns) that it holds a part of.
    pub(super) kept: Option<u8>,
}

impl<'a> Lowering<'a> {
    /// Gives a fragment its registers.
    pub(super) fn declare_fragment(&mut self, buffer: BufferId) {
        let Some(&layout) = self.layouts.fragments.get(&buffer) else { return self.bug("a fragment has no layout") };
        let count = self.layouts.elements(buffer, &layout);
        let local = self.out.local(&self.kernel.buffers[buffer].name, self.kernel.buffer_dtype(buffer), count);
        self.fragments[buffer] = Some(Registers { local, layout, kept: self.layouts.kept.get(&buffer).copied() });
    }

    /// The registers of a fragment, which every one has that is used.
    pub(super) fn held_in(&self, fragment: BufferId) -> Option<Registers> {
        let found = self.fragments[fragment];
        if found.is_none() {
            self.bug("a fragment has no registers");
        }
        found
    }

    /// Sets every element.
    pub(super) fn fill_fragment(&mut self, buffer: BufferId, value: ValueId) {
        let Some(Registers { local, .. }) = self.held_in(buffer) else { return };
        self.unrolled("i", self.program.locals[local].len, |l, offset| l.put(local, offset, value));
    }

    /// `f` for the elements of the tile that a thread holds, `width` neighbours of a row at once: with the register of the
    /// first. Threads of a narrow tile that hold none do nothing.
    pub(super) fn each_held(&mut self, layout: &Fragment, width: u32, f: impl FnOnce(&mut Self, ValueId)) {
        self.where_held(layout, |l| {
            l.unrolled("i", layout.held_registers() / width, |l, index| {
                let register = l.formula([index * width], |[first]| layout.held(first));
                f(l, register);
            });
        });
    }

    /// `f` by the threads that hold elements of the tile: all but of a narrow one.
    pub(super) fn where_held(&mut self, layout: &Fragment, f: impl FnOnce(&mut Self)) {
        if layout.is_whole() {
            return f(self);
        }
        let thread = self.compute_thread();
        self.when(thread.below(layout.holders()), f);
    }

    /// `for [i] in parallel([m])` over a fragment of one axis: every thread the elements that it has, of which several
    /// threads have each. A body that changes no register is done by the first of them alone, reads and all: another one could
    /// read what the first has already written. Of a body that changes registers, which are every holder's, what leaves the
    /// registers is done by the first; what it writes it does not read (`analysis::parallel` refuses that).
    pub(super) fn parallel_slots(&mut self, layout: &Fragment, axis: u8, var: VarId, body: &'a [StmtId]) {
        let layout = *layout;
        let kernel = self.kernel;
        let held =
            |access: AccessId| kernel.accesses[access].place.buffer().is_some_and(|b| self.fragments[b].is_some());
        let leaves = accesses(kernel, body).into_iter().any(|access| !held(access));
        let of = statements(kernel, body);
        let changes =
            of.iter().any(|stmt| matches!(kernel.stmts[*stmt].kind, StmtKind::Store { access, .. } if held(access)));
        let writes = of.iter().any(|stmt| {
            matches!(kernel.stmts[*stmt].kind,
                StmtKind::Store { access, .. } | StmtKind::Atomic { access, .. } if !held(access))
        });
        let marked = self.stores_beyond_registers(body);
        self.mark(marked, Elements::Begin);
        self.unrolled("i", layout.slots(axis), |l, slot| {
            l.mark(marked, Elements::Next);
            let register = l.representative(&layout, axis, slot);
            let position = l.element_position(&layout, register);
            let index = position[usize::from(axis)];
            if leaves || !changes {
                let reg = l.variable_reg(var);
                l.define(reg, index);
            } else {
                // What stays in registers is found by its register: most such loops never ask for the index.
                l.vars[var] = Some(Binding::Value(index));
            }
            let is_asked = writes || !changes;
            let first = is_asked.then(|| l.once("first", position[usize::from(1 - axis)].equals(0)));
            let element = Element { register: Some((register, layout)), ..l.element };
            match first {
                Some(cond) if !changes => l.at_element(element, |l| l.when(cond, |l| l.block(body))),
                first_holder => l.at_element(Element { first_holder, ..element }, |l| l.block(body)),
            }
        });
        self.mark(marked, Elements::End);
    }

    /// An operation that leaves registers, once for an element that several threads have.
    pub(super) fn once_an_element(&mut self, place: Place, f: impl FnOnce(&mut Self)) {
        let is_own = |buffer: BufferId| self.fragments[buffer].is_some() || self.locals[buffer].is_some();
        match self.element.first_holder {
            Some(cond) if !place.buffer().is_some_and(is_own) => self.when(cond, f),
            _ => f(self),
        }
    }

    /// The words of a left operand that is a fragment.
    pub(super) fn declare_left(&mut self, buffer: BufferId, words: u32) -> LocalId {
        let name = format!("{}_words", self.kernel.buffers[buffer].name);
        self.local(&name, Dtype::U32, words)
    }

    /// Packs what a fragment that lies as an accumulator has of one step along K (16 columns): two of its atoms side by side
    /// are, word by word, what `mma.sync` takes for its left operand; with exchanged operands, one of its atoms transposed across the warp is what it takes for
    /// its right one. `[down, step]`: atoms of 16 or 8 rows, the step.
    pub(super) fn pack_left(&mut self, held: &Registers, words: LocalId, [down, step]: [u32; 2]) {
        let exchanged = held.layout.is_exchanged();
        let each = if exchanged { Fragment::EXCHANGED_WORDS } else { Fragment::LEFT_WORDS };
        self.unrolled("i", down, |l, i| {
            for word in 0..each {
                let mut value = l.left_word(held, i, step, word);
                if exchanged {
                    let reg = l.reg("transposed", ValueType::Element(Dtype::U32), false);
                    l.op(OpKind::TransposeMatrix { reg, value });
                    value = l.read(reg);
                }
                let offset = l.formula([i], |[i]| i.times(each).plus(word));
                l.put(words, offset, value);
            }
        });
    }

    /// Two 16-bit elements of a fragment as a word of a left operand ([`Fragment::left_word`]).
    pub(super) fn left_word(&mut self, held: &Registers, block: impl Into<Term>, step: u32, word: u32) -> ValueId {
        let dtype = self.program.locals[held.local].dtype;
        let first = self.formula([block], |[block]| held.layout.left_word(block, step, word));
        let [low, high] = [0, 1].map(|by| self.get(held.local, first + by));
        self.push(ValueKind::Pack(dtype, low, high), ValueType::Element(Dtype::U32))
    }

    /// The register of a thread's first element in its row (axis 0) or column `slot`.
    pub(super) fn representative(&mut self, layout: &Fragment, axis: u8, slot: ValueId) -> ValueId {
        self.formula([slot], |[slot]| layout.representative(axis, slot))
    }

    /// Row and column of this thread's element `register`.
    pub(super) fn element_position(&mut self, layout: &Fragment, register: ValueId) -> [ValueId; 2] {
        let thread = self.compute_thread();
        self.formulas([thread, register], |[thread, register]| layout.position(thread, register).into())
    }

    /// The thread's number among those that compute.
    pub(super) fn compute_thread(&mut self) -> ValueId {
        match self.thread {
            Some(reg) => self.read(reg),
            None => {
                let linear = self.linear_thread();
                let is_axis = matches!(self.program.values[linear].kind, ValueKind::Thread(_));
                if is_axis { linear } else { self.once("thread", linear) }
            }
        }
    }

    /// `copy(x.at(..), &mut fragment)`: every thread its own elements, zeros beyond the tensor's edge.
    pub(super) fn load_fragment(&mut self, fragment: BufferId, src: &CopySide<'_>) {
        let Some(Registers { local, layout, .. }) = self.held_in(fragment) else { return };
        self.each_held(&layout, 1, |l, register| {
            let [row, col] = l.element_position(&layout, register);
            let (row, col) = (l.once("row", row), l.once("col", col));
            let memory = l.tile_memory(src, &[row, col]);
            let own = l.at(local, register);
            l.carry(memory, own);
        });
    }

    /// `copy(&fragment, y.at_mut(..))`, straight from registers, neighbours in pairs where the tile's columns begin at
    /// an even one of an aligned tensor; else through shared memory, where that can be done ([`Lowering::leaves_by_rows`]). `transposed`: `copy(fragment.t(), ..)`.
    pub(super) fn store_fragment(&mut self, own: BufferId, src: &TileRef, dst: &CopySide<'_>, paired: bool) {
        let Some(held) = self.held_in(own) else { return };
        if !paired && self.leaves_by_rows(&held, src, dst) {
            return self.store_by_rows(&held, dst);
        }
        let (layout, target) = (held.layout, self.dtype_of(dst.tile.place));
        let name = format!("{}_pair", self.kernel.place_name(dst.tile.place));
        let pair = (paired && layout.vector() >= 2).then(|| self.local(&name, target, 2));
        // A narrow tile's few threads test its last column for all of them: most tiles are not cut.
        let columns = self.rank(dst.tile.place).saturating_sub(1);
        let (cut, rest): (Vec<OpenAxis>, Vec<OpenAxis>) = dst.open.iter().partition(|open| open.axis == columns);
        let last = match pair {
            Some(_) if !layout.is_whole() => {
                let corner = [self.int(0), self.int(i64::from(layout.cols()) - 1)];
                self.tile_memory(&dst.clipped(cut), &corner).guard
            }
            _ => None,
        };
        let all = |l: &mut Self| l.store_elements(&held, src, dst, pair);
        let Some(last) = last else { return all(self) };
        self.either(last.cond, |l| l.store_elements(&held, src, &dst.clipped(rest), pair), all);
    }

    /// Stores every element that a thread holds, through `pair` two by two.
    fn store_elements(
        &mut self,
        &Registers { local, layout, .. }: &Registers,
        src: &TileRef,
        dst: &CopySide<'_>,
        pair: Option<LocalId>,
    ) {
        let width = if pair.is_some() { 2 } else { 1 };
        self.each_held(&layout, width, |l, register| {
            let [row, col] = l.element_position(&layout, register);
            let (row, col) = if src.transposed { (col, row) } else { (row, col) };
            let row = l.once("row", row);
            let col = l.once("col", col);
            let Some(pair) = pair else {
                let (own, to) = (l.at(local, register), l.tile_memory(dst, &[row, col]));
                return l.carry(own, to);
            };
            for by in 0..2 {
                let (own, word) = (l.at(local, register + by), l.at(pair, by));
                l.carry(own, word);
            }
            l.store_piece(dst, [row, col], (pair, 2));
        });
    }

    /// Stores neighbours of a row at once, and one by one where the tensor's edge is between them.
    pub(super) fn store_piece(
        &mut self,
        dst: &CopySide<'_>,
        [row, col]: [ValueId; 2],
        (stored, piece): (LocalId, u32),
    ) {
        let at = |l: &mut Self, by: u32| {
            let col = l.binary(BinaryOp::Add, col, by);
            l.tile_memory(dst, &[row, col])
        };
        let whole = Memory { guard: None, ..at(self, 0) };
        let Some(inside) = at(self, piece - 1).guard else { return self.vector_store(whole, stored, 0, piece) };
        let columns = self.rank(dst.tile.place).saturating_sub(1);
        if !dst.open.iter().any(|open| open.axis == columns) {
            return self.when(inside.cond, |l| l.vector_store(whole, stored, 0, piece));
        }
        self.either(
            inside.cond,
            |l| l.vector_store(whole, stored, 0, piece),
            |l| {
                // The last one is beyond it.
                for by in 0..piece - 1 {
                    let (own, to) = (l.at(stored, by), at(l, by));
                    l.carry(own, to);
                }
            },
        );
    }
}
