//! Loops: each once, for all of its iterations.
//!
//! The index is a symbol, and what the body assigns is unknown in it and after it.

use super::{Control, Ranged, Value, Walk};
use crate::analysis::ranges::Counted;
use crate::analysis::regions::LoopForm;
use crate::analysis::vector::{self, VectorLoop};
use crate::analysis::{added, collective, parallel};
use crate::constraint::{Cond, Interval, Poly, Varies};
use crate::diag::{Code, Diagnostic};
use crate::ir::parts::set_within;
use crate::ir::{BinaryOp, ExprId, LoopKind, StmtId, StmtKind, VarId};

impl<'k> Walk<'k> {
    pub(super) fn for_loop(&mut self, stmt: StmtId) {
        let StmtKind::For { var, start, end, step, kind, body } = &self.kernel.stmts[stmt].kind else { return };
        let span = self.kernel.stmts[stmt].span;
        let (Value::Int(start_at), Value::Int(end_at), Value::Int(step_by)) =
            (self.eval(*start), self.eval(*end), self.eval(*step))
        else {
            return;
        };
        if let Some(step_at) = step_by.as_constant().filter(|s| *s < 1) {
            let message = format!("a loop's step must be at least 1, not {step_at}");
            let diagnostic = Diagnostic::new(Code::INDEX_OVERFLOW, self.kernel.exprs[*step].span, message);
            self.analysis.diagnostics.push(diagnostic);
            return;
        }
        let trip = end_at.minus(&start_at);
        let assigned = set_within(self.kernel, stmt);
        if let Some(trip) = &trip
            && trip.scaled(-1).is_some_and(|p| self.cx.proves(&p))
            && *kind != LoopKind::Vectorized
        {
            self.analysis.block_uniform.insert(stmt);
            self.analysis.warp_uniform.insert(stmt);
            // No iteration; the device sees that by the index's first value, and by those that a pipelined loop looks
            // ahead at.
            let stages = match kind {
                LoopKind::Pipelined { stages, .. } => self.kernel.const_index(*stages).unwrap_or(1).max(1),
                _ => 0,
            };
            let ahead = Interval::apply(BinaryOp::Mul, self.interval(&step_by), Interval::of(stages));
            let first = self.interval(&start_at);
            let reached = first.join(Interval::apply(BinaryOp::Add, first, ahead));
            if !reached.fits(Interval::NARROW) || !self.interval(&end_at).fits(Interval::NARROW) {
                self.analysis.wide_vars.insert(*var);
            }
            return;
        }
        let varies = trip.as_ref().map_or(Varies::ALL, |t| self.cx.varies(t)).or(self.cx.varies(&step_by));
        let is_left = assigned.contains(var);
        let varies = if is_left { varies.or(self.uniform.var(*var)) } else { varies };
        self.record_uniform(stmt, varies, None);
        collective::iterations(self, stmt, varies);
        if let Some(refusal) = self.refusal(stmt, &start_at, &end_at, &step_by) {
            self.analysis.diagnostics.push(refusal);
            return;
        }
        if step_by.as_constant().is_none() && !self.check_step(*step, &step_by) {
            return;
        }
        self.choose_loop_width(stmt, *var, &start_at, &end_at, &step_by);
        assigned.iter().for_each(|v| self.forget(*v));
        let mark = self.mark();
        let step = step_by.as_constant().filter(|s| *s >= 1).unwrap_or(1);
        // The index is start + step * counter; a step that is not known is only known to be at least 1.
        let (first, past) = (self.interval(&start_at), self.interval(&end_at));
        let distance = trip.as_ref().map_or(Interval::ALL, |t| self.interval(t)).hi.min(past.hi - first.lo);
        let counter_most = (distance - 1).div_euclid(step.into()).max(0);
        let name = &self.kernel.vars[*var].name;
        let counter = self.cx.fresh(name, Some(0), i64::try_from(counter_most).ok(), Varies::default());
        if self.cx.is_data(&start_at) || self.cx.is_data(&end_at) {
            self.cx.mark_data(counter);
        }
        let value = Poly::sym(counter).scaled(step).and_then(|p| p.plus(&start_at));
        let last = end_at.plus_constant(-1);
        let room = value.as_ref().and_then(|v| last.as_ref()?.minus(v));
        let (Some(value), Some(room), Some(last)) = (value, room, last) else { return self.too_wide(span) };
        self.cx.assume_nonneg(room);
        self.learn(&value, Interval::new(first.lo, (past.hi - 1).max(first.lo)));
        self.counted.push(Counted { sym: counter, step, start: start_at.clone(), last });
        self.vars[*var] = Value::Int(value.clone());
        let last = trip.clone().and_then(|t| {
            let t = t.plus_constant(-1)?;
            if step == 1 { Some(t) } else { self.cx.floor_div(&t, &Poly::constant(step)) }
        });
        let known_step = step_by.as_constant() == Some(step);
        let is_ranged = last.is_some() && known_step;
        if let Some(hi) = last.filter(|_| known_step) {
            self.ranged.push(Ranged { sym: counter, lo: Poly::constant(0), hi, var: *var, value: value.clone() });
        }
        self.control.push(Control { span, varies, cond: None });
        let width = trip.and_then(|t| t.as_constant()).unwrap_or(0);
        // A loop in a vectorised loop is an error, which the outer one reports when it has been walked.
        let outer = (*kind == LoopKind::Vectorized).then(|| self.vector.replace(VectorLoop::new(stmt, counter, width)));
        let counters = self.ranged.len() - usize::from(is_ranged);
        self.regions.enter(LoopForm::Serial, span, &self.ranged[counters..], varies);
        if is_left {
            // Whether there is this iteration is not known.
            self.path.push(Cond::Unknown(varies));
        }
        self.block(body);
        if is_left {
            self.path.pop();
        }
        self.regions.leave();
        if let Some(outer) = outer {
            vector::finish(self);
            self.vector = outer;
        }
        self.control.pop();
        if is_ranged {
            self.ranged.pop();
        }
        self.counted.pop();
        self.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }

