//! Blocks that certainly store to the same element of a tensor: the map from block, thread and iteration to the element is
//! not injective.
//!
//! A store is looked at in two neighbouring blocks of a few launches that the `require`s admit. Where the index is linear
//! in the digits of threads and iterations (`t / 32` and `t % 32` are digits of `t`), the two blocks meet where an
//! equation in differences of digits has a solution. It is an error where neighbours meet at every such launch that has
//! them; where it depends on the launch, on data or on scalar parameters, the checked simulator tells. Stores that no index
//! of blocks tells apart are [`alike`]'s.

use super::launches::Launch;
use super::points::Values;
use super::{Kind, LoopForm, Region, Touch, alike, launches, points};
use crate::analysis::assignment::Assignment;
use crate::analysis::walk::{Ranged, Walk};
use crate::constraint::{Definition, Poly, Sym};
use crate::diag::{Code, Diagnostic};
use crate::ir::{Extent, ParamKind, Place};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a search.
const FUEL: u32 = 300;
/// Solutions that are tried before a search is given up.
const TRIES: u32 = 12;

/// The stores of different blocks that certainly meet, one report a tensor.
pub(super) fn check(walk: &Walk<'_>) -> Vec<Diagnostic> {
    let regions = &walk.regions;
    let stores: Vec<&Touch> =
        regions.touches.iter().filter(|t| t.kind == Kind::Write && matches!(t.place, Place::Tensor(_))).collect();
    if stores.is_empty() {
        return vec![];
    }
    let launches = Launch::some(walk.kernel);
    let mut found = Vec::new();
    let mut reported = BTreeSet::new();
    for store in stores {
        let Place::Tensor(param) = store.place else { continue };
        if launches.is_empty() || reported.contains(&param.as_u32()) {
            continue;
        }
        if let Some(diagnostic) = alike::check(walk, store, &launches).or_else(|| meeting(walk, store, &launches)) {
            reported.insert(param.as_u32());
            found.push(diagnostic);
        }
    }
    found
}

/// Two points of a store, in neighbouring blocks, at one element.
struct Meeting {
    element: Vec<i64>,
    threads: [Option<u32>; 2],
    blocks: [Vec<i64>; 2],
}

/// The indices of blocks and the counters that a store depends on.
struct Indices<'w> {
    blocks: Vec<&'w Ranged>,
    free: Vec<&'w Ranged>,
}

fn indices<'w>(walk: &'w Walk<'_>, store: &Touch) -> Indices<'w> {
    let is_block = |r: &&Ranged| walk.kernel.grid.iter().any(|a| a.var == r.var);
    let (mut blocks, mut free): (Vec<&Ranged>, Vec<&Ranged>) = walk.ranged.iter().partition(is_block);
    for loop_ in walk.regions.within(store.around, None) {
        let loop_ = &walk.regions.loops[loop_];
        match loop_.kind {
            LoopForm::Persistent => blocks.extend(&loop_.ranged),
            LoopForm::Serial | LoopForm::Parallel => free.extend(&loop_.ranged),
        }
    }
    Indices { blocks, free }
}

/// Where a store of two neighbouring blocks meets, whatever the launch.
fn meeting(walk: &Walk<'_>, store: &Touch, launches: &[Launch]) -> Option<Diagnostic> {
    let indices = indices(walk, store);
    if depends_on_scalars(walk, store, &indices) {
        return None;
    }
    let axes = indices.blocks.len();
    let mut directions: Vec<Vec<i64>> = (0..axes).map(|a| (0..axes).map(|b| i64::from(a == b)).collect()).collect();
    for (a, b) in (0..axes).flat_map(|a| (a + 1..axes).map(move |b| (a, b))) {
        let mut both = vec![0; axes];
        (both[a], both[b]) = (1, -1);
        directions.push(both);
    }
    'directions: for direction in directions {
        let mut first = None;
        for launch in launches {
            let values = launch.values(walk);
            let extent_of = |r: &&Ranged| values.eval(&walk.cx, &r.hi)?.checked_add(1);
            let extents = indices.blocks.iter().map(extent_of).collect::<Option<Vec<i64>>>()?;
            if direction.iter().zip(&extents).any(|(d, extent)| *d != 0 && *extent < 2) {
                continue;
            }
            match (Search { walk, store, indices: &indices, launch, values }).run(&direction) {
                Some(meeting) => first = first.or(Some((meeting, launch))),
                None => continue 'directions,
            }
        }
        if let Some((meeting, launch)) = first {
            return Some(report(walk, store, &indices, &meeting, launch));
        }
    }
    None
}

