//! Nearest neighbour: A scalar of another type is passed to a launch.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn scale(alpha: f32, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    *y.masked_mut([b * 128 + t]) = alpha * x.masked([b * 128 + t]);
}

/// Launches it.
pub fn run(device: &Device, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    scale::launch(device, 2.0, x, y).unwrap();
}
