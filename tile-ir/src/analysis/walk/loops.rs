//! Loops: each once, for all of its iterations.
//!
//! The index is a symbol, and what the body assigns is unknown in it and after it.

use super::{Control, Ranged, Value, Walk};
use crate::analysis::regions::LoopForm;
use crate::analysis::vector::{self, VectorLoop};
use crate::analysis::{collective, parallel};
use crate::constraint::{Poly, Varies};
use crate::diag::{Code, Diagnostic};
use crate::ir::{ExprId, LoopKind, StmtId, StmtKind, VarId};

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
        let assigned = self.assigned.get(&stmt).cloned().unwrap_or_default();
        if let Some(trip) = &trip
            && trip.scaled(-1).is_some_and(|p| self.cx.proves(&p))
            && *kind != LoopKind::Vectorized
        {
            self.analysis.block_uniform.insert(stmt);
            self.analysis.warp_uniform.insert(stmt);
            return; // no iteration
        }
        let varies = trip.as_ref().map_or(Varies::ALL, |t| self.cx.varies(t)).or(self.cx.varies(&step_by));
        self.record_uniform(stmt, varies, None);
        collective::iterations(self, stmt, varies);
        if let Some(refusal) = self.refusal(stmt, &start_at, &end_at, &step_by) {
            self.analysis.diagnostics.push(refusal);
            return;
        }
        assigned.iter().for_each(|v| self.forget(*v));
        let mark = self.cx.mark();
        let step = step_by.as_constant().filter(|s| *s >= 1).unwrap_or(1);
        // The index is start + step * counter; a step that is not known is only known to be at least 1.
        let counter_most = match trip.as_ref().and_then(|t| self.cx.range(t).1) {
            Some(most) => (most - 1).div_euclid(step).max(0),
            None => i64::from(i32::MAX),
        };
        let name = &self.kernel.vars[*var].name;
        let counter = self.cx.fresh(name, Some(0), Some(counter_most), Varies::default());
        if self.cx.is_data(&start_at) || self.cx.is_data(&end_at) {
            self.cx.mark_data(counter);
        }
        let value = Poly::sym(counter).scaled(step).and_then(|p| p.plus(&start_at));
        let room = value.as_ref().and_then(|v| end_at.minus(v)?.plus_constant(-1));
        let (Some(value), Some(room)) = (value, room) else { return };
        self.cx.assume_nonneg(room);
        if self.in_kernel {
            self.note_past(stmt, &start_at, &end_at, step);
        }
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
        self.regions.enter(LoopForm::Serial, span, &self.ranged[counters..]);
        self.block(body);
        self.regions.leave();
        if let Some(outer) = outer {
            vector::finish(self);
            self.vector = outer;
        }
        self.control.pop();
        if is_ranged {
            self.ranged.pop();
        }
        self.cx.reset(mark);
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

    /// Records what a loop's index reaches beyond its range: a pipelined loop looks ahead, and advances by all of its
    /// stages at once.
    fn note_past(&mut self, stmt: StmtId, start_at: &Poly, end_at: &Poly, step: i64) {
        let kernel = self.kernel;
        let StmtKind::For { start, end, kind, .. } = &kernel.stmts[stmt].kind else { return };
        let stages = match kind {
            LoopKind::Pipelined { stages, .. } => kernel.const_index(*stages).unwrap_or(1).max(1),
            _ => 1,
        };
        let past = end_at.plus_constant(stages.saturating_mul(step) - 1);
        past.iter().for_each(|p| self.note_range(p, kernel.exprs[*end].span));
        if stages > 1 {
            let ahead = start_at.plus_constant(stages.saturating_mul(step));
            ahead.iter().for_each(|p| self.note_range(p, kernel.exprs[*start].span));
        }
    }

    pub(super) fn parallel(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &'k [StmtId]) {
        let mark = self.cx.mark();
        let varies = Varies { threads: 7, blocks: 0, warp: true };
        let mut ranged = 0;
        let mut total = Some(Poly::constant(1));
        for (var, extent) in vars.iter().zip(extents) {
            let Value::Int(extent) = self.eval(*extent) else { return };
            let most = self.cx.range(&extent).1.map_or(i64::from(i32::MAX), |e| (e - 1).max(0));
            let sym = self.cx.fresh(&self.kernel.vars[*var].name, Some(0), Some(most), varies);
            let Some(last) = extent.plus_constant(-1) else { return };
            self.bind_ranged(*var, sym, last);
            ranged += 1;
            total = total.and_then(|t| t.times(&extent));
        }
        // Elements are counted in steps of the block's threads.
        if let Some(past) = total.and_then(|t| t.plus_constant(i64::from(self.kernel.thread_count()))) {
            self.note_range(&past, self.kernel.stmts[stmt].span);
        }
        let assigned = self.assigned.get(&stmt).cloned().unwrap_or_default();
        assigned.iter().for_each(|v| self.forget(*v));
        self.control.push(Control { span: self.kernel.stmts[stmt].span, varies, cond: None });
        parallel::check(self, stmt, extents, body);
        let outer = self.parallel.replace(stmt);
        let counters = self.ranged.len() - ranged;
        self.regions.enter(LoopForm::Parallel, self.kernel.stmts[stmt].span, &self.ranged[counters..]);
        self.parallel_path = self.path.len();
        self.block(body);
        self.regions.leave();
        self.parallel = outer;
        self.control.pop();
        self.ranged.truncate(self.ranged.len() - ranged);
        self.cx.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }

    /// Every tile once: the indices are the block's, as those of `blocks`.
    pub(super) fn persistent(&mut self, stmt: StmtId, vars: &[VarId], extents: &[ExprId], body: &'k [StmtId]) {
        let kernel = self.kernel;
        let mark = self.cx.mark();
        let ranged = self.ranged.len();
        for (&var, &extent) in vars.iter().zip(extents) {
            let Value::Int(extent) = self.eval(extent) else { continue };
            let varies = self.uniform.var(var);
            let sym = self.cx.fresh(&kernel.vars[var].name, Some(0), Some(i64::from(i32::MAX) - 1), varies);
            let Some(last) = extent.plus_constant(-1) else { continue };
            self.bind_ranged(var, sym, last);
        }
        let assigned = self.assigned.get(&stmt).cloned().unwrap_or_default();
        assigned.iter().for_each(|v| self.forget(*v));
        // A block's number of tiles differs between blocks, never within one.
        let varies = Varies { blocks: 1, ..Varies::default() };
        self.record_uniform(stmt, varies, None);
        self.control.push(Control { span: kernel.stmts[stmt].span, varies, cond: None });
        self.regions.enter(LoopForm::Persistent, kernel.stmts[stmt].span, &self.ranged[ranged..]);
        self.block(body);
        self.regions.leave();
        self.control.pop();
        self.ranged.truncate(ranged);
        self.cx.reset(mark);
        assigned.iter().for_each(|v| self.forget(*v));
    }
}
