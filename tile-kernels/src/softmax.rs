//! Softmax of rows: [`softmax`] on tensors, [`softmax_rows`](struct@softmax_rows) and [`softmax_long`](struct@softmax_long) as they
//! are written.

use crate::reduce::{row_max, row_sum};
use crate::vector::{extents, widest};
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// Softmax of rows that stay in registers from beginning to end. `WARPS` warps have a row, `VECS` vectors of `VEC` elements a
/// thread; a block has `ROWS` rows. Where a thread has more than four vectors, powers are computed again rather than kept: then a
/// multiprocessor has registers for two rows.
#[tile_kernel(
    instances(
        (WARPS, VECS, ROWS) in [(1, 1, 8), (1, 4, 2), (4, 2, 1), (8, 2, 1), (16, 2, 1), (32, 2, 1), (16, 8, 1)],
        VEC in [8, 4],
        where VEC * T::BITS == 128
    ),
    require(N % VEC == 0),
    require(N <= 32 * WARPS * VECS * VEC),
    pdl(independent = []),
    uses(row_max, row_sum)
)]
pub fn softmax_rows<T: Float, const WARPS: usize, const VECS: usize, const ROWS: usize, const VEC: usize>(
    x: &Tensor<T, (M, N)>,
    y: &mut Tensor<T, (M, N)>,
) {
    let [block] = blocks([ceil_div(M, ROWS)]);
    let [t, group] = threads([32 * WARPS, ROWS]);
    let row = block * ROWS + group;
    let mut a = alloc_local::<T>([VECS, VEC]);
    let mut e = alloc_local::<f32>([VECS, VEC]);
    for s in unroll(0..VECS) {
        for v in vectorized(0..VEC) {
            a[[s, v]] = x.masked([row, (s * 32 * WARPS + t) * VEC + v]);
        }
    }
    let mut most = f32::NEG_INFINITY;
    for s in unroll(0..VECS) {
        if VECS <= 4 {
            let inside = (s * 32 * WARPS + t) * VEC < N;
            for v in unroll(0..VEC) {
                e[[s, v]] = if inside { a[[s, v]].cast::<f32>() } else { f32::NEG_INFINITY };
                most = max(most, e[[s, v]]);
            }
        } else if (s * 32 * WARPS + t) * VEC < N {
            for v in unroll(0..VEC) {
                most = max(most, a[[s, v]].cast::<f32>());
            }
        }
    }
    let largest = row_max::<WARPS>(most, t);
    let mut sum = 0.0f32;
    for s in unroll(0..VECS) {
        if VECS <= 4 {
            for v in unroll(0..VEC) {
                e[[s, v]] = fast::exp(e[[s, v]] - largest);
                sum += e[[s, v]];
            }
        } else {
            let inside = (s * 32 * WARPS + t) * VEC < N;
            for v in unroll(0..VEC) {
                sum += if inside { fast::exp(a[[s, v]].cast::<f32>() - largest) } else { 0.0 };
            }
        }
    }
    let total = row_sum::<WARPS>(sum, t);
    let scale = 1.0 / total;
    for s in unroll(0..VECS) {
        for v in unroll(0..VEC) {
            let power = if VECS <= 4 { e[[s, v]] } else { fast::exp(a[[s, v]].cast::<f32>() - largest) };
            a[[s, v]] = (power * scale).cast::<T>();
        }
        for v in vectorized(0..VEC) {
            *y.masked_mut([row, (s * 32 * WARPS + t) * VEC + v]) = a[[s, v]];
        }
    }
}

