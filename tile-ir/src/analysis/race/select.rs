//! What has to be executed: from the accesses that may race, back to the variables they depend on.

use super::Run;
use crate::ir::{AccessId, BoundKernel, ExprId, ExprKind, ParamKind, Place, ReduceSource, Scope, StmtId, StmtKind};

impl Run<'_> {
    /// Finds what needs to be executed, from the accesses back to the variables they depend on.
    pub(super) fn select(&mut self) {
        let kernel = self.kernel;
        let mut interesting = false;
        loop {
            let before = (self.needed.len(), self.relevant.len());
            for &stmt in &kernel.body {
                interesting |= self.select_stmt(stmt);
            }
            if (self.needed.len(), self.relevant.len()) == before {
                break;
            }
        }
        if !interesting {
            self.relevant.clear();
        }
    }

    /// Whether the place is one that threads share and some may write.
    pub(super) fn watched(&self, place: Place) -> bool {
        match place {
            Place::Buffer(b) => self.kernel.buffers[b].scope == Scope::Shared,
            Place::Tensor(p) => matches!(self.kernel.params[p].kind, ParamKind::Tensor { mutable: true, .. }),
        }
    }

    fn select_stmt(&mut self, stmt: StmtId) -> bool {
        let kernel = self.kernel;
        let mut watched = false;
        let mut exprs: Vec<ExprId> = Vec::new();
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } => {
                exprs.push(*value);
                if self.needed.contains(var) {
                    self.relevant.insert(stmt);
                    self.need(*value);
                }
            }
            StmtKind::Let { var, value: None } => {
                if self.needed.contains(var) {
                    self.relevant.insert(stmt);
                }
            }
            StmtKind::Store { access, value } | StmtKind::Atomic { access, value, .. } => {
                exprs.push(*value);
                watched |= self.select_access(*access);
            }
            StmtKind::If { cond, then, otherwise } => {
                exprs.push(*cond);
                let mut inside = false;
                for s in then.iter().chain(otherwise) {
                    watched |= self.select_stmt(*s);
                    inside |= self.relevant.contains(s);
                }
                if inside {
                    self.relevant.insert(stmt);
                    self.need(*cond);
                }
            }
            StmtKind::For { start, end, step, body, .. } => {
                exprs.extend([*start, *end, *step]);
                let mut inside = false;
                for s in body {
                    watched |= self.select_stmt(*s);
                    inside |= self.relevant.contains(s);
                }
                if inside {
                    self.relevant.insert(stmt);
                    [*start, *end, *step].into_iter().for_each(|e| self.need(e));
                }
            }
            StmtKind::Persistent { extents, body, .. } => {
                exprs.extend(extents);
                let mut inside = false;
                for s in body {
                    watched |= self.select_stmt(*s);
                    inside |= self.relevant.contains(s);
                }
                if inside {
                    self.relevant.insert(stmt);
                }
            }
            // The compiler orders these.
            StmtKind::Parallel { .. } | StmtKind::Tile(_) => {
                self.relevant.insert(stmt);
            }
            StmtKind::Reduce { src, .. } => {
                if let ReduceSource::Value(value) = src {
                    exprs.push(*value);
                }
                self.relevant.insert(stmt);
            }
            StmtKind::Shuffle { value, lane, .. } => {
                exprs.extend([*value, *lane]);
                self.relevant.insert(stmt);
            }
            StmtKind::Vote { pred, .. } => {
                exprs.push(*pred);
                self.relevant.insert(stmt);
            }
            StmtKind::LastArriver { count, .. } => {
                exprs.push(*count);
                self.relevant.insert(stmt);
            }
            StmtKind::SyncThreads | StmtKind::SyncWarp => {
                self.relevant.insert(stmt);
            }
            StmtKind::Alloc { .. } => {}
            StmtKind::Print { args, .. } => exprs.extend(args),
            StmtKind::Assert { cond, .. } => exprs.push(*cond),
        }
        for expr in exprs {
            let mut loads = Vec::new();
            collect_loads(kernel, expr, &mut loads);
            for access in loads {
                watched |= self.select_access(access);
                if self.watched(kernel.accesses[access].place) {
                    self.relevant.insert(stmt);
                }
            }
        }
        if watched {
            self.relevant.insert(stmt);
        }
        watched
    }

    fn select_access(&mut self, access: AccessId) -> bool {
        let data = &self.kernel.accesses[access];
        let watched = self.watched(data.place);
        if watched {
            data.indices.iter().for_each(|e| self.need(*e));
        }
        watched
    }

    fn need(&mut self, expr: ExprId) {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(var) => {
                self.needed.insert(*var);
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.need(*a),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| self.need(*e)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().for_each(|e| self.need(*e)),
            _ => {}
        }
    }
}

/// The accesses that an expression loads from, those of indices included.
fn collect_loads(kernel: &BoundKernel, expr: ExprId, all: &mut Vec<AccessId>) {
    match &kernel.exprs[expr].kind {
        ExprKind::Load(access) => {
            all.push(*access);
            kernel.accesses[*access].indices.iter().for_each(|e| collect_loads(kernel, *e, all));
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => collect_loads(kernel, *a, all),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| collect_loads(kernel, *e, all)),
        ExprKind::Math(_, args) => args.iter().for_each(|e| collect_loads(kernel, *e, all)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
            [a, b, c].into_iter().for_each(|e| collect_loads(kernel, *e, all));
        }
        _ => {}
    }
}
