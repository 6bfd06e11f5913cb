//! An index is an i32.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn gather(v: &Tensor<i32, (N,)>, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let from = v.masked([i]);
    *y.masked_mut([i]) = x.masked([from]); //~
}

fn main() {}
