//! A row of 64 bytes is no whole span of 128.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn through(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 64)]);
    threads([128]);
    let mut s = alloc_shared::<f16>([64, 32]).swizzle(B64);
    copy(x.at([by * 64, bx * 32]), &mut s);
    copy(&s, y.at_mut([by * 64, bx * 32]));
}

fn main() {}
