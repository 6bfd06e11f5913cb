//! Pipelined loops: an iteration's loads are issued iterations ahead, into registers or into shared memory.
//!
//! Every array that the loads fill has a slot a stage: a per-thread array is copied, a shared one holds its slots one
//! behind the other. The loop is written out `stages` times, so that which slot an iteration uses is known where it
//! stands, and no data moves from slot to slot. An iteration first issues the loads of its own arrays, then those of the
//! iteration `stages - 1` later, since loads come back in the order in which they were issued, and then computes.
//!
//! Loads into shared memory produce a token an iteration (see [`token`](super::token)). Before an iteration issues, it
//! awaits its own token, `stages - 2` newer ones being under way. By then every thread has left the iteration before,
//! whose slot is the one that is filled next. With one stage an iteration's own loads are issued, awaited, used, and
//! their slot released.

use super::token::Protocol;
use super::*;
use crate::analysis::SharedLoad;
use crate::ir::parts::{each, variables};
use crate::ir::pipeline::{Split, split};

/// A pipelined loop that is being lowered.
struct Pipeline<'k> {
    var: VarId,
    body: &'k [StmtId],
    split: Split,
    /// The copies of each per-thread array.
    copies: Vec<(BufferId, Vec<LocalId>)>,
    /// The shared arrays and the elements of a slot.
    shared: Vec<(BufferId, u32)>,
    /// How loads into those are awaited; `None` if there are none.
    protocol: Option<Protocol>,
    end: ValueId,
    step: ValueId,
    stages: u32,
}

impl<'a> Lowering<'a> {
    pub(super) fn pipelined(&mut self, var: VarId, range: [ExprId; 3], stages: ExprId, body: &'a [StmtId]) {
        let kernel = self.kernel;
        let stages = class::depth(kernel, stages);
        let split = split(kernel, var, body);
        let unroll = written_out(kernel, range);
        let [start, end, step] = range.map(|e| self.value(e));
        let protocol = self.protocol(&split, body);
        if split.loads == 0 || stages == 1 {
            let again = self.loop_depth > 0
                || iterations(kernel, range).is_none_or(|n| n > 1)
                || split.shared(kernel).any(|buffer| is_touched_outside(kernel, buffer, body));
            return self.counted_loop(var, [start, end, step], unroll, |l| l.in_turn(&split, protocol, body, again));
        }
        if let Some(held) = self.held(&split, body, stages) {
            return self.held_loop(var, [start, end, step], unroll, &split, body, &held);
        }
        let name = kernel.vars[var].name.clone();
        let [start, end, step] = [("start", start), ("end", end), ("step", step)].map(|(bound, value)| {
            let ty = self.index_type(var);
            let value = self.fit(value, ty);
            self.once(&format!("{name}_{bound}"), value)
        });
        let (copies, shared) = self.slots(&split, stages);
        let pipeline = Pipeline { var, body, split, copies, shared, protocol, end, step, stages };
        self.remark_stages(&pipeline);
        for ahead in 0..stages - 1 {
            let index = self.ahead(&pipeline, start, ahead);
            self.issue(&pipeline, index, ahead);
        }
        let ty = self.index_type(var);
        let reg = self.reg(&name, ty, false);
        let stride = self.int(i64::from(stages));
        let stride = self.binary(BinaryOp::Mul, stride, step);
        self.loop_over(reg, [start, end, stride], unroll, |l| {
            for slot in 0..stages {
                let first = l.read(reg);
                if slot == 0 {
                    l.iteration(&pipeline, reg, slot);
                    continue;
                }
                let index = l.ahead(&pipeline, first, slot);
                let inside = l.binary(BinaryOp::Lt, index, pipeline.end);
                let then = l.nested(|l| {
                    let ty = l.index_type(pipeline.var);
                    let own = l.reg(&name, ty, false);
                    l.op(OpKind::Let { reg: own, value: Some(index) });
                    l.iteration(&pipeline, own, slot);
                });
                l.op(OpKind::If { cond: inside, then, otherwise: Vec::new() });
            }
        });
        self.select(&pipeline, 0);
        self.vars[var] = None;
    }

