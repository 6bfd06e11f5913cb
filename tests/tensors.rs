//! Tensors of four axes, and extents that other dims give: `Extent<{ 2 * K }>`. On both simulators, and on a GPU where there is one.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// The rows of a (batch, head, position, depth) tensor, rotated by a table of sines and cosines of half the depth (RoPE): element
/// accesses of four axes, and an extent that is twice a dim.
#[tile_kernel]
pub fn rotated<T: Float>(
    table: &Tensor<f32, (S, H2)>,
    x: &Tensor<T, (B, H, S, Extent<{ 2 * H2 }>)>,
    y: &mut Tensor<T, (B, H, S, Extent<{ 2 * H2 }>)>,
) {
    let [s, h, b] = blocks([S, H, B]);
    let [t] = threads([64]);
    for k in 0..ceil_div(H2, 64) {
        let i = k * 64 + t;
        if i < H2 {
            let angle = table[[s, i]];
            let low = x[[b, h, s, i]].cast::<f32>();
            let high = x[[b, h, s, H2 + i]].cast::<f32>();
            y[[b, h, s, i]] = (low * cos(angle) - high * sin(angle)).cast::<T>();
            y[[b, h, s, H2 + i]] = (high * cos(angle) + low * sin(angle)).cast::<T>();
        }
    }
}

/// Tiles of the last two axes of four, copied, transposed of heads and positions: (B, S, H, D) to (B, H, S, D).
#[tile_kernel]
pub fn regrouped<T: Float>(x: &Tensor<T, (B, S, H, D)>, y: &mut Tensor<T, (B, H, S, D)>) {
    let [bs, h, b] = blocks([ceil_div(S, 16), H, B]);
    let [t] = threads([64]);
    let mut rows = alloc_shared::<T>([16, 1, 64]);
    copy(x.at([b, bs * 16, h, 0]), &mut rows);
    for r in 0..16 {
        if bs * 16 + r < S && t < D {
            y[[b, h, bs * 16 + r, t]] = rows[[r, 0, t]];
        }
    }
}

/// A product of the matrices of each head, (B, H, M, K) by (B, H, N, K): tiles of four-axis tensors for tensor cores, by the copy
/// engine where there is one.
#[tile_kernel(instances(STAGES in [2]))]
pub fn by_head<T: Half, const STAGES: usize>(
    a: &Tensor<T, (B, H, M, K)>,
    b: &Tensor<T, (B, H, N, K)>,
    c: &mut Tensor<T, (B, H, M, N)>,
) {
    let [bx, by, bh] = blocks([ceil_div(N, 64), ceil_div(M, 64), B * H]);
    threads([128]);
    let batch = bh / H;
    let head = bh % H;
    let mut a_s = alloc_shared::<T>([64, 64]);
    let mut b_s = alloc_shared::<T>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), STAGES) {
        copy(a.at([batch, head, by * 64, k * 64]), &mut a_s);
        copy(b.at([batch, head, bx * 64, k * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([batch, head, by * 64, bx * 64]));
}

/// SwiGLU of a fused projection: the gate and the value lie beside each other in a row of `2 * N`.
#[tile_kernel(require(N % 4 == 0))]
pub fn swiglu<T: Float>(y: &mut Tensor<T, (M, N)>, x: &Tensor<T, (M, Extent<{ 2 * N }>)>) {
    let [b, m] = blocks([ceil_div(N, 256), M]);
    let [t] = threads([64]);
    let first = b * 256 + t * 4;
    let mut gate = alloc_local::<T>([4]);
    let mut value = alloc_local::<T>([4]);
    if first < N {
        for v in vectorized(0..4) {
            gate[v] = x[[m, first + v]];
            value[v] = x[[m, N + first + v]];
        }
        for v in vectorized(0..4) {
            let g = gate[v].cast::<f32>();
            y[[m, first + v]] = (g / (1.0 + exp(-g)) * value[v].cast::<f32>()).cast::<T>();
        }
    }
}

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32 / 8.0 - 6.0).collect()
}

#[test]
fn an_extent_of_another_dim_bounds_accesses() {
    for definition in [rotated::<f32>::definition(), swiglu::<f32>::definition()] {
        let kernel = definition.kernel().unwrap();
        let program = tile_ir::lower::lower(kernel, &kernel.instances[0], tile_ir::ir::Target::Sm80).unwrap();
        let text = tile_ir::emit::cuda::emit(&program);
        assert!(!text.contains('?'), "{}: nothing is left to guard:\n{text}", kernel.name);
    }
}

/// `explain` asks for no value of an extent that other dims give.
#[test]
fn an_extent_of_another_dim_needs_no_value() {
    let kernel = swiglu::<f32>::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], tile_ir::ir::Target::Sm80).unwrap();
    let shape = tile_ir::explain::Shape::dense(&program, &[("M", 3.0), ("N", 8.0)]).unwrap();
    let given = tile_ir::explain::Shape::dense(&program, &[("M", 3.0), ("N", 8.0), ("2 * N", 16.0)]).unwrap();
    assert_eq!(shape, given);
}