/// Whether where a store goes, or whether it is executed, depends on a scalar parameter: a few values of it tell nothing about
/// the others.
fn depends_on_scalars(walk: &Walk<'_>, store: &Touch, indices: &Indices<'_>) -> bool {
    let mut leaves = points::leaves(walk, store);
    indices.free.iter().for_each(|range| walk.leaves(&range.hi, &mut leaves));
    leaves.iter().any(|sym| launches::is_of_scalars(walk, *sym))
}

/// A digit of an index: the index is the sum of its digits, each times its weight.
#[derive(Clone, Copy, Debug)]
struct Digit {
    /// Which of the free indices; none for the offset within a tile.
    of: Option<usize>,
    weight: i64,
    /// How many values it has.
    size: i64,
}

/// `constant + sum of coefficients * digits`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Linear {
    constant: i64,
    digits: BTreeMap<usize, i64>,
}

impl Linear {
    fn add(&mut self, other: &Linear, times: i64) -> Option<()> {
        self.constant = self.constant.checked_add(other.constant.checked_mul(times)?)?;
        for (digit, coefficient) in &other.digits {
            let slot = self.digits.entry(*digit).or_default();
            *slot = slot.checked_add(coefficient.checked_mul(times)?)?;
        }
        self.digits.retain(|_, c| *c != 0);
        Some(())
    }
}

/// The search in one launch.
struct Search<'s, 'w, 'k> {
    walk: &'w Walk<'k>,
    store: &'s Touch,
    indices: &'s Indices<'w>,
    launch: &'s Launch,
    values: Values,
}

