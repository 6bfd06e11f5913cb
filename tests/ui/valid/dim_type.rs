//! Nearest neighbour: A type is no dim.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    *y.masked_mut([i]) = 2.0 * x.masked([i]);
}
