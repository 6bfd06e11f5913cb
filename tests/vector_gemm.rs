//! Products of one row or one column, which kernels for a matrix and a vector multiply where TMA does not fetch the operands.

use tile_kernel_examples::data::{Real, integers};
use tile_kernel_examples::gemm::product;
use tile_kernels::gemm::vector::Vector;
use tile_kernels::gemm::{Activation, Gemm, GemmElement, candidates, gemm, gemm_by};
use tile_kernels::gemv::columns::{GemvColumnsParams, gemv_columns};
use tile_runtime::prelude::*;

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

fn simulators() -> [Device; 2] {
    [Device::simulator(), Device::checked_simulator()]
}

/// A matrix whose rows have `gap` elements between them, and its own elements.
fn apart<T: Real>(device: &Device, seed: u64, [rows, cols]: [usize; 2], gap: usize) -> (Tensor<T, 2>, Vec<T>) {
    let values = integers::<T>(seed, rows * (cols + gap), 3);
    let own = values.chunks(cols + gap).flat_map(|row| &row[..cols]).copied().collect();
    (device.tensor(&values, [rows, cols + gap]).unwrap(), own)
}

/// `c = 2 a b - c` by every kernel of vectors among the candidates of a product, and by the call; how many kernels those were.
fn by_vectors<T: GemmElement + Real>(device: &Device, [m, n, k]: [usize; 3], stored: [bool; 2], gap: usize) -> usize {
    let [a_transposed, b_transposed] = stored;
    let shape = |t: bool, rows: usize, cols: usize| if t { [cols, rows] } else { [rows, cols] };
    let (sa, sb) = (shape(a_transposed, m, k), shape(b_transposed, k, n));
    // A vector lies in one piece.
    let of = |[rows, cols]: [usize; 2]| if rows == 1 || cols == 1 { 0 } else { gap };
    let ((wa, a), (wb, b)) = (apart::<T>(device, 1, sa, of(sa)), apart::<T>(device, 2, sb, of(sb)));
    let da = wa.slice([0..sa[0], 0..sa[1]]).unwrap();
    let db = wb.slice([0..sb[0], 0..sb[1]]).unwrap();
    let old = integers::<T>(3, m * n, 3);
    let options = Gemm { a_transposed, b_transposed, alpha: 2.0, beta: -1.0, ..Gemm::default() };
    let sums = product(&a, &b, [m, n, k], stored);
    let wanted: Vec<T> = sums.iter().zip(&old).map(|(sum, old)| T::from_f32(2.0 * sum - old.to_f32())).collect();
    let what = format!("{m} x {n} x {k}, {stored:?}, rows {gap} apart");

    let mut c = device.tensor(&old, [m, n]).unwrap();
    gemm(device, da, db, &mut c, &options).unwrap();
    assert!(c.to_vec().unwrap() == wanted, "{what}, as called");
    let found = candidates(device, da, db, &mut c, &options);
    let by_vector: Vec<_> = found.iter().filter(|(choice, _)| choice.vector.is_some()).collect();
    for (choice, us) in &by_vector {
        assert!(*us > 0.0 && us.is_finite(), "{what}: {choice} in {us} us");
        let mut c = device.tensor(&old, [m, n]).unwrap();
        gemm_by(device, *choice, da, db, &mut c, &options).unwrap();
        assert!(c.to_vec().unwrap() == wanted, "{what}, {choice}");
    }
    by_vector.len()
}

/// Every layout, rows of every alignment, of one row and of one column.
#[test]
fn one_row_or_column_in_every_layout() {
    for device in simulators() {
        for stored in LAYOUTS {
            for (n, k, gap) in [(37, 53, 0), (36, 44, 0), (64, 40, 1), (34, 66, 2), (1, 9, 0), (300, 7, 3)] {
                for shape in [[1, n, k], [n, 1, k]] {
                    assert_eq!(by_vectors::<f32>(&device, shape, stored, gap), 1, "{shape:?} {stored:?} {gap}");
                    by_vectors::<f16>(&device, shape, stored, gap);
                    by_vectors::<bf16>(&device, shape, stored, gap);
                }
            }
        }
    }
}

