//! Ready ops: attention over whole sequences by `tile-kernels`.

use crate::op::Op4;
use crate::ready::to;
use crate::{CandleElement, Op3};
use candle_core::{DType, Result, Tensor, bail};
use half::{bf16, f16};
use tile_kernels::attention::{Forward, forward};
use tile_runtime::LaunchError;
use tile_runtime::prelude::Half;

/// What [`attention`] and [`attention_into`] do beside the softmax of products.
///
/// A query's *own* key is the one that stands where it does when the last query and the last key stand together.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// A query sees no key after its own: the last query sees all of them.
    pub causal: bool,
    /// Factor of the products before the softmax, above 0; `1 / sqrt(D)` where none is given.
    pub scale: Option<f32>,
    /// The most keys before its own that a query sees: all where none is given.
    pub left: Option<usize>,
    /// The most keys after its own that a query sees, where it is not `causal`: all where none is given.
    pub right: Option<usize>,
    /// Scores become `cap tanh(s / cap)`, after the scale and before the mask.
    pub soft_cap: Option<f32>,
    /// `[H]`, in f32: one more score for each head, as if of a key that every query sees and whose value is 0.
    pub sinks: Option<&'a Tensor>,
    /// Queries and keys that a block multiplies in a step; those that are expected to be the fastest where none are given. Whoever wants results that depend neither on the
    /// batch nor on the number of heads names them: see [`Forward::tile`](tile_kernels::attention::Forward::tile).
    pub tile: Option<[usize; 2]>,
}

impl AttentionOptions<'_> {
    /// The kernel's options.
    fn forward<'s>(&self, sinks: Option<&'s tile_runtime::Tensor<f32, 1>>) -> Forward<'s> {
        let AttentionOptions { causal, scale, left, right, soft_cap, tile, .. } = *self;
        Forward { causal, scale, left, right, soft_cap, sinks, tile, log_sum_exp: None }
    }
}

/// `o = softmax(scale q k^T) v`: `q` of shape `[B, H, M, D]`, `k` of `[B, HK, N, D]`, `v` of `[B, HK, N, DV]`, all of f16 or
/// bf16, as is the result, of shape `[B, H, M, DV]`. Head `h` of `q` uses head `h / (H / HK)` of `k` and `v`.
///
/// Heads have 64, 96, 128 or 256 elements, or D = 192 and DV = 128. Tensors `[B, S, H, D]` are taken with two axes exchanged,
/// `x.transpose(1, 2)?`, without a copy.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tile_candle::{AttentionOptions, attention};
///
/// // One key: its value is the result, whatever the query.
/// let q = Tensor::ones((1, 2, 3, 64), DType::F16, &Device::Cpu)?;
/// let (k, v) = (q.narrow(1, 0, 1)?.narrow(2, 0, 1)?, Tensor::full(0.5f32, (1, 1, 1, 64), &Device::Cpu)?);
/// let o = attention(&q, &k, &v.to_dtype(DType::F16)?, AttentionOptions::default())?;
/// assert_eq!(o.dims(), [1, 2, 3, 64]);
/// assert!(o.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?.iter().all(|x| *x == 0.5));
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Other shapes, element types or devices; rows that are not contiguous; options that contradict each other; whatever
/// launching fails with.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, options: AttentionOptions<'_>) -> Result<Tensor> {
    let made = attention_to(None, q, k, v, options)?;
    made.ok_or_else(|| candle_core::Error::msg("attention made no tensor"))
}

/// [`attention`] into the `o` that is there, of shape `[B, H, M, DV]`. It allocates nothing, so it may be captured in a graph.
///
/// # Errors
/// As [`attention`]; `o` is of another shape or element type, or shares its storage with an operand.
pub fn attention_into(o: &Tensor, q: &Tensor, k: &Tensor, v: &Tensor, options: AttentionOptions<'_>) -> Result<()> {
    attention_to(Some(o), q, k, v, options).map(drop)
}

fn attention_to(
    o: Option<&Tensor>,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    options: AttentionOptions<'_>,
) -> Result<Option<Tensor>> {
    match q.dtype() {
        DType::F16 => attention_of::<f16>(o, q, k, v, options),
        DType::BF16 => attention_of::<bf16>(o, q, k, v, options),
        other => bail!("attention takes f16 and bf16, not {}", other.as_str()),
    }
}

/// Into `o`, or into the new tensor that is returned.
fn attention_of<T: CandleElement + Half>(
    o: Option<&Tensor>,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    options: AttentionOptions<'_>,
) -> Result<Option<Tensor>> {
    let [q, k, v] = [q, k, v].map(|tensor| (tensor, tensor.layout().into()));
    // The other extents are checked by the launch.
    let shape = |[b, h, m, _]: [usize; 4], _: [usize; 4], [.., dv]: [usize; 4]| Ok([b, h, m, dv]);
    match options.sinks {
        None => {
            let op = Op3::<T, 4, T, 4, T, 4, T, 4, _, _>::new("attention", shape, |on, q, k, v, o| {
                forward(on, q.view(), k.view(), v, o, options.forward(None)).map_err(LaunchError::from)
            });
            // SAFETY: the launch writes every row of the result, also those of queries that see no key, and reads none.
            let op = unsafe { op.writes_all() };
            to(o, [q, k, v], &op)
        }
        Some(sinks) => {
            let shape = |q: [usize; 4], k: [usize; 4], v: [usize; 4], _: [usize; 1]| shape(q, k, v);
            let op = Op4::<T, 4, T, 4, T, 4, f32, 1, T, 4, _, _>::new("attention", shape, |on, q, k, v, sinks, o| {
                forward(on, q.view(), k.view(), v, o, options.forward(Some(sinks))).map_err(LaunchError::from)
            });
            // SAFETY: as without sinks.
            let op = unsafe { op.writes_all() };
            to(o, [q, k, v, (sinks, sinks.layout().into())], &op)
        }
    }
}
