//! Nearest neighbour: An array that is filled, and nothing reads it.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0608 = "deny"))]
pub fn scaled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    let mut s = alloc_shared::<f32>([128]);
    s[t] = x.masked([i]);
    sync_threads();
    *y.masked_mut([i]) = s[(t + 1) % 128];
}
