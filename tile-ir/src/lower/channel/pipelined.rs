//! Pipelined loops without a producer: the threads that compute issue an iteration's loads iterations ahead, into registers or into
//! shared memory.
//!
//! Every array that the loads fill has a slot a stage: a per-thread array is copied, a shared one holds its slots one behind the other.
//! The loop is written out `stages` times, so that which slot an iteration uses is known where it stands, and no data moves from slot to
//! slot. An iteration first issues the loads of its own arrays, then those of the iteration `stages - 1` later, since loads come back in
//! the order in which they were issued, and then computes.
//!
//! Before an iteration issues loads into shared memory, it awaits those of its own slot, `stages - 2` newer iterations' being under way.
//! The barrier of that wait tells as well that every thread has left the iteration before, whose slot is the one that is filled next:
//! slots need no other release. Where each warp has a ring of its own, an iteration releases its slot at its end and fills it again, since that costs a
//! barrier of the warp only. With one stage an iteration's own loads are issued, awaited, used, and their slot released.
//!
//! `.schedule(Rolled)`, and where what is written out of a product by multiply-adds would not fit into the instruction cache: the loop is there once, and counts which slot it is at, where only shared arrays are loaded: the copies of a per-thread array are
//! registers, whose numbers an instruction cannot compute.
//!
//! Loads that no asynchronous copy can make are staged in registers ([`registers`](super::registers)): an iteration begins by loading what
//! the next one uses, and ends by storing it to the slot that is not read meanwhile. One barrier an iteration is enough:
//!
//! ```text
//! load(first); store(slot 0); barrier
//! for i { if there is a next { load(next) }; compute(slot); if there is a next { store(other slot) }; barrier }
//! ```

use super::super::block::Form;
use super::super::mma::MOST_WRITTEN_OUT;
use super::super::schedule::listed;
use super::super::uses::{declared, mentions, statements, touches, variables};
use super::super::*;
use super::registers::{Held, Way};
use crate::analysis::SharedLoad;
use crate::ir::pipeline::{Split, split};

/// What fills the slots, and so how the block learns that the data are there.
enum Transport {
    /// Loads into per-thread arrays alone, which nobody else reads.
    OwnArrays,
    /// Each thread's stores, and a barrier.
    Stores,
    /// Each thread's groups of `cp.async`, one an iteration, whether or not there is such an iteration, so that they can be counted; the
    /// thread awaits its group, and then the block a barrier.
    AsyncCopies,
    /// Groups of `cp.async`, one for each of these arrays an iteration, by which every warp copies the rows that it alone reads ([`own_rows`](super::own_rows)): an array is
    /// awaited where it is first used, with a barrier of the warp, and another one releases an iteration's slot at its end, which is filled again at once.
    WarpCopies(Vec<BufferId>),
    /// Each thread's registers, which hold an iteration's elements until the one before is done.
    Registers(Vec<Held>),
}

/// A pipelined loop that is being lowered.
struct Pipeline<'k> {
    var: VarId,
    body: &'k [StmtId],
    split: Split,
    /// The copies of each per-thread array.
    copies: Vec<(BufferId, Vec<LocalId>)>,
    /// The shared arrays and the elements of a slot.
    shared: Vec<(BufferId, u32)>,
    transport: Transport,
    end: ValueId,
    step: ValueId,
    stages: u32,
}

/// A slot of the ring.
#[derive(Clone, Copy)]
enum Slot {
    /// The number is known where the loop is written out.
    Fixed(u32),
    /// A rolled loop counts it.
    Counted(RegId),
}

impl Pipeline<'_> {
    /// How many iterations ahead loads are issued, which is by how many slots the one that an iteration fills is further than its own.
    fn ahead(&self) -> u32 {
        match self.transport {
            Transport::Registers(_) => 1,
            Transport::OwnArrays | Transport::Stores | Transport::AsyncCopies => self.stages - 1,
            Transport::WarpCopies(_) => self.stages,
        }
    }
}

