//! A barrier in a loop that threads leave at different times.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn halved(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    let mut v = x.masked([b * 128 + t]);
    while v > 1.0 {
        s[t] = v * 0.5;
        sync_threads(); //~
        v = s[t];
    }
    *y.masked_mut([b * 128 + t]) = v;
}

fn main() {}
