//! A constant of a module that several kernels use: a function of one literal.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// How many elements a block of these kernels takes.
#[tile_fn]
fn width() -> usize {
    64
}

/// Whether they add.
#[tile_fn]
fn adds() -> bool {
    true
}

/// The constant as a number of threads, an extent and a bound.
#[tile_kernel(uses(width, adds))]
pub fn sums(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (B,)>) {
    let [b] = blocks([ceil_div(N, width())]);
    let [t] = threads([width()]);
    let mut s = alloc_shared::<f32>([width()]);
    s[t] = x.masked([b * width() + t]);
    sync_threads();
    let mut sum = 0.0f32;
    for i in unroll(0..width()) {
        if adds() {
            sum += s[i];
        }
    }
    if t == 0 && b < B {
        y[b] = sum;
    }
}

#[test]
fn a_function_of_a_literal_is_a_constant() {
    let x: Vec<f32> = (0..150).map(|i| i as f32).collect();
    for device in devices() {
        let data = device.tensor(&x, [150]).unwrap();
        let mut y = device.zeros::<f32, 1>([3]).unwrap();
        sums::launch(&device, &data, &mut y).unwrap();
        let wanted: Vec<f32> = x.chunks(64).map(|part| part.iter().sum()).collect();
        assert_eq!(y.to_vec().unwrap(), wanted, "{device:?}");
    }
}
