//! Products of tiles of operands, however these are stored.

use tile_runtime::prelude::*;

/// Adds the product of two tiles to `acc`: `a` is M x K, or K x M with `A_T`; `b` is K x N, or N x K with `B_T`.
#[tile_fn(dtypes(T in [f16, bf16, f32]))]
pub fn multiply<T, const A_T: bool, const B_T: bool>(
    a: &SharedArray<T, (A0, A1)>,
    b: &SharedArray<T, (B0, B1)>,
    acc: &mut Fragment<f32, (BM, BN)>,
) {
    if A_T && B_T {
        gemm(a.t(), b.t(), acc);
    } else if A_T {
        gemm(a.t(), b, acc);
    } else if B_T {
        gemm(a, b.t(), acc);
    } else {
        gemm(a, b, acc);
    }
}

/// Adds the transpose of the product of two tiles to `acc`, `b^T a^T`, of operands that are stored as [`multiply`] has them.
#[tile_fn(dtypes(T in [f16, bf16, f32]))]
pub fn multiply_turned<T, const A_T: bool, const B_T: bool>(
    a: &SharedArray<T, (A0, A1)>,
    b: &SharedArray<T, (B0, B1)>,
    acc: &mut Fragment<f32, (BN, BM)>,
) {
    if A_T && B_T {
        gemm(b, a, acc);
    } else if A_T {
        gemm(b.t(), a, acc);
    } else if B_T {
        gemm(b, a.t(), acc);
    } else {
        gemm(b.t(), a.t(), acc);
    }
}

/// [`multiply`] by `wgmma`, whatever the elements are: of f32 the leading 10 bits of each fraction are multiplied.
///
/// `wgmma` reads tf32 from shared memory where it lies along K, and from registers. An operand that lies across K is therefore the left one,
/// which threads load word by word. Of f32 with a `b` of K x N, `acc` is the transpose of the product, `b^T a^T`, and `a` is M x K.
#[tile_fn(uses(multiply), dtypes(T in [f16, bf16, f32]))]
pub fn multiply_by_wgmma<T, const A_T: bool, const B_T: bool>(
    a: &SharedArray<T, (A0, A1)>,
    b: &SharedArray<T, (B0, B1)>,
    acc: &mut Fragment<f32, (R, S)>,
) {
    if T::BITS == 16 {
        multiply::<T, A_T, B_T>(a, b, acc);
    } else if !B_T {
        gemm(b.t(), a.t(), acc).tf32();
    } else if A_T {
        gemm(a.t(), b.t(), acc).tf32();
    } else {
        gemm(a, b.t(), acc).tf32();
    }
}

// ANCHOR: steps
/// Adds the products of `share` steps of `BK` elements along K, from step `part * share` on, to the sum of the tile at `row` and `col`, by
/// [`multiply`] or, with `TF32`, by [`multiply_by_wgmma`]. `a_s` and `b_s` are what a stage of the ring holds.
#[tile_fn(uses(multiply, multiply_by_wgmma), dtypes(T in [f16, bf16, f32]))]
pub fn add_steps<T, const TF32: bool, const BK: usize, const STAGES: usize, const A_T: bool, const B_T: bool>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    a_s: &mut SharedArray<T, (AS0, AS1)>,
    b_s: &mut SharedArray<T, (BS0, BS1)>,
    acc: &mut Fragment<f32, (R, S)>,
    row: usize,
    col: usize,
    part: usize,
    share: usize,
) {
    for step in pipelined(0..share, STAGES) {
        let k = (part * share + step) * BK;
        copy(a.at([if A_T { k } else { row }, if A_T { row } else { k }]), a_s);
        copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), b_s);
        if TF32 {
            multiply_by_wgmma::<T, A_T, B_T>(a_s, b_s, acc);
        } else {
            multiply::<T, A_T, B_T>(a_s, b_s, acc);
        }
    }
}

// ANCHOR_END: steps

/// [`multiply`] with a choice for f32: with `TF32`, the leading 10 bits of each element's fraction are multiplied, on tensor cores.
#[tile_fn(uses(multiply), dtypes(T in [f16, bf16, f32]))]
pub fn multiply_as<T, const TF32: bool, const A_T: bool, const B_T: bool>(
    a: &SharedArray<T, (A0, A1)>,
    b: &SharedArray<T, (B0, B1)>,
    acc: &mut Fragment<f32, (BM, BN)>,
) {
    if !TF32 {
        multiply::<T, A_T, B_T>(a, b, acc);
    } else if A_T && B_T {
        gemm(a.t(), b.t(), acc).tf32();
    } else if A_T {
        gemm(a.t(), b, acc).tf32();
    } else if B_T {
        gemm(a, b.t(), acc).tf32();
    } else {
        gemm(a, b, acc).tf32();
    }
}

/// [`add_steps`] of operands that every thread copies, by [`multiply_as`].
#[tile_fn(uses(multiply_as), dtypes(T in [f16, bf16, f32]))]
pub fn add_copied_steps<T, const TF32: bool, const BK: usize, const STAGES: usize, const A_T: bool, const B_T: bool>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    a_s: &mut SharedArray<T, (AS0, AS1)>,
    b_s: &mut SharedArray<T, (BS0, BS1)>,
    acc: &mut Fragment<f32, (BM, BN)>,
    row: usize,
    col: usize,
    part: usize,
    share: usize,
) {
    for step in pipelined(0..share, STAGES) {
        let k = (part * share + step) * BK;
        copy(a.at([if A_T { k } else { row }, if A_T { row } else { k }]), a_s).tma(false);
        copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), b_s).tma(false);
        multiply_as::<T, TF32, A_T, B_T>(a_s, b_s, acc);
    }
}

/// Whether the extents of a product's operands and result agree, which every kernel of a product requires. `a` is M x K, or K x M with
/// `A_T`; `b` is K x N, or N x K with `B_T`. `a0`, `a1`, `b0` and `b1` are the operands' extents as they are stored.
#[tile_fn]
pub fn extents_agree<const A_T: bool, const B_T: bool>(
    a0: usize,
    a1: usize,
    b0: usize,
    b1: usize,
    m: usize,
    n: usize,
) -> bool {
    (A_T || a0 == m)
        && (!A_T || a1 == m)
        && (B_T || b1 == n)
        && (!B_T || b0 == n)
        && (A_T || B_T || a1 == b0)
        && (A_T || !B_T || a1 == b1)
        && (!A_T || B_T || a0 == b0)
        && (!A_T || !B_T || a0 == b1)
}
