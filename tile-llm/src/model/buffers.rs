//! What a step reads, and what lies between its kernels: allocated once, for the largest step.

use super::ModelElement;
use crate::backend::{Limits, Part};
use crate::config::ModelConfig;
use crate::error::ModelError;
use tile_runtime::{Device, Tensor};

/// The slot of a token whose key and value are not kept.
const NO_SLOT: u32 = u32::MAX;

/// What a step is told: written by the host before it is launched, so that a captured step follows it.
pub(super) struct Inputs {
    /// A value a token: the token, its position in its sequence, where in the cache its key and value go.
    pub(super) tokens: Tensor<u32, 1>,
    pub(super) positions: Tensor<u32, 1>,
    pub(super) slots: Tensor<u32, 1>,
    /// `[max_batch, pages of a sequence]`.
    pub(super) pages: Tensor<u32, 2>,
    /// The first token of each sequence, and the end of the last one's.
    pub(super) first: Tensor<u32, 1>,
    /// Keys of each sequence, with those of this step.
    pub(super) lengths: Tensor<u32, 1>,
    /// The token of each sequence after which the next one is sampled.
    pub(super) last: Tensor<u32, 1>,
    /// How each sequence is sampled.
    pub(super) temperature: Tensor<f32, 1>,
    pub(super) top_k: Tensor<u32, 1>,
    pub(super) top_p: Tensor<f32, 1>,
    /// Low and high words, `[max_batch, 2]`.
    pub(super) seeds: Tensor<u32, 2>,
    /// The position of the token that is sampled.
    pub(super) next_position: Tensor<u32, 1>,
    /// The result: each sequence's next token.
    pub(super) next: Tensor<u32, 1>,
}

impl Inputs {
    pub(super) fn new(device: &Device, limits: &Limits) -> Result<Inputs, ModelError> {
        let (tokens, batch) = (limits.max_tokens.max(limits.max_batch), limits.max_batch);
        Ok(Inputs {
            tokens: device.zeros([tokens])?,
            positions: device.zeros([tokens])?,
            slots: device.zeros([tokens])?,
            pages: device.zeros([batch, limits.max_context.div_ceil(limits.page).max(1)])?,
            first: device.zeros([batch + 1])?,
            lengths: device.zeros([batch])?,
            last: device.zeros([batch])?,
            temperature: device.zeros([batch])?,
            top_k: device.zeros([batch])?,
            top_p: device.zeros([batch])?,
            seeds: device.zeros([batch, 2])?,
            next_position: device.zeros([batch])?,
            next: device.zeros([batch])?,
        })
    }

    /// Writes what a step is told: `parts`, which keep the limits. `tokens` and `sequences` are at least as many as they have; those
    /// beyond fill a step up, see no keys and store none.
    ///
    /// # Errors
    /// The device has failed.
    pub(super) fn fill(
        &mut self,
        parts: &[Part<'_>],
        limits: &Limits,
        tokens: usize,
        sequences: usize,
    ) -> Result<(), ModelError> {
        let all: usize = parts.iter().map(|part| part.tokens.len()).sum();
        let width = self.pages.shape()[1];
        let mut ids = vec![0; tokens];
        let mut positions = vec![0; tokens];
        let mut slots = vec![NO_SLOT; tokens];
        let mut pages = vec![0; sequences * width];
        let mut first = vec![all as u32; sequences + 1];
        let [mut lengths, mut last, mut top_k, mut next] = [(); 4].map(|()| vec![0u32; sequences]);
        let mut seeds = vec![0; 2 * sequences];
        let [mut temperature, mut top_p] = [(); 2].map(|()| vec![0.0f32; sequences]);
        let mut at = 0;
        for (index, part) in parts.iter().enumerate() {
            first[index] = at as u32;
            for (offset, token) in part.tokens.iter().enumerate() {
                let position = part.position + offset;
                let page = part.pages.get(position / limits.page).copied().unwrap_or(0) as usize;
                ids[at] = *token;
                positions[at] = position as u32;
                slots[at] = (page * limits.page + position % limits.page) as u32;
                at += 1;
            }
            // A sequence may have been given more pages than a context has.
            let own = part.pages.len().min(width);
            pages[index * width..][..own].copy_from_slice(&part.pages[..own]);
            lengths[index] = (part.position + part.tokens.len()) as u32;
            last[index] = (at as u32).saturating_sub(1);
            temperature[index] = part.sampling.temperature;
            top_k[index] = part.sampling.top_k;
            top_p[index] = part.sampling.top_p;
            seeds[2 * index] = part.sampling.seed as u32;
            seeds[2 * index + 1] = (part.sampling.seed >> 32) as u32;
            next[index] = lengths[index];
        }
        for (tensor, values) in [(&mut self.tokens, &ids), (&mut self.positions, &positions), (&mut self.slots, &slots)]
        {
            tensor.rows_mut(0..tokens)?.write(values)?;
        }
        self.pages.rows_mut(0..sequences)?.write(&pages)?;
        self.first.rows_mut(0..sequences + 1)?.write(&first)?;
        for (tensor, values) in [
            (&mut self.lengths, &lengths),
            (&mut self.last, &last),
            (&mut self.top_k, &top_k),
            (&mut self.next_position, &next),
        ] {
            tensor.rows_mut(0..sequences)?.write(values)?;
        }
        self.seeds.rows_mut(0..sequences)?.write(&seeds)?;
        self.temperature.rows_mut(0..sequences)?.write(&temperature)?;
        self.top_p.rows_mut(0..sequences)?.write(&top_p)?;
        Ok(())
    }
}

/// What lies between the kernels of a step.
pub(super) struct Buffers<T> {
    /// `[tokens, hidden]`: the residual stream, and what is normalised of it.
    pub(super) residual: Tensor<T, 2>,
    pub(super) normed: Tensor<T, 2>,
    /// `[tokens, (H + 2 HK) D]`.
    pub(super) qkv: Tensor<T, 2>,
    /// `[tokens, H, D]`: queries, and what attention gives.
    pub(super) queries: Tensor<T, 3>,
    pub(super) attended: Tensor<T, 3>,
    /// `[tokens, 2 I]` and `[tokens, I]`.
    pub(super) gate_up: Tensor<T, 2>,
    pub(super) gated: Tensor<T, 2>,
    /// `[sequences, hidden]` and `[sequences, vocab]`.
    pub(super) last: Tensor<T, 2>,
    pub(super) logits: Tensor<f32, 2>,
}

impl<T: ModelElement> Buffers<T> {
    pub(super) fn new(device: &Device, config: &ModelConfig, limits: &Limits) -> Result<Buffers<T>, ModelError> {
        let (tokens, batch) = (limits.max_tokens.max(limits.max_batch), limits.max_batch);
        let ModelConfig { hidden_size: hidden, intermediate_size: wide, head_dim: d, .. } = *config;
        let (heads, key_heads) = (config.num_attention_heads, config.num_key_value_heads);
        Ok(Buffers {
            residual: device.zeros([tokens, hidden])?,
            normed: device.zeros([tokens, hidden])?,
            qkv: device.zeros([tokens, (heads + 2 * key_heads) * d])?,
            queries: device.zeros([tokens, heads, d])?,
            attended: device.zeros([tokens, heads, d])?,
            gate_up: device.zeros([tokens, 2 * wide])?,
            gated: device.zeros([tokens, wide])?,
            last: device.zeros([batch, hidden])?,
            logits: device.zeros([batch, config.vocab_size])?,
        })
    }
}
