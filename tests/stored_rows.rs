//! Results of 16 bits whose rows begin at any element, which TMA does not write: a warp-specialised kernel stores them through shared
//! memory, rows of a sub-tile by neighbouring threads. Small integers: every sum is exact.

use tile_ir::ir::{Class, Instance, Target, Width};
use tile_ir::lower::lower;
use tile_ir::lowered::OpKind;
use tile_ir::lowered::visit::count;
use tile_ir::verify::program::{Effort, program as verify};
use tile_kernel_examples::data::{Real, integers};
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::prelude::*;

/// `c = a b^T`: one warpgroup, two that share rows or columns of a tile, two with a tile each in turn.
#[tile_kernel(
    instances((BM, BN, THREADS) in [(64, 32, 128), (64, 192, 128), (128, 64, 256), (128, 80, 256), (64, 256, 256), (128, 128, 128)]),
    dtypes(T in [f16, bf16])
)]
pub fn tiles<T: Half, const BM: usize, const BN: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, 64]);
    let mut b_s = alloc_shared::<T>([BN, 64]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, 64), 3) {
            copy(a.at([by * BM, k * 64]), &mut a_s);
            copy(b.at([bx * BN, k * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([by * BM, bx * BN]));
    }
}

fn right<T: Half + Real, const BM: usize, const BN: usize, const THREADS: usize>()
where
    tiles<T, BM, BN, THREADS>: TilesInstance,
{
    let k = 72;
    for [m, n] in [[1, 1], [64, 65], [131, 2 * BN + 1], [300, 333], [40, 31]] {
        let (a, b) = (integers::<T>(1, m * k, 3), integers::<T>(2, n * k, 3));
        let sums = product(&a, &b, [m, n, k], [false, true]);
        let wanted: Vec<f32> = sums.into_iter().map(|sum| Real::to_f32(<T as Real>::from_f32(sum))).collect();
        for device in devices() {
            let (a, b) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            // An odd pitch; what is beyond a row stays as it is.
            let pitch = n + 1 + n % 2;
            let mut c = device.tensor(&vec![<T as Real>::from_f32(12345.0); m * pitch], [m, pitch]).unwrap();
            let mut part = c.view_mut().slice([0..m, 0..n]).unwrap();
            tiles::<T, BM, BN, THREADS>::launch(&device, &a, &b, &mut part).unwrap();
            let found: Vec<f32> = c.to_vec().unwrap().into_iter().map(Real::to_f32).collect();
            let untouched = Real::to_f32(<T as Real>::from_f32(12345.0));
            for (row, wanted) in found.chunks(pitch).zip(wanted.chunks(n)) {
                assert_eq!(&row[..n], wanted, "{m} x {n} by {BM} x {BN}");
                assert!(row[n..].iter().all(|x| *x == untouched), "{m} x {n} by {BM} x {BN}");
            }
        }
    }
}

#[test]
fn rows_at_odd_elements_are_right() {
    right::<f16, 64, 32, 128>();
    right::<f16, 64, 192, 128>();
    right::<bf16, 128, 64, 256>();
    right::<f16, 128, 80, 256>();
    right::<bf16, 64, 256, 256>();
    right::<f16, 128, 128, 128>();
}

#[test]
fn they_leave_through_shared_memory() {
    let kernel = tiles::<f16, 64, 32, 128>::definition().kernel().unwrap();
    for instance in &kernel.instances {
        for (writes, staged, by_tma) in
            [(Width::Sixteen, true, true), (Width::Four, false, false), (Width::Element, true, false)]
        {
            let instance = Instance { class: Class { writes, ..Class::WIDEST }, ..instance.clone() };
            let program = lower(kernel, &instance, Target::Sm90a).unwrap();
            let name = format!("{} {writes}", program.name);
            if writes == Width::Element {
                let verified = verify(&program, Effort::Test);
                assert!(verified.is_ok_and(|verified| !verified.launches.is_empty()), "{name}");
            }
            assert_eq!(count(&program.body, &|op| matches!(op, OpKind::StoreMatrix { .. })) > 0, staged, "{name}");
            assert_eq!(count(&program.body, &|op| matches!(op, OpKind::TensorStore { .. })) > 0, by_tma, "{name}");
        }
    }
}
