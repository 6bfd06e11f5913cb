//! Pipelined loops: which statements of the body are its loads, and that the rest leaves their arrays alone.
//!
//! The loads lead the body: statements that only fill per-thread arrays, allocated before the loop, from tensors that
//! the kernel does not write. Every iteration fills the same elements, so that an iteration's data may stand in
//! another copy of the array than the data of the iteration before. An array that is allocated in the body belongs to
//! its iteration: filling it is part of the rest.

use super::extents::{is_constant, value};
use crate::diag::{Code, Diagnostic};
use crate::ir::{
    Access, BufferId, Effect, ExprId, ExprKind, Kernel, LoopKind, ParamKind, Place, ReduceSource, Scope, SpanId,
    StmtId, StmtKind, VarId, VarKind, effects,
};

/// The parts of a pipelined loop's body.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// How many leading statements are loads and the index variables of loads; 0 if there are no loads.
    pub(crate) loads: usize,
    /// Up to where statements only allocate and fill the iteration's own arrays, or name indices.
    pub(crate) own: usize,
    /// The arrays that the loads fill.
    pub(crate) buffers: Vec<BufferId>,
}

/// Splits the body of a pipelined loop.
pub(crate) fn split(kernel: &Kernel, body: &[StmtId]) -> Split {
    let mut allocated = Vec::new();
    each(kernel, body, &mut |stmt| {
        if let StmtKind::Alloc { buffer } = kernel.stmts[stmt].kind {
            allocated.push(buffer);
        }
    });
    let mut result = Split::default();
    let mut loads = Leading { kernel, scope: Scope::Local, not: &allocated, filled: Vec::new(), inner: Vec::new() };
    for (at, &stmt) in body.iter().enumerate() {
        match loads.statement(stmt) {
            Some(true) => result.loads = at + 1,
            Some(false) => {}
            None => break,
        }
    }
    result.buffers = loads.filled;
    result.buffers.sort_unstable();
    result.buffers.dedup();
    result.own = result.loads;
    let mut own = Leading { kernel, scope: Scope::Local, not: &result.buffers, filled: Vec::new(), inner: Vec::new() };
    for (at, &stmt) in body.iter().enumerate().skip(result.loads) {
        let alloc = matches!(kernel.stmts[stmt].kind,
            StmtKind::Alloc { buffer } if kernel.buffers[buffer].scope == Scope::Local);
        match own.statement(stmt) {
            _ if alloc => {}
            // What stays behind the last fill is not moved.
            Some(true) => result.own = at + 1,
            Some(false) => {}
            None => break,
        }
    }
    result
}

/// Recognises statements that only fill arrays of a scope from global memory.
struct Leading<'k> {
    kernel: &'k Kernel,
    scope: Scope,
    /// Arrays that do not count.
    not: &'k [BufferId],
    filled: Vec<BufferId>,
    /// Indices of the loops around, within the statement.
    inner: Vec<VarId>,
}

impl Leading<'_> {
    /// Whether the statement is a load; `Some(false)` if it only names an index; `None` if it is anything else.
    fn statement(&mut self, stmt: StmtId) -> Option<bool> {
        let kernel = self.kernel;
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value: Some(value) } => {
                (kernel.vars[*var].kind == VarKind::Let && is_address(kernel, *value)).then_some(false)
            }
            StmtKind::Store { access, value } => {
                let Access { place: Place::Buffer(buffer), indices, .. } = &kernel.accesses[*access] else {
                    return None;
                };
                let fills = kernel.buffers[*buffer].scope == self.scope
                    && !self.not.contains(buffer)
                    && (self.scope == Scope::Shared || indices.iter().all(|e| self.is_fixed(*e)))
                    && is_global_load(kernel, *value);
                fills.then(|| self.filled.push(*buffer)).map(|()| true)
            }
            StmtKind::Copy { src, dst, .. } if self.scope == Scope::Shared => {
                matches!((src.place, dst.place), (Place::Tensor(_), Place::Buffer(b))
                    if kernel.buffers[b].scope == Scope::Shared)
                .then_some(true)
            }
            StmtKind::For { var, start, end, step, kind, body } if !matches!(kind, LoopKind::Pipelined { .. }) => {
                if ![start, end, step].into_iter().all(|e| is_constant(kernel, *e)) {
                    return None;
                }
                self.all(&[*var], body)
            }
            StmtKind::Parallel { vars, body, .. } if self.scope == Scope::Shared => self.all(vars, body),
            _ => None,
        }
    }

    fn all(&mut self, vars: &[VarId], body: &[StmtId]) -> Option<bool> {
        self.inner.extend(vars);
        let found = body.iter().map(|s| self.statement(*s)).try_fold(false, |any, one| Some(any | one?));
        self.inner.truncate(self.inner.len() - vars.len());
        found
    }

    /// Whether an index is the same in every iteration: made of constants and of the statement's own loops.
    fn is_fixed(&self, expr: ExprId) -> bool {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(var) => self.inner.contains(var) || value(kernel, *var).is_some_and(|v| self.is_fixed(v)),
            ExprKind::Binary(_, a, b) => self.is_fixed(*a) && self.is_fixed(*b),
            _ => is_constant(kernel, expr),
        }
    }
}

