//! The GEMV of the language's description.

use tile_runtime::prelude::*;

/// y = W x: a warp per row, 16-byte loads, reduction by shuffles.
#[tile_kernel(instances(ROWS in [1, 2, 4]), require(K % (128 / T::BITS) == 0))]
pub fn gemv<T: Float, const ROWS: usize>(x: &Tensor<T, (K,)>, w: &Tensor<T, (N, K)>, y: &mut Tensor<T, (N,)>) {
    let vec = 128 / T::BITS;
    let [bn] = blocks([ceil_div(N, ROWS)]);
    let [tk, tn] = threads([32, ROWS]);
    let row = bn * ROWS + tn;

    let mut acc = 0.0f32;
    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
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

/// The ways to launch it.
pub fn launches(device: &Device, x: &Tensor<f16, 1>, w: &Tensor<f16, 2>, y: &mut Tensor<f16, 1>, rows: usize) {
    let _ = gemv::<f16, 4>::launch(device, x, w, &mut *y);
    let _ = gemv::<_, 4>::launch(device, x, w, &mut *y);
    if let Ok(kernel) = gemv::<f16>::instance(device, GemvParams { ROWS: rows }) {
        let _ = kernel.launch(x, w, &mut *y);
        let _ = kernel.launch_on(device, x, w, y);
    }
    let _ = gemv::<f16>::definition();
}
