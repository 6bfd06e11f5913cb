//! A kernel returns nothing.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn total(x: &Tensor<f32, (N,)>, y: &Tensor<f32, (N,)>) -> f32 { //~
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    x.masked([i]) + y.masked([i])
}

fn main() {}
