//! The rungs: TileLang's GEMV tutorial and the first cases of its tuning guide, in this language.
//!
//! Two things differ from the originals on purpose. Barriers between element-level shared accesses are written out,
//! and where the original lets several threads store the same value to one place, one thread stores it here.

use tile_runtime::prelude::*;

// ANCHOR: naive
/// Through shared memory: one thread for each row, one element at a time.
#[tile_kernel(instances(BLOCK_N = 128, BLOCK_K = 128))]
pub fn naive<T: Float, const BLOCK_N: usize, const BLOCK_K: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn] = threads([BLOCK_N]);
    let row = bn * BLOCK_N + tn;

    let mut x_shared = alloc_shared::<T>([BLOCK_K]);
    let mut w_shared = alloc_shared::<T>([BLOCK_N, BLOCK_K]);
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, BLOCK_K) {
        x_shared[tn] = x.masked([bk * BLOCK_K + tn]);
        for tk in 0..BLOCK_K {
            w_shared[[tn, tk]] = w.masked([row, bk * BLOCK_K + tk]);
        }
        sync_threads();
        for tk in 0..BLOCK_K {
            acc += x_shared[tk].cast::<f32>() * w_shared[[tn, tk]].cast::<f32>();
        }
        sync_threads();
    }
    if row < N {
        y[row] = acc.cast::<T>();
    }
}
// ANCHOR_END: naive

// ANCHOR: splitk_atomic
/// Split-K: a thread an element of the block's tile, partial sums meet in shared memory by atomics.
#[tile_kernel(instances((BLOCK_N, BLOCK_K) in [(16, 32)]))]
pub fn splitk_atomic<T: Float, const BLOCK_N: usize, const BLOCK_K: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, BLOCK_K]);
    let row = bn * BLOCK_N + tn;

    let mut sums = alloc_shared::<f32>([BLOCK_N]);
    if tk == 0 {
        sums[tn] = 0.0;
    }
    sync_threads();
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, BLOCK_K) {
        let k = bk * BLOCK_K + tk;
        acc += x.masked([k]).cast::<f32>() * w.masked([row, k]).cast::<f32>();
    }
    atomic_add(&mut sums[tn], acc);
    sync_threads();
    if tk == 0 && row < N {
        y[row] = sums[tn].cast::<T>();
    }
}
// ANCHOR_END: splitk_atomic

// ANCHOR: splitk
/// Split-K with `REDUCE` threads a row, each taking `TILE_K` neighbouring elements a step.
#[tile_kernel(instances((BLOCK_N, REDUCE, TILE_K) in [(16, 32, 4)]))]
pub fn splitk<T: Float, const BLOCK_N: usize, const REDUCE: usize, const TILE_K: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, REDUCE]);
    let row = bn * BLOCK_N + tn;

    let mut xs = alloc_local::<T>([TILE_K]);
    let mut ws = alloc_local::<T>([TILE_K]);
    let mut sums = alloc_shared::<f32>([BLOCK_N]);
    if tk == 0 {
        sums[tn] = 0.0;
    }
    sync_threads();
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, REDUCE * TILE_K) {
        let first = (bk * REDUCE + tk) * TILE_K;
        for k in 0..TILE_K {
            xs[k] = x.masked([first + k]);
            ws[k] = w.masked([row, first + k]);
        }
        for k in 0..TILE_K {
            acc += xs[k].cast::<f32>() * ws[k].cast::<f32>();
        }
    }
    atomic_add(&mut sums[tn], acc);
    sync_threads();
    if tk == 0 && row < N {
        y[row] = sums[tn].cast::<T>();
    }
}
// ANCHOR_END: splitk

// ANCHOR: vectorized
/// `splitk` with 16-byte loads.
#[tile_kernel(instances((BLOCK_N, REDUCE) in [(2, 32)]), require(K % (128 / T::BITS) == 0))]
pub fn vectorized_loads<T: Float, const BLOCK_N: usize, const REDUCE: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let vec = 128 / T::BITS;
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, REDUCE]);
    let row = bn * BLOCK_N + tn;

    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    let mut sums = alloc_shared::<f32>([BLOCK_N]);
    if tk == 0 {
        sums[tn] = 0.0;
    }
    sync_threads();
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, REDUCE * vec) {
        for v in vectorized(0..vec) {
            xs[v] = x.masked([(bk * REDUCE + tk) * vec + v]);
            ws[v] = w.masked([row, (bk * REDUCE + tk) * vec + v]);
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
    }
    atomic_add(&mut sums[tn], acc);
    sync_threads();
    if tk == 0 && row < N {
        y[row] = sums[tn].cast::<T>();
    }
}
// ANCHOR_END: vectorized

