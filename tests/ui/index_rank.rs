//! A shared array is indexed with too few indices.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn staged(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128, 2]);
    s[[t, 0]] = x.masked([b * 128 + t]);
    *y.masked_mut([b * 128 + t]) = s[t]; //~
}

fn main() {}
