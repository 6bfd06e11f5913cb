//! The benchmark of the bundled kernels beside cuBLAS and cuBLASLt: a table, a JSON report, and a plot.
//!
//! `cargo xtask bench` runs it. It needs a GPU: without one it says so and fails, because nothing was measured.
//!
//! ```console
//! $ cargo xtask bench gemv
//! $ cargo xtask bench gemv --dtype bf16 --shapes 4096x4096,28672x8192 --sustained --out target/bench
//! ```

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use tile_bench::blas::Blas;
use tile_bench::ceiling::{self, Ceiling};
use tile_bench::plot;
use tile_bench::race::{OURS, Options};
use tile_bench::report::{Report, Row, SCHEMA};
use tile_kernel_examples::export::GEMV_SHAPES;
use tile_kernel_examples::progress::Steps;
use tile_kernel_examples::suites;
use tile_runtime::prelude::*;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Times the bundled kernels beside cuBLAS and cuBLASLt on one GPU")]
struct Arguments {
    /// What to measure.
    suite: Suite,
    /// Element types.
    #[arg(long, value_delimiter = ',', default_value = "f16,bf16")]
    dtype: Vec<String>,
    /// Shapes as NxK; the six of the book otherwise.
    #[arg(long, value_delimiter = ',', value_parser = shape)]
    shapes: Vec<(usize, usize)>,
    /// Rounds of the final.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Also half-second blocks, with clock and power.
    #[arg(long)]
    sustained: bool,
    /// Folder for SUITE.json, SUITE.svg and SUITE.png.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Which GPU.
    #[arg(long, default_value_t = 0)]
    gpu: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// y = W x.
    Gemv,
}

fn shape(text: &str) -> Result<(usize, usize)> {
    let (n, k) = text.split_once('x').context("a shape is NxK, as in 4096x4096")?;
    let extent = |t: &str| t.parse::<usize>().with_context(|| format!("`{t}` is no extent"));
    let (n, k) = (extent(n)?, extent(k)?);
    ensure!(n > 0 && k > 0, "{n}x{k} has nothing to measure");
    Ok((n, k))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let device = Device::cuda(arguments.gpu).context("there is no GPU, so nothing was measured")?;
    println!("{device}");
    let mut options = Options { rounds: arguments.rounds, ..Options::default() };
    if arguments.sustained {
        options = options.with_sustained();
    }
    let mut report =
        Report { schema: SCHEMA, device: device.to_string(), versions: Vec::new(), ceiling: None, rows: Vec::new() };
    let blas = match Blas::open(&device) {
        Ok(blas) => {
            report.versions.push(("cublas".into(), blas.version()));
            Some(blas)
        }
        Err(error) => {
            println!("without cuBLAS: {error}");
            None
        }
    };
    let ceiling = ceiling::measure(&device, &Options { sustained: None, ..options.clone() })?;
    println!("read ceiling: {:.3} TB/s ({})\n", ceiling.read_tbps, ceiling.name);
    report.ceiling = Some(ceiling);

    let default: Vec<(usize, usize)> = GEMV_SHAPES.iter().map(|&(n, k)| (n as usize, k as usize)).collect();
    let shapes = if arguments.shapes.is_empty() { default } else { arguments.shapes };
    let Suite::Gemv = arguments.suite;
    let steps = Steps::new(arguments.dtype.len() * shapes.len());
    for dtype in &arguments.dtype {
        for &(n, k) in &shapes {
            steps.begin(format!("{n} x {k}, {dtype}"));
            let row = match dtype.as_str() {
                "f16" => suites::gemv::measure::<f16>(&device, blas.as_ref(), n, k, &options)?,
                "bf16" => suites::gemv::measure::<bf16>(&device, blas.as_ref(), n, k, &options)?,
                "f32" => suites::gemv::measure::<f32>(&device, blas.as_ref(), n, k, &options)?,
                other => bail!("--dtype {other}: f16, bf16 or f32"),
            };
            steps.end();
            steps.print(row.to_string());
            report.ceiling = report.ceiling.map(|ceiling| raise(ceiling, &row));
            report.rows.push(row);
            // After every row: what was measured stays if the next one fails.
            if let Some(folder) = &arguments.out {
                std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
                report.write(&folder.join("gemv.json"))?;
            }
        }
    }
    drop(steps);
    if let Some(folder) = &arguments.out {
        write_plots(&report, folder)?;
    }
    Ok(())
}

/// The best seen is the roofline, whoever saw it.
fn raise(ceiling: Ceiling, row: &Row) -> Ceiling {
    let best = row.entries.first();
    best.map_or(ceiling.clone(), |e| {
        ceiling.or_seen(row.tbps(e.burst_us.median), &format!("{} {}", row.title, e.full_name()))
    })
}

fn write_plots(report: &Report, folder: &Path) -> Result<()> {
    for name in ["gemv.svg", "gemv.png"] {
        plot::write(report, "gemv", &folder.join(name))?;
    }
    println!("wrote gemv.json, gemv.svg and gemv.png in {}", folder.display());
    for row in &report.rows {
        if let (Some(ours), Some(base), Some(spread)) = (row.best(OURS), row.baseline_us(), row.spread()) {
            println!(
                "{}: {:.3} of {} (noise {:.2}%)",
                row.title,
                base / ours.burst_us.median,
                row.baseline,
                spread * 100.0
            );
        }
    }
    Ok(())
}
