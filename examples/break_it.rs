//! Three mistakes that no compiler can see, made on purpose, and what is said about them. Each is made on the checked
//! simulator, so that the program tells the same story on every machine.
//!
//! ```console
//! $ cargo run --release --example break_it
//! ```

use tile_runtime::prelude::*;

// ANCHOR: unguarded
/// The last block has threads beyond the end of the tensors, and nothing holds them back.
#[tile_kernel(lints(TK0604 = "off"))]
pub fn unguarded(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    y[i] = 2.0 * x[i];
}
// ANCHOR_END: unguarded

/// Runs a kernel on 100 elements with blocks of 128 threads.
pub fn run_unguarded(device: &Device) -> Result<(), Error> {
    let x = device.tensor(&[1.0f32; 100], [100])?;
    let mut y = device.zeros::<f32, 1>([100])?;
    unguarded::launch(device, &x, &mut y)?;
    y.to_vec().map(|_| ())
}

// ANCHOR: scattered
/// Counts values: elements of equal value meet in one counter, and no one knows in advance which those are.
#[tile_kernel]
pub fn scattered(values: &Tensor<u32, (N,)>, counts: &mut Tensor<u32, (Fixed<16>,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        let value = values[i] as usize;
        if value < 16 {
            counts[value] = counts[value] + 1;
        }
    }
}
// ANCHOR_END: scattered

/// Counts 100 values, of which many are equal.
pub fn run_scattered(device: &Device) -> Result<(), Error> {
    let values: Vec<u32> = (0..100).map(|i| i % 7).collect();
    let values = device.tensor(&values, [100])?;
    let mut counts = device.zeros::<u32, 1>([16])?;
    scattered::launch(device, &values, &mut counts)?;
    counts.to_vec().map(|_| ())
}

// ANCHOR: guarded
/// The first kernel again, with its guard.
#[tile_kernel]
pub fn guarded(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = 2.0 * x[i];
    }
}
// ANCHOR_END: guarded

/// Launches with an output that is too short.
pub fn run_wrong_launch(device: &Device) -> Result<(), Error> {
    // ANCHOR: wrong_launch
    let x = device.tensor(&[1.0f32; 100], [100])?;
    let mut y = device.zeros::<f32, 1>([99])?;
    guarded::launch(device, &x, &mut y)?;
    // ANCHOR_END: wrong_launch
    Ok(())
}

#[allow(dead_code)] // not an entry point where this file is a module of tests/book.rs
fn main() -> anyhow::Result<()> {
    let device = Device::checked_simulator();
    for (code, outcome) in
        [("TK0302", run_unguarded(&device)), ("TK0401", run_scattered(&device)), ("TK0701", run_wrong_launch(&device))]
    {
        let message = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        anyhow::ensure!(message.contains(code), "expected {code}, found: {message}");
        println!("{message}\n");
    }
    Ok(())
}
