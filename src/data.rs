//! Host data: seeded, in the distributions the measurements use.

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;
pub use tile_bench::data::Real;
use tile_runtime::Element;

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