impl Search<'_, '_, '_> {
    fn run(&self, direction: &[i64]) -> Option<Meeting> {
        let starts: Vec<Poly> = match &self.store.region {
            Region::Element(indices) | Region::Tile(indices, _) => indices.clone(),
            Region::Whole => vec![],
        };
        // The greatest value of each free index; one that depends on others stays at its first.
        let cx = &self.walk.cx;
        let most: Vec<i64> = self.indices.free.iter().map(|r| self.values.eval(cx, &r.hi).unwrap_or(0)).collect();
        if most.iter().any(|m| *m < 0) {
            return None;
        }
        let mut digits = self.digits(&starts, &most)?;
        let sides = [0, 1].map(|side| {
            let mut values = self.values.clone();
            for (range, d) in self.indices.blocks.iter().zip(direction) {
                values.set(range.sym, (if *d < 0 { 1 } else { 0 }) + side * d);
            }
            values
        });
        let mut axes: Vec<Linear> = Vec::new();
        for (axis, start) in starts.iter().enumerate() {
            let [a, b] = [0, 1].map(|side: usize| self.linear(start, &sides[side], &digits));
            let (a, mut b) = (a?, b?);
            if a.digits != b.digits {
                return None;
            }
            b.constant = b.constant.checked_sub(a.constant)?;
            if let Region::Tile(_, sizes) = &self.store.region {
                digits.push(Digit { of: None, weight: 1, size: *sizes.get(axis)? });
                b.digits.insert(digits.len() - 1, 1);
            }
            axes.push(b);
        }
        let used: BTreeSet<usize> = axes.iter().flat_map(|a| a.digits.keys().copied()).collect();
        let mut order: Vec<usize> = used.into_iter().collect();
        let greatest = |d: usize| axes.iter().map(|a| a.digits.get(&d).map_or(0, |c| c.abs())).max().unwrap_or(0);
        order.sort_by_key(|d| std::cmp::Reverse(greatest(*d)));
        let mut solver = Solver { axes: &axes, digits: &digits, order: &order, fuel: FUEL, tries: TRIES };
        let mut differences = vec![0; digits.len()];
        let targets: Vec<i64> = axes.iter().map(|a| a.constant).collect();
        solver.solve(0, &targets, &mut differences, &mut |differences| {
            [false, true].into_iter().find_map(|high| self.meets(&sides, &digits, differences, high, &most))
        })
    }

    /// The digits of the free indices, as the divisors in the index cut them.
    fn digits(&self, starts: &[Poly], most: &[i64]) -> Option<Vec<Digit>> {
        let mut divisors: Vec<BTreeSet<i64>> = vec![BTreeSet::from([1]); most.len()];
        let mut pending: Vec<Sym> = starts.iter().flat_map(Poly::syms).collect();
        let mut seen = BTreeSet::new();
        while let Some(sym) = pending.pop() {
            if !seen.insert(sym) {
                continue;
            }
            if let Some((of, divisor)) = self.quotient(sym) {
                divisors[of].insert(divisor);
            }
            if let Definition::Floor(n, d) | Definition::Min(n, d) | Definition::Max(n, d) =
                &self.walk.cx.symbol(sym).definition
            {
                pending.extend(n.syms().chain(d.syms()));
            }
        }
        let mut digits = Vec::new();
        for (of, cuts) in divisors.iter().enumerate() {
            let cuts: Vec<i64> = cuts.iter().copied().collect();
            for (at, weight) in cuts.iter().enumerate() {
                let size = match cuts.get(at + 1) {
                    Some(next) if next % weight != 0 => return None,
                    Some(next) => (next / weight).min(most[of] / weight + 1),
                    None => most[of] / weight + 1,
                };
                digits.push(Digit { of: Some(of), weight: *weight, size });
            }
        }
        Some(digits)
    }

    /// The free index and the divisor that a symbol is the quotient of; an index itself is its quotient by 1.
    fn quotient(&self, sym: Sym) -> Option<(usize, i64)> {
        if let Some(of) = self.indices.free.iter().position(|r| r.sym == sym) {
            return Some((of, 1));
        }
        let Definition::Floor(n, d) = &self.walk.cx.symbol(sym).definition else { return None };
        let (of, inner) = self.quotient(n.as_sym()?)?;
        let divisor = inner.checked_mul(self.values.eval(&self.walk.cx, d).filter(|d| *d > 0)?)?;
        Some((of, divisor))
    }

    fn linear(&self, poly: &Poly, values: &Values, digits: &[Digit]) -> Option<Linear> {
        let mut sum = Linear::default();
        for (monomial, coefficient) in poly.terms() {
            let (mut times, mut factor) = (*coefficient, None);
            for sym in monomial.factors() {
                match values.eval(&self.walk.cx, &Poly::sym(sym)) {
                    Some(value) => times = times.checked_mul(value)?,
                    None if factor.is_none() => factor = Some(sym),
                    None => return None,
                }
            }
            match factor {
                None => sum.constant = sum.constant.checked_add(times)?,
                Some(sym) => sum.add(&self.linear_symbol(sym, digits)?, times)?,
            }
        }
        Some(sum)
    }

    fn linear_symbol(&self, sym: Sym, digits: &[Digit]) -> Option<Linear> {
        let (of, divisor) = self.quotient(sym)?;
        let mut linear = Linear::default();
        for (at, digit) in digits.iter().enumerate().filter(|(_, d)| d.of == Some(of) && d.weight >= divisor) {
            linear.digits.insert(at, digit.weight / divisor);
        }
        Some(linear)
    }

    /// The two points with these differences, as low or as high as they go, if both are executed and inside.
    fn meets(
        &self,
        sides: &[Values; 2],
        digits: &[Digit],
        differences: &[i64],
        high: bool,
        most: &[i64],
    ) -> Option<Meeting> {
        let cx = &self.walk.cx;
        let mut elements = Vec::new();
        let mut threads = [None; 2];
        for (side, values) in sides.iter().enumerate() {
            let at = |digit: usize| {
                let (d, size) = (differences[digit], digits[digit].size);
                let first = if high { size - 1 - d.max(0) } else { (-d).max(0) };
                first + side as i64 * d
            };
            let mut point = values.clone();
            for (of, range) in self.indices.free.iter().enumerate() {
                let value: i64 =
                    digits.iter().enumerate().filter(|(_, d)| d.of == Some(of)).map(|(i, d)| at(i) * d.weight).sum();
                if value > most[of] {
                    return None;
                }
                point.set(range.sym, value);
            }
            // Loops whose range depends on others have at least this iteration.
            for range in &self.indices.free {
                if point.eval(cx, &range.hi)? < point.eval(cx, &Poly::sym(range.sym))? {
                    return None;
                }
            }
            if point.reaches(cx, self.store) != Some(true) {
                return None;
            }
            let mut offsets = digits.iter().enumerate().filter(|(_, d)| d.of.is_none()).map(|(i, _)| at(i));
            let element: Vec<i64> = match &self.store.region {
                Region::Whole => vec![],
                Region::Element(indices) => indices.iter().map(|p| point.eval(cx, p)).collect::<Option<_>>()?,
                Region::Tile(start, _) => {
                    start.iter().map(|p| Some(point.eval(cx, p)? + offsets.next()?)).collect::<Option<_>>()?
                }
            };
            if !self.is_inside(&element) {
                return None;
            }
            elements.push(element);
            if matches!(self.store.region, Region::Element(_)) {
                threads[side] = super::thread_at(self.walk, &point);
            }
        }
        let blocks = [0, 1].map(|side: usize| {
            self.indices.blocks.iter().map(|r| sides[side].eval(cx, &Poly::sym(r.sym)).unwrap_or(0)).collect()
        });
        let element = elements.pop()?;
        (elements == [element.clone()]).then_some(Meeting { element, threads, blocks })
    }

    /// Whether the tensor has the element: what is outside is not stored.
    fn is_inside(&self, element: &[i64]) -> bool {
        let Place::Tensor(param) = self.store.place else { return false };
        let kernel = self.walk.kernel;
        let ParamKind::Tensor { shape, .. } = &kernel.params[param].kind else { return false };
        element.iter().zip(shape).all(|(index, extent)| {
            let extent = match extent {
                Extent::Dim(dim) => self.launch.dim(*dim),
                Extent::Fixed(e) => self.launch.value(kernel, *e),
            };
            extent.is_some_and(|extent| (0..extent).contains(index))
        })
    }
}

