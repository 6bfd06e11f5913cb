//! Both tiles are copied before the computing.

use tile_runtime::prelude::*;

#[tile_kernel(require(K % 4 == 0))]
pub fn rows(w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [bn] = blocks([ceil_div(N, 32)]);
    let [t] = threads([64]);
    let mut ws = alloc_shared::<f32>([32, 64]);
    let mut vs = alloc_shared::<f32>([32, 64]);
    let mut acc = 0.0f32;
    for bk in pipelined(0..ceil_div(K, 64), 2) {
        copy(w.at([bn * 32, bk * 64]), &mut ws);
        copy(w.at([bn * 32 + 32, bk * 64]), &mut vs);
        acc += ws[[0, t]];
        acc += vs[[0, t]];
    }
    if t < 32 {
        *y.masked_mut([bn * 32 + t]) = acc;
    }
}