impl<'a> Lowering<'a> {
    pub(in crate::lower) fn pipelined(
        &mut self,
        var: VarId,
        range: [ExprId; 3],
        stages: ExprId,
        rolled: bool,
        body: &'a [StmtId],
    ) {
        let kernel = self.kernel;
        let stages = class::depth(kernel, stages);
        let split = split(kernel, var, body);
        let unroll = written_out(kernel, range);
        let [start, end, step] = range.map(|e| self.value(e));
        let transport = self.transport(&split, body);
        if split.loads == 0 || stages == 1 {
            let again = self.loop_depth > 0
                || iterations(kernel, range).is_none_or(|n| n > 1)
                || split.shared(kernel).any(|buffer| is_touched_outside(kernel, buffer, body));
            return self.counted_loop(var, [start, end, step], unroll, |l| l.in_turn(&split, &transport, body, again));
        }
        let transport = match (self.held(&split, body, stages), transport) {
            (Some(held), _) => Transport::Registers(held),
            (None, Transport::AsyncCopies) => {
                self.own_rows(&split, body).map_or(Transport::AsyncCopies, Transport::WarpCopies)
            }
            (None, transport) => transport,
        };
        let (name, ty) = (kernel.vars[var].name.clone(), self.index_type(var));
        let [start, end, step] = [("start", start), ("end", end), ("step", step)].map(|(bound, value)| {
            let value = self.fit(value, ty);
            self.once(&format!("{name}_{bound}"), value)
        });
        let (copies, shared) = (Vec::new(), Vec::new());
        let mut pipeline = Pipeline { var, body, split, copies, shared, transport, end, step, stages };
        self.declare_copies(&mut pipeline);
        if kernel.class.reads != Width::Sixteen {
            self.states_threads(&pipeline);
        }
        self.remark_stages(&pipeline);
        if let Transport::WarpCopies(arrays) = &pipeline.transport {
            self.own_rows.extend(arrays);
            // Without a number of blocks ptxas saves registers for more of them than shared memory holds: it loads every operand into the same ones,
            // just before its product. `__launch_bounds__(threads, 1)` takes no registers away.
            self.program.launch.min_blocks.get_or_insert(1);
        }
        self.fill_slots(&pipeline, start);
        if let Transport::WarpCopies(_) = pipeline.transport {
            // What the block stored before is read in the loop, which has no barrier of the block.
            self.op(OpKind::Barrier);
        }
        let reg = self.reg(&name, ty, false);
        let rolled = rolled
            || matches!(pipeline.transport, Transport::AsyncCopies)
                && self.multiply_adds(body) * stages > MOST_WRITTEN_OUT;
        if rolled && pipeline.copies.is_empty() {
            self.rolled(&pipeline, reg, start);
            return self.await_zeros(&pipeline);
        }
        let stride = self.eval(Term::from(stages) * step);
        self.loop_over(reg, [start, end, stride], unroll, |l| {
            let slots = |slot| [slot, (slot + pipeline.ahead()) % stages].map(Slot::Fixed);
            l.iteration(&pipeline, reg, slots(0));
            for slot in 1..stages {
                let index = l.ahead(&pipeline, reg, slot);
                l.when(index.below(end), |l| {
                    let own = l.reg(&name, ty, false);
                    l.define(own, index);
                    l.iteration(&pipeline, own, slots(slot));
                });
            }
        });
        self.select(&pipeline, Slot::Fixed(0));
        self.vars[var] = None;
        self.await_zeros(&pipeline);
    }

    /// Behind a loop, awaits the zeros that copies of iterations that do not exist have written: its arrays may be filled again.
    fn await_zeros(&mut self, pipeline: &Pipeline<'_>) {
        if self.copies_ask(pipeline) {
            self.op(OpKind::AsyncWait { pending: 0 });
        }
    }

