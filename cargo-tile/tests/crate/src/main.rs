//! A program that needs a driver and nothing else of CUDA: its kernels were compiled when it was built.

use my_kernels::{row_maxima, scaled_add};
use tile_runtime::prelude::*;

// ANCHOR: main
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = tile_runtime::embed!("kernels.tkb")?;
    println!("{count} kernels are embedded");
    let device = Device::auto()?;
    println!("{device}: {}", device.why());
    run(&device)?;
    Ok(())
}
// ANCHOR_END: main

/// Launches each embedded kernel, compares every element, and says whether NVRTC is loaded.
fn run(device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    let n = 100_003;
    let x: Vec<f16> = (0..n).map(|i| f16::from_f32((i as f32 * 0.37).sin())).collect();
    let y: Vec<f16> = (0..n).map(|i| f16::from_f32((i as f32 * 0.11).cos())).collect();
    let (on_device_x, mut on_device_y) = (device.tensor(&x, [n])?, device.tensor(&y, [n])?);
    scaled_add::<f16, 128>::launch(device, 2.0, &on_device_x, &mut on_device_y)?;
    let found = on_device_y.to_vec()?;
    for i in 0..n {
        let expected = f16::from_f32(2.0f32.mul_add(x[i].to_f32(), y[i].to_f32()));
        if found[i] != expected {
            return Err(format!("y[{i}] = {}, expected {expected}", found[i]).into());
        }
    }
    println!("scaled_add: {n} elements, each bit as expected");

    let (m, k) = (513, 256);
    let x: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.7).sin()).collect();
    let on_device_x = device.tensor(&x, [m, k])?;
    let mut on_device_y = device.zeros::<f32, 1>([m])?;
    row_maxima(device, &on_device_x, &mut on_device_y)?;
    for (row, found) in on_device_y.to_vec()?.into_iter().enumerate() {
        let expected = x[row * k..][..k].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if found != expected {
            return Err(format!("row {row}: {found}, expected {expected}").into());
        }
    }
    println!("row_max: {m} rows, each as expected");

    let loaded = std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("nvrtc"));
    println!("NVRTC is {}loaded", if loaded { "" } else { "not " });
    if device.is_simulator() {
        println!("skipped: there is no GPU, so nothing embedded was launched");
    } else if loaded {
        return Err("NVRTC was loaded although every kernel is embedded".into());
    }
    Ok(())
}
