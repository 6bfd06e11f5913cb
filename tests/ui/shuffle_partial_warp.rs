//! The last warp of the block has half of its lanes.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sums(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 48)]);
    let [t] = threads([48]);
    let v = warp_reduce(Sum, x.masked([b * 48 + t])); //~
    if t == 0 {
        y[b] = v;
    }
}

fn main() {}
