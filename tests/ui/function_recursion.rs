//! A function of a kernel cannot call itself.

use tile_runtime::prelude::*;

#[tile_fn]
fn power(x: f32, n: u32) -> f32 {
    if n == 0 { 1.0 } else { x * power(x, n - 1) } //~
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

fn main() {}
