//! The execution: statements, for all threads at once.

use super::touch::Kind;
use super::{Here, Run, UNKNOWN, Values};
use crate::ir::parts::{each, parts, roots};
use crate::ir::{BoundKernel, Effect, ExprId, ExprKind, Place, ReduceSource, StmtId, StmtKind, VarId, effects};
use std::collections::BTreeSet;

/// Values one thread may compute, all threads and statements together.
const BUDGET: usize = 60_000;

impl Run<'_> {
    /// Executes statements, until the budget is spent.
    pub(super) fn block(&mut self, body: &[StmtId], here: &[Here]) {
        for &stmt in body {
            if self.work > BUDGET {
                return;
            }
            if self.barriers.contains(&stmt) {
                self.cells.clear();
            }
            if self.relevant.contains(&stmt) {
                self.around.push((stmt, self.time));
                self.stmt(stmt, here);
                self.around.pop();
            }
        }
    }

    fn stmt(&mut self, stmt: StmtId, here: &[Here]) {
        let kernel = self.kernel;
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value } => {
                value.iter().for_each(|v| self.loads(*v, here));
                let value = value.filter(|_| self.needed.contains(var)).map(|v| self.eval(v));
                self.vars[*var] = value;
            }
            StmtKind::Assign { var, value } => {
                self.loads(*value, here);
                if self.needed.contains(var) {
                    let value = self.eval(*value);
                    self.assign(*var, value, here);
                }
            }
            StmtKind::Store { access, value } => {
                self.loads(*value, here);
                self.access(*access, Kind::Write, here);
            }
            StmtKind::Atomic { access, value, dst, .. } => {
                self.loads(*value, here);
                self.access(*access, Kind::Atomic, here);
                dst.iter().for_each(|v| self.vars[*v] = None);
            }
            StmtKind::If { cond, then, otherwise } => {
                self.loads(*cond, here);
                let value = self.eval(*cond);
                let arm = |wanted: i64| -> Vec<Here> {
                    here.iter()
                        .enumerate()
                        .map(|(t, h)| match value.at(t) {
                            _ if *h == Here::No => Here::No,
                            UNKNOWN => Here::Maybe,
                            v if v == wanted => *h,
                            _ => Here::No,
                        })
                        .collect()
                };
                for (body, mask) in [(then, arm(1)), (otherwise, arm(0))] {
                    if mask.iter().any(|h| *h != Here::No) {
                        self.block(body, &mask);
                    }
                }
            }
            StmtKind::For { .. } => self.for_loop(stmt, here),
            StmtKind::Parallel { body, .. } => body.iter().for_each(|s| self.forget_assigned(*s)),
            StmtKind::Tile(_) | StmtKind::Alloc { .. } => {}
            // One tile: the indices are unknown, and the same for every thread.
            StmtKind::Persistent { vars, body, .. } => {
                vars.iter().for_each(|v| self.vars[*v] = None);
                self.block(body, here);
            }
            // Exchanges between lanes order no memory accesses: `__shfl_xor_sync` is no `__syncwarp`. A reduction over
            // several warps goes through shared memory, and its barriers happen to.
            StmtKind::Reduce { src, dst, axis, .. } => {
                if let ReduceSource::Value(value) = src {
                    self.loads(*value, here);
                }
                dst.iter().for_each(|v| self.vars[*v] = None);
                self.epoch += u32::from(axis.is_some_and(|axis| crosses_warps(kernel, axis)));
            }
            StmtKind::Shuffle { value, lane, dst, .. } => {
                self.loads(*value, here);
                self.loads(*lane, here);
                self.vars[*dst] = None;
            }
            StmtKind::Vote { pred, dst, .. } => {
                self.loads(*pred, here);
                self.vars[*dst] = None;
            }
            StmtKind::LastArriver { count, dst, .. } => {
                self.loads(*count, here);
                self.vars[*dst] = None;
                self.cells.clear();
            }
            StmtKind::SyncThreads => self.cells.clear(),
            StmtKind::SyncWarp => self.epoch += 1,
            StmtKind::Print { args, .. } => args.iter().for_each(|a| self.loads(*a, here)),
            StmtKind::Assert { cond, .. } => self.loads(*cond, here),
        }
    }

    fn assign(&mut self, var: VarId, value: Values, here: &[Here]) {
        let old = self.vars[var].take();
        let value = if here.iter().all(|h| *h == Here::Yes) {
            value
        } else {
            Values::Each(
                here.iter()
                    .enumerate()
                    .map(|(t, h)| match h {
                        Here::Yes => value.at(t),
                        Here::No => old.as_ref().map_or(UNKNOWN, |v| v.at(t)),
                        Here::Maybe => UNKNOWN,
                    })
                    .collect(),
            )
        };
        self.vars[var] = Some(value);
    }

    fn for_loop(&mut self, stmt: StmtId, here: &[Here]) {
        let kernel = self.kernel;
        let StmtKind::For { var, start, end, step, body, .. } = &kernel.stmts[stmt].kind else { return };
        [start, end, step].into_iter().for_each(|e| self.loads(*e, here));
        let (start, end, step) = (self.eval(*start), self.eval(*end), self.eval(*step));
        // Iteration n of each thread; the last by its own count.
        let at = |t: usize, n: Option<i64>| -> (i64, Here) {
            let (a, b, s) = (start.at(t), end.at(t), step.at(t));
            if a == UNKNOWN || b == UNKNOWN || s == UNKNOWN || s < 1 {
                return (UNKNOWN, Here::Maybe);
            }
            let Some(trips) = b.checked_sub(a).map(|d| (d.max(0) as u64).div_ceil(s as u64) as i64) else {
                return (UNKNOWN, Here::Maybe);
            };
            let n = match n {
                Some(n) => n,
                None if trips > 2 => trips - 1,
                None => return (UNKNOWN, Here::No),
            };
            (a.saturating_add(n.saturating_mul(s)), if n < trips { Here::Yes } else { Here::No })
        };
        // Who is left after the first iteration is not followed.
        let known = !kernel.is_left_early(stmt) && (0..here.len()).all(|t| at(t, Some(0)).1 != Here::Maybe);
        let has_barrier = self.pipelined.contains_key(&stmt) || contains_barrier(kernel, body, self.barriers);
        let rounds: &[Option<i64>] = if known { &[Some(0), Some(1), None] } else { &[Some(0)] };
        for round in rounds {
            let mut mask = here.to_vec();
            let mut values = Vec::with_capacity(here.len());
            for (t, h) in mask.iter_mut().enumerate() {
                let (value, inside) = at(t, *round);
                values.push(value);
                *h = match (*h, inside) {
                    (Here::No, _) | (_, Here::No) => Here::No,
                    (Here::Yes, Here::Yes) => Here::Yes,
                    _ => Here::Maybe,
                };
            }
            if mask.iter().all(|h| *h == Here::No) {
                continue;
            }
            if round.is_none() {
                // Iterations in between are not executed: what they assigned is unknown, and where they
                // synchronised, nothing from before is pending.
                body.iter().for_each(|s| self.forget_assigned(*s));
                self.epoch += 1;
                if has_barrier {
                    self.cells.clear();
                }
            }
            let same = values.iter().all(|v| *v == values[0]);
            self.vars[*var] = Some(if same { Values::Same(values[0]) } else { Values::Each(values) });
            self.work += 1;
            let (loads, rest) = body.split_at(self.pipelined.get(&stmt).copied().unwrap_or(0));
            if !loads.is_empty() {
                // Addresses that are read from shared arrays are read before the loop, by no barrier of its own.
                if *round != Some(0) || !reads_arrays(kernel, loads) {
                    self.cells.clear();
                }
                self.block(loads, &mask);
                self.cells.clear();
            }
            self.block(rest, &mask);
        }
        if !known {
            self.epoch += 1;
            body.iter().for_each(|s| self.forget_assigned(*s));
            if has_barrier {
                self.cells.clear();
            }
        } else if rounds.len() == 3 && (0..here.len()).any(|t| at(t, None).1 == Here::Yes) {
            body.iter().for_each(|s| self.forget_assigned(*s));
        }
    }

    fn forget_assigned(&mut self, stmt: StmtId) {
        let kind = &self.kernel.stmts[stmt].kind;
        kind.binds().into_iter().chain(kind.sets()).for_each(|var| self.vars[var] = None);
        kind.bodies().into_iter().flatten().for_each(|s| self.forget_assigned(*s));
    }

    /// Meets the loads of an expression. Those that only some evaluations reach are not recorded.
    fn loads(&mut self, expr: ExprId, here: &[Here]) {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Load(access) => {
                let indices = &kernel.accesses[*access].indices;
                indices.iter().for_each(|e| self.loads(*e, here));
                self.access(*access, Kind::Read, here);
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.loads(*a, here),
            ExprKind::Binary(op, a, b) => {
                self.loads(*a, here);
                if !matches!(op, crate::ir::BinaryOp::And | crate::ir::BinaryOp::Or) {
                    self.loads(*b, here);
                }
            }
            ExprKind::Math(_, args) => args.iter().for_each(|e| self.loads(*e, here)),
            ExprKind::Select(a, b, c) => [a, b, c].into_iter().for_each(|e| self.loads(*e, here)),
            ExprKind::If(c, _, _) => self.loads(*c, here),
            _ => {}
        }
    }
}

