//! Folders of safetensors: what is written is read, what does not fit is refused by file and tensor.

use std::path::PathBuf;
use tile_llm::config::FloatType;
use tile_llm::{ModelConfig, Weights};
use tile_runtime::{bf16, f16};

/// A folder of one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tile-llm-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read_in_every_dtype() {
    for dtype in [FloatType::F32, FloatType::F16, FloatType::Bf16] {
        let scratch = Scratch::new(dtype.name());
        let config = ModelConfig { dtype, ..ModelConfig::named("tiny").unwrap() };
        let random = Weights::random(&config, 5);
        random.write(&config, &scratch.0).unwrap();
        assert_eq!(ModelConfig::from_folder(&scratch.0).unwrap(), config);
        std::fs::write(scratch.0.join("generation_config.json"), r#"{"eos_token_id": [258, 257]}"#).unwrap();
        assert_eq!(ModelConfig::from_folder(&scratch.0).unwrap().eos_token_ids, [258, 257]);
        let read = Weights::folder(&scratch.0, &config).unwrap();
        for spec in config.tensors() {
            let name = [spec.name.as_str()];
            assert_eq!(read.load::<f32>(&name).unwrap(), random.load::<f32>(&name).unwrap(), "{name:?} as f32");
            assert_eq!(read.load::<bf16>(&name).unwrap(), random.load::<bf16>(&name).unwrap(), "{name:?} as bf16");
            assert_eq!(read.load::<f16>(&name).unwrap(), random.load::<f16>(&name).unwrap(), "{name:?} as f16");
        }
        let again = random.write(&config, &scratch.0).unwrap_err().to_string();
        assert!(again.contains("is there already"), "{again}");
    }
}

#[test]
fn rows_side_by_side_are_those_of_each() {
    // Rows of 200,000 bytes: 192 of them are more than the 32 MiB of a piece.
    let config = ModelConfig { hidden_size: 50_000, num_hidden_layers: 1, ..ModelConfig::named("tiny").unwrap() };
    let weights = Weights::random(&config, 1);
    let layer = config.layer(0);
    let mut row = vec![0.0f32; 50_000];
    let (mut next, mut pieces) = (0, 0);
    let mut each = |first: usize, rows: &[f32]| {
        assert_eq!((first, rows.len() % 50_000), (next, 0));
        let (name, within) = if first < 192 { (&layer.gate, first) } else { (&layer.up, first - 192) };
        weights.read_rows(name, within, &mut row)?;
        assert!(rows.starts_with(&row), "row {within} of {name}");
        next += rows.len() / 50_000;
        pieces += 1;
        Ok(())
    };
    weights.stream(&[&layer.gate, &layer.up], &mut each).unwrap();
    assert_eq!((next, pieces), (2 * 192, 4));
    let tiny = ModelConfig::named("tiny").unwrap();
    let small = Weights::random(&tiny, 1);
    let both = small.load::<f32>(&[&layer.q, &layer.k]).unwrap();
    let each = [small.load::<f32>(&[&layer.q]).unwrap(), small.load::<f32>(&[&layer.k]).unwrap()];
    assert_eq!(both, each.concat());
    assert!(weights.read_rows(&layer.up, 192, &mut row).unwrap_err().to_string().contains("from row 192 on"));
    assert!(weights.read_rows(&layer.up, 0, &mut row[1..]).is_err(), "not whole rows");
    assert!(weights.load::<f32>(&[&layer.gate, &layer.down]).unwrap_err().to_string().contains("columns"));
    assert!(weights.load::<f32>(&["lm_head.weight"]).unwrap_err().to_string().contains("`lm_head.weight`"));
}

/// A folder's tensors in two files and an index.
#[test]
fn shards_are_found_by_their_index() {
    let (one, two) = (Scratch::new("one"), Scratch::new("shards"));
    let config = ModelConfig::named("tiny-llama").unwrap();
    let random = Weights::random(&config, 2);
    random.write(&config, &one.0).unwrap();
    std::fs::create_dir_all(&two.0).unwrap();
    let bytes = std::fs::read(one.0.join("model.safetensors")).unwrap();
    let all = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = all.tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let rest = tensors.split_off(7);
    let shard = |name: &str, tensors: &[(String, safetensors::tensor::TensorView<'_>)]| {
        let tensors = tensors.iter().map(|(name, tensor)| (name, tensor));
        safetensors::serialize_to_file(tensors, None, &two.0.join(name)).unwrap();
    };
    shard("a.safetensors", &tensors);
    shard("b.safetensors", &rest);
    let index = |b: &str| {
        let map = tensors.iter().map(|(name, _)| (name.clone(), "a.safetensors".into()));
        let map: serde_json::Map<_, _> = map.chain(rest.iter().map(|(name, _)| (name.clone(), b.into()))).collect();
        let text = serde_json::json!({ "metadata": {}, "weight_map": map }).to_string();
        std::fs::write(two.0.join("model.safetensors.index.json"), text).unwrap();
    };
    index("b.safetensors");
    let read = Weights::folder(&two.0, &config).unwrap();
    for spec in config.tensors() {
        let name = [spec.name.as_str()];
        assert_eq!(read.load::<f32>(&name).unwrap(), random.load::<f32>(&name).unwrap(), "{name:?}");
    }
    let refused = |why: &str| {
        let error = Weights::folder(&two.0, &config).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    };
    index("../shards/b.safetensors");
    refused("not a file of this folder");
    index("c.safetensors");
    refused("c.safetensors");
    shard("b.safetensors", &rest[1..]);
    index("b.safetensors");
    refused(&format!("`{}` is in none of the files", rest[0].0));
    shard("b.safetensors", &[tensors[..1].to_vec(), rest.clone()].concat());
    refused(&format!("`{}` is in", tensors[0].0));
}

#[test]
fn another_models_files_are_refused_by_tensor() {
    let scratch = Scratch::new("refused");
    let config = ModelConfig::named("tiny").unwrap();
    Weights::random(&config, 3).write(&config, &scratch.0).unwrap();
    let refused = |config: &ModelConfig, parts: &[&str]| {
        let error = Weights::folder(&scratch.0, config).err().unwrap().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(
        &ModelConfig { vocab_size: 260, ..config.clone() },
        &["model.safetensors", "embed_tokens", "[259, 64]", "[260, 64]"],
    );
    refused(&ModelConfig { num_hidden_layers: 3, ..config.clone() }, &["`model.layers.2.", "is in none", "10 others"]);
    refused(&ModelConfig { num_hidden_layers: 1, ..config.clone() }, &["`model.layers.1.", "would be ignored"]);
    refused(&ModelConfig { tie_word_embeddings: false, ..config.clone() }, &["`lm_head.weight`", "is in none"]);
    let path = scratch.0.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        refused(&config, &["model.safetensors"]);
    }
    std::fs::remove_file(&path).unwrap();
    refused(&config, &["model.safetensors"]);
}
