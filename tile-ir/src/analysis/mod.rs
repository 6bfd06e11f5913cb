//! What is known about a bound kernel: mistakes, on the author's lines, and facts for the lowering.
//!
//! Everything here is read-only and in closed form (no element enumeration beyond a small budget), so it may run at
//! expansion. What is [`Bound::Proven`] never fails; what is unknown becomes a guard, a launch check, or is left to
//! the checked simulator, and is never an error unless the author demanded it (`vectorized`).

mod added;
mod assignment;
mod asynchronous;
mod bounds;
mod budget;
mod check;
mod collective;
mod comparisons;
mod copy;
mod finite;
mod guards;
mod host;
mod induction;
mod lints;
mod parallel;
mod point;
mod race;
mod ranges;
mod regions;
mod sync;
mod tiles;
pub mod traffic;
mod uniform;
mod unused;
mod vector;
mod walk;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use asynchronous::SharedLoad;
pub(crate) use budget::shared_bytes;
pub use check::check;

use crate::diag::Diagnostic;
use crate::ir::{
    AccessId, BoundKernel, BufferId, DimId, ExprId, ParamId, Side, SpanId, StmtId, StmtKind, Target, TileOp, VarId,
};
use crate::lowered::HostExpr;
pub use crate::lowered::OperandKind;
use std::collections::{BTreeMap, BTreeSet};

/// The analysis of one bound kernel for one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// Mistakes. Where there are any, the facts below may be incomplete and the kernel must not be lowered.
    pub diagnostics: Vec<Diagnostic>,
    /// Lints: accesses that only the compiler guards, and what is slow, where the author asked for that. They do not stop
    /// the lowering.
    pub lints: Vec<Diagnostic>,
    /// Per element access reached from the body: is it in bounds, per axis, on both sides. An access that is absent
    /// is not reached.
    pub bounds: BTreeMap<AccessId, Vec<Bound>>,
    /// Per element access reached from the body: is the index known not to be negative, per axis. An axis that is
    /// proven in bounds is; where neither is known, a guard must test both ends.
    pub nonnegative: BTreeMap<AccessId, Vec<bool>>,
    /// Per access inside a vectorised loop: how it is one transaction.
    pub vectors: BTreeMap<AccessId, VectorAccess>,
    /// Per `copy` statement: its extents and the bounds of its two sides.
    pub copies: BTreeMap<StmtId, CopyFacts>,
    /// `parallel` loops that add a tile to a tensor and do nothing else: what is missing is that their access is in bounds.
    pub added_tiles: BTreeMap<StmtId, AddedTile>,
    /// Per statement of a pipelined loop's loads that fills a shared array: how.
    pub shared_loads: BTreeMap<StmtId, SharedLoad>,
    /// What alignment proofs assume of tensors: launch checks. One entry for what a tensor's demands ask, and one for what its
    /// requests do.
    pub launch_needs: Vec<LaunchNeed>,
    /// Dims that must be multiples of numbers of elements where copies request it, with the line: launch checks. See
    /// `Analysis::widened`.
    pub extent_needs: Vec<(DimId, u32, SpanId)>,
    /// Largest values of index expressions that must stay below 2^31: launch checks. Dominated ones are dropped.
    pub index_ranges: Vec<IndexRange>,
    /// Per `last_arriver` whose blocks are those along some axes of the grid: the count, and the extents of the axes. Their
    /// product is the count, or the launch is refused.
    pub arrivals: Vec<(ExprId, Vec<ExprId>)>,
    /// Stores that several blocks make alike at some launches: those are refused.
    pub block_needs: Vec<BlockNeed>,
    /// Expressions of type `usize` that are computed and held in 64 bits, because 32 are not known to be enough.
    pub wide: BTreeSet<ExprId>,
    /// Operations on `usize` whose results are known to fit 32 bits; one that is also in `wide` is met on a path where it
    /// does not.
    pub narrow: BTreeSet<ExprId>,
    /// Sums of `usize` of which an operand may be negative: added to something they are computed first, since a part of
    /// the longer sum may exceed the whole.
    pub signed_sums: BTreeSet<ExprId>,
    /// Assigned variables and indices of loops of type `usize` that are held in 64 bits.
    pub wide_vars: BTreeSet<VarId>,
    /// `parallel` loops whose elements are counted in 64 bits.
    pub wide_counts: BTreeSet<StmtId>,
    /// Quotients and remainders of `usize` whose divisor is not known to be other than 0.
    pub open_divisors: BTreeSet<ExprId>,
    /// Steps and numbers of shifts that the launch checks.
    pub operand_ranges: Vec<OperandRange>,
    /// Statements before which the compiler must place a block barrier, because a tile operation's accesses meet
    /// others'. Each stands under block-uniform control.
    pub barriers_before: BTreeSet<StmtId>,
    /// `If` and `For` statements whose condition or trip count is the same for every thread of the block.
    pub block_uniform: BTreeSet<StmtId>,
    /// `If` and `For` statements whose condition or trip count is the same for every thread of each warp.
    pub warp_uniform: BTreeSet<StmtId>,
}

