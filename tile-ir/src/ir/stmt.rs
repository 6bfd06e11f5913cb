//! Statements: everything with an effect, in program order.

use super::{AccessId, BufferId, Dtype, ExprId, MatrixRef, SpanId, StmtId, TileRef, VarId};
use serde::{Deserialize, Serialize};

/// A statement and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: SpanId,
}

/// What a statement is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StmtKind {
    /// `let v = value`, `let mut v = value`, `let v;`.
    Let {
        /// The variable.
        var: VarId,
        /// Its first value; none for a variable assigned later.
        value: Option<ExprId>,
    },
    /// `alloc_*`: the array's content is uninitialised from here.
    Alloc {
        /// The array.
        buffer: BufferId,
    },
    /// `v = value` (compound assignments are spelled out). Of the index of the serial loop around it, its `end - 1`: the loop
    /// is left (`break`, a `while` whose condition is false); nothing of the iteration follows.
    Assign {
        /// The variable.
        var: VarId,
        /// Its new value.
        value: ExprId,
    },
    /// A store of one element.
    Store {
        /// Where.
        access: AccessId,
        /// What.
        value: ExprId,
    },
    /// `if cond { then } else { otherwise }`.
    If {
        /// The condition.
        cond: ExprId,
        /// Statements where it holds.
        then: Vec<StmtId>,
        /// Statements where it does not.
        otherwise: Vec<StmtId>,
    },
    /// A loop over `start..end` by `step`.
    For {
        /// The index.
        var: VarId,
        /// First value.
        start: ExprId,
        /// Bound, exclusive.
        end: ExprId,
        /// Step, at least 1.
        step: ExprId,
        /// How it is executed.
        kind: LoopKind,
        /// The body.
        body: Vec<StmtId>,
    },
    /// `for [i, j] in parallel([m, n])`: every index tuple once, spread over the block's threads.
    Parallel {
        /// One index an axis; the last varies fastest.
        vars: Vec<VarId>,
        /// One extent an axis.
        extents: Vec<ExprId>,
        /// The body.
        body: Vec<StmtId>,
    },
    /// A tile operation.
    Tile(TileOp),
    /// `for [x, y] in persistent([tx, ty])`: every tile once, spread over the blocks that the device holds. It stands
    /// for the grid: what is before it in the body are declarations, and nothing follows it.
    Persistent {
        /// One index an axis; x varies fastest.
        vars: Vec<VarId>,
        /// One extent an axis: expressions of dims and constants.
        extents: Vec<ExprId>,
        /// `.per_sm(n)`: blocks a multiprocessor.
        per_sm: Option<ExprId>,
        /// `.contiguous()`: a block's tiles follow each other instead of being a grid apart.
        contiguous: bool,
        /// `.counter(&mut next[0])`: a block's first tile is its own number, and every other one is counted here: an element of a u32
        /// tensor, 0 before the launch and after it. Where a block takes one tile, nothing is counted.
        counter: Option<AccessId>,
        /// The body, executed once a tile.
        body: Vec<StmtId>,
    },
    /// `thread_allreduce(op, src, axis)` and `warp_reduce(op, v)` (no axes).
    Reduce {
        /// The operator.
        op: ReduceOp,
        /// What is reduced.
        src: ReduceSource,
        /// The result's variable; for a local array the result replaces it and this is none.
        dst: Option<VarId>,
        /// Thread axes that differ within a group; `None`: the warp.
        axis: Option<VarId>,
    },
    /// `shfl_xor(v, mask)`, `shfl_down(v, delta)`, `shfl_up(v, delta)`, `shfl(v, lane)`.
    Shuffle {
        /// Which.
        kind: ShuffleKind,
        /// The value of this lane.
        value: ExprId,
        /// Mask, delta or lane.
        lane: ExprId,
        /// The result.
        dst: VarId,
    },
    /// `ballot(p)`, `any(p)`, `all(p)` over the warp.
    Vote {
        /// Which.
        kind: VoteKind,
        /// The predicate of this lane.
        pred: ExprId,
        /// The result: u32 for `ballot`, else bool.
        dst: VarId,
    },
    /// `atomic_add/max/min(&mut x[..], v)`: relaxed, device scope (block scope in shared memory).
    Atomic {
        /// Which.
        op: AtomicOp,
        /// The element.
        access: AccessId,
        /// The operand.
        value: ExprId,
        /// The old value's variable, if it is used.
        dst: Option<VarId>,
    },
    /// `last_arriver(&mut sem[t], n)`: whether this block is the last of `n` to come here. What the blocks wrote before is
    /// visible to the last one after; it sets the counter back to 0.
    LastArriver {
        /// The counter: an element of a u32 tensor, 0 before the launch.
        access: AccessId,
        /// How many blocks come.
        count: ExprId,
        /// The result, the same for every thread of the block.
        dst: VarId,
    },
    /// `sync_threads()`.
    SyncThreads,
    /// `sync_warp()`.
    SyncWarp,
    /// `device_print("..{}..", args)`.
    Print {
        /// The text, with `{}` for each argument.
        format: String,
        /// The arguments.
        args: Vec<ExprId>,
    },
    /// `device_assert(cond, "..")`.
    Assert {
        /// What must hold.
        cond: ExprId,
        /// What to say where it does not.
        message: String,
    },
}

