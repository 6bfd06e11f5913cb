//! Random numbers without a state: Philox 4x32-10.
//!
//! J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC 2011.

use tile_runtime::prelude::*;

/// Ten rounds of Philox 4x32 over `c`, of four words: the counter comes in, random words go out.
#[tile_fn]
pub fn philox(c: &mut LocalArray<u32, (WORDS,)>, key0: u32, key1: u32) {
    for round in unroll(0..10) {
        let low0 = 0xd2511f53u32 * c[0];
        let low1 = 0xcd9e8d57u32 * c[2];
        let high0 = mul_hi(0xd2511f53u32, c[0]);
        let high1 = mul_hi(0xcd9e8d57u32, c[2]);
        c[0] = high1 ^ c[1] ^ (key0 + round as u32 * 0x9e3779b9u32);
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ (key1 + round as u32 * 0xbb67ae85u32);
        c[3] = low0;
    }
}

/// A number of the exponential distribution of mean 1, from a random word: `-log(1 - u)`, where `u = (word + 1/2) / 2^32`.
///
/// Between 2^-33 and 16.7. Small ones, which decide a race of many, keep all bits of the word: there the logarithm is its series.
#[tile_fn]
pub fn exponential(word: u32) -> f32 {
    let u = min((word.cast::<f32>() + 0.5) * 2.3283064e-10, 0.99999994);
    let series = u * (1.0 + u * (0.5 + u * (0.33333334 + u * 0.25)));
    let mut value = series;
    if u >= 0.015625 {
        value = -log(1.0 - u);
    }
    value
}
