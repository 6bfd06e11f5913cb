//! All lanes of a warp meet in one bank, and the author denies that.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0601 = "deny"))]
pub fn transposed(x: &Tensor<f32, (N, Fixed<32>)>, y: &mut Tensor<f32, (N, Fixed<32>)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [tx, ty] = threads([32, 32]);
    let mut s = alloc_shared::<f32>([32, 32]);
    s[[ty, tx]] = x.masked([b * 32 + ty, tx]);
    sync_threads();
    *y.masked_mut([b * 32 + ty, tx]) = s[[tx, ty]]; //~
}

fn main() {}
