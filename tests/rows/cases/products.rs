//! The matrix-vector products of a decode step.

use super::*;
use tile_kernel_examples::data::normal;
use tile_kernel_examples::rows as reference;
use tile_kernels::gemm::gated;
use tile_kernels::gemv::Gemv;
use tile_kernels::gemv::stream::{Norm, norm_product, norm_swiglu, product, takes};

const EPSILON: f32 = 1e-6;
/// Rows and columns: every instance, fewer rows than blocks, rings that go round, and extents that divide nothing.
const SHAPES: [[usize; 2]; 9] =
    [[1, 8], [265, 16], [13_000, 8], [24, 1032], [17, 2056], [9, 4104], [5, 8200], [3, 12_552], [0, 16]];

/// Random weights and vectors of a shape, on the device and in f64.
struct Operands<T: Element> {
    w: Tensor<T, 2>,
    x: Tensor<T, 1>,
    weight: Tensor<T, 1>,
    wide_w: Vec<f64>,
    wide_x: Vec<f64>,
    /// RMSNorm of x.
    normed: Vec<f64>,
}

impl<T: Rounded> Operands<T> {
    fn new(device: &Device, n: usize, k: usize) -> Self {
        let (w, x, weight) = (normal::<T>(k as u64, n * k), normal::<T>(7, k), normal::<T>(8, k));
        let normed = reference::rms_norm(&wide(&x), &wide(&weight), f64::from(EPSILON));
        Operands {
            w: device.tensor(&w, [n, k]).unwrap(),
            x: device.tensor(&x, [k]).unwrap(),
            weight: device.tensor(&weight, [k]).unwrap(),
            wide_w: wide(&w),
            wide_x: wide(&x),
            normed,
        }
    }

    fn norm(&self) -> Norm<'_, T> {
        Norm { weight: &self.weight, epsilon: EPSILON }
    }
}

/// `w x`, and for each row the sum of magnitudes, which errors of f32 are relative to.
fn rows(w: &[f64], x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let sum = |row: &[f64], of: fn(f64) -> f64| row.iter().zip(x).map(|(a, b)| of(a * b)).sum::<f64>();
    w.chunks(x.len()).map(|row| (sum(row, |v| v), sum(row, f64::abs))).unzip()
}

/// Panics where a row is further off than its rounding and an f32's 2e-6 of its magnitudes.
fn near<T: Rounded>(found: &[T], wanted: &[f64], magnitudes: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (row, ((found, wanted), magnitude)) in found.iter().zip(wanted).zip(magnitudes).enumerate() {
        close(&[*found], &[*wanted], T::EPSILON, 2e-6 * magnitude, &format!("{what}, row {row}"));
    }
}

/// `y = alpha w x + beta y`.
pub fn products<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for [n, k] in SHAPES.into_iter().filter(|[_, k]| takes::<T>(device, *k, false)) {
        let on = Operands::<T>::new(device, n, k);
        let old = normal::<T>(9, n);
        let (sums, magnitudes) = rows(&on.wide_w, &on.wide_x);
        for (alpha, beta) in [(1.0, 0.0), (0.5, 1.0)] {
            // What is not read may be anything.
            let before = if beta == 0.0 { vec![T::from_f32(f32::NAN); n] } else { old.clone() };
            let mut y = device.tensor(&before, [n]).unwrap();
            product(device, &on.w, &on.x, &mut y, Gemv { alpha, beta }).unwrap();
            let y = y.to_vec().unwrap();
            let added = wide(&old).into_iter().map(|old| if beta == 0.0 { 0.0 } else { old });
            let wanted: Vec<f64> = sums.iter().zip(added).map(|(sum, old)| f64::from(alpha) * sum + old).collect();
            near(&y, &wanted, &magnitudes, &format!("{n} x {k}, beta {beta}"));
            all.extend(bits(&y));
        }
    }
    all
}

