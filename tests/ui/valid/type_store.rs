//! Nearest neighbour: An f32 is stored where an f16 is wanted.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn halve(x: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let v = 0.5 * x.masked([i]).cast::<f32>();
    *y.masked_mut([i]) = v.cast::<f16>();
}
