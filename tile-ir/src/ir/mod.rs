//! The tile IR: one [`Kernel`] is what an author wrote, with names resolved and types known.
//!
//! Every entity lives in a table of the kernel and is named by a dense typed index (`ExprId`, `StmtId`, ...). Nothing
//! in the IR points outside its kernel, and nothing depends on spans except diagnostics.

mod bound;
mod class;
pub(crate) mod constant;
mod derived;
mod dtype;
pub(crate) mod effects;
mod expr;
mod kernel;
pub(crate) mod parts;
pub(crate) mod pipeline;
pub mod reduction;
mod span;
mod stmt;
mod swizzle;
mod target;

pub use bound::BoundKernel;
pub use class::{Class, Side, Width};
pub use dtype::{
    Dtype, DtypeClass, DtypeInfo, DtypeRef, FloatFormat, IntFormat, MatrixElement, TensorMapElement, Type,
};
pub use effects::{Effect, effects};
pub use expr::{
    Access, BinaryOp, Expr, ExprKind, LARGEST_LITERAL, MathFn, MathOperands, MatrixRef, Place, SpecialValue, TileRef,
    UnaryOp,
};
pub use kernel::{
    Attributes, Axis, Buffer, ConstKind, ConstParam, Dependent, Dim, Extent, Instance, Kernel, MOST_ARRAY_AXES,
    MOST_TENSOR_AXES, Param, ParamKind, PersistentLoop, Require, Scope, Specialize, Trigger, TypeParam, Var, VarKind,
};
pub use parts::{AccessMode, LoopIndex, StmtPart};
pub use reduction::{ReduceStep, Reduction, ReductionPlan};
pub use span::{Source, Span};
pub use stmt::{
    AtomicOp, Evict, Eviction, LoopKind, Precision, ReduceOp, ReduceSource, Schedule, ShuffleKind, Stmt, StmtKind,
    TileOp, VoteKind, WarpPolicy,
};
pub use swizzle::{Swizzle, SwizzleRequest};
pub use target::{Target, TargetInfo};

pub use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use serde::{Deserialize, Serialize};

macro_rules! entities {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(u32);
        cranelift_entity::entity_impl!($name, $prefix);
    )*};
}
pub(crate) use entities;

entities! {
    /// An expression.
    ExprId = "e";
    /// A statement.
    StmtId = "s";
    /// An access to one element of a tensor or buffer.
    AccessId = "a";
    /// A variable: `let`, `let mut`, loop index, block or thread index.
    VarId = "v";
    /// A block-shared, per-thread or fragment array.
    BufferId = "b";
    /// A kernel parameter: tensor or scalar.
    ParamId = "p";
    /// A dynamic dimension.
    DimId = "d";
    /// A const generic parameter.
    ConstId = "c";
    /// A dtype generic parameter.
    TypeParamId = "t";
    /// A place in the author's source.
    SpanId = "sp";
}
