//! `#[tile_fn]`: functions that kernels call, in this module and another, give what writing their bodies out gives.

mod library {
    //! Functions of another module.
    use tile_runtime::prelude::*;

    /// A private one, which `scaled` brings along.
    #[tile_fn]
    fn twice<T: Float>(x: T) -> T {
        x + x
    }

    /// `factor x`, doubled.
    #[tile_fn(uses(twice))]
    pub fn scaled<T: Float, const FACTOR: usize>(x: T) -> f32 {
        twice(x).cast::<f32>() * (FACTOR as f32)
    }

    /// The sum of a row of a tile, in order.
    #[tile_fn]
    pub fn row_sum(tile: &SharedArray<f32, (ROWS, COLUMNS)>, row: usize) -> f32 {
        let mut sum = 0.0f32;
        if row < ROWS {
            for j in 0..COLUMNS {
                sum += tile[[row, j]];
            }
        }
        sum
    }
}

use library::scaled;
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// Adds what may be left out, and stores; M and N are the tensor's.
#[tile_fn]
fn put<T: Float>(y: &mut Tensor<T, (M, N)>, shift: Option<&Tensor<f32, (N,)>>, i: usize, j: usize, value: f32) {
    let mut value = value;
    if let Some(b) = shift {
        value += b.masked([j]);
    }
    if i < M && j < N {
        y[[i, j]] = value.cast::<T>();
    }
}

/// Every element of an array of a thread.
#[tile_fn]
fn add_all(values: &mut LocalArray<f32, (V,)>, x: f32) {
    for v in unroll(0..V) {
        values[v] += x;
    }
}

#[tile_kernel(instances(F in [3, 5]), uses(scaled, put, library::row_sum, add_all))]
pub fn called<T: Float, const F: usize>(
    x: &Tensor<T, (M, N)>,
    y: &mut Tensor<T, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
) {
    let [bm] = blocks([ceil_div(M, 8)]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([8, 32]);
    let mut pair = alloc_local::<f32>([2]);
    clear(&mut pair);
    for r in 0..8 {
        tile[[r, t]] = scaled::<T, F>(x.masked([bm * 8 + r, t])) + scaled::<T, 2>(x.masked([bm * 8 + r, t]));
    }
    sync_threads();
    add_all(&mut pair, library::row_sum(&tile, t));
    for r in 0..8 {
        let value = tile[[r, t]] + pair[1] + scaled::<_, 1>(1.0);
        put(y, bias, bm * 8 + r, t, value);
    }
}

/// `called` with its functions' bodies in place.
#[tile_kernel(instances(F in [3, 5]))]
pub fn written_out<T: Float, const F: usize>(
    x: &Tensor<T, (M, N)>,
    y: &mut Tensor<T, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
) {
    let [bm] = blocks([ceil_div(M, 8)]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([8, 32]);
    for r in 0..8 {
        let v = x.masked([bm * 8 + r, t]);
        let double = v + v;
        let w = x.masked([bm * 8 + r, t]);
        let again = w + w;
        tile[[r, t]] = double.cast::<f32>() * (F as f32) + again.cast::<f32>() * 2.0;
    }
    sync_threads();
    let mut sum = 0.0f32;
    if t < 8 {
        for j in 0..32 {
            sum += tile[[t, j]];
        }
    }
    for r in 0..8 {
        let mut value = tile[[r, t]] + sum + 2.0;
        if let Some(b) = bias {
            value += b.masked([t]);
        }
        if bm * 8 + r < M && t < N {
            y[[bm * 8 + r, t]] = value.cast::<T>();
        }
    }
}

/// A call inside `&&`, an arm of `if` and an argument of another call: single expressions may stand anywhere.
#[tile_fn]
fn is_small(x: f32) -> bool {
    abs(x) < 0.5
}

#[tile_kernel(uses(is_small, library::scaled))]
pub fn nested(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    let v = x.masked([i]);
    if i < N && !is_small(v) {
        y[i] = if is_small(v / 2.0) { 1.0 } else { library::scaled::<f32, 1>(library::scaled::<f32, 1>(v)) };
    }
}

#[test]
fn a_called_function_is_its_body() {
    let (m, n) = (13, 30);
    let x: Vec<f16> = (0..m * n).map(|i| f16::from_f32((i as f32 * 0.37).sin())).collect();
    let bias: Vec<f32> = (0..n).map(|i| i as f32 / 8.0).collect();
    for device in devices() {
        let (x, bias) = (device.tensor(&x, [m, n]).unwrap(), device.tensor(&bias, [n]).unwrap());
        for bias in [None, Some(&bias)] {
            let mut expected = device.zeros::<f16, 2>([m, n]).unwrap();
            let mut found = device.zeros::<f16, 2>([m, n]).unwrap();
            written_out::<f16, 3>::launch(&device, &x, &mut expected, bias).unwrap();
            called::<f16, 3>::launch(&device, &x, &mut found, bias).unwrap();
            assert_eq!(found.to_vec().unwrap(), expected.to_vec().unwrap());
            let first = found.to_vec().unwrap();
            called::<f16, 5>::launch(&device, &x, &mut found, bias).unwrap();
            assert_ne!(found.to_vec().unwrap(), first, "F reaches the function");
        }
    }
}

#[test]
fn a_function_of_one_expression_may_stand_anywhere() {
    let x = [0.25f32, 0.75, 2.0, -3.0];
    for device in devices() {
        let x = device.tensor(&x, [4]).unwrap();
        let mut y = device.zeros::<f32, 1>([4]).unwrap();
        nested::launch(&device, &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0, 1.0, 8.0, -12.0]);
    }
}

/// A report made when the kernel runs shows the function's line, in its file.
#[test]
fn a_report_shows_the_functions_line() {
    let definition = nested::definition();
    let kernel = definition.kernel().unwrap();
    assert_eq!(kernel.source.functions.len(), 3, "`scaled` brings `twice`");
    for text in &kernel.source.functions {
        assert!(text.file.ends_with("functions.rs"), "{}", text.file);
    }
    let all: Vec<&str> = kernel.source.functions.iter().flat_map(|t| &t.lines).map(String::as_str).collect();
    assert!(all.iter().any(|line| line.trim() == "abs(x) < 0.5"), "{all:#?}");
}
