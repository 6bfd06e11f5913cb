//! What is known of a value by looking at each of the points that it depends on: thread indices and loop counters of constant
//! ranges. Of `t / 32 * 32 + 31 - t % 32` or `t ^ 1` no inequality says where it is, and 128 threads do.

use super::assignment::Assignment;
use super::point::Point;
use super::walk::{Ranged, Walk};
use crate::constraint::{Cond, Poly, Sym};

/// Points that are looked at for one value.
const POINTS: usize = 4096;

/// Whether `poly >= 0` on the way here: the part of it that depends on such indices alone is replaced by the least value that it
/// has at any point, and the rest follows from the facts.
pub(super) fn nonneg(walk: &Walk<'_>, poly: &Poly) -> bool {
    let (mut part, mut rest) = (Poly::default(), Poly::default());
    let mut leaves = Vec::new();
    for (monomial, coefficient) in poly.symbolic() {
        let term = Poly::constant(1).times_term(monomial, *coefficient);
        let Some(term) = term else { return false };
        let ranges = ranges(walk, &term);
        let sum = if ranges.is_some() { &mut part } else { &mut rest };
        let Some(more) = sum.plus(&term) else { return false };
        *sum = more;
        for sym in ranges.into_iter().flatten().map(|range| range.sym) {
            if !leaves.contains(&sym) {
                leaves.push(sym);
            }
        }
    }
    if leaves.is_empty() {
        return false;
    }
    let least = least(walk, &part, &leaves).and_then(|least| rest.plus_constant(least)?.plus_constant(poly.offset()));
    least.is_some_and(|p| walk.cx.proves(&p))
}

/// The indices that a polynomial depends on, from the outside in, if it depends on nothing else and neither do their ranges.
fn ranges<'w>(walk: &'w Walk<'_>, poly: &Poly) -> Option<Vec<&'w Ranged>> {
    let mut leaves = Vec::new();
    walk.leaves(poly, &mut leaves);
    // The range of an inner loop may depend on outer ones, which stand before it.
    let mut ranges: Vec<&Ranged> = Vec::new();
    for range in walk.ranged.iter().rev() {
        if leaves.contains(&range.sym) {
            walk.leaves(&range.lo, &mut leaves);
            walk.leaves(&range.hi, &mut leaves);
            ranges.push(range);
        }
    }
    ranges.reverse();
    (ranges.len() == leaves.len()).then_some(ranges)
}

/// The least value of a polynomial of these indices at the points that can get here; `None` where there are too many, where a
/// value is not known, or where there is no point.
fn least(walk: &Walk<'_>, poly: &Poly, leaves: &[Sym]) -> Option<i64> {
    let ranges: Vec<&Ranged> = walk.ranged.iter().filter(|range| leaves.contains(&range.sym)).collect();
    // Conditions about anything else may hold at any of the points.
    let decided: Vec<&Cond> = walk
        .path
        .iter()
        .filter(|cond| {
            let mut of = Vec::new();
            walk.cond_leaves(cond, &mut of) && of.iter().all(|sym| leaves.contains(sym))
        })
        .collect();
    let mut points = vec![Point::default()];
    for range in ranges {
        let mut more = Vec::new();
        for point in &points {
            let (lo, hi) = (point.eval(&walk.cx, &range.lo)?, point.eval(&walk.cx, &range.hi)?);
            if hi.checked_sub(lo)? >= (POINTS - more.len()) as i64 {
                return None;
            }
            more.extend((lo..=hi).map(|value| {
                let mut point = point.clone();
                point.set(range.sym, value);
                point
            }));
        }
        points = more;
    }
    let mut least = None;
    for point in points.iter().filter(|p| decided.iter().all(|cond| p.holds(&walk.cx, cond) != Some(false))) {
        let value = point.eval(&walk.cx, poly)?;
        least = Some(least.map_or(value, |least: i64| least.min(value)));
    }
    least
}
