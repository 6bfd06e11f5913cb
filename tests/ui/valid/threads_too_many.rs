//! Nearest neighbour: A block has at most 1,024 threads.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn wide(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 1024)]);
    let [t] = threads([1024]);
    *y.masked_mut([b * 1024 + t]) = x.masked([b * 1024 + t]);
}
