//! Tensors that the previous kernel does not write are read before that kernel is done; one of them is then written.

use tile_runtime::prelude::*;

#[tile_kernel(pdl(independent = [x, y]))]
pub fn scaled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, scale: f32) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] += x[i] * scale;
    }
}
