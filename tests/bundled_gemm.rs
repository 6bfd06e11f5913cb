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

/// The tiles for few rows, and the dependent launch of all: `[BM, BN, BK, STAGES]`.
const SKINNY: [(i64, i64, usize, usize); 9] = [
    (8, 56, 128, 14),
    (16, 56, 128, 12),
    (16, 32, 128, 18),
    (32, 32, 128, 14),
    (32, 56, 128, 10),
    (32, 144, 64, 10),
    (64, 32, 128, 9),
    (64, 112, 64, 9),
    (64, 144, 64, 8),
];

/// What a tile makes of operands, with and without an epilogue.
fn by_tile(device: &Device, tile: (i64, i64, usize, usize), [m, n, k]: [usize; 3], epilogue: bool) -> Vec<bf16> {
    let (bm, bn, bk, stages) = tile;
    let choice = Choice { tile: (bm, bn, bk, stages, 128, 1), aligned: true };
    let (a, b) = (integers::<bf16>(1, m * k, 3), integers::<bf16>(2, n * k, 3));
    let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    let mut dc = device.tensor(&integers::<bf16>(3, m * n, 2), [m, n]).unwrap();
    let bias = device.tensor(&integers::<bf16>(4, n, 2), [n]).unwrap();
    let (alpha, beta, activation) = (0.5, 2.0, Activation::Relu);
    let options = match epilogue {
        true => Gemm { alpha, beta, bias: Some(&bias), activation, ..Gemm::nt() },
        false => Gemm::nt(),
    };
    GemmElement::launch(device, choice, &da, &db, &mut dc, &options).unwrap();
    dc.to_vec().unwrap()
}

/// Both simulators give the same bits, and those are the product's.
#[test]
fn few_rows_on_both_simulators() {
    let (fast, checked) = (Device::simulator(), Device::checked_simulator());
    for (i, tile) in SKINNY.into_iter().enumerate() {
        let (bm, bn) = (tile.0 as usize, tile.1 as usize);
        let rows = [1, 3, bm - 1, bm, 2 * bm + 5];
        for (j, k) in [8, 72, 520].into_iter().enumerate() {
            let shape = [rows[(i + j) % 5], bn / 8 * 8 + 8, k];
            for epilogue in [false, true] {
                let found = by_tile(&checked, tile, shape, epilogue);
                assert!(found == by_tile(&fast, tile, shape, epilogue), "{tile:?} {shape:?} {epilogue}");
                if !epilogue {
                    let [m, n, k] = shape;
                    let (a, b) = (integers::<bf16>(1, m * k, 3), integers::<bf16>(2, n * k, 3));
                    let wanted = product(&a, &b, shape, [false, true]).into_iter().map(bf16::from_f32);
                    assert!(found == wanted.collect::<Vec<_>>(), "{tile:?} {shape:?}");
                }
            }
        }
    }
}
