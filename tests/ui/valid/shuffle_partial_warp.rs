//! Nearest neighbour: a reduction that any number of threads takes part in.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sums(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 48)]);
    let [t] = threads([48]);
    let v = thread_allreduce(Sum, x.masked([b * 48 + t]), t);
    if t == 0 {
        y[b] = v;
    }
}
