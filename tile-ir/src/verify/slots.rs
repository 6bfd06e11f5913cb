//! What the arrays of pipelined loops hold outside of them. A loop keeps a slot for each stage of an array that it loads ahead,
//! and which of them the last iteration used is not known: after the loop the array holds nothing.
//!
//! - In a loop that loads an array ahead nothing but the loads writes it: the compiler orders the loads with the rest, and nothing
//!   within the rest.
//! - An array that every pipelined loop that loads it fills whole, in every iteration, may be used for something else around
//!   these loops. After such a loop it is written before it is read.
//! - Any other array that is loaded ahead, per-thread arrays among them, is touched by one pipelined loop alone: what its loads
//!   leave as it is stands in one slot and not in the others. So are all arrays of loops without products
//!   ([`super::pipeline`]).

use super::pipeline::is_tile_pipeline;
use crate::diag::{Code, Diagnostic};
use crate::ir::parts::{alike, each, parts, roots};
use crate::ir::pipeline::split;
use crate::ir::{
    BufferId, Effect, ExprId, ExprKind, Kernel, LoopKind, Place, SpanId, StmtId, StmtKind, TileOp, VarId, effects,
};
use std::collections::{BTreeMap, BTreeSet};

/// A pipelined loop that loads an array ahead.
struct Ring<'k> {
    stmt: StmtId,
    /// What follows the loads.
    rest: &'k [StmtId],
    /// Whether the loads fill all of the array.
    whole: bool,
}

/// Reports what touches the arrays of pipelined loops of products where it may not.
pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let mut rings: BTreeMap<BufferId, Vec<Ring<'_>>> = BTreeMap::new();
    each(kernel, &kernel.body, &mut |stmt| {
        let StmtKind::For { var, kind: LoopKind::Pipelined { .. }, body, .. } = &kernel.stmts[stmt].kind else {
            return;
        };
        if !is_tile_pipeline(kernel, body) {
            return;
        }
        let split = split(kernel, *var, body);
        for &buffer in &split.buffers {
            let whole = split.fills_whole(kernel, body, buffer);
            rings.entry(buffer).or_default().push(Ring { stmt, rest: &body[split.loads..], whole });
        }
    });
    for (buffer, rings) in rings {
        if let Some(ring) = rings.iter().find(|ring| !ring.whole) {
            alone(kernel, ring.stmt, ring.rest, buffer, all);
            continue;
        }
        rings.iter().for_each(|ring| unwritten(kernel, ring.stmt, ring.rest, buffer, all));
        let mut reads = Reads { kernel, buffer, rings: rings.iter().map(|ring| ring.stmt).collect(), found: None };
        reads.block(&kernel.body, None);
        if let Some((read, ring)) = reads.found {
            let message = format!("`{}` is read after a pipelined loop that loads it", kernel.buffers[buffer].name);
            let help = "fill it again before it is read, or read another array: the loop keeps a copy of it for each stage, and \
                        none of them is the array's after the loop";
            let diagnostic = Diagnostic::new(Code::PLACEMENT, read, message);
            all.push(diagnostic.label(kernel.stmts[ring].span, "the pipelined loop").help(help));
        }
    }
}

/// Reports what follows the loads of a pipelined loop in its body, its `rest`, and writes an array that they fill.
fn unwritten(kernel: &Kernel, ring: StmtId, rest: &[StmtId], buffer: BufferId, all: &mut Vec<Diagnostic>) {
    let name = &kernel.buffers[buffer].name;
    let mut written = None;
    each(kernel, rest, &mut |s| {
        let place = Place::Buffer(buffer);
        if effects(kernel, s).iter().any(|e| [Effect::Write(place), Effect::Atomic(place)].contains(e)) {
            written.get_or_insert(kernel.stmts[s].span);
        }
    });
    if let Some(written) = written {
        let message = format!("`{name}` holds loads that are issued ahead: only they may write it");
        let help = "compute into another array";
        let diagnostic = Diagnostic::new(Code::PLACEMENT, written, message);
        all.push(diagnostic.label(kernel.stmts[ring].span, "the pipelined loop").help(help));
    }
}

/// Reports what else than the loads of a pipelined loop writes an array that they fill, and what uses it outside of the loop.
/// `rest`: what follows the loads.
pub(super) fn alone(kernel: &Kernel, ring: StmtId, rest: &[StmtId], buffer: BufferId, all: &mut Vec<Diagnostic>) {
    unwritten(kernel, ring, rest, buffer, all);
    let span = kernel.stmts[ring].span;
    let name = &kernel.buffers[buffer].name;
    let mut inside = BTreeSet::new();
    each(kernel, &[ring], &mut |s| _ = inside.insert(s));
    let mut outside = None;
    each(kernel, &kernel.body, &mut |s| {
        if !inside.contains(&s) && (reads(kernel, s, buffer) || writes(kernel, s, buffer)) {
            outside.get_or_insert(kernel.stmts[s].span);
        }
    });
    if let Some(outside) = outside {
        let message = format!("`{name}` is filled by a pipelined loop and used outside of it");
        let help = "use another array here: between iterations the loop keeps several copies of it";
        all.push(Diagnostic::new(Code::PLACEMENT, outside, message).label(span, "the pipelined loop").help(help));
    }
}

