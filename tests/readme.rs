//! README's kernel compiles as it stands, and computes what it says.

#[rustfmt::skip] // README's own layout
mod kernel {
// ANCHOR: readme
use tile_runtime::prelude::*;

/// y = W x: a warp per row, 16-byte loads, reduction by shuffles.
#[tile_kernel(instances(ROWS in [1, 2, 4, 8, 16]), require(K % (128 / T::BITS) == 0))]
pub fn gemv<T: Float, const ROWS: usize>(
    x: &Tensor<T, (K,)>,
    w: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (N,)>,
) {
    let vec = 128 / T::BITS;                    // a constant, made of constants: 8 for f16
    let [bn] = blocks([ceil_div(N, ROWS)]);     // gridDim; returns blockIdx
    let [tk, tn] = threads([32, ROWS]);         // blockDim; returns threadIdx, x first
    let row = bn * ROWS + tn;

    let mut acc = 0.0f32;
    let mut xs = alloc_local::<T>([vec]);
    let mut ws = alloc_local::<T>([vec]);
    for bk in 0..ceil_div(K, 32 * vec) {
        for v in vectorized(0..vec) {           // each access is one 16-byte load, or an error
            xs[v] = x.masked([bk * 32 * vec + tk * vec + v]);       // 0 past the end
            ws[v] = w.masked([row, bk * 32 * vec + tk * vec + v]);
        }
        for v in unroll(0..vec) {
            acc += xs[v].cast::<f32>() * ws[v].cast::<f32>();
        }
    }
    let sum = thread_allreduce(Sum, acc, tk);   // over the threads that differ only in tk
    if tk == 0 && row < N { y[row] = sum.cast::<T>(); }
}
// ANCHOR_END: readme
}

use tile_runtime::prelude::*;

#[test]
fn readme_shows_this_kernel() {
    let between = |text: &str, start: &str, end: &str| {
        text.split(start).nth(1).and_then(|rest| rest.split(end).next()).map(|part| part.trim().to_owned()).unwrap()
    };
    let readme = include_str!("../README.md");
    let here = between(include_str!("readme.rs"), "// ANCHOR: readme\n", "// ANCHOR_END: readme\n");
    assert_eq!(between(readme, "```rust\n", "```"), here, "README's first listing is the kernel of tests/readme.rs");
}

#[test]
fn readme_kernel_multiplies() {
    let device = Device::simulator();
    for (n, k) in [(1, 8), (7, 256), (33, 1000), (64, 264)] {
        let value = |i: usize| f16::from_f32(((i * 37 + 11) % 17) as f32 / 8.0 - 1.0);
        let (x, w): (Vec<f16>, Vec<f16>) = ((0..k).map(value).collect(), (0..n * k).map(|i| value(i + 5)).collect());
        let on_device_x = device.tensor(&x, [k]).unwrap();
        let on_device_w = device.tensor(&w, [n, k]).unwrap();
        let mut on_device_y = device.zeros::<f16, 1>([n]).unwrap();
        kernel::gemv::<f16, 8>::launch(&device, &on_device_x, &on_device_w, &mut on_device_y).unwrap();
        let y = on_device_y.to_vec().unwrap();
        for row in 0..n {
            // The products are multiples of 1/64 and small, so every sum is exact and only the store rounds.
            let sum: f64 = (0..k).map(|i| x[i].to_f64() * w[row * k + i].to_f64()).sum();
            assert_eq!(y[row], f16::from_f64(sum), "row {row} of {n} x {k}");
        }
    }
}
