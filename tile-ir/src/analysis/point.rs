//! Values at one point: some symbols have values, others follow from their definitions.

use super::assignment::Assignment;
use super::walk::Walk;
use crate::constraint::{Cond, Context, Definition, Poly, Sym};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Values of symbols.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    values: HashMap<Sym, i64>,
    /// Values of symbols with definitions: one may be used by many others, so each is computed once.
    derived: RefCell<HashMap<Sym, Option<i64>>>,
}

impl Point {
    /// Gives a symbol a value.
    pub fn set(&mut self, sym: Sym, value: i64) {
        self.values.insert(sym, value);
        self.derived.get_mut().clear();
    }
}

impl Assignment for Point {
    fn symbol(&self, cx: &Context, sym: Sym) -> Option<i64> {
        if let Some(value) = self.values.get(&sym) {
            return Some(*value);
        }
        if let Some(known) = self.derived.borrow().get(&sym) {
            return *known;
        }
        let value = self.defined(cx, sym);
        self.derived.borrow_mut().insert(sym, value);
        value
    }
}

impl Walk<'_> {
    /// Every symbol a polynomial depends on, definitions followed down to those without one.
    pub fn leaves(&self, poly: &Poly, all: &mut Vec<Sym>) {
        self.unseen_leaves(poly, all, &mut HashSet::new());
    }

    /// The leaves that symbols not in `seen` depend on: a definition may be used by many others, and is followed once.
    fn unseen_leaves(&self, poly: &Poly, all: &mut Vec<Sym>, seen: &mut HashSet<Sym>) {
        for sym in poly.syms() {
            if !seen.insert(sym) || all.contains(&sym) {
                continue;
            }
            match &self.cx.symbol(sym).definition {
                Definition::Free(_) => all.push(sym),
                Definition::Floor(a, b) | Definition::Min(a, b) | Definition::Max(a, b) => {
                    self.unseen_leaves(a, all, seen);
                    self.unseen_leaves(b, all, seen);
                }
                Definition::Opaque(_, a, b, _) => {
                    self.unseen_leaves(a, all, seen);
                    self.unseen_leaves(b, all, seen);
                }
                Definition::OneOf(cases) => {
                    all.push(sym);
                    cases.iter().for_each(|c| self.unseen_leaves(c, all, seen));
                }
            }
        }
    }

    /// Every symbol a condition depends on; false if it is about values that are not known.
    pub fn cond_leaves(&self, cond: &Cond, all: &mut Vec<Sym>) -> bool {
        match cond {
            Cond::True | Cond::False => true,
            Cond::NonNeg(p) | Cond::Zero(p) | Cond::NonZero(p) => {
                self.leaves(p, all);
                true
            }
            Cond::And(a, b) | Cond::Or(a, b) => {
                let known = self.cond_leaves(a, all);
                self.cond_leaves(b, all) && known
            }
            Cond::Unknown(_) => false,
        }
    }

    /// Whether a polynomial depends on what the launcher knows, and nothing else.
    pub fn is_launch(&self, poly: &Poly) -> bool {
        let mut leaves = Vec::new();
        self.leaves(poly, &mut leaves);
        leaves.iter().all(|s| self.hosts.contains_key(s))
    }

    /// The points of the ranged symbols among `leaves`, if they are all of them, have constant ranges and there are
    /// at most `most` points. Threads vary fastest, so that the first point found is one of few threads.
    pub fn points(&self, leaves: &[Sym], most: u64) -> Option<Vec<Point>> {
        let mut points = vec![Point::default()];
        let ranged: Vec<_> = self.ranged.iter().filter(|r| leaves.contains(&r.sym)).collect();
        if ranged.len() != leaves.len() {
            return None;
        }
        for range in ranged {
            let (lo, hi) = (range.lo.as_constant()?, range.hi.as_constant()?);
            let count = u64::try_from(hi.checked_sub(lo)?.checked_add(1)?).ok()?;
            if (points.len() as u64).checked_mul(count)? > most {
                return None;
            }
            let each = |value: i64| {
                points.iter().cloned().map(move |mut p| {
                    p.set(range.sym, value);
                    p
                })
            };
            points = (lo..=hi).flat_map(each).collect();
        }
        Some(points)
    }

    /// The linear index of the thread at a point; absent axes count as 0.
    pub fn thread_at(&self, point: &Point) -> Option<u32> {
        let extents = self.kernel.thread_extents();
        let (mut linear, mut stride, mut any) = (0i64, 1i64, false);
        for (axis, binding) in self.kernel.threads.iter().enumerate().take(3) {
            let sym = self.ranged.iter().find(|r| r.var == binding.var)?.sym;
            if let Some(value) = point.values.get(&sym) {
                linear += value * stride;
                any = true;
            }
            stride *= i64::from(extents[axis]);
        }
        u32::try_from(linear).ok().filter(|_| any)
    }
}
