//! An access of a vectorised loop that is not contiguous.

use tile_runtime::prelude::*;

#[tile_kernel(require(N % 4 == 0))]
pub fn evens(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([32]);
    let mut v = alloc_local::<f32>([4]);
    for i in vectorized(0..4) {
        v[i] = x.masked([b * 128 + t * 4 + 2 * i]); //~
    }
    for i in unroll(0..4) {
        *y.masked_mut([b * 128 + t * 4 + i]) = v[i];
    }
}

fn main() {}
