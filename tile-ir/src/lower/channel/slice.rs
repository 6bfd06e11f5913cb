//! The slice of a kernel that decides what is loaded: the control flow around the loops that load, and what that and the tiles'
//! coordinates are made of. A producer executes it beside its loads.

use super::super::hopper::Reason;
use super::super::uses::{depends, loaded, statements, variables};
use super::super::*;
use crate::ir::pipeline::is_read_only;

/// What a producer executes of a kernel.
pub(in crate::lower) struct Slice {
    /// The loops that load.
    loops: Vec<StmtId>,
    /// The variables that the loops' control flow and the coordinates of what is loaded are made of.
    pub(in crate::lower) vars: BTreeSet<VarId>,
}

impl Slice {
    /// The slice for what is made of these variables.
    pub(in crate::lower) fn new(kernel: &BoundKernel, loops: Vec<StmtId>, vars: impl Iterator<Item = VarId>) -> Slice {
        let mut slice = Slice { loops, vars: vars.collect() };
        loop {
            let before = slice.vars.len();
            for stmt in statements(kernel, &kernel.body) {
                let kind = &kernel.stmts[stmt].kind;
                if let StmtKind::Let { var, .. } | StmtKind::Assign { var, .. } = kind {
                    // A variable is made of others.
                    if slice.vars.contains(var) {
                        slice.vars.extend(variables(kernel, &[stmt]));
                    }
                } else if slice.controls(kernel, stmt) {
                    slice.vars.extend(kind.values().into_iter().flat_map(|e| depends(kernel, e)));
                    // A loop is left by an assignment to its index.
                    if let StmtKind::For { var, .. } = kind
                        && kernel.is_left_early(stmt)
                    {
                        slice.vars.insert(*var);
                    }
                }
            }
            if slice.vars.len() == before {
                return slice;
            }
        }
    }

    /// Whether a statement loads, or its condition or bounds decide about loads.
    fn controls(&self, kernel: &BoundKernel, stmt: StmtId) -> bool {
        let bodies = kernel.stmts[stmt].kind.bodies();
        self.loops.contains(&stmt) || bodies.into_iter().any(|body| self.decides(kernel, body))
    }

    /// Whether what a body does decides about loads.
    fn decides(&self, kernel: &BoundKernel, body: &[StmtId]) -> bool {
        holds(kernel, body, &self.loops) || assigns(kernel, body, &self.vars)
    }

    /// Whether a producer can find all of it: an error names what it cannot.
    pub(in crate::lower) fn producible(&self, kernel: &BoundKernel) -> Result<(), Reason> {
        let no = |stmt: StmtId, var: VarId, what: &str| {
            let text = format!("which tiles are loaded depends on `{}`, {what}", kernel.vars[var].name);
            Err(Reason { text, span: kernel.stmts[stmt].span })
        };
        let first = self.loops.first().copied().unwrap_or(StmtId::from_u32(0));
        if let Some(axis) = kernel.threads.iter().find(|axis| self.vars.contains(&axis.var)) {
            return no(first, axis.var, "the index of a thread");
        }
        for stmt in statements(kernel, &kernel.body) {
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::Let { var, value: Some(value) } | StmtKind::Assign { var, value } = kind {
                if self.vars.contains(var) && !is_producers(kernel, *value) {
                    return no(stmt, *var, "which is computed from what threads have loaded or computed");
                }
            } else if !matches!(kind, StmtKind::For { .. } | StmtKind::Persistent { .. } | StmtKind::Let { .. })
                && let Some(var) = kind.binds().into_iter().chain(kind.sets()).find(|var| self.vars.contains(var))
            {
                return no(stmt, var, "which threads find out together");
            }
            let known = |value: ExprId| is_producers(kernel, value);
            if self.controls(kernel, stmt) && !kind.values().into_iter().all(known) {
                let text = "which tiles are loaded depends on a condition or a loop's bounds, computed from what threads have loaded or computed";
                return Err(Reason::new(text, kernel.stmts[stmt].span));
            }
        }
        Ok(())
    }
}

/// Whether the producer finds the value that every consumer finds: of memory it is made only of tensors that the kernel does not write.
fn is_producers(kernel: &BoundKernel, expr: ExprId) -> bool {
    loaded(kernel, expr)
        .into_iter()
        .all(|access| matches!(kernel.accesses[access].place, Place::Tensor(tensor) if is_read_only(kernel, tensor)))
}

/// Whether one of some statements stands in a body.
pub(in crate::lower) fn holds(kernel: &BoundKernel, body: &[StmtId], stmts: &[StmtId]) -> bool {
    statements(kernel, body).iter().any(|stmt| stmts.contains(stmt))
}

/// Whether a body gives one of some variables another value.
pub(in crate::lower) fn assigns(kernel: &BoundKernel, body: &[StmtId], vars: &BTreeSet<VarId>) -> bool {
    let mut set = statements(kernel, body).into_iter().flat_map(|stmt| kernel.stmts[stmt].kind.sets());
    set.any(|var| vars.contains(&var))
}

impl<'a> Lowering<'a> {
    /// A producer's side of a body. `load` meets every statement first: it lowers what loads, and says whether it did.
    pub(in crate::lower) fn slice(
        &mut self,
        slice: &Slice,
        body: &[StmtId],
        load: &mut dyn FnMut(&mut Self, StmtId) -> bool,
    ) {
        let kernel = self.kernel;
        for (at, &stmt) in body.iter().enumerate() {
            self.span = kernel.stmts[stmt].span;
            if load(self, stmt) {
                continue;
            }
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::For { var, start, end, step, body, .. } = kind
                && slice.decides(kernel, body)
            {
                let range = [*start, *end, *step].map(|e| self.value(e));
                self.counted_loop(*var, range, Unroll::Auto, |l| l.slice(slice, body, load));
            } else if let StmtKind::Persistent { body, .. } = kind {
                self.persistent_loop(None, |l| l.slice(slice, body, load));
            } else if let StmtKind::If { cond, then, otherwise } = kind
                && (slice.decides(kernel, then) || slice.decides(kernel, otherwise))
            {
                let cond = self.value(*cond);
                let [then, otherwise] = [then, otherwise].map(|body| self.nested(|l| l.slice(slice, body, load)));
                self.op(OpKind::If { cond, then, otherwise });
            } else if let StmtKind::Let { var, .. } | StmtKind::Assign { var, .. } = kind
                && slice.vars.contains(var)
            {
                self.block(&body[at..=at]);
            }
        }
    }
}
