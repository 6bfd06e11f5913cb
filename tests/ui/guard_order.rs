//! Indices in the wrong order.

use tile_runtime::prelude::*;

#[tile_kernel(lints(TK0604 = "deny"))]
pub fn scale(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [row] = blocks([M]);
    let [t] = threads([128]);
    for k in 0..ceil_div(N, 128) {
        let i = k * 128 + t;
        if i < N {
            y[[i, row]] = 2.0 * x[[row, i]]; //~
        }
    }
}

fn main() {}
