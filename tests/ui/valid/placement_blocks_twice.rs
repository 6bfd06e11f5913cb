//! Nearest neighbour: The grid is declared once.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn twice(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let c = b;
    let i = (b + c) / 2 * 128 + t;
    if i < N {
        y[i] = x[i];
    }
}
