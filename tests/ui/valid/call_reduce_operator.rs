//! Nearest neighbour: A reduction has one of three operators.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn largest(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([128]);
    let mut acc = f32::NEG_INFINITY;
    for k in 0..ceil_div(K, 128) {
        if k * 128 + t < K {
            acc = max(acc, x[[row, k * 128 + t]]);
        }
    }
    let all = thread_allreduce(Max, acc, t);
    if t == 0 {
        y[row] = all;
    }
}
