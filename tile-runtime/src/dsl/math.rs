//! Arithmetic that Rust has no operator for.
//!
//! `sqrt`, `fma`, `abs`, `min`, `max`, the roundings to whole numbers and everything on integers give the same bits on the
//! GPU and in the simulators. `exp`, `exp2`, `log`, `tanh`, `rsqrt`, `sin`, `cos` and `pow` are accurate to a few units in the last
//! place (ulp) of f32 and may differ in it: on the GPU at most 1 for `log`, 2 for `exp`, `exp2`, `rsqrt`, `tanh`, `sin` and `cos`,
//! and 4 for `pow`. Source: CUDA C++ Programming Guide, "Mathematical Functions". The faster and coarser forms are in
//! [`super::fast`].

use super::{Float, Integer, Number, shadow};

/// `a / b`, rounded up: how many tiles of `b` cover `a`.
pub fn ceil_div(a: usize, b: usize) -> usize {
    let _ = (a, b);
    shadow()
}

/// The greater. Of a number and a NaN, the number.
pub fn max<T: Ordered>(a: T, b: T) -> T {
    let _ = (a, b);
    shadow()
}

/// The lesser. Of a number and a NaN, the number.
pub fn min<T: Ordered>(a: T, b: T) -> T {
    let _ = (a, b);
    shadow()
}

/// `a` where `condition` holds, else `b`; both are evaluated.
pub fn select<T: Copy>(condition: bool, a: T, b: T) -> T {
    let _ = (condition, a, b);
    shadow()
}

/// `a * b + c`, rounded once (16-bit types: computed in f32, then rounded to the type).
pub fn fma<T: Float>(a: T, b: T, c: T) -> T {
    let _ = (a, b, c);
    shadow()
}

/// The absolute value.
pub fn abs<T: Number>(x: T) -> T {
    let _ = x;
    shadow()
}

/// e to the power of `x`.
pub fn exp<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// 2 to the power of `x`.
pub fn exp2<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The natural logarithm.
pub fn log<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The square root, correctly rounded.
pub fn sqrt<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// `1 / sqrt(x)`.
pub fn rsqrt<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The hyperbolic tangent.
pub fn tanh<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The sine of `x` in radians, of any size: arguments are reduced exactly.
pub fn sin<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The cosine of `x` in radians, of any size: arguments are reduced exactly.
pub fn cos<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// `x` to the power of `y`. NaN where `x` is negative and `y` no whole number; 1 where `y` is 0 or `x` is 1, whatever the other is.
pub fn pow<T: Float>(x: T, y: T) -> T {
    let _ = (x, y);
    shadow()
}

/// The greatest whole number that is not greater than `x`.
pub fn floor<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The least whole number that is not less than `x`.
pub fn ceil<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// `x` without its fraction.
pub fn trunc<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The nearest whole number; halves away from zero, as Rust's `f32::round`.
pub fn round<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The nearest whole number; halves to the even one. One instruction on the GPU, where [`round`] takes several.
pub fn round_ties_even<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// Whether `x` is a NaN.
pub fn is_nan<T: Float>(x: T) -> bool {
    let _ = x;
    shadow()
}

/// The upper 32 bits of the 64-bit product; the lower ones are `a * b`, which wraps. So counter-based random numbers
/// (Philox) multiply.
pub fn mul_hi<T: Integer>(a: T, b: T) -> T {
    let _ = (a, b);
    shadow()
}

/// How many bits are one: `count_ones(ballot(p))` is how many lanes agree.
pub fn count_ones<T: Integer>(x: T) -> T {
    let _ = x;
    shadow()
}

/// How many bits are zero above the highest one; 32 of 0.
pub fn leading_zeros<T: Integer>(x: T) -> T {
    let _ = x;
    shadow()
}

/// How many bits are zero below the lowest one; 32 of 0. `trailing_zeros(ballot(p))` is the first lane that agrees.
pub fn trailing_zeros<T: Integer>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The bits of `x`, as [`f32::to_bits`]. Of a NaN, which NaN's is not defined.
pub fn to_bits(x: f32) -> u32 {
    let _ = x;
    shadow()
}

/// What [`min`] and [`max`] compare: numbers and `usize`.
#[diagnostic::on_unimplemented(
    message = "`min` and `max` do not compare `{Self}`",
    label = "expected `usize`, `i32`, `u32`, `f16`, `bf16` or `f32`"
)]
pub trait Ordered: Copy + PartialOrd {}
impl Ordered for usize {}
impl<T: Number> Ordered for T {}
