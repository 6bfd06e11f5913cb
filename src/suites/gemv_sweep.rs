//! GEMV on shapes that nobody chose: every candidate of a call, the call itself and cuBLAS, a shape at a time.

use super::gemv::{Buffers, Dense};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tile_bench::BenchError;
use tile_bench::blas::Blas;
use tile_bench::data::{Real, normal};
use tile_bench::problem::Contender;
use tile_bench::race::{OURS, Options, race};
use tile_kernels::gemv::{Choice, Gemv, GemvElement, Problem, candidates, gemv};
use tile_runtime::kernel::Dtype;
use tile_runtime::prelude::*;

/// A product to measure: dense operands of N rows and K columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of W.
    pub n: usize,
    /// Columns of W.
    pub k: usize,
    /// The type of the elements.
    pub dtype: Dtype,
}

impl Shape {
    /// What a call with dense operands of this shape is asked for.
    pub fn problem(&self) -> Problem {
        Problem::dense(self.n as i64, self.k as i64, self.dtype)
    }

    /// Bytes of W.
    fn bytes(&self) -> usize {
        self.n * self.k * self.dtype.bytes() as usize
    }
}

/// Largest W that is drawn, in bytes: a larger one takes long to make, and is bound by memory alone.
const MOST_BYTES: usize = 400 << 20;

/// Shapes drawn log-uniformly, N from 1 to 262,144 and K from 64 to 32,768, the types in turn. Every fifth shape has a K as it was drawn,
/// which is mostly odd or even only; the others have a multiple of eight.
pub fn shapes(count: usize, seed: u64) -> Vec<Shape> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut log_uniform = |low: f64, high: f64| (rng.random_range(low.ln()..=high.ln()).exp().round()) as usize;
    let mut shapes = Vec::new();
    while shapes.len() < count {
        let (n, k) = (log_uniform(1.0, 262_144.0), log_uniform(64.0, 32_768.0));
        let k = if shapes.len() % 5 == 4 { k } else { k.next_multiple_of(8) };
        let shape = Shape { n, k, dtype: [Dtype::F16, Dtype::Bf16, Dtype::F32][shapes.len() % 3] };
        if shape.bytes() <= MOST_BYTES {
            shapes.push(shape);
        }
    }
    shapes
}

/// What was found for one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Rows of W.
    pub n: usize,
    /// Columns of W.
    pub k: usize,
    /// `f16`, `bf16` or `f32`.
    pub dtype: String,
    /// us of the call, which chooses by itself.
    pub call_us: Option<f64>,
    /// The candidate that the call chooses.
    pub chosen: String,
    /// us of cuBLAS.
    pub cublas_us: Option<f64>,
    /// us of every candidate.
    pub candidates: Vec<Measured>,
    /// Who took no part, and why.
    pub refused: Vec<(String, String)>,
}

/// A candidate's time, as it was expected and as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The candidate, as [`Choice`] prints it.
    pub name: String,
    /// us that the model expects.
    pub predicted_us: f64,
    /// us that were measured, with a cold L2.
    pub us: f64,
}

impl Found {
    /// The shape; none where the type is unknown.
    pub fn shape(&self) -> Option<Shape> {
        let dtype = [Dtype::F16, Dtype::Bf16, Dtype::F32].into_iter().find(|dtype| dtype.name() == self.dtype)?;
        Some(Shape { n: self.n, k: self.k, dtype })
    }

    /// The fastest candidate.
    pub fn best(&self) -> Option<&Measured> {
        self.candidates.iter().min_by(|a, b| a.us.total_cmp(&b.us))
    }
}

/// Compiles every candidate of a shape, many at a time: what fails is found again, and named, when it is measured.
pub fn compile(device: &Device, shape: Shape) {
    match shape.dtype {
        Dtype::F16 => compile_all::<f16>(device, shape),
        Dtype::Bf16 => compile_all::<bf16>(device, shape),
        _ => compile_all::<f32>(device, shape),
    }
}

fn compile_all<T: GemvElement + Real>(device: &Device, shape: Shape) {
    let choices: Vec<Choice> = candidates(shape.problem()).map(|candidate| candidate.choice).collect();
    choices.into_par_iter().for_each(|choice| {
        // One row is enough: kernels are compiled for K at most.
        let launched = || -> Result<(), Error> {
            let (w, x) = (device.zeros::<T, 2>([1, shape.k])?, device.zeros::<T, 1>([shape.k])?);
            let mut y = device.zeros::<T, 1>([1])?;
            T::launch(device, choice, &w, &x, &mut y, Gemv::default())?;
            device.synchronize()
        };
        launched().ok();
    });
}

