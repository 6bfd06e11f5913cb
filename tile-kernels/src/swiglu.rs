//! SwiGLU: [`swiglu`] on tensors, [`swiglu_rows`](struct@swiglu_rows) as it is written.

use crate::vector::{extents, widest};
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `x / (1 + e^-x)`, within a few ulp of f32.
#[tile_fn]
pub fn silu(x: f32) -> f32 {
    x * fast::recip(1.0 + fast::exp(-x))
}

/// `y[i, j] = silu(gate_up[i, j]) * gate_up[i, I + j]`: each of 256 threads has `VECS` vectors of a row.
#[tile_kernel(
    instances((VEC, VECS) in [(8, 1), (8, 2), (4, 1), (4, 2), (1, 2)], where VEC * T::BITS == 128 || VEC == 1),
    require(I % VEC == 0),
    stream(gate_up, y),
    pdl(independent = [], trigger = AtStart),
    uses(silu)
)]
pub fn swiglu_rows<T: Float, const VEC: usize, const VECS: usize>(
    y: &mut Tensor<T, (M, I)>,
    gate_up: &Tensor<T, (M, Extent<{ 2 * I }>)>,
) {
    let [row, block] = blocks([M, ceil_div(I, VECS * 256 * VEC)]);
    let [t] = threads([256]);
    let mut gate = alloc_local::<T>([VECS, VEC]);
    let mut up = alloc_local::<T>([VECS, VEC]);
    for u in unroll(0..VECS) {
        let first = ((block * VECS + u) * 256 + t) * VEC;
        for v in vectorized(0..VEC) {
            gate[[u, v]] = gate_up.masked([row, first + v]);
            up[[u, v]] = gate_up.masked([row, I + first + v]);
        }
    }
    for u in unroll(0..VECS) {
        let first = ((block * VECS + u) * 256 + t) * VEC;
        for v in unroll(0..VEC) {
            gate[[u, v]] = (silu(gate[[u, v]].cast::<f32>()) * up[[u, v]].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, first + v]) = gate[[u, v]];
        }
    }
}

/// `y = silu(gate) * up`, where `silu(x) = x / (1 + e^-x)`: `gate_up` of shape `[M, 2 I]` has a row's gate in its first `I`
/// columns and what is gated in the others; `y` of `[M, I]`.
///
/// f16, bf16 and f32; any shape, and views with a row pitch. Computed in f32 and rounded once. Rows that are not aligned to 16
/// bytes, or an `I` that vectors of 16 bytes do not divide, are accessed an element at a time.
///
/// # Errors
/// Where `gate_up` has not twice the columns of `y`, a tensor lives elsewhere, or `y` overlaps `gate_up`; and whatever compiling
/// and launching may fail with. Nothing is launched then.
#[track_caller]
pub fn swiglu<T: Float>(
    on: &impl LaunchOn,
    gate_up: impl TensorInput<T, 2>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let [rows, columns] = extents(&y.argument());
    let vec = widest::<T>(&[gate_up.argument(), y.argument()]);
    // Few elements are spread over as many blocks as there are; many keep more loads in flight a thread.
    let is_small = rows.saturating_mul(columns) <= 132 * 2048 * vec;
    // Blocks that are idle for a part of each row cost more than loads in flight gain.
    let idle = columns.next_multiple_of(512 * vec) - columns;
    let vecs = if vec > 1 && (is_small || idle * 16 > columns) { 1 } else { 2 };
    let params = SwigluRowsParams { VEC: vec, VECS: vecs };
    swiglu_rows::<T>::instance(on.device(), params)?.launch_on(on, y, gate_up)
}

/// The kernel, as data.
pub fn definition() -> &'static Definition {
    swiglu_rows::<f32>::definition()
}
