//! The values of polynomials and conditions where some symbols have values, and all points of a few ranges.

use super::Touch;
use crate::analysis::assignment::Assignment;
use crate::analysis::walk::{Ranged, Walk};
use crate::constraint::{Context, Sym};
use std::cell::RefCell;
use std::ops::ControlFlow;

/// A value that is not known.
const UNKNOWN: i64 = i64::MIN;

/// Values of symbols, by their position in the context's table.
#[derive(Clone, Debug)]
pub(super) struct Values {
    given: Vec<i64>,
    /// How often values were given: what was derived before is worth nothing any more.
    changes: u64,
    /// What definitions gave, each with the `changes` it was derived at.
    derived: RefCell<Vec<(u64, Option<i64>)>>,
}

impl Values {
    /// None known, of `count` symbols.
    pub fn none(count: usize) -> Self {
        Values { given: vec![UNKNOWN; count], changes: 1, derived: RefCell::new(vec![(0, None); count]) }
    }

    pub fn set(&mut self, sym: Sym, value: i64) {
        if let Some(slot) = self.given.get_mut(sym.index()) {
            *slot = value;
            self.changes += 1;
        }
    }

    pub fn known(&self, sym: Sym) -> bool {
        self.given.get(sym.index()).is_some_and(|v| *v != UNKNOWN)
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

impl Assignment for Values {
    fn symbol(&self, cx: &Context, sym: Sym) -> Option<i64> {
        if self.known(sym) {
            return Some(self.given[sym.index()]);
        }
        let known = self.derived.borrow().get(sym.index()).copied();
        match known {
            Some((changes, value)) if changes == self.changes => value,
            _ => {
                let value = self.defined(cx, sym);
                if let Some(slot) = self.derived.borrow_mut().get_mut(sym.index()) {
                    *slot = (self.changes, value);
                }
                value
            }
        }
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