    /// What a loop's kind asks of its range: `unroll` a constant extent, `vectorized` constants and steps of 1.
    fn refusal(&self, stmt: StmtId, start_at: &Poly, end_at: &Poly, step_by: &Poly) -> Option<Diagnostic> {
        let kernel = self.kernel;
        let StmtKind::For { start, end, step, kind, .. } = &kernel.stmts[stmt].kind else { return None };
        let constant = |p: &Poly| p.as_constant().is_some();
        let form = match kind {
            LoopKind::Unroll if !end_at.minus(start_at).as_ref().is_some_and(constant) => "the extent of `unroll`",
            LoopKind::Vectorized if !constant(start_at) || !constant(end_at) => "the range of `vectorized`",
            LoopKind::Vectorized if step_by.as_constant() != Some(1) => {
                let span = kernel.exprs[*step].span;
                return Some(Diagnostic::new(Code::VECTOR_SHAPE, span, "the step of `vectorized` must be 1"));
            }
            _ => return None,
        };
        let expr = if constant(end_at) { *start } else { *end };
        let diagnostic =
            Diagnostic::new(Code::NOT_CONSTANT, kernel.exprs[expr].span, format!("{form} must be constant"))
                .help("use constants, and add what varies to the index in the body; or use a plain `for` loop");
        Some(diagnostic)
    }

    /// Decides how wide a loop's index is, by what it reaches beyond its range: it is advanced once more than there are
    /// iterations, a pipelined loop looks ahead, and advances by all of its stages at once.
    fn choose_loop_width(&mut self, stmt: StmtId, var: VarId, start_at: &Poly, end_at: &Poly, step: &Poly) {
        let kernel = self.kernel;
        let StmtKind::For { start, end, kind, .. } = &kernel.stmts[stmt].kind else { return };
        let stages = match kind {
            LoopKind::Pipelined { stages, .. } => kernel.const_index(*stages).unwrap_or(1).max(1),
            _ => 1,
        };
        let mut beyond = vec![(*end, end_at, -1), (*start, start_at, 0)];
        if stages == 1 {
            beyond.pop();
        }
        let Some(ahead) = step.scaled(stages) else { return self.too_wide(kernel.exprs[*end].span) };
        let mut is_wide = !self.interval(start_at).fits(Interval::NARROW);
        for (expr, from, less) in beyond {
            let span = kernel.exprs[expr].span;
            let reached = from.plus(&ahead).and_then(|p| p.plus_constant(less));
            if reached.is_some_and(|reached| self.fits(&reached, span)) {
                continue;
            }
            is_wide = true;
            let by = Interval::apply(BinaryOp::Mul, self.interval(step), Interval::of(stages));
            if !Interval::apply(BinaryOp::Add, self.interval(from), by).fits(Interval::WIDE) {
                self.too_wide(span);
            }
        }
        if is_wide {
            self.analysis.wide_vars.insert(var);
        }
    }

