//! Nearest neighbour: a barrier orders them.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn reversed(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([32]);
    s[t] = x.masked([b * 32 + t]);
    let v = shfl_xor(x.masked([b * 32 + t]), 1);
    sync_threads();
    *y.masked_mut([b * 32 + t]) = s[31 - t] + v;
}
