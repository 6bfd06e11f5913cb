//! Barriers and collectives stand under control that their threads share.

use super::parallel::reads_memory;
use super::point::Point;
use super::walk::Walk;
use crate::analysis::assignment::Assignment;
use crate::constraint::{Cond, Poly, Varies};
use crate::diag::{Code, Diagnostic};
use crate::ir::{AccessId, Effect, ExprId, Place, Scope, ShuffleKind, StmtId, StmtKind, TileOp, VarId, effects};

/// Reports a barrier or collective that not every thread of its block or warp reaches.
pub(super) fn check(walk: &mut Walk<'_>, stmt: StmtId) {
    let kinds = effects(walk.kernel, stmt);
    partial_warp(walk, stmt);
    let block = kinds.contains(&Effect::BlockCollective);
    if !block && !kinds.contains(&Effect::WarpCollective) {
        return;
    }
    let diverges = |c: &&super::walk::Control| {
        let differs = if block { c.varies.threads != 0 } else { c.varies.threads != 0 && c.varies.warp };
        differs && (block || !c.cond.as_ref().is_some_and(|cond| warp_uniform(walk, cond)))
    };
    let Some(control) = walk.control.iter().find(diverges).cloned() else { return };
    let fragment = kinds.iter().any(|e| {
        matches!(e, Effect::Cooperative(Place::Buffer(b))
        if walk.kernel.buffers[*b].scope == Scope::Fragment)
    });
    let kind = &walk.kernel.stmts[stmt].kind;
    let array = if fragment { "a fragment" } else { "a shared array" };
    let mut name = kind.name().to_owned();
    if matches!(kind, StmtKind::Tile(TileOp::Copy { .. })) {
        name.push_str(&format!(" with {array}"));
    } else if matches!(kind, StmtKind::Tile(TileOp::Fill { .. })) {
        name.push_str(&format!(" of {array}"));
    } else if matches!(kind, StmtKind::For { .. }) {
        name.push_str(" with loads into shared memory");
    }
    let group = if block { "every thread" } else { "every thread of the warp" };
    let span = walk.kernel.stmts[stmt].span;
    let arrived = arrivals(walk, block);
    let at = arrived.unwrap_or_else(|| "how many threads arrive is not known here".into());
    let (label, help) = match control.cond {
        Some(_) => ("threads may disagree on this condition", "move it out of the `if`, so that all threads reach it"),
        None => (
            "threads may disagree on the number of iterations",
            "give every thread the same number of iterations, and guard the work inside with an `if`",
        ),
    };
    let diagnostic = Diagnostic::new(Code::DIVERGENT_BARRIER, span, format!("{name} not reached by {group}"))
        .at(at)
        .label(control.span, label)
        .help(help);
    walk.analysis.diagnostics.push(diagnostic);
}

/// Lanes of a warp.
const WARP: i64 = 32;

/// Reports an exchange between all lanes of a warp in a block whose last warp has fewer.
fn partial_warp(walk: &mut Walk<'_>, stmt: StmtId) {
    let kernel = walk.kernel;
    let kind = &kernel.stmts[stmt].kind;
    let name = if let StmtKind::Shuffle { kind, .. } = kind {
        kind.name()
    } else if let StmtKind::Reduce { axis: None, .. } = kind {
        "warp_reduce"
    } else {
        return;
    };
    let threads = i64::from(kernel.thread_count());
    let last = threads % WARP;
    if last == 0 {
        return;
    }
    let message = format!("`{name}` in a block of {threads} threads, whose last warp has {last} of {WARP} lanes");
    let mut diagnostic = Diagnostic::new(Code::DIVERGENT_BARRIER, kernel.stmts[stmt].span, message)
        .at(format!("it reads lanes that do not exist: {} of them", WARP - last))
        .help("use a multiple of 32 threads, or `thread_allreduce`, which any number of threads may take part in");
    if let Some(axis) = kernel.threads.first() {
        diagnostic = diagnostic.label(axis.span, format!("{threads} threads"));
    }
    walk.analysis.diagnostics.push(diagnostic);
}