    /// One stage: load, await, compute, release, where the slot is filled `again`.
    fn in_turn(&mut self, split: &Split, protocol: Option<Protocol>, body: &[StmtId], again: bool) {
        let (loads, rest) = body.split_at(split.loads);
        self.block(loads);
        if let Some(protocol) = protocol {
            self.produce_token(protocol);
            self.await_token(protocol, 0);
        }
        self.block(rest);
        if protocol.is_some() && again {
            self.release_slot();
        }
    }

    /// How the loads into shared memory are awaited.
    fn protocol(&self, split: &Split, body: &[StmtId]) -> Option<Protocol> {
        split.shared(self.kernel).next()?;
        let mut protocol = Protocol::Barriers;
        each(self.kernel, &body[..split.loads], &mut |stmt| {
            if let Some(SharedLoad::Asynchronous { .. }) = self.analysis.shared_loads.get(&stmt) {
                protocol = Protocol::Groups;
            }
        });
        Some(protocol)
    }

    /// The copies of per-thread arrays, and the shared arrays with their slots' elements.
    #[allow(clippy::type_complexity)]
    fn slots(&mut self, split: &Split, stages: u32) -> (Vec<(BufferId, Vec<LocalId>)>, Vec<(BufferId, u32)>) {
        let kernel = self.kernel;
        let (mut locals, mut shared) = (Vec::new(), Vec::new());
        for &buffer in &split.buffers {
            match self.space(Place::Buffer(buffer)) {
                Space::Local(first) => {
                    let LocalArray { dtype, len, .. } = self.program.locals[first];
                    let mut copies = vec![first];
                    for _ in 1..stages {
                        let local = self.local(&kernel.buffers[buffer].name, dtype, len);
                        self.op(OpKind::Local { local });
                        copies.push(local);
                    }
                    locals.push((buffer, copies));
                }
                Space::Shared(array) => {
                    let SharedArray { len, slots, .. } = self.program.shared[array];
                    shared.push((buffer, len / slots.max(1)));
                }
                Space::Global(_) => {}
            }
        }
        (locals, shared)
    }

    /// Says what is under way while an iteration computes.
    fn remark_stages(&mut self, pipeline: &Pipeline<'_>) {
        let (kernel, stages) = (self.kernel, pipeline.stages);
        let bytes: u64 = pipeline.shared.iter().map(|(b, _)| buffer_bytes(kernel, *b)).sum();
        if bytes == 0 {
            return;
        }
        let names: Vec<String> =
            pipeline.shared.iter().map(|(b, _)| format!("`{}`", kernel.buffers[*b].name)).collect();
        let ahead = bytes * u64::from(stages - 1);
        let threads = u64::from(kernel.thread_count().max(1));
        let text = format!(
            "{} in {stages} stages of {bytes} bytes a block: up to {ahead} bytes a block are in flight, {} a thread",
            names.join(", "),
            ahead.div_ceil(threads)
        );
        self.remark_here(RemarkKind::Choice, text);
    }

    /// The index `by` iterations after `index`.
    fn ahead(&mut self, pipeline: &Pipeline<'_>, index: ValueId, by: u32) -> ValueId {
        if by == 0 {
            return index;
        }
        let by = self.int(i64::from(by));
        let is_one = self.program.values[pipeline.step].kind == ValueKind::Int(1);
        let distance = if is_one { by } else { self.binary(BinaryOp::Mul, by, pipeline.step) };
        self.binary(BinaryOp::Add, index, distance)
    }

    /// Makes the arrays stand for their slots `slot`.
    fn select(&mut self, pipeline: &Pipeline<'_>, slot: u32) {
        for (buffer, copies) in &pipeline.copies {
            self.locals[*buffer] = copies.get(slot as usize).copied();
        }
        for (buffer, elements) in &pipeline.shared {
            let first = self.int(i64::from(slot) * i64::from(*elements));
            self.slots[*buffer] = Some(first);
        }
    }

