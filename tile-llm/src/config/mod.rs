//! A model's shapes: from Hugging Face's `config.json`, or by name for random weights.

mod named;
mod parse;
mod rope;
mod tensors;

pub use rope::RopeScaling;
pub use tensors::{Layer, TensorSpec};

use crate::error::ModelError;
use serde_json::Value;
use std::path::Path;

/// Which of the two families a model is of. They differ in the norms of q and k, and in the names of nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `Qwen3ForCausalLM`: every head of q and k goes through an RMSNorm before RoPE.
    Qwen3,
    /// `LlamaForCausalLM`: no norm of q and k.
    Llama,
}

/// A dtype that weights are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    /// 32 bits.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
}

impl FloatType {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            FloatType::F32 => 4,
            FloatType::F16 | FloatType::Bf16 => 2,
        }
    }

    /// As `config.json` spells it: `float32`, `float16`, `bfloat16`.
    pub fn name(self) -> &'static str {
        match self {
            FloatType::F32 => "float32",
            FloatType::F16 => "float16",
            FloatType::Bf16 => "bfloat16",
        }
    }
}

/// A model's shapes and constants. The fields have the names of `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Columns of the residual stream.
    pub hidden_size: usize,
    /// Rows of the gate and of the up projection.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Columns of a head; even.
    pub head_dim: usize,
    /// Rows of the embedding and of the head.
    pub vocab_size: usize,
    /// Added to the mean square under the root of every RMSNorm.
    pub rms_norm_eps: f64,
    /// The base of RoPE's frequencies.
    pub rope_theta: f64,
    /// How RoPE's frequencies are stretched, if they are.
    pub rope_scaling: Option<RopeScaling>,
    /// Whether the head is the embedding.
    pub tie_word_embeddings: bool,
    /// The dtype that the weights are stored in, where `config.json` names one: what is computed in unless told otherwise.
    pub dtype: FloatType,
    /// Tokens that end an answer.
    pub eos_token_ids: Vec<u32>,
    /// The token before a text, if there is one.
    pub bos_token_id: Option<u32>,
    /// Most positions that the model was made for.
    pub max_position_embeddings: usize,
}

impl ModelConfig {
    /// Reads `config.json` of a folder. Where `generation_config.json` names tokens that end an answer, those hold: models
    /// that were tuned to chat name more of them there.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not JSON, or asks for what is not implemented: [`ModelError::Config`] names the field.
    pub fn from_folder(folder: &Path) -> Result<ModelConfig, ModelError> {
        let read = |path: &Path| -> Result<Value, ModelError> {
            let text = std::fs::read_to_string(path).map_err(ModelError::io(path))?;
            serde_json::from_str(&text).map_err(|error| ModelError::format(path, error))
        };
        let mut json = read(&folder.join("config.json"))?;
        let generation = folder.join("generation_config.json");
        if generation.exists()
            && let Some(end) = read(&generation)?.get("eos_token_id").filter(|end| !end.is_null())
            && let Some(fields) = json.as_object_mut()
        {
            fields.insert("eos_token_id".to_owned(), end.clone());
        }
        ModelConfig::from_json(&json)
    }

    /// Query heads that share a key and value head.
    pub fn group(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }

    /// Rows of the q projection: `num_attention_heads * head_dim`.
    pub fn q_rows(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Rows of the k projection, and of the v projection: `num_key_value_heads * head_dim`.
    pub fn kv_rows(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Elements of all weights.
    pub fn parameters(&self) -> usize {
        self.tensors().iter().map(TensorSpec::elements).sum()
    }
}