/// An operation on whole tiles, which the threads of a block do together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TileOp {
    /// `copy(src, dst)`.
    Copy {
        /// Source tile.
        src: TileRef,
        /// Destination tile.
        dst: TileRef,
        /// `.width(n)`: elements a transaction, demanded.
        width: Option<ExprId>,
        /// Whether the tensor memory accelerator may do it: not after `.tma(false)`.
        tma: bool,
        /// `.evict(..)`: how long the second-level cache should keep what is copied. A hint to TMA.
        evict: Option<Eviction>,
    },
    /// `gemm(a, b, &mut acc)`: `acc[M, N] += a[M, K] b[K, N]`, products of whole tiles.
    Gemm {
        /// The left operand, a shared array or a fragment.
        a: MatrixRef,
        /// The right operand, a shared array.
        b: MatrixRef,
        /// The sum, a fragment.
        acc: BufferId,
        /// `.policy(..)`: how warps divide the tile.
        policy: WarpPolicy,
        /// `.clear()`: the sum starts from zero, `acc = a b`.
        clear: bool,
        /// `.tf32()`: what is multiplied of f32 operands.
        precision: Precision,
        /// `.grouped()`: the array of the right operand holds several matrices, one below the other, and as many equal groups of
        /// the sum's rows have one each. The left operand has all of these rows, or those of one group.
        grouped: bool,
    },
    /// `fill(&mut b, v)` and `clear(&mut b)`.
    Fill {
        /// The array.
        buffer: BufferId,
        /// The value.
        value: ExprId,
    },
    /// `clamp(&mut f, low, high)`: every element becomes `min(max(element, low), high)`. Binding writes it as a `parallel` loop over
    /// the fragment, so that a bound kernel has none.
    Clamp {
        /// The fragment.
        tile: BufferId,
        /// The least value, evaluated once.
        low: ExprId,
        /// The greatest value, evaluated once.
        high: ExprId,
    },
    /// `reduce(op, &src, &mut dst, axis)`: `dst[i]` is `src` combined over one of its two axes, `i` being the other.
    ReduceTile {
        /// The operator.
        op: ReduceOp,
        /// What is reduced: a fragment or shared array of two axes.
        src: BufferId,
        /// The result, of one axis: a fragment where `src` is one, or a shared array. In a bound kernel also a fragment of a row's
        /// four parts ([`super::reduction::axis_parts`]), which are not combined: `bind` makes it so where a loop adds up rows.
        dst: BufferId,
        /// The axis that vanishes: 0 or 1.
        axis: u8,
    },
    /// `cluster_reduce(op, &mut tile)`: the block of rank 0 of each cluster gets its tile combined with those of ranks 1, 2,
    /// .. in this order; the others keep theirs.
    ClusterReduce {
        /// The operator.
        op: ReduceOp,
        /// A fragment.
        tile: BufferId,
    },
    /// `cluster_exchange(&mine, &mut theirs)`: the block of rank `r` of each cluster gets part `r` of every block's `src`, in
    /// the order of ranks; a part is one index of the first axis.
    ClusterExchange {
        /// A shared array.
        src: BufferId,
        /// Another one, of the same extents, that nothing before the exchange uses.
        dst: BufferId,
    },
}

impl TileOp {
    /// Whether the blocks of a cluster do it together.
    pub const fn joins_cluster(&self) -> bool {
        matches!(self, TileOp::ClusterReduce { .. } | TileOp::ClusterExchange { .. })
    }
}

