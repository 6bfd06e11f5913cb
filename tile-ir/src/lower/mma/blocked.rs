//! Products of f32 by multiply-adds, blocked in registers: [`Fragment::crossings`].
//!
//! A thread reads what its rows and columns have along K and multiplies each with each, so what it reads grows as the sides
//! of its block and what it multiplies as the area. Operands are read 16 bytes at a time: along M (or N), neighbouring rows (or
//! columns) of one k, where that is what lies together; arrays that nothing else knows the places of are stored so (see `block`).
//! Else along K, [`CHUNK`] elements of one row (or column) at once, and 8 bytes along K of an operand that the other is not along K with, which halves what must be in registers at once.
//! The block's layout is such that no two lanes that are served together meet in a bank. An address is computed once a
//! thread; the others differ from it by constants, or by one XOR where the operand is swizzled.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Elements of K that one access reads of an operand that is contiguous along it.
const CHUNK: u32 = 4;
/// Steps of K that are written out where no operand is.
const STEPS: u32 = 8;
/// Registers of a thread of which as many threads fit as hide the latency of reads: four warps a scheduler, and three.
const REGISTERS: [u32; 2] = [128, 168];
/// Registers of a thread that hold addresses and whatever else is neither an accumulator nor an operand.
const OTHERS: u32 = 24;
/// What the address and guard of an asynchronous copy take that has nothing of them in common with others.
const OF_A_COPY: u32 = 8;
/// What those of a copy of one element take, which has the column of others.
const OF_AN_ELEMENT: u32 = 4;
/// Registers of a multiprocessor.
const ALL_REGISTERS: u32 = 65_536;

/// Multiply-adds that are written out one by one; of more, K is a loop. 16 bytes each, they have to fit into the instruction cache with
/// what is beside them.
pub(in crate::lower) const MOST_WRITTEN_OUT: u32 = 1024;

/// One operand, as a thread reads it.
struct Reads<'s> {
    side: &'s Side,
    layout: &'s Fragment,
    /// Rows (or columns) that a thread has.
    lines: u32,
    /// Rows (or columns) that one access reads: 1 along K.
    together: u32,
    /// Elements of K of a line that are read before they are multiplied; along K, by one access.
    deep: u32,
    /// What is read: `[line][k]` along K, else `[k][line]`.
    part: LocalId,
    /// The offset of the thread's first line at the first k, in elements, in a slot.
    first: ValueId,
    /// How an offset changes with the chunk's first k; `None` where it is computed anew.
    depth: Option<Depth>,
}

/// A chunk of an operand.
struct Chunk {
    /// Its first k.
    depth: ValueId,
    /// Places in the array from which accesses are a constant away, by the XOR of their steps. Empty where they are computed
    /// anew.
    places: BTreeMap<u32, ValueId>,
}

/// How an offset follows from that of the first k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// By an XOR with k: chunks of a swizzled row.
    Xor,
    /// By adding so many elements a k.
    Add(u32),
}

