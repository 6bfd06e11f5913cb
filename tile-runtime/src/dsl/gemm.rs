//! Products of tiles on tensor cores.

use super::array::{Fragment, SharedArray};
use super::{Float, shadow};
use std::marker::PhantomData;

/// `acc += a b` for whole tiles: `gemm(&a_s, b_s.t(), &mut acc)`.
///
/// `a` is `[M, K]`, `b` is `[K, N]`, `acc` an `[M, N]` fragment of `f32`. `.t()` says that an array holds the
/// transpose: with `b_s` of `[N, K]`, `b_s.t()` is `[K, N]`. `a` and `b` are shared arrays of one dtype; `a` may be a
/// fragment. Every thread of the block must reach it, and the compiler places the barriers.
///
/// Tensor cores add in an order of their own: the sum is exact while every partial sum fits into 24 bits, else its
/// error grows with K.
pub fn gemm<T: Float>(a: impl LeftMatrix<T>, b: impl RightMatrix<T>, acc: &mut Fragment<f32>) -> GemmRequest {
    let _ = (a, b, acc);
    shadow()
}

/// A product, of which more can be asked.
pub struct GemmRequest(());

impl GemmRequest {
    /// How the block's warps divide the accumulator: [`Square`], [`FullRow`] or [`FullCol`].
    pub fn policy(self, policy: WarpPolicyName) -> GemmRequest {
        let _ = policy;
        shadow()
    }

    /// Starts the sum from zero: `acc = a b`.
    pub fn clear(self) -> GemmRequest {
        shadow()
    }

    /// Multiplies `f32` operands on tensor cores, as tf32: of each element the sign, the exponent and the leading 10 bits
    /// of the fraction, the rest dropped (rounded towards zero). The result is within `2^-9 sum |a| |b|` of the product of
    /// the elements as they are, and the sum is in `f32`. A demand: an error for operands of any other dtype, and for tiles
    /// that the tensor cores cannot multiply.
    pub fn tf32(self) -> GemmRequest {
        shadow()
    }

    /// Several products in one: `b` holds G matrices, one below the other, and each of G equal groups of the rows of `a` and `acc`
    /// is multiplied with the one of its number.
    ///
    /// With `a` of `[G M, K]` and `acc` of `[G M, N]`, `&b_s` is `[G K, N]`, and for `b_s.t()` the array is `[G N, K]`: G follows
    /// from its extents. `a` in shared memory may be `[M, K]`, the rows of one group, which each group is then made of. A warp has rows of one group, so warps
    /// compute products of their own, with no word between them.
    pub fn grouped(self) -> GemmRequest {
        shadow()
    }
}

/// The transpose of a shared array, an operand of [`gemm`]: `b_s.t()`.
#[derive(Clone, Copy)]
pub struct Transposed<T> {
    _element: PhantomData<T>,
}

impl<T> SharedArray<T> {
    /// Its transpose, as an operand of [`gemm`]. Nothing moves: the product reads the array the other way.
    pub fn t(&self) -> Transposed<T> {
        shadow()
    }
}

/// What may be the left operand of [`gemm`]: a shared array, its transpose, or a fragment.
#[diagnostic::on_unimplemented(
    message = "`gemm` cannot take `{Self}` as its left operand of `{T}`",
    label = "expected `&a_s`, `a_s.t()` of a shared array, or `&fragment`"
)]
pub trait LeftMatrix<T> {}

/// What may be the right operand of [`gemm`]: a shared array or its transpose.
#[diagnostic::on_unimplemented(
    message = "`gemm` cannot take `{Self}` as its right operand of `{T}`",
    label = "expected `&b_s` or `b_s.t()` of a shared array with the left operand's dtype"
)]
pub trait RightMatrix<T> {}

impl<T> LeftMatrix<T> for &SharedArray<T> {}
impl<T> LeftMatrix<T> for Transposed<T> {}
impl<T> LeftMatrix<T> for &Fragment<T> {}
impl<T> RightMatrix<T> for &SharedArray<T> {}
impl<T> RightMatrix<T> for Transposed<T> {}

/// A name of how warps divide an accumulator: [`Square`], [`FullRow`], [`FullCol`].
#[derive(Clone, Copy)]
pub struct WarpPolicyName(());

/// Warps divide the accumulator as squarely as the tile allows.
#[allow(non_upper_case_globals)]
pub const Square: WarpPolicyName = WarpPolicyName(());
/// A warp has whole rows of the accumulator.
#[allow(non_upper_case_globals)]
pub const FullRow: WarpPolicyName = WarpPolicyName(());
/// A warp has whole columns of the accumulator.
#[allow(non_upper_case_globals)]
pub const FullCol: WarpPolicyName = WarpPolicyName(());