/// A load, from a tensor that the kernel does not write, at an address that is known before the iteration.
fn is_global_load(kernel: &Kernel, expr: ExprId) -> bool {
    let ExprKind::Load(access) = kernel.exprs[expr].kind else { return false };
    let Access { place: Place::Tensor(param), indices, .. } = &kernel.accesses[access] else { return false };
    let read_only = matches!(kernel.params[*param].kind, ParamKind::Tensor { mutable: false, .. });
    read_only && indices.iter().all(|e| is_address(kernel, *e))
}

/// Made of constants, dims, scalars, indices and what is named once: nothing that an iteration computes.
pub(super) fn is_address(kernel: &Kernel, expr: ExprId) -> bool {
    match &kernel.exprs[expr].kind {
        ExprKind::Load(_) => false,
        ExprKind::Var(var) => kernel.vars[*var].kind != VarKind::Mut,
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => is_address(kernel, *a),
        ExprKind::Binary(_, a, b) => is_address(kernel, *a) && is_address(kernel, *b),
        ExprKind::Math(_, args) => args.iter().all(|e| is_address(kernel, *e)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().all(|e| is_address(kernel, *e)),
        _ => true,
    }
}

/// Reports pipelined loops that cannot be.
pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let mut loops = Vec::new();
    each(kernel, &kernel.body, &mut |stmt| {
        if matches!(kernel.stmts[stmt].kind, StmtKind::For { kind: LoopKind::Pipelined { .. }, .. }) {
            loops.push(stmt);
        }
    });
    for stmt in loops {
        if let StmtKind::For { body, .. } = &kernel.stmts[stmt].kind {
            one(kernel, stmt, body, all);
        }
    }
}

/// Whether the body multiplies tiles.
pub(super) fn is_tile_pipeline(kernel: &Kernel, body: &[StmtId]) -> bool {
    let mut found = false;
    each(kernel, body, &mut |s| found |= matches!(kernel.stmts[s].kind, StmtKind::Gemm { .. }));
    found
}

