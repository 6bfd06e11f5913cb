//! The GEMV ladder: TileLang's tutorial kernels and the first cases of its tuning guide, each checked against f64.
//!
//! On a GPU each rung is timed (cold L2); on the simulator the times would mean nothing and are not printed.
//!
//! ```console
//! $ cargo run --release --example gemv_ladder -- --n 1024 --k 1024
//! ```

use anyhow::{Result, ensure};
use clap::Parser;
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernel_examples::ladder::LadderElement;
use tile_kernel_examples::progress::Steps;
use tile_kernel_examples::suites::gemv::{Buffers, Dense};
use tile_kernel_examples::timing::time;
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// Rows.
    #[arg(long, default_value_t = 1024)]
    n: usize,
    /// Columns.
    #[arg(long, default_value_t = 1024)]
    k: usize,
    /// f16, bf16 or f32.
    #[arg(long, default_value = "f16")]
    dtype: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let device = Device::auto()?;
    println!("{device}");
    match arguments.dtype.as_str() {
        "f16" => climb::<f16>(&device, &arguments),
        "bf16" => climb::<bf16>(&device, &arguments),
        "f32" => climb::<f32>(&device, &arguments),
        other => anyhow::bail!("--dtype {other}: f16, bf16 or f32"),
    }
}

fn climb<T: LadderElement>(device: &Device, arguments: &Arguments) -> Result<()> {
    let (n, k) = (arguments.n, arguments.k);
    let stream = device.stream()?;
    println!("y = W x, N = {n}, K = {k}, {}\n", T::DTYPE);
    println!("{:<14} {:>10} {:>10} {:>9}  what it adds", "rung", "us", "GB/s", "error");
    let rungs = T::rungs();
    let steps = Steps::new(rungs.len());
    for rung in rungs {
        if !k.is_multiple_of(rung.k_multiple) {
            steps.print(format!("{:<14} needs K % {} == 0", rung.name, rung.k_multiple));
            steps.end();
            continue;
        }
        steps.begin(rung.name);
        let (w, x) = rung.data(7, n, k);
        let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n])?;
        let on_device = (device.tensor(&w, [n, k])?, device.tensor(&x, [k])?);
        (rung.launch)(&stream, &on_device.1, &on_device.0, &mut y)?;
        let error = worst_error(&y.to_vec()?, &reference(&w, &x, n, k), k);
        ensure!(error <= 1.0, "{}: the result is {error:.1} times its error bound away from f64", rung.name);

        let bytes = (n * k + n + k) * size_of::<T>();
        let (mut us, mut bandwidth) = ("-".to_string(), "-".to_string());
        if !device.is_simulator() {
            let problem = Dense::with(w, x, n, k);
            let time = time(device, &problem, |on, (w, x, y): &mut Buffers<T>| Ok((rung.launch)(on, x, w, y)?))?;
            us = format!("{:.2}", time * 1e6);
            bandwidth = format!("{:.0}", bytes as f64 / time * 1e-9);
        }
        steps.end();
        steps.print(format!("{:<14} {us:>10} {bandwidth:>10} {error:>9.3}  {}", rung.name, rung.idea));
    }
    drop(steps);
    println!(
        "\nerror: largest distance from the result in f64, divided by the error bound (1 and more would be wrong)"
    );
    Ok(())
}
