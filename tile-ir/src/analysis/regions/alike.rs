//! Stores that every block along an axis of the grid makes alike: no index of the store, no condition and no loop around it
//! depends on the block's index there. Blocks run in no order, so such a store is a race wherever there is more than one
//! block, whatever is stored: two writes of one value are a race, too.
//!
//! It is told while typing where it certainly happens: at a launch that the `require`s admit, with two blocks along the axis,
//! some thread of which comes to the store. Where a scalar parameter decides whether it is executed, or whether indices of
//! several blocks are clamped to one, the launch checks it ([`needs`]).

use super::launches::{Launch, is_of_scalars};
use super::points::Values;
use super::{Kind, LoopForm, Region, Touch};
use crate::analysis::BlockNeed;
use crate::analysis::assignment::Assignment;
use crate::analysis::walk::{Ranged, Walk};
use crate::constraint::{Cond, Definition, Poly, Sym};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BinaryOp, Extent, ParamKind, Place};
use crate::lowered::HostExpr;
use std::ops::ControlFlow;

/// Points of threads that are tried.
const POINTS: u64 = 1024;
/// Launch checks of one kernel.
const NEEDS: usize = 16;

/// An axis along which a launch has blocks, or tiles of a `persistent` loop.
struct Axis<'w> {
    range: &'w Ranged,
    /// Its bit in [`Varies::blocks`](crate::constraint::Varies).
    bit: u8,
}

/// The axes of the blocks, or of the tiles, that execute a store.
fn axes<'w>(walk: &'w Walk<'_>, store: &Touch) -> Vec<Axis<'w>> {
    let mut all = Vec::new();
    for (at, binding) in walk.kernel.grid.iter().enumerate().take(3) {
        all.extend(walk.ranged.iter().find(|r| r.var == binding.var).map(|range| Axis { range, bit: 1 << at }));
    }
    for loop_ in walk.regions.within(store.around, None) {
        let loop_ = &walk.regions.loops[loop_];
        if loop_.kind == LoopForm::Persistent {
            all.extend(loop_.ranged.iter().enumerate().take(3).map(|(at, range)| Axis { range, bit: 1 << at }));
        }
    }
    all
}

/// Along which axes blocks do something else, or do it elsewhere. What `clamped` adds to an index is left out.
fn varies(walk: &Walk<'_>, store: &Touch, clamped: Option<Sym>) -> u8 {
    let of = |poly: &Poly| poly.syms().filter(|s| Some(*s) != clamped).fold(0, |all, s| all | blocks_of(walk, s));
    let indices: &[Poly] = match &store.region {
        Region::Whole => &[],
        Region::Element(indices) | Region::Tile(indices, _) => indices,
    };
    let place = indices.iter().fold(0, |all, p| all | of(p));
    let path = store.path.iter().fold(0, |all, cond| all | cond_blocks(walk, cond));
    let loops = walk.regions.within(store.around, None).into_iter().map(|at| &walk.regions.loops[at]);
    // That a block has as many tiles as there are for it is no condition on a tile.
    let loops = loops.filter(|l| l.kind != LoopForm::Persistent).fold(0, |all, l| all | l.varies.blocks);
    place | path | loops
}

fn blocks_of(walk: &Walk<'_>, sym: Sym) -> u8 {
    walk.regions.arrivals.get(&sym).copied().unwrap_or_else(|| walk.cx.symbol(sym).varies.blocks)
}

fn cond_blocks(walk: &Walk<'_>, cond: &Cond) -> u8 {
    match cond {
        Cond::True | Cond::False => 0,
        Cond::NonNeg(p) | Cond::Zero(p) | Cond::NonZero(p) => p.syms().fold(0, |all, s| all | blocks_of(walk, s)),
        Cond::And(a, b) | Cond::Or(a, b) => cond_blocks(walk, a) | cond_blocks(walk, b),
        Cond::Unknown(varies) => varies.blocks,
    }
}

