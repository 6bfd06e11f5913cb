//! The bundled GEMM of f32 beside cuBLAS: every tile in every layout, and what `gemm` takes by itself. Each is first checked
//! against f64 on a shape that no tile divides.
//!
//! A line is a shape, who multiplied it, microseconds a call, TFLOP/s, and cuBLAS's time over its own. What `gemm` takes by
//! itself is `gemm`; the last lines are geometric means over the shapes: of that, and of the best tile of each shape.
//!
//! ```console
//! $ cargo run --release --example gemm_sweep
//! $ cargo run --release --example gemm_sweep -- --family tf32 --seconds 60
//! ```

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use rayon::prelude::*;
use std::time::{Duration, Instant};
use tile_bench::BenchError;
use tile_bench::blas::Blas;
use tile_bench::problem::{Contender, Problem};
use tile_bench::race::{OURS, Options, race};
use tile_bench::report::Row;
use tile_kernel_examples::suites::gemm::{Buffers, Dense};
use tile_kernels::gemm::{Choice, GemmElement, full, gemm, tf32};
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// What to multiply f32 as.
    #[arg(long, default_values = ["f32"])]
    family: Vec<Family>,
    /// The layouts to take: n as they are, t transposed.
    #[arg(long, default_values = ["nn", "nt", "tn", "tt"])]
    layout: Vec<String>,
    /// Seconds after which no further shape is begun.
    #[arg(long, default_value_t = 95)]
    seconds: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// By multiply-adds.
    F32,
    /// On tensor cores.
    Tf32,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Family::F32 => "f32",
            Family::Tf32 => "tf32",
        }
    }

    fn problem(self, shape: [usize; 3], transposed: [bool; 2]) -> Dense<f32> {
        let problem = Dense::new(shape, transposed);
        if self == Family::Tf32 { problem.tf32() } else { problem }
    }
}

/// M, N, K: squares, few rows, and results of a number of tiles that does not fill waves.
const SHAPES: [[usize; 3]; 12] = [
    [512, 512, 512],
    [1024, 1024, 1024],
    [1536, 1536, 1536],
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [16, 4096, 4096],
    [64, 4096, 4096],
    [128, 4096, 1024],
    [256, 1024, 4096],
    [2048, 512, 2048],
    [1000, 1000, 1000],
    [8192, 1024, 512],
];

/// A shape that no tile divides, and none of their steps along K.
const RAGGED: [usize; 3] = [300, 260, 84];

/// What multiplies.
#[derive(Clone, Copy)]
enum Tile {
    /// What `gemm` takes by itself.
    Own,
    /// A tile of multiply-adds.
    Full(tile_kernels::gemm::Tile),
    /// A tile of tensor cores.
    Tf32(tile_kernels::gemm::Tile),
}

impl Tile {
    fn all(family: Family, transposed: [bool; 2]) -> Vec<Tile> {
        let mut all = vec![Tile::Own];
        match family {
            Family::F32 => all.extend(full::tiles().map(Tile::Full)),
            Family::Tf32 => {
                all.extend(tf32::TILES.into_iter().filter(|tile| tf32::has(*tile, transposed)).map(Tile::Tf32))
            }
        }
        all
    }

    fn name(self) -> String {
        match self {
            Tile::Own => "gemm".into(),
            Tile::Full((bm, bn, bk, stages, threads, ..)) => {
                format!("{bm}x{bn}x{bk} {stages} stages {threads} threads")
            }
            Tile::Tf32((bm, bn, bk, stages, threads, cx, cy)) => {
                format!("{bm}x{bn}x{bk} {stages} stages {threads} threads {cx}x{cy}")
            }
        }
    }

