//! What may stand where.

use crate::diag::{Code, Diagnostic};
use crate::ir::constant::is_constant;
use crate::ir::{Effect, Kernel, Scope, SpanId, StmtId, StmtKind, StmtPart, VarId, effects};

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
        let kind = &kernel.stmts[stmt].kind;
        if let StmtKind::Alloc { buffer } = kind
            && kernel.buffers[*buffer].scope != Scope::Local
            && self.parallel.is_none()
        {
            let name = &kernel.buffers[*buffer].name;
            let fragment = kernel.buffers[*buffer].scope == Scope::Fragment;
            let what = if fragment { "fragment" } else { "shared array" };
            let message = format!("the {what} `{name}` is allocated once for the block");
            let help = "allocate it before the loop or conditional";
            if let Some(around) = self.looped {
                self.report(span, message, around, "but it stands in this loop", help);
            } else if let Some(around) = self.conditional {
                self.report(span, message, around, "but it stands under this condition", help);
            }
        }
        let outer = (self.looped, self.conditional, self.parallel);
        if let StmtKind::If { cond, .. } = kind
            && !is_constant(kernel, *cond)
        {
            self.conditional = Some(span);
        }
        // The body of a `persistent` loop is the block's: what is allocated in it is allocated once.
        if matches!(kind, StmtKind::For { .. }) {
            self.looped = Some(span);
        }
        if matches!(kind, StmtKind::Parallel { .. }) {
            if self.parallel.is_some() {
                return;
            }
            self.parallel = Some(span);
            self.own.clear();
        }
        kind.bodies().into_iter().for_each(|body| self.block(body));
        (self.looped, self.conditional, self.parallel) = outer;
    }

    fn in_parallel(&mut self, stmt: StmtId, parallel: SpanId) {
        let kernel = self.kernel;
        let span = kernel.stmts[stmt].span;
        let kind = &kernel.stmts[stmt].kind;
        if let StmtKind::Let { var, .. } = kind {
            self.own.push(*var);
        }
        if let StmtKind::Assign { var, .. } = kind
            && !self.own.contains(var)
        {
            let name = &kernel.vars[*var].name;
            let message = format!("`{name}` is declared outside of the `parallel` loop and assigned inside");
            let help = "its elements run on different threads: store to an array, or reduce afterwards";
            self.report(span, message, parallel, "the loop", help);
        }
        let collective = |e: &Effect| matches!(e, Effect::BlockCollective | Effect::WarpCollective);
        let mut is_tile = matches!(kind, StmtKind::Alloc { .. }) || effects(kernel, stmt).iter().any(collective);
        kind.each_part(&mut |part| {
            is_tile |= matches!(part, StmtPart::Tile(..) | StmtPart::Array(..));
        });
        if is_tile {
            let what = kind.a_name();
            let message = format!("{what} cannot stand in a `parallel` loop");
            let help = "its elements run on different threads, not all at the same time: move it out of the loop";
            self.report(span, message, parallel, "the loop", help);
        }
    }
}
