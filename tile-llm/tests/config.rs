//! `config.json`: both spellings are read, what is not implemented is refused by its field.

use serde_json::{Value, json};
use tile_llm::ModelConfig;
use tile_llm::config::{Architecture, FloatType, RopeScaling};

/// Llama-3.1-8B's file, as it is published.
fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3"
        },
        "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 128256
    })
}

/// Qwen3-0.6B's file, as it is published.
fn qwen3() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
        "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
        "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
        "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936
    })
}

#[test]
fn published_files_are_the_named_shapes() {
    assert_eq!(ModelConfig::from_json(&llama()).unwrap(), ModelConfig::named("llama3-8b").unwrap());
    assert_eq!(ModelConfig::from_json(&qwen3()).unwrap(), ModelConfig::named("qwen3-0.6b").unwrap());
    // Parameters as the models' cards count them.
    let billions = |name| (ModelConfig::named(name).unwrap().parameters() as f64 / 1e7).round() / 100.0;
    assert_eq!(["qwen3-0.6b", "qwen3-4b", "qwen3-8b", "llama3-8b"].map(billions), [0.6, 4.02, 8.19, 8.03]);
}

#[test]
fn what_is_written_is_read() {
    for name in ModelConfig::NAMES {
        let config = ModelConfig::named(name).unwrap();
        config.validate().unwrap();
        assert_eq!(ModelConfig::from_json(&config.to_json()).unwrap(), config, "{name}");
    }
}

#[test]
fn the_newer_spelling_means_the_same() {
    let mut json = llama();
    let map = json.as_object_mut().unwrap();
    let mut rope = map.remove("rope_scaling").unwrap();
    rope["rope_theta"] = map.remove("rope_theta").unwrap();
    map.insert("rope_parameters".to_owned(), rope);
    let dtype = map.remove("torch_dtype").unwrap();
    map.insert("dtype".to_owned(), dtype);
    assert_eq!(ModelConfig::from_json(&json).unwrap(), ModelConfig::named("llama3-8b").unwrap());
}

#[test]
fn what_is_left_out_has_its_default() {
    let mut json = llama();
    for field in ["num_key_value_heads", "rope_scaling", "rope_theta", "torch_dtype", "eos_token_id", "bos_token_id"] {
        json.as_object_mut().unwrap().remove(field);
    }
    let config = ModelConfig::from_json(&json).unwrap();
    assert_eq!((config.num_key_value_heads, config.head_dim, config.group()), (32, 128, 1));
    assert_eq!((config.rope_theta, config.rope_scaling, config.dtype), (1e4, None, FloatType::F32));
    assert_eq!((config.eos_token_ids, config.bos_token_id), (vec![], None));
}

#[test]
fn what_is_not_implemented_is_refused_by_its_field() {
    let cases = [
        ("architectures", json!(["MistralForCausalLM"])),
        ("architectures", json!(null)),
        ("hidden_act", json!("gelu")),
        ("attention_bias", json!(true)),
        ("mlp_bias", json!(true)),
        ("sliding_window", json!(4096)),
        ("layer_types", json!(["full_attention", "sliding_attention"])),
        ("quantization_config", json!({ "quant_method": "gptq" })),
        ("torch_dtype", json!("float8_e4m3fn")),
        ("rope_scaling.rope_type", json!({ "rope_type": "yarn", "factor": 4.0 })),
        ("rope_scaling.factor", json!({ "rope_type": "llama3", "low_freq_factor": 1.0 })),
        ("rope_parameters.partial_rotary_factor", json!({ "partial_rotary_factor": 0.5, "rope_theta": 1e4 })),
        ("head_dim", json!(129)),
        ("num_key_value_heads", json!(5)),
        ("hidden_size", json!(0)),
        ("vocab_size", json!(1u64 << 40)),
        ("vocab_size", json!(128_000)),
        ("rms_norm_eps", json!(0.0)),
    ];
    for (field, value) in cases {
        let mut json = llama();
        json[field.split('.').next().unwrap()] = value.clone();
        let error = ModelConfig::from_json(&json).unwrap_err().to_string();
        let named = if value == json!(128_000) { "eos_token_id" } else { field };
        assert!(error.contains(&format!("`{named}`")), "{field} = {value}: {error}");
    }
    let mut window = qwen3();
    window["sliding_window"] = json!(4096);
    assert!(ModelConfig::from_json(&window).is_ok(), "use_sliding_window is false");
    window["use_sliding_window"] = json!(true);
    assert!(ModelConfig::from_json(&window).unwrap_err().to_string().contains("`sliding_window`"));
    let missing = ModelConfig::from_json(&json!({ "architectures": ["Qwen3ForCausalLM"] })).unwrap_err().to_string();
    assert!(missing.contains("hidden_size"), "{missing}");
}

/// The three ranges of `rope_type: llama3`, with numbers worked out by hand.
#[test]
fn frequencies_are_stretched_where_they_are_low() {
    let scaling = RopeScaling {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 1000.0 * std::f64::consts::TAU,
    };
    // Frequencies 1, 1/100, 1/10,000: 1000, 10 and 0.1 turns within what was trained on.
    let mut config = ModelConfig {
        architecture: Architecture::Llama,
        head_dim: 6,
        rope_theta: 1e6,
        rope_scaling: None,
        ..ModelConfig::named("tiny").unwrap()
    };
    let near = |found: Vec<f64>, expected: [f64; 3]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-12), "{found:?}, not {expected:?}");
    };
    near(config.inverse_frequencies(), [1.0, 1e-2, 1e-4]);
    config.rope_scaling = Some(scaling);
    near(config.inverse_frequencies(), [1.0, 1e-2, 1e-4 / 8.0]);
    // 10 turns lie half way between 5 and 15.
    config.rope_scaling = Some(RopeScaling { low_freq_factor: 5.0, high_freq_factor: 15.0, ..scaling });
    near(config.inverse_frequencies(), [1.0, 0.5 * 1e-2 / 8.0 + 0.5 * 1e-2, 1e-4 / 8.0]);
}
