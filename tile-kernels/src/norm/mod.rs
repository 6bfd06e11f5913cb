//! RMSNorm and LayerNorm of rows: [`rms_norm`], [`add_rms_norm`], [`layer_norm`]; the kernels as they are written are in
//! [`rms`], [`add_rms`] and [`layer`].
//!
//! f16, bf16 and f32; any shape, and views with a row pitch. Sums are in f32. Rows of up to 16 KiB stay in registers between the
//! sum and the scaling, longer ones and those that are not aligned to 16 bytes are read twice. The order of a row's sums is
//! chosen from its length alone, so that its result does not depend on how many rows there are.

pub mod add_rms;
pub mod layer;
pub mod rms;

use crate::vector::{extents, widest};
use tile_runtime::LaunchError;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::Float;

/// How threads share rows: warps of a row, vectors a thread, rows of a block. None where a row does not stay in registers. `middle` and `long` are
/// for rows of 257 to 512 and of 513 to 1,024 vectors, where kernels differ in what their registers hold; `short` is the rows of a block where a warp
/// has a row of 33 to 128 vectors.
fn share(
    row: usize,
    vec: usize,
    short: usize,
    middle: (usize, usize, usize),
    long: (usize, usize, usize),
) -> Option<(usize, usize, usize)> {
    match row.div_ceil(vec.max(1)) {
        _ if vec == 1 => None,
        // A warp a row needs no barrier.
        0..=32 => Some((1, 1, 8)),
        33..=128 => Some((1, 4, short)),
        129..=256 => Some((4, 2, 1)),
        257..=512 => Some(middle),
        513..=1024 => Some(long),
        _ => None,
    }
}

/// The rows of a norm's tensors, their length, and the width of its accesses.
fn rows<T>(tensors: &[Argument<'_>]) -> (usize, usize, usize) {
    let [rows, row] = tensors.first().map_or([0; 2], extents);
    (rows, row, widest::<T>(tensors))
}

/// Rows up to which a multiprocessor of an H100 has few of them, and threads beside each other are worth more than bytes in flight for each.
const FEW: usize = 512;

/// `y = x / sqrt(mean(x^2) + epsilon) * weight` of each row: `x` and `y` of shape `[M, N]`, `weight` of `[N]`.
///
/// Computed in f32 and rounded once, at the end.
///
/// # Errors
/// Where shapes differ, a tensor lives elsewhere, or `y` overlaps an operand; and whatever compiling and launching may fail with.
/// Nothing is launched then.
#[track_caller]
pub fn rms_norm<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    weight: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 2>,
    epsilon: f32,
) -> Result<(), LaunchError> {
    let (_, n, vec) = rows::<T>(&[x.argument(), weight.argument(), y.argument()]);
    match share(n, vec, 2, (8, 2, 1), (16, 2, 1)) {
        Some((warps, vecs, rows)) => {
            let params = rms::RmsNormRowsParams { WARPS: warps, VECS: vecs, ROWS: rows, VEC: vec };
            rms::rms_norm_rows::<T>::instance(on.device(), params)?.launch_on(on, x, weight, y, epsilon)
        }
        None => {
            let params = rms::RmsNormLongParams { VEC: vec };
            rms::rms_norm_long::<T>::instance(on.device(), params)?.launch_on(on, x, weight, y, epsilon)
        }
    }
}

/// `residual += x`, then `y = residual / sqrt(mean(residual^2) + epsilon) * weight` of each row: `x`, `residual` and `y` of shape
/// `[M, N]`, `weight` of `[N]`.
///
/// The sum is rounded to `T`, as the next layer will read it, and what is normalised is the rounded sum.
///
/// # Errors
/// Where shapes differ, a tensor lives elsewhere, or tensors overlap; and whatever compiling and launching may fail with.
/// Nothing is launched then.
#[track_caller]
pub fn add_rms_norm<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut residual: impl TensorOutput<T, 2>,
    weight: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 2>,
    epsilon: f32,
) -> Result<(), LaunchError> {
    let (_, n, vec) = rows::<T>(&[x.argument(), residual.argument(), weight.argument(), y.argument()]);
    // 16 warps with two vectors a thread would have an eighth of their threads wait for the others' second vector: 16384 x 7168 takes 1% longer.
    let long = if vec == 8 && (769..=896).contains(&n.div_ceil(vec)) { (28, 1, 1) } else { (16, 2, 1) };
    match share(n, vec, 8, (8, 2, 1), long) {
        Some((warps, vecs, rows)) => {
            let params = add_rms::AddRmsNormRowsParams { WARPS: warps, VECS: vecs, ROWS: rows, VEC: vec };
            let kernel = add_rms::add_rms_norm_rows::<T>::instance(on.device(), params)?;
            kernel.launch_on(on, x, residual, weight, y, epsilon)
        }
        None => {
            let params = add_rms::AddRmsNormLongParams { VEC: vec };
            let kernel = add_rms::add_rms_norm_long::<T>::instance(on.device(), params)?;
            kernel.launch_on(on, x, residual, weight, y, epsilon)
        }
    }
}

/// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias` of each row: `x` and `y` of shape `[M, N]`, `weight` and `bias` of
/// `[N]`. The variance is the mean of squared differences from the mean, right to about `N / 4` ulp of f32 (`N / 8` of 16-bit rows) however far from 0 the
/// row is.
///
/// Computed in f32 and rounded once, at the end.
///
/// # Errors
/// Where shapes differ, a tensor lives elsewhere, or `y` overlaps an operand; and whatever compiling and launching may fail with.
/// Nothing is launched then.
#[track_caller]
pub fn layer_norm<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    weight: impl TensorInput<T, 1>,
    bias: impl TensorInput<T, 1>,
    mut y: impl TensorOutput<T, 2>,
    epsilon: f32,
) -> Result<(), LaunchError> {
    let (m, n, vec) = rows::<T>(&[x.argument(), weight.argument(), bias.argument(), y.argument()]);
    // Their sums are the same bits.
    let middle = if m <= FEW { (8, 2, 1) } else { (4, 4, 1) };
    match share(n, vec, 2, middle, (16, 2, 1)) {
        Some((warps, vecs, rows)) => {
            let params = layer::LayerNormRowsParams { WARPS: warps, VECS: vecs, ROWS: rows, VEC: vec };
            layer::layer_norm_rows::<T>::instance(on.device(), params)?.launch_on(on, x, weight, bias, y, epsilon)
        }
        None => {
            let params = layer::LayerNormLongParams { VEC: vec };
            layer::layer_norm_long::<T>::instance(on.device(), params)?.launch_on(on, x, weight, bias, y, epsilon)
        }
    }
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 6] {
    [
        rms::rms_norm_rows::<f32>::definition(),
        rms::rms_norm_long::<f32>::definition(),
        add_rms::add_rms_norm_rows::<f32>::definition(),
        add_rms::add_rms_norm_long::<f32>::definition(),
        layer::layer_norm_rows::<f32>::definition(),
        layer::layer_norm_long::<f32>::definition(),
    ]
}
