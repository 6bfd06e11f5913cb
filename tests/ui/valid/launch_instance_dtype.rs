//! Nearest neighbour: A dtype for which no instance is declared.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn double<T: Half>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    *y.masked_mut([b * 128 + t]) = x.masked([b * 128 + t]) + x.masked([b * 128 + t]);
}

/// Launches it.
pub fn run(device: &Device, x: &Tensor<f16, 1>, y: &mut Tensor<f16, 1>) {
    double::<f16>::launch(device, x, y).unwrap();
}
