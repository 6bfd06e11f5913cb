//! A tile that the block's registers cannot hold.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn tile(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 256), ceil_div(M, 256)]);
    threads([128]);
    let mut acc = alloc_fragment::<f32>([256, 256]); //~
    copy(x.at([by * 256, bx * 256]), &mut acc);
    copy(&acc, y.at_mut([by * 256, bx * 256]));
}

fn main() {}
