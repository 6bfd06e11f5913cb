//! Nearest neighbour: A vectorised loop around another one.

use tile_runtime::prelude::*;

#[tile_kernel(require(K % 4 == 0))]
pub fn double(x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (K,)>) {
    let [b] = blocks([ceil_div(K, 256)]);
    let [t] = threads([32]);
    for u in unroll(0..2) {
        for v in vectorized(0..4) {
            *y.masked_mut([b * 256 + u * 128 + t * 4 + v]) = 2.0 * x.masked([b * 256 + u * 128 + t * 4 + v]);
        }
    }
}
