//! `gemm` by the warps of a block: `ldmatrix` (or loads of words) and `mma.sync`, or multiply-adds of f32.
//!
//! A warp has a part of the accumulator, as its layout says. Along K it goes in steps: it loads the fragments of both
//! operands that its part needs, and multiplies every 16 rows of one with every 8 columns of the other. An address is
//! computed once a lane; the others differ from it by an XOR and an addition of constants, where the swizzle allows.

mod blocked;
pub(super) use blocked::MOST_WRITTEN_OUT;

use super::block::{ATOM, EXCHANGED_ATOM, Form, Product, WARP, operands};
use super::*;
use crate::layout::{
    Formula, Fragment, Index, Major, MatrixAccess, MmaInput, Operand, Permutation, Step, WarpGrid, WordAccess,
};

/// Elements of K that multiply-adds take at once, where that leaves registers for accumulators; and where they are many.
const CHUNKS: [u32; 2] = [4, 2];
/// Accumulators a thread has at most for the first.
const FEW: u32 = 64;

/// Elements of a thread that go through K together, where tensor cores and rows and columns of them do not fit: each has
/// two addresses.
const ELEMENTS: u32 = 32;

/// One operand, as the warps share it out.
struct Side {
    buffer: BufferId,
    operand: Operand,
    /// Extent along M (or N) of a warp's part.
    extent: u32,
    left: bool,
    /// Rows of a left operand that repeat for each group of rows of the sum.
    period: Option<u32>,
    /// Where the matrices of a right operand that groups of rows have each of their own lie.
    groups: Option<Groups>,
}

/// The matrices of a grouped product's right operand.
#[derive(Clone, Copy)]
struct Groups {
    /// Rows of the sum in a group.
    rows: u32,
    /// By how much the next group's matrix is further along N, and along K.
    apart: [u32; 2],
}

impl Groups {
    /// Where the matrix begins that row `row` of the sum is multiplied with, along N and along K.
    fn origin<I: Index>(&self, row: I) -> [I; 2] {
        let group = row.over(self.rows);
        self.apart.map(|apart| group.clone().times(apart))
    }
}

