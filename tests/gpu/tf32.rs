//! The bundled GEMM of f32 as tf32 on a GPU: integers with bits below those of tf32, which are not to count, bit by bit;
//! normal data against f64 within the stated bound.

use tile_bench::problem::Problem;
use tile_kernel_examples::data::integers;
use tile_kernel_examples::gemm::product;
use tile_kernel_examples::suites::gemm::Dense;
use tile_kernels::gemm::{Activation, Gemm, gemm, tf32};
use tile_runtime::prelude::*;

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

/// Integers, and the same with other bits below those of tf32.
fn cluttered(seed: u64, count: usize) -> (Vec<f32>, Vec<f32>) {
    let exact = integers::<f32>(seed, count, 3);
    let clutter = |(i, x): (usize, &f32)| f32::from_bits(x.to_bits() | (i as u32).wrapping_mul(2_654_435_761) >> 19);
    (exact.iter().enumerate().map(clutter).collect(), exact)
}

fn every_layout(device: &Device, shapes: &[[usize; 3]], clutter: bool) {
    for &[m, n, k] in shapes {
        for [a_transposed, b_transposed] in LAYOUTS {
            let ((a, a_exact), (b, b_exact)) = (cluttered(m as u64, m * k), cluttered(n as u64, n * k));
            let (a, b) = if clutter { (&a, &b) } else { (&a_exact, &b_exact) };
            let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
            let da = device.tensor(a, shape(a_transposed, m, k)).unwrap();
            let db = device.tensor(b, shape(b_transposed, k, n)).unwrap();
            // Poisoned: every element must be written.
            let mut dc = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() }.tf32();
            let wanted = product(&a_exact, &b_exact, [m, n, k], [a_transposed, b_transposed]);
            for _ in 0..2 {
                gemm(device, &da, &db, &mut dc, &options).unwrap();
                let found = dc.to_vec().unwrap();
                let wrong = found.iter().zip(&wanted).position(|(x, y)| x != y);
                assert!(wrong.is_none(), "{m} x {n} x {k}, {a_transposed} {b_transposed}: element {wrong:?}");
            }
        }
    }
}

/// Aligned for TMA, for copies of 16, 8 and 4 bytes, small and large.
const SHAPES: [[usize; 3]; 12] = [
    [64, 64, 64],
    [4, 4, 4],
    [128, 256, 32],
    [136, 264, 72],
    [264, 520, 1032],
    [72, 2056, 40],
    [1000, 1032, 520],
    [1536, 1544, 64],
    [256, 256, 0],
    [33, 34, 38],
    [33, 35, 37],
    [1301, 1303, 67],
];

#[test]
fn integers_in_every_layout() {
    let Some(device) = super::gpu() else { return };
    every_layout(&device, &SHAPES, false);
}

/// That the hardware reads the upper 19 bits and no more, by `wgmma` and by `mma.sync`: what the simulators do.
#[test]
fn bits_below_tf32_do_not_count() {
    let Some(device) = super::gpu() else { return };
    every_layout(&device, &SHAPES, true);
}

#[test]
fn every_tile() {
    let Some(device) = super::gpu() else { return };
    let layouts = LAYOUTS.into_iter().filter(|stored| tf32::takes(*stored));
    let all = layouts.flat_map(|stored| tf32::TILES.map(|tile| (tile, stored)));
    for (tile, stored) in all.filter(|(tile, stored)| tf32::has(*tile, *stored)) {
        let (bm, bn) = (tile.0 as usize, tile.1 as usize);
        // More tiles than multiprocessors, and tiles that hang over.
        for [m, n, k] in [[bm, bn, 32], [bm + 12, bn + 4, 100], [3 * bm + 4, 60 * bn + 12, 260], [8, bn, 4100]] {
            let ((a, a_exact), (b, b_exact)) = (cluttered(1, m * k), cluttered(2, n * k));
            let extents = [if stored[0] { [k, m] } else { [m, k] }, if stored[1] { [n, k] } else { [k, n] }];
            let (da, db) = (device.tensor(&a, extents[0]).unwrap(), device.tensor(&b, extents[1]).unwrap());
            let wanted = product(&a_exact, &b_exact, [m, n, k], stored);
            let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], ..Gemm::default() }.tf32();
            // The rows behind the result are somebody else's.
            let poison = 12345.0f32;
            let mut all = device.tensor(&vec![poison; (m + 40) * n], [m + 40, n]).unwrap();
            for _ in 0..2 {
                tf32::launch_tile(&device, tile, &da, &db, all.rows_mut(0..m).unwrap(), &options).unwrap();
                let found = all.to_vec().unwrap();
                let wrong = found[..m * n].iter().zip(&wanted).position(|(x, y)| x != y);
                assert_eq!(wrong, None, "{tile:?} {stored:?}: {m} x {n} x {k}");
                assert!(found[m * n..].iter().all(|x| *x == poison), "{tile:?} {stored:?}: {m} x {n} x {k}, behind");
            }
        }
    }
}

#[test]
fn normal_data_within_the_bound() {
    let Some(device) = super::gpu() else { return };
    for shape in [[5, 264, 4104], [129, 257, 520], [1000, 1032, 2048], [64, 4096, 7168], [4096, 4096, 4096]] {
        for transposed in LAYOUTS {
            let problem = Dense::<f32>::new(shape, transposed).tf32();
            let mut buffers = problem.buffers(&device).unwrap();
            problem.poison(&mut buffers).unwrap();
            let (a, b, c) = &mut buffers;
            gemm(&device, &*a, &*b, c, &problem.options()).unwrap();
            let error = problem.error(&buffers).unwrap();
            println!("{}: {error:.3} of the bound", problem.title());
            assert!(error <= 1.0, "{}: {error} times the bound", problem.title());
        }
    }
}

#[test]
fn the_epilogue() {
    let Some(device) = super::gpu() else { return };
    for [m, n, k] in [[200, 264, 136], [61, 67, 71]] {
        let ((a, a_exact), (b, b_exact)) = (cluttered(1, m * k), cluttered(2, n * k));
        let (old, shift) = (integers::<f32>(3, m * n, 2), integers::<f32>(4, n, 2));
        let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let bias = device.tensor(&shift, [n]).unwrap();
        let mut dc = device.tensor(&old, [m, n]).unwrap();
        let (alpha, beta, activation) = (0.5, 2.0, Activation::Relu);
        let options = Gemm { alpha, beta, bias: Some(&bias), activation, ..Gemm::nt() }.tf32();
        gemm(&device, &da, &db, &mut dc, &options).unwrap();
        let sums = product(&a_exact, &b_exact, [m, n, k], [false, true]);
        let wanted: Vec<f32> = (0..m * n).map(|at| (0.5 * sums[at] + 2.0 * old[at] + shift[at % n]).max(0.0)).collect();
        assert!(dc.to_vec().unwrap() == wanted, "{m} x {n} x {k}");
    }
}
