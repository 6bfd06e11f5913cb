//! An array is allocated once, outside loops.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn staged(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut acc = 0.0f32;
    for k in 0..ceil_div(K, 32) {
        let mut s = alloc_shared::<f32>([32]); //~
        s[t] = x.masked([row, k * 32 + t]);
        acc += s[t];
    }
    let sum = thread_allreduce(Sum, acc, t);
    if t == 0 {
        y[row] = sum;
    }
}

fn main() {}