fn one(kernel: &Kernel, stmt: StmtId, body: &[StmtId], all: &mut Vec<Diagnostic>) {
    if is_tile_pipeline(kernel, body) {
        // Its loads are copies: `tiles` has its rules.
        return;
    }
    let Split { loads, buffers, .. } = split(kernel, body);
    let rest = &body[loads..];
    let span = kernel.stmts[stmt].span;
    let mut shared = Leading { kernel, scope: Scope::Shared, not: &[], filled: Vec::new(), inner: Vec::new() };
    let first = rest.iter().find(|s| !matches!(kernel.stmts[**s].kind, StmtKind::Let { .. }));
    if let Some(&first) = first.filter(|s| shared.statement(**s) == Some(true)) {
        let message = "pipelined loads into shared memory are not in this version of the language";
        let help = "load into arrays of `alloc_local`, or use `serial(a..b)`";
        let diagnostic = Diagnostic::new(Code::SYNTAX, kernel.stmts[first].span, message);
        all.push(diagnostic.label(span, "the pipelined loop").help(help));
        return;
    }
    if let Some((fill, name)) = rest.iter().find_map(|s| stray_fill(kernel, *s, body)) {
        let message = format!("`{name}` is filled from global memory among statements that compute");
        let mut diagnostic = Diagnostic::new(Code::PLACEMENT, fill, message).at("this is a load");
        if let Some(compute) = rest.iter().find_map(|s| first_compute(kernel, *s, body)) {
            diagnostic = diagnostic.label(compute, "the computing begins here: loads stand before it");
        }
        let help = "a pipelined loop begins with statements that only load: fill the array in a loop of its own \
                    before the computing, or allocate it in the body if it is not to be loaded ahead";
        all.push(diagnostic.help(help));
        return;
    }
    if loads == 0 {
        let message = "the loop has no loads to issue ahead";
        let help = "begin the body with loops that only fill arrays of `alloc_local`, allocated before the loop, \
                    from `&` tensors; or use `serial(a..b)`";
        let mut diagnostic = Diagnostic::new(Code::PLACEMENT, span, message).help(help);
        if let Some(&first) = body.first() {
            diagnostic = diagnostic.label(kernel.stmts[first].span, "its body begins with this");
        }
        all.push(diagnostic);
        return;
    }
    for &buffer in &buffers {
        let name = &kernel.buffers[buffer].name;
        let mut written = None;
        each(kernel, rest, &mut |s| {
            if effects(kernel, s).contains(&Effect::Write(Place::Buffer(buffer))) {
                written.get_or_insert(kernel.stmts[s].span);
            }
        });
        if let Some(written) = written {
            let message = format!("`{name}` holds loads that are issued ahead: only they may write it");
            let help = "compute into another array";
            all.push(Diagnostic::new(Code::PLACEMENT, written, message).label(span, "the pipelined loop").help(help));
        }
        let mut inside = Vec::new();
        each(kernel, &[stmt], &mut |s| inside.push(s));
        let mut outside = None;
        each(kernel, &kernel.body, &mut |s| {
            if !inside.contains(&s) && uses(kernel, s, buffer) {
                outside.get_or_insert(kernel.stmts[s].span);
            }
        });
        if let Some(outside) = outside {
            let message = format!("`{name}` is filled by a pipelined loop and used outside of it");
            let help = "use another array here: between iterations the loop keeps several copies of it";
            all.push(Diagnostic::new(Code::PLACEMENT, outside, message).label(span, "the pipelined loop").help(help));
        }
    }
}

/// A fill of an array from outside the loop that is not among the leading loads, and the array's name.
fn stray_fill<'k>(kernel: &'k Kernel, stmt: StmtId, body: &[StmtId]) -> Option<(SpanId, &'k str)> {
    match &kernel.stmts[stmt].kind {
        StmtKind::Store { access, value } => {
            let Place::Buffer(buffer) = kernel.accesses[*access].place else { return None };
            let array = &kernel.buffers[buffer];
            let mut own = array.scope != Scope::Local;
            each(kernel, body, &mut |s| {
                own |= matches!(kernel.stmts[s].kind, StmtKind::Alloc { buffer: b } if b == buffer)
            });
            let stray = !own && is_global_load(kernel, *value);
            stray.then(|| (kernel.stmts[stmt].span, array.name.as_str()))
        }
        StmtKind::For { body: inner, kind, .. } if !matches!(kind, LoopKind::Pipelined { .. }) => {
            inner.iter().find_map(|s| stray_fill(kernel, *s, body))
        }
        _ => None,
    }
}

/// The first statement that is neither a load nor an index.
fn first_compute(kernel: &Kernel, stmt: StmtId, body: &[StmtId]) -> Option<SpanId> {
    match &kernel.stmts[stmt].kind {
        StmtKind::For { body: inner, kind, .. } if !matches!(kind, LoopKind::Pipelined { .. }) => {
            inner.iter().find_map(|s| first_compute(kernel, *s, body))
        }
        StmtKind::Let { var, value: Some(value) }
            if kernel.vars[*var].kind == VarKind::Let && is_address(kernel, *value) =>
        {
            None
        }
        StmtKind::Store { .. } if stray_fill(kernel, stmt, body).is_some() => None,
        _ => Some(kernel.stmts[stmt].span),
    }
}

