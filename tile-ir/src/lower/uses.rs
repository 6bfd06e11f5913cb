//! What expressions and statements are made of.

use crate::ir::pipeline::{parts, roots};
use crate::ir::*;

pub(super) use crate::ir::pipeline::{each, variables};

/// Every element access of statements, loads in expressions included.
pub(super) fn accesses(kernel: &Kernel, body: &[StmtId]) -> Vec<AccessId> {
    let mut all = Vec::new();
    each(kernel, body, &mut |stmt| {
        if let StmtKind::Store { access, .. } | StmtKind::Atomic { access, .. } | StmtKind::LastArriver { access, .. } =
            kernel.stmts[stmt].kind
        {
            all.push(access);
        }
        for root in roots(kernel, stmt) {
            parts(kernel, root, &mut |kind| {
                if let ExprKind::Load(access) = kind {
                    all.push(*access);
                }
            });
        }
    });
    all
}

/// The variables that an expression reads.
pub(super) fn depends(kernel: &Kernel, expr: ExprId) -> Vec<VarId> {
    let mut all = Vec::new();
    parts(kernel, expr, &mut |kind| {
        if let ExprKind::Var(var) = kind {
            all.push(*var);
        }
    });
    all
}

/// Whether an expression depends on any of `vars`, also through what variables are made of.
pub(super) fn depends_on(kernel: &Kernel, expr: ExprId, vars: &[VarId]) -> bool {
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
        for stmt in kernel.stmts.values() {
            if let StmtKind::Let { var: v, value: Some(value) } | StmtKind::Assign { var: v, value } = stmt.kind
                && v == var
            {
                left.extend(depends(kernel, value));
            }
        }
    }
    false
}
