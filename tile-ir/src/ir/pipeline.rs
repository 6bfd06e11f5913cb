//! What a pipelined loop loads ahead: the definition that verification, analysis and lowering share.
//!
//! The loads lead the body: statements that only fill arrays, allocated before the loop, from tensors that the kernel
//! does not write. Every iteration fills the same elements, however often the loop is entered, so that an iteration's
//! data may stand in another copy of the array than the data of the iteration before. A per-thread array that is
//! allocated in the body belongs to its iteration: filling it is part of the rest.
//!
//! A per-thread array is loaded ahead into registers, a shared one by asynchronous copies. The arrays that the loads
//! fill are the compiler's to synchronise: between iterations it places the waits and the block barriers, whether tiles
//! or single elements are copied.

use super::constant::{is_constant, value};
use super::effects::{Effect, effects};
use super::parts::{StmtPart, each};
use super::{
    Access, AccessMode, BufferId, ExprId, ExprKind, Kernel, LoopKind, ParamKind, Place, Scope, SpanId, StmtId,
    StmtKind, TileOp, TileRef, VarId, VarKind,
};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

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
    pub(crate) moving: Option<Moving>,
}

/// A fill that is no load, because what it fills is not the same in every iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    /// The fill, or the conditional that it stands in.
    pub(crate) span: SpanId,
    /// What differs between iterations.
    pub(crate) by: By,
    /// The variable that makes the difference, where one does.
    pub(crate) var: Option<VarId>,
}

/// What differs between the iterations of a [`Moving`] fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The elements that it fills.
    Place,
    /// Whether it fills any.
    Condition,
}

impl Split {
    /// Whether the loads of `body` fill all of an array in every iteration: one of them is a copy into the whole of it,
    /// under no condition.
    pub(crate) fn fills_whole(&self, kernel: &Kernel, body: &[StmtId], buffer: BufferId) -> bool {
        body[..self.loads].iter().any(|stmt| {
            matches!(&kernel.stmts[*stmt].kind, StmtKind::Tile(TileOp::Copy { dst, .. })
                if dst.place == Place::Buffer(buffer) && dst.start.is_empty())
        })
    }

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

/// How many copies of each shared array a bound kernel holds, as many as the loop of the most stages that loads it needs;
/// those that are absent are held once.
pub(crate) fn stages(kernel: &Kernel) -> BTreeMap<BufferId, u32> {
    let mut most = BTreeMap::new();
    for of in shared_loads(kernel) {
        for buffer in of.buffers {
            let stages = most.entry(buffer).or_insert(of.stages);
            *stages = of.stages.max(*stages);
        }
    }
    most
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
    moving: Option<Moving>,
    /// Indices of the loops around, within the statement.
    inner: Vec<VarId>,
    /// The variables that are bound in the outermost loop that the pipelined one stands in, or is: another iteration, or
    /// another entry of the loop, may find another value. Looked up when it is first asked for.
    rebound: OnceCell<BTreeSet<VarId>>,
    /// What was found out about variables whose values are known.
    known: BTreeMap<VarId, Steady>,
}

impl<'k> Leading<'k> {
    pub(crate) fn new(kernel: &'k Kernel, index: VarId, not: &'k [BufferId]) -> Self {
        Leading {
            kernel,
            index,
            shared: false,
            not,
            filled: Vec::new(),
            moving: None,
            inner: Vec::new(),
            rebound: OnceCell::new(),
            known: BTreeMap::new(),
        }
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
            return (kernel.vars[*var].kind == VarKind::Let && is_index(kernel, self.index, *value)).then_some(false);
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
        let steady = self.steady(*cond);
        let (then, otherwise) = (self.all(&[], then)?, self.all(&[], otherwise)?);
        // A condition that differs between iterations would leave some of them with another one's data.
        if let (Err(var), true) = (steady, then | otherwise) {
            self.moving.get_or_insert(Moving { span, by: By::Condition, var });
            return None;
        }
        Some(then | otherwise)
    }

