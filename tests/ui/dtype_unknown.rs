//! A dtype that the language does not have.

use tile_runtime::prelude::*;

#[tile_kernel(dtypes(T in [f32, f64]))] //~
pub fn double<T: Number>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    *y.masked_mut([i]) = x.masked([i]) + x.masked([i]);
}

fn main() {}