/// `y = w n`, in the type of `w` and in f32, where n is RMSNorm of x.
pub fn norm_products<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for [n, k] in SHAPES.into_iter().filter(|[_, k]| takes::<T>(device, *k, false)) {
        let on = Operands::<T>::new(device, n, k);
        let (wanted, magnitudes) = rows(&on.wide_w, &on.normed);
        let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n]).unwrap();
        norm_product(device, &on.w, &on.x, on.norm(), &mut y).unwrap();
        near(&y.to_vec().unwrap(), &wanted, &magnitudes, &format!("{n} x {k}"));
        let mut wide = device.tensor(&vec![f32::NAN; n], [n]).unwrap();
        norm_product(device, &on.w, &on.x, on.norm(), &mut wide).unwrap();
        near(&wide.to_vec().unwrap(), &wanted, &magnitudes, &format!("{n} x {k} in f32"));
        all.extend(bits(&y.to_vec().unwrap()).into_iter().chain(bits(&wide.to_vec().unwrap())));
    }
    all
}

/// `y = silu(g) u`, where g and u are the halves of `w n`.
pub fn norm_swiglus<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for [r, k] in SHAPES.into_iter().filter(|[_, k]| takes::<T>(device, *k, true)) {
        let on = Operands::<T>::new(device, 2 * r, k);
        let (products, magnitudes) = rows(&on.wide_w, &on.normed);
        let wanted = if r == 0 { vec![] } else { reference::swiglu(&products, r) };
        let mut y = device.tensor(&vec![T::from_f32(f32::NAN); r], [r]).unwrap();
        norm_swiglu(device, &on.w, &on.x, on.norm(), &mut y).unwrap();
        let y = y.to_vec().unwrap();
        let bounds: Vec<f64> = (0..r).map(|row| gated_bound(&products, &magnitudes, r, row)).collect();
        near(&y, &wanted, &bounds, &format!("{r} pairs x {k}"));
        all.extend(bits(&y));
    }
    all
}

/// `y = silu(g) u`, where g and u are the halves of `x w^T` of several rows: as called, and by every instance; rows and columns that fill no tile,
/// and a depth that fills no step.
pub fn gated_products<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    let called = [[3, 40, 72], [16, 96, 128], [65, 104, 64], [0, 8, 8]].map(|shape| (shape, None));
    let each = gated::TILES.map(|tile| ([tile.0 as usize + 9, tile.1 as usize + 24, 200], Some(tile)));
    for ([m, n, k], tile) in called.into_iter().chain(each) {
        assert!(gated::takes::<T>(device, k));
        let (x, w) = (normal::<T>(5, m * k), normal::<T>(k as u64, 2 * n * k));
        let mut y = device.tensor(&vec![T::from_f32(f32::NAN); m * n], [m, n]).unwrap();
        let (on_x, on_w) = (device.tensor(&x, [m, k]).unwrap(), device.tensor(&w, [2 * n, k]).unwrap());
        match tile {
            Some(tile) => gated::gated_by(device, tile, &on_x, &on_w, &mut y).unwrap(),
            None => gated::gated(device, &on_x, &on_w, &mut y).unwrap(),
        }
        let (y, w) = (y.to_vec().unwrap(), wide(&w));
        for (row, x) in wide(&x).chunks(k).enumerate() {
            let (products, magnitudes) = rows(&w, x);
            let wanted = reference::swiglu(&products, n);
            let bounds: Vec<f64> = (0..n).map(|j| gated_bound(&products, &magnitudes, n, j)).collect();
            near(&y[row * n..][..n], &wanted, &bounds, &format!("{m} x {n} pairs x {k} by {tile:?}, row {row}"));
        }
        all.extend(bits(&y));
    }
    all
}

/// What an error of `silu(g) u` is relative to. silu(g) grows no faster than 1.1 |g|: the errors of both factors, each times the other.
fn gated_bound(products: &[f64], magnitudes: &[f64], n: usize, j: usize) -> f64 {
    1.1 * (magnitudes[j] * products[n + j].abs() + magnitudes[n + j] * products[j].abs()) + magnitudes[j] * 1e-3
}
