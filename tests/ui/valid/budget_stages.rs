//! As many stages as there is room for.

use tile_runtime::prelude::*;

#[tile_kernel(require(K % 4 == 0))]
pub fn rows(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [bn] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut ws = alloc_shared::<f32>([128, 128]);
    let mut acc = 0.0f32;
    for bk in pipelined(0..ceil_div(K, 128), 2) {
        copy(w.at([bn * 128, bk * 128]), &mut ws);
        for k in 0..128 {
            acc += ws[[t, k]];
        }
    }
    *y.masked_mut([bn * 128 + t]) = acc;
}
