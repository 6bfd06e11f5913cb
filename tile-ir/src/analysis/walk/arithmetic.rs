//! Integer operations on polynomials, exactly or not at all: a result that may wrap, or that no polynomial is, is a
//! symbol of its own.

use super::{Value, Walk};
use crate::analysis::uniform::dtype_range;
use crate::constraint::{Context, Definition, Poly};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BinaryOp, DtypeRef, ExprId, Type};

impl<'k> Walk<'k> {
    pub(super) fn check_divisor(&mut self, op: BinaryOp, divisor: ExprId, value: &Poly) {
        if matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv) && value.as_constant() == Some(0) {
            self.analysis.diagnostics.push(
                Diagnostic::new(Code::INDEX_OVERFLOW, self.kernel.exprs[divisor].span, "division by zero")
                    .at("this is 0"),
            );
        }
    }

    pub(super) fn arithmetic(&mut self, op: BinaryOp, a: &Poly, b: &Poly, ty: Type) -> Value {
        let nonneg = |cx: &Context, p: &Poly| cx.proves(p);
        let shift = b.as_constant().filter(|s| (0..31).contains(s)).map(|s| Poly::constant(1 << s));
        let result = match op {
            BinaryOp::Add => a.plus(b),
            BinaryOp::Sub => a.minus(b),
            BinaryOp::Mul => a.times(b),
            BinaryOp::Min => Some(self.cx.min(a, b)),
            BinaryOp::Max => Some(self.cx.max(a, b)),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv => {
                let positive = b.plus_constant(-1).is_some_and(|p| nonneg(&self.cx, &p));
                if !positive || !nonneg(&self.cx, a) {
                    None
                } else if op == BinaryOp::CeilDiv {
                    let top = a.plus(b).and_then(|p| p.plus_constant(-1));
                    top.and_then(|top| self.cx.floor_div(&top, b))
                } else if op == BinaryOp::Div {
                    self.cx.floor_div(a, b)
                } else {
                    self.cx.floor_rem(a, b)
                }
            }
            BinaryOp::Shl => shift.and_then(|s| a.times(&s)),
            BinaryOp::Shr => shift.filter(|_| nonneg(&self.cx, a)).and_then(|s| self.cx.floor_div(a, &s)),
            BinaryOp::BitAnd => match b.as_constant() {
                Some(mask) if mask >= 0 && ((mask + 1) as u64).is_power_of_two() && nonneg(&self.cx, a) => {
                    self.cx.floor_rem(a, &Poly::constant(mask + 1))
                }
                _ => None,
            },
            _ => None,
        };
        match result {
            Some(result) => self.fitted(ty, result, op, a, b),
            None => Value::Int(self.opaque(ty, op, a, b)),
        }
    }

    /// A result, or what wrapping may make of it. Indices do not wrap: `ranges` sees to it.
    pub(super) fn fitted(&mut self, ty: Type, result: Poly, op: BinaryOp, a: &Poly, b: &Poly) -> Value {
        let fits = wraps_in(ty).is_none_or(|(least, most)| {
            let (lo, hi) = self.cx.range(&result);
            lo.is_some_and(|lo| lo >= least) && hi.is_some_and(|hi| hi <= most)
        });
        Value::Int(if fits { result } else { self.opaque(ty, op, a, b) })
    }

    fn opaque(&mut self, ty: Type, op: BinaryOp, a: &Poly, b: &Poly) -> Poly {
        Poly::sym(self.cx.define(Definition::Opaque(op, a.clone(), b.clone(), wraps_in(ty))))
    }

    /// An operation on indices: its value, how it is computed, and the ranges that its operands must have.
    pub(super) fn index_operation(
        &mut self,
        expr: ExprId,
        op: BinaryOp,
        a: &Poly,
        (right, b): (ExprId, &Poly),
    ) -> Value {
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            self.check_shift(right, b);
        }
        let value = self.arithmetic(op, a, b, Type::Index);
        if let Value::Int(value) = &value {
            self.hold(expr, op, [a, b], value);
        }
        value
    }
}

/// The range in which arithmetic of a type wraps; none for indices.
fn wraps_in(ty: Type) -> Option<(i64, i64)> {
    match ty {
        Type::Value(DtypeRef::Is(dtype)) => dtype_range(dtype),
        Type::Index | Type::Value(DtypeRef::Param(_)) => None,
    }
}
