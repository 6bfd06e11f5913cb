//! The bundled GEMM: against a product on the CPU, on both simulators.

use tile_kernel_examples::data::{Real, integers};
use tile_kernels::gemm::{Activation, Choice, Gemm, GemmElement, gemm};
use tile_runtime::prelude::*;

/// `a b` on integers, exactly.
fn product<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3], [a_t, b_t]: [bool; 2]) -> Vec<f32> {
    let a_at = |i: usize, l: usize| a[if a_t { l * m + i } else { i * k + l }].to_f32();
    let b_at = |l: usize, j: usize| b[if b_t { j * k + l } else { l * n + j }].to_f32();
    let mut c = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            c.push((0..k).map(|l| a_at(i, l) * b_at(l, j)).sum());
        }
    }
    c
}

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

fn plain<T: GemmElement + Real>(device: &Device, shapes: &[[usize; 3]], layouts: &[[bool; 2]]) {
    for &[m, n, k] in shapes {
        for &[a_transposed, b_transposed] in layouts {
            let (a, b) = (integers::<T>(1, m * k, 3), integers::<T>(2, n * k, 3));
            let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
            let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
            let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
            let mut dc = device.zeros::<T, 2>([m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
            gemm(device, &da, &db, &mut dc, &options).unwrap();
            let wanted: Vec<T> =
                product(&a, &b, [m, n, k], [a_transposed, b_transposed]).into_iter().map(T::from_f32).collect();
            assert!(dc.to_vec().unwrap() == wanted, "{m} x {n} x {k}, {a_transposed} {b_transposed}");
        }
    }
}

#[test]
fn every_layout_on_the_fast_simulator() {
    let shapes = [[1, 1, 1], [64, 64, 64], [129, 264, 72], [16, 136, 200], [3, 5, 7], [200, 8, 0]];
    plain::<f16>(&Device::simulator(), &shapes, &LAYOUTS);
    plain::<bf16>(&Device::simulator(), &shapes[2..3], &LAYOUTS);
}

/// The program that the GPU runs, lane by lane: roles, barriers, the copy engine and products of warpgroups.
#[test]
fn every_layout_on_the_checked_simulator() {
    plain::<f16>(&Device::checked_simulator(), &[[72, 136, 136]], &LAYOUTS);
}

#[test]
fn unaligned_operands_on_the_checked_simulator() {
    plain::<f16>(&Device::checked_simulator(), &[[33, 35, 37]], &LAYOUTS);
}

#[test]
fn the_epilogue() {
    let device = Device::simulator();
    let [m, n, k] = [40, 72, 48];
    let (a, b) = (integers::<f16>(1, m * k, 2), integers::<f16>(2, n * k, 2));
    let (old, shift) = (integers::<f16>(3, m * n, 2), integers::<f16>(4, n, 2));
    let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    let bias = device.tensor(&shift, [n]).unwrap();
    let sums = product(&a, &b, [m, n, k], [false, true]);
    for activation in [Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu] {
        let mut dc = device.tensor(&old, [m, n]).unwrap();
        let options = Gemm { alpha: 0.5, beta: 2.0, bias: Some(&bias), activation, ..Gemm::nt() };
        gemm(&device, &da, &db, &mut dc, &options).unwrap();
        for (at, found) in dc.to_vec().unwrap().into_iter().enumerate() {
            let x = 0.5 * sums[at] + 2.0 * old[at].to_f32() + shift[at % n].to_f32();
            let wanted = match activation {
                Activation::None => x,
                Activation::Relu => x.max(0.0),
                Activation::Gelu => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
                Activation::Silu => x / (1.0 + (-x).exp()),
            };
            assert!(
                (found.to_f32() - wanted).abs() <= 1e-3 * wanted.abs().max(1.0),
                "{activation:?} at {at}: {found} {wanted}"
            );
        }
    }
}

#[test]
fn shapes_that_disagree_are_refused() {
    let device = Device::simulator();
    let (a, b) = (device.zeros::<f16, 2>([64, 32]).unwrap(), device.zeros::<f16, 2>([48, 40]).unwrap());
    let mut c = device.zeros::<f16, 2>([64, 48]).unwrap();
    let error = gemm(&device, &a, &b, &mut c, &Gemm::nt()).unwrap_err().to_string();
    assert!(error.contains("32") && error.contains("40"), "{error}");
}

#[test]
fn the_choice_is_an_instance() {
    for m in [1, 16, 100, 1000, 10_000] {
        for n in [8, 500, 4096, 30_000] {
            for k in [0, 64, 1000, 20_000] {
                for [a_t, b_t] in LAYOUTS {
                    let Choice { tile: (bm, bn, ..), .. } = Choice::for_shape(m, n, k, [a_t, b_t]);
                    assert!(bm * bn > 0 && (b_t || bn % 64 == 0), "{m} {n} {k}: {bm} x {bn}");
                }
            }
        }
    }
}
