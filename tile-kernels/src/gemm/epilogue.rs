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

/// `c = f(alpha sums[e] + beta c + bias)` for four neighbouring columns of `c` from `row` and `col` on, where it has them.
#[tile_fn(uses(activate), dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]))]
pub fn store_four<T, U>(
    sums: &LocalArray<f32, (FOURS, Fixed<4>)>,
    e: usize,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    row: usize,
    col: usize,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let mut out = alloc_local::<U>([4]);
    if beta != 0.0 {
        for v in vectorized(0..4) {
            out[v] = c.masked([row, col + v]);
        }
    }
    for v in unroll(0..4) {
        let mut value = alpha * sums[[e, v]];
        if beta != 0.0 {
            value += beta * out[v].cast::<f32>();
        }
        if let Some(shift) = bias {
            value += shift.masked([col + v]).cast::<f32>();
        }
        out[v] = activate(value, activation).cast::<U>();
    }
    for v in vectorized(0..4) {
        *c.masked_mut([row, col + v]) = out[v];
    }
}