    fn store(&mut self, to: &Access, value: ExprId, span: SpanId) -> Option<bool> {
        let kernel = self.kernel;
        let Place::Buffer(buffer) = to.place else { return None };
        if self.not.contains(&buffer) {
            return None;
        }
        let steady = match kernel.buffers[buffer].scope {
            Scope::Local if is_global_load(kernel, value) => match to.indices.iter().find(|e| !self.is_fixed(**e)) {
                Some(moving) => Err(self.steady(*moving).err().flatten()),
                None => Ok(()),
            },
            Scope::Shared if self.shared && is_global_load(kernel, unconverted(kernel, value)) => {
                self.all_steady(&to.indices)
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
        let steady = self.all_steady(&dst.start).and_then(|()| self.all_steady(&dst.extents));
        self.fill(buffer, steady, span)
    }

    fn fill(&mut self, buffer: BufferId, steady: Steady, span: SpanId) -> Option<bool> {
        if let Err(var) = steady {
            self.moving.get_or_insert(Moving { span, by: By::Place, var });
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

    fn all_steady(&mut self, exprs: &[ExprId]) -> Steady {
        exprs.iter().try_for_each(|e| self.steady(*e))
    }

    /// Whether a thread finds the same value in every iteration, however often the loop is entered.
    fn steady(&mut self, expr: ExprId) -> Steady {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Load(_) => Err(None),
            ExprKind::Var(var) => self.steady_variable(*var),
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.steady(*a),
            ExprKind::Binary(_, a, b) => self.all_steady(&[*a, *b]),
            ExprKind::Math(_, args) => self.all_steady(args),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => self.all_steady(&[*a, *b, *c]),
            _ => Ok(()),
        }
    }

    fn steady_variable(&mut self, var: VarId) -> Steady {
        if self.inner.contains(&var) {
            return Ok(());
        }
        if let Some(known) = self.known.get(&var) {
            return *known;
        }
        let kernel = self.kernel;
        let steady = match kernel.vars[var].kind {
            VarKind::Mut => Err(Some(var)),
            _ if !self.rebinds(var) => Ok(()),
            _ => match kernel.declared_as(var) {
                Some(value) => self.steady(value).map_err(|by| by.or(Some(var))),
                None => Err(Some(var)),
            },
        };
        self.known.insert(var, steady);
        steady
    }

    /// Whether the loop, or one around it, binds a variable.
    fn rebinds(&self, var: VarId) -> bool {
        let bound = self.rebound.get_or_init(|| {
            let kernel = self.kernel;
            let mut bound = BTreeSet::new();
            each(kernel, outermost(kernel, self.index).as_slice(), &mut |stmt| {
                kernel.stmts[stmt].kind.each_part(&mut |part| {
                    if let StmtPart::Binds(var) = part {
                        bound.insert(var);
                    }
                });
            });
            bound
        });
        bound.contains(&var)
    }
}

/// Whether a value is the same in every iteration; where it is not, the variable that makes the difference, if one does.
type Steady = Result<(), Option<VarId>>;

/// The outermost loop around the one over `index`, which may be that one itself.
fn outermost(kernel: &Kernel, index: VarId) -> Option<StmtId> {
    let stands_in = |around: StmtId| {
        let mut found = false;
        each(kernel, &[around], &mut |s| {
            found |= matches!(&kernel.stmts[s].kind, StmtKind::For { var, .. } if *var == index);
        });
        found
    };
    let mut body = kernel.body.as_slice();
    loop {
        let around = body.iter().copied().find(|stmt| stands_in(*stmt))?;
        let kind = &kernel.stmts[around].kind;
        if matches!(kind, StmtKind::For { .. } | StmtKind::Persistent { .. }) {
            return Some(around);
        }
        body = kind.bodies().into_iter().find(|b| b.iter().any(|stmt| stands_in(*stmt)))?;
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

/// What a variable among the loads of a pipelined loop over `index` may be: an address, which may be made of elements of shared arrays, too,
/// that nothing writes from the beginning of the outermost loop around to its end: a table of pages that the block has read.
pub(crate) fn is_index(kernel: &Kernel, index: VarId, expr: ExprId) -> bool {
    let mut read = BTreeSet::new();
    if !is_known(kernel, expr, &mut |buffer| {
        read.insert(buffer);
        kernel.buffers[buffer].scope == Scope::Shared
    }) {
        return false;
    }
    let mut written = false;
    if !read.is_empty() {
        // The parts, not the effects: those of a pipelined loop ask what its loads are.
        let mut touch = |place: Place, mode: AccessMode| {
            written |= mode != AccessMode::Read && matches!(place, Place::Buffer(buffer) if read.contains(&buffer));
        };
        each(kernel, outermost(kernel, index).as_slice(), &mut |stmt| {
            kernel.stmts[stmt].kind.each_part(&mut |part| match part {
                StmtPart::Element(access, mode) => touch(kernel.accesses[access].place, mode),
                StmtPart::Tile(tile, mode) => touch(tile.place, mode),
                StmtPart::Array(buffer, mode) => touch(Place::Buffer(buffer), mode),
                StmtPart::Value(_) | StmtPart::Constant(_) | StmtPart::Body(_) | StmtPart::Report => {}
                StmtPart::Binds(_) | StmtPart::Sets(_) => {}
                StmtPart::BlockCollective | StmtPart::WarpCollective => {}
                StmtPart::BlockBarrier | StmtPart::WarpBarrier => {}
            });
        });
    }
    !written
}

/// Made of constants, dims, scalars, indices, what is named once, and elements of tensors that the kernel does not write, at
/// such addresses themselves (a table of pages): nothing that an iteration computes.
pub(crate) fn is_address(kernel: &Kernel, expr: ExprId) -> bool {
    is_known(kernel, expr, &mut |_| false)
}

/// [`is_address`], where elements of the arrays that `reads` says yes to are known, too.
fn is_known(kernel: &Kernel, expr: ExprId, reads: &mut dyn FnMut(BufferId) -> bool) -> bool {
    match &kernel.exprs[expr].kind {
        ExprKind::Load(access) => {
            let Access { place, indices, .. } = &kernel.accesses[*access];
            let is_known_place = match place {
                Place::Tensor(param) => is_read_only(kernel, *param),
                Place::Buffer(buffer) => reads(*buffer),
            };
            is_known_place && indices.iter().all(|e| is_known(kernel, *e, reads))
        }
        ExprKind::Var(var) => kernel.vars[*var].kind != VarKind::Mut,
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => is_known(kernel, *a, reads),
        ExprKind::Binary(_, a, b) => is_known(kernel, *a, reads) && is_known(kernel, *b, reads),
        ExprKind::Math(_, args) => args.iter().all(|e| is_known(kernel, *e, reads)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().all(|e| is_known(kernel, *e, reads)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parsed;

    #[test]
    fn an_array_has_the_slots_of_its_deepest_loop() {
        for depths in [[4, 2], [2, 4]] {
            let [first, second] = depths.map(|stages| {
                format!(
                    "for k in pipelined(0..ceil_div(K, 32), {stages}) {{
                        copy(x.at([b * 32, k * 32]), &mut s);
                        gemm(&s, s.t(), &mut acc);
                    }}"
                )
            });
            let kernel = parsed(&format!(
                "kernel k(x: &Tensor<f16, (N, K)>) {{
                    let [b] = blocks([ceil_div(N, 32)]);
                    let [t] = threads([32]);
                    let mut s = alloc_shared::<f16>([32, 32]);
                    let mut acc = alloc_fragment::<f32>([32, 32]);
                    fill(&mut acc, 0.0f32);
                    {first}
                    {second}
                }}"
            ));
            assert_eq!(stages(&kernel).into_values().collect::<Vec<_>>(), [4], "{depths:?}");
        }
    }
}