impl Lowering<'_> {
    /// `acc += a b`
    pub(super) fn multiply_blocks(&mut self, product: &Product, grid: WarpGrid, acc: LocalId, layout: &Fragment) {
        let [a, b] = sides(product, grid);
        let k = a.operand.k();
        let along_k = [&a, &b].map(|side| side.operand.major == Major::K);
        let chunk = match along_k {
            [false, false] if k.is_multiple_of(STEPS) => STEPS,
            [false, false] => 1,
            _ => CHUNK,
        };
        let text = format!(
            "multiplied by multiply-adds, {} x {} elements a thread: the left operand is read along {}, the right one along {}",
            layout.slots(0),
            layout.slots(1),
            if along_k[0] { "K" } else { "M" },
            if along_k[1] { "K" } else { "N" }
        );
        self.remark_here(RemarkKind::Choice, text);
        // Elements of K that are in registers at once.
        let deep = match along_k {
            [true, true] => CHUNK,
            [false, false] => 1,
            _ => CHUNK / 2,
        };
        // One operand along K is read line by line: of its lines only one at a time is in registers.
        let streamed = match along_k {
            [_, true] => Some(1),
            [true, false] => Some(0),
            [false, false] => None,
        };
        let reads = [(&a, 0), (&b, 1)].map(|(side, axis)| {
            let held = match streamed {
                Some(streamed) if streamed == axis => deep,
                _ => layout.slots(axis) * deep,
            };
            Reads::new(self, side, layout, (chunk, deep), held)
        });
        self.bound_registers(&reads);
        // Where slots of an array are rows of it too, k is counted from the first row of the slot: in sums with the slot the
        // assembler loses sight of the constants by which addresses differ.
        let shift = reads.iter().find_map(|reads| reads.rows_before(self)).unwrap_or(0);
        let Some(streamed) = streamed else {
            let multiply = |l: &mut Self, depth: ValueId| {
                let at = [0, 1].map(|side| reads[side].at(l, (depth, shift), chunk));
                for step in 0..chunk {
                    for (reads, at) in reads.iter().zip(&at) {
                        reads.read_step(l, at, step, 0);
                    }
                    l.unrolled("i", layout.slots(0), |l, i| {
                        l.unrolled("j", layout.slots(1), |l, j| {
                            let [x, y] = [(0, i), (1, j)].map(|(side, line): (usize, _)| l.get(reads[side].part, line));
                            l.cross(acc, layout, [i, j], [x, y]);
                        });
                    });
                }
            };
            if layout.registers().saturating_mul(k) > MOST_WRITTEN_OUT {
                return self.stepped("depth", [shift, shift + k, chunk], Unroll::By(1), multiply);
            }
            for first in (shift..shift + k).step_by(chunk as usize) {
                let depth = self.int(i64::from(first));
                multiply(self, depth);
            }
            return;
        };
        // Unrolled further, the operands of several chunks would be in registers at once.
        self.stepped("depth", [shift, shift + k, chunk], Unroll::By(1), |l, depth| {
            let at = [0, 1].map(|side| reads[side].at(l, (depth, shift), chunk));
            let (line_by_line, held) = (usize::from(streamed), usize::from(1 - streamed));
            for first in (0..chunk).step_by(deep as usize) {
                reads[held].read_lines(l, &at[held], first);
                for line in 0..layout.slots(streamed) {
                    reads[line_by_line].read_line(l, &at[line_by_line], (line, first), 0);
                    l.unrolled("kk", deep, |l, kk| {
                        l.unrolled("i", layout.slots(1 - streamed), |l, i| {
                            let line = l.int(i64::from(line));
                            let one = l.get(reads[line_by_line].part, kk);
                            let other = reads[held].element(l, i, kk);
                            match streamed {
                                0 => l.cross(acc, layout, [line, i], [one, other]),
                                _ => l.cross(acc, layout, [i, line], [other, one]),
                            }
                        });
                    });
                }
            }
        });
    }

    /// Has the assembler keep to [`REGISTERS`] where accumulators, operands and addresses leave it enough of them. Rows that are
    /// copied in smaller pieces have too many addresses.
    fn bound_registers(&mut self, reads: &[Reads<'_>; 2]) {
        if self.kernel.class.reads != Width::Sixteen {
            return;
        }
        let threads = self.kernel.thread_count().max(1);
        let fragments: u32 = self.layouts.fragments.values().map(Fragment::registers).sum();
        let operands: u32 = reads.iter().map(|reads| self.program.locals[reads.part].len).sum();
        let copies = |reads: &Reads<'_>, bytes: u32| {
            let tile = reads.side.operand.tile;
            (tile.rows() * tile.cols() * tile.dtype().bytes()).div_ceil(bytes * threads)
        };
        let is_turned = |reads: &Reads<'_>| reads.side.operand.tile.is_turned();
        let elements: u32 = reads.iter().filter(|reads| is_turned(reads)).map(|reads| copies(reads, 4)).sum();
        let wide = reads.iter().filter(|reads| !is_turned(reads));
        let wide: u32 = match reads.each_ref().map(|reads| reads.along_k()) {
            // Of rows far apart at the same k: their addresses differ by constants.
            [true, true] => 0,
            // Of the same columns; one of each operand has what the others share.
            [false, false] => wide.map(|reads| copies(reads, self.kernel.class.reads.bytes()).saturating_sub(1)).sum(),
            _ => wide.map(|reads| copies(reads, self.kernel.class.reads.bytes())).sum(),
        };
        let needed = fragments + operands + OTHERS + OF_A_COPY * wide + OF_AN_ELEMENT * elements;
        let Some(registers) = REGISTERS.into_iter().find(|registers| needed <= *registers) else { return };
        let blocks = ALL_REGISTERS / registers / threads;
        if self.program.launch.min_blocks.is_none() && blocks > 1 {
            self.program.launch.min_blocks = Some(blocks);
        }
    }

    /// `acc[i, j] = fma(x, y, acc[i, j])` of the thread's row `i` and column `j`.
    fn cross(&mut self, acc: LocalId, layout: &Fragment, [i, j]: [ValueId; 2], [x, y]: [ValueId; 2]) {
        let [row, col] = [(0, i), (1, j)].map(|(axis, slot)| self.representative(layout, axis, slot));
        let register = self.eval(row + col);
        self.accumulate(acc, register, x, y);
    }
}

