//! Element types. What is known of one stands in one table, [`Dtype::info`].

use super::{AtomicOp, TypeParamId};
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
    /// 8-bit unsigned integer, for storage: it is loaded, stored, copied, compared and cast, and has no arithmetic.
    U8,
}

/// Everything that the compiler, the simulators and the runtime know of a dtype: one row of the table [`Dtype::info`].
///
/// Other code asks this, or matches on [`DtypeClass`]; it does not list dtypes. A dtype is added by its row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DtypeInfo {
    /// The name an author writes, also that of the text format.
    pub name: &'static str,
    /// Size in memory, in bytes: 1, 2 or 4. Alignment is the same.
    pub bytes: u32,
    /// What its values are.
    pub class: DtypeClass,
    /// The dtype in which `+`, `-`, `*`, `/`, `%`, shifts, `min`, `max` and functions are computed, the result then being rounded
    /// back to this one. `None`: it has no arithmetic. A number without arithmetic is for storage: it is loaded, stored, copied,
    /// compared and cast.
    pub arithmetic: Option<Dtype>,
    /// The atomic read-modify-writes that exist for it.
    pub atomics: &'static [AtomicOp],
    /// What the tensor cores multiply it as; `None` where the language has no products of it.
    pub matrix: Option<MatrixElement>,
    /// The type in CUDA C.
    pub c_name: &'static str,
    /// Zero, as an expression of CUDA C that has this type.
    pub c_zero: &'static str,
    /// What a tensor map calls it.
    pub tensor_map: TensorMapElement,
}

/// What the values of a dtype are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DtypeClass {
    /// `true` and `false`.
    Bool,
    /// Whole numbers.
    Int(IntFormat),
    /// Floating point.
    Float(FloatFormat),
}

/// Whole numbers in two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntFormat {
    /// Whether there are negative ones.
    pub signed: bool,
    /// Width: at most 32.
    pub bits: u32,
}

impl IntFormat {
    /// What is held of a number: it is taken modulo `2^bits`.
    pub const fn wrapped(self, value: i64) -> i64 {
        let above = 64 - self.bits;
        if self.signed { value << above >> above } else { ((value as u64) << above >> above) as i64 }
    }

    /// The least and the greatest value.
    pub const fn range(self) -> (i64, i64) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }
}

/// A binary floating-point format. Every one embeds in binary32, in which the simulators hold its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatFormat {
    /// IEEE binary16.
    Binary16,
    /// The upper half of binary32.
    Bfloat16,
    /// IEEE binary32.
    Binary32,
}

impl FloatFormat {
    /// Bits of the exponent, which is biased by `2^(bits - 1) - 1`.
    pub const fn exponent_bits(self) -> u32 {
        match self {
            FloatFormat::Binary16 => 5,
            FloatFormat::Bfloat16 | FloatFormat::Binary32 => 8,
        }
    }

    /// Bits of the fraction, the leading one not counted.
    pub const fn fraction_bits(self) -> u32 {
        match self {
            FloatFormat::Binary16 => 10,
            FloatFormat::Bfloat16 => 7,
            FloatFormat::Binary32 => 23,
        }
    }

    /// The bits of infinity: all ones in the exponent, and no fraction.
    pub const fn infinity(self) -> u32 {
        ((1 << self.exponent_bits()) - 1) << self.fraction_bits()
    }

    /// The bits of everything but the sign.
    pub const fn magnitude(self) -> u32 {
        (1 << (self.exponent_bits() + self.fraction_bits())) - 1
    }
}

/// What tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixElement {
    /// The name in instructions of PTX: f32 is multiplied as `tf32`.
    pub name: &'static str,
    /// Elements along K of one instruction: 32 bytes.
    pub depth: u32,
}

/// The element types of a tensor map that the language uses.
/// Source: CUDA driver API, `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TensorMapElement {
    U8,
    I32,
    U32,
    F16,
    Bf16,
    F32,
}

/// The atomics of 32-bit integers.
const ALL_ATOMICS: &[AtomicOp] = &[AtomicOp::Add, AtomicOp::Max, AtomicOp::Min];

impl Dtype {
    /// Every dtype, in order of declaration.
    pub const ALL: [Dtype; 7] = [Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::U8];