/// Integer solutions of `constant + sum of coefficient * difference = 0` on every axis, each difference within its digit.
struct Solver<'s> {
    axes: &'s [Linear],
    digits: &'s [Digit],
    /// The digits that occur, the weightiest first.
    order: &'s [usize],
    fuel: u32,
    tries: u32,
}

impl Solver<'_> {
    fn solve<T>(
        &mut self,
        depth: usize,
        targets: &[i64],
        differences: &mut Vec<i64>,
        accept: &mut dyn FnMut(&[i64]) -> Option<T>,
    ) -> Option<T> {
        if self.fuel == 0 || self.tries == 0 {
            return None;
        }
        self.fuel -= 1;
        let Some(&digit) = self.order.get(depth) else {
            if targets.iter().any(|t| *t != 0) {
                return None;
            }
            self.tries -= 1;
            return accept(differences);
        };
        // What the rest of the digits can still make up for, an axis each.
        let reach = |axis: &Linear| -> i64 {
            let rest = self.order[depth + 1..].iter();
            rest.map(|d| axis.digits.get(d).map_or(0, |c| c.abs().saturating_mul(self.digits[*d].size - 1)))
                .fold(0i64, i64::saturating_add)
        };
        let (mut lo, mut hi) = (1 - self.digits[digit].size, self.digits[digit].size - 1);
        for (axis, target) in self.axes.iter().zip(targets) {
            let (coefficient, reach) = (axis.digits.get(&digit).copied().unwrap_or(0), reach(axis));
            if coefficient == 0 {
                if target.abs() > reach {
                    return None;
                }
                continue;
            }
            // |target + coefficient * difference| <= reach
            let (a, b) = ((-reach).saturating_sub(*target), reach.saturating_sub(*target));
            let (a, b) = if coefficient > 0 { (a, b) } else { (b.saturating_neg(), a.saturating_neg()) };
            let size = coefficient.abs();
            lo = lo.max(-((-a).div_euclid(size)));
            hi = hi.min(b.div_euclid(size));
        }
        // Small differences first: neighbours make the plainer report.
        let mut choices: Vec<i64> = (lo..=hi).take(2 * self.fuel as usize + 1).collect();
        choices.sort_by_key(|d| d.abs());
        for difference in choices {
            let next: Option<Vec<i64>> = self
                .axes
                .iter()
                .zip(targets)
                .map(|(a, t)| t.checked_add(a.digits.get(&digit).copied().unwrap_or(0).checked_mul(difference)?))
                .collect();
            let Some(next) = next else { continue };
            differences[digit] = difference;
            if let Some(found) = self.solve(depth + 1, &next, differences, accept) {
                return Some(found);
            }
        }
        differences[digit] = 0;
        None
    }
}

fn report(walk: &Walk<'_>, store: &Touch, indices: &Indices<'_>, meeting: &Meeting, launch: &Launch) -> Diagnostic {
    let kernel = walk.kernel;
    let name = kernel.place_name(store.place);
    let shown: Vec<String> = meeting.element.iter().map(i64::to_string).collect();
    let element = match shown.as_slice() {
        [] => format!("all of `{name}`"),
        [one] => format!("{name}[{one}]"),
        all => format!("{name}[[{}]]", all.join(", ")),
    };
    let differ = |side: usize| {
        let named = indices.blocks.iter().enumerate().filter(|(i, _)| meeting.blocks[0][*i] != meeting.blocks[1][*i]);
        named
            .map(|(i, r)| format!("{} = {}", kernel.vars[r.var].name, meeting.blocks[side][i]))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let who = |side: usize| match meeting.threads[side] {
        Some(thread) => format!("thread {thread} of the block at {}", differ(side)),
        None => format!("the block at {}", differ(side)),
    };
    let at = format!("{} and {} both store {element}", who(0), who(1));
    let dims = launch.shown(kernel);
    let message = format!("blocks race on `{name}`: neighbouring blocks store the same elements");
    let diagnostic = Diagnostic::new(Code::GLOBAL_RACE, store.span, message).at(at);
    let diagnostic = if dims.is_empty() {
        diagnostic
    } else {
        diagnostic.note(format!("at {dims}, as at every launch with more than one block"))
    };
    diagnostic.help(format!("let each block have elements of `{name}` of its own, or use an atomic"))
}
