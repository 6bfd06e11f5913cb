//! A function that the language does not have.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn scale(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    *y.masked_mut([i]) = sinh(x.masked([i])); //~
}

fn main() {}
