//! SwiGLU: [`swiglu`] on tensors, [`swiglu_rows`](struct@swiglu_rows) and [`swiglu_many_rows`](struct@swiglu_many_rows) as they are written.

use crate::vector::{extents, widest};
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `x / (1 + e^-x)`, within a few ulp of f32.
#[tile_fn]
pub fn silu(x: f32) -> f32 {
    x * fast::recip(1.0 + fast::exp(-x))
}

/// `y[i, j] = silu(gate_up[i, j]) * gate_up[i, I + j]` of a row: each of a block's `THREADS` threads has `VECS` vectors of it.
#[tile_fn(uses(silu))]
pub fn gated_row<T: Float, const VEC: usize, const VECS: usize, const THREADS: usize>(
    y: &mut Tensor<T, (M, I)>,
    gate_up: &Tensor<T, (M, WIDTH)>,
    row: usize,
    block: usize,
    t: usize,
) {
    let mut gate = alloc_local::<T>([VECS, VEC]);
    let mut up = alloc_local::<T>([VECS, VEC]);
    for u in unroll(0..VECS) {
        let first = ((block * VECS + u) * THREADS + t) * VEC;
        for v in vectorized(0..VEC) {
            gate[[u, v]] = gate_up.masked([row, first + v]);
            up[[u, v]] = gate_up.masked([row, I + first + v]);
        }
    }
    for u in unroll(0..VECS) {
        let first = ((block * VECS + u) * THREADS + t) * VEC;
        for v in unroll(0..VEC) {
            gate[[u, v]] = (silu(gate[[u, v]].cast::<f32>()) * up[[u, v]].cast::<f32>()).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, first + v]) = gate[[u, v]];
        }
    }
}

/// [`gated_row`] of every row, the blocks of a row one after the other: for few elements, whose launch is most of the time.
#[tile_kernel(
    instances(
        (VEC, VECS, THREADS) in [(8, 1, 256), (4, 1, 256), (1, 2, 256), (4, 1, 128), (2, 1, 128)],
        where VEC == 1 || VEC * T::BITS * 2 == THREADS // 16 bytes for each of 256 threads, or 8 for each of 128
    ),
    require(I % VEC == 0),
    stream(gate_up, y),
    pdl(independent = [], trigger = AtStart),
    uses(gated_row)
)]
pub fn swiglu_rows<T: Float, const VEC: usize, const VECS: usize, const THREADS: usize>(
    y: &mut Tensor<T, (M, I)>,
    gate_up: &Tensor<T, (M, Extent<{ 2 * I }>)>,
) {
    let [row, block] = blocks([M, ceil_div(I, VECS * THREADS * VEC)]);
    let [t] = threads([THREADS]);
    gated_row::<T, VEC, VECS, THREADS>(y, gate_up, row, block, t);
}

/// [`gated_row`] of every row, the blocks of a row side by side, so that those that run at one time read whole rows: 4,096 rows of 14,336 elements of
/// bf16 take 3 to 4% less time so, few rows 2 to 6% more. The grid's second axis has at most 65,535 blocks, so a block may have several rows.
#[tile_kernel(
    instances((VEC, VECS) in [(8, 1), (4, 1), (1, 2)], where VEC * T::BITS == 128 || VEC == 1),
    require(I % VEC == 0),
    stream(y),
    pdl(independent = [], trigger = AtStart),
    uses(gated_row)
)]
pub fn swiglu_many_rows<T: Float, const VEC: usize, const VECS: usize>(
    y: &mut Tensor<T, (M, I)>,
    gate_up: &Tensor<T, (M, Extent<{ 2 * I }>)>,
) {
    let [block, first] = blocks([ceil_div(I, VECS * 256 * VEC), min(M, 65535)]);
    let [t] = threads([256]);
    for row in (first..M).step_by(65535) {
        gated_row::<T, VEC, VECS, 256>(y, gate_up, row, block, t);
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
    let vecs = if vec > 1 { 1 } else { 2 };
    let elements = rows.saturating_mul(columns);
    // As many elements as blocks of two vectors a thread that run at once.
    if elements <= 132 * 2048 * vec {
        // Vectors half as long take less time, up to a block of 128 threads on each multiprocessor.
        let params = match vec > 1 && elements <= 132 * 128 * vec / 2 {
            true => SwigluRowsParams { VEC: vec / 2, VECS: vecs, THREADS: 128 },
            false => SwigluRowsParams { VEC: vec, VECS: vecs, THREADS: 256 },
        };
        return swiglu_rows::<T>::instance(on.device(), params)?.launch_on(on, y, gate_up);
    }
    let params = SwigluManyRowsParams { VEC: vec, VECS: vecs };
    swiglu_many_rows::<T>::instance(on.device(), params)?.launch_on(on, y, gate_up)
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 2] {
    [swiglu_rows::<f32>::definition(), swiglu_many_rows::<f32>::definition()]
}
