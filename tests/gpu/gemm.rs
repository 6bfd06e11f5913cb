//! The bundled GEMM on a GPU, against a product on the CPU: integers, whose sums are exact in any order.

use tile_kernel_examples::data::{Real, integers};
use tile_kernels::gemm::{Activation, Choice, Gemm, GemmElement, gemm};
use tile_runtime::prelude::*;

/// `a b`, exactly; `a` is M x K or, transposed, K x M; `b` likewise.
fn product<T: Real>(a: &[T], b: &[T], [m, n, k]: [usize; 3], [a_t, b_t]: [bool; 2]) -> Vec<f32> {
    let rows: Vec<Vec<f32>> =
        (0..m).map(|i| (0..k).map(|l| a[if a_t { l * m + i } else { i * k + l }].to_f32()).collect()).collect();
    let cols: Vec<Vec<f32>> =
        (0..n).map(|j| (0..k).map(|l| b[if b_t { j * k + l } else { l * n + j }].to_f32()).collect()).collect();
    rows.iter().flat_map(|row| cols.iter().map(|col| row.iter().zip(col).map(|(x, y)| x * y).sum::<f32>())).collect()
}

fn every_layout<T: GemmElement + Real>(device: &Device, shapes: &[[usize; 3]]) {
    for &[m, n, k] in shapes {
        for [a_transposed, b_transposed] in [[false, true], [false, false], [true, true], [true, false]] {
            let (a, b) = (integers::<T>(m as u64, m * k, 3), integers::<T>(n as u64, n * k, 3));
            let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
            let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
            let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
            // Poisoned: every element must be written.
            let mut dc = device.tensor(&vec![T::from_f32(12345.0); m * n], [m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
            let wanted: Vec<T> =
                product(&a, &b, [m, n, k], [a_transposed, b_transposed]).into_iter().map(T::from_f32).collect();
            for _ in 0..2 {
                gemm(device, &da, &db, &mut dc, &options).unwrap();
                let found = dc.to_vec().unwrap();
                let wrong = found.iter().zip(&wanted).position(|(x, y)| x != y);
                assert!(wrong.is_none(), "{m} x {n} x {k}, {a_transposed} {b_transposed}: element {wrong:?}");
            }
        }
    }
}

#[test]
fn aligned_shapes_in_every_layout() {
    let Some(device) = super::gpu() else { return };
    let shapes = [
        [64, 64, 64],
        [8, 8, 8],
        [128, 256, 64],
        [136, 264, 72],
        [16, 7168 / 8, 512],
        [264, 520, 1032],
        [512, 512, 64],
        [72, 2056, 40],
        [1000, 1032, 520],
        [640, 768, 8],
        [256, 256, 0],
    ];
    every_layout::<f16>(&device, &shapes);
    every_layout::<bf16>(&device, &shapes[2..6]);
}

/// The tiles for few rows, each on shapes that it does not divide, and on more rows than one tile has.
#[test]
fn few_rows_by_every_tile() {
    let Some(device) = super::gpu() else { return };
    let tiles = [
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
    for (bm, bn, bk, stages) in tiles {
        let choice = Choice { tile: (bm, bn, bk, stages, 128, 1), aligned: true };
        let (rows, cols) = (bm as usize, bn as usize);
        for m in [1, 3, rows - 1, rows, 2 * rows + 5] {
            for (n, k) in [(cols, 8), (cols + 8, 72), (3 * cols + 8, 520), (150 * cols + 8, 136), (8, 4104)] {
                // More tiles than multiprocessors; the CPU multiplies them slowly.
                if n > 100 * cols && m > 3 {
                    continue;
                }
                let (a, b) = (integers::<bf16>(m as u64, m * k, 3), integers::<bf16>(n as u64, n * k, 3));
                let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
                let wanted: Vec<bf16> =
                    product(&a, &b, [m, n, k], [false, true]).into_iter().map(bf16::from_f32).collect();
                // The rows behind the result are somebody else's.
                let poison = bf16::from_f32(12345.0);
                let mut all = device.tensor(&vec![poison; (m + 40) * n], [m + 40, n]).unwrap();
                for _ in 0..2 {
                    GemmElement::launch(&device, choice, &da, &db, all.rows_mut(0..m).unwrap(), &Gemm::nt()).unwrap();
                    let found = all.to_vec().unwrap();
                    let wrong = found[..m * n].iter().zip(&wanted).position(|(x, y)| x != y);
                    assert_eq!(wrong, None, "{bm} x {bn}: {m} x {n} x {k}");
                    assert!(found[m * n..].iter().all(|x| *x == poison), "{bm} x {bn}: {m} x {n} x {k}, behind");
                }
            }
        }
    }
}

#[test]
fn any_shape_in_every_layout() {
    let Some(device) = super::gpu() else { return };
    every_layout::<f16>(&device, &[[1, 1, 1], [33, 35, 37], [127, 65, 131], [3, 257, 19], [5, 7, 0]]);
}

#[test]
fn the_epilogue() {
    let Some(device) = super::gpu() else { return };
    for [m, n, k] in [[200, 264, 136], [61, 67, 71]] {
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
                let error = (found.to_f32() - wanted).abs();
                assert!(error <= 2e-3 * wanted.abs().max(1.0), "{activation:?} at {at}: {found} {wanted}");
            }
        }
    }
}
