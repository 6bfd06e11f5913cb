//! A 16-byte access to a shared array whose rows are not 16-byte aligned.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn padded(x: &Tensor<f16, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f16>([32, 36]);
    let mut v = alloc_local::<f16>([8]);
    fill(&mut s, f16::ZERO);
    s[[t, 0]] = x.masked([b * 32 + t]);
    for i in vectorized(0..8) {
        v[i] = s[[t, i]]; //~
    }
    *y.masked_mut([b * 32 + t]) = v[0].cast::<f32>();
}

fn main() {}
