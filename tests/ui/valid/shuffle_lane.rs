//! Nearest neighbour: a mask of a warp.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn exchanged(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let v = shfl_xor(x.masked([b * 64 + t]), 31);
    *y.masked_mut([b * 64 + t]) = v;
}
