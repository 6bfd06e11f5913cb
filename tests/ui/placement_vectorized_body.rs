//! The body of a vectorised loop is straight-line.

use tile_runtime::prelude::*;

#[tile_kernel(require(K % 4 == 0))]
pub fn clip(x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (K,)>) {
    let [b] = blocks([ceil_div(K, 128)]);
    let [t] = threads([32]);
    for v in vectorized(0..4) {
        let a = x.masked([b * 128 + t * 4 + v]);
        if a > 0.0 { //~
            *y.masked_mut([b * 128 + t * 4 + v]) = a;
        }
    }
}

fn main() {}
