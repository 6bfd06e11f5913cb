//! `specialize(K)`: dims that become constants when a kernel is compiled at run time.

use tile_kernel_examples::data::normal;
use tile_runtime::kernel::{Format, Variant, compile, explain, prepare, show};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem};

/// Everything that is constant may be made of K: threads, the extent of an array, of unrolled and vectorised loops, the
/// width of what is loaded at once.
#[tile_kernel(specialize(K, max = 2))]
fn scale(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, factor: f32) {
    let width = if K % 4 == 0 { 4 } else { 1 };
    let share = ceil_div(K, 32 * width);
    let [row] = blocks([N]);
    let [tk] = threads([if K < 32 { K } else { 32 }]);
    let mut values = alloc_local::<f32>([share, width]);
    for i in unroll(0..share) {
        for v in vectorized(0..width) {
            values[[i, v]] = x.masked([row, (i * 32 + tk) * width + v]);
        }
    }
    for i in unroll(0..share) {
        for v in vectorized(0..width) {
            *y.masked_mut([row, (i * 32 + tk) * width + v]) = values[[i, v]] * factor;
        }
    }
}

fn run(device: &Device, n: usize, k: usize) -> Vec<f32> {
    let x = device.tensor(&normal::<f32>(k as u64, n * k), [n, k]).unwrap();
    let mut y = device.zeros::<f32, 2>([n, k]).unwrap();
    scale::launch(device, &x, &mut y, 3.0).unwrap_or_else(|e| panic!("{e}"));
    y.to_vec().unwrap()
}

#[test]
fn every_k_has_its_own_kernel() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        for k in [128, 1, 100, 7, 33, 1024, 128] {
            let expected: Vec<f32> = normal::<f32>(k as u64, 5 * k).iter().map(|v| v * 3.0).collect();
            assert_eq!(run(&device, 5, k), expected, "K = {k} on {device:?}");
        }
    }
}
