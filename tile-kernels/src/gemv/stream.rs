//! Products of a decode step: weights arrive by bulk copies, which begin before the previous kernel is done, and what the step does to the
//! vector before the product, and to the result after it, happens in the same launch.

use super::Gemv;
use super::parts::{all_warps, keep_sums, load_columns, row_part, store_row};
use crate::reduce::row_sum;
use crate::swiglu::silu;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, Target, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// Rows of a block, where the blocks are at most 264: two for each of the 132 multiprocessors of an H100 or H200.
#[tile_fn]
pub fn rows_of_block<const SPAN: usize>(rows: usize) -> usize {
    min(ceil_div(max(1, ceil_div(rows, 264)), SPAN), 1024 / SPAN) * SPAN
}

/// `y = alpha W x + beta y` for W of `[N, K]`.
///
/// Each block has neighbouring rows and takes `SPAN` of them at a time from a ring of `STAGES` stages in shared memory. Each of
/// `WARPS` warps has its part of the columns of all rows, and keeps its part of `x` in registers; the warps' sums are added at
/// the end.
#[tile_kernel(
    instances(
        (WARPS, SPAN, STAGES) in [(4, 8, 6), (4, 4, 6), (4, 2, 6), (8, 1, 6), (8, 1, 4), (8, 1, 3)],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(K % VEC == 0),
    specialize(N, K),
    targets(sm_90a),
    pdl(independent = [w]),
    uses(rows_of_block, load_columns, row_part, keep_sums, all_warps, store_row)
)]
pub fn gemv_stream<T: Float, const WARPS: usize, const SPAN: usize, const STAGES: usize, const VEC: usize>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
) {
    let step = 32 * WARPS * VEC; // columns that the block covers with one load a thread
    let loads = max(1, ceil_div(K, step)); // loads of a row that a thread makes
    let rows = rows_of_block::<SPAN>(N);
    let [block] = blocks([ceil_div(N, rows)]);
    let [lane, warp] = threads([32, WARPS]);
    let thread = warp * 32 + lane;
    let first = block * rows;

    let mut xs = alloc_local::<f32>([loads, VEC]);
    load_columns(x, &mut xs, step, thread);
    let mut parts = alloc_shared::<f32>([rows, WARPS]);
    let mut ws = alloc_shared::<T>([SPAN, loads * step]);
    for s in pipelined(0..rows / SPAN, STAGES) {
        copy(w.at([first + s * SPAN, 0]), &mut ws).evict(First);
        let mut sums = alloc_local::<f32>([SPAN]);
        for r in unroll(0..SPAN) {
            sums[r] = row_part(&ws, r, &xs, thread);
        }
        keep_sums(&sums, &mut parts, s * SPAN, lane, warp);
    }
    sync_threads();
    for i in 0..ceil_div(rows, 32 * WARPS) {
        let r = i * (32 * WARPS) + thread;
        if r < rows {
            store_row(y, first + r, all_warps(&parts, r), alpha, beta);
        }
    }
}

/// Without `GLU`, `y = W n` for W of `[N, K]`, y of `[N]`; with it, `y[i] = silu(W[i] n) W[R + i] n` for W of `[2 R, K]`, y of `[R]`:
/// where `n` is RMSNorm of x, which every block computes for itself.
///
/// Shared out among blocks and warps as [`gemv_stream`](struct@gemv_stream); with `GLU` a stage has `SPAN` pairs of rows.
#[tile_kernel(
    instances(
        (WARPS, SPAN, STAGES, GLU) in [
            (4, 8, 6, false), (4, 4, 6, false), (4, 2, 6, false), (8, 1, 6, false), (8, 1, 4, false), (8, 1, 3, false),
            (4, 4, 6, true), (4, 2, 6, true), (4, 1, 6, true), (8, 1, 3, true), (8, 1, 2, true),
        ],
        VEC in [8, 4],
        where VEC * T::BITS == 128 && (T::BITS == U::BITS || !GLU && U::BITS == 32)
    ),
    require(K % VEC == 0),
    require(GLU || N == R),
    require(!GLU || N == 2 * R),
    specialize(R, K),
    targets(sm_90a),
    pdl(independent = [w, weight]),
    uses(row_sum, silu, rows_of_block, row_part, keep_sums, all_warps)
)]
pub fn gemv_norm_stream<
    T: Float,
    U: Float,
    const WARPS: usize,
    const SPAN: usize,
    const STAGES: usize,
    const GLU: bool,
    const VEC: usize,
