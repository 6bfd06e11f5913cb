//! A tensor of a fixed extent is written past its end.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn partial(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N, Fixed<32>)>) {
    let [b] = blocks([N]);
    let [t] = threads([64]);
    y[[b, t]] = x[b]; //~
}

fn main() {}
