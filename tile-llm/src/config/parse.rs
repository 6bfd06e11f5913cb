//! `config.json`: what is read, what is refused.

use super::{Architecture, FloatType, ModelConfig, RopeScaling};
use crate::error::ModelError;
use serde::Deserialize;
use serde_json::Value;

/// The fields as they stand in the file. What is not here makes no difference to the forward pass.
#[derive(Deserialize)]
struct File {
    architectures: Option<Vec<String>>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    rope_scaling: Option<Value>,
    rope_parameters: Option<Value>,
    tie_word_embeddings: Option<bool>,
    torch_dtype: Option<String>,
    dtype: Option<String>,
    eos_token_id: Option<OneOrMany>,
    bos_token_id: Option<u32>,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    use_sliding_window: Option<bool>,
    sliding_window: Option<usize>,
    layer_types: Option<Vec<String>>,
    quantization_config: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

/// RoPE, in the old spelling (`rope_scaling`) and the new one (`rope_parameters`, with the base inside).
#[derive(Deserialize)]
struct Rope {
    rope_type: Option<String>,
    #[serde(rename = "type")]
    older_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

impl ModelConfig {
    /// From the contents of `config.json`.
    ///
    /// # Errors
    ///
    /// [`ModelError::Config`] names the field that is missing, out of range, or asks for what is not implemented.
    pub fn from_json(json: &Value) -> Result<ModelConfig, ModelError> {
        let file = File::deserialize(json).map_err(|error| ModelError::config("config.json", error.to_string()))?;
        let architecture = architecture(&file)?;
        refuse(&file, architecture)?;
        let (rope_theta, rope_scaling) = rope(&file)?;
        let heads = file.num_attention_heads;
        let config = ModelConfig {
            architecture,
            hidden_size: file.hidden_size,
            intermediate_size: file.intermediate_size,
            num_hidden_layers: file.num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: file.num_key_value_heads.unwrap_or(heads),
            head_dim: file.head_dim.unwrap_or(file.hidden_size.checked_div(heads).unwrap_or(0)),
            vocab_size: file.vocab_size,
            rms_norm_eps: file.rms_norm_eps,
            rope_theta,
            rope_scaling,
            tie_word_embeddings: file.tie_word_embeddings.unwrap_or(false),
            dtype: dtype(file.torch_dtype.as_deref().map(|name| ("torch_dtype", name)))
                .transpose()
                .or_else(|| dtype(file.dtype.as_deref().map(|name| ("dtype", name))).transpose())
                .unwrap_or(Ok(FloatType::F32))?,
            eos_token_ids: match file.eos_token_id {
                None => Vec::new(),
                Some(OneOrMany::One(token)) => vec![token],
                Some(OneOrMany::Many(tokens)) => tokens,
            },
            bos_token_id: file.bos_token_id,
            max_position_embeddings: file.max_position_embeddings,
        };
        config.validate()?;
        Ok(config)
    }