    pub(super) fn parallel(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &'k [StmtId]) {
        let mark = self.mark();
        let varies = Varies { threads: 7, blocks: 0, warp: true };
        let mut ranged = 0;
        let mut total = Some(Poly::constant(1));
        let mut totals = Vec::new();
        for (var, extent) in vars.iter().zip(extents) {
            let Value::Int(extent) = self.eval(*extent) else { return };
            let most = (self.interval(&extent).hi - 1).max(0);
            if most > Interval::NARROW.hi {
                self.analysis.wide_vars.insert(*var);
            }
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let sym = self.cx.fresh(&self.kernel.vars[*var].name, Some(0), Some(most), varies);
            let Some(last) = extent.plus_constant(-1) else { return self.too_wide(self.kernel.stmts[stmt].span) };
            self.bind_ranged(*var, sym, last);
            ranged += 1;
            totals.push(self.interval(&extent));
            total = total.and_then(|t| t.times(&extent));
        }
        // Elements are counted in steps of the block's threads.
        let (span, threads) = (self.kernel.stmts[stmt].span, i64::from(self.kernel.thread_count()));
        let past = total.and_then(|t| t.plus_constant(threads));
        if !past.is_some_and(|past| self.fits(&past, span)) {
            self.analysis.wide_counts.insert(stmt);
            let total = totals.into_iter().fold(Interval::of(threads), |all, n| Interval::apply(BinaryOp::Mul, all, n));
            if !total.fits(Interval::WIDE) {
                self.too_wide(span);
            }
        }
        let assigned = set_within(self.kernel, stmt);
        assigned.iter().for_each(|v| self.forget(*v));
        self.control.push(Control { span: self.kernel.stmts[stmt].span, varies, cond: None });
        parallel::check(self, stmt, extents, body);
        added::check(self, stmt);
        let outer = self.parallel.replace(stmt);
        let counters = self.ranged.len() - ranged;
        self.regions.enter(LoopForm::Parallel, self.kernel.stmts[stmt].span, &self.ranged[counters..], varies);
        self.parallel_path = self.path.len();
        self.block(body);
        self.regions.leave();
        self.parallel = outer;
        self.control.pop();
        self.ranged.truncate(self.ranged.len() - ranged);
        self.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }

    /// Every tile once: the indices are the block's, as those of `blocks`.
    pub(super) fn persistent(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &'k [StmtId]) {
        let kernel = self.kernel;
        let mark = self.mark();
        let ranged = self.ranged.len();
        for (&var, &extent) in vars.iter().zip(extents) {
            let Value::Int(extent) = self.eval(extent) else { continue };
            let varies = self.uniform.var(var);
            let sym = self.cx.fresh(&kernel.vars[var].name, Some(0), Some(i64::from(i32::MAX) - 1), varies);
            let Some(last) = extent.plus_constant(-1) else { return self.too_wide(kernel.stmts[stmt].span) };
            self.bind_ranged(var, sym, last);
        }
        let assigned = set_within(self.kernel, stmt);
        assigned.iter().for_each(|v| self.forget(*v));
        // A block's number of tiles differs between blocks, never within one.
        let varies = Varies { blocks: 1, ..Varies::default() };
        self.record_uniform(stmt, varies, None);
        self.control.push(Control { span: kernel.stmts[stmt].span, varies, cond: None });
        self.regions.enter(LoopForm::Persistent, kernel.stmts[stmt].span, &self.ranged[ranged..], varies);
        self.block(body);
        self.regions.leave();
        self.control.pop();
        self.ranged.truncate(ranged);
        self.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }
}
