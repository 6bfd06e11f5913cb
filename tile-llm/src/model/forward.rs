//! The launches of a step.

use super::buffers::Buffers;
use super::{Model, ModelElement};
use tile_kernels::attention::{Batch, Decode, append_and_decode, decode, has_append};
use tile_kernels::embedding::embedding;
use tile_kernels::gemm::{Gemm, GemmElement, gated, gemm};
use tile_kernels::gemv::stream::{self, Norm};
use tile_kernels::gemv::{Gemv, gemv};
use tile_kernels::norm::rms_norm;
use tile_kernels::rope::{self, Rope};
use tile_kernels::sampling::{Sampling, sample};
use tile_kernels::swiglu::swiglu;
use tile_runtime::dsl::Float;
use tile_runtime::kernel::LaunchOn;
use tile_runtime::{Error, Tensor, TensorView, TensorViewMut};

/// The extents of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Tokens of all sequences.
    pub(super) tokens: usize,
    pub(super) sequences: usize,
    /// The most tokens of a sequence that is no [`Prompt`]; 0 where all are.
    pub(super) queries: usize,
    /// Rows that logits are computed of.
    pub(super) sampled: usize,
}

/// A sequence with many tokens in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prompt {
    /// Its number in the step.
    pub(super) sequence: usize,
    /// Its first token's number in the step.
    pub(super) first: usize,
    /// How many tokens it has.
    pub(super) count: usize,
    /// How many tokens it had before.
    pub(super) past: usize,
}

impl Shape {
    /// One token of each of so many sequences.
    pub(super) fn decode(sequences: usize) -> Shape {
        Shape { tokens: sequences, sequences, queries: 1, sampled: sequences }
    }
}

/// What launches of a step are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Rows of the embedding's table, and of the last tokens.
    Embedding,
    /// Norms that have launches of their own.
    Norm,
    /// Queries, keys and values, with the norm before them where a token is computed alone.
    Qkv,
    /// Norms of heads, rotation, append to the cache, where they have a launch of their own.
    Rope,
    /// Attention; with what [`Op::Rope`] is where each sequence has one token.
    Attention,
    /// The projection of what attention gives, added to the residual.
    Output,
    /// Gates and what they gate, with the activation where the elements have 16 bits; with the norm too where a token is computed alone.
    GateUp,
    /// The activation, where it has a launch of its own.
    Activation,
    /// The projection of what was gated, added to the residual.
    Down,
    /// The logits, with the norm where a token is computed alone.
    Head,
    /// The choice of the next token.
    Sampling,
}

impl Op {
    /// All of them, in the order of their first launches.
    pub const ALL: [Op; 11] = {
        use Op::*;
        [Embedding, Norm, Qkv, Rope, Attention, Output, GateUp, Activation, Down, Head, Sampling]
    };
}

/// Into how many parts attention is cut where results may not depend on the batch.
const INVARIANT_SPLITS: usize = 8;