    /// The loads of iteration `index`, if there is such an iteration, into the slots `slot`.
    fn issue(&mut self, pipeline: &Pipeline<'_>, index: ValueId, slot: u32) {
        let span = self.span;
        let cond = self.binary(BinaryOp::Lt, index, pipeline.end);
        let then = self.nested(|l| {
            l.select(pipeline, slot);
            let name = format!("{}_ahead", l.kernel.vars[pipeline.var].name);
            let ty = l.index_type(pipeline.var);
            let reg = l.reg(&name, ty, false);
            l.op(OpKind::Let { reg, value: Some(index) });
            l.vars[pipeline.var] = Some(Binding::Reg(reg));
            let loads = &pipeline.body[..pipeline.split.loads];
            let needed = l.needed(loads, loads);
            l.block(&needed);
        });
        self.span = span;
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
        if let Some(protocol) = pipeline.protocol {
            self.produce_token(protocol);
        }
    }

    /// One iteration on the slots `slot`.
    fn iteration(&mut self, pipeline: &Pipeline<'_>, index: RegId, slot: u32) {
        let (Split { loads, own, .. }, span) = (&pipeline.split, self.span);
        let bind = |l: &mut Self| {
            l.select(pipeline, slot);
            l.vars[pipeline.var] = Some(Binding::Reg(index));
        };
        bind(self);
        // The indices that the rest shares with the loads.
        let (before, rest) = pipeline.body.split_at(*loads);
        let names: Vec<StmtId> = self.needed(before, rest).into_iter().filter(|s| is_let(self.kernel, *s)).collect();
        self.block(&names);
        self.block(&pipeline.body[*loads..*own]);
        if let Some(protocol) = pipeline.protocol {
            self.span = span;
            self.await_token(protocol, pipeline.stages - 2);
        }
        let outer: Vec<_> =
            before.iter().filter_map(|s| declared(self.kernel, *s)).map(|v| (v, self.vars[v])).collect();
        let later = self.read(index);
        let later = self.ahead(pipeline, later, pipeline.stages - 1);
        self.issue(pipeline, later, (slot + pipeline.stages - 1) % pipeline.stages);
        bind(self);
        outer.into_iter().for_each(|(var, binding)| self.vars[var] = binding);
        self.block(&pipeline.body[*own..]);
    }

    /// `block` without the variables that neither `users` nor what is kept reads.
    pub(super) fn needed(&self, block: &[StmtId], users: &[StmtId]) -> Vec<StmtId> {
        let kernel = self.kernel;
        let lets = |s: &&StmtId| is_let(kernel, **s);
        let users: Vec<StmtId> = users.iter().filter(|s| !block.contains(s) || !is_let(kernel, **s)).copied().collect();
        let mut read = variables(kernel, &users);
        for stmt in block.iter().rev().filter(lets) {
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
fn is_touched_outside(kernel: &BoundKernel, buffer: BufferId, body: &[StmtId]) -> bool {
    let touching = |body: &[StmtId]| {
        let mut count = 0;
        each(kernel, body, &mut |stmt| {
            let place = Place::Buffer(buffer);
            let touches =
                |e: &Effect| matches!(e, Effect::Read(p) | Effect::Write(p) | Effect::Atomic(p) if *p == place);
            count += usize::from(effects(kernel, stmt).iter().any(touches));
        });
        count
    };
    touching(&kernel.body) > touching(body)
}

pub(super) fn is_let(kernel: &BoundKernel, stmt: StmtId) -> bool {
    declared(kernel, stmt).is_some()
}

pub(super) fn declared(kernel: &BoundKernel, stmt: StmtId) -> Option<VarId> {
    let StmtKind::Let { var, .. } = kernel.stmts[stmt].kind else { return None };
    Some(var)
}

fn buffer_bytes(kernel: &BoundKernel, buffer: BufferId) -> u64 {
    kernel.buffer_len(buffer).saturating_mul(u64::from(kernel.buffer_dtype(buffer).bytes()))
}