// ANCHOR: allreduce
/// A thread allreduce instead of atomics: no order left to chance.
#[tile_kernel(instances((BLOCK_N, REDUCE) in [(2, 32)]), require(K % (128 / T::BITS) == 0))]
pub fn allreduce<T: Float, const BLOCK_N: usize, const REDUCE: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let vec = 128 / T::BITS;
    let [bn] = blocks([ceil_div(N, BLOCK_N)]);
    let [tn, tk] = threads([BLOCK_N, REDUCE]);
    let row = bn * BLOCK_N + tn;

    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, REDUCE * vec) {
        for v in vectorized(0..vec) {
            xs[v] = x.masked([(bk * REDUCE + tk) * vec + v]);
            ws[v] = w.masked([row, (bk * REDUCE + tk) * vec + v]);
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
    }
    let sum = thread_allreduce(Sum, acc, tk);
    if tk == 0 && row < N {
        y[row] = sum.cast::<T>();
    }
}
// ANCHOR_END: allreduce

// ANCHOR: coalesced
/// The guide's case 1: the threads of a warp share a row, so that they load neighbouring columns.
#[tile_kernel(instances(ROWS in [1, 2, 4, 8, 16]), require(K % (128 / T::BITS) == 0))]
pub fn coalesced<T: Float, const ROWS: usize>(x: &Tensor<T, (K,)>, w: &Tensor<T, (N, K)>, y: &mut Tensor<T, (N,)>) {
    let vec = 128 / T::BITS;
    let [bn] = blocks([ceil_div(N, ROWS)]);
    let [tk, tn] = threads([32, ROWS]);
    let row = bn * ROWS + tn;

    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, 32 * vec) {
        for v in vectorized(0..vec) {
            xs[v] = x.masked([bk * 32 * vec + tk * vec + v]);
            ws[v] = w.masked([row, bk * 32 * vec + tk * vec + v]);
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
    }
    let sum = thread_allreduce(Sum, acc, tk);
    if tk == 0 && row < N {
        y[row] = sum.cast::<T>();
    }
}
// ANCHOR_END: coalesced

// ANCHOR: shared_x
/// `x` through shared memory, loaded once by the block's first warp for all its rows.
#[tile_kernel(instances(ROWS in [2, 4, 8, 16]), require(K % (128 / T::BITS) == 0))]
pub fn shared_x<T: Float, const ROWS: usize>(x: &Tensor<T, (K,)>, w: &Tensor<T, (N, K)>, y: &mut Tensor<T, (N,)>) {
    let vec = 128 / T::BITS;
    let [bn] = blocks([ceil_div(N, ROWS)]);
    let [tk, tn] = threads([32, ROWS]);
    let row = bn * ROWS + tn;

    let mut x_shared = alloc_shared::<T>([32 * vec]);
    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    let mut acc = 0.0f32;
    for bk in 0..ceil_div(K, 32 * vec) {
        if tn == 0 {
            for v in vectorized(0..vec) {
                x_shared[tk * vec + v] = x.masked([bk * 32 * vec + tk * vec + v]);
            }
        }
        for v in vectorized(0..vec) {
            ws[v] = w.masked([row, bk * 32 * vec + tk * vec + v]);
        }
        sync_threads();
        for v in vectorized(0..vec) {
            xs[v] = x_shared[tk * vec + v];
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
        sync_threads();
    }
    let sum = thread_allreduce(Sum, acc, tk);
    if tk == 0 && row < N {
        y[row] = sum.cast::<T>();
    }
}
// ANCHOR_END: shared_x

// ANCHOR: cp_async
/// `W` through shared memory by `cp.async`, `STAGES - 1` steps ahead; `x` as far ahead in registers.
#[tile_kernel(
    instances((ROWS, STAGES) in [(2, 1), (2, 2), (2, 3)]),
    require(K % (128 / T::BITS) == 0)
)]
pub fn cp_async<T: Float, const ROWS: usize, const STAGES: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let vec = 128 / T::BITS;
    let [bn] = blocks([ceil_div(N, ROWS)]);
    let [tk, tn] = threads([32, ROWS]);
    let row = bn * ROWS + tn;

    let mut w_shared = alloc_shared::<T>([ROWS, 32 * vec]);
    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    let mut acc = 0.0f32;
    for bk in pipelined(0..ceil_div(K, 32 * vec), STAGES) {
        copy(w.at([bn * ROWS, bk * 32 * vec]), &mut w_shared);
        for v in vectorized(0..vec) {
            xs[v] = x.masked([bk * 32 * vec + tk * vec + v]);
        }
        for v in vectorized(0..vec) {
            ws[v] = w_shared[[tn, tk * vec + v]];
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
    }
    let sum = thread_allreduce(Sum, acc, tk);
    if tk == 0 && row < N {
        y[row] = sum.cast::<T>();
    }
}
// ANCHOR_END: cp_async
