//! What the kernels share: a thread's elements of `W` and `x` and their products, sums of rows whose parts the warps of a block have, and
//! what is stored.

use tile_runtime::prelude::*;

/// Elements of `w` into registers: of every `apart`th row from `row` on, `VEC` neighbours of every `step` columns from `first` on.
#[tile_fn]
pub fn load_rows<T: Float>(
    w: &Tensor<T, (N, K)>,
    ws: &mut LocalArray<T, (UNROLL, ROWS, VEC)>,
    row: usize,
    apart: usize,
    first: usize,
    step: usize,
) {
    for u in unroll(0..UNROLL) {
        for r in unroll(0..ROWS) {
            for v in vectorized(0..VEC) {
                ws[[u, r, v]] = w.masked([row + r * apart, first + u * step + v]);
            }
        }
    }
}

/// Adds the products of what [`load_rows`] loaded and the same columns of `x` to the thread's sums of the rows.
#[tile_fn]
pub fn add_products<T: Float>(
    ws: &LocalArray<T, (UNROLL, ROWS, VEC)>,
    x: &Tensor<T, (K,)>,
    sums: &mut LocalArray<f32, (ROWS,)>,
    first: usize,
    step: usize,
) {
    for u in unroll(0..UNROLL) {
        // x is in a cache after the first block: it is not worth registers ahead.
        let mut xs = alloc_local::<T>([VEC]);
        for v in vectorized(0..VEC) {
            xs[v] = x.masked([first + u * step + v]);
        }
        for r in unroll(0..ROWS) {
            for v in unroll(0..VEC) {
                sums[r] += ws[[u, r, v]].cast::<f32>() * xs[v].cast::<f32>();
            }
        }
    }
}

/// The columns of `x` that a thread multiplies, as f32: `VEC` neighbours of every `step`.
#[tile_fn]
pub fn load_columns<T: Float>(x: &Tensor<T, (K,)>, xs: &mut LocalArray<f32, (LOADS, VEC)>, step: usize, thread: usize) {
    for u in unroll(0..LOADS) {
        let mut loaded = alloc_local::<T>([VEC]);
        for v in vectorized(0..VEC) {
            loaded[v] = x.masked([u * step + thread * VEC + v]);
        }
        for v in unroll(0..VEC) {
            xs[[u, v]] = loaded[v].cast::<f32>();
        }
    }
}

/// The thread's part of the product of row `r` of a stage and the vector, of which it has `xs`.
#[tile_fn]
pub fn row_part<T: Float>(
    rows: &SharedArray<T, (SPAN, WIDTH)>,
    r: usize,
    xs: &LocalArray<f32, (LOADS, VEC)>,
    thread: usize,
) -> f32 {
    let mut sums = alloc_local::<f32>([4]);
    clear(&mut sums);
    for u in unroll(0..LOADS) {
        let mut row = alloc_local::<T>([VEC]);
        for v in vectorized(0..VEC) {
            row[v] = rows[[r, u * (WIDTH / LOADS) + thread * VEC + v]];
        }
        for v in unroll(0..VEC) {
            sums[v % 4] += row[v].cast::<f32>() * xs[[u, v]];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Puts the warp's sums of the rows of a stage into `parts`, from row `first` of it on.
#[tile_fn]
pub fn keep_sums(
    sums: &LocalArray<f32, (SPAN,)>,
    parts: &mut SharedArray<f32, (ROWS, WARPS)>,
    first: usize,
    lane: usize,
    warp: usize,
) {
    for r in unroll(0..SPAN) {
        let sum = warp_reduce(Sum, sums[r]);
        if lane == 0 {
            parts[[first + r, warp]] = sum;
        }
    }
}

/// The sum of all warps' parts of row `r`.
#[tile_fn]
pub fn all_warps(parts: &SharedArray<f32, (ROWS, WARPS)>, r: usize) -> f32 {
    let mut total = parts[[r, 0]];
    for i in unroll(1..WARPS) {
        total += parts[[r, i]];
    }
    total
}

/// `y[row] = alpha sum + beta y[row]`, where there is such a row. With `beta == 0`, `y` is not read.
#[tile_fn]
pub fn store_row<T: Float>(y: &mut Tensor<T, (N,)>, row: usize, sum: f32, alpha: f32, beta: f32) {
    if row < N {
        let mut value = alpha * sum;
        if beta != 0.0 {
            value += beta * y[row].cast::<f32>();
        }
        y[row] = value.cast::<T>();
    }
}
