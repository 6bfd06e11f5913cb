//! Polynomials over symbols with integer coefficients: the normal form of index expressions.

use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;
use std::fmt;

/// A symbol of a [`Context`](super::Context). Later symbols may be defined by earlier ones, never the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sym(pub(super) u32);

impl Sym {
    /// The position in the context's table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Most factors of a [`Monomial`].
const DEGREE: usize = 4;

/// Most terms of one factor times those of the other that a product is written out of.
const TERMS: usize = 256;

/// A product of at most four symbols; the empty product is 1. Ordered so that products with later symbols are
/// greater.
///
/// Each factor is 32 bits, a symbol's number and 1, the latest first; 0 stands for none. They are two numbers, because products are
/// compared and copied more often than they are taken apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monomial(u64, u64);

impl Monomial {
    /// The empty product.
    pub const ONE: Monomial = Monomial(0, 0);

    /// One symbol.
    pub fn of(sym: Sym) -> Self {
        Monomial::from_factors([sym.0 + 1, 0, 0, 0])
    }

    fn from_factors([a, b, c, d]: [u32; DEGREE]) -> Self {
        let pair = |first: u32, second: u32| u64::from(first) << 32 | u64::from(second);
        Monomial(pair(a, b), pair(c, d))
    }

    fn all_factors(&self) -> [u32; DEGREE] {
        [(self.0 >> 32) as u32, self.0 as u32, (self.1 >> 32) as u32, self.1 as u32]
    }

    /// The factors, latest first.
    pub fn factors(&self) -> impl Iterator<Item = Sym> + use<> {
        self.all_factors().into_iter().take_while(|s| *s != 0).map(|s| Sym(s - 1))
    }

    /// The latest factor.
    pub fn latest(&self) -> Option<Sym> {
        ((self.0 >> 32) as u32).checked_sub(1).map(Sym)
    }

    /// The product without its latest factor.
    pub fn rest(&self) -> Monomial {
        Monomial(self.0 << 32 | self.1 >> 32, self.1 << 32)
    }

    /// The product with a factor `sym` less; the product itself, where it is none.
    pub fn without(&self, sym: Sym) -> Monomial {
        let mut rest = [0; DEGREE];
        let all = self.all_factors();
        let at = all.iter().position(|s| *s == sym.0 + 1);
        let kept = all.iter().enumerate().filter(|(i, _)| Some(*i) != at).map(|(_, s)| *s);
        rest.iter_mut().zip(kept).for_each(|(to, from)| *to = from);
        Monomial::from_factors(rest)
    }

    /// The product; `None` beyond four factors.
    pub fn times(&self, other: &Monomial) -> Option<Monomial> {
        if *self == Monomial::ONE {
            return Some(*other);
        }
        if *other == Monomial::ONE {
            return Some(*self);
        }
        // Both are in descending order, with zeros behind: so is what is merged.
        let (left, right) = (self.all_factors(), other.all_factors());
        let (mut a, mut b) = (0, 0);
        let mut product = [0; DEGREE];
        for factor in &mut product {
            if left[a] >= right[b] {
                *factor = left[a];
                a += 1;
            } else {
                *factor = right[b];
                b += 1;
            }
        }
        let is_whole = left[a..].iter().chain(&right[b..]).all(|left| *left == 0);
        is_whole.then_some(Monomial::from_factors(product))
    }

    /// How many times `sym` is a factor.
    pub fn power(&self, sym: Sym) -> usize {
        self.all_factors().iter().filter(|s| **s == sym.0 + 1).count()
    }
}

impl fmt::Debug for Monomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.factors().map(|s| s.0)).finish()
    }
}

/// Terms without an allocation.
const INLINE: usize = 4;

/// The terms of a [`Poly`], up to four without an allocation: queries make and drop many, and most are no longer.
type Terms = SmallVec<[(Monomial, i64); INLINE]>;

/// A sum of monomials with nonzero coefficients, in ascending order of monomials.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Poly {
    terms: Terms,
}

impl Poly {
    /// A constant, greater than `i64::MIN`.
    pub fn constant(value: i64) -> Self {
        let value = value.max(-i64::MAX);
        Poly { terms: if value == 0 { smallvec![] } else { smallvec![(Monomial::ONE, value)] } }
    }

    /// One symbol.
    pub fn sym(sym: Sym) -> Self {
        Poly { terms: smallvec![(Monomial::of(sym), 1)] }
    }

