//! The bytecode: a bound kernel with its dims known, flattened to typed operations on whole blocks.
//!
//! A register holds one value a thread ([`Loc::Lanes`]) or one value a block ([`Loc::Scalar`]); what is uniform is
//! computed once. Floats of any width are held as the f32 that equals them. A temporary is written once and read once,
//! and never names the same register as an operand of the operation that writes it.

use crate::ir::{
    AtomicOp, BinaryOp, Dtype, DtypeClass, MathFn, Precision, ReduceOp, ReductionPlan, ShuffleKind, SpanId, Type,
    VoteKind,
};

/// Which register file a value lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Int,
    Index,
    Bool,
}

impl Kind {
    pub(super) fn of_dtype(dtype: Dtype) -> Kind {
        match dtype.class() {
            DtypeClass::Bool => Kind::Bool,
            DtypeClass::Int(_) => Kind::Int,
            DtypeClass::Float(_) => Kind::Float,
        }
    }
}

/// A value's representation: `usize`, or an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repr {
    Index,
    Element(Dtype),
}

impl Repr {
    /// `None` where the type is still a parameter.
    pub(super) fn of(ty: Type) -> Option<Repr> {
        match ty {
            Type::Index => Some(Repr::Index),
            Type::Value(_) => ty.dtype().map(Repr::Element),
        }
    }

    /// Whether its values are computed with.
    pub(super) fn has_arithmetic(self) -> bool {
        match self {
            Repr::Index => true,
            Repr::Element(dtype) => dtype.has_arithmetic(),
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Repr::Index => Kind::Index,
            Repr::Element(dtype) => Kind::of_dtype(dtype),
        }
    }
}

/// A register of the file that the operation implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loc {
    /// One value a thread.
    Lanes(u32),
    /// One value a block.
    Scalar(u32),
}

/// A set of threads. [`MaskId::ALL`] is the whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaskId(pub(super) u32);

impl MaskId {
    pub(super) const ALL: MaskId = MaskId(0);
}

/// An operation that cannot fail, done for every thread whether active or not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arith {
    Float { op: BinaryOp, dtype: Dtype, dst: Loc, a: Loc, b: Loc },
    FloatCompare { op: BinaryOp, dst: Loc, a: Loc, b: Loc },
    FloatMath { function: MathFn, dtype: Dtype, dst: Loc, args: [Loc; 3] },
    FloatNegate { dst: Loc, a: Loc },
    FloatBits { dst: Loc, a: Loc },
    Int { op: BinaryOp, dtype: Dtype, dst: Loc, a: Loc, b: Loc },
    IntCompare { op: BinaryOp, dtype: Dtype, dst: Loc, a: Loc, b: Loc },
    IntMath { function: MathFn, dtype: Dtype, dst: Loc, args: [Loc; 3] },
    IntNegate { dst: Loc, a: Loc },
    IntNot { dst: Loc, a: Loc },
    Index { op: BinaryOp, dst: Loc, a: Loc, b: Loc },
    IndexCompare { op: BinaryOp, dst: Loc, a: Loc, b: Loc },
    IndexMath { function: MathFn, dst: Loc, args: [Loc; 3] },
    IndexNegate { dst: Loc, a: Loc },
    Bool { op: BinaryOp, dst: Loc, a: Loc, b: Loc },
    BoolNot { dst: Loc, a: Loc },
    Select { kind: Kind, dst: Loc, cond: Loc, a: Loc, b: Loc },
    Cast { from: Repr, to: Repr, dst: Loc, a: Loc },
}

/// Where an access goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A tensor of the launch.
    Tensor(u32),
    /// A shared array of the block.
    Shared(u32),
    /// A per-thread array.
    Local(u32),
}

/// One element of something, for each thread.
#[derive(Clone, Debug)]
pub(super) struct ElementRef {
    pub(super) target: Target,
    /// Index registers, one an axis.
    pub(super) indices: Vec<Loc>,
    /// Whether being outside is meant.
    pub(super) masked: bool,
    pub(super) span: SpanId,
}

/// One operand of a copy.
#[derive(Clone, Debug)]
pub(super) struct TileSide {
    pub(super) target: Target,
    /// Index registers, one an axis; empty for the whole of it.
    pub(super) start: Vec<Loc>,
    /// Whether the tile is the transpose of what is there.
    pub(super) transposed: bool,
    pub(super) span: SpanId,
}

/// A tile copy.
#[derive(Clone, Debug)]
pub(super) struct CopyPlan {
    pub(super) src: TileSide,
    pub(super) dst: TileSide,
    /// The extents of the source's tile and of the destination's, outermost first. They differ where the rows of one are of several axes, or in leading ones.
    pub(super) extents: [Vec<Loc>; 2],
    /// Each thread copies its own tile; otherwise the block copies one.
    pub(super) per_thread: bool,
    pub(super) span: SpanId,
}

/// An operand of a product of tiles: an array of the block, as it is or transposed.
#[derive(Clone, Copy, Debug)]
pub(super) struct GemmOperand {
    pub(super) array: u32,
    pub(super) transposed: bool,
}

/// A product of whole tiles, added to a third.
#[derive(Clone, Debug)]
pub(super) struct GemmPlan {
    pub(super) a: GemmOperand,
    pub(super) b: GemmOperand,
    pub(super) acc: u32,
    /// From zero instead.
    pub(super) clear: bool,
    /// What is multiplied of f32.
    pub(super) precision: Precision,
    /// Whether groups of rows have right operands of their own.
    pub(super) grouped: bool,
    pub(super) span: SpanId,
}