impl Lowering<'_> {
    /// `gemm(a, b, &mut acc)`
    pub(super) fn gemm(&mut self, stmt: StmtId) {
        let Some(product) = self.products.get(&stmt).cloned() else { return self.bug("a product has no plan") };
        let Some(fragment::Registers { local, layout, .. }) = self.held_in(product.acc) else { return };
        if product.clear {
            let zero = self.push(ValueKind::Float(0.0), ValueType::Element(Dtype::F32));
            self.fill_fragment(product.acc, zero);
        }
        match product.form {
            Form::Mma(grid) => self.multiply_warps(&product, grid, local, &layout),
            Form::Blocked(grid) => self.multiply_blocks(&product, grid, local, &layout),
            Form::Fma(grid) => self.multiply_add(&product, grid, local, &layout),
            Form::Elements => self.multiply_elements(&product, local, &layout),
        }
    }

    /// On tensor cores.
    fn multiply_warps(&mut self, product: &Product, grid: WarpGrid, acc: LocalId, layout: &Fragment) {
        let [a, b] = sides(product, grid);
        let dtype = a.operand.tile.dtype();
        let (input, atom) = match MmaInput::of(dtype) {
            Some(input @ MmaInput::Tf32) => (input, MmaAtom::M16n8k8Tf32),
            Some(input @ MmaInput::Half) => (input, MmaAtom::M16n8k16 { dtype }),
            None => return self.bug("a product of what tensor cores do not multiply"),
        };
        let exchanged = layout.is_exchanged();
        let extents = [a.extent * grid.rows, b.extent * grid.cols];
        let [Ok((left, left_words)), Ok((right, right_words))] = operands(exchanged, input, extents, grid) else {
            return self.bug("an operand that mma.sync has no layout of");
        };
        let held = self.fragments[a.buffer];
        let thread = self.compute_thread();
        let (rows, cols) = if exchanged { EXCHANGED_ATOM } else { ATOM };
        let [down, across] = [a.extent / rows, b.extent / cols];
        let text = format!(
            "multiplied with mma.sync{}{}: {} x {} warps of {} x {} elements each, operands by {} from {} and {}",
            if input == MmaInput::Tf32 { " as tf32" } else { "" },
            if exchanged { ", operands exchanged" } else { "" },
            grid.rows,
            grid.cols,
            a.extent,
            b.extent,
            match [a.operand.by_words(), b.operand.by_words()] {
                [false, false] => "ldmatrix",
                [true, true] => "words",
                [true, false] => "words and ldmatrix",
                [false, true] => "ldmatrix and words",
            },
            if held.is_some() { "registers".into() } else { swizzle_text(&a) },
            swizzle_text(&b)
        );
        self.remark_here(RemarkKind::Choice, text);
        // Both count K in the order that suits loads of words, or neither does.
        let paired = a.operand.by_words() && b.operand.by_words();
        let a_words = match held {
            None => Words::new(self, &a, [&left, layout], (thread, paired)),
            Some(_) => None,
        };
        let a_local = match (&a_words, held) {
            (Some(words), _) => words.local,
            (None, Some(_)) => self.declare_left(a.buffer, down * left_words),
            (None, None) => return self.bug("a left operand has no words"),
        };
        let Some(b_words) = Words::new(self, &b, [&right, layout], (thread, paired)) else { return };
        for step in 0..a.operand.k() / input.k() {
            match (&a_words, held) {
                (Some(words), _) => words.load(self, step * input.k(), thread),
                (None, Some(held)) => self.pack_left(&held, a_local, [down, step]),
                (None, None) => {}
            }
            b_words.load(self, step * input.k(), thread);
            self.unrolled("i", down, |l, i| {
                l.unrolled("j", across, |l, j| {
                    let left = (a_local, l.eval(i * left_words));
                    let right = (b_words.local, l.eval(j * right_words));
                    let into = l.eval((i * across + j) * MmaAtom::ACC);
                    let (a, b) = if exchanged { (right, left) } else { (left, right) };
                    l.op(OpKind::Mma { atom, acc: (acc, into), a, b });
                });
            });
        }
    }

    /// The offset, in elements of so many bytes, that follows from a first one by a step.
    pub(super) fn stepped_from(&mut self, first: ValueId, Step { xor, add }: Step, size: u32) -> ValueId {
        let turned = if xor == 0 { first } else { self.binary(BinaryOp::BitXor, first, xor / size) };
        self.binary(BinaryOp::Add, turned, add / size)
    }

    /// The place of an offset in a slot, of an array that has several.
    pub(super) fn in_slot(&mut self, buffer: BufferId, offset: ValueId) -> ValueId {
        match self.slots[buffer] {
            Some(slot) => self.binary(BinaryOp::Add, offset, slot),
            None => offset,
        }
    }

    /// By multiply-adds: a thread's elements are the crossings of some rows with some columns.
    fn multiply_add(&mut self, product: &Product, grid: WarpGrid, acc: LocalId, layout: &Fragment) {
        let [a, b] = sides(product, grid);
        let k = a.operand.k();
        // A thread has two rows of an atom, and two columns next to each other.
        let across = b.extent / ATOM.1;
        let (rows, cols) = (a.extent / ATOM.0 * 2, across * 2);
        let chunk = CHUNKS[usize::from(rows * cols > FEW)];
        let chunk = if k.is_multiple_of(chunk) { chunk } else { 1 };
        let [row_part, col_part] = [(&a, rows), (&b, 1)].map(|(side, lines)| {
            let name = format!("{}_part", self.kernel.buffers[side.buffer].name);
            self.local(&name, Dtype::F32, lines * chunk)
        });
        // Unrolled further, the operands of several steps would be in registers at once.
        self.stepped("depth", [0, k, chunk], Unroll::By(1), |l, depth| {
            l.unrolled("i", rows, |l, i| {
                let zero = l.int(0);
                let register = l.crossing(i, zero, across);
                let [row, _] = l.element_position(layout, register);
                let first = l.eval(i * chunk);
                l.load_part(&a, row_part, first, row, depth, chunk);
            });
            l.unrolled("j", cols, |l, j| {
                let zero = l.int(0);
                let register = l.crossing(zero, j, across);
                let place = l.element_position(layout, register);
                let [col, depth] = l.in_group(&b, place, depth);
                l.load_part(&b, col_part, zero, col, depth, chunk);
                l.unrolled("i", rows, |l, i| {
                    let register = l.crossing(i, j, across);
                    l.unrolled("kk", chunk, |l, kk| {
                        let (x, y) = (l.get(row_part, i * chunk + kk), l.get(col_part, kk));
                        l.accumulate(acc, register, x, y);
                    });
                });
            });
        });
    }

    /// The register of the thread's row `i` and column `j`, of `across` atoms side by side.
    fn crossing(&mut self, i: ValueId, j: ValueId, across: u32) -> ValueId {
        self.eval((i / 2 * across + j / 2) * 4 + i % 2 * 2 + j % 2)
    }

    /// `count` elements along K of row (or column) `line` of an operand, as f32: `local[start ..]`.
    fn load_part(&mut self, side: &Side, local: LocalId, start: ValueId, line: ValueId, depth: ValueId, count: u32) {
        let tile = side.operand.tile;
        // Along K, as many elements as lie together in 16 bytes.
        let together = tile.contiguous().is_multiple_of(count) && tile.cols().is_multiple_of(count);
        if side.operand.major == Major::K && tile.dtype() == Dtype::F32 && together && count > 1 {
            let memory = self.operand_memory(side, line, depth);
            return self.vector_load(local, start, memory, count);
        }
        self.unrolled("kk", count, |l, kk| {
            let depth = l.eval(depth + kk);
            let memory = l.operand_memory(side, line, depth);
            let value = l.load_f32(memory);
            l.put(local, start + kk, value);
        });
    }

    /// By multiply-adds, element by element.
    ///
    /// The loop over K is around the elements and is not unrolled: with a loop for each element, NVRTC unrolls those too and
    /// computes their addresses ahead, which took it 46 s and 2 KiB of spills for tiles of 24 elements a thread.
    fn multiply_elements(&mut self, product: &Product, acc: LocalId, layout: &Fragment) {
        let [a, b] = sides(product, WarpGrid { rows: 1, cols: 1 });
        let k = a.operand.k();
        let all = layout.registers();
        for from in (0..all).step_by(ELEMENTS as usize) {
            self.stepped("depth", [0, k, 1], Unroll::By(1), |l, depth| {
                l.unrolled("i", ELEMENTS.min(all - from), |l, i| {
                    let register = l.binary(BinaryOp::Add, from, i);
                    let place = l.element_position(layout, register);
                    let [col, b_depth] = l.in_group(&b, place, depth);
                    let [x, y] = [(&a, place[0], depth), (&b, col, b_depth)].map(|(side, line, depth)| {
                        let memory = l.operand_memory(side, line, depth);
                        l.load_f32(memory)
                    });
                    l.accumulate(acc, register, x, y);
                });
            });
        }
    }

    fn load_f32(&mut self, memory: Memory) -> ValueId {
        let value = self.fetch(memory);
        self.converted(value, Dtype::F32)
    }

    /// `acc[register] = fma(x, y, acc[register])`
    fn accumulate(&mut self, acc: LocalId, register: ValueId, x: ValueId, y: ValueId) {
        let sum = self.get(acc, register);
        let value = self.push(ValueKind::Math(MathFn::Fma, vec![x, y, sum]), ValueType::Element(Dtype::F32));
        self.put(acc, register, value);
    }

    /// The column and depth, in the array of a right operand, of those of the matrix that the row of a `[row, column]` is multiplied with.
    fn in_group(&mut self, b: &Side, [row, col]: [ValueId; 2], depth: ValueId) -> [ValueId; 2] {
        let Some(groups) = b.groups else { return [col, depth] };
        let origin = self.formulas([row], |[row]| groups.origin(row));
        [self.binary(BinaryOp::Add, origin[0], col), self.binary(BinaryOp::Add, origin[1], depth)]
    }

    /// Where element `depth` along K of row (or column) `line` of an operand is.
    fn operand_memory(&mut self, side: &Side, line: ValueId, depth: ValueId) -> Memory {
        let line = side.period.map_or(line, |period| self.eval(line % period));
        let size = side.operand.tile.dtype().bytes();
        let offset = self.formula([line, depth], |[line, depth]| side.operand.offset(line, depth).over(size));
        let offset = self.in_slot(side.buffer, offset);
        let space = self.space(Place::Buffer(side.buffer));
        self.at(space, offset)
    }
}

