//! Dropout with random numbers that need no state: Philox 4x32-10.
//!
//! A counter-based generator is a hash: it turns a counter (which element, which call) and a key (the seed) into four random
//! words. So no thread keeps a state, any element's number can be computed anywhere and again (in the backward pass, instead of
//! a stored mask), and the result does not depend on how the work was divided among threads.
//!
//! J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC 2011.

use crate::vector::width;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// Ten rounds of Philox over the four words of `c`: the counter comes in, random words go out.
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

/// `y = x * scale` where the element's random word is at least `threshold`, else 0. Four elements a thread, a word each.
#[tile_kernel(instances(VEC in [4, 1]), require(N % VEC == 0), uses(philox))]
pub fn dropout_philox<T: Float, const VEC: usize>(
    x: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (N,)>,
    threshold: u32,
    scale: f32,
    key0: u32,
    key1: u32,
    offset: u32,
) {
    let [block] = blocks([ceil_div(N, 1024)]);
    let [t] = threads([256]);
    let four = block * 256 + t; // which four elements, whatever VEC: so every instance drops the same ones
    let mut values = alloc_local::<T>([4]);
    let mut words = alloc_local::<u32>([4]);
    for part in unroll(0..4 / VEC) {
        for v in vectorized(0..VEC) {
            values[part * VEC + v] = x.masked([four * 4 + part * VEC + v]);
        }
    }
    words[0] = four as u32;
    words[1] = offset;
    words[2] = 0;
    words[3] = 0;
    philox(&mut words, key0, key1);
    for i in unroll(0..4) {
        let kept = words[i] >= threshold;
        values[i] = if kept { (values[i].cast::<f32>() * scale).cast::<T>() } else { T::ZERO };
    }
    for part in unroll(0..4 / VEC) {
        for v in vectorized(0..VEC) {
            *y.masked_mut([four * 4 + part * VEC + v]) = values[part * VEC + v];
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Sets each element to 0 with probability `p` and multiplies the others by `1 / (1 - p)`. The same `seed` and `offset` drop
/// the same elements; use another offset for each call of a step.
///
/// # Errors
/// Where the shapes differ or `y` overlaps `x`, and whatever a launch may fail with.
pub fn dropout<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 1>,
    p: f64,
    seed: u64,
    offset: u32,
) -> Result<(), LaunchError> {
    let params = DropoutPhiloxParams { VEC: width(4, &[x.argument(), y.argument()]) };
    let kernel = dropout_philox::<T>::instance(on.device(), params)?;
    let (threshold, scale) = chances(p);
    kernel.launch_on(on, x, y, threshold, scale, seed as u32, (seed >> 32) as u32, offset)
}
// ANCHOR_END: host

/// The words below which an element is dropped, and the factor of the others, for a probability, which is clamped to 0..=1.
fn chances(p: f64) -> (u32, f32) {
    let p = p.clamp(0.0, 1.0);
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    ((p * 4294967296.0) as u32, scale as f32)
}

/// Philox 4x32-10 as its authors define it.
pub fn philox_reference(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product = |factor: u32, word: u32| u64::from(factor) * u64::from(word);
        let (a, b) = (product(0xd251_1f53, counter[0]), product(0xcd9e_8d57, counter[2]));
        let high = |product: u64| (product >> 32) as u32;
        counter = [high(b) ^ counter[1] ^ key[0], b as u32, high(a) ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

/// What [`dropout`] makes of `x`, in the order of its arithmetic.
pub fn reference(x: &[f32], p: f64, seed: u64, offset: u32) -> Vec<f32> {
    let (threshold, scale) = chances(p);
    let word =
        |at: usize| philox_reference([(at / 4) as u32, offset, 0, 0], [seed as u32, (seed >> 32) as u32])[at % 4];
    x.iter().enumerate().map(|(at, x)| if word(at) >= threshold { x * scale } else { 0.0 }).collect()
}