    fn launch(self, on: &Stream, problem: &Dense<f32>, (a, b, c): &mut Buffers<f32>) -> Result<(), BenchError> {
        let options = problem.options();
        match self {
            Tile::Own => gemm(on, &*a, &*b, c, &options)?,
            Tile::Full(tile) => {
                f32::launch(on, Choice { tile, ..Choice::default() }, &*a, &*b, c, &options)?;
            }
            Tile::Tf32(tile) => tf32::launch_tile(on, tile, &*a, &*b, c, &options)?,
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let begun = Instant::now();
    let device = Device::auto()?;
    println!("{device}");
    let layouts = arguments.layout.iter().map(|name| layout(name)).collect::<Result<Vec<_>>>()?;
    let cases: Vec<(Family, [bool; 2])> =
        arguments.family.iter().flat_map(|family| layouts.iter().map(move |stored| (*family, *stored))).collect();
    check(&device, &cases)?;
    println!("every tile agrees with f64 on {RAGGED:?} after {:.1} s", begun.elapsed().as_secs_f64());
    if device.is_simulator() {
        println!("times of a GPU cannot be simulated");
        return Ok(());
    }
    let blas = Blas::open(&device).map_err(|error| println!("without cuBLAS: {error}")).ok();
    if let Some(blas) = &blas {
        println!("cuBLAS {}", blas.version());
    }
    let options = Options {
        rounds: 5,
        block: Duration::from_millis(3),
        idle: Duration::from_millis(1),
        screening: (1, Duration::from_micros(500)),
        keep: 32,
        rotate: 256_000_000,
        ..Options::default()
    };
    let mut means: Vec<Mean> = cases.iter().map(|_| Mean::default()).collect();
    for shape in SHAPES {
        for ((family, stored), mean) in cases.iter().zip(&mut means) {
            if begun.elapsed().as_secs() >= arguments.seconds {
                println!("left out: {} {} {shape:?}", family.name(), letters(*stored));
                continue;
            }
            let row = measure(&device, blas.as_ref(), *family, shape, *stored, &options)?;
            mean.add(&row);
            row.lines("cublas").iter().for_each(|line| println!("{line}"));
        }
    }
    for ((family, stored), mean) in cases.iter().zip(&means) {
        mean.print(&format!("{} {}", family.name(), letters(*stored)));
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

fn letters(stored: [bool; 2]) -> String {
    stored.map(|t| if t { 't' } else { 'n' }).iter().collect()
}

/// Every tile of every case, all at once: most of the time is compilation.
fn check(device: &Device, cases: &[(Family, [bool; 2])]) -> Result<()> {
    let all: Vec<(Family, [bool; 2], Tile)> = cases
        .iter()
        .flat_map(|&(family, stored)| Tile::all(family, stored).into_iter().map(move |tile| (family, stored, tile)))
        .collect();
    all.into_par_iter().try_for_each(|(family, stored, tile)| {
        let problem = family.problem(RAGGED, stored);
        let mut buffers = problem.buffers(device)?;
        problem.poison(&mut buffers)?;
        device.synchronize()?;
        let stream = device.stream()?;
        tile.launch(&stream, &problem, &mut buffers)?;
        device.synchronize()?;
        let error = problem.error(&buffers)?;
        let name = tile.name();
        ensure!(error <= 1.0, "{} {} {name}: {error:.2} times its bound from f64", family.name(), letters(stored));
        Ok(())
    })
}

fn measure(
    device: &Device,
    blas: Option<&Blas>,
    family: Family,
    shape: [usize; 3],
    stored: [bool; 2],
    options: &Options,
) -> Result<Row> {
    let problem = family.problem(shape, stored);
    let ours = Tile::all(family, stored).into_iter().map(|tile| {
        let problem = &problem;
        let call = move |on: &Stream, buffers: &mut Buffers<f32>| tile.launch(on, problem, buffers);
        let contender = Contender::new(OURS, tile.name(), call);
        if matches!(tile, Tile::Own) { contender.chosen() } else { contender }
    });
    let mut contenders: Vec<Contender<'_, Buffers<f32>>> = ours.collect();
    if let Some(blas) = blas {
        let how = (stored, family == Family::Tf32);
        contenders.push(Contender::new("cublas", "GemmEx", move |on: &Stream, (a, b, c): &mut Buffers<f32>| {
            Ok(blas.gemm_stored(on, a, b, c, how)?)
        }));
    }
    Ok(race(device, &problem, contenders, options)?)
}

/// Microseconds of cuBLAS, if it took part.
fn baseline(row: &Row) -> Option<f64> {
    row.best("cublas").map(|entry| entry.burst_us.median)
}

/// Ratios to cuBLAS: of what `gemm` takes by itself, and of the best tile.
#[derive(Default)]
struct Mean {
    own: Vec<f64>,
    best: Vec<f64>,
}

impl Mean {
    fn add(&mut self, row: &Row) {
        let Some(baseline) = baseline(row) else { return };
        let own = row.entries.iter().find(|entry| entry.group == OURS && entry.chosen);
        self.own.extend(own.map(|entry| baseline / entry.burst_us.median));
        self.best.extend(row.best(OURS).map(|entry| baseline / entry.burst_us.median));
    }

    fn print(&self, title: &str) {
        let mean = |of: &[f64]| (of.iter().map(|ratio| ratio.ln()).sum::<f64>() / of.len().max(1) as f64).exp();
        let least = self.own.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{title}: {:.3} of cuBLAS over {} shapes, at least {least:.3}; the best tiles {:.3}",
            mean(&self.own),
            self.own.len(),
            mean(&self.best)
        );
    }
}
