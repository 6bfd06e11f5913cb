//! A condition that no launch can meet: twice a number is never odd.

use tile_runtime::prelude::*;

#[tile_kernel(require((N * 2) % 2 == 1))] //~
pub fn scale(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    if i < N {
        y[i] = x[i] * 2.0;
    }
}

fn main() {}