    /// The terms, in ascending order of monomials.
    pub fn terms(&self) -> &[(Monomial, i64)] {
        &self.terms
    }

    /// The value, if there are no symbols.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(Monomial::ONE, value)] => Some(*value),
            _ => None,
        }
    }

    /// The symbol, if this is one symbol with coefficient 1.
    pub fn as_sym(&self) -> Option<Sym> {
        match self.terms.as_slice() {
            [(m, 1)] if m.rest() == Monomial::ONE => m.latest(),
            _ => None,
        }
    }

    /// The constant term.
    pub fn offset(&self) -> i64 {
        self.terms.first().filter(|t| t.0 == Monomial::ONE).map_or(0, |t| t.1)
    }

    /// The terms with symbols.
    pub fn symbolic(&self) -> &[(Monomial, i64)] {
        if self.offset() != 0 { &self.terms[1..] } else { &self.terms }
    }

    /// The greatest term.
    pub fn leading(&self) -> Option<(Monomial, i64)> {
        self.symbolic().last().copied()
    }

    /// The coefficient of a monomial.
    pub fn coefficient(&self, monomial: &Monomial) -> i64 {
        self.terms.binary_search_by(|t| t.0.cmp(monomial)).map_or(0, |i| self.terms[i].1)
    }

    /// Every symbol, possibly repeated.
    pub fn syms(&self) -> impl Iterator<Item = Sym> + '_ {
        self.terms.iter().flat_map(|t| t.0.factors())
    }

    /// Whether a symbol occurs.
    pub fn mentions(&self, sym: Sym) -> bool {
        self.syms().any(|s| s == sym)
    }

    /// `self * scale + other * other_scale`; `None` on overflow.
    pub fn combine(&self, scale: i64, other: &Poly, other_scale: i64) -> Option<Poly> {
        let (long, both) = (self.terms.len().max(other.terms.len()), self.terms.len() + other.terms.len());
        // Terms often cancel, so what might just be too long for its place is not given another one before it is.
        let mut terms = if long > INLINE { Terms::with_capacity(both) } else { Terms::new() };
        let (mut a, mut b) = (self.terms.as_slice(), other.terms.as_slice());
        loop {
            let order = match (a, b) {
                ([], []) => break,
                (_, []) => Ordering::Less,
                ([], _) => Ordering::Greater,
                ([x, ..], [y, ..]) => x.0.cmp(&y.0),
            };
            let (mut monomial, mut value) = (Monomial::ONE, 0i64);
            if order.is_le()
                && let [(m, c), rest @ ..] = a
            {
                (monomial, value) = (*m, c.checked_mul(scale)?);
                a = rest;
            }
            if order.is_ge()
                && let [(m, c), rest @ ..] = b
            {
                (monomial, value) = (*m, value.checked_add(c.checked_mul(other_scale)?)?);
                b = rest;
            }
            if value == i64::MIN {
                return None; // so that every coefficient has an absolute value
            }
            if value != 0 {
                terms.push((monomial, value));
            }
        }
        Some(Poly { terms })
    }

    /// The sum.
    pub fn plus(&self, other: &Poly) -> Option<Poly> {
        self.combine(1, other, 1)
    }

    /// The difference.
    pub fn minus(&self, other: &Poly) -> Option<Poly> {
        self.combine(1, other, -1)
    }

    /// The sum with a constant.
    pub fn plus_constant(&self, value: i64) -> Option<Poly> {
        self.combine(1, &Poly::constant(value), 1)
    }

    /// The product with a constant.
    pub fn scaled(&self, scale: i64) -> Option<Poly> {
        self.combine(scale, &Poly::default(), 0)
    }

    /// The product; `None` on overflow, beyond four factors, or where it is of too many terms.
    pub fn times(&self, other: &Poly) -> Option<Poly> {
        if self.terms.len().saturating_mul(other.terms.len()) > TERMS {
            return None;
        }
        let mut product = Poly::default();
        for (m, c) in &other.terms {
            product = product.plus(&self.times_term(m, *c)?)?;
        }
        Some(product)
    }

    /// The product with one term.
    pub fn times_term(&self, monomial: &Monomial, coefficient: i64) -> Option<Poly> {
        let mut terms = Terms::with_capacity(self.terms.len());
        for (m, c) in &self.terms {
            terms.push((m.times(monomial)?, c.checked_mul(coefficient).filter(|c| *c != i64::MIN)?));
        }
        if *monomial != Monomial::ONE {
            terms.sort_unstable_by_key(|t| t.0);
        }
        Some(Poly { terms })
    }

    /// The coefficient of `sym` (0 where it does not occur), if it occurs only by itself and linearly.
    pub fn linear_in(&self, sym: Sym) -> Option<i64> {
        let mut coefficient = 0;
        for (m, c) in &self.terms {
            match m.power(sym) {
                0 => {}
                1 if m.rest() == Monomial::ONE => coefficient = *c,
                _ => return None,
            }
        }
        Some(coefficient)
    }

    /// The polynomial with `sym` replaced.
    pub fn substitute(&self, sym: Sym, value: &Poly) -> Option<Poly> {
        if !self.mentions(sym) {
            return Some(self.clone());
        }
        let mut result = Poly::default();
        for (m, c) in &self.terms {
            let mut term = Poly::constant(*c);
            for factor in m.factors() {
                term = if factor == sym { term.times(value)? } else { term.times_term(&Monomial::of(factor), 1)? };
            }
            result = result.plus(&term)?;
        }
        Some(result)
    }

    /// The polynomial divided by one term, where that leaves no remainder in any of its terms.
    pub fn divided_by_term(&self, monomial: &Monomial, coefficient: i64) -> Option<Poly> {
        let mut terms = Terms::with_capacity(self.terms.len());
        for (m, c) in &self.terms {
            let rest = monomial.factors().try_fold(*m, |m, sym| (m.power(sym) > 0).then(|| m.without(sym)))?;
            terms.push((rest, c.checked_div(coefficient).filter(|_| c % coefficient == 0)?));
        }
        terms.sort_unstable_by_key(|t| t.0);
        Some(Poly { terms })
    }

    /// Every coefficient divided by `by`, a positive number that divides all but the constant term; that one is rounded down.
    pub fn divided(&self, by: i64) -> Poly {
        let divided = self.terms.iter().map(|(m, c)| (*m, c.div_euclid(by)));
        Poly { terms: divided.filter(|(_, c)| *c != 0).collect() }
    }

    /// The greatest common divisor of the coefficients of terms with symbols; 0 without any.
    pub fn content(&self) -> u64 {
        let mut content = 0;
        for (_, coefficient) in self.symbolic() {
            content = gcd(content, coefficient.unsigned_abs());
            if content == 1 {
                break;
            }
        }
        content
    }
}

