//! Tensor cores: products of a warp, matrices to and from registers, and products of a warpgroup, which are agents of
//! their own from their issue to the wait that covers them.
//!
//! A warpgroup's product reads its operands at its issue or as late as its wait, as [`Copies`](super::Copies) says; until
//! the wait its registers are its own. What it reads of shared memory is recorded at its issue, so that whoever
//! overwrites it too early is reported in either case.

use super::AccessKind;
use super::Copies;
use super::access::Running;
use super::bytecode::{GroupOperand, GroupProduct, Instr, LocalPart, Slot};
use super::lanes::{self, each, float, from_float};
use super::report::Who;
use super::schedule::Machine;
use super::shadow::{Access, Agent};
use super::transfer::cells;
use super::warp::{Block, State, Wait};
use crate::ir::{Dtype, FloatFormat, SpanId};
use crate::lowered::{Space, wgmma_k};
use crate::sim::hw::{self, HwError, matrix, mma, wgmma};

/// Products of one warpgroup that are not made yet, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiting: std::collections::VecDeque<Product>,
}

#[derive(Clone, Debug)]
struct Product {
    /// Which of the program.
    index: u32,
    /// The group it is, or will be, committed to.
    group: u32,
    operands: Operands,
    span: SpanId,
}

/// How the hardware reads the operands of a product.
fn input(format: FloatFormat) -> mma::Input {
    match format {
        FloatFormat::Binary16 => mma::Input::F16,
        FloatFormat::Bfloat16 => mma::Input::Bf16,
        FloatFormat::Binary32 => mma::Input::Tf32,
    }
}

/// The values of a product's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operands {
    acc: i64,
    /// A descriptor's bits, or the first register.
    a: i64,
    b: i64,
    accumulate: bool,
}

