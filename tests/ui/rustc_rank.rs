//! A matrix is indexed as a vector.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn column(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    *y.masked_mut([i]) = w.masked([i]); //~
}

fn main() {}
