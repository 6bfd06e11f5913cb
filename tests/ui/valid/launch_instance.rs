//! Nearest neighbour: A constant for which no instance is declared.

use tile_runtime::prelude::*;

#[tile_kernel(instances(ROWS in [1, 2, 4]))]
pub fn rows<const ROWS: usize>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, ROWS)]);
    let [t] = threads([ROWS]);
    *y.masked_mut([b * ROWS + t]) = x.masked([b * ROWS + t]);
}

/// Launches it.
pub fn run(device: &Device, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    rows::<4>::launch(device, x, y).unwrap();
}