/// Softmax of rows of any length, online: a thread keeps the largest element it has seen and the sum of `exp(element - largest)`, so
/// that one pass finds what the second one needs. A block a row.
#[tile_kernel(
    instances(VEC in [8, 4, 1], where VEC * T::BITS == 128 || VEC == 1),
    require(N % VEC == 0),
    pdl(independent = []),
    uses(row_max, row_sum)
)]
pub fn softmax_long<T: Float, const VEC: usize>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    let [row] = blocks([M]);
    let [t] = threads([1024]);
    let mut a = alloc_local::<T>([2, VEC]);
    // Finite, so that a thread that has seen nothing but -inf subtracts it and not -inf from -inf, which is NaN.
    let mut most = -3.4028235e38f32;
    let mut sum = 0.0f32;
    for step in 0..ceil_div(N, 2048 * VEC) {
        for u in unroll(0..2) {
            for v in vectorized(0..VEC) {
                a[[u, v]] = x.masked([row, ((step * 2 + u) * 1024 + t) * VEC + v]);
            }
        }
        let mut top = most;
        for u in unroll(0..2) {
            if ((step * 2 + u) * 1024 + t) * VEC < N {
                for v in unroll(0..VEC) {
                    top = max(top, a[[u, v]].cast::<f32>());
                }
            }
        }
        sum *= fast::exp(most - top);
        for u in unroll(0..2) {
            if ((step * 2 + u) * 1024 + t) * VEC < N {
                for v in unroll(0..VEC) {
                    sum += fast::exp(a[[u, v]].cast::<f32>() - top);
                }
            }
        }
        most = top;
    }
    let largest = row_max::<32>(most, t);
    let part = sum * fast::exp(most - largest);
    let total = row_sum::<32>(part, t);
    let scale = 1.0 / total;
    for step in 0..ceil_div(N, 2048 * VEC) {
        for u in unroll(0..2) {
            for v in vectorized(0..VEC) {
                a[[u, v]] = x.masked([row, ((step * 2 + u) * 1024 + t) * VEC + v]);
            }
        }
        for u in unroll(0..2) {
            for v in unroll(0..VEC) {
                a[[u, v]] = (fast::exp(a[[u, v]].cast::<f32>() - largest) * scale).cast::<T>();
            }
            for v in vectorized(0..VEC) {
                *y.masked_mut([row, ((step * 2 + u) * 1024 + t) * VEC + v]) = a[[u, v]];
            }
        }
    }
}

/// `y = exp(x - max) / sum(exp(x - max))` of each row: `x` and `y` of shape `[M, N]`.
///
/// f16, bf16 and f32; any shape, and views with a row pitch. Computed in f32, with `fast::exp`, and rounded once. Rows of up to
/// 64 KiB stay in registers, longer ones and those that are not aligned to 16 bytes are read twice. A row of nothing but -inf, or one
/// that has a NaN or +inf, gives NaN in all or some of its places, as in PyTorch.
///
/// # Errors
/// Where shapes differ, a tensor lives elsewhere, or `y` overlaps `x`; and whatever compiling and launching may fail with. Nothing
/// is launched then.
#[track_caller]
pub fn softmax<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let [_, n] = extents(&y.argument());
    let vec = widest::<T>(&[x.argument(), y.argument()]);
    let share = match n.div_ceil(vec) {
        _ if vec == 1 => None,
        0..=32 => Some((1, 1, 8)),
        33..=128 => Some((1, 4, 2)),
        129..=256 => Some((4, 2, 1)),
        257..=512 => Some((8, 2, 1)),
        513..=1024 => Some((16, 2, 1)),
        1025..=2048 => Some((32, 2, 1)),
        2049..=4096 => Some((16, 8, 1)),
        _ => None,
    };
    match share {
        Some((warps, vecs, rows)) => {
            let params = SoftmaxRowsParams { WARPS: warps, VECS: vecs, ROWS: rows, VEC: vec };
            softmax_rows::<T>::instance(on.device(), params)?.launch_on(on, x, y)
        }
        None => softmax_long::<T>::instance(on.device(), SoftmaxLongParams { VEC: vec })?.launch_on(on, x, y),
    }
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 2] {
    [softmax_rows::<f32>::definition(), softmax_long::<f32>::definition()]
}
