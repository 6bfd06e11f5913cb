//! Single elements of 16 bits are too few for an asynchronous copy.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0603 = "deny"))]
pub fn sums(x: &Tensor<f16, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    let [row] = blocks([M]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f16>([256]);
    let mut sum = 0.0f32;
    for tile in pipelined(0..ceil_div(K, 256), 2) {
        for i in 0..8 {
            s[i * 32 + t] = x.masked([row, tile * 256 + i * 32 + t]); //~
        }
        for i in 0..8 {
            sum += s[i * 32 + t].cast::<f32>();
        }
    }
    let total = warp_reduce(Sum, sum);
    if t == 0 {
        y[row] = total;
    }
}

fn main() {}
