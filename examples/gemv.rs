//! The bundled GEMV on random-normal data, on the GPU or else the simulator, checked against f64.
//!
//! ```console
//! $ cargo run --release --example gemv
//! $ cargo run --release --example gemv -- --n 28672 --k 8192 --dtype bf16
//! $ cargo run --release --example gemv -- --tune
//! $ cargo run --release --example gemv -- --show cuda
//! $ cargo run --release --example gemv -- --show explain --n 28672 --k 8192
//! ```

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Instant;
use tile_ir::explain::Machine;
use tile_ir::ir::Target;
use tile_kernel_examples::data::{Real, normal};
use tile_kernel_examples::export;
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernel_examples::suites::gemv::{Buffers, Dense};
use tile_kernel_examples::timing::time;
use tile_kernels::gemv::{Gemv, GemvElement, definition, gemv, tuned};
use tile_runtime::kernel::{Format, explain, show};
use tile_runtime::prelude::*;
use tile_runtime::tuner::{TuneOptions, TuneReport};

#[derive(Parser)]
struct Arguments {
    /// Rows of W.
    #[arg(long, default_value_t = 4096)]
    n: usize,
    /// Columns of W.
    #[arg(long, default_value_t = 4096)]
    k: usize,
    /// f16, bf16 or f32.
    #[arg(long, default_value = "f16")]
    dtype: String,
    /// auto, cuda:N, sim or sim-checked.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Time every instance that takes these operands, print the table, and compare the fastest with the default.
    #[arg(long)]
    tune: bool,
    /// With --tune: time again although the result is remembered.
    #[arg(long, requires = "tune")]
    force: bool,
    /// Print a stage of the kernel's compilation instead of running it.
    #[arg(long)]
    show: Option<Stage>,
    /// Write every instance as a cubin, and a launch record for each of the benchmark's shapes, into this folder.
    #[arg(long)]
    export: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Stage {
    /// The tile IR.
    Tile,
    /// The lowered program.
    Lowered,
    /// CUDA C.
    Cuda,
    /// PTX.
    Ptx,
    /// Machine code.
    Sass,
    /// What a launch with --n and --k costs on an H200, and what bounds it.
    Explain,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(stage) = arguments.show {
        return print_stage(stage, &arguments);
    }
    if let Some(folder) = &arguments.export {
        return export::gemv(folder);
    }
    match arguments.dtype.as_str() {
        "f16" => run::<f16>(&arguments),
        "bf16" => run::<bf16>(&arguments),
        "f32" => run::<f32>(&arguments),
        other => bail!("--dtype {other}: f16, bf16 or f32"),
    }
}

fn run<T: GemvElement + Real>(arguments: &Arguments) -> Result<()> {
    let (n, k) = (arguments.n, arguments.k);
    let device = match arguments.device.as_str() {
        "auto" => Device::auto()?,
        name => Device::named(name)?,
    };
    println!("{device}");
    println!("y = W x, N = {n}, K = {k}, {}", T::DTYPE);

    let (w_host, x_host) = (normal::<T>(1, n * k), normal::<T>(2, k));
    let (w, x) = (device.tensor(&w_host, [n, k])?, device.tensor(&x_host, [k])?);
    // The old content of y must not matter.
    let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n])?;
    let start = Instant::now();
    gemv(&device, &w, &x, &mut y, Gemv::default())?;
    let result = y.to_vec()?;
    let first = start.elapsed();

    let error = worst_error(&result, &reference(&w_host, &x_host, n, k), k);
    ensure!(error <= 1.0, "the result is {error:.2} times its error bound away from f64");
    println!("checked against f64: the largest error is {error:.3} of its bound");

    let bytes = (n * k + n + k) * size_of::<T>();
    if arguments.tune {
        let options = TuneOptions { force: arguments.force, ..TuneOptions::default() };
        return tune::<T>(&device, &w, &x, &mut y, &options);
    }
    if device.is_simulator() {
        println!("simulated in {:.2} s; time and bandwidth of a GPU cannot be simulated", first.as_secs_f64());
        return Ok(());
    }
    println!("first call, with compilation or cache: {:.1} ms", first.as_secs_f64() * 1e3);
    let problem = Dense::with(w_host, x_host, n, k);
    let time = time(&device, &problem, |on, (w, x, y): &mut Buffers<T>| Ok(gemv(on, &*w, &*x, y, Gemv::default())?))?;
    println!("{:.2} us a call with a cold L2: {:.2} TB/s", time * 1e6, bytes as f64 / time * 1e-12);
    Ok(())
}

/// Prints the table of trials, and the choice against what an untuned call does.
fn tune<T: GemvElement>(
    device: &Device,
    w: &Tensor<T, 2>,
    x: &Tensor<T, 1>,
    y: &mut Tensor<T, 1>,
    options: &TuneOptions,
) -> Result<()> {
    // ANCHOR: tuned
    let (found, report) = tuned(device, w, x, &mut *y, Gemv::default(), options)?;
    print!("{report}");
    found.launch(device, w, x, &mut *y, Gemv::default())?;
    // ANCHOR_END: tuned
    print_gain(&report);
    Ok(())
}

/// What tuning gained: the first trial is what a call does by itself.
fn print_gain(report: &TuneReport) {
    let Some(own) = report.trials.first() else { return };
    match (own.median, report.median_of(report.chosen)) {
        (Some(untuned), Some(best)) => println!(
            "a call by itself: {}, {:.2} us; the choice takes {:.3} of its time",
            own.parameters,
            untuned * 1e6,
            best / untuned
        ),
        _ => println!("a call by itself: {}; it was not timed", own.parameters),
    }
}

/// Prints a stage of the instance for large shapes.
fn print_stage(stage: Stage, arguments: &Arguments) -> Result<()> {
    let dtype = arguments.dtype.as_str();
    let kernel = definition().kernel()?;
    let wanted =
        |i: &tile_ir::ir::Instance| i.dtypes[0].name() == dtype && i.consts[..5] == [4, 1, 1, 4, 1] && i.consts[5] > 1;
    let Some(index) = kernel.instances.iter().position(wanted) else { bail!("--dtype {dtype}: f16, bf16 or f32") };
    let instance = &kernel.instances[index];
    let text = match stage {
        Stage::Tile => show(definition(), index, Target::Sm90a, Format::Tile)?,
        Stage::Lowered => match tile_ir::lower::lower(kernel, instance, Target::Sm90a) {
            Ok(program) => program.to_string(),
            Err(mistakes) => bail!("{}", mistakes.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("\n")),
        },
        Stage::Cuda => show(definition(), index, Target::Sm90a, Format::Cuda)?,
        Stage::Ptx => show(definition(), index, Target::Sm90a, Format::Ptx)?,
        Stage::Sass => show(definition(), index, Target::Sm90a, Format::Sass)?,
        Stage::Explain => {
            let values = [("N", arguments.n as f64), ("K", arguments.k as f64), ("alpha", 1.0), ("beta", 0.0)];
            explain(definition(), index, Target::Sm90a, &Machine::H200, &values)?.to_string()
        }
    };
    tile_kernel_examples::output::print(&text)?;
    Ok(())
}
