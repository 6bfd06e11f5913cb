//! Points at which all facts hold: where a polynomial is negative at one of them, there is no proof that it never is, and none is
//! looked for.
//!
//! Most queries have no proof, and a search ends only when its steps are used up. A few points, each with a value for every symbol,
//! answer most of them at once. No answer changes by that: everything proven is true wherever the facts are.

use super::poly::{Poly, Sym};

/// What the launcher knows is worth at each point, the same for all dims and scalars: many kernels require that some are equal.
const LAUNCH: [i64; 8] = [64, 1, 3, 1024, 17, 0, 40_000, 256];

/// The points.
#[derive(Clone, Debug)]
pub(super) struct Witnesses(Vec<Witness>);

#[derive(Clone, Debug)]
struct Witness {
    /// Which of the points it is.
    number: usize,
    /// A value for every symbol.
    values: Vec<i64>,
    /// The first of the scoped facts that does not hold here.
    broken: Option<usize>,
}

impl Default for Witnesses {
    fn default() -> Self {
        let witness = |number| Witness { number, values: Vec::new(), broken: None };
        Witnesses((0..LAUNCH.len()).map(witness).collect())
    }
}

/// Where a symbol gets its value from.
pub(super) enum Source<'a> {
    /// It is known to the launcher.
    Launch,
    /// It is some number.
    Any,
    /// It is computed of other symbols' values; without a result the point is given up.
    Of(&'a Computed<'a>),
}

/// The value of a polynomial at a point.
pub(super) type Eval<'e> = dyn Fn(&Poly) -> Option<i64> + 'e;

/// A symbol's value at the point of this number, computed of those of others.
pub(super) type Computed<'a> = dyn Fn(&Eval<'_>, usize) -> Option<i64> + 'a;

impl Witnesses {
    /// Gives the next symbol a value at each point, within its bounds.
    pub fn push(&mut self, source: &Source<'_>, lo: Option<i64>, hi: Option<i64>) {
        self.0.retain_mut(|witness| {
            let value = match source {
                Source::Launch => Some(LAUNCH[witness.number]),
                Source::Any => Some(witness.some(lo, hi)),
                Source::Of(value) => value(&|poly| witness.eval(poly), witness.number),
            };
            let within = |value: &i64| lo.is_none_or(|lo| lo <= *value) && hi.is_none_or(|hi| *value <= hi);
            let value = value.filter(within);
            witness.values.extend(value);
            value.is_some()
        });
    }

    /// A fact that holds wherever its symbols are: points where it does not are given up.
    pub fn permanent(&mut self, fact: &Poly) {
        self.0.retain(|witness| witness.eval(fact).is_some_and(|value| value >= 0));
    }

    /// The scoped fact of this number.
    pub fn scoped(&mut self, number: usize, fact: &Poly) {
        for witness in self.0.iter_mut().filter(|witness| witness.broken.is_none()) {
            if witness.eval(fact).is_none_or(|value| value < 0) {
                witness.broken = Some(number);
            }
        }
    }

    /// Scoped facts from this number on are forgotten.
    pub fn reset(&mut self, scoped: usize) {
        for witness in &mut self.0 {
            witness.broken = witness.broken.filter(|number| *number < scoped);
        }
    }

    /// Whether a polynomial is negative at a point.
    pub fn refute(&self, poly: &Poly) -> bool {
        let mut points = self.0.iter().filter(|witness| witness.broken.is_none());
        points.any(|witness| witness.eval(poly).is_some_and(|value| value < 0))
    }
}

impl Witness {
    fn eval(&self, poly: &Poly) -> Option<i64> {
        let mut sum = 0i64;
        for (monomial, coefficient) in poly.terms() {
            let mut term = *coefficient;
            for sym in monomial.factors() {
                term = term.checked_mul(*self.values.get(Sym::index(sym))?)?;
            }
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }

    /// Some number within these bounds: small, since it is most likely an index below what the launcher knows, or one of the ends
    /// of a range that is small itself.
    fn some(&self, lo: Option<i64>, hi: Option<i64>) -> i64 {
        let mixed = self.values.len().wrapping_mul(7).wrapping_add(self.number.wrapping_mul(5));
        match (lo, hi) {
            (Some(lo), Some(hi)) if hi.saturating_sub(lo) < 1 << 16 => match self.number % 3 {
                0 => lo,
                1 => hi,
                _ => lo + mixed as i64 % (hi - lo + 1).max(1),
            },
            _ => {
                let small = if self.number.is_multiple_of(2) { 0 } else { mixed as i64 % 4 };
                let least = lo.unwrap_or(small.min(hi.unwrap_or(small)));
                least.saturating_add(small).min(hi.unwrap_or(i64::MAX))
            }
        }
    }
}
