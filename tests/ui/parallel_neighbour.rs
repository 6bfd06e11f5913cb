//! An element of a `parallel` loop reads what another one stores.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn shifted(x: &mut Tensor<f32, (Fixed<16>, Fixed<32>)>, y: &mut Tensor<f32, (Fixed<16>, Fixed<32>)>) {
    blocks([1]);
    threads([32]);
    for [i, j] in parallel([15, 32]) {
        x[[i, j]] = x[[i + 1, j]] + y[[i, j]]; //~
    }
}

fn main() {}
