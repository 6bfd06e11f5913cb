//! Nearest neighbour: A tile that the block's registers cannot hold.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn tile(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 128), ceil_div(M, 128)]);
    threads([128]);
    let mut acc = alloc_fragment::<f32>([128, 128]);
    copy(x.at([by * 128, bx * 128]), &mut acc);
    copy(&acc, y.at_mut([by * 128, bx * 128]));
}
