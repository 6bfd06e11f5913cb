//! A kernel names the functions that it calls.

use tile_runtime::prelude::*;

#[tile_fn]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[tile_kernel]
pub fn activate(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = silu(x[i]); //~
    }
}

fn main() {}
