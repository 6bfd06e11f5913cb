//! The dtypes that weights are stored in and computed in.

use crate::config::FloatType;
use rayon::prelude::*;
use tile_runtime::{Element, bf16, f16};

/// Elements that one thread converts at a time.
const CHUNK: usize = 1 << 16;

/// A floating-point type that tensors hold: `f32`, `f16`, `bf16`.
pub trait Float: Element {
    /// Which it is.
    const TYPE: FloatType;

    /// The nearest value, ties to even.
    fn from_f32(value: f32) -> Self;

    /// The value as an f32.
    fn to_f32(self) -> f32;
}

impl Float for f32 {
    const TYPE: FloatType = FloatType::F32;

    fn from_f32(value: f32) -> f32 {
        value
    }

    fn to_f32(self) -> f32 {
        self
    }
}

impl Float for f16 {
    const TYPE: FloatType = FloatType::F16;

    fn from_f32(value: f32) -> f16 {
        f16::from_f32(value)
    }

    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
}

impl Float for bf16 {
    const TYPE: FloatType = FloatType::Bf16;

    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }

    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
}

/// Little-endian values of dtype `stored`, converted to `T`. `bytes` has as many values as `out`.
pub(super) fn convert<T: Float>(stored: FloatType, bytes: &[u8], out: &mut [T]) {
    let width = stored.bytes();
    let chunks = out.par_chunks_mut(CHUNK).zip(bytes.par_chunks(CHUNK * width));
    chunks.for_each(|(out, bytes)| match stored {
        FloatType::F32 => each::<f32, T, 4>(bytes, out),
        FloatType::F16 => each::<f16, T, 2>(bytes, out),
        FloatType::Bf16 => each::<bf16, T, 2>(bytes, out),
    });
}

fn each<S: Float, T: Float, const WIDTH: usize>(bytes: &[u8], out: &mut [T]) {
    let (values, _) = bytes.as_chunks::<WIDTH>();
    for (out, value) in out.iter_mut().zip(values) {
        let mut bits = [0; 4];
        bits[..WIDTH].copy_from_slice(value);
        let bits = u32::from_le_bytes(bits);
        *out = if S::TYPE == T::TYPE { T::from_bits(bits) } else { T::from_f32(S::from_bits(bits).to_f32()) };
    }
}

/// The value of dtype `to` nearest to `value`.
pub(super) fn rounded(to: FloatType, value: f32) -> f32 {
    match to {
        FloatType::F32 => value,
        FloatType::F16 => f16::from_f32(value).to_f32(),
        FloatType::Bf16 => bf16::from_f32(value).to_f32(),
    }
}

/// `values` as little-endian bytes of dtype `to`.
pub(super) fn to_bytes(to: FloatType, values: &[f32]) -> Vec<u8> {
    match to {
        FloatType::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        FloatType::F16 => values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
        FloatType::Bf16 => values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
    }
}
