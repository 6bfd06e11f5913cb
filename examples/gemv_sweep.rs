//! How good the choice of the bundled GEMV is on shapes that nobody chose: every candidate, the call and cuBLAS on shapes drawn from a seed;
//! and the fit of the model that chooses.
//!
//! ```console
//! $ cargo run --release --example gemv_sweep -- --out target/gemv-sweep.json
//! $ cargo run --release --example gemv_sweep -- --fit target/gemv-sweep.json
//! ```

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tile_bench::blas::Blas;
use tile_kernel_examples::suites::fit::{Row, fitted};
use tile_kernel_examples::suites::gemv_sweep::{Found, Shape, compile, mean_and_worst, measure, options, shapes};
use tile_kernels::gemv::model::Parameters;
use tile_kernels::gemv::{Choice, candidates};
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// How many shapes are drawn.
    #[arg(long, default_value_t = 50)]
    shapes: usize,
    /// What they are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds after which no further shape is begun.
    #[arg(long, default_value_t = 140)]
    seconds: u64,
    /// Where the measured times go, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Let no launch begin before the previous one is done.
    #[arg(long)]
    alone: bool,
    /// Only compile what part I of N needs, into the cache, as in `--prepare 0/8`: several processes at once before a sweep.
    #[arg(long, value_name = "I/N")]
    prepare: Option<String>,
    /// Print each shape's candidates with their expected times, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Fit the model to what sweeps have measured.
    #[arg(long, num_args = 1..)]
    fit: Vec<PathBuf>,
    /// Steps of the fit.
    #[arg(long, default_value_t = 400)]
    steps: usize,
}

/// What a sweep writes.
#[derive(Serialize, Deserialize)]
struct Sweep {
    device: String,
    cublas: Option<String>,
    seed: u64,
    alone: bool,
    shapes: Vec<Found>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if !arguments.fit.is_empty() {
        return fit_to(&arguments);
    }
    let shapes = shapes(arguments.shapes, arguments.seed);
    if let Some(part) = &arguments.prepare {
        return prepare(part, &shapes);
    }
    if arguments.list {
        return list(&shapes);
    }
    sweep(&arguments, &shapes)
}

/// Compiles every so many-th shape's candidates.
fn prepare(part: &str, shapes: &[Shape]) -> Result<()> {
    let parsed = part.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    let (i, n) = parsed.filter(|(_, n)| *n > 0).with_context(|| format!("--prepare {part}: such as 0/8"))?;
    let device = Device::auto()?;
    ensure!(!device.is_simulator(), "there is no GPU to compile for");
    shapes.iter().skip(i).step_by(n).for_each(|shape| compile(&device, *shape));
    Ok(())
}

/// Shapes that are compiled together, before they are measured: a device keeps 32 values of K of an instance.
const BATCH: usize = 8;

fn sweep(arguments: &Arguments, shapes: &[Shape]) -> Result<()> {
    let start = Instant::now();
    let device = Device::auto()?;
    ensure!(!device.is_simulator(), "there is no GPU, so there is nothing to measure");
    device.set_dependent_launch(!arguments.alone);
    let blas = Blas::open(&device).map_err(|error| println!("without cuBLAS: {error}")).ok();
    println!("{device}");
    let mut sweep = Sweep {
        device: device.to_string(),
        cublas: blas.as_ref().map(Blas::version),
        seed: arguments.seed,
        alone: arguments.alone,
        shapes: Vec::new(),
    };
    let end = start + Duration::from_secs(arguments.seconds);
    let mut compiling = Duration::ZERO;
    for batch in shapes.chunks(BATCH) {
        let begun = Instant::now();
        // Nothing is compiled or loaded while something is measured.
        batch.iter().take_while(|_| Instant::now() < end).for_each(|shape| compile(&device, *shape));
        compiling += begun.elapsed();
        for shape in batch.iter().take_while(|_| Instant::now() < end) {
            // A shape that fails is told and left out; a device that has failed ends the sweep.
            match measure(&device, blas.as_ref(), *shape, &options()) {
                Ok(found) => {
                    print_row(&found, start);
                    sweep.shapes.push(found);
                }
                Err(error) => {
                    println!("{shape:?}: {error}");
                    device.synchronize()?;
                }
            }
        }
        if let Some(out) = &arguments.out {
            write(&sweep, out)?;
        }
    }
    println!("{:.1} s, of them {:.1} s compiling", start.elapsed().as_secs_f64(), compiling.as_secs_f64());
    summary(&sweep);
    Ok(())
}

fn write(sweep: &Sweep, out: &Path) -> Result<()> {
    std::fs::write(out, serde_json::to_string(sweep)?).with_context(|| format!("writing {}", out.display()))
}

fn print_row(found: &Found, start: Instant) {
    let us = |us: Option<f64>| us.map_or("-".to_string(), |us| format!("{us:.2}"));
    let best = found.best();
    println!(
        "{:>5.0} s {:>7} x {:<6} {:<5} call {:>7} best {:>7} cublas {:>7} us; {} | {}{}",
        start.elapsed().as_secs_f64(),
        found.n,
        found.k,
        found.dtype,
        us(found.call_us),
        us(best.map(|best| best.us)),
        us(found.cublas_us),
        found.chosen,
        best.map_or("", |best| &best.name),
        if found.refused.is_empty() { String::new() } else { format!("; refused: {:?}", found.refused) },
    );
}

fn summary(sweep: &Sweep) {
    type Ratio = fn(&Found) -> Option<f64>;
    let lines: [(&str, Ratio); 3] = [
        ("the call over the best candidate", |f| Some(f.call_us? / f.best()?.us)),
        ("the call over cuBLAS", |f| Some(f.call_us? / f.cublas_us?)),
        ("the best candidate over cuBLAS", |f| Some(f.best()?.us / f.cublas_us?)),
    ];
    let is_aligned =
        |found: &&Found| found.shape().is_some_and(|s| (s.k * s.dtype.bytes() as usize).is_multiple_of(16));
    for aligned in [true, false] {
        let rows: Vec<&Found> = sweep.shapes.iter().filter(|f| is_aligned(f) == aligned).collect();
        println!("{} shapes with {} rows:", rows.len(), if aligned { "aligned" } else { "unaligned" });
        for (name, ratio) in lines {
            if let Some((mean, worst)) = mean_and_worst(rows.iter().filter_map(|found| ratio(found))) {
                println!("  {name}: {mean:.3} of its time in geometric mean, {worst:.3} at most");
            }
        }
    }
}

/// The candidates of every shape, without a GPU.
fn list(shapes: &[Shape]) -> Result<()> {
    let mut text = String::new();
    for shape in shapes {
        let mut timed: Vec<(f64, Choice)> = candidates(shape.problem()).map(|c| (c.us(), c.choice)).collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        text += &format!("{} x {} {}: {} candidates\n", shape.n, shape.k, shape.dtype.name(), timed.len());
        for (us, choice) in timed {
            text += &format!("  {us:>8.2} us {choice}\n");
        }
    }
    tile_kernel_examples::output::print(&text)?;
    Ok(())
}

/// Fits the model to all shapes.
fn fit_to(arguments: &Arguments) -> Result<()> {
    let mut rows = Vec::new();
    for path in &arguments.fit {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let sweep: Sweep = serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        rows.extend(sweep.shapes.iter().filter_map(Row::of));
    }
    println!("{}", fitted(&rows, Parameters::H200, Parameters::GUESS, arguments.steps));
    Ok(())
}
