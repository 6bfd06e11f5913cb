//! What a pipelined loop loads ahead: the definition that verification, analysis and lowering share.
//!
//! The loads lead the body: statements that only fill arrays, allocated before the loop, from tensors that the kernel
//! does not write. Every iteration fills the same elements, so that an iteration's data may stand in another copy of
//! the array than the data of the iteration before. A per-thread array that is allocated in the body belongs to its
//! iteration: filling it is part of the rest.
//!
//! A per-thread array is loaded ahead into registers, a shared one by asynchronous copies. The arrays that the loads
//! fill are the compiler's to synchronise: between iterations it places the waits and the block barriers, whether tiles
//! or single elements are copied.

use super::constant::{is_constant, value};
use super::effects::{Effect, effects};
use super::parts::each;
use super::{
    Access, BufferId, ExprId, ExprKind, Kernel, LoopKind, ParamKind, Place, Scope, SpanId, StmtId, StmtKind, TileOp,
    TileRef, VarId, VarKind,
};
use std::collections::BTreeMap;

/// The parts of a pipelined loop's body.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// How many leading statements are loads and the index variables of loads; 0 if there are no loads.
    pub(crate) loads: usize,
    /// Up to where statements only allocate and fill the iteration's own arrays, or name indices.
    pub(crate) own: usize,
    /// The arrays that the loads fill.
    pub(crate) buffers: Vec<BufferId>,
    /// A fill that would be a load, were it of the same elements in every iteration.
    pub(crate) moving: Option<SpanId>,
}

impl Split {
    /// The shared arrays that the loads fill.
    pub(crate) fn shared<'s>(&'s self, kernel: &'s Kernel) -> impl Iterator<Item = BufferId> + 's {
        self.buffers.iter().copied().filter(|b| kernel.buffers[*b].scope == Scope::Shared)
    }
}

/// A pipelined loop that loads shared arrays ahead.
#[derive(Debug)]
pub(crate) struct SharedLoads {
    /// The loop.
    pub(crate) stmt: StmtId,
    /// How many iterations' data is held at once.
    pub(crate) stages: u32,
    /// The arrays, each held that many times.
    pub(crate) buffers: Vec<BufferId>,
    /// How many statements of the body lead as its loads.
    pub(crate) leading: usize,
    /// The statements that load, nested ones included.
    pub(crate) loads: Vec<StmtId>,
}

/// Every pipelined loop of a bound kernel that loads shared arrays ahead.
pub(crate) fn shared_loads(kernel: &Kernel) -> Vec<SharedLoads> {
    let mut all = Vec::new();
    each(kernel, &kernel.body, &mut |stmt| {
        let StmtKind::For { var, kind: LoopKind::Pipelined { stages, .. }, body, .. } = &kernel.stmts[stmt].kind else {
            return;
        };
        let split = split(kernel, *var, body);
        let buffers: Vec<BufferId> = split.shared(kernel).collect();
        if buffers.is_empty() {
            return;
        }
        let stages = kernel.const_index(*stages).and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1);
        let mut loads = Vec::new();
        each(kernel, &body[..split.loads], &mut |s| loads.push(s));
        all.push(SharedLoads { stmt, stages, buffers, leading: split.loads, loads });
    });
    all
}

/// How many copies of each shared array a bound kernel holds; those that are absent are held once.
pub(crate) fn stages(kernel: &Kernel) -> BTreeMap<BufferId, u32> {
    let loops = shared_loads(kernel);
    loops.iter().flat_map(|l| l.buffers.iter().map(|b| (*b, l.stages))).collect()
}

/// Splits the body of a pipelined loop over `index`.
pub(crate) fn split(kernel: &Kernel, index: VarId, body: &[StmtId]) -> Split {
    let mut allocated = Vec::new();
    each(kernel, body, &mut |stmt| {
        if let StmtKind::Alloc { buffer } = kernel.stmts[stmt].kind {
            allocated.push(buffer);
        }
    });
    let mut result = Split::default();
    let mut loads = Leading::shared(kernel, index, &allocated);
    for (at, &stmt) in body.iter().enumerate() {
        match loads.statement(stmt) {
            Some(true) => result.loads = at + 1,
            Some(false) => {}
            None => break,
        }
    }
    result.moving = loads.moving;
    result.buffers = loads.filled;
    result.buffers.sort_unstable();
    result.buffers.dedup();
    result.own = result.loads;
    let mut own = Leading::new(kernel, index, &result.buffers);
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

/// Recognises statements that only fill arrays from global memory.
pub(crate) struct Leading<'k> {
    kernel: &'k Kernel,
    /// The index of the pipelined loop.
    index: VarId,
    /// Whether shared arrays count as well as per-thread ones.
    shared: bool,
    /// Arrays that do not count.
    not: &'k [BufferId],
    filled: Vec<BufferId>,
    moving: Option<SpanId>,
    /// Indices of the loops around, within the statement.
    inner: Vec<VarId>,
}