impl Analysis {
    /// The statements before which a barrier must stand where accesses to `arrays` alone are to be ordered, because others are
    /// synchronised in another way.
    pub(crate) fn barriers_among(&self, bound: &BoundKernel, arrays: &BTreeSet<BufferId>) -> BTreeSet<StmtId> {
        sync::place_among(bound, &self.block_uniform, arrays)
    }

    /// Whether every axis of an access is proven in bounds. An access that is not reached is not proven.
    pub fn in_bounds(&self, access: AccessId) -> bool {
        self.bounds.get(&access).is_some_and(|axes| axes.iter().all(|b| *b == Bound::Proven))
    }

    /// Whether one axis of an access is proven in bounds.
    pub fn axis_in_bounds(&self, access: AccessId, axis: usize) -> bool {
        self.bounds.get(&access).and_then(|axes| axes.get(axis)) == Some(&Bound::Proven)
    }

    /// The analysis of a kernel whose copies take the widest transactions that the class has, where only the length of their
    /// rows is not known: that becomes a check of the launch.
    pub(crate) fn widened(mut self, bound: &BoundKernel) -> Analysis {
        for (stmt, wider) in self.copies.iter().filter_map(|(s, facts)| Some((*s, facts.wider?))).collect::<Vec<_>>() {
            let StmtKind::Tile(TileOp::Copy { src, .. }) = &bound.stmts[stmt].kind else { continue };
            let multiple = (wider.dim, wider.elements, src.span);
            match self.extent_needs.iter_mut().find(|need| need.0 == wider.dim) {
                Some(known) => known.1 = known.1.max(wider.elements),
                None => self.extent_needs.push(multiple),
            }
            if let Some(need) = copy::need(bound, src, wider.elements, Some(Side::Reads)) {
                vector::merge_need(&mut self.launch_needs, need);
            }
            if let Some(facts) = self.copies.get_mut(&stmt) {
                facts.transaction = Some(wider.elements);
            }
        }
        if !self.extent_needs.is_empty() {
            self.shared_loads.clear();
            asynchronous::decide(bound, &mut self);
        }
        self
    }

    /// Whether the index on one axis of an access is known not to be negative.
    pub fn axis_nonnegative(&self, access: AccessId, axis: usize) -> bool {
        self.nonnegative.get(&access).and_then(|axes| axes.get(axis)) == Some(&true)
    }
}

/// What is known about an index and its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Never out of bounds.
    Proven,
    /// Not known: needs a guard.
    Unproven,
    /// Certainly out of bounds in some execution; there is a diagnostic.
    Refuted,
}

/// How an access inside a vectorised loop is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorAccess {
    /// Elements along the loop: the loop's extent where the access moves with its index, 1 where it does not.
    pub width: u32,
    /// Bytes of the transaction, `width` times the element size. At most 16 in shared and global memory, and the
    /// address is proven to be a multiple of it (given [`Analysis::launch_needs`]).
    pub bytes: u32,
    /// Whether the first element is proven to lie at a multiple of `bytes`: always in shared and global memory. A per-thread
    /// array that is not is filled and emptied element by element.
    pub aligned: bool,
}

/// What is known about a `copy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFacts {
    /// Extents of the tile, constants, outermost first (leading extents of 1 included as far as the larger side has
    /// them).
    pub extents: Vec<u32>,
    /// Where the rows of the source's or of the destination's tile are of several of its axes: their extents, outermost first. `extents` has their product.
    pub rows: [Vec<u32>; 2],
    /// Per axis of the source: the whole tile is in bounds.
    pub src: Vec<Bound>,
    /// Per axis of the destination: the whole tile is in bounds.
    pub dst: Vec<Bound>,
    /// Per axis of the source: the tile does not start below 0. Where it is not known, clipping must test both ends.
    pub src_nonnegative: Vec<bool>,
    /// Per axis of the destination: the tile does not start below 0. Where it is not known, clipping must test both ends.
    pub dst_nonnegative: Vec<bool>,
    /// `.width(n)`, once it is checked.
    pub width: Option<u32>,
    /// Where the tile is loaded ahead without a demand: the elements of one asynchronous copy, if its rows are made of
    /// such. Where a fragment is stored to a tensor: 2, if its rows are made of aligned pairs.
    pub transaction: Option<u32>,
    /// Where the tile is loaded ahead without a demand: what its rows could be copied in, were they as long as whole ones.
    pub wider: Option<Wider>,
    /// Whether the tile's rows begin at even elements of the destination's rows, however long those are.
    pub even: bool,
    /// Whether the tile begins at a multiple of [`TMA_START_BYTES`] in the source's and in the destination's rows.
    pub tma_start: [bool; 2],
}

impl CopyFacts {
    /// The extents of the source's tile along every axis of the source: 1 along leading ones that it does not span.
    pub fn of_src(&self) -> Vec<u32> {
        self.spanning(self.src.len(), &self.rows[0])
    }

