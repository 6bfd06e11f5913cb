//! The integers of all threads at once, and the expressions over them.

use super::Run;
use crate::ir::{DtypeRef, ExprId, ExprKind, Type, UnaryOp};
use crate::lowered::fold;

/// One value a thread, or one for all of them.
#[derive(Clone, Debug)]
pub(super) enum Values {
    Same(i64),
    Each(Vec<i64>),
}

impl Values {
    pub(super) fn at(&self, thread: usize) -> i64 {
        match self {
            Values::Same(v) => *v,
            Values::Each(all) => all.get(thread).copied().unwrap_or(UNKNOWN),
        }
    }
}

/// A value that is not known.
pub(super) const UNKNOWN: i64 = i64::MIN;

impl Run<'_> {
    /// The value of an expression, unknown where it comes from memory or from a parameter.
    pub(super) fn eval(&mut self, expr: ExprId) -> Values {
        let kernel = self.kernel;
        let e = &kernel.exprs[expr];
        match &e.kind {
            ExprKind::Int(v) => Values::Same(*v),
            ExprKind::Bool(v) => Values::Same(i64::from(*v)),
            ExprKind::Dim(d) => Values::Same(self.dims.get(d.as_u32() as usize).copied().unwrap_or(UNKNOWN)),
            // A parameter may be anything: what depends on it is the launch's business.
            ExprKind::Scalar(_) => Values::Same(UNKNOWN),
            ExprKind::Var(var) => self.vars[*var].clone().unwrap_or(Values::Same(UNKNOWN)),
            ExprKind::Unary(op, a) => {
                let (a, ty) = (self.eval(*a), e.ty);
                self.map(&a, |v| match op {
                    UnaryOp::Neg => v.checked_neg().filter(|v| fits(ty, *v)),
                    UnaryOp::Not if ty == Type::BOOL => Some(1 - v),
                    UnaryOp::Not => None,
                })
            }
            ExprKind::Binary(op, a, b) => {
                let (left, right, op, ty) = (self.eval(*a), self.eval(*b), *op, e.ty);
                let is_integer = |e: ExprId| match kernel.exprs[e].ty {
                    Type::Index => true,
                    Type::Value(DtypeRef::Is(d)) => d.range().is_some(),
                    Type::Value(_) => false,
                };
                if !is_integer(*a) {
                    return Values::Same(UNKNOWN);
                }
                let f = move |a: i64, b: i64| -> i64 {
                    use crate::ir::BinaryOp::{And, Or};
                    match (op, a, b) {
                        (And, 0, _) | (And, _, 0) => 0,
                        (Or, 1, _) | (Or, _, 1) => 1,
                        (_, UNKNOWN, _) | (_, _, UNKNOWN) => UNKNOWN,
                        _ => fold(op, a, b).filter(|v| fits(ty, *v)).unwrap_or(UNKNOWN),
                    }
                };
                match (&left, &right) {
                    (Values::Same(a), Values::Same(b)) => Values::Same(f(*a, *b)),
                    _ => {
                        let count = self.threads.len();
                        self.work += count;
                        Values::Each((0..count).map(|t| f(left.at(t), right.at(t))).collect())
                    }
                }
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                let (c, a, b) = (self.eval(*c), self.eval(*a), self.eval(*b));
                let count = self.threads.len();
                self.work += count;
                let pick = |t: usize| match c.at(t) {
                    1 => a.at(t),
                    0 => b.at(t),
                    _ => UNKNOWN,
                };
                Values::Each((0..count).map(pick).collect())
            }
            ExprKind::Cast(ty, a) => {
                let (a, ty) = (self.eval(*a), *ty);
                self.map(&a, |v| Some(v).filter(|v| fits(ty, *v)))
            }
            _ => Values::Same(UNKNOWN),
        }
    }

    fn map(&mut self, values: &Values, f: impl Fn(i64) -> Option<i64>) -> Values {
        let f = |v: i64| if v == UNKNOWN { UNKNOWN } else { f(v).unwrap_or(UNKNOWN) };
        match values {
            Values::Same(v) => Values::Same(f(*v)),
            Values::Each(all) => {
                self.work += all.len();
                Values::Each(all.iter().map(|v| f(*v)).collect())
            }
        }
    }
}

/// Whether a value needs no wrapping or rounding in its type.
fn fits(ty: Type, value: i64) -> bool {
    match ty {
        Type::Index => (-i64::from(i32::MAX)..=i64::from(i32::MAX)).contains(&value),
        Type::Value(DtypeRef::Is(dtype)) => dtype.range().is_some_and(|(lo, hi)| (lo..=hi).contains(&value)),
        Type::Value(DtypeRef::Param(_)) => false,
    }
}
