//! Products of a decode step: weights arrive by bulk copies, which begin before the previous kernel is done, and what the step does to the
//! vector before the product, and to the result after it, happens in the same launch.

use super::Gemv;
use crate::reduce::row_sum;
use crate::swiglu::silu;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, Target, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// Rows of a block, where the blocks are at most 264: two for each of the 132 multiprocessors of an H100 or H200.
#[tile_fn]
pub fn rows_of_block<const SPAN: usize>(rows: usize) -> usize {
    min(ceil_div(max(1, ceil_div(rows, 264)), SPAN), 1024 / SPAN) * SPAN
}

/// Puts the sums of each warp's columns of rows from `first` on into `parts`, and with `PAIRS` behind them those of as many rows from `second` on:
/// `SPAN` rows at a time through a ring of `STAGES` stages. `xs` is the thread's part of the vector.
#[tile_fn]
pub fn sum_rows<T: Float, const SPAN: usize, const STAGES: usize, const PAIRS: bool>(
    w: &Tensor<T, (N, K)>,
    xs: &LocalArray<f32, (LOADS, VEC)>,
    parts: &mut SharedArray<f32, (PARTS, WARPS)>,
    first: usize,
    second: usize,
    lane: usize,
    warp: usize,
) {
    let width = LOADS * 32 * WARPS * VEC;
    let rows = if PAIRS { PARTS / 2 } else { PARTS };
    let mut ws = alloc_shared::<T>([SPAN, width]);
    let mut us = alloc_shared::<T>([if PAIRS { SPAN } else { 1 }, if PAIRS { width } else { VEC }]);
    for s in pipelined(0..rows / SPAN, STAGES) {
        copy(w.at([first + s * SPAN, 0]), &mut ws).evict(First);
        if PAIRS {
            copy(w.at([second + s * SPAN, 0]), &mut us).evict(First);
        }
        let mut sums = alloc_local::<f32>([SPAN, 4]);
        let mut others = alloc_local::<f32>([SPAN, 4]);
        clear(&mut sums);
        clear(&mut others);
        for r in unroll(0..SPAN) {
            for u in unroll(0..LOADS) {
                let column = (u * 32 * WARPS + warp * 32 + lane) * VEC;
                let mut row = alloc_local::<T>([VEC]);
                for v in vectorized(0..VEC) {
                    row[v] = ws[[r, column + v]];
                }
                for v in unroll(0..VEC) {
                    sums[[r, v % 4]] += row[v].cast::<f32>() * xs[[u, v]];
                }
                if PAIRS {
                    for v in vectorized(0..VEC) {
                        row[v] = us[[r, column + v]];
                    }
                    for v in unroll(0..VEC) {
                        others[[r, v % 4]] += row[v].cast::<f32>() * xs[[u, v]];
                    }
                }
            }
        }
        for r in unroll(0..SPAN) {
            let sum = warp_reduce(Sum, (sums[[r, 0]] + sums[[r, 1]]) + (sums[[r, 2]] + sums[[r, 3]]));
            if lane == 0 {
                parts[[s * SPAN + r, warp]] = sum;
            }
            if PAIRS {
                let other = warp_reduce(Sum, (others[[r, 0]] + others[[r, 1]]) + (others[[r, 2]] + others[[r, 3]]));
                if lane == 0 {
                    parts[[rows + s * SPAN + r, warp]] = other;
                }
            }
        }
    }
    sync_threads();
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
    uses(rows_of_block, sum_rows)
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
    for u in unroll(0..loads) {
        let mut loaded = alloc_local::<T>([VEC]);
        for v in vectorized(0..VEC) {
            loaded[v] = x.masked([u * step + thread * VEC + v]);
        }
        for v in unroll(0..VEC) {
            xs[[u, v]] = loaded[v].cast::<f32>();
        }
    }
    let mut parts = alloc_shared::<f32>([rows, WARPS]);
    sum_rows::<T, SPAN, STAGES, false>(w, &xs, &mut parts, first, 0, lane, warp);
    for i in 0..ceil_div(rows, 32 * WARPS) {
        let r = i * (32 * WARPS) + thread;
        if r < rows && first + r < N {
            let mut total = parts[[r, 0]];
            for i in unroll(1..WARPS) {
                total += parts[[r, i]];
            }
            let mut value = alpha * total;
            if beta != 0.0 {
                value += beta * y[first + r].cast::<f32>();
            }
            y[first + r] = value.cast::<T>();
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
    uses(row_sum, silu, rows_of_block, sum_rows)
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
    sum_rows::<T, SPAN, STAGES, GLU>(w, &xs, &mut parts, first, R + first, lane, warp);
    for i in 0..ceil_div(rows, 32 * WARPS) {
        let r = i * (32 * WARPS) + thread;
        if r < rows && first + r < R {
            let mut value = parts[[r, 0]];
            for i in unroll(1..WARPS) {
                value += parts[[r, i]];
            }
            if GLU {
                let mut other = parts[[rows + r, 0]];
                for i in unroll(1..WARPS) {
                    other += parts[[rows + r, i]];
                }
                value = silu(value) * other;
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