impl Machine<'_> {
    /// `ldmatrix` and `stmatrix`.
    pub(super) fn matrices(
        &mut self,
        run: &mut Running<'_>,
        (site, offset): (u32, Slot),
        part: LocalPart,
        count: u32,
        transposed: bool,
        span: SpanId,
    ) {
        self.collective(run, span, "matrix load or store");
        let code = self.code;
        let (info, offsets) = (&code.sites[site as usize], run.warp.slots[offset as usize]);
        let starts = run.warp.slots[part.start as usize];
        let Space::Shared(array) = info.space else { return };
        let rows = run.warp.active & u32::MAX >> (32 - 8 * count);
        self.check_rows(run, site, &offsets, rows);
        let mut addresses = [0u32; 32];
        let mut legal = true;
        each(rows, |lane| {
            for i in 0..i64::from(info.width) {
                legal &= self.touch(run, site, lane, offsets[lane].wrapping_add(i)).is_some();
            }
            let info = &self.program.shared[array];
            let byte = i64::from(info.offset) + offsets[lane].wrapping_mul(i64::from(info.dtype.bytes()));
            addresses[lane] = u32::try_from(byte).unwrap_or(u32::MAX);
        });
        // What is outside has been reported.
        if !legal {
            return;
        }
        let mut registers = [[0u32; 4]; 32];
        if info.kind == AccessKind::Write {
            each(run.warp.active, |lane| {
                for (i, word) in (0..).zip(registers[lane].iter_mut().take(count as usize)) {
                    *word = self.take_local(run, part.site, part.local, lane, starts[lane] + i) as u32;
                }
            });
            let stored = matrix::stmatrix(&mut run.shared.data, &addresses, &registers, count as usize, transposed);
            if stored.is_ok() {
                each(rows, |lane| self.mark_written(run, array, addresses[lane], 16));
            }
        } else if let Ok(loaded) = matrix::ldmatrix(&run.shared.data, &addresses, count as usize, transposed) {
            each(run.warp.active, |lane| {
                for (i, word) in (0..).zip(loaded[lane].iter().take(count as usize)) {
                    self.put_local(run, part.site, part.local, lane, starts[lane] + i, i64::from(*word));
                }
            });
        }
    }

    /// `mma.sync`.
    pub(super) fn warp_product(&mut self, run: &mut Running<'_>, product: u32, span: SpanId) {
        self.collective(run, span, "matrix product");
        let product = &self.code.mmas[product as usize];
        let input = input(product.format);
        let (mut a, mut b, mut d) = ([[0u32; 4]; 32], [[0u32; 2]; 32], [[0f32; 4]; 32]);
        let active = run.warp.active;
        each(active, |lane| {
            let mut word = |part: &LocalPart, i: usize| {
                let start = run.warp.slots[part.start as usize][lane];
                self.take_local(run, part.site, part.local, lane, start + i as i64)
            };
            a[lane] = std::array::from_fn(|i| word(&product.a, i) as u32);
            b[lane] = std::array::from_fn(|i| word(&product.b, i) as u32);
            d[lane] = std::array::from_fn(|i| float(word(&product.acc, i)));
        });
        mma::mma(input, &a, &b, &mut d);
        self.counters.products += 1;
        each(active, |lane| {
            let part = &product.acc;
            let start = run.warp.slots[part.start as usize][lane];
            for (i, sum) in d[lane].iter().enumerate() {
                self.put_local(run, part.site, part.local, lane, start + i as i64, from_float(*sum));
            }
        });
    }

    /// The warps of a group are all at the same product: it is issued.
    pub(super) fn issue_product(&mut self, block: &mut Block, group: usize) {
        let warps = 4 * group..4 * group + 4;
        let pc = block.warps[4 * group].pc as usize;
        let (code, span) = (self.code, self.code.spans[pc]);
        let Instr::Wgmma { product: index } = code.instrs[pc] else { return };
        let product = &code.products[index as usize];
        for warp in warps.clone() {
            let warp = &mut block.warps[warp];
            warp.pc += 1;
            warp.state = State::Runnable;
        }
        self.waited_together(block, warps.clone());
        let who = Who::of(block.index, block.linear, &block.warps[4 * group]);
        let partial = block.warps[warps.clone()].iter().find(|w| w.active != w.full).map(|w| (w.active, w.full));
        if let Some((active, full)) = partial {
            self.divergent_warp(who, span, "product of a warpgroup", active, full);
        }
        // Every lane of the group gives the same operands.
        let read = |warp: usize, lane: usize| {
            let at = |slot: Slot| block.warps[warp].slots[slot as usize][lane];
            Operands {
                acc: at(product.acc.start),
                a: match product.a {
                    GroupOperand::Descriptor(slot) => at(slot),
                    GroupOperand::Registers(part) => at(part.start),
                },
                b: at(product.b),
                accumulate: at(product.accumulate) != 0,
            }
        };
        let operands = read(4 * group, 0);
        if let Some(thread) = (128 * group..128 * group + 128).find(|t| read(t / 32, t % 32) != operands) {
            self.uneven_product(who, span, thread as u32);
        }
        let issued = block.warps[4 * group].groups;
        if !self.hold(block, group, product, operands, issued, span) {
            return;
        }
        self.read_operands(block, group, product, operands, issued, span);
        self.counters.products += 1;
        let early = match self.options.copies {
            Copies::Early => true,
            Copies::Late => false,
            Copies::Seeded => self.toss(),
        };
        let made = Product { index, group: issued, operands, span };
        // Products on the same registers are made in order.
        if early && block.products[group].waiting.is_empty() {
            self.make(block, group, &made);
        } else {
            block.products[group].waiting.push_back(made);
        }
    }

    /// Takes the registers of a product; false where there are none.
    fn hold(
        &mut self,
        block: &mut Block,
        group: usize,
        product: &GroupProduct,
        operands: Operands,
        issued: u32,
        span: SpanId,
    ) -> bool {
        let registers = match product.a {
            GroupOperand::Registers(part) => Some((part, operands.a, 4)),
            GroupOperand::Descriptor(_) => None,
        };
        let parts = [Some((product.acc, operands.acc, i64::from(product.n / 2))), registers];
        for (which, (part, start, count)) in parts.into_iter().enumerate().filter_map(|(i, p)| Some((i, p?))) {
            let len = self.code.locals[part.local as usize];
            if start < 0 || start + count > i64::from(len) {
                let who = Who::of(block.index, block.linear, &block.warps[4 * group]);
                let code = self.code;
                self.out_of_bounds(who, &code.sites[part.site as usize], 0, start + count - 1);
                return false;
            }
            for warp in 4 * group..4 * group + 4 {
                let who = Who::of(block.index, block.linear, &block.warps[warp]);
                let state = &mut block.warps[warp];
                let fences = state.fences;
                let memory = &mut state.locals[part.local as usize];
                let mut touched = fences == 0;
                let mut missing = None;
                for element in start as usize..(start + count) as usize {
                    // Lanes whose element is of a row of the tile: no other has a sum.
                    let real = match which {
                        0 => real_lanes(product.rows, warp % 4, element - start as usize) & state.full,
                        _ => state.full,
                    };
                    let held = &mut memory.held[element];
                    touched |= held.touched == fences + 1;
                    let reads = which == 1 || operands.accumulate;
                    if reads && memory.init[element] & real != real {
                        missing = missing.or(Some(element));
                    }
                    if which == 0 {
                        held.written = issued + 1;
                        memory.init[element] = real;
                    } else {
                        held.read = issued + 1;
                    }
                }
                if touched {
                    self.missing_register_fence(who, span, part.local);
                }
                if let Some(element) = missing {
                    let code = self.code;
                    self.uninitialised(who, &code.sites[part.site as usize], 0, element as i64);
                }
            }
        }
        true
    }

    /// Records what a product reads of shared memory.
    fn read_operands(
        &mut self,
        block: &mut Block,
        group: usize,
        product: &GroupProduct,
        operands: Operands,
        issued: u32,
        span: SpanId,
    ) {
        let clocks = self.launch.clocks;
        let first = &mut block.warps[4 * group];
        let who = Who::of(block.index, block.linear, first);
        let mut seen = first.released();
        for warp in 4 * group + 1..4 * group + 4 {
            // Ordered before all four: each reads its rows, and all of them the other operand.
            let other = block.warps[warp].released();
            seen.iter_mut().zip(&other).for_each(|(a, b)| *a = (*a).min(*b));
        }
        let thread = (32 * clocks.agent(Agent::Product(group as u32))) as u16;
        let issuer = (block.linear, who.thread(0) as u16);
        let bytes = product.dtype.bytes();
        let mut reads = vec![(operands.b, product.transposed[1], product.n, product.sites[1])];
        if matches!(product.a, GroupOperand::Descriptor(_)) {
            reads.push((operands.a, product.transposed[0], product.rows, product.sites[0]));
        }
        for (bits, transposed, rows, site) in reads {
            let descriptor = match wgmma::MatrixDescriptor::decode(bits as u64) {
                Ok(descriptor) => descriptor,
                Err(error) => return self.refused(who, span, 0, &error.to_string()),
            };
            let stamp = Access { block: block.linear, clock: issued + 1, thread, site: site as u16 };
            let code = self.code;
            let info = &code.sites[site as usize];
            let Space::Shared(array) = info.space else { continue };
            for row in 0..rows {
                for k in 0..wgmma_k(product.dtype) {
                    let byte = descriptor.address(transposed, bytes, row, k);
                    let offset = self.element_at(array, byte);
                    self.observed[site as usize] += 1;
                    let cells = cells(byte, bytes, block.shared.grain);
                    self.agent_access(block, cells, stamp, (issuer, &seen), (who, 0), (info, offset));
                }
            }
        }
    }

    /// Makes a product: reads its operands and writes its accumulator.
    fn make(&mut self, block: &mut Block, group: usize, made: &Product) {
        let product = &self.code.products[made.index as usize];
        if !self.options.products {
            let parts = (0..4).map(|warp| (4 * group + warp, made.operands.acc as usize));
            for (warp, start) in parts {
                let memory = &mut block.warps[warp].locals[product.acc.local as usize];
                memory.data[start..start + (product.n / 2) as usize].fill([0; 32]);
            }
            return;
        }
        let input = input(product.format);
        let count = (product.n / 2) as usize;
        let start = made.operands.acc as usize;
        let local = |thread: usize, part: &LocalPart, at: usize| {
            block.warps[4 * group + thread / 32].locals[part.local as usize].data[at][thread % 32]
        };
        let mut d: Vec<Vec<f32>> =
            (0..128).map(|t| (0..count).map(|i| float(local(t, &product.acc, start + i))).collect()).collect();
        let words: Vec<[u32; 4]> = match product.a {
            GroupOperand::Registers(part) => {
                let first = made.operands.a as usize;
                (0..128).map(|t| std::array::from_fn(|i| local(t, &part, first + i) as u32)).collect()
            }
            GroupOperand::Descriptor(_) => Vec::new(),
        };
        let a = match product.a {
            GroupOperand::Descriptor(_) => {
                wgmma::A::Shared { descriptor: made.operands.a as u64, transposed: product.transposed[0] }
            }
            GroupOperand::Registers(_) => wgmma::A::Registers(&words),
        };
        let b = (made.operands.b as u64, product.transposed[1]);
        let result: Result<(), HwError> =
            hw::wgmma::wgmma(&block.shared.data, input, count * 2, a, b, &mut d, made.operands.accumulate);
        if let Err(error) = result {
            let who = Who::of(block.index, block.linear, &block.warps[4 * group]);
            return self.refused(who, made.span, 0, &error.to_string());
        }
        for (thread, sums) in d.iter().enumerate() {
            let memory = &mut block.warps[4 * group + thread / 32].locals[product.acc.local as usize];
            for (i, sum) in sums.iter().enumerate() {
                // What is behind the tile's rows was read from anywhere.
                let real = (wgmma::d_position(thread, i).0 as u32) < product.rows;
                memory.data[start + i][thread % 32] = from_float(if real { *sum } else { f32::NAN });
            }
        }
    }

    /// A warp has waited for its groups of products.
    pub(super) fn products_done(&mut self, block: &mut Block, warp: usize, pending: u32) {
        let done = block.warps[warp].groups.saturating_sub(pending);
        let group = warp / 4;
        while block.products[group].waiting.front().is_some_and(|p| p.group < done) {
            if let Some(product) = block.products[group].waiting.pop_front() {
                self.make(block, group, &product);
            }
        }
        let clocks = self.launch.clocks;
        let entry = clocks.entry(block.linear, clocks.agent(Agent::Product(group as u32)));
        let state = &mut block.warps[warp];
        state.seen[entry] = state.seen[entry].max(done);
        for held in state.locals.iter_mut().flat_map(|l| &mut l.held) {
            for by in [&mut held.written, &mut held.read] {
                if *by <= done {
                    *by = 0;
                }
            }
        }
    }

    /// The warp ends: nothing waits for its products.
    pub(super) fn end_of_products(&mut self, run: &mut Running<'_>, span: SpanId) {
        if run.warp.locals.iter().flat_map(|l| &l.held).any(|held| held.written != 0) {
            self.exit_in_product(run.who, span);
        }
    }

    /// A value packed into, or taken out of, a word.
    pub(super) fn pack(dtype: Dtype, low: i64, high: i64) -> i64 {
        i64::from(lanes::to_bits(dtype, low) | lanes::to_bits(dtype, high) << 16)
    }

    pub(super) fn unpack(dtype: Dtype, word: i64, high: bool) -> i64 {
        let word = word as u32;
        lanes::from_bits(dtype, if high { word >> 16 } else { word & 0xffff })
    }
}

/// Of warp `warp` of a warpgroup, the lanes whose accumulator `i` is of a row below `rows`.
fn real_lanes(rows: u32, warp: usize, i: usize) -> u32 {
    (0..32).filter(|lane| (wgmma::d_position(32 * warp + lane, i).0 as u32) < rows).fold(0, |all, lane| all | 1 << lane)
}

/// Whether the warps of a group are all at the same product.
pub(super) fn is_together(block: &Block, group: usize) -> bool {
    let Some(warps) = block.warps.get(4 * group..4 * group + 4) else { return false };
    warps.iter().all(|w| w.state == State::Waiting(Wait::Product) && w.pc == warps[0].pc)
}