/// Launches a step: reads `inputs`, appends to the caches, leaves the next tokens in `buffers.next`. Of its launches, those are left
/// out that `only` says no to.
pub(super) fn step<T: ModelElement>(
    model: &mut Model<T>,
    on: &impl LaunchOn,
    shape: Shape,
    prompts: &[Prompt],
    only: impl Fn(Op) -> bool,
) -> Result<(), Error> {
    let Model { config, options, embedding: table, layers, norm, head, angles, inputs, buffers, .. } = model;
    let Shape { tokens: count, sequences, queries, sampled } = shape;
    let (heads, d, epsilon) = (config.num_attention_heads, config.head_dim, config.rms_norm_eps as f32);
    let Buffers { residual, normed, qkv, queries: q, attended, gate_up, gated, last, logits, next } = buffers;
    let inputs = inputs.views(count, sequences, sampled)?;
    let linear = Linear { on, epsilon, by_token: options.invariant || count == 1, only: &only };
    if only(Op::Embedding) {
        embedding(on, &*table, inputs.tokens, residual.rows_mut(0..count)?)?;
    }
    let [cosines, sines] = &*angles;
    // One token of each sequence: one launch rotates, appends and attends. It rounds less than the kernels for several tokens, so not where
    // bits may not depend on how many there are in a step.
    let group = heads / config.num_key_value_heads.max(1);
    let is_fused = !options.invariant && queries == 1 && count == sequences && has_append::<T>(d, group);
    for layer in layers.iter_mut() {
        let mut x = residual.rows_mut(0..count)?;
        let mut scratch = normed.rows_mut(0..count)?;
        let qkv = qkv.rows_mut(0..count)?;
        let qkv = linear.normed(Op::Qkv, &layer.qkv, x.view(), &layer.norms[0], scratch.reborrow(), qkv)?;
        let (q_norm, k_norm) = match &layer.head_norms {
            Some([q_norm, k_norm]) => (Some(q_norm), Some(k_norm)),
            None => (None, None),
        };
        let rope = Rope { cosines, sines, q_norm, k_norm, epsilon };
        let splits = options.invariant.then_some(INVARIANT_SPLITS);
        let attend = Decode { queries, splits, ..Decode::default() };
        let [keys, values] = &mut layer.cache;
        if is_fused {
            if only(Op::Attention) {
                let o = attended.rows_mut(0..count)?;
                append_and_decode(on, &rope, qkv.view(), [keys, values], inputs.pages, inputs.lengths, o, attend)?;
            }
        } else {
            if only(Op::Rope) {
                let q = q.rows_mut(0..count)?;
                rope::append(on, &rope, qkv.view(), inputs.positions, inputs.slots, q, [&mut *keys, &mut *values])?;
            }
            if only(Op::Attention) && queries > 0 {
                let batch = Batch { pages: inputs.pages, first: inputs.first, lengths: inputs.lengths };
                decode(on, q.rows(0..count)?, &*keys, &*values, batch, attended.rows_mut(0..count)?, attend)?;
            }
        }
        for Prompt { sequence, first, count, past } in prompts.iter().copied().filter(|_| only(Op::Attention)) {
            let tokens = first..first + count;
            let (q, o) = (q.rows(tokens.clone())?, attended.rows_mut(tokens)?);
            T::prefill(on, q, &layer.cache, inputs.pages.row(sequence)?, o, past)?;
        }
        let flat = attended.rows(0..count)?.reshape([count, heads * d])?;
        linear.added(Op::Output, &layer.output, flat, x.reborrow())?;
        let wide = gate_up.rows_mut(0..count)?;
        let gated = gated.rows_mut(0..count)?;
        let gated = linear.gated(&layer.gate_up, x.view(), &layer.norms[1], scratch, wide, gated)?;
        linear.added(Op::Down, &layer.down, gated.view(), x)?;
    }
    // The rows that a token is sampled after, side by side.
    if only(Op::Embedding) {
        embedding(on, residual.rows(0..count)?, inputs.last, last.rows_mut(0..sampled)?)?;
    }
    let head = head.as_ref().unwrap_or(table);
    let logits = linear.normed(
        Op::Head,
        head,
        last.rows(0..sampled)?,
        norm,
        normed.rows_mut(0..sampled)?,
        logits.rows_mut(0..sampled)?,
    )?;
    let how = Sampling {
        temperature: inputs.temperature,
        top_k: inputs.top_k,
        top_p: inputs.top_p,
        seeds: inputs.seeds,
        positions: inputs.next,
    };
    if only(Op::Sampling) {
        sample(on, logits.view(), &how, next.rows_mut(0..sampled)?)?;
    }
    Ok(())
}

/// How products with weights are computed, and what stands before and behind them.
struct Linear<'a, L, F> {
    on: &'a L,
    epsilon: f32,
    /// A token at a time, by matrix-vector products: for one token, and where the bits of a token may not depend on the others.
    by_token: bool,
    only: &'a F,
}

