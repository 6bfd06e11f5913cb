//! Nearest neighbour: A tuple of constants has a value for each name.

use tile_runtime::prelude::*;

#[tile_kernel(instances((BM, BN) in [(2, 32), (4, 32)]))]
pub fn rows<const BM: usize, const BN: usize>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    let [tx, ty] = threads([BN, BM]);
    *y.masked_mut([by * BM + ty, bx * BN + tx]) = x.masked([by * BM + ty, bx * BN + tx]);
}