    /// The loop, once: a register holds the slot of the iteration, another one the slot that is filled.
    fn rolled(&mut self, pipeline: &Pipeline<'a>, reg: RegId, start: ValueId) {
        let stages = pipeline.stages;
        let mut counter = |name: &str, first: u32| {
            let reg = self.reg(name, ValueType::Index, true);
            self.define(reg, first);
            reg
        };
        let ahead = pipeline.ahead() % stages;
        let slot = counter("slot", 0);
        let filled = if ahead == 0 { slot } else { counter("filled", ahead) };
        self.loop_over(reg, [start, pipeline.end, pipeline.step], Unroll::By(1), |l| {
            l.iteration(pipeline, reg, [slot, filled].map(Slot::Counted));
            for counted in BTreeSet::from([slot, filled]) {
                l.set(counted, counted + 1);
                l.when(counted.equals(stages), |l| l.set(counted, 0));
            }
        });
        self.select(pipeline, Slot::Fixed(0));
        self.vars[pipeline.var] = None;
    }

    /// One stage: load, await, compute, release, where the slot is filled `again`.
    fn in_turn(&mut self, split: &Split, transport: &Transport, body: &[StmtId], again: bool) {
        let (loads, rest) = body.split_at(split.loads);
        self.block(loads);
        self.issued(transport);
        self.await_slot(transport, 0);
        self.block(rest);
        if again && !matches!(transport, Transport::OwnArrays) {
            self.op(OpKind::Barrier);
        }
    }

    /// What fills the slots, where it is not staged in registers.
    fn transport(&self, split: &Split, body: &[StmtId]) -> Transport {
        if split.shared(self.kernel).next().is_none() {
            return Transport::OwnArrays;
        }
        let is_asynchronous =
            |stmt: &StmtId| matches!(self.analysis.shared_loads.get(stmt), Some(SharedLoad::Asynchronous { .. }));
        match statements(self.kernel, &body[..split.loads]).iter().any(is_asynchronous) {
            true => Transport::AsyncCopies,
            false => Transport::Stores,
        }
    }

    /// Every thread has issued its part of an iteration's loads.
    fn issued(&mut self, transport: &Transport) {
        if matches!(transport, Transport::AsyncCopies) {
            self.op(OpKind::AsyncCommit);
        }
    }

    /// The data of a slot are there, for the whole block; `newer` iterations' loads were issued after them.
    fn await_slot(&mut self, transport: &Transport, newer: u32) {
        match transport {
            Transport::OwnArrays => return,
            Transport::AsyncCopies => self.op(OpKind::AsyncWait { pending: newer }),
            Transport::Stores | Transport::Registers(_) | Transport::WarpCopies(_) => {}
        }
        self.op(OpKind::Barrier);
    }

    /// Declares the copies of per-thread arrays, and finds the elements of shared arrays' slots.
    fn declare_copies(&mut self, pipeline: &mut Pipeline<'_>) {
        for &buffer in &pipeline.split.buffers {
            match self.space(Place::Buffer(buffer)) {
                Space::Local(first) => {
                    let LocalArray { dtype, len, .. } = self.program.locals[first];
                    let name = &self.kernel.buffers[buffer].name;
                    let others = (1..pipeline.stages).map(|_| self.out.local(name, dtype, len));
                    pipeline.copies.push((buffer, std::iter::once(first).chain(others).collect()));
                }
                Space::Shared(array) => {
                    let SharedArray { len, slots, .. } = self.program.shared[array];
                    pipeline.shared.push((buffer, len / slots.max(1)));
                }
                Space::Global(_) => {}
            }
        }
    }

    /// Has nvcc know how many threads copy. Of pieces of less than 16 bytes a thread has many, whose places it would otherwise keep in registers.
    fn states_threads(&mut self, pipeline: &Pipeline<'_>) {
        self.program.launch.states_threads = true;
        if matches!(pipeline.transport, Transport::AsyncCopies) && self.multiply_adds(pipeline.body) == 0 {
            // Without a number of blocks ptxas stops at a number of registers of its own, and spills a few to keep it. A product by multiply-adds has
            // operands in registers, too, and finds its own.
            let blocks = self.blocks_beside_fragments();
            self.program.launch.min_blocks.get_or_insert(blocks);
        }
    }