/// Every statement, nested ones included.
pub(super) fn each(kernel: &Kernel, body: &[StmtId], f: &mut impl FnMut(StmtId)) {
    for &stmt in body {
        f(stmt);
        match &kernel.stmts[stmt].kind {
            StmtKind::If { then, otherwise, .. } => {
                each(kernel, then, f);
                each(kernel, otherwise, f);
            }
            StmtKind::For { body, .. } | StmtKind::Parallel { body, .. } | StmtKind::Persistent { body, .. } => {
                each(kernel, body, f);
            }
            _ => {}
        }
    }
}

/// Whether a statement itself, apart from its allocation, reads or writes an array.
fn uses(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    let mut found = effects(kernel, stmt)
        .iter()
        .any(|e| matches!(e, Effect::Read(p) | Effect::Write(p) | Effect::Atomic(p) if *p == Place::Buffer(buffer)));
    for root in roots(kernel, stmt) {
        parts(kernel, root, &mut |kind| {
            found |= matches!(kind, ExprKind::Load(a) if kernel.accesses[*a].place == Place::Buffer(buffer));
        });
    }
    found
}

/// Variables that statements read.
pub(crate) fn variables(kernel: &Kernel, body: &[StmtId]) -> Vec<VarId> {
    let mut all = Vec::new();
    each(kernel, body, &mut |stmt| {
        for root in roots(kernel, stmt) {
            parts(kernel, root, &mut |kind| {
                if let ExprKind::Var(var) = kind {
                    all.push(*var);
                }
            });
        }
    });
    all
}

/// The expressions of a statement, those of nested statements excepted.
pub(super) fn roots(kernel: &Kernel, stmt: StmtId) -> Vec<ExprId> {
    let indices = |access| kernel.accesses[access].indices.iter().copied();
    match &kernel.stmts[stmt].kind {
        StmtKind::Let { value, .. } => value.iter().copied().collect(),
        StmtKind::Assign { value, .. } | StmtKind::Fill { value, .. } => vec![*value],
        StmtKind::Store { access, value } | StmtKind::Atomic { access, value, .. } => {
            indices(*access).chain([*value]).collect()
        }
        StmtKind::If { cond, .. } | StmtKind::Assert { cond, .. } => vec![*cond],
        StmtKind::For { start, end, step, .. } => vec![*start, *end, *step],
        StmtKind::Parallel { extents, .. } => extents.clone(),
        StmtKind::Copy { src, dst, .. } => {
            [&src.start, &src.extents, &dst.start, &dst.extents].into_iter().flatten().copied().collect()
        }
        StmtKind::Reduce { src: ReduceSource::Value(value), .. } => vec![*value],
        StmtKind::Shuffle { value, lane, .. } => vec![*value, *lane],
        StmtKind::Vote { pred, .. } => vec![*pred],
        StmtKind::Print { args, .. } => args.clone(),
        StmtKind::Persistent { extents, per_sm, .. } => extents.iter().chain(per_sm).copied().collect(),
        StmtKind::Gemm { .. } | StmtKind::Reduce { .. } | StmtKind::Alloc { .. } => vec![],
        StmtKind::SyncThreads | StmtKind::SyncWarp => vec![],
    }
}

