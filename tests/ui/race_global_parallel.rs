//! All blocks of a row store to its first elements.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn copied(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 64), M]);
    threads([64]);
    for [j] in parallel([64]) {
        *y.masked_mut([by, j]) = x.masked([by, bx * 64 + j]); //~
    }
}

fn main() {}
