//! The bundled GEMM of many matrices at once beside cuBLAS: every tile, and what `gemm_batched` takes by itself. Each is first
//! checked against f64 on matrices that no tile divides.
//!
//! A line is a shape (products, M, N, K), who multiplied it, microseconds a call, TFLOP/s, and cuBLAS's time over its own. What
//! `gemm_batched` takes by itself is `gemm_batched`; the last lines are geometric means: of that, and of the best tile of each shape.
//!
//! ```console
//! $ cargo run --release --example batched_sweep
//! $ cargo run --release --example batched_sweep -- --dtype f32 --seconds 60
//! ```

use anyhow::{Result, bail, ensure};
use clap::Parser;
use rayon::prelude::*;
use std::time::{Duration, Instant};
use tile_bench::BenchError;
use tile_bench::blas::Blas;
use tile_bench::data::Real;
use tile_bench::problem::{Contender, Problem};
use tile_bench::race::{OURS, Options, race};
use tile_bench::report::Row;
use tile_kernel_examples::suites::batches::{Batches, Buffers};
use tile_kernels::gemm::batched::{Shape, Tile, launch_tile};
use tile_kernels::gemm::{GemmElement, gemm_batched};
use tile_runtime::kernel::Target;
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// f16, bf16 or f32.
    #[arg(long, default_values = ["f32", "bf16"])]
    dtype: Vec<String>,
    /// The layouts to take: n as they are, t transposed.
    #[arg(long, default_values = ["nt", "nn"])]
    layout: Vec<String>,
    /// Seconds after which no further shape is begun.
    #[arg(long, default_value_t = 90)]
    seconds: u64,
}

/// Products, M, N, K: small matrices, few rows, heads of attention, and large ones.
const SHAPES: [[usize; 4]; 10] = [
    [1024, 64, 64, 64],
    [256, 128, 128, 128],
    [64, 256, 256, 256],
    [16, 1024, 1024, 1024],
    [128, 16, 1024, 1024],
    [64, 32, 512, 512],
    [512, 64, 64, 512],
    [96, 512, 512, 64],
    [96, 512, 64, 512],
    [48, 200, 200, 64],
];

/// Matrices that no tile divides, in either dimension or along K.
const RAGGED: [usize; 4] = [5, 136, 72, 88];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let begun = Instant::now();
    let device = Device::auto()?;
    println!("{device}");
    let layouts = arguments.layout.iter().map(|name| layout(name)).collect::<Result<Vec<_>>>()?;
    for dtype in &arguments.dtype {
        match dtype.as_str() {
            "f16" => check::<f16>(&device, &layouts)?,
            "bf16" => check::<bf16>(&device, &layouts)?,
            "f32" => check::<f32>(&device, &layouts)?,
            other => bail!("--dtype {other}: f16, bf16 or f32"),
        }
    }
    println!("every tile agrees with f64 on {RAGGED:?} after {:.1} s", begun.elapsed().as_secs_f64());
    if device.is_simulator() {
        println!("times of a GPU cannot be simulated");
        return Ok(());
    }
    let blas = Blas::open(&device).map_err(|error| println!("without cuBLAS: {error}")).ok();
    let end = begun + Duration::from_secs(arguments.seconds);
    for dtype in &arguments.dtype {
        match dtype.as_str() {
            "f16" => sweep::<f16>(&device, blas.as_ref(), &layouts, end)?,
            "bf16" => sweep::<bf16>(&device, blas.as_ref(), &layouts, end)?,
            _ => sweep::<f32>(&device, blas.as_ref(), &layouts, end)?,
        }
    }
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn layout(name: &str) -> Result<[bool; 2]> {
    match name {
        "nn" => Ok([false, false]),
        "nt" => Ok([false, true]),
        "tn" => Ok([true, false]),
        "tt" => Ok([true, true]),
        _ => bail!("--layout {name}: nn, nt, tn or tt"),
    }
}

