//! `gemm::gated`, a model's gates and what they gate in one launch, beside a product of all columns and `swiglu` of its result: what is called, and
//! every tile. Each is first checked against f64 on sampled rows.
//!
//! A line is a shape (rows, columns of the result, depth), who computed it, microseconds a call, TFLOP/s, and the two launches' time over its own.
//!
//! ```console
//! $ cargo run --release --example gated_sweep
//! $ cargo run --release --example gated_sweep -- --shape 64,12288,4096 --seconds 10
//! ```

use anyhow::{Context, Result};
use clap::Parser;
use std::time::{Duration, Instant};
use tile_bench::data::normal;
use tile_bench::problem::{Contender, Problem, Title};
use tile_bench::race::{OURS, Options, race};
use tile_kernel_examples::rows::swiglu as reference;
use tile_kernels::gemm::{Gemm, gated, gemm};
use tile_kernels::swiglu::swiglu;
use tile_runtime::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// Rows, columns of the result and depth, with commas; layers of Qwen3 and Llama without it.
    #[arg(long)]
    shape: Vec<String>,
    /// Seconds after which no further shape is begun.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Rows, columns of the result, depth.
type Shape = [usize; 3];

/// Qwen3-8B by rows, then Qwen3-0.6B, Qwen3-32B and Llama-3-8B.
const SHAPES: [Shape; 10] = [
    [8, 12_288, 4096],
    [16, 12_288, 4096],
    [32, 12_288, 4096],
    [64, 12_288, 4096],
    [512, 12_288, 4096],
    [4096, 12_288, 4096],
    [64, 3072, 1024],
    [64, 25_600, 5120],
    [8, 14_336, 4096],
    [64, 14_336, 4096],
];

/// Rows that are compared with f64.
const SAMPLED: usize = 4;

/// Operands of a shape, and some rows of the result in f64.
struct Gated {
    shape: Shape,
    x: Vec<bf16>,
    w: Vec<bf16>,
    rows: Vec<(usize, Vec<f64>)>,
}

/// `x`, `w`, the sums of both products, and `y`.
type Buffers = (Tensor<bf16, 2>, Tensor<bf16, 2>, Tensor<bf16, 2>, Tensor<bf16, 2>);

impl Gated {
    fn new(shape: Shape) -> Gated {
        let [m, n, k] = shape;
        let (x, w) = (normal::<bf16>(1, m * k), normal::<bf16>(2, 2 * n * k));
        let dot = |i: usize, j: usize| -> f64 {
            (0..k).map(|l| f64::from(x[i * k + l].to_f32()) * f64::from(w[j * k + l].to_f32())).sum()
        };
        let sampled = (0..m).step_by(m.div_ceil(SAMPLED));
        let rows = sampled.map(|i| (i, reference(&(0..2 * n).map(|j| dot(i, j)).collect::<Vec<_>>(), n))).collect();
        Gated { shape, x, w, rows }
    }
}

impl Problem for Gated {
    type Buffers = Buffers;

    fn title(&self) -> Title {
        let shape = ["m", "n", "k"].map(str::to_owned).into_iter().zip(self.shape.map(|extent| extent as u64));
        Title { op: "gated".into(), dtype: "bf16".into(), shape: shape.collect() }
    }

    fn bytes(&self) -> u64 {
        let [m, n, k] = self.shape;
        2 * (m * k + 2 * n * k + m * n) as u64
    }

    fn flops(&self) -> u64 {
        self.shape.iter().map(|extent| *extent as u64).product::<u64>() * 4
    }

    fn buffers(&self, device: &Device) -> Result<Buffers, Error> {
        let [m, n, k] = self.shape;
        let (x, w) = (device.tensor(&self.x, [m, k])?, device.tensor(&self.w, [2 * n, k])?);
        Ok((x, w, device.zeros([m, 2 * n])?, device.zeros([m, n])?))
    }

    fn poison(&self, (_, _, _, y): &mut Buffers) -> Result<(), Error> {
        y.write(&vec![bf16::NAN; self.shape[0] * self.shape[1]])
    }

    /// In units of `sqrt(K) / 32 + |y| / 32`: three roundings to bf16 of the two launches, of a factor that may be cancelled.
    fn error(&self, (_, _, _, y): &Buffers) -> Result<f64, Error> {
        let [_, n, k] = self.shape;
        let (found, slack) = (y.to_vec()?, (k as f64).sqrt() / 32.0);
        let errors =
            self.rows.iter().flat_map(|(i, row)| found[i * n..][..n].iter().zip(row)).map(|(found, wanted)| {
                let error = (f64::from(found.to_f32()) - wanted).abs() / (slack + wanted.abs() / 32.0);
                if error.is_nan() { f64::INFINITY } else { error }
            });
        Ok(errors.fold(0.0, f64::max))
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let device = Device::auto()?;
    println!("{device}");
    let asked = arguments.shape.iter().map(|text| shape(text)).collect::<Result<Vec<_>>>()?;
    let shapes = match (asked.is_empty(), device.is_simulator()) {
        (false, _) => asked,
        (true, false) => SHAPES.to_vec(),
        (true, true) => vec![[20, 136, 72]],
    };
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    for shape in shapes {
        if Instant::now() >= end {
            println!("left out: {shape:?}");
            continue;
        }
        let problem = Gated::new(shape);
        if device.is_simulator() {
            let (x, w, _, mut y) = problem.buffers(&device)?;
            gated::gated(&device, &x, &w, &mut y)?;
            let error = problem.error(&(x, w, device.zeros([1, 1])?, y))?;
            println!("{}: {error:.2} times its bound from f64; times of a GPU cannot be simulated", problem.title());
        } else {
            measure(&device, &problem)?;
        }
    }
    Ok(())
}

fn shape(text: &str) -> Result<Shape> {
    let extents = text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
    let extents = extents.with_context(|| format!("--shape {text}"))?;
    extents.try_into().ok().with_context(|| format!("--shape {text}: rows, columns and depth"))
}

fn measure(device: &Device, problem: &Gated) -> Result<()> {
    let options = Options { rounds: 7, keep: 4, rotate: 256_000_000, ..Options::default() };
    let two = Contender::new("two launches", "gemm, swiglu", |on: &Stream, (x, w, wide, y): &mut Buffers| {
        gemm(on, &*x, &*w, &mut *wide, &Gemm::nt())?;
        Ok(swiglu(on, &*wide, &mut *y)?)
    });
    let called = Contender::new(OURS, "gated", |on: &Stream, (x, w, _, y): &mut Buffers| {
        Ok(gated::gated(on, &*x, &*w, &mut *y)?)
    });
    let mut contenders = vec![two.chosen(), called.chosen()];
    contenders.extend(gated::TILES.into_iter().map(|tile| {
        Contender::new(OURS, format!("{tile:?}"), move |on: &Stream, (x, w, _, y): &mut Buffers| {
            Ok(gated::gated_by(on, tile, &*x, &*w, &mut *y)?)
        })
    }));
    race(device, problem, contenders, &options)?.lines("two launches").iter().for_each(|line| println!("{line}"));
    Ok(())
}
