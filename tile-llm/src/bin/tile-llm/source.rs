//! Which model, on which device.

use anyhow::{Result, anyhow};
use clap::Args;
use std::path::PathBuf;
use tile_llm::config::FloatType;
use tile_llm::model::{Model, Options};
use tile_llm::reference::{Reference, ReferenceBackend};
use tile_llm::text::Tokenizer;
use tile_llm::{Backend, Limits, ModelConfig, ModelError, Weights};
use tile_runtime::{Device, bf16, f16};

/// Tokens in a page of the cache: what attention of prompts takes.
const PAGE: usize = 128;

/// Which weights.
#[derive(Args, Clone)]
pub struct Source {
    /// A Hugging Face folder: config.json, safetensors, tokenizer.json.
    #[arg(long, value_name = "DIR", required_unless_present = "random", conflicts_with = "random")]
    pub model: Option<PathBuf>,
    /// Random weights of a shape: tiny, tiny-llama, qwen3-0.6b, qwen3-4b, qwen3-8b, llama3-8b.
    #[arg(long, value_name = "SHAPE")]
    pub random: Option<String>,
    /// The seed of random weights.
    #[arg(long, default_value_t = 0)]
    pub weights_seed: u64,
    /// Fewer layers than the shape has.
    #[arg(long, requires = "random")]
    pub layers: Option<usize>,
    /// auto (a GPU if there is one), sim, sim-checked, cuda:N; reference: in f64 on the CPU, without kernels.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Give each sequence the bits that it gets alone, whatever shares its steps: every product is computed a token at a time.
    #[arg(long)]
    pub invariant: bool,
}

impl Source {
    /// The configuration and the weights, checked and not yet read.
    pub fn weights(&self) -> Result<(ModelConfig, Weights), ModelError> {
        match (&self.model, &self.random) {
            (Some(folder), _) => {
                let config = self.config()?;
                let weights = Weights::folder(folder, &config)?;
                Ok((config, weights))
            }
            (None, _) => {
                let config = self.config()?;
                let weights = Weights::random(&config, self.weights_seed);
                Ok((config, weights))
            }
        }
    }

    /// The configuration alone.
    pub fn config(&self) -> Result<ModelConfig, ModelError> {
        match &self.model {
            Some(folder) => ModelConfig::from_folder(folder),
            None => {
                let mut config = named(self.random.as_deref().unwrap_or("tiny"))?;
                if let Some(layers) = self.layers {
                    set_layers(&mut config, layers)?;
                }
                Ok(config)
            }
        }
    }

    /// The folder's tokenizer; bytes for random weights.
    pub fn tokenizer(&self, config: &ModelConfig) -> Result<Tokenizer, ModelError> {
        match &self.model {
            Some(folder) => Tokenizer::from_folder(folder, config),
            None => Ok(Tokenizer::Bytes),
        }
    }

    /// What it is called: the folder's name, or the shape's.
    pub fn name(&self) -> String {
        let folder = self.model.as_ref().and_then(|folder| folder.canonicalize().ok());
        let name =
            folder.as_ref().and_then(|folder| folder.file_name()).map(|name| name.to_string_lossy().into_owned());
        name.or_else(|| self.random.clone()).unwrap_or_else(|| "model".to_owned())
    }

    /// Loads the model onto its device.
    pub fn open(&self, limits: Limits) -> Result<Box<dyn Backend>, ModelError> {
        self.open_on(self.device()?, limits)
    }

    /// Loads the model onto a device; none: the reference.
    pub fn open_on(&self, device: Option<Device>, limits: Limits) -> Result<Box<dyn Backend>, ModelError> {
        let (config, mut weights) = self.weights()?;
        weights.show_progress("loading");
        let model = self.load(device, &config, &weights, limits)?;
        weights.end_progress();
        Ok(model)
    }

    /// The logits after each of these tokens, row by row: the first `prompt` run together, the others one at a time.
    pub fn logits(&self, tokens: &[u32], prompt: usize) -> Result<Vec<f32>> {
        let (config, weights) = self.weights()?;
        let limits = limits(&config, tokens.len(), tokens.len(), tokens.len())?;
        let Some(device) = self.device()? else {
            let logits = Reference::load(&config, &weights)?.logits(tokens)?;
            return Ok(logits.into_iter().flatten().map(|logit| logit as f32).collect());
        };
        let options = Options { limits, graphs: false, invariant: self.invariant };
        Ok(match config.dtype {
            FloatType::F32 => Model::<f32>::load(&device, &config, &weights, options)?.logits(tokens, prompt)?,
            FloatType::F16 => Model::<f16>::load(&device, &config, &weights, options)?.logits(tokens, prompt)?,
            FloatType::Bf16 => Model::<bf16>::load(&device, &config, &weights, options)?.logits(tokens, prompt)?,
        })
    }

    /// The device; none for the reference.
    pub fn device(&self) -> Result<Option<Device>, ModelError> {
        Ok(match self.device.as_str() {
            "reference" => None,
            "auto" => Some(Device::auto()?),
            name => Some(Device::named(name)?),
        })
    }

    /// The model on its device, in the type its weights are stored in.
    fn load(
        &self,
        device: Option<Device>,
        config: &ModelConfig,
        weights: &Weights,
        limits: Limits,
    ) -> Result<Box<dyn Backend>, ModelError> {
        let Some(device) = device else {
            return Ok(Box::new(ReferenceBackend::new(Reference::load(config, weights)?, limits)));
        };
        // A simulator gains nothing by a capture, and would simulate the sequences that fill one up.
        let options = Options { limits, graphs: !device.is_simulator(), invariant: self.invariant };
        Ok(match config.dtype {
            FloatType::F32 => Box::new(Model::<f32>::load(&device, config, weights, options)?),
            FloatType::F16 => Box::new(Model::<f16>::load(&device, config, weights, options)?),
            FloatType::Bf16 => Box::new(Model::<bf16>::load(&device, config, weights, options)?),
        })
    }
}

/// Takes only the first `layers` layers of a shape.
pub fn set_layers(config: &mut ModelConfig, layers: usize) -> Result<(), ModelError> {
    if layers == 0 || layers > config.num_hidden_layers {
        let most = config.num_hidden_layers;
        return Err(ModelError::Capacity(format!("--layers is {layers}; the shape has {most}")));
    }
    config.num_hidden_layers = layers;
    Ok(())
}

/// The configuration of a named shape.
pub fn named(shape: &str) -> Result<ModelConfig, ModelError> {
    let unknown = || ModelError::Capacity(format!("there is no shape {shape:?}; there are {:?}", ModelConfig::NAMES));
    ModelConfig::named(shape).ok_or_else(unknown)
}

/// Limits for `batch` sequences of `context` tokens each.
pub fn limits(config: &ModelConfig, batch: usize, context: usize, step: usize) -> Result<Limits> {
    if context > config.max_position_embeddings {
        let most = config.max_position_embeddings;
        return Err(anyhow!("a context of {context} tokens was asked for; the model was made for {most}"));
    }
    let pages = context.div_ceil(PAGE).checked_mul(batch).ok_or_else(|| anyhow!("a batch of {batch} is too large"))?;
    let limits = Limits {
        max_batch: batch,
        max_tokens: step.max(batch),
        page: PAGE,
        pages,
        max_context: context,
        vocab: config.vocab_size,
    };
    limits.validate()?;
    Ok(limits)
}
