//! The bundled GEMM of f32 as tf32: against a product on the CPU, on both simulators.

use tile_bench::problem::Problem;
use tile_kernel_examples::data::integers;
use tile_kernel_examples::gemm::product;
use tile_kernel_examples::suites::gemm::Dense;
use tile_kernels::gemm::{Activation, Gemm, gemm, tf32};
use tile_runtime::prelude::*;

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

/// Integers with bits below those of tf32, which are not to count.
fn cluttered(seed: u64, count: usize) -> (Vec<f32>, Vec<f32>) {
    let exact = integers::<f32>(seed, count, 3);
    let clutter = |(i, x): (usize, &f32)| f32::from_bits(x.to_bits() | (i as u32).wrapping_mul(2_654_435_761) >> 19);
    (exact.iter().enumerate().map(clutter).collect(), exact)
}

fn shape(transposed: bool, rows: usize, cols: usize) -> [usize; 2] {
    if transposed { [cols, rows] } else { [rows, cols] }
}

fn plain(device: &Device, shapes: &[[usize; 3]], layouts: &[[bool; 2]]) {
    for &[m, n, k] in shapes {
        for &[a_transposed, b_transposed] in layouts {
            let ((a, a_exact), (b, b_exact)) = (cluttered(1, m * k), cluttered(2, n * k));
            let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
            let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
            let mut dc = device.tensor(&vec![12345.0f32; m * n], [m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() }.tf32();
            gemm(device, &da, &db, &mut dc, &options).unwrap();
            let wanted = product(&a_exact, &b_exact, [m, n, k], [a_transposed, b_transposed]);
            assert!(dc.to_vec().unwrap() == wanted, "{m} x {n} x {k}, {a_transposed} {b_transposed}");
        }
    }
}

#[test]
fn every_layout_on_the_fast_simulator() {
    let shapes = [[1, 1, 1], [64, 64, 64], [129, 264, 72], [16, 136, 200], [3, 5, 7], [200, 8, 0]];
    plain(&Device::simulator(), &shapes, &LAYOUTS);
}

/// The program that the GPU runs, lane by lane, aligned and not.
#[test]
fn every_layout_on_the_checked_simulator() {
    plain(&Device::checked_simulator(), &[[72, 136, 68], [33, 34, 38], [33, 35, 37]], &LAYOUTS);
}

/// Both simulators give the same bits by every tile, ragged and with an epilogue; those bits are the product's.
#[test]
fn every_tile_on_both_simulators() {
    let (fast, checked) = (Device::simulator(), Device::checked_simulator());
    let layouts = LAYOUTS.into_iter().filter(|stored| tf32::takes(*stored));
    let all = layouts.flat_map(|stored| tf32::TILES.map(|tile| (tile, stored)));
    for (tile, stored) in all.filter(|(tile, stored)| tf32::has(*tile, *stored)) {
        let (bm, bn) = (tile.0 as usize, tile.1 as usize);
        for ([m, n, k], epilogue) in [
            ([bm + 12, bn + 4, 100], false),
            ([bm, bn, 32], true),
            ([2 * bm + 4, 8, 36], true),
            ([8, bn + 12, 4], false),
        ] {
            let ((a, a_exact), (b, b_exact)) = (cluttered(1, m * k), cluttered(2, n * k));
            let extents = [if stored[0] { [k, m] } else { [m, k] }, if stored[1] { [n, k] } else { [k, n] }];
            let by = |device: &Device| {
                let (da, db) = (device.tensor(&a, extents[0]).unwrap(), device.tensor(&b, extents[1]).unwrap());
                let mut dc = device.tensor(&integers::<f32>(3, m * n, 2), [m, n]).unwrap();
                let bias = device.tensor(&integers::<f32>(4, n, 2), [n]).unwrap();
                let (alpha, beta, activation) = (0.5, 2.0, Activation::Relu);
                let plain = Gemm { a_transposed: stored[0], b_transposed: stored[1], ..Gemm::default() }.tf32();
                let options = match epilogue {
                    true => Gemm { alpha, beta, bias: Some(&bias), activation, ..plain },
                    false => plain,
                };
                tf32::launch_tile(device, tile, &da, &db, &mut dc, &options).unwrap();
                dc.to_vec().unwrap()
            };
            let found = by(&checked);
            assert!(found == by(&fast), "{tile:?} {stored:?} {m} x {n} x {k} {epilogue}");
            if !epilogue {
                let wanted = product(&a_exact, &b_exact, [m, n, k], stored);
                assert!(found == wanted, "{tile:?} {stored:?} {m} x {n} x {k}");
            }
        }
    }
}

/// Random data is within the stated bound of f64, and beyond that of f32: it was tf32 that was multiplied.
#[test]
fn normal_data_is_within_the_bound() {
    let shape = [96, 72, 520];
    for device in [Device::simulator(), Device::checked_simulator()] {
        for transposed in [[false, true], [true, false]] {
            let problem = Dense::<f32>::new(shape, transposed).tf32();
            let mut buffers = problem.buffers(&device).unwrap();
            let (a, b, c) = &mut buffers;
            gemm(&device, &*a, &*b, c, &problem.options()).unwrap();
            let error = problem.error(&buffers).unwrap();
            assert!(error <= 1.0, "{error} times the bound");
            let exact = Dense::<f32>::new(shape, transposed).worst_error(&buffers.2.to_vec().unwrap());
            assert!(exact > 1.0, "{exact} times the bound of f32");
        }
    }
}

/// Without `.tf32()` nothing is dropped.
#[test]
fn f32_stays_exact() {
    let device = Device::simulator();
    let (a, _) = cluttered(1, 8 * 8);
    let identity: Vec<f32> = (0..64).map(|i| if i % 9 == 0 { 1.0 } else { 0.0 }).collect();
    let (da, di) = (device.tensor(&a, [8, 8]).unwrap(), device.tensor(&identity, [8, 8]).unwrap());
    let mut dc = device.zeros::<f32, 2>([8, 8]).unwrap();
    gemm(&device, &da, &di, &mut dc, &Gemm::default()).unwrap();
    assert_eq!(dc.to_vec().unwrap(), a);
}