#[test]
fn rope_of_four_axes() {
    let [b, h, s] = [2, 3, 5];
    for half in [1, 24, 70] {
        let d = 2 * half;
        let (x, angles) = (values(b * h * s * d), values(s * half));
        for device in devices() {
            let table = device.tensor(&angles, [s, half]).unwrap();
            let data = device.tensor(&x, [b, h, s, d]).unwrap();
            let mut y = device.zeros::<f32, 4>([b, h, s, d]).unwrap();
            rotated::<f32>::launch(&device, &table, &data, &mut y).unwrap();
            for (row, found) in y.to_vec().unwrap().chunks(d).enumerate() {
                for i in 0..half {
                    let (sin, cos) = angles[row % s * half + i].sin_cos();
                    let (low, high) = (x[row * d + i], x[row * d + half + i]);
                    let wanted = [low * cos - high * sin, high * cos + low * sin];
                    for (found, wanted) in [found[i], found[half + i]].into_iter().zip(wanted) {
                        assert!((found - wanted).abs() < 1e-4, "{device:?}: {found} {wanted}");
                    }
                }
            }
            let mut short = device.zeros::<f32, 4>([b, h, s, d + 1]).unwrap();
            let error = rotated::<f32>::launch(&device, &table, &data, &mut short).unwrap_err().to_string();
            let numbers = [format!("= {d} ("), format!("= {} (`y`", d + 1)];
            assert!(numbers.iter().all(|n| error.contains(n)), "{error}");
            let wrong = device.tensor(&values(b * h * s * (d + 1)), [b, h, s, d + 1]).unwrap();
            let mut y = device.zeros::<f32, 4>([b, h, s, d + 1]).unwrap();
            let error = rotated::<f32>::launch(&device, &table, &wrong, &mut y).unwrap_err().to_string();
            let said = format!("`x` must have extent 2 * H2 = {d} on axis 3, it has {}: H2 = {half}", d + 1);
            assert!(error.contains(&said), "{error}");
        }
    }
}

#[test]
fn tiles_of_four_axes() {
    let [b, s, h, d] = [2, 37, 3, 50];
    let x = values(b * s * h * d);
    for device in devices() {
        let data = device.tensor(&x, [b, s, h, d]).unwrap();
        let mut y = device.zeros::<f32, 4>([b, h, s, d]).unwrap();
        regrouped::<f32>::launch(&device, &data, &mut y).unwrap();
        let y = y.to_vec().unwrap();
        for (at, found) in y.iter().enumerate() {
            let (i, j, k, l) = (at / (h * s * d), at / (s * d) % h, at / d % s, at % d);
            assert_eq!(*found, x[((i * s + k) * h + j) * d + l], "{device:?}");
        }
    }
}

/// A view with two axes exchanged is read and written where its elements lie; the last axis stays.
#[test]
fn axes_are_exchanged() {
    let [b, s, h, d] = [2, 5, 3, 8];
    for device in devices() {
        let x = device.tensor(&values(b * s * h * d), [b, s, h, d]).unwrap();
        let swapped = x.view().swap_axes(1, 2).unwrap();
        assert_eq!((swapped.shape(), swapped.strides()), ([b, h, s, d], [s * h * d, d, h * d, 1]));
        // The kernel exchanges them once more.
        let mut y = device.tensor(&vec![f32::NAN; b * s * h * d], [b, s, h, d]).unwrap();
        regrouped::<f32>::launch(&device, &x, y.view_mut().swap_axes(1, 2).unwrap()).unwrap();
        assert_eq!(y.to_vec().unwrap(), x.to_vec().unwrap());
        let mut z = device.tensor(&vec![f32::NAN; b * s * h * d], [b, s, h, d]).unwrap();
        regrouped::<f32>::launch(&device, swapped, &mut z).unwrap();
        assert_eq!(z.to_vec().unwrap(), x.to_vec().unwrap());
        for [first, second] in [[0, 3], [3, 2], [4, 4], [0, 9]] {
            let said = x.view().swap_axes(first, second).unwrap_err().to_string();
            assert!(said.contains(&format!("axes {first} and {second} of 4")), "{said}");
        }
        assert_eq!(x.view().swap_axes(3, 3).unwrap().shape(), [b, s, h, d]);
    }
}

#[test]
fn products_of_four_axes() {
    let [b, h, m, n, k] = [2, 2, 70, 40, 72];
    let whole = |seed: usize, len: usize| -> Vec<f16> {
        (0..len).map(|i| f16::from_f32(((i * 7 + seed) % 5) as f32 - 2.0)).collect()
    };
    let (a, w) = (whole(1, b * h * m * k), whole(2, b * h * n * k));
    for device in devices() {
        let (da, dw) = (device.tensor(&a, [b, h, m, k]).unwrap(), device.tensor(&w, [b, h, n, k]).unwrap());
        let mut c = device.zeros::<f16, 4>([b, h, m, n]).unwrap();
        by_head::<f16, 2>::launch(&device, &da, &dw, &mut c).unwrap();
        for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
            let (matrix, i, j) = (at / (m * n), at / n % m, at % n);
            let dot: f32 =
                (0..k).map(|l| a[(matrix * m + i) * k + l].to_f32() * w[(matrix * n + j) * k + l].to_f32()).sum();
            assert_eq!(found.to_f32(), dot, "{device:?}: {matrix}, {i}, {j}");
        }
    }
    // By TMA on Hopper, and by nothing less.
    let kernel = by_head::<f16, 2>::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], tile_ir::ir::Target::Sm90a).unwrap();
    assert_eq!(program.tensor_maps.len(), 3);
}

#[test]
fn swiglu_of_a_fused_projection() {
    let (m, n) = (3, 300);
    let x = values(m * 2 * n);
    for device in devices() {
        let data = device.tensor(&x, [m, 2 * n]).unwrap();
        let mut y = device.zeros::<f32, 2>([m, n]).unwrap();
        swiglu::<f32>::launch(&device, &mut y, &data).unwrap();
        for (at, found) in y.to_vec().unwrap().into_iter().enumerate() {
            let (g, v) = (x[at / n * 2 * n + at % n], x[at / n * 2 * n + n + at % n]);
            let wanted = g / (1.0 + (-g).exp()) * v;
            assert!((found - wanted).abs() <= wanted.abs() * 1e-5 + 1e-6, "{device:?}: {found} {wanted}");
        }
    }
}
