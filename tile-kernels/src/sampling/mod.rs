//! The next token from logits: [`argmax()`] takes the largest, [`sample`] one at random, with temperature, top-k and top-p. The
//! kernels are in [`mod@argmax`] and [`kernel`]; [`random`] and [`select`] are their parts.

pub mod argmax;
pub mod kernel;
pub mod random;
pub mod select;

pub use argmax::argmax;

use crate::vector::{extents, widest};
use kernel::{SampleRowsParams, sample_rows};
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::Float;
use tile_runtime::{LaunchError, TensorView};

/// How [`sample`] chooses, for each of S rows.
#[derive(Clone, Copy)]
pub struct Sampling<'a> {
    /// What logits are divided by, `[S]`. Where it is not above 0, the token is that of [`argmax()`].
    pub temperature: TensorView<'a, f32, 1>,
    /// Only so many of the largest logits are kept, `[S]`; 0 keeps all. Logits that equal the least one kept are kept too.
    pub top_k: TensorView<'a, u32, 1>,
    /// Of what top-k has kept, the largest logits are kept that together have at least this part of the probability, `[S]`: no
    /// fewer than one, and those that equal the least one kept. From 1 on, all are.
    pub top_p: TensorView<'a, f32, 1>,
    /// The seed, low word and high word, `[S, 2]`.
    pub seeds: TensorView<'a, u32, 2>,
    /// The token's position in its sequence, `[S]`: another one gives independent random numbers with the same seed.
    pub positions: TensorView<'a, u32, 1>,
}

/// `tokens[i]` is chosen at random among row `i` of `logits`, with the probability of `softmax(logits / temperature)` over those
/// that `how` keeps: `logits` of shape `[S, V]`, `tokens` of `[S]`. V is at most 262,144.
///
/// The choice depends on the row's logits and on its entries in `how` alone, not on the other rows. -inf and NaN are never chosen;
/// a row without any other is answered as by [`argmax()`].
///
/// Nothing is sorted: what is kept is exactly what a stable definition by values gives, found by counting leading bits. A weight
/// enters the sum for top-p in units of 2^-28 of the largest. Random numbers are those of Philox 4x32-10 for the counter
/// `(element / 4, position, 0, 0)`, and the race between elements is Gumbel-max.
///
/// # Errors
/// Where shapes differ, V is too large, a tensor lives elsewhere, or `tokens` overlaps another; and whatever compiling and launching
/// may fail with. Nothing is launched then.
#[track_caller]
pub fn sample<T: Float>(
    on: &impl LaunchOn,
    logits: impl TensorInput<T, 2>,
    how: &Sampling<'_>,
    tokens: impl TensorOutput<u32, 1>,
) -> Result<(), LaunchError> {
    let Sampling { temperature, top_k, top_p, seeds, positions } = *how;
    let vec = widest::<T>(&[logits.argument()]);
    let [rows, columns] = extents(&logits.argument());
    let params = SampleRowsParams { VEC: vec, PARTS: argmax::parts(rows, columns, vec) };
    let kernel = sample_rows::<T>::instance(on.device(), params)?;
    kernel.launch_on(on, logits, temperature, top_k, top_p, seeds, positions, tokens)
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 2] {
    [argmax::argmax_rows::<f32>::definition(), sample_rows::<f32>::definition()]
}
