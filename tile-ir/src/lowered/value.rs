//! Values: trees in one table, so that the CUDA reads as it was written; and the addresses that are made of them.

use super::{LocalId, RegId, SharedId, Special, ValueId};
use crate::ir::{BinaryOp, Dtype, MathFn, ParamId, SpanId, UnaryOp};
use serde::{Deserialize, Serialize};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValueType {
    /// A 32-bit signed index: its values are known to fit, or the launch checks that they do.
    Index,
    /// A 64-bit signed index.
    Wide,
    /// An element value.
    Element(Dtype),
}

impl ValueType {
    /// The type of conditions.
    pub const BOOL: ValueType = ValueType::Element(Dtype::Bool);

    /// Its zero.
    pub const fn zero(self) -> ValueKind {
        match self {
            ValueType::Element(dtype) if dtype.is_float() => ValueKind::Float(0.0),
            ValueType::Element(_) | ValueType::Index | ValueType::Wide => ValueKind::Int(0),
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// What it is.
    pub kind: ValueKind,
    /// Its type.
    pub ty: ValueType,
    /// Where it comes from.
    pub span: SpanId,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ValueKind {
    /// An integer constant (index, i32, u32; bool as 0 and 1).
    Int(i64),
    /// A floating-point constant, already rounded to its dtype.
    Float(f64),
    /// A scalar C parameter, or the address of a tensor, by position in `Program::params`.
    Param(u32),
    /// `threadIdx` on an axis.
    Thread(u8),
    /// `blockIdx` on an axis.
    Block(u8),
    /// A register's current value.
    Reg(RegId),
    /// One operand.
    Unary(UnaryOp, ValueId),
    /// Two operands of one type. `And`/`Or` short-circuit. Index arithmetic never wraps; i32/u32 arithmetic wraps;
    /// f16 and bf16 are computed in f32 and rounded.
    Binary(BinaryOp, ValueId, ValueId),
    /// An elementwise function.
    Math(MathFn, Vec<ValueId>),
    /// Both operands are evaluated.
    Select(ValueId, ValueId, ValueId),
    /// One operand is evaluated.
    Choose(ValueId, ValueId, ValueId),
    /// Conversion to the value's type; to the type that the operand has already, the operand, computed by itself
    /// ([`Program::is_apart`](super::Program::is_apart)).
    Cast(ValueId),
    /// A divisor of an index that may be 0, which is a mistake (TK0303): then 1.
    Divisor(ValueId),
    /// `x / d` of two indices, rounded down, for `0 <= x` and `1 <= d`, by the third, `r = (2^31 - 1) / d`: a multiplication where a division
    /// takes a thread some hundred cycles. `x r / 2^31` is the quotient or one less, since `2^31 - r d <= d` and so
    /// `x / d - x r / 2^31 <= x / 2^31 < 1`.
    Quotient(ValueId, ValueId, ValueId),
    /// A load of one element; 0 where the guard fails.
    Load(Memory),
    /// The thread's place beyond `threadIdx` and `blockIdx`.
    Special(Special),
    /// Two f32, low half first, rounded to a 16-bit float and packed into a u32; or two of that 16-bit float as they are.
    Pack(Dtype, ValueId, ValueId),
    /// The low (`false`) or high half of a u32 that holds two of a 16-bit float: as f32, or as it is, by the value's type.
    Unpack(Dtype, ValueId, bool),
    /// A matrix descriptor for `Wgmma`, `Wide`: `bits | (address & 0x3FFFF) >> 4`, where the address is the array's in
    /// shared memory. Offsets are added to it in units of 16 bytes.
    Descriptor {
        /// The array.
        shared: SharedId,
        /// The fields beside the address: leading and stride offsets, swizzle.
        bits: u64,
    },
}

/// An address: one element, or the first of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Which array.
    pub space: Space,
    /// Offset in elements, `Index` or `Wide`.
    pub offset: ValueId,
    /// Whether the access happens.
    pub guard: Option<Guard>,
    /// The access as the author wrote it.
    pub span: SpanId,
}

/// What an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Space {
    /// A tensor.
    Global(ParamId),
    /// A shared array.
    Shared(SharedId),
    /// A per-thread array.
    Local(LocalId),
}

impl From<SharedId> for Space {
    fn from(shared: SharedId) -> Space {
        Space::Shared(shared)
    }
}

impl From<LocalId> for Space {
    fn from(local: LocalId) -> Space {
        Space::Local(local)
    }
}

/// A predicate on an access.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// The access happens where this holds.
    pub cond: ValueId,
    /// Why it is there.
    pub reason: GuardReason,
}

/// Why an access is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardReason {
    /// The author asked for clipping (`masked`, a tile copy).
    Masked,
    /// A plain access that could not be proven in bounds. Where it fails, the program is wrong (TK0302).
    Unproven,
}
