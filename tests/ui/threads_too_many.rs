//! A block has at most 1,024 threads.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn wide(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 2048)]);
    let [t] = threads([2048]); //~
    *y.masked_mut([b * 2048 + t]) = x.masked([b * 2048 + t]);
}

fn main() {}