/// Meets the mask, distance or lane of a shuffle: there are 32 lanes.
pub(super) fn lane(walk: &mut Walk<'_>, stmt: StmtId, lane: ExprId) {
    let kernel = walk.kernel;
    let Some(value) = walk.eval_int(lane) else { return };
    let (least, most) = walk.cx.range(&value);
    if least.is_none_or(|least| least < WARP) && most.is_none_or(|most| most >= 0) {
        return;
    }
    let StmtKind::Shuffle { kind, .. } = &kernel.stmts[stmt].kind else { return };
    let (name, what) = (kind.name(), kind.operand());
    let found = match value.as_constant() {
        Some(value) => value.to_string(),
        None => format!("at least {}", least.unwrap_or(WARP)),
    };
    let message = format!("`{name}` with a {what} of {found}: a warp has {WARP} lanes");
    let diagnostic = Diagnostic::new(Code::ILLEGAL_OPERATION, kernel.exprs[lane].span, message)
        .at(match kind {
            ShuffleKind::Lane => "there is no such lane, and the hardware looks at five bits of it alone",
            _ => "no lane is so far away, and the hardware looks at five bits of it alone",
        })
        .help(format!("a {what} is 0 to 31; threads of other warps are reached through shared memory"));
    walk.analysis.diagnostics.push(diagnostic);
}

/// Meets a `last_arriver` that every block comes by once: the number it awaits is that of the blocks which share its
/// counter. Where the counter's indices are indices of the grid, those are the blocks along the other axes.
pub(super) fn awaited(walk: &mut Walk<'_>, stmt: StmtId, access: AccessId, count: ExprId) {
    let kernel = walk.kernel;
    let axes: Vec<(VarId, ExprId)> = match kernel.persistent() {
        Some(tiles) if tiles.body.contains(&stmt) => {
            tiles.vars.iter().copied().zip(tiles.extents.iter().copied()).collect()
        }
        None if kernel.body.contains(&stmt) => kernel.grid.iter().map(|a| (a.var, a.extent)).collect(),
        _ => return,
    };
    let mut named = Vec::new();
    if kernel.accesses[access].indices.iter().chain([&count]).any(|e| reads_memory(kernel, *e)) {
        return;
    }
    for &index in &kernel.accesses[access].indices {
        let Some(index) = walk.eval_int(index) else { return };
        let axis = index.as_sym().and_then(|sym| walk.ranged.iter().find(|r| r.sym == sym)).map(|r| r.var);
        match axis.filter(|var| axes.iter().any(|(axis, _)| axis == var)) {
            Some(var) => named.push(var),
            // This index names one counter for all blocks.
            None if walk.cx.varies(&index) == Varies::default() && !walk.cx.is_data(&index) => {}
            None => return,
        }
    }
    let others: Vec<ExprId> = axes.iter().filter(|(var, _)| !named.contains(var)).map(|(_, e)| *e).collect();
    let blocks = others.iter().try_fold(Poly::constant(1), |all, e| all.times(&walk.eval_int(*e)?));
    let (Some(blocks), Some(found)) = (blocks, walk.eval_int(count)) else { return };
    let Some(difference) = found.minus(&blocks) else { return };
    match difference.as_constant() {
        Some(0) => {}
        Some(by) => {
            let name = kernel.place_name(kernel.accesses[access].place);
            let text = match (found.as_constant(), blocks.as_constant()) {
                (Some(found), Some(blocks)) => format!("it awaits {found} blocks, and {blocks} come"),
                _ => format!("it awaits {} {} than come", by.abs(), if by > 0 { "more" } else { "fewer" }),
            };
            let what = if by > 0 { "never answers true" } else { "answers true before all blocks have come" };
            let message = format!("`last_arriver` {what}: {text}");
            let diagnostic = Diagnostic::new(Code::ARRIVALS, kernel.exprs[count].span, message)
                .at(format!("its counter `{name}` is shared by the blocks along the axes that its index does not name"))
                .help("await as many blocks as the grid has along those axes");
            walk.analysis.diagnostics.push(diagnostic);
        }
        None => walk.analysis.arrivals.push((count, others)),
    }
}

