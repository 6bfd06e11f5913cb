//! Several threads write one shared element.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn broadcast(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([1]);
    s[0] = x.masked([b]); //~
    sync_threads();
    *y.masked_mut([b * 128 + t]) = s[0];
}

fn main() {}
