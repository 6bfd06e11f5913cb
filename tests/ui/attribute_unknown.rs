//! The attribute has an item that does not exist.

use tile_runtime::prelude::*;

#[tile_kernel(instanses(ROWS in [1, 2]))] //~
pub fn rows<const ROWS: usize>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, ROWS)]);
    let [t] = threads([ROWS]);
    let i = b * ROWS + t;
    if i < N {
        y[i] = x[i];
    }
}

fn main() {}
