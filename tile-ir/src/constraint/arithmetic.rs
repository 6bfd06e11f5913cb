//! Quotients, remainders and the lesser and greater of two: a polynomial where there is one, else a symbol for them.

use super::context::{Context, Definition};
use super::poly::{Poly, gcd};

impl Context {
    /// `a / b` on values that are not negative, `b` positive: rounded down. Exact multiples come out of the quotient.
    pub fn floor_div(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        let Some(d) = b.as_constant() else {
            if a == b {
                return Some(Poly::constant(1));
            }
            return Some(Poly::sym(self.define(Definition::Floor(a.clone(), b.clone()))));
        };
        if d <= 0 {
            return None;
        }
        // a = d * whole + part, with 0 <= part wanted, so that the parts are rounded apart.
        let (mut whole, mut part) = (Poly::default(), Poly::default());
        for (m, c) in a.terms() {
            let term = Poly::constant(1).times_term(m, 1)?;
            whole = whole.combine(1, &term, c.div_euclid(d))?;
            part = part.combine(1, &term, c.rem_euclid(d))?;
        }
        // Splitting every coefficient is exact: floor((d w + p) / d) = w + floor(p / d) for integers. But a term is
        // left alone where splitting would only make two terms of one.
        let quotient = if part.symbolic().len() == a.symbolic().len() && self.range(&part).1.is_none_or(|hi| hi >= d) {
            whole = Poly::constant(a.offset().div_euclid(d));
            part = a.combine(1, &whole, d.checked_neg()?)?;
            self.floor_part(part, d)?
        } else {
            self.floor_part(part, d)?
        };
        whole.plus(&quotient)
    }

    fn floor_part(&mut self, part: Poly, d: i64) -> Option<Poly> {
        let top = Poly::constant(d - 1).minus(&part)?;
        if self.proves(&part) && self.proves(&top) {
            return Some(Poly::constant(0));
        }
        // floor((g n + r) / (g d)) = floor((n + floor(r / g)) / d)
        let g = gcd(part.content(), d.unsigned_abs()) as i64;
        let (mut part, mut d) = (part, d);
        if g > 1 {
            let mut reduced = Poly::constant(part.offset().div_euclid(g));
            for (m, c) in part.symbolic() {
                reduced = reduced.combine(1, &Poly::constant(1).times_term(m, 1)?, c / g)?;
            }
            (part, d) = (reduced, d / g);
        }
        if d == 1 {
            return Some(part);
        }
        Some(Poly::sym(self.define(Definition::Floor(part, Poly::constant(d)))))
    }

    /// The remainder of [`Context::floor_div`].
    pub fn floor_rem(&mut self, a: &Poly, b: &Poly) -> Option<Poly> {
        let quotient = self.floor_div(a, b)?;
        a.minus(&quotient.times(b)?)
    }

    /// The lesser, or the one that is proven so.
    pub fn min(&mut self, a: &Poly, b: &Poly) -> Poly {
        if b.minus(a).is_some_and(|p| self.proves(&p)) {
            return a.clone();
        }
        if a.minus(b).is_some_and(|p| self.proves(&p)) {
            return b.clone();
        }
        Poly::sym(self.define(Definition::Min(a.clone(), b.clone())))
    }

    /// The greater, or the one that is proven so.
    pub fn max(&mut self, a: &Poly, b: &Poly) -> Poly {
        if b.minus(a).is_some_and(|p| self.proves(&p)) {
            return b.clone();
        }
        if a.minus(b).is_some_and(|p| self.proves(&p)) {
            return a.clone();
        }
        Poly::sym(self.define(Definition::Max(a.clone(), b.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::{Answer, Varies};

    #[test]
    fn quotients_and_remainders() {
        let mut cx = Context::default();
        let t = Poly::sym(cx.fresh("t", Some(0), Some(127), Varies::default()));
        let c32 = Poly::constant(32);
        let (warp, lane) = (cx.floor_div(&t, &c32).unwrap(), cx.floor_rem(&t, &c32).unwrap());
        assert_eq!(cx.less(&warp, &Poly::constant(4)), Answer::Proven);
        assert_eq!(cx.less(&warp, &Poly::constant(3)), Answer::Unknown);
        assert_eq!(cx.less(&lane, &c32), Answer::Proven);
        assert_eq!(cx.nonneg(&lane), Answer::Proven);
        assert_eq!(warp.scaled(32).unwrap().plus(&lane).unwrap(), t);
        // (32 a + b) / 32 = a where b is less than 32.
        let sum = t.scaled(32).unwrap().plus(&lane).unwrap();
        assert_eq!(cx.floor_div(&sum, &c32).unwrap(), t);
    }

    /// A quotient says that its divisor is positive only where that was known: not on other paths.
    #[test]
    fn a_divisor_is_positive_where_it_was_divided_by() {
        let mut cx = Context::default();
        let n = Poly::sym(cx.fresh("n", Some(0), None, Varies::default()));
        let k = Poly::sym(cx.fresh("k", Some(0), None, Varies::default()));
        let positive = k.plus_constant(-1).unwrap();
        let mark = cx.mark();
        cx.assume_nonneg(positive.clone());
        let rest = cx.floor_rem(&n, &k).unwrap();
        assert_eq!(cx.less(&rest, &k), Answer::Proven);
        cx.reset(mark);
        assert_eq!(cx.nonneg(&positive), Answer::Unknown);
        // And says it again where it is known again.
        cx.assume_nonneg(positive);
        let rest = cx.floor_rem(&n, &k).unwrap();
        assert_eq!(cx.less(&rest, &k), Answer::Proven);
    }
}
