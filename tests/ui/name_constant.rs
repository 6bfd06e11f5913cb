//! A constant that is declared outside of the kernel.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn scale(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, BLOCK)]); //~
    let [t] = threads([BLOCK]);
    let i = b * BLOCK + t;
    *y.masked_mut([i]) = x.masked([i]);
}

fn main() {}
