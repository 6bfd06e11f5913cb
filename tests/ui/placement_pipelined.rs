//! A statement of a pipelined loop loads and computes.

use tile_runtime::prelude::*;

#[tile_kernel(instances(VEC = 4), require(K % VEC == 0))]
pub fn rows<const VEC: usize>(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut ws = alloc_local::<f32>([VEC]);
    let mut acc = 0.0f32;
    for chunk in pipelined(0..ceil_div(K, 32 * VEC), 2) {
        for v in unroll(0..VEC) {
            ws[v] = w.masked([row, (chunk * 32 + t) * VEC + v]); //~
            acc += ws[v];
        }
    }
    let sum = thread_allreduce(Sum, acc, t);
    if t == 0 {
        y[row] = sum;
    }
}

fn main() {}
