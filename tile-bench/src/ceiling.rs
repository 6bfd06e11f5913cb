//! What the memory of a device gives at most, by reading: the roofline of everything that is bound by memory.

use crate::BenchError;
use crate::data::normal;
use crate::problem::{Contender, Problem, Title};
use crate::race::{OURS, Options, race};
use serde::{Deserialize, Serialize};
use tile_runtime::prelude::*;

/// The measured ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// Terabytes read a second.
    pub read_tbps: f64,
    /// The kernel that did.
    pub name: String,
    /// Floating-point operations a second that the device's data sheet promises for the problem, dense, in units of 10^12;
    /// none where only memory can bound it.
    #[serde(default)]
    pub peak_tflops: Option<f64>,
}

impl Ceiling {
    /// Microseconds that a call takes at least: its bytes at the ceiling's rate, its operations at the peak.
    pub fn least_us(&self, bytes: u64, flops: u64) -> f64 {
        let moving = bytes as f64 / self.read_tbps;
        let computing = self.peak_tflops.map_or(0.0, |peak| flops as f64 / peak);
        moving.max(computing) * 1e-6
    }

    /// The larger of this and what a row of a memory-bound problem reached: no contender is above the roofline.
    #[must_use]
    pub fn or_seen(self, tbps: f64, name: &str) -> Ceiling {
        if tbps > self.read_tbps { Ceiling { read_tbps: tbps, name: name.into(), ..self } } else { self }
    }
}

/// Sums each row of `x`: reads everything, writes almost nothing.
#[tile_kernel(
    instances((WARPS, UNROLL) in [(4, 4), (4, 8), (8, 4), (8, 8)]),
    require(K % 4 == 0),
    stream(x)
)]
fn row_sums<const WARPS: usize, const UNROLL: usize>(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {
    let step = 32 * WARPS * 4;
    let [row] = blocks([N]);
    let [thread] = threads([32 * WARPS]);
    let mut sum = 0.0f32;
    let mut xs = alloc_local::<f32>([UNROLL, 4]);
    for chunk in 0..ceil_div(K, UNROLL * step) {
        let first = chunk * (UNROLL * step) + thread * 4;
        for u in unroll(0..UNROLL) {
            for v in vectorized(0..4) {
                xs[[u, v]] = x.masked([row, first + u * step + v]);
            }
        }
        for u in unroll(0..UNROLL) {
            for v in unroll(0..4) {
                sum += xs[[u, v]];
            }
        }
    }
    let total = thread_allreduce(Sum, sum, thread);
    if thread == 0 {
        y[row] = total;
    }
}

/// A matrix whose rows are summed.
struct Reading {
    n: usize,
    k: usize,
    values: Vec<f32>,
    /// Sum and sum of magnitudes of each row.
    reference: Vec<(f64, f64)>,
}

impl Reading {
    fn new(n: usize, k: usize) -> Reading {
        let values = normal::<f32>(11, n * k);
        let sum = |row: &[f32]| row.iter().fold((0.0, 0.0), |(s, a), v| (s + f64::from(*v), a + f64::from(v.abs())));
        let reference = values.chunks(k.max(1)).map(sum).collect();
        Reading { n, k, values, reference }
    }
}

type Buffers = (Tensor<f32, 2>, Tensor<f32, 1>);

impl Problem for Reading {
    type Buffers = Buffers;

    fn title(&self) -> Title {
        let shape = vec![("n".to_string(), self.n as u64), ("k".to_string(), self.k as u64)];
        Title { op: "read".into(), dtype: "f32".into(), shape }
    }

    fn bytes(&self) -> u64 {
        4 * (self.n * self.k + self.n) as u64
    }

    fn flops(&self) -> u64 {
        (self.n * self.k) as u64
    }

    fn buffers(&self, device: &Device) -> Result<Buffers, Error> {
        Ok((device.tensor(&self.values, [self.n, self.k])?, device.zeros([self.n])?))
    }

    fn poison(&self, (_, y): &mut Buffers) -> Result<(), Error> {
        y.write(&vec![f32::NAN; self.n])
    }

    fn error(&self, (_, y): &Buffers) -> Result<f64, Error> {
        let bound = |abs: f64| self.k as f64 * 2f64.powi(-24) * abs + f64::MIN_POSITIVE;
        let errors = y.to_vec()?.into_iter().zip(&self.reference).map(|(y, (sum, abs))| {
            let error = (f64::from(y) - sum).abs() / bound(*abs);
            if error.is_nan() { f64::INFINITY } else { error }
        });
        Ok(errors.fold(0.0, f64::max))
    }
}

/// Measures the ceiling of a device by summing the rows of 1 GiB matrices.
///
/// # Errors
/// As [`race`].
pub fn measure(device: &Device, options: &Options) -> Result<Ceiling, BenchError> {
    measure_with(device, options, 16384, 16384)
}

fn measure_with(device: &Device, options: &Options, n: usize, k: usize) -> Result<Ceiling, BenchError> {
    macro_rules! contenders {
        ($(($warps:literal, $unroll:literal)),*) => {
            vec![$(Contender::new(
                OURS,
                concat!("row_sums ", $warps, " warps, ", $unroll, " loads"),
                |on: &Stream, (x, y): &mut Buffers| Ok(row_sums::<$warps, $unroll>::launch(on, &*x, y)?),
            )),*]
        };
    }
    let row = race(device, &Reading::new(n, k), contenders![(4, 4), (4, 8), (8, 4), (8, 8)], options)?;
    let best = row.best(OURS).map(|best| (row.tbps(best.burst_us.median), best.name.clone()));
    let (read_tbps, name) = best.unwrap_or_default();
    Ok(Ceiling { read_tbps, name, peak_tflops: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_kernel_reads_every_element() {
        let zero = Duration::ZERO;
        let options =
            Options { rounds: 1, block: zero, idle: zero, screening: (1, zero), rotate: 1, ..Options::default() };
        // K is no multiple of any step, so that the last chunk is masked; `race` refuses wrong sums.
        let ceiling = measure_with(&Device::simulator(), &options, 3, 4 * 1033).unwrap();
        assert!(ceiling.read_tbps > 0.0 && ceiling.name.starts_with("row_sums"), "{ceiling:?}");
        assert_eq!(ceiling.clone().or_seen(ceiling.read_tbps / 2.0, "gemv"), ceiling);
        assert_eq!(ceiling.or_seen(1e9, "gemv").name, "gemv");
    }
}
