//! What a `parallel` loop may name, and that its elements do not meet.
//!
//! The language says of `for [i, j] in parallel([m, n])` that every element is done once, by some thread of the block. So
//! nothing in its body may depend on which thread that is, and no two elements may touch one memory element unless both
//! read it or both update it atomically: otherwise the result would change with the number of threads, the target and the
//! layout of fragments. The first is decided here for good; of the second what is certain, and the checked simulator finds
//! the rest, element by element, however few threads there are.

use super::walk::{Value, Walk};
use crate::constraint::{Definition, Poly, Sym};
use crate::diag::{Code, Diagnostic};
use crate::ir::parts::{accesses, each, parts, roots};
use crate::ir::{
    AccessId, BoundKernel, BufferId, ExprId, ExprKind, ParamKind, Place, ReduceSource, Scope, SpanId, StmtId, StmtKind,
    StmtPart, VarId,
};
use std::collections::BTreeSet;

/// Lanes of a warp.
const WARP: u32 = 32;

/// What differs from thread to thread of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct PerThread {
    vars: BTreeSet<VarId>,
    /// Arrays of `alloc_local` whose elements do.
    arrays: BTreeSet<BufferId>,
}

impl PerThread {
    /// The least fixed point over a bound kernel. What is read from memory that all threads share counts as the same for
    /// all of them where its address is.
    pub fn of(kernel: &BoundKernel) -> Self {
        let mut this = PerThread::default();
        let extents = kernel.thread_extents();
        let axes = kernel.threads.iter().zip(extents).filter(|(_, extent)| *extent > 1);
        this.vars.extend(axes.map(|(axis, _)| axis.var));
        loop {
            let before = (this.vars.len(), this.arrays.len());
            this.block(kernel, &kernel.body, false);
            if before == (this.vars.len(), this.arrays.len()) {
                return this;
            }
        }
    }

    fn block(&mut self, kernel: &BoundKernel, body: &[StmtId], control: bool) {
        for &stmt in body {
            self.stmt(kernel, stmt, control);
        }
    }

    fn stmt(&mut self, kernel: &BoundKernel, stmt: StmtId, control: bool) {
        let one_warp = kernel.thread_count() <= WARP;
        let local = |place: Place| match place {
            Place::Buffer(buffer) if kernel.buffers[buffer].scope == Scope::Local => Some(buffer),
            _ => None,
        };
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value: Some(value) } => self.set(*var, self.expr(kernel, *value)),
            StmtKind::Assign { var, value } => self.set(*var, control || self.expr(kernel, *value)),
            StmtKind::If { cond, then, otherwise } => {
                let control = control || self.expr(kernel, *cond);
                self.block(kernel, then, control);
                self.block(kernel, otherwise, control);
            }
            StmtKind::For { var, start, end, step, body, .. } => {
                let origin = self.expr(kernel, *start) || self.expr(kernel, *step);
                self.set(*var, origin);
                let control = control || origin || self.expr(kernel, *end);
                self.block(kernel, body, control);
            }
            StmtKind::Parallel { body, .. } | StmtKind::Persistent { body, .. } => self.block(kernel, body, control),
            StmtKind::Store { access, value } => {
                let access = &kernel.accesses[*access];
                if let Some(array) = local(access.place)
                    && (control || access.indices.iter().chain([value]).any(|e| self.expr(kernel, *e)))
                {
                    self.arrays.insert(array);
                }
            }
            // A thread's own array holds what differs where anything that is written to it does.
            StmtKind::Tile(op) => {
                let (mut differs, mut written) = (control, Vec::new());
                op.each_part(&mut |part| {
                    let (place, touch) = match part {
                        StmtPart::Value(value) => return differs |= self.expr(kernel, value),
                        StmtPart::Tile(tile, touch) => {
                            differs |= tile.start.iter().any(|e| self.expr(kernel, *e));
                            (tile.place, touch)
                        }
                        StmtPart::Array(buffer, touch) => (Place::Buffer(buffer), touch),
                        StmtPart::Constant(_)
                        | StmtPart::Element(..)
                        | StmtPart::Binds(_)
                        | StmtPart::Sets(_)
                        | StmtPart::Body(_) => {
                            return;
                        }
                        StmtPart::Report | StmtPart::BlockCollective | StmtPart::WarpCollective => return,
                        StmtPart::BlockBarrier | StmtPart::WarpBarrier => return,
                    };
                    let own = local(place);
                    differs |= touch.reads() && own.is_some_and(|array| self.arrays.contains(&array));
                    written.extend(own.filter(|_| touch.writes()));
                });
                if differs {
                    self.arrays.extend(written);
                }
            }
            StmtKind::Reduce { src, dst: Some(dst), axis, .. } => {
                let value = match src {
                    ReduceSource::Value(value) => self.expr(kernel, *value),
                    ReduceSource::Local(array) => self.arrays.contains(array),
                };
                // The threads that are reduced over agree; the others have results of their own.
                let others = match axis {
                    Some(axis) => kernel.threads.iter().any(|a| a.var != *axis && self.vars.contains(&a.var)),
                    None => !one_warp,
                };
                self.set(*dst, value && others);
            }
            StmtKind::Shuffle { value, lane, dst, .. } => {
                self.set(*dst, self.expr(kernel, *value) || self.expr(kernel, *lane));
            }
            StmtKind::Vote { pred, dst, .. } => self.set(*dst, self.expr(kernel, *pred) && !one_warp),
            StmtKind::Atomic { dst: Some(dst), .. } => self.set(*dst, true),
            StmtKind::Let { value: None, .. }
            | StmtKind::Alloc { .. }
            | StmtKind::Reduce { dst: None, .. }
            | StmtKind::Atomic { dst: None, .. }
            | StmtKind::LastArriver { .. }
            | StmtKind::SyncThreads
            | StmtKind::SyncWarp
            | StmtKind::Print { .. }
            | StmtKind::Assert { .. } => {}
        }
    }

    fn set(&mut self, var: VarId, differs: bool) {
        if differs {
            self.vars.insert(var);
        }
    }

    fn expr(&self, kernel: &BoundKernel, expr: ExprId) -> bool {
        self.source(kernel, expr, &BTreeSet::new()).is_some()
    }

    /// What in an expression differs from thread to thread, and where it stands; variables of `own` apart.
    fn source(&self, kernel: &BoundKernel, expr: ExprId, own: &BTreeSet<VarId>) -> Option<(Named, SpanId)> {
        let span = kernel.exprs[expr].span;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(var) => {
                (self.vars.contains(var) && !own.contains(var)).then_some((Named::Variable(*var), span))
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.source(kernel, *a, own),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().find_map(|e| self.source(kernel, *e, own)),
            ExprKind::Math(_, args) => args.iter().find_map(|e| self.source(kernel, *e, own)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
                [a, b, c].into_iter().find_map(|e| self.source(kernel, *e, own))
            }
            ExprKind::Load(access) => {
                let access = &kernel.accesses[*access];
                match access.place {
                    Place::Buffer(array) if self.arrays.contains(&array) => Some((Named::Array(array), span)),
                    _ => access.indices.iter().find_map(|e| self.source(kernel, *e, own)),
                }
            }
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Dim(_)
            | ExprKind::Scalar(_)
            | ExprKind::Const(_)
            | ExprKind::Bits(_)
            | ExprKind::Special(..)
            | ExprKind::Present(_) => None,
        }
    }
}

