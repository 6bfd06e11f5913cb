//! There is nothing that a tile of no columns divides.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn rows(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let COLUMNS = 4;
    let row = t / (COLUMNS / 8); //~
    let i = b * 128 + t;
    if i < N {
        y[i] = x.masked([b * 128 + row]);
    }
}

fn main() {}
