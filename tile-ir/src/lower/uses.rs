//! What expressions and statements are made of.

use crate::ir::parts::expressions;
use crate::ir::*;

pub(super) use crate::ir::effects::{mentions, touches};
pub(super) use crate::ir::parts::{accesses, statements, variables};

/// What an expression loads.
pub(super) fn loaded(kernel: &BoundKernel, expr: ExprId) -> Vec<AccessId> {
    let load = |kind: &ExprKind| if let ExprKind::Load(access) = kind { Some(*access) } else { None };
    expressions(kernel, expr).into_iter().filter_map(load).collect()
}

/// The variables that an expression reads.
pub(super) fn depends(kernel: &BoundKernel, expr: ExprId) -> Vec<VarId> {
    expressions(kernel, expr).into_iter().filter_map(ExprKind::variable).collect()
}

/// The variable that a statement declares, if it is a `let`.
pub(super) fn declared(kernel: &Kernel, stmt: StmtId) -> Option<VarId> {
    let StmtKind::Let { var, .. } = kernel.stmts[stmt].kind else { return None };
    Some(var)
}

/// The arrays of a scope that statements allocate, in the order of the program.
pub(super) fn allocated(kernel: &BoundKernel, scope: Scope) -> Vec<BufferId> {
    let all = statements(kernel, &kernel.body).into_iter().filter_map(|stmt| kernel.stmts[stmt].kind.allocates());
    all.filter(|array| kernel.buffers[*array].scope == scope).collect()
}

/// Puts statements before another one and behind it, wherever that stands.
pub(super) fn put_beside(kernel: &mut Kernel, at: StmtId, before: &[StmtId], behind: &[StmtId]) {
    let put = |list: &mut Vec<StmtId>| {
        if let Some(place) = list.iter().position(|stmt| *stmt == at) {
            list.splice(place + 1..place + 1, behind.iter().copied());
            list.splice(place..place, before.iter().copied());
        }
    };
    put(&mut kernel.body);
    kernel.stmts.values_mut().flat_map(|stmt| stmt.kind.bodies_mut()).for_each(put);
}

/// The statement that allocates an array.
pub(super) fn allocation(kernel: &Kernel, array: BufferId) -> Option<StmtId> {
    kernel.stmts.keys().find(|stmt| kernel.stmts[*stmt].kind.allocates() == Some(array))
}

/// The value of a constant number.
pub(super) fn constant(kernel: &BoundKernel, expr: ExprId) -> Option<u32> {
    kernel.const_index(expr).and_then(|n| u32::try_from(n).ok())
}

/// Blocks of a cluster along x, y and z, as the author asks for them.
pub(super) fn cluster(kernel: &BoundKernel) -> [u32; 3] {
    std::array::from_fn(|axis| kernel.cluster.get(axis).and_then(|e| constant(kernel, *e)).unwrap_or(1))
}

/// Whether an expression depends on any of `vars`, also through what variables are made of: the values that they are given, the ranges that they go
/// through, and the conditions and bounds that decide whether, or how often, they are given another value.
pub(super) fn depends_on(kernel: &BoundKernel, expr: ExprId, vars: &[VarId]) -> bool {
    let mut seen = Vec::new();
    let mut left = depends(kernel, expr);
    while let Some(var) = left.pop() {
        if vars.contains(&var) {
            return true;
        }
        if seen.contains(&var) {
            continue;
        }
        seen.push(var);
        let sets = |kind: &StmtKind| kind.sets().contains(&var);
        let is_set = kernel.stmts.values().any(|stmt| sets(&stmt.kind));
        for Stmt { kind, .. } in kernel.stmts.values() {
            let mut inside = kind.bodies().into_iter().flat_map(|body| statements(kernel, body));
            let decides = is_set && inside.any(|stmt| sets(&kernel.stmts[stmt].kind));
            if decides || sets(kind) || kind.binds().contains(&var) {
                left.extend(kind.values().into_iter().flat_map(|value| depends(kernel, value)));
            }
        }
    }
    false
}
