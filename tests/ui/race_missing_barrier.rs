//! A neighbour's element is read with no barrier between.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn reversed(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    s[t] = x.masked([b * 128 + t]);
    *y.masked_mut([b * 128 + t]) = s[127 - t]; //~
}

fn main() {}
