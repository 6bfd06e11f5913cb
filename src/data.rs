//! Host data: seeded, in the distributions the measurements use.

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;
use tile_runtime::{Element, bf16, f16};

/// An element type that examples and tests fill from and compare through `f32`.
pub trait Real: Element {
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

/// `len` values of N(0, 1), the same for the same seed.
pub fn normal<T: Real>(seed: u64, len: usize) -> Vec<T> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| T::from_f32(rng.sample(StandardNormal))).collect()
}

/// `len` small integers in `-limit..=limit`, whose sums are exact in f32: for comparisons bit by bit of results whose
/// order of summation is not defined.
pub fn integers<T: Real>(seed: u64, len: usize, limit: i32) -> Vec<T> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| T::from_f32(rng.random_range(-limit..=limit) as f32)).collect()
}

/// FNV-1a of the elements' bits: a result as one number.
pub fn hash<T: Element>(values: &[T]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for value in values {
        for byte in value.to_bits().to_le_bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    state
}