/// A reduction of one axis of a tile.
#[derive(Clone, Debug)]
pub(super) struct TileReduction {
    pub(super) op: ReduceOp,
    pub(super) src: u32,
    pub(super) dst: u32,
    /// The axis that vanishes: 0 or 1.
    pub(super) axis: u8,
    pub(super) span: SpanId,
}

/// What a reduction works on.
#[derive(Clone, Debug)]
pub(super) struct ReducePlan {
    pub(super) op: ReduceOp,
    pub(super) repr: Repr,
    pub(super) plan: ReductionPlan,
    /// Threads a group, and the distance of neighbours.
    pub(super) extent: u32,
    pub(super) stride: u32,
    /// The warp only, or the block.
    pub(super) warp: bool,
    pub(super) span: SpanId,
}

/// A statement or part of one.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Lane arithmetic.
    Arith(Arith),
    /// Integer operations without a value for some operands: division, and shifts of `usize`.
    Partial {
        repr: Repr,
        op: BinaryOp,
        dst: Loc,
        a: Loc,
        b: Loc,
        mask: MaskId,
        span: SpanId,
    },
    /// `dst` = `parent` where `cond` is not `negate`.
    Mask {
        dst: MaskId,
        parent: MaskId,
        cond: Loc,
        negate: bool,
    },
    /// Assigns the active threads' value. `owned`: the source is a temporary that may be taken.
    Set {
        kind: Kind,
        dst: Loc,
        src: Loc,
        mask: MaskId,
        owned: bool,
    },
    /// Zeros, for a variable or array from here on.
    Clear {
        kind: Kind,
        first: u32,
        count: u32,
        mask: MaskId,
    },
    /// Zeros in a shared array.
    ClearShared {
        shared: u32,
    },
    Load {
        dst: Loc,
        from: ElementRef,
        mask: MaskId,
    },
    Store {
        to: ElementRef,
        value: Loc,
        mask: MaskId,
    },
    Atomic {
        op: AtomicOp,
        to: ElementRef,
        value: Loc,
        old: Option<Loc>,
        mask: MaskId,
    },
    If {
        cond: Loc,
        mask: MaskId,
        then_mask: MaskId,
        else_mask: MaskId,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    /// The condition is the block's.
    IfUniform {
        cond: Loc,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    /// Bounds are the block's.
    Loop {
        var: u32,
        start: Loc,
        end: Loc,
        step: Loc,
        mask: MaskId,
        span: SpanId,
        body: Vec<Step>,
    },
    /// Bounds are the thread's.
    LoopLanes {
        var: Loc,
        start: Loc,
        end: Loc,
        step: Loc,
        mask: MaskId,
        inner: MaskId,
        span: SpanId,
        body: Vec<Step>,
    },
    Parallel {
        vars: Vec<u32>,
        extents: Vec<Loc>,
        mask: MaskId,
        inner: MaskId,
        span: SpanId,
        body: Vec<Step>,
    },
    Copy {
        plan: Box<CopyPlan>,
        mask: MaskId,
    },
    Gemm {
        plan: Box<GemmPlan>,
        mask: MaskId,
    },
    ReduceTile {
        plan: Box<TileReduction>,
        mask: MaskId,
    },
    /// Combines a tile over the blocks of the cluster: what stands before it has run in all of them.
    ClusterReduce {
        op: ReduceOp,
        tile: u32,
        mask: MaskId,
        span: SpanId,
    },
    /// Exchanges the parts of an array between the blocks of the cluster: what stands before it has run in all of them.
    ClusterExchange {
        src: u32,
        dst: u32,
        mask: MaskId,
        span: SpanId,
    },
    FillShared {
        shared: u32,
        value: Loc,
        mask: MaskId,
        span: SpanId,
    },
    LastArriver {
        to: ElementRef,
        count: Loc,
        /// Bools, the same in every lane.
        dst: u32,
        mask: MaskId,
        span: SpanId,
    },
    /// Reduces a register in place.
    Reduce {
        plan: Box<ReducePlan>,
        register: u32,
        mask: MaskId,
    },
    Shuffle {
        shuffle: ShuffleKind,
        value: Repr,
        dst: u32,
        src: Loc,
        lane: Loc,
        lane_repr: Repr,
        mask: MaskId,
        span: SpanId,
    },
    Vote {
        vote: VoteKind,
        pred: Loc,
        dst: u32,
        mask: MaskId,
        span: SpanId,
    },
    Barrier {
        warp: bool,
        mask: MaskId,
        span: SpanId,
    },
    Print {
        format: String,
        args: Vec<(Repr, Loc)>,
        mask: MaskId,
    },
    Assert {
        cond: Loc,
        message: String,
        mask: MaskId,
        span: SpanId,
    },
}

/// An array of the kernel.
#[derive(Clone, Debug)]
pub(super) struct ArrayInfo {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) extents: Vec<i64>,
    /// For a per-thread array: its first register, element 0; the others follow.
    pub(super) first: u32,
    /// Elements.
    pub(super) len: u32,
}

/// Numbers of registers, and the values scalars start with.
#[derive(Clone, Debug, Default)]
pub(super) struct FileSize<T> {
    pub(super) lanes: u32,
    pub(super) scalars: Vec<T>,
}

/// A kernel compiled for one launch.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) body: Vec<Step>,
    pub(super) floats: FileSize<f32>,
    pub(super) ints: FileSize<u32>,
    pub(super) indices: FileSize<i64>,
    pub(super) bools: FileSize<bool>,
    pub(super) masks: u32,
    pub(super) shared: Vec<ArrayInfo>,
    pub(super) locals: Vec<ArrayInfo>,
    /// The index scalar that holds the block index, by grid axis.
    pub(super) block_vars: Vec<(u8, u32)>,
    /// The index register that holds the thread index, by thread axis.
    pub(super) thread_vars: Vec<(u8, u32)>,
}
