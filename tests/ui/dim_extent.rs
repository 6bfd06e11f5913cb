//! An extent of a dim that no tensor before it has.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn halves(x: &Tensor<f32, (Extent<{ 2 * N }>,)>, y: &mut Tensor<f32, (N,)>) { //~
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = x[i] + x[N + i];
    }
}

fn main() {}
