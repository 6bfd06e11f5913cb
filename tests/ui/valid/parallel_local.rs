//! Nearest neighbour: what threads have goes through a shared array.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn scaled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([128]);
    for i in unroll(0..2) {
        s[t * 2 + i] = x.masked([t * 2 + i]);
    }
    for [i] in parallel([128]) {
        *y.masked_mut([i]) = s[i];
    }
}