impl<'k> Leading<'k> {
    pub(crate) fn new(kernel: &'k Kernel, index: VarId, not: &'k [BufferId]) -> Self {
        Leading { kernel, index, shared: false, not, filled: Vec::new(), moving: None, inner: Vec::new() }
    }

    /// Recognises statements that fill shared arrays as well as per-thread ones.
    pub(crate) fn shared(kernel: &'k Kernel, index: VarId, not: &'k [BufferId]) -> Self {
        Leading { shared: true, ..Leading::new(kernel, index, not) }
    }

    /// Whether the statement is a load; `Some(false)` if it only names an index; `None` if it is anything else.
    pub(crate) fn statement(&mut self, stmt: StmtId) -> Option<bool> {
        let kernel = self.kernel;
        let kind = &kernel.stmts[stmt].kind;
        let span = kernel.stmts[stmt].span;
        if let StmtKind::Let { var, value: Some(value) } = kind {
            return (kernel.vars[*var].kind == VarKind::Let && is_address(kernel, *value)).then_some(false);
        }
        if let StmtKind::Store { access, value } = kind {
            return self.store(&kernel.accesses[*access], *value, span);
        }
        if let StmtKind::For { var, start, end, step, kind, body } = kind {
            let fixed = [start, end, step].into_iter().all(|e| is_constant(kernel, *e));
            (fixed && !matches!(kind, LoopKind::Pipelined { .. })).then_some(())?;
            return self.all(&[*var], body);
        }
        if !self.shared {
            return None;
        }
        if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = kind {
            return self.copy(src, dst, span);
        }
        if let StmtKind::Parallel { vars, extents, body } = kind {
            extents.iter().all(|e| is_constant(kernel, *e)).then_some(())?;
            return self.all(vars, body);
        }
        let StmtKind::If { cond, then, otherwise } = kind else { return None };
        // A condition that differs between iterations would leave some threads without their load.
        self.is_steady(*cond).then_some(())?;
        let (then, otherwise) = (self.all(&[], then)?, self.all(&[], otherwise)?);
        Some(then | otherwise)
    }

    fn store(&mut self, to: &Access, value: ExprId, span: SpanId) -> Option<bool> {
        let kernel = self.kernel;
        let Place::Buffer(buffer) = to.place else { return None };
        if self.not.contains(&buffer) {
            return None;
        }
        let steady = match kernel.buffers[buffer].scope {
            Scope::Local if is_global_load(kernel, value) => to.indices.iter().all(|e| self.is_fixed(*e)),
            Scope::Shared if self.shared && is_global_load(kernel, unconverted(kernel, value)) => {
                to.indices.iter().all(|e| self.is_steady(*e))
            }
            Scope::Local | Scope::Shared | Scope::Fragment => return None,
        };
        self.fill(buffer, steady, span)
    }

    fn copy(&mut self, src: &TileRef, dst: &TileRef, span: SpanId) -> Option<bool> {
        let kernel = self.kernel;
        let (Place::Tensor(param), Place::Buffer(buffer)) = (src.place, dst.place) else { return None };
        let shared = kernel.buffers[buffer].scope == Scope::Shared && !self.not.contains(&buffer);
        let known = src.start.iter().chain(&src.extents).chain(&dst.extents).all(|e| is_address(kernel, *e));
        if !shared || !known || !(is_read_only(kernel, param) || self.is_steady_tensor(param)) {
            return None;
        }
        let steady = dst.start.iter().all(|e| self.is_steady(*e));
        self.fill(buffer, steady, span)
    }