/// A store that all blocks along an axis make alike, at a launch at which they certainly do.
pub(super) fn check(walk: &Walk<'_>, store: &Touch, launches: &[Launch]) -> Option<Diagnostic> {
    let varies = varies(walk, store, None);
    let axes = axes(walk, store);
    let alike: Vec<&Axis<'_>> = axes.iter().filter(|axis| varies & axis.bit == 0).collect();
    let axis = alike.into_iter().find(|axis| launches.iter().any(|l| happens(walk, store, &axes, axis, l)))?;
    let (name, index) = (walk.kernel.place_name(store.place), &walk.kernel.vars[axis.range.var].name);
    let is_tile = !walk.kernel.grid.iter().any(|a| a.var == axis.range.var);
    let who = if is_tile { "tile" } else { "block" };
    let message = format!("blocks race on `{name}`: every {who} along `{index}` stores the same elements");
    let diagnostic = Diagnostic::new(Code::GLOBAL_RACE, store.span, message)
        .at(format!("neither the index nor a condition around it depends on `{index}`"));
    Some(diagnostic.help(format!(
        "index `{name}` by `{index}`, put `if {index} == 0 {{ .. }}` around the store, or use an atomic"
    )))
}

/// Whether a launch has two blocks along the axis, and some thread of each comes to the store, as far as the launch and the
/// thread alone decide.
fn happens(walk: &Walk<'_>, store: &Touch, axes: &[Axis<'_>], axis: &Axis<'_>, launch: &Launch) -> bool {
    let cx = &walk.cx;
    let mut values = launch.values(walk);
    if values.eval(cx, &axis.range.hi).is_none_or(|last| last < 1) {
        return false;
    }
    for other in axes {
        if values.eval(cx, &other.range.hi).is_none_or(|last| last < 0) {
            return false;
        }
        values.set(other.range.sym, 0);
    }
    // The first iteration of each loop, if there is one.
    for at in walk.regions.within(store.around, None) {
        let loop_ = &walk.regions.loops[at];
        if loop_.kind == LoopForm::Persistent {
            continue;
        }
        if loop_.ranged.is_empty() {
            return false;
        }
        for range in &loop_.ranged {
            if values.eval(cx, &range.hi).is_none_or(|last| last < 0) {
                return false;
            }
            values.set(range.sym, 0);
        }
    }
    let mut leaves = super::points::leaves(walk, store);
    // Who comes last at a counter does, one block for each counter.
    let arrives = |cond: &Cond| matches!(cond, Cond::NonZero(p) if p.as_sym().is_some_and(|s| walk.regions.arrivals.contains_key(&s)));
    let mut conditions = Vec::new();
    for cond in store.path.iter().filter(|cond| !arrives(cond)) {
        let mut of = Vec::new();
        if !walk.cond_leaves(cond, &mut of) || of.iter().any(|s| is_of_scalars(walk, *s)) {
            return false;
        }
        conditions.push(cond);
    }
    leaves.retain(|sym| !walk.regions.arrivals.contains_key(sym));
    let threads = walk.ranged.iter().filter(|r| walk.kernel.threads.iter().any(|t| t.var == r.var));
    let Some(points) = super::points::ranges(threads, &leaves, POINTS) else { return false };
    let reached = values.each(&points, &mut |point| {
        let here =
            conditions.iter().all(|cond| point.holds(cx, cond) == Some(true)) && inside(walk, store, launch, point);
        if here { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    reached.is_break()
}

/// Whether the tensor has the first of the elements, as far as it is known which that is: what is outside is not stored.
fn inside(walk: &Walk<'_>, store: &Touch, launch: &Launch, point: &Values) -> bool {
    let Place::Tensor(param) = store.place else { return false };
    let ParamKind::Tensor { shape, .. } = &walk.kernel.params[param].kind else { return false };
    let (indices, sizes): (&[Poly], &[i64]) = match &store.region {
        Region::Whole => return true,
        Region::Element(indices) => (indices, &[]),
        Region::Tile(indices, sizes) => (indices, sizes),
    };
    indices.iter().zip(shape).enumerate().all(|(axis, (index, extent))| {
        let extent = match extent {
            Extent::Dim(dim) => launch.dim(*dim),
            Extent::Fixed(e) => launch.value(walk.kernel, *e),
        };
        let size = sizes.get(axis).copied().unwrap_or(1);
        match (point.eval(&walk.cx, index), extent) {
            (Some(index), Some(extent)) => index < extent && index > -size,
            (None, Some(extent)) => extent > 0,
            (_, None) => false,
        }
    })
}

/// What the launch checks: that no two blocks along an axis make a store alike, where scalar parameters decide it, or come to one counter of
/// `last_arriver` because its index is clamped: that counter awaits no more blocks than the others do.
pub(super) fn needs(walk: &mut Walk<'_>) -> Vec<BlockNeed> {
    let mut all: Vec<BlockNeed> = Vec::new();
    for at in 0..walk.regions.touches.len() {
        let touch = &walk.regions.touches[at];
        let is_counter = walk.regions.counters.contains(&at);
        let is_store = touch.kind == Kind::Write && matches!(touch.place, Place::Tensor(_));
        if !(is_store || is_counter) || all.len() >= NEEDS {
            continue;
        }
        let touch = touch.clone();
        // Only what the launch decides, and what some thread decides alone; anything else is the simulator's matter.
        let Some(path) = launch_conditions(walk, &touch) else { continue };
        for (range, bit) in axes(walk, &touch).into_iter().map(|a| (a.range.clone(), a.bit)).collect::<Vec<_>>() {
            let meeting = if varies(walk, &touch, None) & bit != 0 {
                clamped(walk, &touch, &range, bit)
            } else {
                // Without a scalar parameter it is an error already, or never so.
                (is_store && path.by_scalars).then_some(HostExpr::Int(1))
            };
            let Some(meeting) = meeting else { continue };
            let Some(last) = walk.host(&range.hi) else { continue };
            let several = HostExpr::binary(BinaryOp::Ge, last, HostExpr::Int(1));
            let both = |a, b| HostExpr::binary(BinaryOp::And, a, b);
            let meets = path.conditions.iter().cloned().fold(both(several, meeting), both);
            let (name, index) = (walk.kernel.place_name(touch.place), &walk.kernel.vars[range.var].name);
            let text = match is_counter {
                true => format!("no two blocks along `{index}` count at one element of `{name}` by a clamp"),
                false => format!("no two blocks along `{index}` store the same elements of `{name}`"),
            };
            let need = BlockNeed { holds: HostExpr::Not(Box::new(meets)), text, span: touch.span };
            if !all.contains(&need) {
                all.push(need);
            }
        }
    }
    all
}

/// The conditions on the way to a store that the launch decides.
struct Conditions {
    conditions: Vec<HostExpr>,
    by_scalars: bool,
}

/// None where data, or a number of iterations that is not a constant, have a say.
fn launch_conditions(walk: &Walk<'_>, store: &Touch) -> Option<Conditions> {
    for at in walk.regions.within(store.around, None) {
        let loop_ = &walk.regions.loops[at];
        let known = |r: &Ranged| loop_.kind == LoopForm::Persistent || r.hi.as_constant().is_some_and(|hi| hi >= 0);
        if loop_.ranged.is_empty() || !loop_.ranged.iter().all(known) {
            return None;
        }
    }
    let mut all = Conditions { conditions: vec![], by_scalars: false };
    for cond in store.path.iter() {
        let mut leaves = Vec::new();
        if !walk.cond_leaves(cond, &mut leaves) || !leaves.iter().all(|s| walk.hosts.contains_key(s)) {
            return None;
        }
        all.by_scalars |= leaves.iter().any(|s| is_of_scalars(walk, *s));
        all.conditions.push(host_cond(walk, cond)?);
    }
    Some(all)
}

fn host_cond(walk: &Walk<'_>, cond: &Cond) -> Option<HostExpr> {
    let zero = |op, p: &Poly| Some(HostExpr::binary(op, walk.host(p)?, HostExpr::Int(0)));
    match cond {
        Cond::True => Some(HostExpr::Int(1)),
        Cond::False => Some(HostExpr::Int(0)),
        Cond::NonNeg(p) => zero(BinaryOp::Ge, p),
        Cond::Zero(p) => zero(BinaryOp::Eq, p),
        Cond::NonZero(p) => zero(BinaryOp::Ne, p),
        Cond::And(a, b) => Some(HostExpr::binary(BinaryOp::And, host_cond(walk, a)?, host_cond(walk, b)?)),
        Cond::Or(a, b) => Some(HostExpr::binary(BinaryOp::Or, host_cond(walk, a)?, host_cond(walk, b)?)),
        Cond::Unknown(_) => None,
    }
}

/// Where blocks along an axis differ only in an index that is clamped from above: whether the last two are clamped both.
fn clamped(walk: &mut Walk<'_>, store: &Touch, range: &Ranged, bit: u8) -> Option<HostExpr> {
    let indices = match &store.region {
        Region::Whole => return None,
        Region::Element(indices) | Region::Tile(indices, _) => indices.clone(),
    };
    let mut indices = indices.iter().filter(|p| walk.cx.varies(p).blocks & bit != 0);
    let (index, None) = (indices.next()?, indices.next()) else { return None };
    let mut moving = index.clone();
    let mut outermost = None;
    loop {
        let syms: Vec<Sym> = moving.syms().filter(|s| walk.cx.symbol(*s).varies.blocks & bit != 0).collect();
        let [sym] = syms[..] else { return None };
        // Elsewhere blocks along the axis are to do the same.
        if outermost.is_none() {
            outermost = Some(sym);
            if varies(walk, store, outermost) & bit != 0 {
                return None;
            }
        }
        let Definition::Min(a, b) = walk.cx.symbol(sym).definition.clone() else { return None };
        let (value, most) = if walk.is_launch(&b) { (a, b) } else { (b, a) };
        if !walk.is_launch(&most) {
            return None;
        }
        let (mut by, mut rest) = (Poly::default(), Poly::default());
        for (m, c) in value.terms() {
            match m.power(range.sym) {
                0 => rest = rest.plus(&Poly::constant(*c).times_term(m, 1)?)?,
                1 => by = by.plus(&Poly::constant(*c).times_term(&m.without(range.sym), 1)?)?,
                _ => return None,
            }
        }
        if by == Poly::default() {
            moving = value;
            continue;
        }
        if walk.cx.varies(&rest).blocks & bit != 0 || !walk.is_launch(&by) {
            return None;
        }
        let last = corner(walk, &value)?.minus(&by)?;
        let distance = walk.host(&last.minus(&most)?)?;
        return Some(HostExpr::binary(BinaryOp::Ge, distance, HostExpr::Int(0)));
    }
}

/// The value in the last block along every axis, of a value that grows with all of their indices, and of nothing else but what
/// the launcher knows.
fn corner(walk: &mut Walk<'_>, poly: &Poly) -> Option<Poly> {
    let mut sum = Poly::default();
    for (monomial, coefficient) in poly.terms() {
        let mut term = Poly::constant(*coefficient);
        let grows = *coefficient > 0 && monomial.factors().all(|s| walk.cx.symbol(s).lo.is_some_and(|lo| lo >= 0));
        for factor in monomial.factors() {
            let value = if walk.is_launch(&Poly::sym(factor)) {
                Poly::sym(factor)
            } else {
                if !grows {
                    return None;
                }
                let definition = walk.cx.symbol(factor).definition.clone();
                let is_block = |r: &&Ranged| r.sym == factor && walk.kernel.grid.iter().any(|a| a.var == r.var);
                match (walk.ranged.iter().find(is_block), definition) {
                    (Some(range), _) => range.hi.clone(),
                    (None, Definition::Min(a, b)) => {
                        let (a, b) = (corner(walk, &a)?, corner(walk, &b)?);
                        walk.cx.min(&a, &b)
                    }
                    _ => return None,
                }
            };
            term = term.times(&value)?;
        }
        sum = sum.plus(&term)?;
    }
    Some(sum)
}
