//! The queries: what follows from the facts.

use super::context::{Context, Definition};
use super::poly::{Monomial, Poly, gcd};
use std::cell::Cell;

/// The answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// True in every execution that gets here.
    Proven,
    /// False in every execution that gets here.
    Refuted,
    /// Neither is known.
    Unknown,
}

/// Steps a query may take.
const FUEL: u32 = 160;
/// Steps that all queries of a context may take together before each has but a few. Kernels take up to a fifth of it.
const ALL_FUEL: u32 = 20_000;
/// Steps a query may take from then on.
const LITTLE_FUEL: u32 = 2;
/// Symbols a query may eliminate one after another.
const DEPTH: u32 = 9;
/// Symbols that a query eliminates where it has run out of steps with [`DEPTH`].
const SHORT_DEPTH: u32 = 3;
/// Steps that a patient query may take.
const PATIENCE: u32 = 600;
/// Facts that a patient query may subtract one after another.
const PATIENT_DEPTH: u32 = 5;

impl Context {
    /// `poly >= 0`?
    pub fn nonneg(&self, poly: &Poly) -> Answer {
        if self.proves(poly) {
            return Answer::Proven;
        }
        match poly.scaled(-1).and_then(|p| p.plus_constant(-1)) {
            Some(negated) if self.proves(&negated) => Answer::Refuted,
            _ => Answer::Unknown,
        }
    }

    /// `a < b`?
    pub fn less(&self, a: &Poly, b: &Poly) -> Answer {
        match b.minus(a).and_then(|p| p.plus_constant(-1)) {
            Some(difference) => self.nonneg(&difference),
            None => Answer::Unknown,
        }
    }

    /// Whether `poly >= 0` follows from the facts.
    pub fn proves(&self, poly: &Poly) -> bool {
        if self.range(poly).0.is_some_and(|lo| lo >= 0) {
            return true;
        }
        if let Some(known) = self.answers.borrow().get(poly) {
            return *known;
        }
        if self.witnesses.refute(poly) {
            return false;
        }
        let answer = self.search(poly);
        self.answers.borrow_mut().insert(poly.clone(), answer);
        answer
    }

    /// Whether there is a proof of `poly >= 0`, as far as it is looked for.
    pub(super) fn search(&self, poly: &Poly) -> bool {
        let most = if self.spent.get() < ALL_FUEL { FUEL } else { LITTLE_FUEL };
        let fuel = Cell::new(most);
        let answer = self.eliminate(poly.clone(), DEPTH, &fuel);
        self.spent.set(self.spent.get().saturating_add(most - fuel.get()));
        // The first fact that bounds a symbol may lead nowhere, at length: a short proof by another one is looked for then.
        let is_cut = !answer && fuel.get() == 0;
        answer || is_cut && self.eliminate(poly.clone(), SHORT_DEPTH, &Cell::new(most))
    }

    /// Whether `poly >= 0` follows from the facts, by a longer search than that of [`Context::proves`]: facts are subtracted
    /// once or as often as they fit, for whichever symbol they bound, and of a quotient `q` of `n` by `d`, `q <= r` is
    /// `n <= d * r + d - 1`, and `q >= r` is `n >= d * r`: of integers that says more than what bounds `d * q` does.
    ///
    /// It is for what the author is told. Code is made of what `proves` says: another answer there is another program.
    pub fn proves_patiently(&self, poly: &Poly) -> bool {
        if self.proves(poly) {
            return true;
        }
        if self.witnesses.refute(poly) {
            return false;
        }
        let fuel = Cell::new(PATIENCE);
        // Short proofs first: a search that begins with a wrong fact would not come back from the depth.
        (1..=PATIENT_DEPTH).any(|depth| self.subtract(poly.clone(), depth, &fuel))
    }

