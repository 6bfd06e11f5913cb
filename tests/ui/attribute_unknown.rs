//! The attribute has an item that does not exist.

use tile_runtime::prelude::*;

#[tile_kernel(requires(N % 32 == 0))] //~
pub fn rows(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[i];
    }
}

fn main() {}
