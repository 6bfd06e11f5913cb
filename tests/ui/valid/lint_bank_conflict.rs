//! Nearest neighbour: A column of an array whose rows are 32 words is one bank.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0601 = "deny"))]
pub fn transpose(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
    let [bm, bn] = blocks([ceil_div(M, 32), ceil_div(N, 32)]);
    let [tn, tm] = threads([32, 32]);
    let mut s = alloc_shared::<f32>([32, 33]);
    s[[tm, tn]] = x.masked([bm * 32 + tm, bn * 32 + tn]);
    sync_threads();
    *y.masked_mut([bn * 32 + tm, bm * 32 + tn]) = s[[tn, tm]];
}
