//! A thread axis has at least one thread.

use tile_runtime::prelude::*;

#[tile_kernel(instances(ROWS in [0, 1, 2]))]
pub fn rows<const ROWS: usize>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N]);
    let [t, u] = threads([32, ROWS]); //~
    if t + u == 0 {
        y[b] = x[b];
    }
}

fn main() {}