/// What a kernel of vectors does not do, or does more slowly, is a product of matrices.
#[test]
fn other_products_are_left_alone() {
    let device = Device::simulator();
    let taken = |[m, n, k]: [usize; 3], options: &Gemm<'_, f16>| {
        let (a, b) = (device.zeros::<f16, 2>([m, k]).unwrap(), device.zeros::<f16, 2>([n, k]).unwrap());
        let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
        let all = candidates(&device, &a, &b, &mut c, options);
        (all[0].0.vector, all.iter().filter(|(choice, _)| choice.vector.is_some()).count())
    };
    let nt = Gemm::<f16>::nt();
    // 260 MB of weights, of which a copy alone takes longer than the product.
    let odd = [1, 6737, 9615];
    assert!(matches!(taken(odd, &nt), (Some(Vector::Along(_)), 1)));
    assert_eq!(taken([2, 37, 53], &nt), (None, 0));
    assert_eq!(taken([1, 37, 53], &Gemm { activation: Activation::Relu, ..nt }), (None, 0));
    let bias = device.zeros::<f16, 1>([37]).unwrap();
    assert_eq!(taken([1, 37, 53], &Gemm { bias: Some(&bias), ..nt }), (None, 0));
    // TMA fetches these.
    assert_eq!(taken([1, 64, 64], &nt), (None, 0));
    // A result in another type, and a column with a pitch.
    let (a, b) = (device.zeros::<f16, 2>([1, 53]).unwrap(), device.zeros::<f16, 2>([37, 53]).unwrap());
    let mut c = device.zeros::<f32, 2>([1, 37]).unwrap();
    assert!(candidates(&device, &a, &b, &mut c, &nt).iter().all(|(choice, _)| choice.vector.is_none()));
    let (wide, mut c) = (device.zeros::<f16, 2>([53, 3]).unwrap(), device.zeros::<f16, 2>([37, 1]).unwrap());
    let column = wide.slice([0..53, 1..2]).unwrap();
    let plain = Gemm::default();
    assert!(candidates(&device, &b, column, &mut c, &plain).iter().all(|(choice, _)| choice.vector.is_none()));
    gemm(&device, &b, column, &mut c, &plain).unwrap();
}

/// Every instance for W^T x, on shapes that it does not divide, on both simulators.
fn every_instance<T: Real + Float>() {
    let definition = gemv_columns::<T>::definition();
    let kernel = definition.kernel().unwrap();
    let dtype = T::DTYPE;
    let mut count = 0;
    for instance in kernel.instances.iter().filter(|i| i.dtypes == [dtype]) {
        let [lanes, groups, unroll, parts, vec] = instance.consts[..] else { panic!("five constants") };
        let [lanes, groups, unroll, parts, vec] = [lanes, groups, unroll, parts, vec].map(|size| size as usize);
        let params = GemvColumnsParams { LANES: lanes, GROUPS: groups, UNROLL: unroll, PARTS: parts, VEC: vec };
        for (rows, cols, gap) in
            [(groups * unroll * parts + 3, lanes * vec + 3 * vec, 0), (5, vec, vec), (0, 2 * vec, 0)]
        {
            let found = simulators().map(|device| {
                let (w, own) = apart::<T>(&device, 1, [rows, cols], gap);
                let x = integers::<T>(2, rows, 3);
                let dx = device.tensor(&x, [rows]).unwrap();
                let mut y = device.tensor(&vec![T::from_f32(f32::NAN); cols], [cols]).unwrap();
                let view = w.slice([0..rows, 0..cols]).unwrap();
                gemv_columns::<T>::instance(&device, params).unwrap().launch(view, &dx, &mut y, 1.0, 0.0).unwrap();
                let wanted = product(&x, &own, [1, cols, rows], [false, false]);
                let wanted: Vec<T> = wanted.into_iter().map(T::from_f32).collect();
                assert!(y.to_vec().unwrap() == wanted, "{params:?}: {rows} x {cols}");
                y.to_vec().unwrap()
            });
            assert!(found[0] == found[1], "{params:?}");
        }
        count += 1;
    }
    assert!(count >= 24, "{count} instances of {dtype}");
}

#[test]
fn every_instance_of_columns() {
    every_instance::<f32>();
    every_instance::<bf16>();
}