/// The tiles that there are for a problem; rows of all shapes here are whole pieces of 16 bytes.
fn tiles<T: Real>(device: &Device, problem: &Batches<T>) -> Vec<Tile> {
    let [m, n, k] = problem.shape.map(|extent| extent as i64);
    let fetched = size_of::<T>() == 2 && device.supports(Target::Sm90a);
    let stored = problem.transposed;
    let shape = Shape { batches: problem.batches as i64, m, n, k, stored, fetched, asynchronous: true };
    shape.tiles(size_of::<T>() as u32)
}

/// Every tile in every layout, all at once: most of the time is compilation.
fn check<T: GemmElement + Real>(device: &Device, layouts: &[[bool; 2]]) -> Result<()> {
    layouts.into_par_iter().try_for_each(|stored| {
        let [batches, m, n, k] = RAGGED;
        let problem = Batches::<T>::new(batches, [m, n, k], *stored);
        tiles(device, &problem).into_par_iter().try_for_each(|tile| {
            let (a, b, mut c) = problem.buffers(device)?;
            launch_tile(device, tile, a.view(), b.view(), c.view_mut(), &problem.options())?;
            let error = problem.error(&(a, b, c))?;
            ensure!(error <= 1.0, "{} {tile:?}: {error:.2} times its bound from f64", problem.title());
            Ok(())
        })
    })
}

fn sweep<T: GemmElement + Real>(
    device: &Device,
    blas: Option<&Blas>,
    layouts: &[[bool; 2]],
    end: Instant,
) -> Result<()> {
    let options = Options {
        rounds: 5,
        block: Duration::from_millis(3),
        idle: Duration::from_millis(1),
        screening: (1, Duration::from_micros(500)),
        keep: 32,
        rotate: 256_000_000,
        ..Options::default()
    };
    for stored in layouts {
        let (mut own, mut best) = (Vec::new(), Vec::new());
        for [batches, m, n, k] in SHAPES {
            if Instant::now() >= end {
                println!("left out: {} {stored:?} {batches}x{m}x{n}x{k}", T::DTYPE.name());
                continue;
            }
            let problem = Batches::<T>::new(batches, [m, n, k], *stored);
            let row = measure(device, blas, &problem, &options)?;
            row.lines("cublas").iter().for_each(|line| println!("{line}"));
            let Some(baseline) = row.best("cublas").map(|entry| entry.burst_us.median) else { continue };
            let chosen = row.entries.iter().find(|entry| entry.group == OURS && entry.chosen);
            own.extend(chosen.map(|entry| baseline / entry.burst_us.median));
            best.extend(row.best(OURS).map(|entry| baseline / entry.burst_us.median));
        }
        let mean = |of: &[f64]| (of.iter().map(|ratio: &f64| ratio.ln()).sum::<f64>() / of.len().max(1) as f64).exp();
        let least = own.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{} {stored:?}: {:.3} of cuBLAS over {} shapes, at least {least:.3}; the best tiles {:.3}",
            T::DTYPE.name(),
            mean(&own),
            own.len(),
            mean(&best)
        );
    }
    Ok(())
}

fn measure<T: GemmElement + Real>(
    device: &Device,
    blas: Option<&Blas>,
    problem: &Batches<T>,
    options: &Options,
) -> Result<Row> {
    let asked = problem.options();
    let own = Contender::new(OURS, "gemm_batched", |on: &Stream, (a, b, c): &mut Buffers<T>| {
        Ok(gemm_batched(on, a.view(), b.view(), c.view_mut(), &asked)?)
    });
    let mut contenders = vec![own.chosen()];
    contenders.extend(tiles(device, problem).into_iter().map(|tile| {
        let (bm, bn, bk, stages, threads) = tile;
        let name = format!("{bm}x{bn}x{bk} {stages} stages {threads} threads");
        Contender::new(OURS, name, move |on: &Stream, (a, b, c): &mut Buffers<T>| -> Result<(), BenchError> {
            Ok(launch_tile(on, tile, a.view(), b.view(), c.view_mut(), &asked)?)
        })
    }));
    if let Some(blas) = blas {
        let stored = problem.transposed;
        contenders.push(Contender::new("cublas", "StridedBatched", move |on: &Stream, (a, b, c): &mut Buffers<T>| {
            Ok(blas.gemm_batches(on, a, b, c, stored)?)
        }));
    }
    Ok(race(device, problem, contenders, options)?)
}
