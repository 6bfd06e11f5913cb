//! The forward pass in plain f64 on the CPU: what the one on the device is compared with, and a backend for tiny models.
//!
//! It follows `modeling_qwen3.py` and `modeling_llama.py` of transformers, one position after the other, without a cache that
//! outlives a call. `bench/llm_truth.py` compares it with transformers.

mod backend;
mod sample;

pub use backend::ReferenceBackend;
pub use sample::sample;

use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::weights::Weights;
use rayon::prelude::*;

/// A matrix of `rows * columns` values, row by row; a norm's weight is one row.
struct Matrix {
    columns: usize,
    values: Vec<f32>,
}

impl Matrix {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// The product with each of `inputs`, which have `columns` values.
    fn times(&self, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        inputs.par_iter().map(|x| self.values.chunks(self.columns).map(|row| dot(row, x)).collect()).collect()
    }
}

fn dot(row: &[f32], x: &[f64]) -> f64 {
    row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum()
}

struct Layer {
    input_norm: Matrix,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    o: Matrix,
    qk_norms: Option<[Matrix; 2]>,
    post_norm: Matrix,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

/// A model whose weights are in host memory, as f32.
pub struct Reference {
    config: ModelConfig,
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Matrix,
    /// `None`: the embedding.
    head: Option<Matrix>,
    frequencies: Vec<f64>,
}

impl Reference {
    /// Reads all weights.
    ///
    /// # Errors
    ///
    /// As [`Weights::load`].
    pub fn load(config: &ModelConfig, weights: &Weights) -> Result<Reference, ModelError> {
        let matrix = |name: &str| -> Result<Matrix, ModelError> {
            let columns = weights.shape(name)?.last().copied().unwrap_or(1);
            Ok(Matrix { columns, values: weights.load(&[name])? })
        };
        let layer = |index| -> Result<Layer, ModelError> {
            let names = config.layer(index);
            let qk_norms = match &names.qk_norms {
                Some([q, k]) => Some([matrix(q)?, matrix(k)?]),
                None => None,
            };
            Ok(Layer {
                input_norm: matrix(&names.input_norm)?,
                q: matrix(&names.q)?,
                k: matrix(&names.k)?,
                v: matrix(&names.v)?,
                o: matrix(&names.o)?,
                qk_norms,
                post_norm: matrix(&names.post_norm)?,
                gate: matrix(&names.gate)?,
                up: matrix(&names.up)?,
                down: matrix(&names.down)?,
            })
        };
        Ok(Reference {
            embedding: matrix(ModelConfig::EMBEDDING)?,
            layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
            norm: matrix(ModelConfig::FINAL_NORM)?,
            head: if config.tie_word_embeddings { None } else { Some(matrix(config.head())?) },
            frequencies: config.inverse_frequencies(),
            config: config.clone(),
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The logits after every one of `tokens`: `[tokens, vocab_size]`.
    ///
    /// # Errors
    ///
    /// [`ModelError::Step`]: a token is not below `vocab_size`.
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<Vec<f64>>, ModelError> {
        let states = self.states(tokens)?;
        Ok(self.head.as_ref().unwrap_or(&self.embedding).times(&states))
    }

    /// The logits after the last of `tokens`; empty where there are none.
    ///
    /// # Errors
    ///
    /// As [`Reference::logits`].
    pub fn last_logits(&self, tokens: &[u32]) -> Result<Vec<f64>, ModelError> {
        let mut states = self.states(tokens)?;
        let last = states.split_off(tokens.len().saturating_sub(1));
        Ok(self.head.as_ref().unwrap_or(&self.embedding).times(&last).pop().unwrap_or_default())
    }

    /// What the head is given, after the last norm.
    fn states(&self, tokens: &[u32]) -> Result<Vec<Vec<f64>>, ModelError> {
        let vocab = self.config.vocab_size;
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(ModelError::Step(format!("token {token}; the vocabulary has {vocab}")));
        }
        let row = |&token: &u32| self.embedding.row(token as usize).iter().map(|&value| f64::from(value)).collect();
        let mut stream: Vec<Vec<f64>> = tokens.iter().map(row).collect();
        for layer in &self.layers {
            let attended = self.attention(layer, &self.normed(&stream, &layer.input_norm));
            add(&mut stream, &layer.o.times(&attended));
            let inputs = self.normed(&stream, &layer.post_norm);
            let (gate, up) = (layer.gate.times(&inputs), layer.up.times(&inputs));
            let swiglu = |(gate, up): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> {
                gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect()
            };
            let inner: Vec<_> = gate.iter().zip(&up).map(swiglu).collect();
            add(&mut stream, &layer.down.times(&inner));
        }
        Ok(self.normed(&stream, &self.norm))
    }

    fn normed(&self, stream: &[Vec<f64>], weight: &Matrix) -> Vec<Vec<f64>> {
        stream.iter().map(|x| rms_norm(x, weight.row(0), self.config.rms_norm_eps)).collect()
    }

    /// Causal attention with grouped heads; the heads' results side by side, `[tokens, q_rows]`.
    fn attention(&self, layer: &Layer, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let head_dim = self.config.head_dim;
        let mut q = layer.q.times(inputs);
        let mut k = layer.k.times(inputs);
        let v = layer.v.times(inputs);
        for (all, norm) in [(&mut q, 0), (&mut k, 1)] {
            let norm = layer.qk_norms.as_ref().map(|norms| norms[norm].row(0));
            for (position, row) in all.iter_mut().enumerate() {
                for head in row.chunks_mut(head_dim) {
                    if let Some(norm) = norm {
                        head.copy_from_slice(&rms_norm(head, norm, self.config.rms_norm_eps));
                    }
                    self.rotate(head, position);
                }
            }
        }
        let scale = 1.0 / (head_dim as f64).sqrt();
        let attend = |(position, q): (usize, &Vec<f64>)| -> Vec<f64> {
            let mut out = vec![0.0; q.len()];
            for (head, (q, out)) in q.chunks(head_dim).zip(out.chunks_mut(head_dim)).enumerate() {
                let shared = head / self.config.group() * head_dim;
                let seen = 0..=position;
                let score = |at: usize| scale * q.iter().zip(&k[at][shared..]).map(|(q, k)| q * k).sum::<f64>();
                let scores: Vec<f64> = seen.map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for (weight, v) in weights.iter().zip(&v) {
                    out.iter_mut().zip(&v[shared..]).for_each(|(out, v)| *out += weight / sum * v);
                }
            }
            out
        };
        q.par_iter().enumerate().map(attend).collect()
    }

    /// RoPE of one head: column `i` with column `i + head_dim / 2`.
    fn rotate(&self, head: &mut [f64], position: usize) {
        let (first, second) = head.split_at_mut(self.frequencies.len());
        for ((a, b), frequency) in first.iter_mut().zip(second).zip(&self.frequencies) {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

fn rms_norm(x: &[f64], weight: &[f32], eps: f64) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + eps).sqrt();
    x.iter().zip(weight).map(|(x, &weight)| x * scale * f64::from(weight)).collect()
}

fn add(stream: &mut [Vec<f64>], more: &[Vec<f64>]) {
    for (x, more) in stream.iter_mut().zip(more) {
        x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
    }
}
