//! A launch of a combination that the kernel does not declare.
use tile_runtime::prelude::*;

#[tile_kernel(instances(THREADS in [128, 256]))]
pub fn doubled<T: Float, const THREADS: usize>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, THREADS)]);
    let [t] = threads([THREADS]);
    let i = b * THREADS + t;
    if i < N {
        y[i] = x[i] + x[i];
    }
}

fn main() {
    let device = Device::simulator();
    let x = device.tensor(&[1.0f32; 100], [100]).unwrap();
    let mut y = device.zeros::<f32>([100]).unwrap();
    // ANCHOR: launch
    doubled::<f32, 96>::launch(&device, &x, &mut y).unwrap();
    // ANCHOR_END: launch
}
