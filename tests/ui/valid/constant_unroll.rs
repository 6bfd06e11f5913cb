//! Nearest neighbour: A loop that is written out has a constant extent.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sum_rows(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let row = b * 128 + t;
    let mut acc = 0.0f32;
    for k in serial(0..K) {
        acc += x.masked([row, k]);
    }
    *y.masked_mut([row]) = acc;
}
