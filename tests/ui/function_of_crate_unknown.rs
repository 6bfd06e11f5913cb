//! What another crate does not have is no function of it.

use tile_runtime::prelude::*;

#[tile_kernel(uses(tile_kernels::gemm::activation::swish))] //~
pub fn activated(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = tile_kernels::gemm::activation::swish(x[i]);
    }
}

fn main() {}
