//! `specialize` names a dim: what is made of it is a constant of the compiled kernel.

use tile_runtime::prelude::*;

#[tile_kernel(specialize(K, max = 8))]
pub fn double(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut values = alloc_local::<f32>([ceil_div(K, 32)]);
    for i in unroll(0..ceil_div(K, 32)) {
        values[i] = x.masked([row, i * 32 + t]);
    }
    for i in unroll(0..ceil_div(K, 32)) {
        *y.masked_mut([row, i * 32 + t]) = values[i] + values[i];
    }
}
