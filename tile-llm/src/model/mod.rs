//! The forward pass on a device, every kernel of it from [`tile_kernels`].
//!
//! | module | what it is |
//! |---|---|
//! | `element` | the types that a model computes in |
//! | `layer` | the weights and caches of a layer, and where they come from |
//! | `buffers` | what a step reads and what lies between its kernels |
//! | `forward` | the launches of a step |
//! | `profile` | where the time of a step goes |

mod buffers;
mod element;
mod forward;
mod layer;
mod profile;

pub use element::ModelElement;
pub use forward::Op;
pub use profile::{Profile, Share};

use crate::backend::{Backend, Limits, Part, Sampling};
use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::weights::Weights;
use buffers::{Buffers, Inputs};
use forward::{Prompt, Shape};
use layer::{Layer, Reader};
use std::collections::BTreeMap;
use tile_kernels::attention::{decode_page, has_prefill};
use tile_runtime::{Device, Graph, Tensor};

/// Most tokens of a sequence in a step that are attention's few: more are a prompt.
const FEW: usize = 16;

/// How a model is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What a step may hold.
    pub limits: Limits,
    /// Whether decode steps are captured as graphs, one for each number of sequences (rounded up to a power of two).
    pub graphs: bool,
    /// Whether the bits of a sequence do not depend on which others share its steps: every product is computed a token at a
    /// time, and attention in as many parts whatever the batch. Costs the batch its speed.
    pub invariant: bool,
}

/// A model on a device.
pub struct Model<T> {
    device: Device,
    config: ModelConfig,
    options: Options,
    embedding: Tensor<T, 2>,
    layers: Vec<Layer<T>>,
    norm: Tensor<T, 1>,
    /// The output projection; none where it is the embedding's table.
    head: Option<Tensor<T, 2>>,
    /// `[max_context, D / 2]`: cosines and sines of every position's angles.
    angles: [Tensor<f32, 2>; 2],
    inputs: Inputs,
    buffers: Buffers<T>,
    /// Captured decode steps by their number of sequences.
    graphs: BTreeMap<usize, Graph>,
    /// The last decode step, which a profile repeats.
    last_decode: Option<Shape>,
}

impl<T: ModelElement> Model<T> {
    /// Loads a model: checks the limits, and copies its weights to the device a piece at a time.
    ///
    /// # Errors
    /// The limits or a head's length do not suit the kernels; a weight cannot be read; memory does not suffice.
    pub fn load(
        device: &Device,
        config: &ModelConfig,
        weights: &Weights,
        options: Options,
    ) -> Result<Model<T>, ModelError> {
        check::<T>(config, &options.limits)?;
        let read = Reader { device, weights };
        let layers = (0..config.num_hidden_layers).map(|index| Layer::load(&read, config, index, &options.limits));
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(read.matrix(&[config.head()])?),
        };
        Ok(Model {
            device: device.clone(),
            config: config.clone(),
            options,
            embedding: read.matrix(&[ModelConfig::EMBEDDING])?,
            layers: layers.collect::<Result<_, _>>()?,
            norm: read.vector(ModelConfig::FINAL_NORM)?,
            head,
            angles: angles(device, config, options.limits.max_context)?,
            inputs: Inputs::new(device, &options.limits)?,
            buffers: Buffers::new(device, config, &options.limits)?,
            graphs: BTreeMap::new(),
            last_decode: None,
        })
    }

    /// The logits after each token of a sequence, `[tokens, vocab]` in row-major order: the first `prompt` tokens in steps as
    /// large as the limits allow, each other one in a step of its own, as it is decoded. Keys and values overwrite the first
    /// pages.
    ///
    /// # Errors
    /// More tokens than the limits allow; what a launch may fail with.
    pub fn logits(&mut self, tokens: &[u32], prompt: usize) -> Result<Vec<f32>, ModelError> {
        let limits = self.options.limits;
        let pages: Vec<u32> = (0..tokens.len().div_ceil(limits.page) as u32).collect();
        let mut all = Vec::with_capacity(tokens.len() * self.config.vocab_size);
        // Each of a step's tokens has its row of logits.
        let most = limits.max_batch.min(limits.max_tokens);
        let (prompt, answer) = tokens.split_at(prompt.min(tokens.len()));
        let mut position = 0;
        for chunk in prompt.chunks(most).chain(answer.chunks(1)) {
            let part = Part { tokens: chunk, position, pages: &pages, sampling: Sampling::GREEDY, sample: true };
            limits.check(&[part])?;
            self.inputs.fill(&[part], &limits, chunk.len(), 1)?;
            let rows: Vec<u32> = (0..chunk.len() as u32).collect();
            self.inputs.sample_after(&rows, chunk.len())?;
            let prompts = self.prompts(&[part]);
            let queries = if prompts.is_empty() { chunk.len() } else { 0 };
            let shape = Shape { tokens: chunk.len(), sequences: 1, queries, sampled: rows.len() };
            self.forward(shape, &prompts)?;
            all.extend(self.buffers.logits.rows(0..rows.len())?.to_vec()?);
            position += chunk.len();
        }
        Ok(all)
    }

    /// The parts whose attention is the kernel's for many tokens. Not where bits may not depend on how a prompt was cut into steps.
    fn prompts(&self, parts: &[Part<'_>]) -> Vec<Prompt> {
        let Options { limits, invariant, .. } = self.options;
        let has_kernel = T::HAS_PREFILL && has_prefill::<T>(self.config.head_dim, limits.page);
        let mut first = 0;
        let mut all = Vec::new();
        for (sequence, part) in parts.iter().enumerate() {
            let count = part.tokens.len();
            if has_kernel && !invariant && count > FEW {
                all.push(Prompt { sequence, first, count, past: part.position });
            }
            first += count;
        }
        all
    }

    /// Launches a step on what the inputs hold.
    fn forward(&mut self, shape: Shape, prompts: &[Prompt]) -> Result<(), ModelError> {
        let device = self.device.clone();
        forward::step(self, &device, shape, prompts, |_| true)?;
        Ok(())
    }

    /// Launches a decode step of `sequences` sequences, captured the first time.
    fn decode(&mut self, sequences: usize) -> Result<(), ModelError> {
        let shape = Shape::decode(sequences);
        self.last_decode = Some(shape);
        if !self.options.graphs {
            return self.forward(shape, &[]);
        }
        if let Some(graph) = self.graphs.get(&sequences) {
            return Ok(graph.launch()?);
        }
        // The first step of its size compiles its kernels, which a capture may not; its results are what is asked for.
        self.forward(shape, &[])?;
        let device = self.device.clone();
        let graph = device.capture(|stream| forward::step(self, stream, shape, &[], |_| true))?;
        self.graphs.insert(sequences, graph);
        Ok(())
    }
}

