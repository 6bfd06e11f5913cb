//! One block less than one.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn fill(y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([1 - 2]); //~
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = 1.0;
    }
}

fn main() {}