/// Something of a thread's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Variable(VarId),
    Array(BufferId),
}

/// Meets a `parallel` loop: nothing in it depends on the thread.
pub(super) fn check(walk: &mut Walk<'_>, stmt: StmtId, extents: &[ExprId], body: &[StmtId]) {
    let kernel = walk.kernel;
    let mut own = BTreeSet::new();
    each(kernel, body, &mut |s| {
        let kind = &kernel.stmts[s].kind;
        own.extend(kind.binds());
        if let StmtKind::Atomic { dst: Some(old), .. } = kind {
            own.insert(*old);
        }
    });
    let threads = &walk.per_thread;
    let mut found: Vec<(Named, SpanId, bool)> = Vec::new();
    let mut meet = |named: Option<(Named, SpanId)>, stored: bool| {
        if let Some((named, span)) = named
            && !found.iter().any(|(known, ..)| *known == named)
        {
            found.push((named, span, stored));
        }
    };
    extents.iter().for_each(|e| meet(threads.source(kernel, *e, &own), false));
    each(kernel, body, &mut |s| {
        if let StmtKind::Store { access, .. } | StmtKind::Atomic { access, .. } = &kernel.stmts[s].kind
            && let Place::Buffer(array) = kernel.accesses[*access].place
            && kernel.buffers[array].scope == Scope::Local
        {
            meet(Some((Named::Array(array), kernel.accesses[*access].span)), true);
        }
        roots(kernel, s).into_iter().for_each(|e| meet(threads.source(kernel, e, &own), false));
    });
    for (named, span, stored) in found {
        let (name, declared) = match named {
            Named::Variable(var) => (&kernel.vars[var].name, kernel.vars[var].span),
            Named::Array(array) => (&kernel.buffers[array].name, kernel.buffers[array].span),
        };
        let is_index = matches!(named, Named::Variable(var) if kernel.threads.iter().any(|a| a.var == var));
        let message = match (stored, is_index) {
            (true, _) => format!("`{name}` is each thread's own, and a `parallel` loop stores to it"),
            (false, true) => format!("the thread index `{name}` in a `parallel` loop"),
            (false, false) => format!("`{name}` differs from thread to thread, and a `parallel` loop reads it"),
        };
        let help = match named {
            Named::Variable(_) if is_index => {
                "name elements by the loop's own indices; what threads do by their own index stands outside of `parallel`"
            }
            Named::Variable(_) => {
                "compute it in the loop, from the loop's own indices; or put every thread's value into a shared array, and read that"
            }
            Named::Array(_) => "use a shared array or a fragment: their elements belong to the block",
        };
        let diagnostic = Diagnostic::new(Code::THREAD_DEPENDENT, span, message)
            .at("any thread of the block may do this element")
            .label(declared, "declared here")
            .label(kernel.stmts[stmt].span, "the loop")
            .help(help);
        walk.analysis.diagnostics.push(diagnostic);
    }
    held_by_several(walk, stmt, body);
}