    fn fill(&mut self, buffer: BufferId, steady: bool, span: SpanId) -> Option<bool> {
        if !steady {
            self.moving.get_or_insert(span);
            return None;
        }
        self.filled.push(buffer);
        Some(true)
    }

    fn all(&mut self, vars: &[VarId], body: &[StmtId]) -> Option<bool> {
        self.inner.extend(vars);
        let found = body.iter().map(|s| self.statement(*s)).try_fold(false, |any, one| Some(any | one?));
        self.inner.truncate(self.inner.len() - vars.len());
        found
    }

    /// Whether the loop leaves a tensor as it is, so that tiles of it may be copied some iterations ahead.
    fn is_steady_tensor(&self, param: super::ParamId) -> bool {
        let kernel = self.kernel;
        let of_index = kernel.stmts.values().find_map(|stmt| {
            let StmtKind::For { var, body, .. } = &stmt.kind else { return None };
            (*var == self.index).then_some(body)
        });
        let Some(body) = of_index else { return false };
        let mut writes = false;
        each(kernel, body, &mut |stmt| {
            writes |= effects(kernel, stmt).into_iter().any(|effect| match effect {
                Effect::Write(place) | Effect::Atomic(place) => place == Place::Tensor(param),
                Effect::Read(_) | Effect::Cooperative(_) | Effect::BlockCollective | Effect::WarpCollective => false,
                Effect::BlockBarrier | Effect::WarpBarrier => false,
            });
        });
        !writes
    }

    /// Whether an index is made of constants and of the statement's own loops: the position in a per-thread array.
    fn is_fixed(&self, expr: ExprId) -> bool {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(var) => self.inner.contains(var) || value(kernel, *var).is_some_and(|v| self.is_fixed(v)),
            ExprKind::Binary(_, a, b) => self.is_fixed(*a) && self.is_fixed(*b),
            _ => is_constant(kernel, expr),
        }
    }

    /// Whether a thread finds the same value in every iteration.
    fn is_steady(&self, expr: ExprId) -> bool {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Load(_) => false,
            ExprKind::Var(var) => {
                let constant = kernel.vars[*var].kind != VarKind::Mut && *var != self.index;
                constant && value(kernel, *var).is_none_or(|v| self.is_steady(v))
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.is_steady(*a),
            ExprKind::Binary(_, a, b) => self.is_steady(*a) && self.is_steady(*b),
            ExprKind::Math(_, args) => args.iter().all(|e| self.is_steady(*e)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().all(|e| self.is_steady(*e)),
            _ => true,
        }
    }
}

/// The value without the conversions around it: the store of a converted element is a load that cannot be asynchronous.
pub(crate) fn unconverted(kernel: &Kernel, expr: ExprId) -> ExprId {
    match kernel.exprs[expr].kind {
        ExprKind::Cast(_, inner) => unconverted(kernel, inner),
        _ => expr,
    }
}

/// A load, from a tensor that the kernel does not write, at an address that is known before the iteration.
pub(crate) fn is_global_load(kernel: &Kernel, expr: ExprId) -> bool {
    let ExprKind::Load(access) = kernel.exprs[expr].kind else { return false };
    let Access { place: Place::Tensor(param), indices, .. } = &kernel.accesses[access] else { return false };
    is_read_only(kernel, *param) && indices.iter().all(|e| is_address(kernel, *e))
}

/// Whether a tensor is one that the kernel never writes.
pub(crate) fn is_read_only(kernel: &Kernel, param: super::ParamId) -> bool {
    matches!(kernel.params[param].kind, ParamKind::Tensor { mutable: false, .. })
}

/// Made of constants, dims, scalars, indices, what is named once, and elements of tensors that the kernel does not write, at
/// such addresses themselves (a table of pages): nothing that an iteration computes.
pub(crate) fn is_address(kernel: &Kernel, expr: ExprId) -> bool {
    match &kernel.exprs[expr].kind {
        ExprKind::Load(_) => is_global_load(kernel, expr),
        ExprKind::Var(var) => kernel.vars[*var].kind != VarKind::Mut,
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => is_address(kernel, *a),
        ExprKind::Binary(_, a, b) => is_address(kernel, *a) && is_address(kernel, *b),
        ExprKind::Math(_, args) => args.iter().all(|e| is_address(kernel, *e)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().all(|e| is_address(kernel, *e)),
        _ => true,
    }
}
