//! A scalar is streamed.

use tile_runtime::prelude::*;

#[tile_kernel(stream(n))] //~
pub fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, n: f32) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[i] * n;
    }
}

fn main() {}
