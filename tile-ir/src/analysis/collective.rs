//! Barriers and collectives stand under control that their threads share.

use super::point::Point;
use super::walk::Walk;
use crate::constraint::{Cond, Varies};
use crate::diag::{Code, Diagnostic};
use crate::ir::{AccessId, Effect, ExprId, Place, Scope, StmtId, StmtKind, effects};

/// Reports a barrier or collective that not every thread of its block or warp reaches.
pub(super) fn check(walk: &mut Walk<'_>, stmt: StmtId) {
    let kinds = effects(walk.kernel, stmt);
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
    let name = match &walk.kernel.stmts[stmt].kind {
        StmtKind::SyncThreads => "barrier",
        StmtKind::SyncWarp => "`sync_warp`",
        StmtKind::LastArriver { .. } => "`last_arriver`",
        StmtKind::Reduce { axis: Some(_), .. } => "`thread_allreduce`",
        StmtKind::Reduce { .. } => "`warp_reduce`",
        StmtKind::ReduceTile { .. } => "`reduce`",
        StmtKind::ClusterReduce { .. } => "`cluster_reduce`",
        StmtKind::Shuffle { .. } => "shuffle",
        StmtKind::Vote { .. } => "vote",
        StmtKind::Copy { .. } if fragment => "`copy` with a fragment",
        StmtKind::Copy { .. } => "`copy` with a shared array",
        StmtKind::Fill { .. } if fragment => "`fill` of a fragment",
        StmtKind::Fill { .. } => "`fill` of a shared array",
        StmtKind::For { .. } => "`pipelined` loop with loads into shared memory",
        StmtKind::Gemm { .. } => "`gemm`",
        _ => "`parallel` loop",
    };
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
