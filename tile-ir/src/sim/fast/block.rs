//! The interpreter: a block's statements one after another, each for all its threads.

use super::access::set;
use super::code::{Code, Kind, Loc, MaskId, Repr, Step};
use super::collective::cluster_exchange;
use super::lanes;
use super::launch::{Cluster, Launch, TensorView};
use super::state::{Lane, Registers, State, coordinates};
use crate::diag::{Bug, Code as DiagnosticCode, Diagnostic};
use crate::ir::{BinaryOp, SpanId};
use crate::sim::limit::Meter;
use crate::sim::{Fault, ScalarValue, Stop, numeric, print};
use std::mem;

/// Lines a block may print; the rest is counted.
pub(super) const PRINT_LIMIT: usize = 4096;

/// What executes blocks: the code and the launch, shared by all host threads.
pub(super) struct Machine<'a> {
    pub(super) code: &'a Code,
    pub(super) launch: &'a Launch<'a>,
    /// The steps that its blocks may take.
    pub(super) meter: &'a Meter<'a>,
    /// An empty tensor, for what cannot happen: code that names a scalar as a tensor does not compile.
    pub(super) nothing: TensorView<'a>,
}

impl Machine<'_> {
    /// Executes one block; where the blocks of a cluster combine tiles, all blocks of the cluster that it is the first of.
    pub(super) fn block(&self, state: &mut State, block: [u32; 3]) -> Result<(), Box<Fault>> {
        state.enter(self.code, block);
        let Some(Cluster { axis, size }) = self.launch.cluster else {
            return self.steps(state, &self.code.body);
        };
        let mut others = mem::take(&mut state.others);
        others.resize_with(size.saturating_sub(1) as usize, || State::new(self.code, self.launch.threads));
        for (rank, other) in (1..).zip(&mut others) {
            let mut at = block;
            at[axis] += rank;
            other.enter(self.code, at);
        }
        let result = self.code.body.iter().try_for_each(|step| {
            self.step(state, step)?;
            others.iter_mut().try_for_each(|other| self.step(other, step))?;
            if let Step::ClusterReduce { op, tile, .. } = step {
                self.cluster_reduce(state, &others, *op, *tile);
            }
            if let Step::ClusterExchange { src, dst, span, .. } = step {
                let mut blocks: Vec<&mut State> = std::iter::once(&mut *state).chain(&mut others).collect();
                let done = cluster_exchange(&mut blocks, *src, *dst);
                done.map_err(|text| self.fault(state, 0, Bug::new(*span, text).diagnostic()))?;
            }
            Ok(())
        });
        for other in &mut others {
            self.meter.give_back(mem::take(&mut other.steps));
            state.stopped = state.stopped.or(other.stopped.take());
        }
        state.others = others;
        result
    }

    pub(super) fn steps(&self, s: &mut State, steps: &[Step]) -> Result<(), Box<Fault>> {
        steps.iter().try_for_each(|step| self.step(s, step))
    }

    pub(super) fn tensor(&self, index: u32) -> &TensorView<'_> {
        self.launch.tensors.get(index as usize).and_then(Option::as_ref).unwrap_or(&self.nothing)
    }

    fn step(&self, s: &mut State, step: &Step) -> Result<(), Box<Fault>> {
        match step {
            Step::Arith(inst) => lanes::execute(&mut s.registers, inst),
            Step::Load { dst, from, mask } => self.load(s, *dst, from, *mask)?,
            Step::Store { to, value, mask } => self.store(s, to, *value, *mask)?,
            Step::Set { kind, dst, src, mask, owned } => assign(s, *kind, *dst, *src, *mask, *owned),
            Step::Partial { repr, op, dst, a, b, mask, span } => {
                self.partial(s, *repr, *op, [*dst, *a, *b], *mask, *span)?;
            }
            Step::Mask { dst, parent, cond, negate } => {
                s.set_mask(*dst, *parent, |r, lane| r.bools.operand(*cond).at(lane) != *negate);
            }
            Step::If { cond, mask, then_mask, else_mask, then, otherwise } => {
                let taken = s.set_mask(*then_mask, *mask, |r, lane| r.bools.operand(*cond).at(lane));
                let rest = if otherwise.is_empty() {
                    0
                } else {
                    s.set_mask(*else_mask, *mask, |r, lane| !r.bools.operand(*cond).at(lane))
                };
                if taken > 0 {
                    self.steps(s, then)?;
                }
                if rest > 0 {
                    self.steps(s, otherwise)?;
                }
            }
            Step::IfUniform { cond, then, otherwise } => {
                let holds = s.registers.bools.scalar(*cond);
                self.steps(s, if holds { then } else { otherwise })?;
            }
            Step::Loop { var, start, end, step, mask, span, body } => {
                let indices = &s.registers.indices;
                let (mut value, end, step) = (indices.scalar(*start), indices.scalar(*end), indices.scalar(*step));
                self.check_step(s, step, *mask, *span)?;
                while value < end {
                    self.tick(s, *mask, *span)?;
                    s.registers.indices.scalars[*var as usize] = value;
                    self.steps(s, body)?;
                    // Given its last value where the loop is left.
                    value = s.registers.indices.scalars[*var as usize].saturating_add(step);
                }
            }
            Step::LoopLanes { var, start, end, step, mask, inner, span, body } => {
                self.loop_lanes(s, *var, [*start, *end, *step], *mask, *inner, *span, body)?;
            }
            Step::Parallel { vars, extents, mask, inner, span, body } => {
                self.parallel(s, vars, extents, *mask, *inner, *span, body)?;
            }
            Step::Clear { kind, first, count, mask } => {
                let rows = *first as usize..(*first + *count) as usize;
                let mask = &s.masks[mask.0 as usize].lanes;
                match kind {
                    Kind::Float => s.registers.floats.lanes[rows].iter_mut().for_each(|row| clear(row, mask)),
                    Kind::Int => s.registers.ints.lanes[rows].iter_mut().for_each(|row| clear(row, mask)),
                    Kind::Index => s.registers.indices.lanes[rows].iter_mut().for_each(|row| clear(row, mask)),
                    Kind::Bool => s.registers.bools.lanes[rows].iter_mut().for_each(|row| clear(row, mask)),
                }
            }
            Step::ClearShared { shared } => s.shared[*shared as usize].clear(),
            Step::FillShared { shared, value, mask, span } => self.fill_shared(s, *shared, *value, *mask, *span)?,
            Step::Copy { plan, mask } => self.copy(s, plan, *mask)?,
            Step::Gemm { plan, mask } => self.gemm(s, plan, *mask)?,
            Step::ReduceTile { plan, mask } => self.reduce_tile(s, plan, *mask)?,
            Step::ClusterReduce { mask, span, .. } => self.check_convergence(s, false, *mask, *span)?,
            Step::ClusterExchange { src, dst, mask, span } => {
                self.check_convergence(s, false, *mask, *span)?;
                // Of a block that is a cluster by itself; those of a larger one exchange when all of them have come here.
                if self.launch.cluster.is_none() {
                    let done = cluster_exchange(&mut [s], *src, *dst);
                    done.map_err(|text| self.fault(s, 0, Bug::new(*span, text).diagnostic()))?;
                }
            }
            Step::Reduce { plan, register, mask } => self.reduce(s, plan, *register, *mask)?,
            Step::Shuffle { shuffle, value, dst, src, lane, lane_repr, mask, span } => {
                self.shuffle(s, *shuffle, *value, (*dst, *src), (*lane, *lane_repr), *mask, *span)?;
            }
            Step::Vote { vote, pred, dst, mask, span } => self.vote(s, *vote, *pred, *dst, *mask, *span)?,
            Step::LastArriver { to, count, dst, mask, span } => {
                self.check_convergence(s, false, *mask, *span)?;
                self.last_arriver(s, to, *count, *dst, *mask);
            }
            Step::Atomic { op, to, value, old, mask } => self.atomic(s, *op, to, *value, *old, *mask)?,
            Step::Barrier { warp, mask, span } => self.check_convergence(s, *warp, *mask, *span)?,
            Step::Print { format, args, mask } => self.print(s, format, args, *mask),
            Step::Assert { cond, message, mask, span } => {
                let holds = s.registers.bools.operand(*cond);
                let failing =
                    s.mask(*mask).lanes.iter().enumerate().find(|(lane, active)| **active && !holds.at(*lane));
                if let Some((lane, _)) = failing {
                    let message = format!("device_assert failed: {message}");
                    return Err(self.fault(s, lane, Diagnostic::new(DiagnosticCode::ASSERT, *span, message)));
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the step's fields")]
    fn loop_lanes(
        &self,
        s: &mut State,
        var: Loc,
        [start, end, step]: [Loc; 3],
        mask: MaskId,
        inner: MaskId,
        span: SpanId,
        body: &[Step],
    ) -> Result<(), Box<Fault>> {
        let lowest = {
            let steps = s.registers.indices.operand(step);
            let active = s.mask(mask).lanes.iter().enumerate().filter(|(_, active)| **active);
            active.map(|(lane, _)| steps.at(lane)).min().unwrap_or(1)
        };
        self.check_step(s, lowest, mask, span)?;
        assign(s, Kind::Index, var, start, MaskId::ALL, false);
        loop {
            let running =
                s.set_mask(inner, mask, |r, lane| r.indices.operand(var).at(lane) < r.indices.operand(end).at(lane));
            if running == 0 {
                return Ok(());
            }
            self.tick(s, mask, span)?;
            self.steps(s, body)?;
            let indices = &mut s.registers.indices;
            match var {
                Loc::Scalar(var) => {
                    let step = indices.scalar(step);
                    let value = &mut indices.scalars[var as usize];
                    *value = value.saturating_add(step);
                }
                Loc::Lanes(var) => {
                    let mut row = mem::take(&mut indices.lanes[var as usize]);
                    let step = indices.operand(step);
                    row.iter_mut().enumerate().for_each(|(lane, v)| *v = v.saturating_add(step.at(lane)));
                    indices.lanes[var as usize] = row;
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the step's fields")]
    fn parallel(
        &self,
        s: &mut State,
        vars: &[u32],
        extents: &[Loc],
        mask: MaskId,
        inner: MaskId,
        span: SpanId,
        body: &[Step],
    ) -> Result<(), Box<Fault>> {
        self.check_convergence(s, false, mask, span)?;
        let extents: Vec<i64> = extents.iter().map(|e| s.registers.indices.scalar(*e).max(0)).collect();
        let total = extents.iter().fold(1i64, |product, e| product.saturating_mul(*e));
        let lanes = s.lanes as i64;
        let mut first = 0;
        while first < total {
            self.tick(s, mask, span)?;
            for lane in 0..lanes {
                let mut rest = first + lane;
                for (var, extent) in vars.iter().zip(&extents).rev() {
                    let extent = (*extent).max(1);
                    s.registers.indices.lanes[*var as usize][lane as usize] = rest % extent;
                    rest /= extent;
                }
            }
            s.set_mask(inner, mask, |_, lane| first + (lane as i64) < total);
            self.steps(s, body)?;
            first = first.saturating_add(lanes);
        }
        Ok(())
    }

    /// Integer operations that have no value for some operands.
    fn partial(
        &self,
        s: &mut State,
        repr: Repr,
        op: BinaryOp,
        [dst, a, b]: [Loc; 3],
        mask: MaskId,
        span: SpanId,
    ) -> Result<(), Box<Fault>> {
        let active = &s.masks[mask.0 as usize].lanes;
        let failed = match repr {
            Repr::Index => each(&mut s.registers, active, [dst, a, b], |a: i64, b| numeric::index_binary(op, a, b)),
            Repr::Element(dtype) => {
                each(&mut s.registers, active, [dst, a, b], |a: u32, b| numeric::int_binary(op, dtype, a, b))
            }
        };
        let Some(lane) = failed else { return Ok(()) };
        let (left, right) = match repr {
            Repr::Index => (s.registers.indices.operand(a).at(lane), s.registers.indices.operand(b).at(lane)),
            Repr::Element(dtype) => {
                let value = |loc| numeric::cast_to_index(dtype, s.registers.ints.operand(loc).at(lane));
                (value(a), value(b))
            }
        };
        let message = format!("{left} {} {right} has no value", op.symbol());
        Err(self.fault(s, lane, Diagnostic::new(DiagnosticCode::INDEX_OVERFLOW, span, message)))
    }

    /// One more step of the launch's budget. Where it has none left, the fault at this place; `State::stopped` says why.
    #[inline]
    fn tick(&self, s: &mut State, mask: MaskId, span: SpanId) -> Result<(), Box<Fault>> {
        if s.steps == 0 {
            self.refill(s, mask, span)?;
        }
        s.steps -= 1;
        Ok(())
    }

    #[cold]
    fn refill(&self, s: &mut State, mask: MaskId, span: SpanId) -> Result<(), Box<Fault>> {
        let stop = match self.meter.take() {
            Ok(steps) => {
                s.steps = steps;
                return Ok(());
            }
            Err(stop) => stop,
        };
        s.stopped = Some(stop);
        let message = match stop {
            Stop::StepLimit(limit) => format!("the launch is still running after {limit} steps"),
            Stop::Cancelled => "the launch was cancelled".to_owned(),
        };
        let lane = s.mask(mask).lanes.iter().position(|a| *a).unwrap_or(0);
        Err(self.fault(s, lane, Diagnostic::new(DiagnosticCode::DEADLOCK, span, message)))
    }

    fn check_step(&self, s: &State, step: i64, mask: MaskId, span: SpanId) -> Result<(), Box<Fault>> {
        if step >= 1 {
            return Ok(());
        }
        let lane = s.mask(mask).lanes.iter().position(|a| *a).unwrap_or(0);
        let message = format!("the loop's step is {step}: it must be at least 1");
        Err(self.fault(s, lane, Diagnostic::new(DiagnosticCode::INDEX_OVERFLOW, span, message)))
    }

    /// All threads of the block, or of every warp that has any, must be in the mask.
    pub(super) fn check_convergence(
        &self,
        s: &State,
        warp: bool,
        mask: MaskId,
        span: SpanId,
    ) -> Result<(), Box<Fault>> {
        if s.is_full(mask) {
            return Ok(());
        }
        let active = &s.mask(mask).lanes;
        let group = if warp { 32 } else { s.lanes };
        for (index, threads) in active.chunks(group).enumerate() {
            let arrived = threads.iter().filter(|a| **a).count();
            if let Some(absent) = threads.iter().position(|a| !*a)
                && arrived > 0
            {
                let what = if warp { "warp" } else { "block" };
                let message =
                    format!("not reached by every thread: {arrived} of {} threads of the {what} arrive", threads.len());
                let at = format!("thread {} does not", index * group + absent);
                let diagnostic = Diagnostic::new(DiagnosticCode::DIVERGENT_BARRIER, span, message).at(at);
                return Err(self.fault(s, index * group + absent, diagnostic));
            }
        }
        Ok(())
    }

    fn print(&self, s: &mut State, format: &str, args: &[(Repr, Loc)], mask: MaskId) {
        let mut values = Vec::with_capacity(args.len());
        for lane in 0..s.lanes {
            if !s.masks[mask.0 as usize].lanes[lane] {
                continue;
            }
            if s.printed.len() >= PRINT_LIMIT {
                s.unprinted += 1;
                continue;
            }
            values.clear();
            values.extend(args.iter().map(|(repr, loc)| value_at(s, *repr, *loc, lane)));
            s.printed.push((lane, print::printed_line(format, &values)));
        }
    }

    /// A fault of thread `lane` of the current block.
    pub(super) fn fault(&self, s: &State, lane: usize, diagnostic: Diagnostic) -> Box<Fault> {
        Box::new(Fault { diagnostic, block: s.block, thread: coordinates(self.launch.threads, lane) })
    }
}

/// A register's value for one thread.
pub(super) fn value_at(s: &State, repr: Repr, loc: Loc, lane: usize) -> ScalarValue {
    let r = &s.registers;
    match repr {
        Repr::Index => ScalarValue::Index(r.indices.operand(loc).at(lane)),
        Repr::Element(dtype) => {
            let bits = match repr.kind() {
                Kind::Float => numeric::encode(dtype, r.floats.operand(loc).at(lane)),
                Kind::Bool => u32::from(r.bools.operand(loc).at(lane)),
                Kind::Int | Kind::Index => r.ints.operand(loc).at(lane),
            };
            ScalarValue::Element(dtype, bits)
        }
    }
}

/// Gives the threads of `mask` a new value.
fn assign(s: &mut State, kind: Kind, dst: Loc, src: Loc, mask: MaskId, owned: bool) {
    let mask = &s.masks[mask.0 as usize];
    let full = mask.count == s.lanes;
    macro_rules! put {
        ($file:ident) => {
            match (dst, src) {
                // A temporary is read once: taking its storage is as good as copying it.
                (Loc::Lanes(dst), Loc::Lanes(src)) if full && owned => {
                    s.registers.$file.lanes.swap(dst as usize, src as usize)
                }
                _ => set(&mut s.registers.$file, dst, src, mask, full),
            }
        };
    }
    match kind {
        Kind::Float => put!(floats),
        Kind::Int => put!(ints),
        Kind::Index => put!(indices),
        Kind::Bool => put!(bools),
    }
}

fn clear<T: Default>(row: &mut [T], mask: &[bool]) {
    row.iter_mut().zip(mask).filter(|(_, active)| **active).for_each(|(value, _)| *value = T::default());
}

/// `dst = f(a, b)` for the active threads, 0 elsewhere; the first active thread for which it has no value.
fn each<T: Lane>(
    r: &mut Registers,
    active: &[bool],
    [dst, a, b]: [Loc; 3],
    f: impl Fn(T, T) -> Option<T>,
) -> Option<usize> {
    match dst {
        Loc::Scalar(dst) => {
            let first = active.iter().position(|a| *a)?;
            let value = f(T::file(r).scalar(a), T::file(r).scalar(b));
            T::file_mut(r).scalars[dst as usize] = value.unwrap_or_default();
            value.is_none().then_some(first)
        }
        Loc::Lanes(dst) => {
            let mut out = mem::take(&mut T::file_mut(r).lanes[dst as usize]);
            let (x, y) = (T::file(r).operand(a), T::file(r).operand(b));
            let mut failed = None;
            for (lane, (out, active)) in out.iter_mut().zip(active).enumerate() {
                let value = if *active { f(x.at(lane), y.at(lane)) } else { Some(T::default()) };
                if value.is_none() {
                    failed = failed.or(Some(lane));
                }
                *out = value.unwrap_or_default();
            }
            T::file_mut(r).lanes[dst as usize] = out;
            failed
        }
    }
}
