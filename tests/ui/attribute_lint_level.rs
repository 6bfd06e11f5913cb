//! A lint has one of three levels.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0601 = "error"))] //~
pub fn copy_all(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = x[i];
    }
}

fn main() {}
