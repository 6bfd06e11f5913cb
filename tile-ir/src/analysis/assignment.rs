//! What polynomials and conditions are worth where some symbols have values.

use crate::constraint::{Cond, Context, Definition, Poly, Sym};
use crate::lowered::fold;

/// Values of symbols. Those of polynomials and conditions follow.
///
/// Many definitions may use one symbol, so [`Assignment::symbol`] must compute what a definition gives only once:
/// otherwise a chain of definitions that use the one before twice takes twice as long with each.
pub(super) trait Assignment {
    /// A symbol's value, if it has one: given, or from its definition ([`Assignment::defined`]).
    fn symbol(&self, cx: &Context, sym: Sym) -> Option<i64>;

    /// A polynomial's value, if every symbol has one.
    fn eval(&self, cx: &Context, poly: &Poly) -> Option<i64> {
        let mut sum = 0i64;
        for (monomial, coefficient) in poly.terms() {
            let mut term = *coefficient;
            for sym in monomial.factors() {
                term = term.checked_mul(self.symbol(cx, sym)?)?;
            }
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }

    /// The value that a symbol's definition gives it.
    fn defined(&self, cx: &Context, sym: Sym) -> Option<i64> {
        match &cx.symbol(sym).definition {
            Definition::Free(_) | Definition::OneOf(_) => None,
            Definition::Floor(n, d) => {
                let d = self.eval(cx, d).filter(|d| *d > 0)?;
                Some(self.eval(cx, n)?.div_euclid(d))
            }
            Definition::Min(a, b) => Some(self.eval(cx, a)?.min(self.eval(cx, b)?)),
            Definition::Max(a, b) => Some(self.eval(cx, a)?.max(self.eval(cx, b)?)),
            Definition::Opaque(op, a, b, range) => {
                let value = fold(*op, self.eval(cx, a)?, self.eval(cx, b)?)?;
                range.is_none_or(|(lo, hi)| (lo..=hi).contains(&value)).then_some(value)
            }
        }
    }

    /// Whether a condition holds, if that is known.
    fn holds(&self, cx: &Context, cond: &Cond) -> Option<bool> {
        match cond {
            Cond::True => Some(true),
            Cond::False => Some(false),
            Cond::NonNeg(p) => self.eval(cx, p).map(|v| v >= 0),
            Cond::Zero(p) => self.eval(cx, p).map(|v| v == 0),
            Cond::NonZero(p) => self.eval(cx, p).map(|v| v != 0),
            Cond::And(a, b) => match (self.holds(cx, a), self.holds(cx, b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Cond::Or(a, b) => match (self.holds(cx, a), self.holds(cx, b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Cond::Unknown(_) => None,
        }
    }
}
