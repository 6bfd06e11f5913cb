//! Arithmetic that Rust has no operator for.
//!
//! `sqrt`, `fma`, `abs`, `min` and `max` give the same bits on the GPU and in the simulators. `exp`, `exp2`, `log`,
//! `tanh` and `rsqrt` are accurate to a few units in the last place and may differ in it; the faster and coarser forms
//! are in [`super::fast`].

use super::{Float, Number, shadow};

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

/// What [`min`] and [`max`] compare: numbers and `usize`.
#[diagnostic::on_unimplemented(
    message = "`min` and `max` do not compare `{Self}`",
    label = "expected `usize`, `i32`, `u32`, `f16`, `bf16` or `f32`"
)]
pub trait Ordered: Copy + PartialOrd {}
impl Ordered for usize {}
impl<T: Number> Ordered for T {}
