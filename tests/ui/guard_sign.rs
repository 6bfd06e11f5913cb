//! The first thread has no left neighbour.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0605 = "deny"))]
pub fn differences(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, by: usize) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = x[i] - x[i - by]; //~
    }
}

fn main() {}