    /// Says what is under way while an iteration computes.
    fn remark_stages(&mut self, pipeline: &Pipeline<'_>) {
        let (kernel, stages) = (self.kernel, pipeline.stages);
        if let Transport::Registers(_) = pipeline.transport {
            return;
        }
        let bytes: u64 = pipeline.shared.iter().map(|(b, _)| kernel.buffer_bytes(*b)).sum();
        if bytes == 0 {
            return;
        }
        let names = listed(pipeline.shared.iter().map(|(array, _)| format!("`{}`", kernel.buffers[*array].name)));
        let ahead = bytes * u64::from(pipeline.ahead());
        let threads = u64::from(kernel.thread_count().max(1));
        let text = format!(
            "{names} in {stages} stages of {bytes} bytes a block{}: up to {ahead} bytes a block are in flight, {} a thread",
            if matches!(pipeline.transport, Transport::WarpCopies(_)) { ", each warp its own rows" } else { "" },
            ahead.div_ceil(threads)
        );
        self.remark_here(RemarkKind::Choice, text);
    }

    /// The index `by` iterations after `index`.
    fn ahead(&mut self, pipeline: &Pipeline<'_>, index: impl Into<Term>, by: u32) -> ValueId {
        let index = index.into();
        self.eval(if by == 0 { index } else { index + Term::from(by) * pipeline.step })
    }

    /// Makes the arrays stand for their slots `slot`.
    fn select(&mut self, pipeline: &Pipeline<'_>, slot: Slot) {
        for (buffer, copies) in &pipeline.copies {
            self.locals[*buffer] = match slot {
                Slot::Fixed(slot) => copies.get(slot as usize).copied(),
                Slot::Counted(_) => None,
            };
        }
        for (buffer, elements) in &pipeline.shared {
            let first = match slot {
                Slot::Fixed(slot) => self.int(i64::from(slot) * i64::from(*elements)),
                Slot::Counted(slot) => self.eval(slot * *elements),
            };
            self.slots[*buffer] = Some(first);
        }
    }

    /// Lowers with `f` the loads of the iteration `index` while another one is lowered, whose index and names stay what they are.
    pub(super) fn beside(&mut self, var: VarId, index: Binding, loads: &[StmtId], f: impl FnOnce(&mut Self)) {
        let span = self.span;
        let own = loads.iter().filter_map(|s| declared(self.kernel, *s)).chain([var]);
        let outer: Vec<_> = own.map(|var| (var, self.vars[var])).collect();
        self.vars[var] = Some(index);
        f(self);
        outer.into_iter().for_each(|(var, binding)| self.vars[var] = binding);
        self.span = span;
    }

    /// The loads of iteration `index`, if there is such an iteration, into the slots `slot`.
    fn issue(&mut self, pipeline: &Pipeline<'a>, index: ValueId, slot: Slot) {
        let exists = self.eval(index.below(pipeline.end));
        let load = |l: &mut Self| l.load_ahead(pipeline, index, slot);
        if let Transport::WarpCopies(arrays) = &pipeline.transport {
            return self.either(exists, load, |l| arrays.iter().for_each(|_| l.op(OpKind::AsyncCommit)));
        }
        self.when(exists, load);
        self.issued(&pipeline.transport);
    }

    /// [`Lowering::issue`] without a branch, of loads that are asynchronous copies alone: each of them asks whether there is such an
    /// iteration, and writes zeros to the slot where there is none.
    fn issue_unbranched(&mut self, pipeline: &Pipeline<'a>, index: ValueId, slot: Slot) {
        let exists = self.eval(index.below(pipeline.end));
        self.exists = Some(self.out.once("exists", exists));
        self.load_ahead(pipeline, index, slot);
        self.exists = None;
        self.issued(&pipeline.transport);
    }

    /// The loads of iteration `index` into the slots `slot`.
    fn load_ahead(&mut self, pipeline: &Pipeline<'a>, index: ValueId, slot: Slot) {
        let (var, loads) = (pipeline.var, &pipeline.body[..pipeline.split.loads]);
        let arrays = if let Transport::WarpCopies(arrays) = &pipeline.transport { &arrays[..] } else { &[] };
        self.select(pipeline, slot);
        let (name, ty) = (format!("{}_ahead", self.kernel.vars[var].name), self.index_type(var));
        let reg = self.reg(&name, ty, false);
        self.define(reg, index);
        let needed = self.needed(loads, loads);
        self.beside(var, Binding::Reg(reg), loads, |l| {
            for stmt in needed {
                l.block(&[stmt]);
                if arrays.iter().any(|array| touches(l.kernel, stmt, *array)) {
                    l.op(OpKind::AsyncCommit);
                }
            }
        });
    }

