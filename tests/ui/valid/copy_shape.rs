//! Nearest neighbour: A tile is copied into an array of another shape.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn staged(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    copy(x.tile([b * 128..b * 128 + 128]), &mut s);
    *y.masked_mut([b * 128 + t]) = s[t];
}
