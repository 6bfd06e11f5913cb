//! What may stand where.

use crate::diag::{Code, Diagnostic};
use crate::ir::constant::is_constant;
use crate::ir::{Effect, Kernel, Scope, SpanId, StmtId, StmtKind, VarId, effects};

pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let mut walk = Walk { kernel, all, conditional: None, looped: None, parallel: None, own: Vec::new() };
    walk.block(&kernel.body);
}

struct Walk<'k, 'a> {
    kernel: &'k Kernel,
    all: &'a mut Vec<Diagnostic>,
    /// The innermost conditional that no instance decides.
    conditional: Option<SpanId>,
    looped: Option<SpanId>,
    parallel: Option<SpanId>,
    /// Variables declared in the `parallel` body.
    own: Vec<VarId>,
}

impl Walk<'_, '_> {
    fn block(&mut self, body: &[StmtId]) {
        for &stmt in body {
            self.stmt(stmt);
        }
    }

    fn report(&mut self, span: SpanId, message: String, around: SpanId, label: &str, help: &str) {
        self.all.push(Diagnostic::new(Code::PLACEMENT, span, message).label(around, label).help(help));
    }

    fn stmt(&mut self, stmt: StmtId) {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        if let Some(parallel) = self.parallel {
            self.in_parallel(stmt, parallel);
        }
        match &kernel.stmts[stmt].kind {
            StmtKind::Alloc { buffer } if kernel.buffers[*buffer].scope == Scope::Shared && self.parallel.is_none() => {
                let name = &kernel.buffers[*buffer].name;
                let message = format!("the shared array `{name}` is allocated once for the block");
                let help = "allocate it before the loop or conditional";
                if let Some(around) = self.looped {
                    self.report(span, message, around, "but it stands in this loop", help);
                } else if let Some(around) = self.conditional {
                    self.report(span, message, around, "but it stands under this condition", help);
                }
            }
            StmtKind::If { cond, then, otherwise } => {
                let outer = self.conditional;
                if !is_constant(kernel, *cond) {
                    self.conditional = Some(span);
                }
                self.block(then);
                self.block(otherwise);
                self.conditional = outer;
            }
            StmtKind::For { body, .. } => {
                let outer = self.looped.replace(span);
                self.block(body);
                self.looped = outer;
            }
            StmtKind::Parallel { body, .. } if self.parallel.is_none() => {
                self.parallel = Some(span);
                self.own.clear();
                self.block(body);
                self.parallel = None;
            }
            _ => {}
        }
    }

    fn in_parallel(&mut self, stmt: StmtId, parallel: SpanId) {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let what = match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, .. } => {
                self.own.push(*var);
                None
            }
            StmtKind::Assign { var, .. } if !self.own.contains(var) => {
                let name = &kernel.vars[*var].name;
                let message = format!("`{name}` is declared outside of the `parallel` loop and assigned inside");
                let help = "its elements run on different threads: store to an array, or reduce afterwards";
                self.report(span, message, parallel, "the loop", help);
                None
            }
            StmtKind::Alloc { .. } => Some("an allocation"),
            StmtKind::Parallel { .. } => Some("another `parallel` loop"),
            StmtKind::Copy { .. } | StmtKind::Fill { .. } => Some("a tile operation"),
            _ => effects(kernel, stmt)
                .iter()
                .any(|e| matches!(e, Effect::BlockCollective | Effect::WarpCollective))
                .then_some("a barrier or collective"),
        };
        if let Some(what) = what {
            let message = format!("{what} cannot stand in a `parallel` loop");
            let help = "its elements run on different threads, not all at the same time: move it out of the loop";
            self.report(span, message, parallel, "the loop", help);
        }
    }
}
