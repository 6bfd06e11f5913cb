//! Nearest neighbour: a row of a tensor is an argument of a function.

use tile_runtime::prelude::*;

#[tile_fn]
fn add(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, i: usize) {
    if i < N {
        y[i] += x[i];
    }
}

#[tile_kernel(uses(add), partial(y))]
pub fn add_first(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([128]);
    if M > 0 {
        add(x.row(0), y, t);
    }
}
