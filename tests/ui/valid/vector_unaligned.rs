//! Nearest neighbour: A 16-byte access whose row stride may be odd.

use tile_runtime::prelude::*;

#[tile_kernel(require(K % 8 == 0))]
pub fn first_rows(w: &Tensor<f16, (N, K)>, y: &mut Tensor<f32, (N, Fixed<32>)>) {
    let [row] = blocks([N]);
    let [t] = threads([32]);
    let mut v = alloc_local::<f16>([8]);
    for i in vectorized(0..8) {
        v[i] = w.masked([row, t * 8 + i]);
    }
    let mut acc = 0.0f32;
    for i in unroll(0..8) {
        acc += v[i].cast::<f32>();
    }
    y[[row, t]] = acc;
}