/// Whether a statement itself reads elements of an array.
fn reads(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    let place = Place::Buffer(buffer);
    let mut found =
        effects(kernel, stmt).iter().any(|e| matches!(e, Effect::Read(p) | Effect::Atomic(p) if *p == place));
    for root in roots(kernel, stmt) {
        parts(kernel, root, &mut |kind| {
            found |= matches!(kind, ExprKind::Load(a) if kernel.accesses[*a].place == place);
        });
    }
    found
}

/// Whether a statement itself writes elements of an array.
fn writes(kernel: &Kernel, stmt: StmtId, buffer: BufferId) -> bool {
    effects(kernel, stmt).contains(&Effect::Write(Place::Buffer(buffer)))
}

/// Follows the statements, in the order in which they are executed, for reads of an array while it holds nothing.
struct Reads<'k> {
    kernel: &'k Kernel,
    buffer: BufferId,
    /// The loops that load the array ahead.
    rings: BTreeSet<StmtId>,
    /// The first read, and the loop before it.
    found: Option<(SpanId, StmtId)>,
}

/// The loop since which the array has not been filled; `None` where it holds what the text says.
type Since = Option<StmtId>;

impl Reads<'_> {
    fn block(&mut self, body: &[StmtId], since: Since) -> Since {
        body.iter().fold(since, |since, stmt| self.stmt(*stmt, since))
    }

    fn stmt(&mut self, stmt: StmtId, since: Since) -> Since {
        let kernel = self.kernel;
        if let Some(ring) = since
            && reads(kernel, stmt, self.buffer)
        {
            self.found.get_or_insert((kernel.stmts[stmt].span, ring));
        }
        match &kernel.stmts[stmt].kind {
            StmtKind::For { body, .. } if self.rings.contains(&stmt) => {
                self.block(body, None);
                Some(stmt)
            }
            // The second time it is entered as the first one left it; it may be left before it is entered.
            StmtKind::For { body, .. } | StmtKind::Persistent { body, .. } => {
                let once = self.block(body, since);
                since.or(self.block(body, since.or(once)))
            }
            StmtKind::If { then, otherwise, .. } => {
                let [then, otherwise] = [then, otherwise].map(|body| self.block(body, since));
                then.or(otherwise)
            }
            StmtKind::Parallel { vars, extents, body } => {
                let after = self.block(body, since);
                let fills = kernel.buffers[self.buffer].extents.len() == extents.len()
                    && extents.iter().zip(&kernel.buffers[self.buffer].extents).all(|(a, b)| alike(kernel, *a, *b))
                    && body.iter().any(|s| self.stores_at(*s, vars));
                after.filter(|_| !fills)
            }
            StmtKind::Tile(op) => since.filter(|_| !self.fills(op)),
            StmtKind::Let { .. } | StmtKind::Alloc { .. } | StmtKind::Assign { .. } | StmtKind::Store { .. } => since,
            StmtKind::Reduce { .. } | StmtKind::Shuffle { .. } | StmtKind::Vote { .. } => since,
            StmtKind::Atomic { .. } | StmtKind::LastArriver { .. } => since,
            StmtKind::SyncThreads | StmtKind::SyncWarp | StmtKind::Print { .. } | StmtKind::Assert { .. } => since,
        }
    }

    /// Whether a tile operation writes all of the array.
    fn fills(&self, op: &TileOp) -> bool {
        match op {
            TileOp::Copy { dst, .. } => dst.place == Place::Buffer(self.buffer) && dst.start.is_empty(),
            TileOp::Fill { buffer, .. } => *buffer == self.buffer,
            TileOp::ReduceTile { dst, .. } | TileOp::ClusterExchange { dst, .. } => *dst == self.buffer,
            TileOp::Gemm { .. } | TileOp::Clamp { .. } | TileOp::ClusterReduce { .. } => false,
        }
    }

    /// Whether a statement stores the element of the array that these indices name.
    fn stores_at(&self, stmt: StmtId, vars: &[VarId]) -> bool {
        let kernel = self.kernel;
        let StmtKind::Store { access, .. } = kernel.stmts[stmt].kind else { return false };
        let access = &kernel.accesses[access];
        let at = |(index, var): (&ExprId, &VarId)| kernel.exprs[*index].kind == ExprKind::Var(*var);
        access.place == Place::Buffer(self.buffer)
            && !access.masked
            && access.indices.len() == vars.len()
            && access.indices.iter().zip(vars).all(at)
    }
}
