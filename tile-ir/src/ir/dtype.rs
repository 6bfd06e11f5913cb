//! Element types.

use super::TypeParamId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A concrete element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Dtype {
    /// One byte in memory: 0 or 1.
    Bool,
    /// 32-bit signed integer, wrapping.
    I32,
    /// 32-bit unsigned integer, wrapping.
    U32,
    /// IEEE binary16. Arithmetic is done in f32 and rounded to nearest even after each operation.
    F16,
    /// bfloat16. Arithmetic as for [`Dtype::F16`].
    Bf16,
    /// IEEE binary32.
    F32,
}

impl Dtype {
    /// Every dtype.
    pub const ALL: [Dtype; 6] = [Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F16, Dtype::Bf16, Dtype::F32];

    /// Size in memory, in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Dtype::Bool => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
        }
    }

    /// Size in memory, in bits: what `T::BITS` is.
    pub const fn bits(self) -> u32 {
        self.bytes() * 8
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16 | Dtype::F32)
    }

    /// Whether this is `i32` or `u32`.
    pub const fn is_int(self) -> bool {
        matches!(self, Dtype::I32 | Dtype::U32)
    }

    /// Whether this is `f16` or `bf16`.
    pub const fn is_half(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16)
    }

    /// The name an author writes.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I32 => "i32",
            Dtype::U32 => "u32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
        }
    }

    /// The dtype an author calls `name`.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dtype as the author wrote it: concrete, or one of the kernel's generic parameters. Concrete once bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DtypeRef {
    /// A concrete dtype.
    Is(Dtype),
    /// A generic parameter.
    Param(TypeParamId),
}

impl From<Dtype> for DtypeRef {
    fn from(dtype: Dtype) -> Self {
        DtypeRef::Is(dtype)
    }
}

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// `usize`: a mathematical integer, used for extents and indices.
    Index,
    /// An element value (`bool` included).
    Value(DtypeRef),
}

impl Type {
    /// The type of conditions.
    pub const BOOL: Type = Type::Value(DtypeRef::Is(Dtype::Bool));
    /// `f32`.
    pub const F32: Type = Type::Value(DtypeRef::Is(Dtype::F32));

    /// The concrete dtype, if this is a value type and bound.
    pub fn dtype(self) -> Option<Dtype> {
        match self {
            Type::Value(DtypeRef::Is(dtype)) => Some(dtype),
            _ => None,
        }
    }
}

impl From<Dtype> for Type {
    fn from(dtype: Dtype) -> Self {
        Type::Value(DtypeRef::Is(dtype))
    }
}