/// Measures every candidate of a shape, the call, and cuBLAS where it is given.
///
/// # Errors
/// As [`race`].
pub fn measure(device: &Device, blas: Option<&Blas>, shape: Shape, options: &Options) -> Result<Found, BenchError> {
    match shape.dtype {
        Dtype::F16 => measure_as::<f16>(device, blas, shape, options),
        Dtype::Bf16 => measure_as::<bf16>(device, blas, shape, options),
        _ => measure_as::<f32>(device, blas, shape, options),
    }
}

/// How long each candidate runs: some milliseconds in all.
pub fn options() -> Options {
    Options {
        rounds: 2,
        block: Duration::from_micros(1500),
        idle: Duration::ZERO,
        screening: (1, Duration::from_micros(500)),
        keep: usize::MAX,
        ..Options::default()
    }
}

const CALL: &str = "call";

fn measure_as<T: GemvElement + Real>(
    device: &Device,
    blas: Option<&Blas>,
    shape: Shape,
    options: &Options,
) -> Result<Found, BenchError> {
    let Shape { n, k, dtype } = shape;
    let dense = Dense::with(normal::<T>(1, n * k), normal::<T>(2, k), n, k);
    let call = Contender::new(OURS, CALL, |on: &Stream, (w, x, y): &mut Buffers<T>| {
        Ok(gemv(on, &*w, &*x, y, Gemv::default())?)
    });
    let mut contenders = vec![call];
    let mut predicted = BTreeMap::new();
    for candidate in candidates(shape.problem()) {
        let choice = candidate.choice;
        predicted.insert(choice.to_string(), candidate.us());
        contenders.push(Contender::new(OURS, choice.to_string(), move |on: &Stream, (w, x, y): &mut Buffers<T>| {
            Ok(T::launch(on, choice, &*w, &*x, y, Gemv::default())?)
        }));
    }
    if let Some(blas) = blas {
        let gemm_ex =
            Contender::new("cublas", "GemmEx", |on: &Stream, (w, x, y): &mut Buffers<T>| Ok(blas.gemv(on, w, x, y)?));
        contenders.push(gemm_ex);
    }
    let row = race(device, &dense, contenders, options)?;
    let us = |group: &str, name: &str| {
        let found = row.entries.iter().find(|entry| entry.group == group && entry.name == name);
        found.map(|entry| entry.burst_us.median)
    };
    let measured = predicted.into_iter().filter_map(|(name, predicted_us)| {
        let us = us(OURS, &name)?;
        Some(Measured { name, predicted_us, us })
    });
    Ok(Found {
        n,
        k,
        dtype: dtype.name().into(),
        call_us: us(OURS, CALL),
        chosen: Choice::of(shape.problem()).to_string(),
        cublas_us: us("cublas", "GemmEx"),
        candidates: measured.collect(),
        refused: row.refused,
    })
}

/// The geometric mean of some ratios, and the largest; none of no ratio.
pub fn mean_and_worst(ratios: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut count, mut sum, mut worst) = (0usize, 0.0, 0.0f64);
    for ratio in ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0) {
        count += 1;
        sum += ratio.ln();
        worst = worst.max(ratio);
    }
    (count > 0).then(|| ((sum / count as f64).exp(), worst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_those_of_the_seed_and_a_fifth_is_as_drawn() {
        let all = shapes(50, 1);
        assert_eq!(all, shapes(50, 1));
        assert_ne!(all, shapes(50, 2));
        assert!(all.iter().enumerate().all(|(i, s)| i % 5 == 4 || s.k % 8 == 0));
        assert!(all.iter().filter(|s| s.k % 8 != 0).count() >= 5);
        assert!(all.iter().all(|s| s.n >= 1 && s.bytes() <= MOST_BYTES));
    }

    #[test]
    fn every_candidate_takes_part_and_is_right() {
        let device = Device::simulator();
        let quick = Options { block: Duration::ZERO, screening: (1, Duration::ZERO), rotate: 1, ..options() };
        for (n, k, dtype) in [(5, 4128, Dtype::F16), (3, 101, Dtype::F32)] {
            let shape = Shape { n, k, dtype };
            compile(&device, shape);
            let found = measure(&device, None, shape, &quick).unwrap();
            assert_eq!(found.refused, []);
            assert_eq!(found.candidates.len(), candidates(shape.problem()).count());
            assert!(found.call_us.is_some() && found.candidates.iter().any(|c| c.name == found.chosen));
            assert_eq!(found.shape(), Some(shape));
        }
    }
}
