//! SwiGLU: `silu(gate) * up`, where one matrix product has made both, side by side in a row.
//!
//! Element by element, so memory bounds it, and fusing is the whole point: three loads and stores an element here, six
//! in three kernels. `silu` is a function of its own: a `#[tile_fn]` is written out where it is called.

use crate::vector::widest;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `x / (1 + e^-x)`.
#[tile_fn]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + fast::exp(-x))
}

/// `y[i, j] = silu(x[i, j]) * x[i, F + j]`; a row of `x` is a gate and what it gates.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(F % VEC == 0),
    uses(silu)
)]
pub fn swiglu_rows<T: Float, const VEC: usize>(y: &mut Tensor<T, (M, F)>, x: &Tensor<T, (M, Extent<{ 2 * F }>)>) {
    let [row, block] = blocks([M, ceil_div(F, 2 * 256 * VEC)]);
    let [t] = threads([256]);
    let mut gate = alloc_local::<T>([2, VEC]);
    let mut up = alloc_local::<T>([2, VEC]);
    for u in unroll(0..2) {
        let first = ((block * 2 + u) * 256 + t) * VEC;
        if first < F {
            for v in vectorized(0..VEC) {
                gate[[u, v]] = x[[row, first + v]];
                up[[u, v]] = x[[row, F + first + v]];
            }
        }
    }
    for u in unroll(0..2) {
        let first = ((block * 2 + u) * 256 + t) * VEC;
        if first < F {
            for v in unroll(0..VEC) {
                gate[[u, v]] = (silu(gate[[u, v]].cast::<f32>()) * up[[u, v]].cast::<f32>()).cast::<T>();
            }
            for v in vectorized(0..VEC) {
                y[[row, first + v]] = gate[[u, v]];
            }
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: host
/// SwiGLU of rows of `2 F` elements, gate first, into rows of `F`.
///
/// # Errors
/// Where the shapes do not fit or `y` overlaps `x`, and whatever a launch may fail with.
pub fn swiglu<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let params = SwigluRowsParams { VEC: widest::<T>(&[x.argument(), y.argument()]) };
    swiglu_rows::<T>::instance(on.device(), params)?.launch_on(on, y, x)
}
// ANCHOR_END: host

/// SwiGLU in f64, of rows of `2 f` elements.
pub fn reference(x: &[f64], f: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let silu = |x: f64| x / (1.0 + (-x).exp());
        row[..f].iter().zip(&row[f..]).map(|(gate, up)| silu(*gate) * up).collect::<Vec<f64>>()
    };
    x.chunks(2 * f.max(1)).flat_map(row).collect()
}
