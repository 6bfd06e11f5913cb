//! RoPE's frequencies, as `modeling_rope_utils.py` of transformers computes them.

use super::ModelConfig;
use std::f64::consts::TAU;

/// Frequencies stretched for contexts longer than those trained on: `rope_type: "llama3"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeScaling {
    /// What low frequencies are divided by.
    pub factor: f64,
    /// Wavelengths above `original_max_position_embeddings / low_freq_factor` are stretched in full.
    pub low_freq_factor: f64,
    /// Wavelengths below `original_max_position_embeddings / high_freq_factor` stay.
    pub high_freq_factor: f64,
    /// Positions the model was first trained on.
    pub original_max_position_embeddings: f64,
}

impl RopeScaling {
    fn scaled(&self, frequency: f64) -> f64 {
        let wavelength = TAU / frequency;
        let turns = self.original_max_position_embeddings / wavelength;
        if turns > self.high_freq_factor {
            return frequency;
        }
        if turns < self.low_freq_factor {
            return frequency / self.factor;
        }
        let smooth = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor);
        (1.0 - smooth) * frequency / self.factor + smooth * frequency
    }
}

impl ModelConfig {
    /// RoPE's inverse frequencies in radians a position, `head_dim / 2` of them. Pair `i` of a head is its columns `i` and
    /// `i + head_dim / 2`.
    pub fn inverse_frequencies(&self) -> Vec<f64> {
        (0..self.head_dim / 2)
            .map(|pair| {
                let frequency = self.rope_theta.powf(-((2 * pair) as f64) / self.head_dim as f64);
                self.rope_scaling.map_or(frequency, |scaling| scaling.scaled(frequency))
            })
            .collect()
    }
}
