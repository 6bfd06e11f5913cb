//! A tensor that the kernel writes is declared independent.

use tile_runtime::prelude::*;

#[tile_kernel(pdl(independent = [y]))] //~
pub fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[i] + x[i];
    }
}

fn main() {}
