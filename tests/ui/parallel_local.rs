//! An array of each thread's own is read in a `parallel` loop.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn scaled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut l = alloc_local::<f32>([2]);
    for i in unroll(0..2) {
        l[i] = x.masked([t * 2 + i]);
    }
    for [i] in parallel([128]) {
        *y.masked_mut([i]) = l[i % 2]; //~
    }
}

fn main() {}
