//! What is constant once an instance is bound.

use super::{ExprId, ExprKind, Kernel, Type, VarId, VarKind};

/// Whether every instance, with the values of the specialised dims, makes an expression constant.
pub(crate) fn is_constant(kernel: &Kernel, expr: ExprId) -> bool {
    match &kernel.exprs[expr].kind {
        ExprKind::Dim(dim) => kernel.specialized().contains(dim),
        ExprKind::Load(_) | ExprKind::Scalar(_) | ExprKind::Float(_) => false,
        ExprKind::Var(var) => value(kernel, *var).is_some_and(|v| is_constant(kernel, v)),
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => is_constant(kernel, *a),
        ExprKind::Binary(_, a, b) => is_constant(kernel, *a) && is_constant(kernel, *b),
        ExprKind::Math(_, args) => args.iter().all(|e| is_constant(kernel, *e)),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => [a, b, c].into_iter().all(|e| is_constant(kernel, *e)),
        _ => true,
    }
}

/// What an immutable variable of a type that constants have stands for.
pub(crate) fn value(kernel: &Kernel, var: VarId) -> Option<ExprId> {
    if kernel.vars[var].kind != VarKind::Let || !matches!(kernel.vars[var].ty, Type::Index | Type::BOOL) {
        return None;
    }
    kernel.declared_as(var)
}
