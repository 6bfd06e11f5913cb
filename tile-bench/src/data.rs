//! Seeded host data, made in parallel: a benchmark's operands take hundreds of megabytes.

use half::{bf16, f16};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;
use rayon::prelude::*;
use tile_runtime::Element;

/// An element type that data is made for and compared in through `f32`.
pub trait Real: Element + Sync {
    /// The nearest value, ties to even.
    fn from_f32(value: f32) -> Self;
    /// The exact value.
    fn to_f32(self) -> f32;
}

impl Real for f16 {
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
}

impl Real for bf16 {
    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
}

impl Real for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
    fn to_f32(self) -> f32 {
        self
    }
}

/// Elements that one generator makes.
const CHUNK: usize = 1 << 16;

/// `len` values of N(0, 1), the same for the same seed whatever the number of processors.
pub fn normal<T: Real>(seed: u64, len: usize) -> Vec<T> {
    let mut values = vec![T::from_f32(0.0); len];
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let mut rng = StdRng::seed_from_u64(seed ^ ((chunk as u64) << 32));
        values.iter_mut().for_each(|v| *v = T::from_f32(rng.sample(StandardNormal)));
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_data_is_normal_and_repeatable() {
        let values = normal::<f32>(3, 3 * CHUNK + 5);
        assert_eq!(values, normal::<f32>(3, 3 * CHUNK + 5));
        assert_ne!(values[..CHUNK], values[CHUNK..2 * CHUNK], "every chunk has its own generator");
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
