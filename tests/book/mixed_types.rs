//! A product in f16, a sum in f32, and nothing said about the conversion.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn squares(x: &Tensor<f16, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut acc = 0.0f32;
    for i in (t..K).step_by(32) {
        acc += x[[row, i]] * x[[row, i]];
    }
    let sum = thread_allreduce(Sum, acc, t);
    if t == 0 {
        y[row] = sum;
    }
}
// ANCHOR_END: kernel

fn main() {}