/// The greatest common divisor.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_keeps_the_normal_form() {
        let (x, y) = (Poly::sym(Sym(0)), Poly::sym(Sym(1)));
        let sum = x.plus(&y).unwrap();
        let square = sum.times(&sum).unwrap();
        assert_eq!(square.terms().len(), 3);
        assert_eq!(square.coefficient(&Monomial::of(Sym(0)).times(&Monomial::of(Sym(1))).unwrap()), 2);
        assert_eq!(square.minus(&square).unwrap(), Poly::constant(0));
        let shifted = sum.substitute(Sym(1), &x.scaled(-1).unwrap()).unwrap();
        assert_eq!(shifted.as_constant(), Some(0));
    }

    #[test]
    fn division_by_a_term_leaves_no_remainder() {
        let [x, y] = [0, 1].map(|at| Poly::sym(Sym(at)));
        let product = x.times(&y).and_then(|p| p.scaled(6)?.plus(&y.times(&y)?.scaled(4)?)).unwrap();
        let by = Monomial::of(Sym(1));
        assert_eq!(product.divided_by_term(&by, 2), x.scaled(3).and_then(|p| p.plus(&y.scaled(2)?)));
        assert_eq!(product.divided_by_term(&by, 4), None);
        assert_eq!(product.divided_by_term(&Monomial::of(Sym(0)), 2), None);
        assert_eq!(product.plus_constant(2).unwrap().divided_by_term(&by, 2), None);
    }

    #[test]
    fn overflow_is_none_and_so_is_a_fifth_factor() {
        let x = Poly::sym(Sym(0));
        assert_eq!(x.scaled(i64::MAX).unwrap().scaled(2), None);
        let fourth = x.times(&x).unwrap().times(&x).unwrap().times(&x).unwrap();
        assert_eq!(fourth.times(&x), None);
    }
}