fn sides(product: &Product, grid: WarpGrid) -> [Side; 2] {
    let (a, b) = (product.a.1, product.b.1);
    // A matrix of the right operand is as deep as the left one.
    let cols = if b.major == Major::K { b.mn() / product.groups } else { b.mn() };
    let apart = if b.major == Major::K { [cols, 0] } else { [0, a.k()] };
    let groups = Groups { rows: product.rows / product.groups, apart };
    let side = |(buffer, operand): (BufferId, Operand), extent: u32, left: bool| {
        let groups = (!left && product.groups > 1).then_some(groups);
        let period = (left && a.mn() < product.rows).then_some(a.mn());
        Side { buffer, operand, extent, left, period, groups }
    };
    [side(product.a, product.rows / grid.rows, true), side(product.b, cols / grid.cols, false)]
}

fn swizzle_text(side: &Side) -> String {
    match side.operand.tile.swizzle().span() {
        16 => "rows without a swizzle".into(),
        span => format!("rows swizzled by {span} bytes"),
    }
}

/// The words of an operand's fragment that a warp multiplies in one step.
struct Words<'s> {
    side: &'s Side,
    fragment: &'s Fragment,
    /// The accumulator, which says where a warp's part begins.
    acc: &'s Fragment,
    local: LocalId,
    shared: SharedId,
    /// Whether words count K in the other order.
    paired: bool,
    /// What this lane names of the first words at the first step: offset in elements, in a slot.
    first: ValueId,
}

/// How words are loaded.
#[derive(Clone, Copy)]
enum Access {
    /// Several by one `ldmatrix`.
    Matrix(MatrixAccess),
    /// One.
    Word(WordAccess),
}

