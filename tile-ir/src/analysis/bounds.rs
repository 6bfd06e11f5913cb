//! Bounds of element accesses: proven, refuted with a witness, or neither.
//!
//! Refuted is an index that is out of bounds wherever it is evaluated, or at the corner of the ranges around it, or at
//! a point of a small enumeration — whatever the launch. An index that only some launches drive out of bounds is
//! unproven, and guarded.

use super::Bound;
use super::point::Point;
use super::walk::Walk;
use crate::analysis::assignment::Assignment;
use crate::constraint::{Answer, Poly};
use crate::diag::{Code, Diagnostic};
use crate::ir::{AccessId, Place, Scope};

/// Points an enumeration may have.
const POINTS: u64 = 2048;

/// The bounds of one axis of an access; a refuted one is reported.
pub(super) fn axis(walk: &mut Walk<'_>, access: AccessId, axis: usize, index: &Poly, extent: &Poly) -> Bound {
    let room = extent.minus(index).and_then(|p| p.plus_constant(-1));
    if walk.cx.proves(index) && room.is_some_and(|room| walk.cx.proves(&room)) {
        return Bound::Proven;
    }
    let data = &walk.kernel.accesses[access];
    if data.masked {
        return Bound::Unproven;
    }
    let (low, high) = (walk.cx.nonneg(index), walk.cx.less(index, extent));
    let below = index.scaled(-1).and_then(|p| p.plus_constant(-1));
    let above = index.minus(extent);
    let witness = if low == Answer::Refuted || high == Answer::Refuted {
        Some(format!("it is always {}", walk.show(index).unwrap_or_else(|| "out of bounds".into())))
    } else {
        above.and_then(|p| witness(walk, &p, index)).or_else(|| below.and_then(|p| witness(walk, &p, index)))
    };
    let Some(witness) = witness else { return Bound::Unproven };
    let place = data.place;
    let kind = match place {
        Place::Tensor(_) => "",
        Place::Buffer(b) => match walk.kernel.buffers[b].scope {
            Scope::Shared => "shared ",
            Scope::Local => "local ",
            Scope::Fragment => "fragment ",
        },
    };
    let name = walk.kernel.place_name(place).to_owned();
    let what = match (data.indices.len(), axis) {
        (1, _) => "elements",
        (2, 0) => "rows",
        (2, _) => "columns",
        _ => "elements on this axis",
    };
    let extent = walk.show(extent).unwrap_or_else(|| "fewer".into());
    let span = walk.kernel.exprs[data.indices[axis]].span;
    let diagnostic = Diagnostic::new(Code::OUT_OF_BOUNDS, span, format!("{kind}index out of bounds"))
        .at(format!("{witness}; `{name}` has {extent} {what}"));
    walk.analysis.diagnostics.push(diagnostic);
    Bound::Refuted
}

/// Where `excess >= 0` for certain, in words, with the index's value there.
fn witness(walk: &mut Walk<'_>, excess: &Poly, index: &Poly) -> Option<String> {
    corner(walk, excess, index).or_else(|| enumerated(walk, excess, index))
}

/// At the corner of the ranges: every symbol at the end of its range that makes `excess` greatest.
fn corner(walk: &mut Walk<'_>, excess: &Poly, index: &Poly) -> Option<String> {
    let mut conditions = Vec::new();
    for cond in &walk.path {
        if !walk.cond_leaves(cond, &mut conditions) {
            return None;
        }
    }
    if walk.ranged.iter().any(|r| conditions.contains(&r.sym)) {
        return None;
    }
    let (mut at, mut value) = (excess.clone(), index.clone());
    let mut names = Vec::new();
    let mut point = Point::default();
    for range in walk.ranged.iter().rev() {
        let coefficient = at.linear_in(range.sym)?;
        let end = if coefficient > 0 { &range.hi } else { &range.lo };
        if coefficient != 0 && !walk.is_launch(end) {
            return None;
        }
        if value.mentions(range.sym) {
            names.push((range.var, range.value.substitute(range.sym, end)?));
            if let Some(end) = end.as_constant() {
                point.set(range.sym, end);
            }
        }
        at = at.substitute(range.sym, end)?;
        value = value.substitute(range.sym, end)?;
    }
    if !walk.is_launch(&at) || !walk.cx.proves(&at) {
        return None;
    }
    names.reverse();
    let names: Option<Vec<String>> = names
        .into_iter()
        .map(|(var, p)| Some(format!("{} = {}", walk.kernel.vars[var].name, walk.show(&p)?)))
        .collect();
    Some(described(walk, walk.show(&value)?, &names?, &point))
}

/// At the first of finitely many points.
fn enumerated(walk: &Walk<'_>, excess: &Poly, index: &Poly) -> Option<String> {
    let mut leaves = Vec::new();
    walk.leaves(excess, &mut leaves);
    for cond in &walk.path {
        if !walk.cond_leaves(cond, &mut leaves) {
            return None;
        }
    }
    let points = walk.points(&leaves, POINTS)?;
    let cx = &walk.cx;
    let worst = points
        .iter()
        .filter(|p| walk.path.iter().all(|c| p.holds(cx, c) == Some(true)))
        .filter_map(|p| Some((p.eval(cx, excess)?, p)))
        .filter(|(excess, _)| *excess >= 0)
        .reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    let point = worst.1;
    let names: Option<Vec<String>> = walk
        .ranged
        .iter()
        .filter(|r| leaves.contains(&r.sym))
        .map(|r| Some(format!("{} = {}", walk.kernel.vars[r.var].name, point.eval(cx, &r.value)?)))
        .collect();
    Some(described(walk, point.eval(cx, index)?.to_string(), &names?, point))
}

fn described(walk: &Walk<'_>, value: String, names: &[String], point: &Point) -> String {
    let thread = walk.thread_at(point).map(|t| format!(" (thread {t})")).unwrap_or_default();
    match names {
        [] => format!("it is {value}"),
        names => format!("reaches {value} at {}{thread}", names.join(", ")),
    }
}
