//! Nearest neighbour: only the dims that `specialize` names are constants.

use tile_runtime::prelude::*;

#[tile_kernel(specialize(N))]
pub fn double(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
    let [row] = blocks([K]);
    let [t] = threads([N / 8]);
    for i in unroll(0..8) {
        *y.masked_mut([i * (N / 8) + t, row]) = x.masked([i * (N / 8) + t, row]);
    }
}