/// Whether some statements' expressions read elements of arrays.
fn reads_arrays(kernel: &BoundKernel, body: &[StmtId]) -> bool {
    let mut found = false;
    each(kernel, body, &mut |stmt| {
        for root in roots(kernel, stmt) {
            parts(kernel, root, &mut |kind| {
                found |= matches!(kind, ExprKind::Load(access) if matches!(kernel.accesses[*access].place, Place::Buffer(_)));
            });
        }
    });
    found
}

/// Whether the threads that differ in one index alone are of several warps.
fn crosses_warps(kernel: &BoundKernel, axis: VarId) -> bool {
    let Some(axis) = kernel.threads.iter().position(|a| a.var == axis) else { return false };
    let extents = kernel.thread_extents();
    extents.iter().take(axis + 1).map(|e| u64::from(*e)).product::<u64>() > 32
}

fn contains_barrier(kernel: &BoundKernel, body: &[StmtId], barriers: &BTreeSet<StmtId>) -> bool {
    body.iter().any(|s| {
        barriers.contains(s)
            || matches!(kernel.stmts[*s].kind, StmtKind::SyncThreads)
            || matches!(kernel.stmts[*s].kind, StmtKind::For { .. })
                && effects(kernel, *s).contains(&Effect::BlockCollective)
            || kernel.stmts[*s].kind.bodies().into_iter().any(|body| contains_barrier(kernel, body, barriers))
    })
}
