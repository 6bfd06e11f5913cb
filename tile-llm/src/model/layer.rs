//! The weights and caches of a layer, and where they come from.

use super::ModelElement;
use crate::backend::Limits;
use crate::config::{self, ModelConfig};
use crate::error::ModelError;
use crate::weights::Weights;
use tile_runtime::{Device, Tensor};

/// Copies weights to a device.
pub(super) struct Reader<'a> {
    pub(super) device: &'a Device,
    pub(super) weights: &'a Weights,
}

impl Reader<'_> {
    /// The weight of a norm.
    pub(super) fn vector<T: ModelElement>(&self, name: &str) -> Result<Tensor<T, 1>, ModelError> {
        let values = self.weights.load::<T>(&[name])?;
        Ok(self.device.tensor(&values, [values.len()])?)
    }

    /// Projections of as many columns, one below the other, `[rows, columns]`, copied in pieces.
    pub(super) fn matrix<T: ModelElement>(&self, names: &[&str]) -> Result<Tensor<T, 2>, ModelError> {
        let (mut rows, mut columns) = (0, 0);
        for name in names {
            if let [own, wide] = *self.weights.shape(name)? {
                (rows, columns) = (rows + own, wide);
            }
        }
        let mut tensor = self.device.zeros([rows, columns])?;
        self.weights.stream::<T>(names, &mut |first: usize, values: &[T]| {
            let last = first + values.len() / columns.max(1);
            Ok(tensor.rows_mut(first..last)?.write(values)?)
        })?;
        Ok(tensor)
    }
}

/// A layer on the device.
pub(super) struct Layer<T> {
    /// Of the residual before attention, and before the feed-forward part: `[hidden]`.
    pub(super) norms: [Tensor<T, 1>; 2],
    /// `[(H + 2 HK) D, hidden]`: the projections to queries, keys and values, one below the other.
    pub(super) qkv: Tensor<T, 2>,
    /// Of each head of queries, and of keys, where the model has them: `[D]`.
    pub(super) head_norms: Option<[Tensor<T, 1>; 2]>,
    /// `[hidden, H D]`: the projection of what attention gives.
    pub(super) output: Tensor<T, 2>,
    /// `[2 I, hidden]`: the projections to gates, and to what they gate.
    pub(super) gate_up: Tensor<T, 2>,
    /// `[hidden, I]`: the projection of what was gated.
    pub(super) down: Tensor<T, 2>,
    /// `[pages, HK, page, D]`: keys, and values.
    pub(super) cache: [Tensor<T, 4>; 2],
}

impl<T: ModelElement> Layer<T> {
    pub(super) fn load(
        read: &Reader<'_>,
        config: &ModelConfig,
        index: usize,
        limits: &Limits,
    ) -> Result<Layer<T>, ModelError> {
        let config::Layer { input_norm, q, k, v, o, qk_norms, post_norm, gate, up, down } = config.layer(index);
        let page = [limits.pages, config.num_key_value_heads, limits.page, config.head_dim];
        Ok(Layer {
            norms: [read.vector(&input_norm)?, read.vector(&post_norm)?],
            qkv: read.matrix(&[&q, &k, &v])?,
            head_norms: match &qk_norms {
                Some([q, k]) => Some([read.vector(q)?, read.vector(k)?]),
                None => None,
            },
            output: read.matrix(&[&o])?,
            gate_up: read.matrix(&[&gate, &up])?,
            down: read.matrix(&[&down])?,
            cache: [read.device.zeros(page)?, read.device.zeros(page)?],
        })
    }
}
