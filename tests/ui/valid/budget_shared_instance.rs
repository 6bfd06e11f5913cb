//! Nearest neighbour: One declared instance needs more shared memory than any target has.

use tile_runtime::prelude::*;

#[tile_kernel(instances(BM in [64, 128]))]
pub fn staged<const BM: usize>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([BM, 128]);
    s[[t, 0]] = x.masked([b * 64 + t]);
    *y.masked_mut([b * 64 + t]) = s[[t, 0]];
}