/// Meets a loop over a fragment of one axis, each of whose elements several threads hold. All of them change it, and one of
/// them does what leaves the registers: so what the loop stores in memory it cannot read for the fragment.
fn held_by_several(walk: &mut Walk<'_>, stmt: StmtId, body: &[StmtId]) {
    let kernel = walk.kernel;
    let fragment = |access: &AccessId| match kernel.accesses[*access].place {
        Place::Buffer(buffer) => Some(buffer).filter(|b| kernel.buffers[*b].scope == Scope::Fragment),
        Place::Tensor(_) => None,
    };
    let rank = |buffer: BufferId| kernel.buffers[buffer].extents.len();
    let all = accesses(kernel, body);
    if all.iter().filter_map(fragment).any(|b| rank(b) != 1) {
        return;
    }
    let (mut changed, mut written) = (None, Vec::new());
    each(kernel, body, &mut |s| {
        if let StmtKind::Store { access, .. } | StmtKind::Atomic { access, .. } = &kernel.stmts[s].kind {
            match fragment(access) {
                Some(buffer) => changed = Some((buffer, kernel.stmts[s].span)),
                None => written.push(kernel.accesses[*access].place),
            }
        }
    });
    let Some((changed, at)) = changed else { return };
    let mut loads = BTreeSet::new();
    each(kernel, body, &mut |s| {
        for root in roots(kernel, s) {
            parts(kernel, root, &mut |kind| {
                if let ExprKind::Load(access) = kind {
                    loads.insert(*access);
                }
            });
        }
        if let StmtKind::Atomic { access, dst: Some(_), .. } = &kernel.stmts[s].kind {
            loads.insert(*access);
        }
    });
    if let Some(read) = loads.into_iter().find(|a| written.contains(&kernel.accesses[*a].place)) {
        let (changed, memory) = (&kernel.buffers[changed].name, kernel.place_name(kernel.accesses[read].place));
        let message = format!("a `parallel` loop reads and writes `{memory}` and changes the fragment `{changed}`");
        let diagnostic = Diagnostic::new(Code::RACE, kernel.accesses[read].span, message)
            .at(format!("all threads that hold an element of `{changed}` read this, and one of them writes it"))
            .label(at, format!("`{changed}` is changed here"))
            .label(kernel.stmts[stmt].span, "the loop")
            .help(format!("write `{memory}` in a `parallel` loop of its own, after a barrier"));
        walk.analysis.diagnostics.push(diagnostic);
    }
}

/// Meets a store: where it is certain that two elements of the `parallel` loop around it meet, it is reported.
pub(super) fn store(walk: &mut Walk<'_>, access: AccessId, value: ExprId) {
    let kernel = walk.kernel;
    let Some((parallel, depth)) = walk.parallel.zip(Some(walk.parallel_path)) else { return };
    let shared = |place: Place| match place {
        Place::Tensor(param) => matches!(kernel.params[param].kind, ParamKind::Tensor { .. }),
        Place::Buffer(buffer) => kernel.buffers[buffer].scope == Scope::Shared,
    };
    let place = kernel.accesses[access].place;
    // What happens for some elements alone may happen for one alone.
    if !shared(place) || walk.path.len() > depth {
        return;
    }
    let StmtKind::Parallel { vars, .. } = &kernel.stmts[parallel].kind else { return };
    let Some(indices) = known(walk, access) else { return };
    let name = kernel.place_name(place).to_owned();
    let span = kernel.accesses[access].span;
    let loop_span = kernel.stmts[parallel].span;
    for &var in vars {
        let Some((sym, extent)) = axis(walk, var) else { return };
        if extent < 2 || indices.iter().any(|index| may_depend(walk, index, sym)) {
            continue;
        }
        let index = &kernel.vars[var].name;
        let message = format!("{extent} elements of a `parallel` loop store to one element of `{name}`");
        let diagnostic = Diagnostic::new(Code::RACE, span, message)
            .at(format!("it is the same for every `{index}`"))
            .label(loop_span, "the loop")
            .help(format!(
                "name it by `{index}` too, add with `atomic_add`, or let a `for` loop over `{index}` in the body combine them"
            ));
        return walk.analysis.diagnostics.push(diagnostic);
    }
    neighbours(walk, place, value, &indices, vars, loop_span);
}

