//! What is done with the sums of a tile before they are stored.

use super::activation::activate;
use tile_runtime::prelude::*;

/// `acc = f(alpha acc + beta c + bias)` for the tile of `c` that begins at `row` and `col`; with `TURNED`, `acc` is the transpose of the tile.
#[tile_fn(uses(activate), dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]))]
pub fn finish<T, U, const TURNED: bool>(
    acc: &mut Fragment<f32, (BM, BN)>,
    c: &Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    row: usize,
    col: usize,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    for [i, j] in parallel([BM, BN]) {
        let mut value = acc[[i, j]];
        // A multiplication an element; f32 has no registers for another branch.
        if T::BITS == 32 || alpha != 1.0 {
            value *= alpha;
        }
        if beta != 0.0 {
            value +=
                beta * c.masked([row + if TURNED { j } else { i }, col + if TURNED { i } else { j }]).cast::<f32>();
        }
        if let Some(shift) = bias {
            value += shift.masked([col + if TURNED { i } else { j }]).cast::<f32>();
        }
        acc[[i, j]] = activate(value, activation);
    }
}

/// `acc = f(alpha acc + beta c[z] + bias)` for the tile of the matrix `z` of `c` that begins at `row` and `col`; with `TURNED`, `acc` is the
/// transpose of the tile.
#[tile_fn(uses(activate), dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]))]
pub fn finish_of<T, U, const TURNED: bool>(
    acc: &mut Fragment<f32, (BM, BN)>,
    c: &Tensor<U, (Z, M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    z: usize,
    row: usize,
    col: usize,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    for [i, j] in parallel([BM, BN]) {
        let mut value = acc[[i, j]];
        // A multiplication an element; f32 has no registers for another branch.
        if T::BITS == 32 || alpha != 1.0 {
            value *= alpha;
        }
        if beta != 0.0 {
            value +=
                beta * c.masked([z, row + if TURNED { j } else { i }, col + if TURNED { i } else { j }]).cast::<f32>();
        }
        if let Some(shift) = bias {
            value += shift.masked([col + if TURNED { i } else { j }]).cast::<f32>();
        }
        acc[[i, j]] = activate(value, activation);
    }
}
