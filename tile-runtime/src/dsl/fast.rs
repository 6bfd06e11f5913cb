//! Faster and coarser than the functions of the same name: the GPU's approximate instructions. Their error is
//! absolute, not relative, near zero; subnormals may be flushed.

use super::{Float, shadow};

/// e to the power of `x`, as 2 to the power of `x * log2(e)` by the GPU's `ex2.approx`.
pub fn exp<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// 2 to the power of `x`, by the GPU's `ex2.approx`.
pub fn exp2<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The natural logarithm, by the GPU's `lg2.approx`.
pub fn log<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// `1 / x`, by the GPU's `rcp.approx`.
pub fn recip<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The hyperbolic tangent, by the GPU's `tanh.approx`.
pub fn tanh<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The sine of `x` in radians, by the GPU's `sin.approx`: an absolute error of 2^-21 within [-pi, pi], more beyond.
pub fn sin<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}

/// The cosine of `x` in radians, by the GPU's `cos.approx`: an absolute error of 2^-21 within [-pi, pi], more beyond.
pub fn cos<T: Float>(x: T) -> T {
    let _ = x;
    shadow()
}
