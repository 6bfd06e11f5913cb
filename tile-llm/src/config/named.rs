//! Shapes of known models, for random weights, and `config.json` of any configuration.

use super::{Architecture, FloatType, ModelConfig, RopeScaling};
use serde_json::{Value, json};

impl ModelConfig {
    /// The names that [`ModelConfig::named`] takes.
    pub const NAMES: [&'static str; 6] = ["tiny", "tiny-llama", "qwen3-0.6b", "qwen3-4b", "qwen3-8b", "llama3-8b"];

    /// The shapes of a published model, or `tiny` and `tiny-llama`: two layers whose tokens are bytes, small enough for the
    /// simulators. `None`: the name is not one of [`ModelConfig::NAMES`].
    pub fn named(name: &str) -> Option<ModelConfig> {
        let qwen3 = |hidden_size, intermediate_size, num_hidden_layers, heads, tie_word_embeddings| ModelConfig {
            architecture: Architecture::Qwen3,
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: 8,
            head_dim: 128,
            vocab_size: 151_936,
            rms_norm_eps: 1e-6,
            rope_theta: 1e6,
            rope_scaling: None,
            tie_word_embeddings,
            dtype: FloatType::Bf16,
            eos_token_ids: vec![151_645],
            bos_token_id: Some(151_643),
            max_position_embeddings: 40_960,
        };
        let tiny = ModelConfig {
            num_key_value_heads: 2,
            head_dim: 64,
            vocab_size: 259,
            dtype: FloatType::F32,
            eos_token_ids: vec![257],
            bos_token_id: Some(256),
            max_position_embeddings: 2048,
            ..qwen3(64, 192, 2, 4, true)
        };
        let llama = |original_max_position_embeddings| RopeScaling {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings,
        };
        Some(match name {
            "tiny" => tiny,
            "tiny-llama" => ModelConfig {
                architecture: Architecture::Llama,
                rms_norm_eps: 1e-5,
                rope_theta: 5e5,
                rope_scaling: Some(llama(256.0)),
                tie_word_embeddings: false,
                ..tiny
            },
            "qwen3-0.6b" => qwen3(1024, 3072, 28, 16, true),
            "qwen3-4b" => qwen3(2560, 9728, 36, 32, true),
            "qwen3-8b" => qwen3(4096, 12_288, 36, 32, false),
            // Llama 3.1: the one with scaled frequencies.
            "llama3-8b" => ModelConfig {
                architecture: Architecture::Llama,
                vocab_size: 128_256,
                rms_norm_eps: 1e-5,
                rope_theta: 5e5,
                rope_scaling: Some(llama(8192.0)),
                eos_token_ids: vec![128_001, 128_008, 128_009],
                bos_token_id: Some(128_000),
                max_position_embeddings: 131_072,
                ..qwen3(4096, 14_336, 32, 32, false)
            },
            _ => return None,
        })
    }

    /// `config.json` of this configuration, which transformers reads, as [`ModelConfig::from_json`] does.
    pub fn to_json(&self) -> Value {
        let (architecture, model_type) = match self.architecture {
            Architecture::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
            Architecture::Llama => ("LlamaForCausalLM", "llama"),
        };
        let scaling = self.rope_scaling.map(|scaling| {
            json!({
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_max_position_embeddings as u64,
            })
        });
        json!({
            "architectures": [architecture],
            "model_type": model_type,
            "hidden_act": "silu",
            "attention_bias": false,
            "attention_dropout": 0.0,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab_size,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": scaling,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": self.dtype.name(),
            "eos_token_id": self.eos_token_ids,
            "bos_token_id": self.bos_token_id,
            "max_position_embeddings": self.max_position_embeddings,
        })
    }
}
