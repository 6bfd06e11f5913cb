//! Nearest neighbour: A shared array is refilled while others still read it.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sliding(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    let mut acc = 0.0f32;
    for k in 0..ceil_div(K, 64) {
        s[t] = x.masked([row, k * 64 + t]);
        sync_threads();
        acc += s[63 - t];
        sync_threads();
    }
    let sum = thread_allreduce(Sum, acc, t);
    if t == 0 {
        y[row] = sum;
    }
}
