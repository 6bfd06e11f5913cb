//! Rotary position embedding, with what stands around it in a layer: [`append`] is one launch between the product that makes
//! queries, keys and values and the attention that reads them; [`kernel`] as it is written.

pub mod kernel;

use crate::vector::{begins, extents, widest};
use kernel::{AppendHeadsParams, append_heads};
use tile_runtime::kernel::{Argument, Definition, Element, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::Float;
use tile_runtime::{LaunchError, Tensor};

/// What [`append`] rotates and norms with: the operands that are the same for every call of a layer. `D` is the length of a head.
#[derive(Clone, Copy, Debug)]
pub struct Rope<'a, T: Element> {
    /// Cosines of the angles, of shape `[P, D / 2]`: a row a position.
    pub cosines: &'a Tensor<f32, 2>,
    /// Sines of the angles, likewise.
    pub sines: &'a Tensor<f32, 2>,
    /// Weights `[D]` of an RMSNorm of each query head, before it is rotated; with none, queries are not normed.
    pub q_norm: Option<&'a Tensor<T, 1>>,
    /// Weights `[D]` of an RMSNorm of each key head, likewise.
    pub k_norm: Option<&'a Tensor<T, 1>>,
    /// What both norms add to the mean of squares.
    pub epsilon: f32,
}

/// Norms and rotates queries and keys, and appends keys and values to a paged cache.
///
/// - `qkv`, of shape `[S, (H + 2 HK) D]`, has a token's H query heads, then its HK key heads, then its HK value heads.
/// - `positions` and `slots`, of `[S]`, are read on the device: a token's row in the tables of cosines and sines, and its place in
///   the cache.
/// - `q`, of `[S, H, D]`, becomes the queries.
/// - `caches` are the keys' and the values', each of `[PAGES, HK, PAGE, D]`: slot `s` is row `s % PAGE` of page `s / PAGE`. Other
///   rows stay as they are.
///
/// A head is rotated by halves, as in GPT-NeoX, Llama and Qwen: element i and element `i + D/2` by the angle of column i of the
/// tables. A slot beyond the cache stores nothing; `u32::MAX` always is. A position beyond the tables has cosine 0 and sine 0. Two
/// tokens of a call with one slot leave either one's rows, or a mixture.
///
/// f16, bf16 and f32; D is even and at most 512. Norm and rotation are computed in f32 and rounded to `T` once, at the end, where
/// `transformers` rounds the normed head, its product with the weight, the cosines and sines, and both products of the rotation.
/// The launch may begin before the previous kernel of its stream is done, where that one writes none of the tables, positions, slots
/// and weights, which are then read before it.
///
/// # Errors
/// Where shapes disagree, D is odd or greater than 512, a page has no rows, a tensor lives elsewhere, or a tensor that is written
/// overlaps another; and whatever compiling and launching may fail with. Nothing is launched then.
#[track_caller]
pub fn append<T: Float>(
    on: &impl LaunchOn,
    rope: &Rope<'_, T>,
    qkv: impl TensorInput<T, 2>,
    positions: impl TensorInput<u32, 1>,
    slots: impl TensorInput<u32, 1>,
    mut q: impl TensorOutput<T, 3>,
    caches: [impl TensorOutput<T, 4>; 2],
) -> Result<(), LaunchError> {
    let [mut k_cache, mut v_cache] = caches;
    let Rope { cosines, sines, q_norm, k_norm, epsilon } = *rope;
    let heads = [q.argument(), k_cache.argument(), v_cache.argument(), qkv.argument()];
    let [_, half] = extents(&cosines.argument());
    let params = instance::<T>(half, &heads, rope);
    let kernel = append_heads::<T>::instance(on.device(), params)?;
    kernel.launch_on(on, cosines, sines, positions, slots, q, q_norm, k_norm, k_cache, v_cache, qkv, epsilon)
}

/// The instance for heads of `2 half` elements: how lanes share a head. Heads that are too long get the one for the longest, whose
/// launch says so.
fn instance<T: Float>(half: usize, heads: &[Argument<'_>], rope: &Rope<'_, T>) -> AppendHeadsParams {
    let widest = widest::<T>(heads);
    let norms = [rope.q_norm, rope.k_norm].into_iter().flatten();
    let is_aligned = widest > 1
        && half.is_multiple_of(widest)
        && [rope.cosines, rope.sines].iter().all(|table| begins_of(table.argument(), 4))
        && norms.into_iter().all(|weights| begins_of(weights.argument(), widest));
    let vec = if is_aligned { widest } else { 1 };
    let (lanes, vecs) = match (vec, half) {
        (8, ..=64) => (8, 1),
        (8, _) => (32, 1),
        (4, ..=64) => (16, 1),
        (4, _) => (32, 2),
        (_, ..=64) => (32, 2),
        (_, _) => (32, 8),
    };
    AppendHeadsParams { VEC: vec, LANES: lanes, VECS: vecs }
}

fn begins_of(argument: Argument<'_>, vec: usize) -> bool {
    match argument {
        Argument::Tensor(tensor) => begins(&tensor, vec),
        _ => true,
    }
}

/// The kernel, as data.
pub fn definition() -> &'static Definition {
    append_heads::<f32>::definition()
}
