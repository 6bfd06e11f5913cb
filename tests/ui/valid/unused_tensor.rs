//! Nearest neighbour: A tensor that may be written, and nothing writes it.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0608 = "deny"))]
pub fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, z: &Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = 2.0 * x[i] + z[i];
    }
}