/// Reports a value that is made of what another element of the loop stores: `s[[i, j]] = s[[i + 1, j]]`.
fn neighbours(walk: &mut Walk<'_>, place: Place, value: ExprId, stored: &[Poly], vars: &[VarId], loop_span: SpanId) {
    let kernel = walk.kernel;
    let mut loads = Vec::new();
    always_loaded(kernel, value, &mut loads);
    for access in loads {
        if kernel.accesses[access].place != place {
            continue;
        }
        let Some(read) = known(walk, access) else { continue };
        let mut apart = false;
        let meets = stored.iter().zip(&read).all(|(to, from)| {
            let Some(by) = from.minus(to).and_then(|d| d.as_constant()) else { return false };
            if by == 0 {
                return true;
            }
            apart = true;
            // One of the loop's indices, `scale` apart, reaches as far.
            let own: Vec<(i64, i64)> = vars
                .iter()
                .filter_map(|var| {
                    let (sym, extent) = axis(walk, *var)?;
                    Some((to.linear_in(sym)?, extent)).filter(|(scale, _)| *scale != 0)
                })
                .collect();
            matches!(own[..], [(scale, extent)] if by % scale == 0 && (by / scale).abs() < extent)
        });
        if meets && apart {
            let name = kernel.place_name(place);
            let message = format!("an element of a `parallel` loop reads what another one stores to `{name}`");
            let diagnostic = Diagnostic::new(Code::RACE, kernel.accesses[access].span, message)
                .at("the elements are done in no order")
                .label(loop_span, "the loop")
                .help("read into a fragment or another array in a loop of its own before");
            return walk.analysis.diagnostics.push(diagnostic);
        }
    }
}

/// The loads that the evaluation of an expression certainly makes.
fn always_loaded(kernel: &BoundKernel, expr: ExprId, all: &mut Vec<AccessId>) {
    match &kernel.exprs[expr].kind {
        ExprKind::Load(access) => all.push(*access),
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => always_loaded(kernel, *a, all),
        ExprKind::Binary(op, a, b) => {
            always_loaded(kernel, *a, all);
            if !matches!(op, crate::ir::BinaryOp::And | crate::ir::BinaryOp::Or) {
                always_loaded(kernel, *b, all);
            }
        }
        ExprKind::Math(_, args) => args.iter().for_each(|e| always_loaded(kernel, *e, all)),
        ExprKind::Select(a, b, c) => [a, b, c].into_iter().for_each(|e| always_loaded(kernel, *e, all)),
        ExprKind::If(c, ..) => always_loaded(kernel, *c, all),
        _ => {}
    }
}

/// The indices of an access, where nothing in them comes from memory that may differ from element to element.
fn known(walk: &mut Walk<'_>, access: AccessId) -> Option<Vec<Poly>> {
    let kernel = walk.kernel;
    let indices = kernel.accesses[access].indices.clone();
    // What is read again would be met again.
    if indices.iter().any(|e| reads_memory(kernel, *e)) {
        return None;
    }
    let values: Vec<Poly> = indices
        .iter()
        .map(|e| match walk.eval(*e) {
            Value::Int(p) => Some(p),
            _ => None,
        })
        .collect::<Option<_>>()?;
    values.iter().all(|p| !walk.cx.is_data(p)).then_some(values)
}

/// Whether an expression loads anything.
pub(super) fn reads_memory(kernel: &BoundKernel, expr: ExprId) -> bool {
    let mut reads = false;
    parts(kernel, expr, &mut |kind| reads |= matches!(kind, ExprKind::Load(_)));
    reads
}

/// The symbol of one of the loop's indices and its extent, where that is a constant.
fn axis(walk: &Walk<'_>, var: VarId) -> Option<(Sym, i64)> {
    let ranged = walk.ranged.iter().rev().find(|r| r.var == var)?;
    Some((ranged.sym, ranged.hi.as_constant()?.checked_add(1)?))
}

/// Whether a value may be another where a symbol is another.
fn may_depend(walk: &Walk<'_>, poly: &Poly, sym: Sym) -> bool {
    poly.syms().any(|s| {
        s == sym
            || match &walk.cx.symbol(s).definition {
                Definition::Free(_) => false,
                // Which of the cases it is may depend on anything.
                Definition::OneOf(_) => true,
                Definition::Floor(a, b)
                | Definition::Min(a, b)
                | Definition::Max(a, b)
                | Definition::Opaque(_, a, b, _) => may_depend(walk, a, sym) || may_depend(walk, b, sym),
            }
    })
}
