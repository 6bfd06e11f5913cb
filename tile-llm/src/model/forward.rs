//! The launches of a step.

use super::buffers::Inputs;
use super::{Model, ModelElement};
use tile_kernels::attention::{Batch, Decode, decode};
use tile_kernels::embedding::embedding;
use tile_kernels::gemm::{Gemm, gemm};
use tile_kernels::gemv::{Gemv, gemv};
use tile_kernels::norm::{add_rms_norm, rms_norm};
use tile_kernels::rope::{self, Rope};
use tile_kernels::sampling::{Sampling, sample};
use tile_kernels::swiglu::swiglu;
use tile_runtime::kernel::LaunchOn;
use tile_runtime::{Error, Tensor, TensorView, TensorViewMut};

/// The extents of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Tokens of all sequences.
    pub(super) tokens: usize,
    pub(super) sequences: usize,
    /// The most tokens that a sequence has.
    pub(super) queries: usize,
    /// Rows that logits are computed of.
    pub(super) sampled: usize,
}

/// Into how many parts attention is cut where results may not depend on the batch.
const INVARIANT_SPLITS: usize = 8;

/// Launches a step: reads `inputs`, appends to the caches, leaves the next tokens in `inputs.next`.
pub(super) fn step<T: ModelElement>(model: &mut Model<T>, on: &impl LaunchOn, shape: Shape) -> Result<(), Error> {
    let Model { config, options, embedding: table, layers, norm, head, angles, inputs, buffers, .. } = model;
    let Shape { tokens: count, sequences, queries, sampled } = shape;
    let (heads, d, epsilon) = (config.num_attention_heads, config.head_dim, config.rms_norm_eps as f32);
    let linear = Linear { invariant: options.invariant };
    embedding(on, &*table, inputs.tokens.rows(0..count)?, buffers.residual.rows_mut(0..count)?)?;
    let [cosines, sines] = &*angles;
    for (index, layer) in layers.iter_mut().enumerate() {
        let (residual, normed) = (buffers.residual.rows_mut(0..count)?, buffers.normed.rows_mut(0..count)?);
        match index {
            0 => rms_norm(on, residual.view(), &layer.norms[0], normed, epsilon)?,
            _ => add_rms_norm(on, buffers.delta.rows(0..count)?, residual, &layer.norms[0], normed, epsilon)?,
        }
        linear.apply(on, &layer.qkv, buffers.normed.rows(0..count)?, buffers.qkv.rows_mut(0..count)?)?;
        let (q_norm, k_norm) = match &layer.head_norms {
            Some([q_norm, k_norm]) => (Some(q_norm), Some(k_norm)),
            None => (None, None),
        };
        let [keys, values] = &mut layer.cache;
        rope::append(
            on,
            &Rope { cosines, sines, q_norm, k_norm, epsilon },
            buffers.qkv.rows(0..count)?,
            inputs.positions.rows(0..count)?,
            inputs.slots.rows(0..count)?,
            buffers.queries.rows_mut(0..count)?,
            [keys, values],
        )?;
        let batch = Batch {
            pages: inputs.pages.rows(0..sequences)?,
            first: inputs.first.rows(0..sequences + 1)?,
            lengths: inputs.lengths.rows(0..sequences)?,
        };
        let splits = options.invariant.then_some(INVARIANT_SPLITS);
        let attend = Decode { queries, splits, scale: None };
        let [keys, values] = &layer.cache;
        decode(on, buffers.queries.rows(0..count)?, keys, values, batch, buffers.attended.rows_mut(0..count)?, attend)?;
        let attended = buffers.attended.rows(0..count)?.reshape([count, heads * d])?;
        linear.apply(on, &layer.output, attended, buffers.delta.rows_mut(0..count)?)?;
        let (residual, normed) = (buffers.residual.rows_mut(0..count)?, buffers.normed.rows_mut(0..count)?);
        add_rms_norm(on, buffers.delta.rows(0..count)?, residual, &layer.norms[1], normed, epsilon)?;
        linear.apply(on, &layer.gate_up, buffers.normed.rows(0..count)?, buffers.gate_up.rows_mut(0..count)?)?;
        swiglu(on, buffers.gate_up.rows(0..count)?, buffers.gated.rows_mut(0..count)?)?;
        linear.apply(on, &layer.down, buffers.gated.rows(0..count)?, buffers.delta.rows_mut(0..count)?)?;
    }
    let (residual, normed) = (buffers.residual.rows_mut(0..count)?, buffers.normed.rows_mut(0..count)?);
    match layers.is_empty() {
        true => rms_norm(on, residual.view(), &*norm, normed, epsilon)?,
        false => add_rms_norm(on, buffers.delta.rows(0..count)?, residual, &*norm, normed, epsilon)?,
    }
    // The rows that a token is sampled after, side by side.
    embedding(on, buffers.normed.rows(0..count)?, inputs.last.rows(0..sampled)?, buffers.last.rows_mut(0..sampled)?)?;
    let head = head.as_ref().unwrap_or(table);
    linear.logits(on, head, buffers.last.rows(0..sampled)?, buffers.logits.rows_mut(0..sampled)?)?;
    let Inputs { temperature, top_k, top_p, seeds, next_position, next, .. } = inputs;
    let how = Sampling {
        temperature: temperature.rows(0..sampled)?,
        top_k: top_k.rows(0..sampled)?,
        top_p: top_p.rows(0..sampled)?,
        seeds: seeds.rows(0..sampled)?,
        positions: next_position.rows(0..sampled)?,
    };
    sample(on, buffers.logits.rows(0..sampled)?, &how, next.rows_mut(0..sampled)?)?;
    Ok(())
}

/// How products with weights are computed.
struct Linear {
    invariant: bool,
}

impl Linear {
    /// `y = x w^T`: one token by a matrix-vector product, more by a matrix product.
    fn apply<T: ModelElement>(
        &self,
        on: &impl LaunchOn,
        w: &Tensor<T, 2>,
        x: TensorView<'_, T, 2>,
        mut y: TensorViewMut<'_, T, 2>,
    ) -> Result<(), Error> {
        let rows = x.shape()[0];
        if rows > 1 && !self.invariant {
            return Ok(gemm(on, x, w, y, &Gemm::nt())?);
        }
        for row in 0..rows {
            gemv(on, w, x.row(row)?, y.reborrow().row(row)?, Gemv::default())?;
        }
        Ok(())
    }

    /// `[rows, vocab]` logits, in f32 whatever the model computes in.
    fn logits<T: ModelElement>(
        &self,
        on: &impl LaunchOn,
        w: &Tensor<T, 2>,
        x: TensorView<'_, T, 2>,
        mut y: TensorViewMut<'_, f32, 2>,
    ) -> Result<(), Error> {
        let rows = x.shape()[0];
        if !self.invariant {
            return Ok(gemm(on, x, w, y, &Gemm::nt())?);
        }
        for row in 0..rows {
            gemm(on, x.rows(row..row + 1)?, w, y.reborrow().rows(row..row + 1)?, &Gemm::nt())?;
        }
        Ok(())
    }
}
