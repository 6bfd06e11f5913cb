//! `continue` is outside the language.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sum_rows(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let row = b * 128 + t;
    if row < N {
        let mut acc = 0.0f32;
        for k in 0..K {
            if x[[row, k]] < 0.0 {
                continue; //~
            }
            acc += x[[row, k]];
        }
        y[row] = acc;
    }
}

fn main() {}
