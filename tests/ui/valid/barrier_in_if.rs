//! Nearest neighbour: A barrier that some threads do not reach.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn halves(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    s[t] = x.masked([b * 128 + t]);
    sync_threads();
    if t < 64 {
        *y.masked_mut([b * 128 + t]) = s[t];
    }
}
