//! A reduction that some threads do not reach.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sums(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([128]);
    let v = x.masked([row, t]);
    if t < 48 {
        let sum = thread_allreduce(Sum, v, t); //~
        if t == 0 {
            y[row] = sum;
        }
    }
}

fn main() {}
