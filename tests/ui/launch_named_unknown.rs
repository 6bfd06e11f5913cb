//! A launch by names with one that the kernel does not have.

use tile_runtime::prelude::*;

#[tile_kernel]
pub fn double(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    *y.masked_mut([b * 128 + t]) = 2.0 * x.masked([b * 128 + t]);
}

/// Launches it.
pub fn run(device: &Device, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    double::launch_named(device, DoubleArgs { x, z: y }).unwrap(); //~
}

fn main() {}