>(
    w: &Tensor<T, (N, K)>,
    x: &Tensor<T, (K,)>,
    weight: &Tensor<T, (K,)>,
    y: &mut Tensor<U, (R,)>,
    epsilon: f32,
) {
    let step = 32 * WARPS * VEC; // columns that the block covers with one load a thread
    let loads = max(1, ceil_div(K, step)); // loads of a row that a thread makes
    let rows = rows_of_block::<SPAN>(R);
    let [block] = blocks([ceil_div(R, rows)]);
    let [lane, warp] = threads([32, WARPS]);
    let thread = warp * 32 + lane;
    let first = block * rows;

    let mut scales = alloc_local::<T>([loads, VEC]);
    for u in unroll(0..loads) {
        for v in vectorized(0..VEC) {
            scales[[u, v]] = weight.masked([u * step + thread * VEC + v]);
        }
    }
    let mut xs = alloc_local::<f32>([loads, VEC]);
    let mut squares = 0.0f32;
    for u in unroll(0..loads) {
        let mut loaded = alloc_local::<T>([VEC]);
        for v in vectorized(0..VEC) {
            loaded[v] = x.masked([u * step + thread * VEC + v]);
        }
        for v in unroll(0..VEC) {
            xs[[u, v]] = loaded[v].cast::<f32>();
            squares += xs[[u, v]] * xs[[u, v]];
        }
    }
    let total = row_sum::<WARPS>(squares, thread);
    let scale = rsqrt(total / K as f32 + epsilon);
    for u in unroll(0..loads) {
        for v in unroll(0..VEC) {
            xs[[u, v]] *= scale * scales[[u, v]].cast::<f32>();
        }
    }
    let mut parts = alloc_shared::<f32>([if GLU { 2 * rows } else { rows }, WARPS]);
    if GLU {
        let mut ws = alloc_shared::<T>([SPAN, loads * step]);
        let mut us = alloc_shared::<T>([SPAN, loads * step]);
        for s in pipelined(0..rows / SPAN, STAGES) {
            copy(w.at([first + s * SPAN, 0]), &mut ws).evict(First);
            copy(w.at([R + first + s * SPAN, 0]), &mut us).evict(First);
            let mut gates = alloc_local::<f32>([SPAN]);
            let mut ups = alloc_local::<f32>([SPAN]);
            for r in unroll(0..SPAN) {
                gates[r] = row_part(&ws, r, &xs, thread);
                ups[r] = row_part(&us, r, &xs, thread);
            }
            keep_sums(&gates, &mut parts, s * SPAN, lane, warp);
            keep_sums(&ups, &mut parts, rows + s * SPAN, lane, warp);
        }
    } else {
        let mut ws = alloc_shared::<T>([SPAN, loads * step]);
        for s in pipelined(0..rows / SPAN, STAGES) {
            copy(w.at([first + s * SPAN, 0]), &mut ws).evict(First);
            let mut sums = alloc_local::<f32>([SPAN]);
            for r in unroll(0..SPAN) {
                sums[r] = row_part(&ws, r, &xs, thread);
            }
            keep_sums(&sums, &mut parts, s * SPAN, lane, warp);
        }
    }
    sync_threads();
    for i in 0..ceil_div(rows, 32 * WARPS) {
        let r = i * (32 * WARPS) + thread;
        if r < rows && first + r < R {
            let mut value = all_warps(&parts, r);
            if GLU {
                value = silu(value) * all_warps(&parts, rows + r);
            }
            y[first + r] = value.cast::<U>();
        }
    }
}

/// RMSNorm of the vector of a product.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a, T: Element> {
    /// `[K]`.
    pub weight: &'a Tensor<T, 1>,
    /// What is added to the mean of the squares.
    pub epsilon: f32,
}

/// The instance for rows of `bytes` bytes: its warps, rows (with `glu` pairs of rows) of a stage, and stages. Two blocks share a
/// multiprocessor. None where too few rows fit into shared memory.
fn shape(bytes: i64, glu: bool) -> Option<(usize, usize, usize)> {
    match (bytes, glu) {
        (0..=2048, false) => Some((4, 8, 6)),
        (2049..=4096, false) => Some((4, 4, 6)),
        (4097..=8192, false) => Some((4, 2, 6)),
        (8193..=16_384, false) => Some((8, 1, 6)),
        (16_385..=25_088, false) => Some((8, 1, 4)),
        (25_089..=33_792, false) => Some((8, 1, 3)),
        (0..=2048, true) => Some((4, 4, 6)),
        (2049..=4096, true) => Some((4, 2, 6)),
        (4097..=8192, true) => Some((4, 1, 6)),
        (8193..=16_384, true) => Some((8, 1, 3)),
        (16_385..=25_088, true) => Some((8, 1, 2)),
        _ => None,
    }
}