    /// The extents of the destination's tile along every axis of the destination: 1 along leading ones that it does not span.
    pub fn of_dst(&self) -> Vec<u32> {
        self.spanning(self.dst.len(), &self.rows[1])
    }

    fn spanning(&self, rank: usize, rows: &[u32]) -> Vec<u32> {
        let (outer, columns) = self.extents.split_at(self.extents.len().saturating_sub(1));
        let outer = if rows.is_empty() { outer } else { rows };
        let own: Vec<u32> = outer.iter().chain(columns).copied().collect();
        let (missing, extra) = (rank.saturating_sub(own.len()), own.len().saturating_sub(rank));
        std::iter::repeat_n(1, missing).chain(own[extra..].iter().copied()).collect()
    }

    /// Whether TMA may store the tile: it takes no coordinate below 0, and an innermost one only at multiples of [`TMA_START_BYTES`].
    pub fn starts_for_tma_stores(&self) -> bool {
        self.tma_start[1] && self.dst_nonnegative.iter().all(|at| *at)
    }
}

/// A tile of a fragment that a loop adds to a tensor of f32, element by element, without those that are beyond the tensor's edges. It is the
/// same tile for all threads of a block, starts below 0 on no axis, and at a multiple of [`TMA_START_BYTES`] in its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedTile {
    /// What is added: all of it.
    pub fragment: BufferId,
    /// What it is added to.
    pub tensor: ParamId,
    /// The tensor's element that the loop adds to.
    pub access: AccessId,
    /// The tile's first element on each axis of the tensor; 0 where there is none.
    pub start: Vec<Option<ExprId>>,
}

/// TMA takes an innermost coordinate only at multiples of so many bytes: elsewhere it is an illegal instruction.
/// Source: measured on an H200; see the book, TK0205.
pub const TMA_START_BYTES: u32 = 16;

/// A wider transaction of a copy, and what the launch would have to check for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wider {
    /// Elements of one asynchronous copy.
    pub elements: u32,
    /// The extent of the rows, which must be a multiple of that.
    pub dim: DimId,
}

/// What alignment proofs assume of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchNeed {
    /// The tensor.
    pub tensor: ParamId,
    /// Its address must be a multiple of this many bytes.
    pub align_bytes: u32,
    /// Per axis: its stride must be a multiple of this many elements; 1 where nothing is assumed (always so on the
    /// innermost axis).
    pub stride_multiple: Vec<u32>,
    /// Where copies only request it: the side of them that it is on. `None` where an author demands it.
    pub request: Option<Side>,
    /// The line that makes it necessary.
    pub span: SpanId,
}

/// An upper bound of index expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRange {
    /// The largest value.
    pub bound: HostExpr,
    /// The expression it bounds.
    pub span: SpanId,
}

/// That blocks store to different elements, where only the launcher knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockNeed {
    /// The condition on dims and scalar parameters under which no two blocks store to one element.
    pub holds: HostExpr,
    /// The condition in words, for the launch's error.
    pub text: String,
    /// The store.
    pub span: SpanId,
}

/// An operand that has a range of its own, where only the launcher knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandRange {
    /// Which.
    pub kind: OperandKind,
    /// Its value.
    pub value: HostExpr,
    /// The operand.
    pub span: SpanId,
}

/// Analyses a bound kernel for a target.
pub fn analyse(bound: &BoundKernel, target: Target) -> Analysis {
    let mut analysis = anywhere(bound);
    if analysis.diagnostics.is_empty() {
        analysis.diagnostics.extend(budget::on_target(bound, target));
    }
    analysis
}

/// What does not depend on the target.
fn anywhere(bound: &BoundKernel) -> Analysis {
    let diagnostics = budget::everywhere(bound);
    if !diagnostics.is_empty() {
        return Analysis { diagnostics, ..Analysis::default() };
    }
    let mut walk = walk::Walk::new(bound);
    walk.run();
    ranges::finish(&mut walk);
    let wrong = if walk.analysis.diagnostics.is_empty() { regions::check(&walk) } else { vec![] };
    if wrong.is_empty() && walk.analysis.diagnostics.is_empty() {
        walk.analysis.block_needs = regions::needs(&mut walk);
    }
    let walk::Walk { mut analysis, uniform, .. } = walk;
    asynchronous::decide(bound, &mut analysis);
    analysis.barriers_before = sync::place(bound, &analysis.block_uniform);
    if analysis.diagnostics.is_empty() {
        let races = race::find(bound, &uniform, &analysis.barriers_before, &analysis.block_uniform);
        analysis.diagnostics.extend(races);
    }
    analysis.diagnostics.extend(wrong);
    distinct(&mut analysis.diagnostics);
    distinct(&mut analysis.lints);
    analysis
}

/// One diagnostic a code and place: a statement is met on several paths.
fn distinct(diagnostics: &mut Vec<Diagnostic>) {
    let mut seen = BTreeSet::new();
    diagnostics.retain(|d| seen.insert((d.code, d.primary)));
}