/// How a loop is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoopKind {
    /// One iteration after another; `unroll` is a partial unrolling factor (constant once bound).
    Serial {
        /// `.unroll(n)`.
        unroll: Option<ExprId>,
    },
    /// Unrolled fully; constant extent.
    Unroll,
    /// Each access is one transaction over the whole range; arithmetic is per element.
    Vectorized,
    /// One iteration after another; the loads that lead the body are issued `stages - 1` iterations ahead.
    Pipelined {
        /// Iterations whose data is held at once, at least 1 (constant once bound).
        stages: ExprId,
        /// `.schedule(..)`: who computes while whom.
        schedule: Schedule,
    },
}

/// How the warps of a block share a pipelined loop of `gemm`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Schedule {
    /// The compiler chooses.
    #[default]
    Auto,
    /// Every computing warp works on the same tile, and its products are issued in the order of the text.
    Cooperative,
    /// Two groups of warps work on two tiles, one computing while the other stores.
    PingPong,
    /// Every warp loads and computes, as on devices without TMA, and the loop's body is in the program once: which slot it uses is counted as it
    /// runs. Other loops without a producer are written out once a stage, which makes slots' addresses constants. Only code that is short,
    /// or finds the instruction cache cold, gains.
    Rolled,
}

/// How warps divide the accumulator of a `gemm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WarpPolicy {
    /// As square as the tile allows.
    #[default]
    Square,
    /// All along the rows: a warp has whole rows of the accumulator.
    FullRow,
    /// All along the columns: a warp has whole columns of the accumulator.
    FullCol,
}

/// What a `gemm` multiplies of its operands' elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// All of them.
    #[default]
    Full,
    /// Of f32 the sign, the exponent and the leading 10 bits of the fraction: tf32. The 13 bits below are dropped, which
    /// rounds towards zero.
    Tf32,
}

/// How long the second-level cache should keep what a `copy` moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Evict {
    /// Leaves first: it is used once.
    First,
    /// As anything else.
    Normal,
    /// Leaves last: it is used again by those who come later.
    Last,
}

/// An order, or one chosen by constants: `if wide { First } else { Normal }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// Constant conditions and what holds under them; the first one that is true decides. None in a bound kernel.
    pub cases: Vec<(ExprId, Evict)>,
    /// What holds otherwise.
    pub otherwise: Evict,
}

impl Eviction {
    /// What to ask TMA for in a bound kernel: nothing where it is as anything else.
    pub(crate) fn hint(&self) -> Option<Evict> {
        (self.otherwise != Evict::Normal).then_some(self.otherwise)
    }
}

/// Operators of reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Max,
    Min,
}

/// What a reduction reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReduceSource {
    /// One value a thread.
    Value(ExprId),
    /// Every element of a per-thread array, in place.
    Local(BufferId),
}

/// Lane exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ShuffleKind {
    Xor,
    Down,
    Up,
    /// Every lane names the lane that it reads.
    Lane,
}

impl ShuffleKind {
    /// The name an author writes.
    pub const fn name(self) -> &'static str {
        match self {
            ShuffleKind::Xor => "shfl_xor",
            ShuffleKind::Down => "shfl_down",
            ShuffleKind::Up => "shfl_up",
            ShuffleKind::Lane => "shfl",
        }
    }

    /// What its second operand is called.
    pub const fn operand(self) -> &'static str {
        match self {
            ShuffleKind::Xor => "mask",
            ShuffleKind::Down | ShuffleKind::Up => "distance",
            ShuffleKind::Lane => "lane",
        }
    }

    /// The lane that a lane reads, of the low five bits of its operand; none where there is no such lane, and it keeps its own
    /// value, as PTX's `shfl.sync` does.
    pub const fn source(self, own: u32, operand: u32) -> Option<u32> {
        let operand = operand & 31;
        let source = match self {
            ShuffleKind::Xor => Some(own ^ operand),
            ShuffleKind::Down => own.checked_add(operand),
            ShuffleKind::Up => own.checked_sub(operand),
            ShuffleKind::Lane => Some(operand),
        };
        match source {
            Some(lane) if lane < 32 => Some(lane),
            _ => None,
        }
    }
}

/// Warp votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum VoteKind {
    Ballot,
    Any,
    All,
}

/// Atomic read-modify-writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum AtomicOp {
    Add,
    Max,
    Min,
}

impl AtomicOp {
    /// Whether the operation exists for `dtype`: f32 has `Add` only.
    pub fn supports(self, dtype: Dtype) -> bool {
        dtype.info().atomics.contains(&self)
    }
}