/// Whether [`product`], [`norm_product`] and [`norm_swiglu`] take weights of this type, with rows of `k` elements that lie side by side, on a device: one of compute capability
/// 9.0 or a simulator, and rows of a multiple of 16 bytes, at most 33,792 (25,088 for [`norm_swiglu`]).
pub fn takes<T: Float>(device: &Device, k: usize, glu: bool) -> bool {
    let bytes = (k * size_of::<T>()) as i64;
    device.supports(Target::Sm90a) && bytes % 16 == 0 && shape(bytes, glu).is_some()
}

/// `y = alpha W x + beta y`: `w` of shape `[N, K]`, `x` of `[K]`, `y` of `[N]`.
///
/// For a chain of launches, as in a decode step: `w` is read before the previous kernel is done. A launch by itself is faster by
/// [`gemv`](fn@super::gemv). The first launch with another N or K compiles the kernel for them.
///
/// # Errors
/// What [`takes`] says no to; shapes that disagree, a tensor that lives elsewhere, `y` that overlaps an operand; and whatever compiling and
/// launching may fail with. Nothing is launched then.
#[track_caller]
pub fn product<T: Float>(
    on: &impl LaunchOn,
    w: impl TensorInput<T, 2>,
    x: impl TensorInput<T, 1>,
    y: impl TensorOutput<T, 1>,
    Gemv { alpha, beta }: Gemv,
) -> Result<(), LaunchError> {
    let (warps, span, stages, vec) = instance::<T>(&w.argument(), false);
    let params = GemvStreamParams { WARPS: warps, SPAN: span, STAGES: stages, VEC: vec };
    gemv_stream::<T>::instance(on.device(), params)?.launch_on(on, w, x, y, alpha, beta)
}

/// `y = W n`, where `n` is RMSNorm of `x`: `w` of shape `[N, K]`, `x` of `[K]`, `y` of `[N]`, in the type of `w` or in f32. `n` is
/// not rounded. Otherwise as [`product`].
///
/// # Errors
/// As [`product`].
#[track_caller]
pub fn norm_product<T: Float, U: Float>(
    on: &impl LaunchOn,
    w: impl TensorInput<T, 2>,
    x: impl TensorInput<T, 1>,
    norm: Norm<'_, T>,
    y: impl TensorOutput<U, 1>,
) -> Result<(), LaunchError> {
    let params = norm_params::<T>(&w.argument(), false);
    gemv_norm_stream::<T, U>::instance(on.device(), params)?.launch_on(on, w, x, norm.weight, y, norm.epsilon)
}

/// `y[i] = silu(W[i] n) W[R + i] n`, where `n` is RMSNorm of `x`: `w` of shape `[2 R, K]`, `x` of `[K]`, `y` of `[R]`. Neither `n` nor the
/// products are rounded. Otherwise as [`product`].
///
/// # Errors
/// As [`product`].
#[track_caller]
pub fn norm_swiglu<T: Float>(
    on: &impl LaunchOn,
    w: impl TensorInput<T, 2>,
    x: impl TensorInput<T, 1>,
    norm: Norm<'_, T>,
    y: impl TensorOutput<T, 1>,
) -> Result<(), LaunchError> {
    let params = norm_params::<T>(&w.argument(), true);
    gemv_norm_stream::<T, T>::instance(on.device(), params)?.launch_on(on, w, x, norm.weight, y, norm.epsilon)
}

fn norm_params<T>(w: &Argument<'_>, glu: bool) -> GemvNormStreamParams {
    let (warps, span, stages, vec) = instance::<T>(w, glu);
    GemvNormStreamParams { WARPS: warps, SPAN: span, STAGES: stages, GLU: glu, VEC: vec }
}

/// The instance for a matrix: warps, rows of a stage, stages, elements of a load. Where none takes it, one whose launch says why.
fn instance<T>(w: &Argument<'_>, glu: bool) -> (usize, usize, usize, usize) {
    let k = match w {
        Argument::Tensor(w) => w.shape().get(1).copied().unwrap_or(0),
        _ => 0,
    };
    let bytes = k.saturating_mul(size_of::<T>() as i64);
    let longest = if glu { (8, 1, 2) } else { (8, 1, 3) };
    let (warps, span, stages) = shape(bytes, glu).unwrap_or(longest);
    (warps, span, stages, 16 / size_of::<T>())
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 2] {
    [gemv_stream::<f32>::definition(), gemv_norm_stream::<f32, f32>::definition()]
}