    /// The table of dtypes.
    pub const fn info(self) -> &'static DtypeInfo {
        match self {
            Dtype::Bool => &DtypeInfo {
                name: "bool",
                bytes: 1,
                class: DtypeClass::Bool,
                arithmetic: None,
                atomics: &[],
                matrix: None,
                c_name: "bool",
                c_zero: "false",
                tensor_map: TensorMapElement::U8,
            },
            Dtype::I32 => &DtypeInfo {
                name: "i32",
                bytes: 4,
                class: DtypeClass::Int(IntFormat { signed: true, bits: 32 }),
                arithmetic: Some(Dtype::I32),
                atomics: ALL_ATOMICS,
                matrix: None,
                c_name: "int",
                c_zero: "0",
                tensor_map: TensorMapElement::I32,
            },
            Dtype::U32 => &DtypeInfo {
                name: "u32",
                bytes: 4,
                class: DtypeClass::Int(IntFormat { signed: false, bits: 32 }),
                arithmetic: Some(Dtype::U32),
                atomics: ALL_ATOMICS,
                matrix: None,
                c_name: "unsigned",
                c_zero: "0u",
                tensor_map: TensorMapElement::U32,
            },
            Dtype::F16 => &DtypeInfo {
                name: "f16",
                bytes: 2,
                class: DtypeClass::Float(FloatFormat::Binary16),
                arithmetic: Some(Dtype::F32),
                atomics: &[],
                matrix: Some(MatrixElement { name: "f16", depth: 16 }),
                c_name: "f16",
                c_zero: "f16{0}",
                tensor_map: TensorMapElement::F16,
            },
            Dtype::Bf16 => &DtypeInfo {
                name: "bf16",
                bytes: 2,
                class: DtypeClass::Float(FloatFormat::Bfloat16),
                arithmetic: Some(Dtype::F32),
                atomics: &[],
                matrix: Some(MatrixElement { name: "bf16", depth: 16 }),
                c_name: "bf16",
                c_zero: "bf16{0}",
                tensor_map: TensorMapElement::Bf16,
            },
            Dtype::F32 => &DtypeInfo {
                name: "f32",
                bytes: 4,
                class: DtypeClass::Float(FloatFormat::Binary32),
                arithmetic: Some(Dtype::F32),
                atomics: &[AtomicOp::Add],
                matrix: Some(MatrixElement { name: "tf32", depth: 8 }),
                c_name: "float",
                c_zero: "0.0f",
                tensor_map: TensorMapElement::F32,
            },
            Dtype::U8 => &DtypeInfo {
                name: "u8",
                bytes: 1,
                class: DtypeClass::Int(IntFormat { signed: false, bits: 8 }),
                arithmetic: None,
                atomics: &[],
                matrix: None,
                c_name: "unsigned char",
                c_zero: "(unsigned char)0",
                tensor_map: TensorMapElement::U8,
            },
        }
    }

    /// What its values are.
    #[inline]
    pub const fn class(self) -> DtypeClass {
        self.info().class
    }

    /// Size in memory, in bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        self.info().bytes
    }

    /// Size in memory, in bits: what `T::BITS` is.
    pub const fn bits(self) -> u32 {
        self.bytes() * 8
    }

    /// Whether this is a floating-point type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.class(), DtypeClass::Float(_))
    }

    /// Whether its values are whole numbers. Not whether it has arithmetic: see [`Dtype::is_int`].
    #[inline]
    pub const fn is_whole(self) -> bool {
        matches!(self.class(), DtypeClass::Int(_))
    }

    /// Whether its values are whole numbers that are computed with: `i32` and `u32`.
    #[inline]
    pub const fn is_int(self) -> bool {
        self.is_whole() && self.has_arithmetic()
    }

    /// Whether its values are numbers, with or without arithmetic: all but `bool`.
    #[inline]
    pub const fn is_number(self) -> bool {
        !matches!(self.class(), DtypeClass::Bool)
    }

    /// Whether it has arithmetic: `bool` and what is for storage have none.
    #[inline]
    pub const fn has_arithmetic(self) -> bool {
        self.info().arithmetic.is_some()
    }

    /// Whether this is a 16-bit float (`f16` or `bf16`), two of which share a register.
    #[inline]
    pub const fn is_half(self) -> bool {
        self.is_float() && self.bytes() == 2
    }

    /// Whether its values are whole numbers with a sign.
    #[inline]
    pub const fn is_signed(self) -> bool {
        matches!(self.class(), DtypeClass::Int(IntFormat { signed: true, .. }))
    }

    /// The least and the greatest value of whole numbers and, as 0 and 1, of bools; `None` for floats.
    pub const fn range(self) -> Option<(i64, i64)> {
        match self.class() {
            DtypeClass::Bool => Some((0, 1)),
            DtypeClass::Int(format) => Some(format.range()),
            DtypeClass::Float(_) => None,
        }
    }

    /// The name an author writes.
    #[inline]
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The dtype an author calls `name`.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }
}

// What other code relies on, for every row.
const _: () = {
    let mut at = 0;
    while at < Dtype::ALL.len() {
        let dtype = Dtype::ALL[at];
        assert!(dtype as usize == at, "ALL is in the order of declaration");
        assert!(matches!(dtype.bytes(), 1 | 2 | 4), "memory is accessed by 1, 2 and 4 bytes");
        match dtype.class() {
            DtypeClass::Bool => {}
            DtypeClass::Int(format) => assert!(format.bits == dtype.bits()),
            DtypeClass::Float(format) => {
                assert!(1 + format.exponent_bits() + format.fraction_bits() == dtype.bits());
            }
        }
        at += 1;
    }
};

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
            Type::Index | Type::Value(DtypeRef::Param(_)) => None,
        }
    }
}

impl From<Dtype> for Type {
    fn from(dtype: Dtype) -> Self {
        Type::Value(DtypeRef::Is(dtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table's `match` is exhaustive, the list is not: a dtype beyond the last one listed would be decoded.
    #[test]
    fn every_dtype_is_listed() {
        for (at, dtype) in Dtype::ALL.into_iter().enumerate() {
            assert_eq!(postcard::from_bytes::<Dtype>(&[at as u8]), Ok(dtype));
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
        postcard::from_bytes::<Dtype>(&[Dtype::ALL.len() as u8]).unwrap_err();
    }

    #[test]
    fn formats_are_those_of_the_host() {
        assert_eq!(Dtype::I32.range(), Some((i32::MIN.into(), i32::MAX.into())));
        assert_eq!(Dtype::U32.range(), Some((0, u32::MAX.into())));
        assert_eq!(FloatFormat::Binary32.infinity(), f32::INFINITY.to_bits());
        assert_eq!(FloatFormat::Binary16.infinity(), half::f16::INFINITY.to_bits().into());
        assert_eq!(FloatFormat::Bfloat16.infinity(), half::bf16::INFINITY.to_bits().into());
        assert_eq!(FloatFormat::Binary32.magnitude(), i32::MAX as u32);
    }
}
