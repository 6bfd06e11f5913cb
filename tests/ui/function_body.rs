//! A mistake in a function is reported in the function, once.

use tile_runtime::prelude::*;

#[tile_fn]
fn power(x: f32, n: usize) -> f32 {
    let mut value = 1.0;
    for i in 0..n {
        if i == 0 {
            continue; //~
        }
        value *= x;
    }
    value
}

#[tile_kernel(uses(power))]
pub fn cubes(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = power(x[i], 3);
    }
}

#[tile_kernel(uses(power))]
pub fn squares(y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = power(y[i], 2);
    }
}

fn main() {}
