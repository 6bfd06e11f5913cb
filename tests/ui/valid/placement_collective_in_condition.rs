//! Nearest neighbour: A collective may not stand where it is not always evaluated.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn votes(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let v = x.masked([b * 32 + t]);
    let found = any(v > 0.0);
    if N > 32 && found {
        *y.masked_mut([b * 32 + t]) = v;
    }
}