impl<'s> Reads<'s> {
    /// `held`: elements that are in registers at once.
    fn new(
        l: &mut Lowering<'_>,
        side: &'s Side,
        layout: &'s Fragment,
        (chunk, deep): (u32, u32),
        held: u32,
    ) -> Reads<'s> {
        let axis = side.axis();
        let along_k = side.operand.major == Major::K;
        let block = layout.lane_block().map_or(1, |block| block[usize::from(axis)]);
        let together = if along_k { 1 } else { block.min(CHUNK) };
        let name = l.kernel.buffers[side.buffer].name.clone();
        let part = l.local(&format!("{name}_part"), Dtype::F32, held);
        let (lines, zero) = (layout.slots(axis), l.int(0));
        let mut reads = Reads { side, layout, lines, together, deep, part, first: zero, depth: None };
        reads.depth = reads.depth_rule(chunk);
        if reads.depth.is_some() {
            let thread = l.compute_thread();
            let offset = l.formula([thread], |[thread]| reads.offset(thread, 0, Formula::Constant(0)));
            reads.first = l.once(&format!("{name}_first"), offset);
        }
        reads
    }

    fn along_k(&self) -> bool {
        self.side.operand.major == Major::K
    }

    /// The offset of a thread's line at `k`, in elements.
    fn offset<I: Index>(&self, thread: I, line: u32, k: I) -> I {
        let axis = self.side.axis();
        let register = self.layout.representative(axis, line);
        let (row, col) = self.layout.position(thread, I::constant(register));
        let line = if axis == 0 { row } else { col };
        self.side.operand.place(line, k)
    }

    /// Line and step of every access of a chunk.
    fn accesses(&self, chunk: u32) -> impl Iterator<Item = (u32, u32)> {
        let each = if self.along_k() { self.deep } else { 1 } as usize;
        let lines = (0..self.lines).step_by(self.together as usize);
        lines.flat_map(move |line| (0..chunk).step_by(each).map(move |k| (line, k)))
    }

    /// The rule that every access of every thread follows, if there is one.
    fn depth_rule(&self, chunk: u32) -> Option<Depth> {
        let along = self.offset(0u32, 0, 1) - self.offset(0u32, 0, 0);
        let rules = if self.along_k() { [Depth::Xor, Depth::Add(along)] } else { [Depth::Add(along), Depth::Xor] };
        rules.into_iter().find(|rule| {
            let depths = (0..self.side.operand.k()).step_by(chunk as usize);
            self.accesses(chunk).all(|(line, k)| {
                let Some(step) = self.step(line, k) else { return false };
                depths.clone().all(|depth| {
                    (0..self.layout.threads()).all(|thread| {
                        let first = self.offset(thread, 0, 0);
                        let at = match rule {
                            Depth::Xor => first ^ depth,
                            Depth::Add(by) => first + depth * by,
                        };
                        (at ^ step[0]) + step[1] == self.offset(thread, line, depth + k)
                    })
                })
            })
        })
    }

    /// The XOR and the addition, in elements, by which the offset of a line at the `k`-th of a chunk follows from that of the
    /// first line at the first.
    fn step(&self, line: u32, k: u32) -> Option<[u32; 2]> {
        let axis = usize::from(self.side.axis());
        let origin = |line: u32| {
            let (row, col) = self.layout.position(0u32, self.layout.representative(axis as u8, line));
            [row, col][axis]
        };
        let along = origin(line).checked_sub(origin(0))?;
        let tile = self.side.operand.tile;
        // What lies together follows one another, swizzled or not.
        let (step, within) = match self.along_k() {
            true => (tile.step(along, k / CHUNK * CHUNK)?, k % CHUNK),
            false => (tile.step(k, along)?, 0),
        };
        let size = tile.dtype().bytes();
        Some([step.xor / size, step.add / size + within])
    }

    /// Where the slot begins, in rows of the array, if k counts its rows and the slot is whole rows.
    fn rows_before(&self, l: &Lowering<'_>) -> Option<u32> {
        let Some(Depth::Add(by)) = self.depth.filter(|_| !self.along_k()) else { return None };
        let slot = l.slots[self.side.buffer].map_or(Some(0), |slot| l.program.values[slot].kind.as_int())?;
        let slot = u32::try_from(slot).ok()?;
        (by > 0 && slot.is_multiple_of(by)).then(|| slot / by)
    }

    /// Where a chunk begins: places from which each access is a constant away, by the XOR of its step, and the chunk's first k.
    /// `depth` is that k and `shift` more.
    fn at(&self, l: &mut Lowering<'_>, (depth, shift): (ValueId, u32), chunk: u32) -> Chunk {
        let counted = self.rows_before(l) == Some(shift);
        let unshifted = { l.binary(BinaryOp::Add, depth, -i64::from(shift)) };
        let name = format!("{}_at", l.kernel.buffers[self.side.buffer].name);
        let first = match self.depth {
            None => return Chunk { depth: l.once(&name, unshifted), places: BTreeMap::new() },
            Some(Depth::Xor) => l.binary(BinaryOp::BitXor, self.first, unshifted),
            Some(Depth::Add(by)) => l.binary(BinaryOp::Add, self.first, if counted { depth } else { unshifted } * by),
        };
        let xors: BTreeSet<u32> = self.accesses(chunk).filter_map(|(line, k)| Some(self.step(line, k)?[0])).collect();
        let place = |xor: u32| {
            let turned = match xor {
                0 => first,
                xor => l.binary(BinaryOp::BitXor, first, xor),
            };
            let place = if counted { turned } else { l.in_slot(self.side.buffer, turned) };
            (xor, l.once(&name, place))
        };
        Chunk { depth: unshifted, places: xors.into_iter().map(place).collect() }
    }

    /// Where a line is at the `k`-th of a chunk.
    fn memory(&self, l: &mut Lowering<'_>, at: &Chunk, line: u32, k: u32) -> Memory {
        let near = self.step(line, k).and_then(|[xor, add]| Some((*at.places.get(&xor)?, add)));
        let offset = match near {
            Some((place, add)) => l.binary(BinaryOp::Add, place, add),
            None => {
                let thread = l.compute_thread();
                let offset = l.formula([thread, at.depth], |[thread, depth]| self.offset(thread, line, depth.plus(k)));
                l.in_slot(self.side.buffer, offset)
            }
        };
        let space = l.space(Place::Buffer(self.side.buffer));
        l.at(space, offset)
    }

    /// Reads every line from the `k`-th of a chunk on.
    fn read_lines(&self, l: &mut Lowering<'_>, at: &Chunk, k: u32) {
        match self.along_k() {
            true => (0..self.lines).for_each(|line| self.read_line(l, at, (line, k), line * self.deep)),
            false => (0..self.deep).for_each(|by| self.read_step(l, at, k + by, by * self.lines)),
        }
    }

    /// Reads a line along K from the `k`-th of a chunk on into the registers from `start`.
    fn read_line(&self, l: &mut Lowering<'_>, at: &Chunk, (line, k): (u32, u32), start: u32) {
        let memory = self.memory(l, at, line, k);
        l.vector_load(self.part, start, memory, self.deep);
    }

    /// Reads every line at the `k`-th of a chunk into the registers from `start`.
    fn read_step(&self, l: &mut Lowering<'_>, at: &Chunk, k: u32, start: u32) {
        for line in (0..self.lines).step_by(self.together as usize) {
            let memory = self.memory(l, at, line, k);
            if self.together > 1 {
                l.vector_load(self.part, start + line, memory, self.together);
                continue;
            }
            let value = l.fetch(memory);
            l.put(self.part, start + line, value);
        }
    }

    /// What [`Reads::read_lines`] has read of a line, the `k`-th of that.
    fn element(&self, l: &mut Lowering<'_>, line: ValueId, k: ValueId) -> ValueId {
        let (major, minor, lines) = if self.along_k() { (line, k, self.deep) } else { (k, line, self.lines) };
        l.get(self.part, major * lines + minor)
    }
}

impl Side {
    /// The axis of the accumulator that it shares: 0 its rows, 1 its columns.
    fn axis(&self) -> u8 {
        u8::from(!self.left)
    }
}
