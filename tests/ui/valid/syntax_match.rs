//! Nearest neighbour: `match` is outside the language.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn relu(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        if x[i] > 0.0 {
            y[i] = x[i];
        } else {
            y[i] = 0.0;
        }
    }
}