/// Reports a counter of `last_arriver`, or the number it awaits, on which the threads of a block disagree.
pub(super) fn agreed(walk: &mut Walk<'_>, access: AccessId, count: ExprId) {
    let kernel = walk.kernel;
    let mut named = kernel.accesses[access].indices.iter().chain([&count]);
    let Some(index) = named.find(|e| walk.uniform.expr(kernel, **e).threads != 0) else { return };
    let message = "last_arriver: the threads of the block disagree about this";
    let diagnostic = Diagnostic::new(Code::PLACEMENT, kernel.exprs[*index].span, message)
        .at("the block arrives once, at one counter")
        .help("make it of constants, dims and block indices");
    walk.analysis.diagnostics.push(diagnostic);
}

/// Reports a counter of tiles that is not the same element for whoever counts.
pub(super) fn counter_of_tiles(walk: &mut Walk<'_>, access: AccessId) {
    let kernel = walk.kernel;
    let mut indices = kernel.accesses[access].indices.iter();
    let Some(index) = indices.find(|e| kernel.const_index(**e).is_none()) else { return };
    let message = "the tiles of a `persistent` loop are counted in one element";
    let diagnostic = Diagnostic::new(Code::PLACEMENT, kernel.exprs[*index].span, message)
        .at("this is no constant")
        .help("count in an element of a workspace: `.counter(&mut next[0])`");
    walk.analysis.diagnostics.push(diagnostic);
}

/// Reports a loop whose iterations the block takes together and whose number threads may disagree on.
pub(super) fn iterations(walk: &mut Walk<'_>, stmt: StmtId, varies: Varies) {
    if varies.threads == 0 || !effects(walk.kernel, stmt).contains(&Effect::BlockCollective) {
        return;
    }
    let message = "threads may disagree on the number of iterations";
    let diagnostic = Diagnostic::new(Code::DIVERGENT_BARRIER, walk.kernel.stmts[stmt].span, message)
        .at("each iteration of a pipelined loop with loads into shared memory has a barrier of the compiler's")
        .help("give every thread the same number of iterations, and guard the work inside with an `if`");
    walk.analysis.diagnostics.push(diagnostic);
}

/// How many threads arrive, if the conditions around are about thread indices only.
fn arrivals(walk: &Walk<'_>, block: bool) -> Option<String> {
    let points = threads(walk, walk.control.iter().map(|c| c.cond.as_ref()))?;
    let arrives =
        |p: &Point| walk.control.iter().filter_map(|c| c.cond.as_ref()).all(|c| p.holds(&walk.cx, c) == Some(true));
    let here: Vec<bool> = points.iter().map(arrives).collect();
    if block {
        let count = here.iter().filter(|h| **h).count();
        return Some(format!("{count} of {} threads arrive", here.len()));
    }
    let partial = here.chunks(32).enumerate().find(|(_, w)| w.contains(&true) && w.contains(&false));
    let (warp, lanes) = partial?;
    let count = lanes.iter().filter(|h| **h).count();
    Some(format!("{count} of {} threads of warp {warp} arrive", lanes.len()))
}

/// The block's threads in linear order, if all these conditions are known and about thread indices only.
fn threads<'c>(walk: &Walk<'_>, conds: impl Iterator<Item = Option<&'c Cond>>) -> Option<Vec<Point>> {
    let mut leaves = Vec::new();
    for cond in conds {
        if !walk.cond_leaves(cond?, &mut leaves) {
            return None;
        }
    }
    let axes: Vec<_> = walk.kernel.threads.iter().map(|a| a.var).collect();
    let syms: Vec<_> = walk.ranged.iter().filter(|r| axes.contains(&r.var)).map(|r| r.sym).collect();
    if leaves.iter().any(|l| !syms.contains(l)) {
        return None;
    }
    walk.points(&syms, 1024)
}

/// Whether a condition about thread indices is the same for all threads of each warp.
pub(super) fn warp_uniform(walk: &Walk<'_>, cond: &Cond) -> bool {
    let Some(points) = threads(walk, std::iter::once(Some(cond))) else { return false };
    let values: Vec<Option<bool>> = points.iter().map(|p| p.holds(&walk.cx, cond)).collect();
    values.chunks(32).all(|warp| warp.iter().all(|v| v.is_some() && *v == warp[0]))
}
