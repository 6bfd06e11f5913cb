//! What a step reads, and what lies between its kernels: allocated once, for the largest step.

use super::ModelElement;
use crate::backend::{Limits, Part};
use crate::config::ModelConfig;
use crate::error::ModelError;
use tile_runtime::{Device, Error, Tensor, TensorView};

/// The slot of a token whose key and value are not kept.
const NO_SLOT: u32 = u32::MAX;

/// What a step is told: written by the host before it is launched, so that a captured step follows it. Two tensors hold all of it,
/// so that telling a step takes one copy, or two where the sampling changes.
pub(super) struct Inputs {
    words: Tensor<u32, 1>,
    floats: Tensor<f32, 1>,
    /// What `words` and `floats` hold.
    host: (Vec<u32>, Vec<f32>),
    batch: usize,
    /// Pages of a sequence.
    width: usize,
}

/// Where in the words each input begins. All begin at multiples of four words.
struct Layout {
    first: usize,
    lengths: usize,
    last: usize,
    top_k: usize,
    seeds: usize,
    next: usize,
    pages: usize,
    tokens: usize,
    positions: usize,
    slots: usize,
    end: usize,
}

impl Inputs {
    pub(super) fn new(device: &Device, limits: &Limits) -> Result<Inputs, ModelError> {
        let (batch, width) = (limits.max_batch, limits.max_context.div_ceil(limits.page).max(1));
        let end = Layout::new(batch, width, limits.max_tokens.max(batch)).end;
        let floats = 2 * batch.next_multiple_of(4);
        Ok(Inputs {
            words: device.zeros([end])?,
            floats: device.zeros([floats])?,
            host: (vec![0; end], vec![0.0; floats]),
            batch,
            width,
        })
    }

    /// Where a step of so many tokens has its words: those of a decode step lie close together.
    fn layout(&self, tokens: usize) -> Layout {
        let words = self.words.len();
        match tokens <= self.batch {
            true => Layout::new(self.batch, self.width, self.batch),
            // The capacity that `new` was given, from what is left for three inputs.
            false => {
                let before = Layout::new(self.batch, self.width, 0).end;
                Layout::new(self.batch, self.width, (words - before) / 3)
            }
        }
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
        let layout = self.layout(tokens);
        let (words, floats) = &mut self.host;
        words.clear();
        words.resize(layout.end, 0);
        let before = floats.clone();
        floats.fill(0.0);
        let all: usize = parts.iter().map(|part| part.tokens.len()).sum();
        words[layout.first..][..=sequences].fill(all as u32);
        words[layout.slots..][..tokens].fill(NO_SLOT);
        let mut at = 0;
        for (index, part) in parts.iter().enumerate() {
            words[layout.first + index] = at as u32;
            for (offset, token) in part.tokens.iter().enumerate() {
                let position = part.position + offset;
                let page = part.pages.get(position / limits.page).copied().unwrap_or(0) as usize;
                words[layout.tokens + at] = *token;
                words[layout.positions + at] = position as u32;
                words[layout.slots + at] = (page * limits.page + position % limits.page) as u32;
                at += 1;
            }
            // A sequence may have been given more pages than a context has.
            let own = part.pages.len().min(self.width);
            words[layout.pages + index * self.width..][..own].copy_from_slice(&part.pages[..own]);
            let length = (part.position + part.tokens.len()) as u32;
            words[layout.lengths + index] = length;
            words[layout.last + index] = (at as u32).saturating_sub(1);
            words[layout.top_k + index] = part.sampling.top_k;
            words[layout.seeds + 2 * index] = part.sampling.seed as u32;
            words[layout.seeds + 2 * index + 1] = (part.sampling.seed >> 32) as u32;
            words[layout.next + index] = length;
            floats[index] = part.sampling.temperature;
            floats[self.batch.next_multiple_of(4) + index] = part.sampling.top_p;
        }
        self.words.rows_mut(0..layout.end)?.write(words)?;
        if before != *floats {
            self.floats.write(floats)?;
        }
        Ok(())
    }

    /// Has logits computed after these tokens of the step instead of the last of each sequence.
    pub(super) fn sample_after(&mut self, rows: &[u32], tokens: usize) -> Result<(), ModelError> {
        let at = self.layout(tokens).last;
        Ok(self.words.rows_mut(at..at + rows.len())?.write(rows)?)
    }

    fn words(&self, at: usize, count: usize) -> Result<TensorView<'_, u32, 1>, Error> {
        self.words.rows(at..at + count)
    }

    /// The inputs of a step of so many tokens of so many sequences, of which so many rows are sampled.
    pub(super) fn views(&self, tokens: usize, sequences: usize, sampled: usize) -> Result<Views<'_>, Error> {
        let layout = self.layout(tokens);
        let top_p = self.batch.next_multiple_of(4);
        Ok(Views {
            tokens: self.words(layout.tokens, tokens)?,
            positions: self.words(layout.positions, tokens)?,
            slots: self.words(layout.slots, tokens)?,
            pages: self.words(layout.pages, sequences * self.width)?.reshape([sequences, self.width])?,
            first: self.words(layout.first, sequences + 1)?,
            lengths: self.words(layout.lengths, sequences)?,
            last: self.words(layout.last, sampled)?,
            temperature: self.floats.rows(0..sampled)?,
            top_k: self.words(layout.top_k, sampled)?,
            top_p: self.floats.rows(top_p..top_p + sampled)?,
            seeds: self.words(layout.seeds, 2 * sampled)?.reshape([sampled, 2])?,
            next: self.words(layout.next, sampled)?,
        })
    }
}

impl Layout {
    /// For so many sequences, pages of each, and tokens of a step.
    fn new(batch: usize, width: usize, tokens: usize) -> Layout {
        let mut end = 0;
        let mut take = |count: usize| {
            let at = end;
            end += count.next_multiple_of(4);
            at
        };
        Layout {
            first: take(batch + 1),
            lengths: take(batch),
            last: take(batch),
            top_k: take(batch),
            seeds: take(2 * batch),
            next: take(batch),
            pages: take(batch * width),
            tokens: take(tokens),
            positions: take(tokens),
            slots: take(tokens),
            end: take(0),
        }
    }
}

/// The inputs of a step, on the device.
pub(super) struct Views<'a> {
    /// A value a token: the token, its position in its sequence, where in the cache its key and value go.
    pub(super) tokens: TensorView<'a, u32, 1>,
    pub(super) positions: TensorView<'a, u32, 1>,
    pub(super) slots: TensorView<'a, u32, 1>,
    /// `[sequences, pages of a sequence]`.
    pub(super) pages: TensorView<'a, u32, 2>,
    /// The first token of each sequence, and the end of the last one's.
    pub(super) first: TensorView<'a, u32, 1>,
    /// Keys of each sequence, with those of this step.
    pub(super) lengths: TensorView<'a, u32, 1>,
    /// The token of each sequence after which the next one is sampled.
    pub(super) last: TensorView<'a, u32, 1>,
    /// How each sequence is sampled.
    pub(super) temperature: TensorView<'a, f32, 1>,
    pub(super) top_k: TensorView<'a, u32, 1>,
    pub(super) top_p: TensorView<'a, f32, 1>,
    /// Low and high words, `[sequences, 2]`.
    pub(super) seeds: TensorView<'a, u32, 2>,
    /// The position of the token that is sampled.
    pub(super) next: TensorView<'a, u32, 1>,
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
    /// `[sequences]`: the result, each sequence's next token.
    pub(super) next: Tensor<u32, 1>,
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
            next: device.zeros([batch])?,
        })
    }
}