    /// Fills the slots of the iterations before which the loop is entered.
    fn fill_slots(&mut self, pipeline: &Pipeline<'a>, start: ValueId) {
        if let Transport::Registers(held) = &pipeline.transport {
            let loads = &pipeline.body[..pipeline.split.loads];
            self.when(start.below(pipeline.end), |l| {
                l.move_held(pipeline.var, start, loads, held, Way::Load);
                l.select(pipeline, Slot::Fixed(0));
                l.move_held(pipeline.var, start, loads, held, Way::Store);
            });
            return self.await_slot(&pipeline.transport, 0);
        }
        for ahead in 0..pipeline.ahead() {
            let index = self.ahead(pipeline, start, ahead);
            self.issue(pipeline, index, Slot::Fixed(ahead));
        }
    }

    /// One iteration on the slots `slot`, which fills the slots `filled` of a later one.
    fn iteration(&mut self, pipeline: &Pipeline<'a>, index: RegId, [slot, filled]: [Slot; 2]) {
        if let Transport::Registers(held) = &pipeline.transport {
            return self.held_iteration(pipeline, held, index, [slot, filled]);
        }
        let (own, span) = (pipeline.split.own, self.span);
        self.begin(pipeline, index, slot);
        self.block(&pipeline.body[pipeline.split.loads..own]);
        self.span = span;
        if let Transport::WarpCopies(arrays) = &pipeline.transport {
            self.awaited_by_warp(arrays, pipeline.stages, &pipeline.body[own..]);
            self.span = span;
            self.op(OpKind::WarpBarrier);
            let later = self.ahead(pipeline, index, pipeline.ahead());
            return self.issue(pipeline, later, filled);
        }
        self.await_slot(&pipeline.transport, pipeline.ahead() - 1);
        let later = self.ahead(pipeline, index, pipeline.ahead());
        if self.copies_ask(pipeline) {
            self.issue_unbranched(pipeline, later, filled);
        } else {
            self.issue(pipeline, later, filled);
        }
        self.select(pipeline, slot);
        self.block(&pipeline.body[own..]);
    }

    /// Multiply-adds of a thread in the products among statements that are blocked in registers.
    fn multiply_adds(&self, statements: &[StmtId]) -> u32 {
        let of = |stmt: &StmtId| {
            let product = self.products.get(stmt).filter(|product| matches!(product.form, Form::Blocked(_)))?;
            Some(self.layouts.fragments.get(&product.acc)?.registers() * product.a.1.k())
        };
        statements.iter().filter_map(of).sum()
    }

    /// Whether the loads of a later iteration are issued without a branch: asynchronous copies alone, beside a product by multiply-adds
    /// that is blocked in registers, of which the assembler moves no instruction over a branch.
    fn copies_ask(&self, pipeline: &Pipeline<'_>) -> bool {
        let (loads, work) = pipeline.body.split_at(pipeline.split.loads);
        let is_copy = |stmt: &StmtId| {
            declared(self.kernel, *stmt).is_some()
                || matches!(self.kernel.stmts[*stmt].kind, StmtKind::Tile(TileOp::Copy { .. }))
                    && matches!(self.analysis.shared_loads.get(stmt), Some(SharedLoad::Asynchronous { .. }))
        };
        matches!(pipeline.transport, Transport::AsyncCopies)
            && pipeline.copies.is_empty()
            && self.multiply_adds(work) > 0
            && loads.iter().all(is_copy)
    }

    /// The work of an iteration, each of whose arrays is awaited before the first statement that uses it.
    fn awaited_by_warp(&mut self, arrays: &[BufferId], stages: u32, work: &[StmtId]) {
        let mut there = 0;
        for &stmt in work {
            let used = arrays.iter().rposition(|array| mentions(self.kernel, stmt, *array)).map_or(0, |at| at + 1);
            if used > there {
                there = used;
                // The groups that were issued after that of the last array that is used.
                let newer = stages * arrays.len() as u32 - used as u32;
                self.op(OpKind::AsyncWait { pending: newer });
                self.op(OpKind::WarpBarrier);
            }
            self.block(&[stmt]);
        }
    }