impl Access {
    fn position<I: Index>(&self, lane: I) -> (I, I) {
        match self {
            Access::Matrix(access) => access.position(lane),
            Access::Word(access) => access.position(lane),
        }
    }
}

impl<'s> Words<'s> {
    /// The words of an operand's fragment, for a sum in the layout `acc`.
    fn new(
        l: &mut Lowering<'_>,
        side: &'s Side,
        [fragment, acc]: [&'s Fragment; 2],
        (thread, paired): (ValueId, bool),
    ) -> Option<Words<'s>> {
        let Space::Shared(shared) = l.space(Place::Buffer(side.buffer)) else {
            l.bug("an operand of a product is in no shared array");
            return None;
        };
        let name = &l.kernel.buffers[side.buffer].name;
        let by_words = side.operand.by_words();
        let dtype = if by_words { Dtype::F32 } else { Dtype::U32 };
        let local = l.local(&format!("{name}_words"), dtype, fragment.words());
        let zero = l.int(0);
        let mut words = Words { side, fragment, acc, local, shared, paired, first: zero };
        let access = words.access(0)?;
        let first = words.lane_offset(l, &access, 0, thread);
        words.first = l.once(&format!("{name}_row"), first);
        Some(words)
    }

    /// The instruction that loads the words from `word`, as many as it can.
    fn access(&self, word: u32) -> Option<Access> {
        if self.side.operand.by_words() {
            return WordAccess::new(self.fragment, word, self.paired).ok().map(Access::Word);
        }
        let left = self.fragment.words() - word;
        let count = if left >= 4 { 4 } else { left };
        self.side.operand.load_matrix(self.fragment, word, count).ok().map(Access::Matrix)
    }

    /// Loads the words for the step at `k`.
    fn load(&self, l: &mut Lowering<'_>, k: u32, thread: ValueId) {
        let mut word = 0;
        while let Some(access) = (word < self.fragment.words()).then(|| self.access(word)).flatten() {
            let offset = match self.step(&access, k) {
                Some(step) => l.stepped_from(self.first, step, self.side.operand.tile.dtype().bytes()),
                None => self.lane_offset(l, &access, k, thread),
            };
            let offset = l.in_slot(self.side.buffer, offset);
            let memory = l.at(self.shared, offset);
            let start = l.int(i64::from(word));
            match access {
                Access::Matrix(MatrixAccess { count, transposed, .. }) => {
                    l.op(OpKind::LoadMatrix { local: self.local, start, memory, count, transposed });
                    word += count;
                }
                Access::Word(_) => {
                    let value = l.fetch(memory);
                    l.put(self.local, start, value);
                    word += 1;
                }
            }
        }
    }

    /// The byte offset in a slot that a thread's lane names.
    fn offset<I: Index>(&self, access: &Access, k: u32, thread: I) -> I {
        let (row, col) = self.acc.warp_origin(thread.clone().over(WARP));
        let (mn, k) = match self.side.groups {
            None if self.side.left => {
                (self.side.period.map_or(row.clone(), |period| row.modulo(period)), I::constant(k))
            }
            None => (col, I::constant(k)),
            Some(groups) => {
                let [across, deep] = groups.origin(row);
                (col.add(across), deep.plus(k))
            }
        };
        let (operand, lane) = (&self.side.operand, thread.modulo(WARP));
        match access {
            Access::Matrix(access) => access.offset(&operand.tile, mn, k, lane),
            Access::Word(access) => access.offset(operand, mn, k, lane),
        }
    }

    /// The offset in a slot that a thread's lane names, in elements, as a value of the program.
    fn lane_offset(&self, l: &mut Lowering<'_>, access: &Access, k: u32, thread: ValueId) -> ValueId {
        let size = self.side.operand.tile.dtype().bytes();
        l.formula([thread], |[thread]| self.offset(access, k, thread).over(size))
    }

    /// How every thread's offset follows from its first, if it does so by one step.
    fn step(&self, access: &Access, k: u32) -> Option<Step> {
        let first = self.access(0)?;
        let ((mn, depth), (first_mn, first_depth)) = (access.position(0u32), first.position(0u32));
        // Matrices of a fragment are counted along the fragment's rows and columns, whatever is contiguous.
        let (along_mn, along_k) = (mn.checked_sub(first_mn)?, (k + depth).checked_sub(first_depth)?);
        let (rows, cols) = match self.side.operand.major {
            Major::K => (along_mn, along_k),
            Major::Mn => (along_k, along_mn),
        };
        let step = self.side.operand.tile.step(rows, cols)?;
        let fits = |thread| step.apply(self.offset(&first, 0, thread)) == self.offset(access, k, thread);
        (0..self.acc.threads()).all(fits).then_some(step)
    }
}

#[cfg(test)]
mod tests;