    /// Checks that the numbers agree with one another.
    ///
    /// # Errors
    ///
    /// [`ModelError::Config`] names the field.
    pub fn validate(&self) -> Result<(), ModelError> {
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        for (field, value) in sizes {
            // Products of two of them stay within 64 bits, and a token, a row or a position within 31.
            if value == 0 || value > i32::MAX as usize {
                return Err(ModelError::config(field, format!("is {value}; it must be 1 to {}", i32::MAX)));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let why = format!(
                "is {}, which does not divide num_attention_heads, {}",
                self.num_key_value_heads, self.num_attention_heads
            );
            return Err(ModelError::config("num_key_value_heads", why));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(ModelError::config("head_dim", format!("is {}; RoPE needs an even one", self.head_dim)));
        }
        for (field, value) in [("rms_norm_eps", self.rms_norm_eps), ("rope_theta", self.rope_theta)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(ModelError::config(field, format!("is {value}; it must be a number above 0")));
            }
        }
        let beyond = |token: &&u32| **token as usize >= self.vocab_size;
        if let Some(token) = self.eos_token_ids.iter().find(beyond) {
            return Err(ModelError::config("eos_token_id", format!("has {token}; vocab_size is {}", self.vocab_size)));
        }
        if let Some(token) = self.bos_token_id.iter().find(beyond) {
            return Err(ModelError::config("bos_token_id", format!("is {token}; vocab_size is {}", self.vocab_size)));
        }
        Ok(())
    }
}

fn architecture(file: &File) -> Result<Architecture, ModelError> {
    let names = file.architectures.as_deref().unwrap_or_default();
    match names {
        [name] if name == "Qwen3ForCausalLM" => Ok(Architecture::Qwen3),
        [name] if name == "LlamaForCausalLM" => Ok(Architecture::Llama),
        _ => {
            let why = format!("is {names:?}; Qwen3ForCausalLM and LlamaForCausalLM are implemented");
            Err(ModelError::config("architectures", why))
        }
    }
}

fn refuse(file: &File, architecture: Architecture) -> Result<(), ModelError> {
    if let Some(act) = file.hidden_act.as_deref().filter(|&act| act != "silu") {
        return Err(ModelError::config("hidden_act", format!("is {act:?}; silu is implemented")));
    }
    for (field, set) in [("attention_bias", file.attention_bias), ("mlp_bias", file.mlp_bias)] {
        if set == Some(true) {
            return Err(ModelError::config(field, "is true; projections with a bias are not implemented"));
        }
    }
    // Qwen3's files name a window that `use_sliding_window: false` turns off.
    let window =
        file.use_sliding_window.unwrap_or(architecture != Architecture::Qwen3 && file.sliding_window.is_some());
    if window && file.sliding_window.is_some() {
        return Err(ModelError::config("sliding_window", "is in use; only attention to all positions is implemented"));
    }
    if let Some(kind) = file.layer_types.iter().flatten().find(|&kind| kind != "full_attention") {
        return Err(ModelError::config("layer_types", format!("has {kind:?}; full_attention is implemented")));
    }
    if file.quantization_config.is_some() {
        return Err(ModelError::config("quantization_config", "is set; weights of 16 and 32 bits are implemented"));
    }
    Ok(())
}

fn dtype(named: Option<(&str, &str)>) -> Result<Option<FloatType>, ModelError> {
    let Some((field, name)) = named else { return Ok(None) };
    match name {
        "float32" => Ok(Some(FloatType::F32)),
        "float16" => Ok(Some(FloatType::F16)),
        "bfloat16" => Ok(Some(FloatType::Bf16)),
        _ => Err(ModelError::config(field, format!("is {name:?}; it must be float32, float16 or bfloat16"))),
    }
}

/// The base and the scaling. Without a base it is 10000, transformers' default for both architectures.
fn rope(file: &File) -> Result<(f64, Option<RopeScaling>), ModelError> {
    let (field, value) = match (&file.rope_parameters, &file.rope_scaling) {
        (Some(value), _) => ("rope_parameters", value),
        (None, Some(value)) => ("rope_scaling", value),
        (None, None) => return Ok((file.rope_theta.unwrap_or(10_000.0), None)),
    };
    let rope = Rope::deserialize(value).map_err(|error| ModelError::config(field, error.to_string()))?;
    let theta = rope.rope_theta.or(file.rope_theta).unwrap_or(10_000.0);
    if rope.partial_rotary_factor.is_some_and(|factor| factor != 1.0) {
        return Err(ModelError::config(format!("{field}.partial_rotary_factor"), "is not 1, which is not implemented"));
    }
    let kind = rope.rope_type.as_deref().or(rope.older_type.as_deref()).unwrap_or("default");
    match kind {
        "default" => Ok((theta, None)),
        "llama3" => {
            let number = |name: &str, value: Option<f64>| {
                value.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| {
                    ModelError::config(format!("{field}.{name}"), "is needed by rope_type llama3, a number above 0")
                })
            };
            let scaling = RopeScaling {
                factor: number("factor", rope.factor)?,
                low_freq_factor: number("low_freq_factor", rope.low_freq_factor)?,
                high_freq_factor: number("high_freq_factor", rope.high_freq_factor)?,
                original_max_position_embeddings: number(
                    "original_max_position_embeddings",
                    rope.original_max_position_embeddings,
                )?,
            };
            if scaling.high_freq_factor <= scaling.low_freq_factor {
                return Err(ModelError::config(format!("{field}.high_freq_factor"), "must be above low_freq_factor"));
            }
            Ok((theta, Some(scaling)))
        }
        other => {
            let why = format!("is {other:?}; default and llama3 are implemented");
            Err(ModelError::config(format!("{field}.rope_type"), why))
        }
    }
}
