//! The smallest whole program: a kernel, data up, launch, data down, compare.
//!
//! ```console
//! $ cargo run --release --example first_kernel
//! ```

// ANCHOR: kernel
use tile_runtime::prelude::*;

/// y = a x + y, one element a thread.
#[tile_kernel]
pub fn saxpy(a: f32, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [block] = blocks([ceil_div(N, 256)]);
    let [thread] = threads([256]);
    let i = block * 256 + thread;
    if i < N {
        y[i] = a * x[i] + y[i];
    }
}
// ANCHOR_END: kernel

// ANCHOR: generic
/// y = a x + y in any float type, 16 bytes a thread.
#[tile_kernel(instances(THREADS in [128, 256]), require(N % (128 / T::BITS) == 0))]
pub fn scaled_add<T: Float, const THREADS: usize>(a: f32, x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let vec = 128 / T::BITS;
    let [block] = blocks([ceil_div(N, THREADS * vec)]);
    let [thread] = threads([THREADS]);
    let first = (block * THREADS + thread) * vec;

    let mut xs = alloc_local::<T>([vec]);
    let mut ys = alloc_local::<T>([vec]);
    for v in vectorized(0..vec) {
        xs[v] = x.masked([first + v]);
        ys[v] = y.masked([first + v]);
    }
    for v in unroll(0..vec) {
        ys[v] = (a * xs[v].cast::<f32>() + ys[v].cast::<f32>()).cast::<T>();
    }
    for v in vectorized(0..vec) {
        *y.masked_mut([first + v]) = ys[v];
    }
}
// ANCHOR_END: generic

fn main() -> anyhow::Result<()> {
    // ANCHOR: device
    let device = Device::auto()?;
    println!("{device}");
    // ANCHOR_END: device

    // ANCHOR: upload
    let n = 100_003; // not a multiple of 256: the last block is ragged
    let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
    let y: Vec<f32> = (0..n).map(|i| (i as f32 * 0.11).cos()).collect();
    let on_device_x = device.tensor(&x, [n])?;
    let mut on_device_y = device.tensor(&y, [n])?;
    // ANCHOR_END: upload

    // ANCHOR: launch
    saxpy::launch(&device, 2.0f32, &on_device_x, &mut on_device_y)?;
    // ANCHOR_END: launch

    // ANCHOR: compare
    let result = on_device_y.to_vec()?;
    for i in 0..n {
        // The language rounds `a * x + y` once, as a fused multiply-add: the result is equal bit for bit.
        let expected = 2.0f32.mul_add(x[i], y[i]);
        anyhow::ensure!(result[i] == expected, "y[{i}] = {}, expected {expected}", result[i]);
    }
    println!("{n} elements, each bit as expected");
    // ANCHOR_END: compare

    generic(&device)
}

/// The generic kernel on 16-bit elements: upload, launch one instance, compare.
fn generic(device: &Device) -> anyhow::Result<()> {
    let n = 40_000;
    let x: Vec<f16> = (0..n).map(|i| f16::from_f32((i as f32 * 0.37).sin())).collect();
    let on_device_x = device.tensor(&x, [n])?;
    let mut on_device_y = device.tensor(&x, [n])?;
    // ANCHOR: generic_launch
    scaled_add::<f16, 256>::launch(device, 2.0f32, &on_device_x, &mut on_device_y)?;
    // ANCHOR_END: generic_launch
    let result = on_device_y.to_vec()?;
    for i in 0..n {
        let expected = f16::from_f32(2.0f32.mul_add(x[i].to_f32(), x[i].to_f32()));
        anyhow::ensure!(result[i] == expected, "y[{i}] = {}, expected {expected}", result[i]);
    }
    println!("{n} elements in f16, each bit as expected");
    Ok(())
}
