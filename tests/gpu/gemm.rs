//! The bundled GEMM on a GPU, against a product on the CPU: integers, whose sums are exact in any order.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tile_bench::problem::Problem;
use tile_kernel_examples::data::{Real, hash, integers, normal};
use tile_kernel_examples::gemm::product;
use tile_kernel_examples::suites::gemm::Dense;
use tile_kernels::gemm::{Activation, Choice, Gemm, GemmElement, candidates, class, gemm, gemm_batched, gemm_by};
use tile_runtime::kernel::Width;
use tile_runtime::prelude::*;

fn every_layout<T: GemmElement<C> + Real, C: Real>(device: &Device, shapes: &[[usize; 3]]) {
    for &[m, n, k] in shapes {
        for [a_transposed, b_transposed] in [[false, true], [false, false], [true, true], [true, false]] {
            let (a, b) = (integers::<T>(m as u64, m * k, 3), integers::<T>(n as u64, n * k, 3));
            let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
            let da = device.tensor(&a, shape(a_transposed, m, k)).unwrap();
            let db = device.tensor(&b, shape(b_transposed, k, n)).unwrap();
            // Poisoned: every element must be written.
            let mut dc = device.tensor(&vec![C::from_f32(12345.0); m * n], [m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
            let wanted: Vec<C> =
                product(&a, &b, [m, n, k], [a_transposed, b_transposed]).into_iter().map(C::from_f32).collect();
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
    every_layout::<f16, f16>(&device, &shapes);
    every_layout::<bf16, bf16>(&device, &shapes[2..6]);
}

/// Every tile, on shapes that it does not divide, and on more rows than one tile has.
#[test]
fn few_rows_by_every_tile() {
    let Some(device) = super::gpu() else { return };
    for choice in Choice::candidates(1, 8, 0, [false, true]) {
        let (bm, bn, ..) = choice.tile;
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
    every_layout::<f16, f16>(&device, &[[1, 1, 1], [33, 35, 37], [127, 65, 131], [3, 257, 19], [5, 7, 0]]);
}

#[test]
fn f32_results_and_operands() {
    let Some(device) = super::gpu() else { return };
    let shapes = [[64, 64, 64], [136, 264, 72], [1000, 1032, 520], [33, 35, 37], [1536, 1544, 64], [5, 7, 0]];
    every_layout::<f16, f32>(&device, &shapes);
    every_layout::<bf16, f32>(&device, &shapes[..3]);
    every_layout::<f32, f32>(&device, &shapes);
}

/// Extents around every boundary: ones, primes, multiples of tiles and their neighbours, K shorter than a stage.
const EXTENTS: [usize; 28] =
    [1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 56, 63, 64, 65, 113, 127, 128, 129, 136, 255, 257, 264, 392, 520];

/// 300 shapes drawn from them, every layout, operands and results of every type in turn: integers bit by bit.
#[test]
fn three_hundred_shapes() {
    let Some(device) = super::gpu() else { return };
    let mut rng = StdRng::seed_from_u64(300);
    let mut extent = || EXTENTS[rng.random_range(0..EXTENTS.len())];
    for round in 0..300 {
        // Few rows as often as many.
        let m = if round % 3 == 0 { 1 + round / 3 % 16 } else { extent() };
        let shapes = [[m, extent(), if round % 50 == 0 { 0 } else { extent() }]];
        match round % 5 {
            0 => every_layout::<f16, f16>(&device, &shapes),
            1 => every_layout::<bf16, bf16>(&device, &shapes),
            2 => every_layout::<f16, f32>(&device, &shapes),
            3 => every_layout::<bf16, f32>(&device, &shapes),
            _ => every_layout::<f32, f32>(&device, &shapes),
        }
    }
}

/// Data of N(0, 1) against f64, within the stated bound; large results by rows.
#[test]
fn normal_data_within_the_bound() {
    let Some(device) = super::gpu() else { return };
    fn check<T: GemmElement + Real>(device: &Device) {
        let shapes = [[5, 264, 4104], [129, 257, 520], [1000, 1032, 2048], [64, 4096, 7168], [4096, 4096, 4096]];
        for shape in shapes {
            for transposed in [[false, true], [false, false], [true, true], [true, false]] {
                let problem = Dense::<T>::new(shape, transposed);
                let mut buffers = problem.buffers(device).unwrap();
                problem.poison(&mut buffers).unwrap();
                let (a, b, c) = &mut buffers;
                gemm(device, &*a, &*b, c, &problem.options()).unwrap();
                let error = problem.error(&buffers).unwrap();
                assert!(error <= 1.0, "{}: {error} times the bound", problem.title());
            }
        }
    }
    check::<f16>(&device);
    check::<bf16>(&device);
    check::<f32>(&device);
}

/// 20 shapes, 1,000 launches each: always the same bits.
#[test]
fn a_thousand_launches_give_the_same_bits() {
    let Some(device) = super::gpu() else { return };
    let mut rng = StdRng::seed_from_u64(20);
    for round in 0..20 {
        let mut extent = || EXTENTS[rng.random_range(0..EXTENTS.len())];
        let (m, n) = (extent(), extent());
        // Long sums, whose order would show; aligned ones every other time.
        let k = 1000 + 8 * round + round % 2;
        let n = if round % 2 == 0 { n.next_multiple_of(8) } else { n };
        let (a, b) = (normal::<bf16>(round as u64, m * k), normal::<bf16>(99, n * k));
        let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let mut dc = device.tensor(&vec![bf16::from_f32(f32::NAN); m * n], [m, n]).unwrap();
        let mut first = None;
        for launch in 0..1000 {
            gemm(&device, &da, &db, &mut dc, &Gemm::nt()).unwrap();
            let found = hash(&dc.to_vec().unwrap());
            assert_eq!(*first.get_or_insert(found), found, "{m} x {n} x {k}: launch {launch} gave other bits");
        }
    }
}

/// Views that begin at each alignment, small and large tiles.
#[test]
fn every_class_of_alignment() {
    let Some(device) = super::gpu() else { return };
    for [m, n, k] in [[40, 72, 48], [1336, 1528, 104]] {
        for (skip, wanted) in [(8, Width::Sixteen), (4, Width::Eight), (2, Width::Four), (1, Width::Element)] {
            for [a_transposed, b_transposed] in [[false, true], [false, false], [true, true], [true, false]] {
                let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
                let wide = |seed: u64, [rows, cols]: [usize; 2]| {
                    let values = integers::<f16>(seed, rows * (cols + 16), 3);
                    let own: Vec<f16> =
                        values.chunks(cols + 16).flat_map(|row| &row[skip..skip + cols]).copied().collect();
                    (device.tensor(&values, [rows, cols + 16]).unwrap(), own)
                };
                let (sa, sb) = (shape(a_transposed, m, k), shape(b_transposed, k, n));
                let ((wa, a), (wb, b)) = (wide(1, sa), wide(2, sb));
                let da = wa.slice([0..sa[0], skip..skip + sa[1]]).unwrap();
                let db = wb.slice([0..sb[0], skip..skip + sb[1]]).unwrap();
                let mut dc = device.tensor(&vec![f16::from_f32(12345.0); m * n], [m, n]).unwrap();
                let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
                let all = candidates(&device, da, db, &mut dc, &options);
                // Copies of the operands are aligned.
                let is_packed = |choice: &Choice| choice.packs != [None; 2];
                let found = class(&device, da, db, &mut dc, &options).unwrap();
                let expected = if is_packed(&all[0].0) { Width::Sixteen } else { wanted };
                assert_eq!(found.reads, expected, "from column {skip} on");
                let sums = product(&a, &b, [m, n, k], [a_transposed, b_transposed]);
                let wanted: Vec<f16> = sums.into_iter().map(f16::from_f32).collect();
                let as_they_are = all.iter().map(|(choice, _)| *choice).find(|choice| !is_packed(choice)).unwrap();
                for choice in [all[0].0, as_they_are] {
                    gemm_by(&device, choice, da, db, &mut dc, &options).unwrap();
                    let place = || format!("{choice}: {m} from column {skip} on, {a_transposed} {b_transposed}");
                    assert!(dc.to_vec().unwrap() == wanted, "{}", place());
                }
            }
        }
    }
}

#[test]
fn many_products_at_once() {
    let Some(device) = super::gpu() else { return };
    for ([z, m, n, k], one_b) in [([3, 72, 136, 40], false), ([5, 264, 520, 136], true), ([40, 384, 512, 64], false)] {
        for [a_transposed, b_transposed] in [[false, true], [false, false], [true, true], [true, false]] {
            let zb = if one_b { 1 } else { z };
            let (a, b) = (integers::<bf16>(1, z * m * k, 2), integers::<bf16>(2, zb * n * k, 2));
            let shape = |t: bool, z: usize, rows: usize, cols: usize| if t { [z, cols, rows] } else { [z, rows, cols] };
            let da = device.tensor(&a, shape(a_transposed, z, m, k)).unwrap();
            let db = device.tensor(&b, shape(b_transposed, zb, k, n)).unwrap();
            let mut dc = device.tensor(&vec![12345.0f32; z * m * n], [z, m, n]).unwrap();
            let options = Gemm { a_transposed, b_transposed, ..Gemm::default() };
            gemm_batched(&device, da.view(), db.view(), dc.view_mut(), &options).unwrap();
            let found = dc.to_vec().unwrap();
            for i in 0..z {
                let at = if one_b { 0 } else { i };
                let (a, b) = (&a[i * m * k..(i + 1) * m * k], &b[at * n * k..(at + 1) * n * k]);
                let wanted = product(a, b, [m, n, k], [a_transposed, b_transposed]);
                assert!(found[i * m * n..(i + 1) * m * n] == wanted, "batch {i}: {a_transposed} {b_transposed}");
            }
        }
    }
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
