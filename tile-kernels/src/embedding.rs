//! Rows of a table by token: [`embedding`] on tensors, [`embedding_rows`](struct@embedding_rows) as it is written.

use crate::vector::widest;
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `y[i] = table[tokens[i]]`, zeros where the token is not in the table: 256 threads have two vectors each of a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0),
    pdl(independent = [])
)]
pub fn embedding_rows<T: Float, const VEC: usize>(
    table: &Tensor<T, (V, N)>,
    tokens: &Tensor<u32, (S,)>,
    y: &mut Tensor<T, (S, N)>,
) {
    let [i, block] = blocks([S, ceil_div(N, 512 * VEC)]);
    let [t] = threads([256]);
    let token = tokens[i] as usize;
    let mut values = alloc_local::<T>([2, VEC]);
    for u in unroll(0..2) {
        for v in vectorized(0..VEC) {
            values[[u, v]] = table.masked([token, ((block * 2 + u) * 256 + t) * VEC + v]);
        }
    }
    for u in unroll(0..2) {
        for v in vectorized(0..VEC) {
            *y.masked_mut([i, ((block * 2 + u) * 256 + t) * VEC + v]) = values[[u, v]];
        }
    }
}

/// `y[i] = table[tokens[i]]`: `table` of shape `[V, N]`, `tokens` of `[S]`, `y` of `[S, N]`. A token that is not in the table, V or
/// above, gives a row of zeros.
///
/// f16, bf16 and f32, moved as they are; any shape, and views with a row pitch.
///
/// # Errors
/// Where shapes differ, a tensor lives elsewhere, or `y` overlaps an operand; and whatever compiling and launching may fail with.
/// Nothing is launched then.
#[track_caller]
pub fn embedding<T: Float>(
    on: &impl LaunchOn,
    table: impl TensorInput<T, 2>,
    tokens: impl TensorInput<u32, 1>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let params = EmbeddingRowsParams { VEC: widest::<T>(&[table.argument(), y.argument()]) };
    embedding_rows::<T>::instance(on.device(), params)?.launch_on(on, table, tokens, y)
}

/// The kernel, as data.
pub fn definition() -> &'static Definition {
    embedding_rows::<f32>::definition()
}