/// An expression and every part of it.
pub(super) fn parts(kernel: &Kernel, expr: ExprId, f: &mut impl FnMut(&ExprKind)) {
    let kind = &kernel.exprs[expr].kind;
    f(kind);
    match kind {
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => parts(kernel, *a, f),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| parts(kernel, *e, f)),
        ExprKind::Math(_, args) => args.iter().for_each(|e| parts(kernel, *e, f)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
            [a, b, c].into_iter().for_each(|e| parts(kernel, *e, f));
        }
        ExprKind::Load(access) => kernel.accesses[*access].indices.iter().for_each(|e| parts(kernel, *e, f)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{Build, report};
    use crate::ir::{Dtype, Kernel};
    use expect_test::{Expect, expect};

    /// A pipelined loop whose body `body` builds, given the tensor, the array to fill and the index; then `after`.
    fn looped(
        scope: Scope,
        body: impl FnOnce(&mut Build, Place, Place, VarId),
        after: impl FnOnce(&mut Build, Place),
    ) -> Kernel {
        let mut b = Build::new();
        let x = b.tensor("x", Dtype::F32, &["N"], false);
        let n = b.dim("N");
        b.blocks("bx", n);
        b.threads("t", 32);
        let a = b.alloc("a", scope, Dtype::F32, &[1]);
        let (zero, n, stages) = (b.int(0), b.dim("N"), b.int(2));
        b.for_("i", zero, n, LoopKind::Pipelined { stages, schedule: crate::ir::Schedule::Auto }, |b, i| {
            body(b, x, a, i)
        });
        after(&mut b, a);
        b.done()
    }

    fn fill(b: &mut Build, x: Place, a: Place, i: VarId) {
        let (at, zero) = (b.var(i), b.int(0));
        let value = b.masked(x, &[at]);
        b.store(a, &[zero], value);
    }

    fn check(kernel: &Kernel, expected: Expect) {
        let mut all = Vec::new();
        super::check(kernel, &mut all);
        expected.assert_eq(&report(&all));
    }

    fn nothing(_: &mut Build, _: Place) {}

    #[test]
    fn loads_that_lead() {
        let kernel = looped(
            Scope::Local,
            |b, x, a, i| {
                fill(b, x, a, i);
                let own = b.local("own", Dtype::F32, &[1]);
                fill(b, x, own, i);
                let zero = b.int(0);
                let sum = b.load(own, &[zero]);
                b.let_mut("sum", sum);
            },
            nothing,
        );
        check(&kernel, expect![[""]]);
        let StmtKind::For { body, .. } = &kernel.stmts[*kernel.body.last().unwrap()].kind else { panic!() };
        let split = split(&kernel, body);
        assert_eq!((split.loads, split.own, split.buffers.len()), (1, 3, 1));
    }

    #[test]
    fn loops_without_leading_loads() {
        let compute = |b: &mut Build| {
            let one = b.float(1.0);
            b.let_mut("sum", one);
        };
        let kernel = looped(
            Scope::Local,
            |b, x, a, i| {
                compute(b);
                fill(b, x, a, i);
            },
            nothing,
        );
        check(
            &kernel,
            expect![[r#"
                [TK0804] `a` is filled from global memory among statements that compute
                  at: this is a load
                  label: the computing begins here: loads stand before it
                  help: a pipelined loop begins with statements that only load: fill the array in a loop of its own before the computing, or allocate it in the body if it is not to be loaded ahead
            "#]],
        );
        check(
            &looped(Scope::Local, |b, _, _, _| compute(b), nothing),
            expect![[r#"
                [TK0804] the loop has no loads to issue ahead
                  label: its body begins with this
                  help: begin the body with loops that only fill arrays of `alloc_local`, allocated before the loop, from `&` tensors; or use `serial(a..b)`
            "#]],
        );
        check(
            &looped(Scope::Shared, fill, nothing),
            expect![[r#"
                [TK0801] pipelined loads into shared memory are not in this version of the language
                  label: the pipelined loop
                  help: load into arrays of `alloc_local`, or use `serial(a..b)`
            "#]],
        );
    }

    #[test]
    fn arrays_of_the_loads_are_theirs() {
        let store = |b: &mut Build, a: Place| {
            let (zero, one) = (b.int(0), b.float(1.0));
            b.store(a, &[zero], one);
        };
        let written = |b: &mut Build, x, a, i| {
            fill(b, x, a, i);
            store(b, a);
        };
        check(
            &looped(Scope::Local, written, nothing),
            expect![[r#"
                [TK0804] `a` holds loads that are issued ahead: only they may write it
                  label: the pipelined loop
                  help: compute into another array
            "#]],
        );
        check(
            &looped(Scope::Local, fill, store),
            expect![[r#"
                [TK0804] `a` is filled by a pipelined loop and used outside of it
                  label: the pipelined loop
                  help: use another array here: between iterations the loop keeps several copies of it
            "#]],
        );
    }
}
