//! An accumulator starts with whatever was in its registers.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn sums(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [b] = blocks([ceil_div(M, 128)]);
    let [t] = threads([128]);
    let row = b * 128 + t;
    let mut acc = alloc_local::<f32>([2]);
    for n in 0..N {
        acc[n % 2] += x.masked([row, n]); //~
    }
    if row < M {
        y[row] = acc[0] + acc[1];
    }
}

fn main() {}