impl<L: LaunchOn, F: Fn(Op) -> bool> Linear<'_, L, F> {
    /// `y = n W^T`, where `n` is RMSNorm of `x`, kept in `normed` where it takes a launch of its own. Gives `y` back.
    fn normed<'y, T: ModelElement + GemmElement<U>, U: Float>(
        &self,
        op: Op,
        w: &Tensor<T, 2>,
        x: TensorView<'_, T, 2>,
        weight: &Tensor<T, 1>,
        mut normed: TensorViewMut<'_, T, 2>,
        mut y: TensorViewMut<'y, U, 2>,
    ) -> Result<TensorViewMut<'y, U, 2>, Error> {
        let (on, epsilon, only) = (self.on, self.epsilon, self.only);
        if self.by_token && stream::takes::<T>(on.device(), w.shape()[1], false) {
            for row in (0..x.shape()[0]).filter(|_| only(op)) {
                stream::norm_product(on, w, x.row(row)?, Norm { weight, epsilon }, y.reborrow().row(row)?)?;
            }
            return Ok(y);
        }
        if only(Op::Norm) {
            rms_norm(on, x, weight, normed.reborrow(), epsilon)?;
        }
        if only(op) {
            self.product(w, normed.view(), y.reborrow())?;
        }
        Ok(y)
    }

    /// `y = silu(g) u`, where `g` and `u` are the halves of `n W^T`, kept in `wide` where that takes a launch of its own, and `n` is RMSNorm of `x`.
    /// Gives `y` back.
    fn gated<'y, T: ModelElement>(
        &self,
        w: &Tensor<T, 2>,
        x: TensorView<'_, T, 2>,
        weight: &Tensor<T, 1>,
        mut normed: TensorViewMut<'_, T, 2>,
        wide: TensorViewMut<'_, T, 2>,
        mut y: TensorViewMut<'y, T, 2>,
    ) -> Result<TensorViewMut<'y, T, 2>, Error> {
        let (on, epsilon, only) = (self.on, self.epsilon, self.only);
        if self.by_token && stream::takes::<T>(on.device(), w.shape()[1], true) {
            for row in (0..x.shape()[0]).filter(|_| only(Op::GateUp)) {
                stream::norm_swiglu(on, w, x.row(row)?, Norm { weight, epsilon }, y.reborrow().row(row)?)?;
            }
            return Ok(y);
        }
        if !self.by_token && gated::takes::<T>(on.device(), w.shape()[1]) {
            if only(Op::Norm) {
                rms_norm(on, x, weight, normed.reborrow(), epsilon)?;
            }
            if only(Op::GateUp) {
                gated::gated(on, normed.view(), w, y.reborrow())?;
            }
            return Ok(y);
        }
        let wide = self.normed(Op::GateUp, w, x, weight, normed, wide)?;
        if only(Op::Activation) {
            swiglu(on, wide.view(), y.reborrow())?;
        }
        Ok(y)
    }

    /// `y += x W^T`.
    fn added<T: ModelElement>(
        &self,
        op: Op,
        w: &Tensor<T, 2>,
        x: TensorView<'_, T, 2>,
        mut y: TensorViewMut<'_, T, 2>,
    ) -> Result<(), Error> {
        let on = self.on;
        if !(self.only)(op) {
            return Ok(());
        }
        if !self.by_token {
            return Ok(gemm(on, x, w, y, &Gemm { beta: 1.0, ..Gemm::nt() })?);
        }
        let add = Gemv { beta: 1.0, ..Gemv::default() };
        for row in 0..x.shape()[0] {
            match stream::takes::<T>(on.device(), w.shape()[1], false) {
                true => stream::product(on, w, x.row(row)?, y.reborrow().row(row)?, add)?,
                false => gemv(on, w, x.row(row)?, y.reborrow().row(row)?, add)?,
            }
        }
        Ok(())
    }

    /// `y = x W^T`, rounded to the type of `y`.
    fn product<T: GemmElement<U>, U: Float>(
        &self,
        w: &Tensor<T, 2>,
        x: TensorView<'_, T, 2>,
        mut y: TensorViewMut<'_, U, 2>,
    ) -> Result<(), Error> {
        if !self.by_token {
            return Ok(gemm(self.on, x, w, y, &Gemm::nt())?);
        }
        for row in 0..x.shape()[0] {
            gemm(self.on, x.rows(row..row + 1)?, w, y.reborrow().rows(row..row + 1)?, &Gemm::nt())?;
        }
        Ok(())
    }
}