    /// One step of [`Context::proves_patiently`].
    fn subtract(&self, poly: Poly, depth: u32, fuel: &Cell<u32>) -> bool {
        let poly = tighten(poly);
        if self.range(&poly).0.is_some_and(|lo| lo >= 0) {
            return true;
        }
        if depth == 0 {
            return false;
        }
        for (monomial, coefficient) in poly.symbolic().iter().rev() {
            let (Some(sym), true) = (monomial.latest(), monomial.rest() == Monomial::ONE) else { continue };
            if fuel.get() == 0 {
                return false;
            }
            fuel.set(fuel.get() - 1);
            let exact = match &self.symbol(sym).definition {
                Definition::Floor(n, d) => d.as_constant().and_then(|d| {
                    let rest = poly.combine(1, &Poly::sym(sym), -coefficient)?.scaled(d)?;
                    match coefficient {
                        1 => rest.plus(n),
                        -1 => rest.plus_constant(d - 1)?.minus(n),
                        _ => None,
                    }
                }),
                _ => None,
            };
            if exact.is_some_and(|p| self.subtract(p, depth - 1, fuel)) {
                return true;
            }
            let facts = self.scoped.iter().rev().chain(self.permanent.iter().rev());
            for fact in facts.filter(|fact| fact.may_mention(sym)).map(|fact| &fact.poly) {
                let own = fact.coefficient(monomial);
                if own == 0 || (own > 0) != (*coefficient > 0) {
                    continue;
                }
                let fits = coefficient / own;
                let often = if fits > 1 { [Some(fits), Some(1)] } else { [Some(fits.max(1)), None] };
                for times in often.into_iter().flatten() {
                    let rest = poly.combine(1, fact, -times);
                    if rest.is_some_and(|p| self.subtract(p, depth - 1, fuel)) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// `poly % modulus == 0`? Refuted where every value leaves the same remainder. Nothing is a multiple of 0.
    pub fn divisible(&self, poly: &Poly, modulus: i64) -> Answer {
        if modulus == 0 {
            return Answer::Unknown;
        }
        let by = |p: &Poly| p.terms().iter().all(|t| t.1 % modulus == 0);
        if modulus == 1 || by(poly) {
            return Answer::Proven;
        }
        if poly.symbolic().iter().all(|t| t.1 % modulus == 0) {
            return Answer::Refuted;
        }
        for (multiple, of) in &self.multiples {
            let Some((m, c)) = multiple.leading() else { continue };
            let own = poly.coefficient(&m);
            // k * multiple is a multiple of k * of.
            if own % c == 0
                && (own / c).checked_mul(*of).is_some_and(|k| k % modulus == 0)
                && poly.combine(1, multiple, -(own / c)).is_some_and(|rest| by(&rest))
            {
                return Answer::Proven;
            }
        }
        Answer::Unknown
    }

    fn eliminate(&self, poly: Poly, depth: u32, fuel: &Cell<u32>) -> bool {
        let poly = tighten(poly);
        if self.range(&poly).0.is_some_and(|lo| lo >= 0) {
            return true;
        }
        let Some((monomial, coefficient)) = poly.leading() else { return false };
        let Some(sym) = monomial.latest() else { return false };
        if depth == 0 || fuel.get() == 0 {
            return false;
        }
        fuel.set(fuel.get() - 1);
        // A value that is one of several: all of them, where it is to be bounded in the hard direction.
        if let Some(a) = poly.linear_in(sym) {
            let cases = match &self.symbol(sym).definition {
                Definition::Min(x, y) if a > 0 => vec![x, y],
                Definition::Max(x, y) if a < 0 => vec![x, y],
                Definition::OneOf(all) => all.iter().collect(),
                _ => vec![],
            };
            if !cases.is_empty()
                && cases
                    .iter()
                    .all(|case| poly.substitute(sym, case).is_some_and(|p| self.eliminate(p, depth - 1, fuel)))
            {
                return true;
            }
        }
        let bounds = |own: i64| own != 0 && (own > 0) == (coefficient > 0);
        let step = |fact: &Poly, own: i64| -> bool {
            if !bounds(own) {
                return false;
            }
            let g = gcd(own.unsigned_abs(), coefficient.unsigned_abs()) as i64;
            let reduced = poly.combine((own / g).abs(), fact, -(coefficient / g).abs());
            reduced.is_some_and(|p| self.eliminate(p, depth - 1, fuel))
        };
        let rest = monomial.rest();
        let rest_nonneg = rest == Monomial::ONE || self.monomial_range(&rest).0.is_some_and(|lo| lo >= 0);
        let facts = self.scoped.iter().rev().chain(self.permanent.iter().rev());
        for fact in facts.filter(|fact| fact.may_mention(sym)).map(|fact| &fact.poly) {
            if step(fact, fact.coefficient(&monomial)) {
                return true;
            }
            if rest != Monomial::ONE && rest_nonneg {
                let own = fact.coefficient(&Monomial::of(sym));
                if bounds(own)
                    && let Some(product) = fact.times_term(&rest, 1)
                    && step(&product, own)
                {
                    return true;
                }
            }
        }
        // Constant bounds last: they lose what relates the symbol to others.
        let bound = if coefficient > 0 { self.symbol(sym).lo } else { self.symbol(sym).hi };
        if let Some(bound) = bound.filter(|_| rest_nonneg) {
            let sign = coefficient.signum();
            let fact = bound
                .checked_neg()
                .and_then(|b| Poly::sym(sym).plus_constant(b))
                .and_then(|p| p.times_term(&rest, sign));
            if fact.is_some_and(|fact| step(&fact, sign)) {
                return true;
            }
        }
        false
    }

    /// Constant bounds of a polynomial, from the bounds of its symbols.
    pub fn range(&self, poly: &Poly) -> (Option<i64>, Option<i64>) {
        let (mut lo, mut hi) = (Some(0i64), Some(0i64));
        for (m, c) in poly.terms() {
            let (a, b) = self.monomial_range(m);
            let (a, b) = if *c >= 0 { (a, b) } else { (b, a) };
            lo = lo.zip(a).and_then(|(sum, x)| sum.checked_add(x.checked_mul(*c)?));
            hi = hi.zip(b).and_then(|(sum, x)| sum.checked_add(x.checked_mul(*c)?));
        }
        (lo, hi)
    }

    fn monomial_range(&self, m: &Monomial) -> (Option<i64>, Option<i64>) {
        let mut range = (Some(1i64), Some(1i64));
        for sym in m.factors() {
            let s = self.symbol(sym);
            range = match (range, (s.lo, s.hi)) {
                ((Some(a), b), (Some(c), d)) if a >= 0 && c >= 0 => {
                    (a.checked_mul(c), b.zip(d).and_then(|(b, d)| b.checked_mul(d)))
                }
                ((Some(a), Some(b)), (Some(c), Some(d))) => {
                    let all = [a.checked_mul(c), a.checked_mul(d), b.checked_mul(c), b.checked_mul(d)];
                    if all.contains(&None) {
                        (None, None)
                    } else {
                        (all.iter().flatten().min().copied(), all.iter().flatten().max().copied())
                    }
                }
                _ => (None, None),
            };
        }
        range
    }
}

/// `g * n + c >= 0` is `n + floor(c / g) >= 0` over the integers.
pub(super) fn tighten(poly: Poly) -> Poly {
    let g = poly.content();
    if g <= 1 || g > i64::MAX as u64 {
        return poly;
    }
    poly.divided(g as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::Varies;

    struct Setup {
        cx: Context,
        n: Poly,
        bn: Poly,
        tn: Poly,
    }

    /// A grid of `ceil_div(n, 16)` blocks of 16 threads.
    fn setup() -> Setup {
        let mut cx = Context::default();
        let n = Poly::sym(cx.fresh("n", Some(0), Some(i64::from(i32::MAX)), Varies::default()));
        let q = cx.floor_div(&n.plus_constant(15).unwrap(), &Poly::constant(16)).unwrap();
        let bn = Poly::sym(cx.fresh("bn", Some(0), None, Varies::default()));
        let tn = Poly::sym(cx.fresh("tn", Some(0), Some(15), Varies::default()));
        cx.assume_nonneg(q.minus(&bn).unwrap().plus_constant(-1).unwrap());
        Setup { cx, n, bn, tn }
    }

    #[test]
    fn rows_of_a_ragged_grid() {
        let Setup { mut cx, n, bn, tn } = setup();
        let row = bn.scaled(16).unwrap().plus(&tn).unwrap();
        assert_eq!(cx.less(&row, &n), Answer::Unknown);
        assert_eq!(cx.less(&row, &n.plus_constant(16).unwrap()), Answer::Proven);
        // The first row of a block exists, or the block would not.
        assert_eq!(cx.less(&bn.scaled(16).unwrap(), &n), Answer::Proven);
        assert_eq!(cx.less(&Poly::constant(0), &n), Answer::Proven);
        let mark = cx.mark();
        cx.assume_nonneg(n.minus(&row).unwrap().plus_constant(-1).unwrap());
        assert_eq!(cx.less(&row, &n), Answer::Proven);
        assert_eq!(cx.less(&row.plus_constant(1).unwrap(), &n), Answer::Unknown);
        cx.reset(mark);
        assert_eq!(cx.less(&row, &n), Answer::Unknown);
        assert_eq!(cx.less(&n, &n), Answer::Refuted);
    }

    #[test]
    fn multiples_make_a_guard_cover_a_whole_vector() {
        let mut cx = Context::default();
        let k8 = Poly::sym(cx.fresh("K / 8", Some(0), None, Varies::default()));
        let k = k8.scaled(8).unwrap();
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        let start = i.scaled(8).unwrap();
        cx.assume_nonneg(k.minus(&start).unwrap().plus_constant(-1).unwrap());
        assert_eq!(cx.less(&start.plus_constant(7).unwrap(), &k), Answer::Proven);
        assert_eq!(cx.less(&start.plus_constant(8).unwrap(), &k), Answer::Unknown);
        assert_eq!(cx.divisible(&start, 8), Answer::Proven);
        assert_eq!(cx.divisible(&start.plus_constant(4).unwrap(), 8), Answer::Refuted);
        assert_eq!(cx.divisible(&i, 2), Answer::Unknown);
    }

    #[test]
    fn the_lesser_of_two() {
        let mut cx = Context::default();
        let n = Poly::sym(cx.fresh("n", Some(0), None, Varies::default()));
        let b = Poly::sym(cx.fresh("b", Some(0), None, Varies::default()));
        let end = cx.min(&n, &b.plus_constant(64).unwrap());
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        cx.assume_nonneg(end.minus(&i).unwrap().plus_constant(-1).unwrap());
        assert_eq!(cx.less(&i, &n), Answer::Proven);
        assert_eq!(cx.less(&i, &b.plus_constant(64).unwrap()), Answer::Proven);
        assert_eq!(cx.less(&i, &b), Answer::Unknown);
        assert_eq!(cx.nonneg(&end), Answer::Proven);
    }

    #[test]
    fn a_guarded_remainder_makes_a_multiple() {
        let mut cx = Context::default();
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        let rem = cx.floor_rem(&i, &Poly::constant(8)).unwrap();
        assert_eq!(cx.divisible(&i, 8), Answer::Unknown);
        cx.assume_zero(rem);
        assert_eq!(cx.divisible(&i, 8), Answer::Proven);
        assert_eq!(cx.divisible(&i.scaled(3).unwrap().plus_constant(16).unwrap(), 8), Answer::Proven);
        assert_eq!(cx.divisible(&i, 16), Answer::Unknown);
    }

    #[test]
    fn products_of_dims() {
        let mut cx = Context::default();
        let k = Poly::sym(cx.fresh("k", Some(0), None, Varies::default()));
        let n = Poly::sym(cx.fresh("n", Some(0), None, Varies::default()));
        let i = Poly::sym(cx.fresh("i", Some(0), None, Varies::default()));
        let j = Poly::sym(cx.fresh("j", Some(0), None, Varies::default()));
        cx.assume_nonneg(n.minus(&i).unwrap().plus_constant(-1).unwrap());
        cx.assume_nonneg(k.minus(&j).unwrap().plus_constant(-1).unwrap());
        // i * k + j < n * k
        let flat = i.times(&k).unwrap().plus(&j).unwrap();
        assert_eq!(cx.less(&flat, &n.times(&k).unwrap()), Answer::Proven);
        assert_eq!(cx.less(&flat.plus_constant(1).unwrap(), &n.times(&k).unwrap()), Answer::Unknown);
    }
}
