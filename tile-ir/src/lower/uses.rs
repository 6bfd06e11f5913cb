//! What expressions and statements are made of.

use crate::ir::parts::parts;
use crate::ir::*;

pub(super) use crate::ir::parts::{accesses, each, variables};

/// The variables that an expression reads.
pub(super) fn depends(kernel: &BoundKernel, expr: ExprId) -> Vec<VarId> {
    let mut all = Vec::new();
    parts(kernel, expr, &mut |kind| {
        if let ExprKind::Var(var) = kind {
            all.push(*var);
        }
    });
    all
}

/// Whether an expression depends on any of `vars`, also through what variables are made of.
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
