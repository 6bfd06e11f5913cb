//! A row of a tensor is an argument of a function; a column, whose elements are not neighbours, is none.

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
        add(x.column(0), y, t); //~
    }
}

fn main() {}
