//! The values of polynomials and conditions where some symbols have values, and all points of a few ranges.

use super::Touch;
use crate::analysis::walk::{Ranged, Walk};
use crate::constraint::{Cond, Context, Definition, Poly, Sym};
use crate::lowered::fold;
use std::ops::ControlFlow;

/// A value that is not known.
const UNKNOWN: i64 = i64::MIN;

/// Values of symbols, by their position in the context's table.
#[derive(Clone, Debug)]
pub(super) struct Values(Vec<i64>);

impl Values {
    /// None known, of `count` symbols.
    pub fn none(count: usize) -> Self {
        Values(vec![UNKNOWN; count])
    }

    pub fn set(&mut self, sym: Sym, value: i64) {
        if let Some(slot) = self.0.get_mut(sym.index()) {
            *slot = value;
        }
    }

    pub fn known(&self, sym: Sym) -> bool {
        self.0.get(sym.index()).is_some_and(|v| *v != UNKNOWN)
    }

    /// A polynomial's value, if every symbol has one.
    pub fn of(&self, cx: &Context, poly: &Poly) -> Option<i64> {
        let mut sum = 0i64;
        for (monomial, coefficient) in poly.terms() {
            let mut term = *coefficient;
            for sym in monomial.factors() {
                term = term.checked_mul(self.sym(cx, sym)?)?;
            }
            sum = sum.checked_add(term)?;
        }
        Some(sum)
    }

    fn sym(&self, cx: &Context, sym: Sym) -> Option<i64> {
        let value = self.0.get(sym.index()).copied().unwrap_or(UNKNOWN);
        if value != UNKNOWN {
            return Some(value);
        }
        match &cx.symbol(sym).definition {
            Definition::Free(_) | Definition::OneOf(_) => None,
            Definition::Floor(n, d) => {
                let d = self.of(cx, d).filter(|d| *d > 0)?;
                Some(self.of(cx, n)?.div_euclid(d))
            }
            Definition::Min(a, b) => Some(self.of(cx, a)?.min(self.of(cx, b)?)),
            Definition::Max(a, b) => Some(self.of(cx, a)?.max(self.of(cx, b)?)),
            Definition::Opaque(op, a, b, range) => {
                let value = fold(*op, self.of(cx, a)?, self.of(cx, b)?)?;
                range.is_none_or(|(lo, hi)| (lo..=hi).contains(&value)).then_some(value)
            }
        }
    }

    /// Whether a condition holds, if that is known.
    pub fn holds(&self, cx: &Context, cond: &Cond) -> Option<bool> {
        match cond {
            Cond::True => Some(true),
            Cond::False => Some(false),
            Cond::NonNeg(p) => self.of(cx, p).map(|v| v >= 0),
            Cond::Zero(p) => self.of(cx, p).map(|v| v == 0),
            Cond::NonZero(p) => self.of(cx, p).map(|v| v != 0),
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

    /// Whether the conditions on the way to a touch hold, if that is known.
    pub fn reaches(&self, cx: &Context, touch: &Touch) -> Option<bool> {
        let mut known = Some(true);
        for cond in touch.path.iter() {
            match self.holds(cx, cond) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => known = None,
            }
        }
        known
    }

    /// Calls `f` at every point of the ranges, the last varying fastest, until it breaks.
    pub fn each<T>(
        &mut self,
        ranges: &[(Sym, i64, i64)],
        f: &mut dyn FnMut(&Values) -> ControlFlow<T>,
    ) -> ControlFlow<T> {
        let Some((&(sym, lo, hi), rest)) = ranges.split_first() else { return f(self) };
        for value in lo..=hi {
            self.set(sym, value);
            self.each(rest, f)?;
        }
        ControlFlow::Continue(())
    }
}

/// The symbols that a touch's region and conditions depend on, definitions followed down.
pub(super) fn leaves(walk: &Walk<'_>, touch: &Touch) -> Vec<Sym> {
    let mut all = Vec::new();
    match &touch.region {
        super::Region::Whole => {}
        super::Region::Element(indices) | super::Region::Tile(indices, _) => {
            indices.iter().for_each(|p| walk.leaves(p, &mut all));
        }
    }
    for cond in touch.path.iter() {
        walk.cond_leaves(cond, &mut all);
    }
    all
}

/// The ranges of the given counters that are among `leaves`; none where one of them has no constant range, or where
/// there are more than `most` points.
pub(super) fn ranges<'r>(
    counters: impl Iterator<Item = &'r Ranged>,
    leaves: &[Sym],
    most: u64,
) -> Option<Vec<(Sym, i64, i64)>> {
    let (mut all, mut points) = (Vec::new(), 1u64);
    for range in counters.filter(|r| leaves.contains(&r.sym)) {
        let (lo, hi) = (range.lo.as_constant()?, range.hi.as_constant()?);
        let count = u64::try_from(hi.checked_sub(lo)?.checked_add(1)?).ok()?;
        points = points.checked_mul(count).filter(|p| *p <= most)?;
        all.push((range.sym, lo, hi));
    }
    Some(all)
}
