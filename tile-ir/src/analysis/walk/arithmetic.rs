//! Integer operations on polynomials, exactly or not at all: a result that may wrap, or that no polynomial is, is a
//! symbol of its own.

use super::{Value, Walk};
use crate::constraint::{Context, Definition, Interval, Poly};
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
        let shift = b.as_constant().filter(|s| (0..32).contains(s)).map(|s| Poly::constant(1 << s));
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
            BinaryOp::BitAnd => {
                let low_bits =
                    |mask: &Poly| mask.as_constant().filter(|m| *m >= 0 && m.count_ones() == m.trailing_ones());
                let masked = match (low_bits(a), low_bits(b)) {
                    (_, Some(mask)) => Some((a, mask)),
                    (Some(mask), None) => Some((b, mask)),
                    (None, None) => None,
                };
                let masked = masked.filter(|(value, _)| nonneg(&self.cx, value));
                masked.and_then(|(value, mask)| self.cx.floor_rem(value, &Poly::constant(mask.checked_add(1)?)))
            }
            _ => None,
        };
        self.fitted(ty, result, op, a, b)
    }

    /// The result of an operation: exact, or a symbol of its own where it has no closed form, or where it may wrap by what
    /// is known here. Indices do not wrap: `ranges` sees to it.
    pub(super) fn fitted(&mut self, ty: Type, exact: Option<Poly>, op: BinaryOp, a: &Poly, b: &Poly) -> Value {
        let (left, right) = (self.interval(a), self.interval(b));
        let (within, exact) = match wraps_in(ty) {
            None => (Some(Interval::apply(op, left, right)), exact),
            Some(all) => {
                let within = Interval::apply_within(op, left, right, Interval::of_type(all));
                (within, exact.filter(|exact| within.is_some() || self.stays(exact, all)))
            }
        };
        let value = match exact {
            Some(exact) => exact,
            None => self.opaque(Definition::Opaque(op, a.clone(), b.clone(), wraps_in(ty)), within),
        };
        if let (Some(within), true) = (within, ty != Type::Index) {
            // The parts of `v - 4 * (v / 4)` say less: each may be any number.
            self.learn(&value, within);
        }
        Value::Int(value)
    }

    /// A symbol for an operation, and where it is here: what is known of its operands may be more than their bounds say.
    fn opaque(&mut self, definition: Definition, within: Option<Interval>) -> Poly {
        let value = Poly::sym(self.cx.define(definition));
        let (least, most) = within.map_or((None, None), Interval::bounds);
        let above = least.and_then(|least| value.minus(&Poly::constant(least)));
        let below = most.and_then(|most| Poly::constant(most).minus(&value));
        for fact in [above, below].into_iter().flatten() {
            if !self.cx.proves(&fact) {
                self.cx.assume_nonneg(fact);
            }
        }
        value
    }

    /// Whether a value is one of a type's, by what is known here.
    pub(super) fn stays(&self, value: &Poly, all: (i64, i64)) -> bool {
        let (least, most) = (Poly::constant(all.0), Poly::constant(all.1));
        let proven = |difference: Option<Poly>| difference.is_some_and(|p| self.cx.proves(&p));
        self.interval(value).fits(Interval::of_type(all)) || proven(value.minus(&least)) && proven(most.minus(value))
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
        Type::Value(DtypeRef::Is(dtype)) => dtype.range(),
        Type::Index | Type::Value(DtypeRef::Param(_)) => None,
    }
}
