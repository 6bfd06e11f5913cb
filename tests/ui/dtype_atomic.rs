//! There is no atomic update of a 16-bit float.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn total(x: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (Fixed<1>,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let v = x.masked([b * 128 + t]);
    atomic_add(&mut y[0], v); //~
}

fn main() {}
