//! Element types as a kernel's body sees them.

use super::shadow;
use crate::element::Element;
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign, Mul, MulAssign,
    Neg, Not, Rem, RemAssign, Shl, Shr, Sub, SubAssign,
};

pub use half::{bf16, f16};

/// The 16-bit floating-point types: `f16` and `bf16`.
///
/// As a kernel's bound, `T: Half` declares the kernel for both.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a 16-bit float: a kernel's `T: Half` is `f16` or `bf16`",
    label = "not `f16` or `bf16`"
)]
pub trait Half: Float {}

/// The floating-point types: `f16`, `bf16` and `f32`.
///
/// As a kernel's bound, `T: Float` declares the kernel for all three. Arithmetic on 16-bit types computes each
/// operation in f32 and rounds it to the type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a float of the kernel language: a kernel's `T: Float` is `f16`, `bf16` or `f32`",
    label = "not `f16`, `bf16` or `f32`"
)]
pub trait Float: Number + Neg<Output = Self> {
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity: what a maximum starts from.
    const NEG_INFINITY: Self;
}

/// The integer types: `i32` and `u32`, both wrapping.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer element type: those are `i32` and `u32`",
    label = "not `i32` or `u32`"
)]
pub trait Integer:
    Number
    + Eq
    + Ord
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<Output = Self>
    + Shr<Output = Self>
    + BitAndAssign
    + BitOrAssign
    + BitXorAssign
{
}

/// The element types with arithmetic: all but `bool` and `u8`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic in a kernel: `i32`, `u32`, `f16`, `bf16` and `f32` have",
    label = "not a number of the kernel language"
)]
pub trait Number:
    Value
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + RemAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
}

/// The element types: `bool`, `u8`, `i32`, `u32`, `f16`, `bf16` and `f32`. A `u8` is for storage: it is loaded, stored, copied, compared and
/// cast, and has no arithmetic.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type: those are `bool`, `u8`, `i32`, `u32`, `f16`, `bf16` and `f32`",
    label = "not an element type of the kernel language"
)]
pub trait Value: Element + Cast + Copy + PartialEq + 'static {
    /// Size of an element in memory, in bits: a 16-byte access holds `128 / T::BITS` of them.
    const BITS: usize;
}

/// Conversion between element types, and between them and `usize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted in a kernel",
    label = "not an element type of the kernel language",
    note = "element types are `bool`, `u8`, `i32`, `u32`, `f16`, `bf16` and `f32`; indices are `usize`"
)]
pub trait Cast: Copy {
    /// Converts: float to float rounds to nearest even; float to integer truncates, saturates, and takes NaN to 0;
    /// integer to float rounds to nearest even; `bool` to a number is 0 or 1.
    fn cast<U: Cast>(self) -> U {
        shadow()
    }
}

/// A literal of whatever element type is wanted here, rounded to it: `acc * lit(0.5)`.
pub fn lit<T: Number>(value: f64) -> T {
    let _ = value;
    shadow()
}

impl Cast for usize {}

macro_rules! values {
    ($($ty:ty),*) => {$(
        impl Cast for $ty {}
        impl Value for $ty {
            const BITS: usize = <$ty as Element>::DTYPE.bits() as usize;
        }
    )*};
}
values!(bool, u8, i32, u32, f16, bf16, f32);

macro_rules! numbers {
    ($($ty:ty = $zero:expr, $one:expr);*) => {$(
        impl Number for $ty {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
        }
    )*};
}
numbers!(i32 = 0, 1; u32 = 0, 1; f32 = 0.0, 1.0; f16 = f16::ZERO, f16::ONE; bf16 = bf16::ZERO, bf16::ONE);

macro_rules! floats {
    ($($ty:ty),*) => {$(
        impl Float for $ty {
            const INFINITY: Self = <$ty>::INFINITY;
            const NEG_INFINITY: Self = <$ty>::NEG_INFINITY;
        }
    )*};
}
floats!(f32, f16, bf16);

impl Half for f16 {}
impl Half for bf16 {}
impl Integer for i32 {}
impl Integer for u32 {}
