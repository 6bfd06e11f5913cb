//! A closure is outside the language.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn square(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        let _squared = |v: f32| v * v; //~
        y[i] = x[i] * x[i];
    }
}

fn main() {}
