//! 184,320 bytes of shared memory are more than sm_80 has.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0504 = "deny"))]
pub fn large(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([360, 128]); //~
    s[[t, 0]] = x.masked([b * 128 + t]);
    *y.masked_mut([b * 128 + t]) = s[[t, 0]];
}

fn main() {}