    /// One iteration, at whose start the next one's elements are loaded into registers, and at whose end they are stored.
    fn held_iteration(&mut self, pipeline: &Pipeline<'a>, held: &[Held], index: RegId, [slot, filled]: [Slot; 2]) {
        let (var, span) = (pipeline.var, self.span);
        let (loads, rest) = pipeline.body.split_at(pipeline.split.loads);
        let next = self.ahead(pipeline, index, 1);
        let next = self.out.once(&format!("{}_next", self.kernel.vars[var].name), next);
        let more = self.eval(next.below(pipeline.end));
        self.when(more, |l| l.move_held(var, next, loads, held, Way::Load));
        self.begin(pipeline, index, slot);
        self.block(rest);
        self.span = span;
        self.select(pipeline, filled);
        self.when(more, |l| l.move_held(var, next, loads, held, Way::Store));
        self.await_slot(&pipeline.transport, 0);
    }

    /// Begins an iteration: the loop's index and its arrays are those of it, and so are the indices that its work shares with the loads.
    fn begin(&mut self, pipeline: &Pipeline<'a>, index: RegId, slot: Slot) {
        self.select(pipeline, slot);
        self.vars[pipeline.var] = Some(Binding::Reg(index));
        let (before, rest) = pipeline.body.split_at(pipeline.split.loads);
        self.names(before, rest);
    }

    /// The variables of `block` that `users` read.
    pub(super) fn names(&mut self, block: &[StmtId], users: &[StmtId]) {
        let mut names = self.needed(block, users);
        names.retain(|stmt| declared(self.kernel, *stmt).is_some());
        self.block(&names);
    }

    /// `block` without the variables that neither `users` nor what is kept reads.
    pub(in crate::lower) fn needed(&self, block: &[StmtId], users: &[StmtId]) -> Vec<StmtId> {
        self.needed_with(block, users, BTreeSet::new())
    }

    /// [`Lowering::needed`], where these variables are read too.
    pub(in crate::lower) fn needed_with(
        &self,
        block: &[StmtId],
        users: &[StmtId],
        mut read: BTreeSet<VarId>,
    ) -> Vec<StmtId> {
        let kernel = self.kernel;
        let own = |s: &StmtId| block.contains(s) && declared(kernel, *s).is_some();
        let users: Vec<StmtId> = users.iter().filter(|s| !own(s)).copied().collect();
        read.extend(variables(kernel, &users));
        for stmt in block.iter().rev() {
            if declared(kernel, *stmt).is_some_and(|var| read.contains(&var)) {
                read.extend(variables(kernel, &[*stmt]));
            }
        }
        let kept = |s: &&StmtId| declared(kernel, **s).is_none_or(|var| read.contains(&var));
        block.iter().filter(kept).copied().collect()
    }
}

/// A loop whose few iterations are known is written out: its guards are decided when it is compiled, and the compiler
/// may move loads across iterations.
fn written_out(kernel: &BoundKernel, range: [ExprId; 3]) -> Unroll {
    const FEW: i64 = 4;
    if iterations(kernel, range).is_some_and(|n| n <= FEW) { Unroll::Full } else { Unroll::Auto }
}

/// How often a loop goes round, where that is a constant.
fn iterations(kernel: &BoundKernel, [start, end, step]: [ExprId; 3]) -> Option<i64> {
    let distance = fold(BinaryOp::Sub, kernel.const_index(end)?, kernel.const_index(start)?)?;
    fold(BinaryOp::CeilDiv, distance, kernel.const_index(step)?)
}

/// Whether a statement that is not in `body` reads or writes an array.
pub(super) fn is_touched_outside(kernel: &BoundKernel, buffer: BufferId, body: &[StmtId]) -> bool {
    let touching =
        |body: &[StmtId]| statements(kernel, body).into_iter().filter(|stmt| touches(kernel, *stmt, buffer)).count();
    touching(&kernel.body) > touching(body)
}