impl<T: ModelElement> Backend for Model<T> {
    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn step(&mut self, parts: &[Part<'_>]) -> Result<Vec<Option<u32>>, ModelError> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let limits = self.options.limits;
        limits.check(parts)?;
        let tokens: usize = parts.iter().map(|part| part.tokens.len()).sum();
        if parts.iter().all(|part| part.tokens.len() == 1 && part.sample) {
            // The sequences that fill a graph up have no keys and store none.
            let sequences = match self.options.graphs {
                true => limits.captured(parts.len()),
                false => parts.len(),
            };
            self.inputs.fill(parts, &limits, sequences, sequences)?;
            self.decode(sequences)?;
        } else {
            self.inputs.fill(parts, &limits, tokens, parts.len())?;
            let prompts = self.prompts(parts);
            let is_prompt = |index| prompts.iter().any(|prompt| prompt.sequence == index);
            let few = parts.iter().enumerate().filter(|(index, _)| !is_prompt(*index));
            let queries = few.map(|(_, part)| part.tokens.len()).max().unwrap_or(0);
            let shape = Shape { tokens, sequences: parts.len(), queries, sampled: parts.len() };
            self.forward(shape, &prompts)?;
        }
        let next = self.buffers.next.rows(0..parts.len())?.to_vec()?;
        Ok(parts.iter().zip(next).map(|(part, token)| part.sample.then_some(token)).collect())
    }

    fn prepare(&mut self) -> Result<(), ModelError> {
        let limits = self.options.limits;
        let mut sequences = 1;
        while self.options.graphs && !self.graphs.contains_key(&limits.max_batch) {
            sequences = limits.captured(sequences);
            // No part: every sequence is one that fills the step up.
            self.inputs.fill(&[], &limits, sequences, sequences)?;
            self.decode(sequences)?;
            sequences += 1;
        }
        self.last_decode = None;
        Ok(())
    }

    fn profile(&mut self, repeats: usize) -> Result<Option<Profile>, ModelError> {
        self.last_decode.map(|shape| profile::measure(self, shape, repeats)).transpose()
    }
}

/// Whether the kernels take heads and pages of these lengths.
fn check<T>(config: &ModelConfig, limits: &Limits) -> Result<(), ModelError> {
    limits.validate()?;
    if limits.vocab != config.vocab_size {
        let message = format!("limits for a vocabulary of {}; the model's has {}", limits.vocab, config.vocab_size);
        return Err(ModelError::Capacity(message));
    }
    if ![64, 128].contains(&config.head_dim) {
        return Err(ModelError::config("head_dim", format!("is {}; attention takes 64 and 128", config.head_dim)));
    }
    if config.num_key_value_heads > 64 {
        return Err(ModelError::config("num_key_value_heads", "is more than 64, which is what attention takes"));
    }
    let multiple = decode_page::<T>();
    if !limits.page.is_multiple_of(multiple) {
        let message = format!("pages of {} tokens; attention takes multiples of {multiple}", limits.page);
        return Err(ModelError::Capacity(message));
    }
    Ok(())
}

/// Cosines and sines of the angles of every position.
fn angles(device: &Device, config: &ModelConfig, positions: usize) -> Result<[Tensor<f32, 2>; 2], ModelError> {
    let frequencies = config.inverse_frequencies();
    let angle = (0..positions).flat_map(|position| frequencies.iter().map(move |f| position as f64 * f));
    let angle: Vec<f64> = angle.collect();
    let shape = [positions, frequencies.len()];
    let table = |f: fn(f64) -> f64| device.tensor(&angle.iter().map(|a| f(*a) as f32).collect::<Vec<f32>>(), shape);
    Ok([table(f64::cos)?, table(f64::sin)?])
}
