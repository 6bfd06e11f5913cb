//! Random weights, the same on every machine: no value needs another one, no library's `ln` or `cos` takes part.

use super::float::{Float, rounded};
use crate::config::{FloatType, ModelConfig};
use rayon::prelude::*;

/// Elements that one thread makes at a time.
const CHUNK: usize = 1 << 16;

/// Random tensors by a seed.
pub(super) struct Random {
    pub(super) seed: u64,
    pub(super) dtype: FloatType,
}

impl Random {
    /// Elements from `first` on of a tensor with rows of `columns`.
    pub(super) fn read<T: Float>(&self, name: &str, columns: usize, norm: bool, first: usize, out: &mut [T]) {
        let (mean, deviation) = if norm {
            (1.0, 0.05)
        } else if name == ModelConfig::EMBEDDING {
            (0.0, 0.02)
        } else {
            (0.0, 1.0 / (columns as f32).sqrt())
        };
        let stream = name.bytes().fold(mix(self.seed), |hash, byte| mix(hash ^ u64::from(byte)));
        out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let start = (first + chunk * CHUNK) as u64;
            for (index, out) in (start..).zip(out) {
                *out = T::from_f32(rounded(self.dtype, mean + deviation * normal(mix(stream.wrapping_add(index)))));
            }
        });
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014) after its increment: a bijection that avalanches.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sum of four uniform numbers, of mean 0 and standard deviation 1: near enough to normal for weights, and exact in f32.
fn normal(bits: u64) -> f32 {
    let sum: i32 = (0..4).map(|part| ((bits >> (16 * part)) & 0xffff) as i32).sum();
    // The variance of one uniform number of 0..65536 is 65536^2 / 12.
    const DEVIATION: f32 = 37_837.227;
    (sum - 131_070) as f32 / DEVIATION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_one_and_pieces_agree_with_the_whole() {
        let random = Random { seed: 7, dtype: FloatType::F32 };
        let mut whole = vec![0.0f32; 200_000];
        random.read("w", 1, false, 0, &mut whole);
        let mean = whole.iter().map(|&value| f64::from(value)).sum::<f64>() / whole.len() as f64;
        let square = whole.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() / whole.len() as f64;
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.01, "mean {mean}, mean square {square}");
        let mut piece = vec![0.0f32; 1000];
        random.read("w", 1, false, 123_456, &mut piece);
        assert_eq!(piece, whole[123_456..124_456]);
        let mut other = vec![0.0f32; 1000];
        random.read("v", 1, false, 123_456, &mut other);
        assert!(piece.iter().zip(&other).all(|(a, b)| a != b));
    }
}
