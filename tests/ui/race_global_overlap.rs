//! Blocks of 128 threads that are 64 elements apart.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn doubled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 64 + t;
    if i < N {
        y[i] = x[i] + x[i]; //~
    }
}

fn main() {}
