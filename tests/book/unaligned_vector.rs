//! The row length is not promised to be a multiple of the vector.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn row_sums(w: &Tensor<f16, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut ws = alloc_local::<f16>([8]);
    let mut acc = 0.0f32;
    for step in 0..ceil_div(K, 256) {
        for v in vectorized(0..8) {
            ws[v] = w.masked([row, step * 256 + t * 8 + v]);
        }
        for v in unroll(0..8) {
            acc += ws[v].cast::<f32>();
        }
    }
    let sum = thread_allreduce(Sum, acc, t);
    if t == 0 {
        y[row] = sum;
    }
}
// ANCHOR_END: kernel

fn main() {}
