//! A vector access has 2, 4, 8 or 16 bytes.

use tile_runtime::prelude::*;

#[tile_kernel(require(N % 12 == 0))]
pub fn triples(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([32]);
    let mut v = alloc_local::<f32>([3]);
    for i in vectorized(0..3) {
        v[i] = x.masked([b * 128 + t * 3 + i]); //~
    }
    *y.masked_mut([b * 32 + t]) = v[0];
}

fn main() {}
