//! A tile that no multiprocessor can hold.
use tile_runtime::prelude::*;

// ANCHOR: kernel
#[tile_kernel(instances(TILE in [64, 256]))]
pub fn transposed<const TILE: usize>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
    let [bn, bm] = blocks([ceil_div(N, TILE), ceil_div(M, TILE)]);
    let [t] = threads([TILE]);
    let mut s = alloc_shared::<f32>([TILE, TILE]);
    copy(x.at([bm * TILE, bn * TILE]), &mut s);
    for i in 0..TILE {
        *y.masked_mut([bn * TILE + i, bm * TILE + t]) = s[[t, i]];
    }
}
// ANCHOR_END: kernel

fn main() {}
