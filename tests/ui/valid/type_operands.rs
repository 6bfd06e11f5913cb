//! Nearest neighbour: A generic element is multiplied by an f32.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn scale<T: Float>(alpha: f32, x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let v = alpha * x.masked([i]).cast::<f32>();
    *y.masked_mut([i]) = v.cast::<T>();
}
