//! What is done with the sums of a tile before they are stored.

use tile_runtime::prelude::*;

/// A function of the sum: 0 is the identity, 1 ReLU, 2 GELU in its tanh form, 3 SiLU.
#[tile_fn]
pub fn activate(value: f32, activation: u32) -> f32 {
    if activation == 1 {
        max(value, 0.0)
    } else if activation == 2 {
        // 0.5 x (1 + tanh(u)) is x / (1 + e^-2u).
        let inner = 1.595_769_1 * (value + 0.044_715 * value * value * value);
        value * fast::recip(1.0 + fast::exp(-inner))
    } else if activation == 3 {
        value * fast::recip(1.0 + fast::exp(-value))
    } else {
        value
    }
}

/// `acc = f(alpha acc + beta c + bias)` for the tile of `c` that begins at `row` and `col`.
#[tile_fn(uses(activate), dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]))]
pub fn finish<T, U>(
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
        let mut value = alpha * acc[[i, j]];
        if beta != 0.0 {
            value += beta * c.masked([row + i, col + j]).cast::<f32>();
        }
        if let Some(shift) = bias {
            value += shift.masked([col + j]).cast::<f32>();
        }
        acc[[i, j]] = activate(value, activation);
    }
}
