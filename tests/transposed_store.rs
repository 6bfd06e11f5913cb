//! `copy(acc.t(), c.at_mut(..))`: a product with its operands swapped, so that few rows are the columns of an instruction.
//! Small integers: every sum is exact.

use tile_ir::ir::Target;
use tile_ir::lowered::visit::count;
use tile_ir::lowered::{OpKind, Program, RemarkKind};
use tile_kernel_examples::devices::devices;
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// `c = x w^T`, computed as `w x^T` and turned on its way out.
#[tile_kernel(
    instances((BN, BM, THREADS) in [(64, 16, 128), (64, 8, 128), (128, 32, 128), (128, 64, 256)]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32])
)]
pub fn swapped<T: Half, U: Float, const BN: usize, const BM: usize, const THREADS: usize>(
    x: &Tensor<T, (M, K)>,
    w: &Tensor<T, (N, K)>,
    c: &mut Tensor<U, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut w_s = alloc_shared::<T>([BN, 64]);
    let mut x_s = alloc_shared::<T>([BM, 64]);
    let mut acc = alloc_fragment::<f32>([BN, BM]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), 3) {
        copy(w.at([bx * BN, k * 64]), &mut w_s);
        copy(x.at([by * BM, k * 64]), &mut x_s);
        gemm(&w_s, x_s.t(), &mut acc);
    }
    copy(acc.t(), c.at_mut([by * BM, bx * BN]));
}

/// A transposed store after `mma.sync`, and of vectors: a tile that no product gives its layout.
#[tile_kernel(instances(LOOP in [true, false]))]
pub fn turned<const LOOP: bool>(x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 16)]);
    threads([64]);
    let mut acc = alloc_fragment::<f32>([32, 16]);
    if LOOP {
        let mut w_s = alloc_shared::<f16>([32, 32]);
        let mut x_s = alloc_shared::<f16>([16, 32]);
        clear(&mut acc);
        for k in 0..ceil_div(K, 32) {
            copy(w.at([bx * 32, k * 32]), &mut w_s);
            copy(x.at([by * 16, k * 32]), &mut x_s);
            gemm(&w_s, x_s.t(), &mut acc);
        }
    } else {
        copy(w.at([bx * 32, by * 16]), &mut acc);
    }
    copy(acc.t(), c.at_mut([by * 16, bx * 32]));
}

fn small(count: usize, by: usize) -> Vec<f32> {
    (0..count).map(|i| (i * by % 5) as f32 - 2.0).collect()
}

fn product(x: &[f32], w: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let dot = |e: usize| x[e / n * k..][..k].iter().zip(&w[e % n * k..][..k]).map(|(a, b)| a * b).sum();
    (0..m * n).map(dot).collect()
}

macro_rules! check {
    ($T:ident, $U:ident, $of:expr, $up:expr, [$(($BN:literal, $BM:literal, $THREADS:literal)),*], $shapes:expr) => {
        for [m, n, k] in $shapes {
            let (x, w) = (small(m * k, 7), small(n * k, 11));
            let wanted = product(&x, &w, [m, n, k]);
            let round = |values: &[f32]| values.iter().map(|v| $T::from_f32(*v)).collect::<Vec<_>>();
            for device in devices() {
                let (x, w) = (device.tensor(&round(&x), [m, k]).unwrap(), device.tensor(&round(&w), [n, k]).unwrap());
                $(
                    let mut c = device.tensor(&vec![$of(f32::NAN); m * n], [m, n]).unwrap();
                    swapped::<$T, $U, $BN, $BM, $THREADS>::launch(&device, &x, &w, &mut c).unwrap();
                    let found: Vec<f32> = c.to_vec().unwrap().into_iter().map($up).collect();
                    assert_eq!(found, wanted, "{m} x {n} x {k} by {} x {}", $BN, $BM);
                )*
            }
        }
    };
}

#[test]
fn swapped_operands() {
    let shapes = [[16, 64, 64], [3, 200, 72], [70, 136, 200], [1, 64, 8]];
    let all = |x: f16| x.to_f32();
    check!(f16, f16, f16::from_f32, all, [(64, 16, 128), (64, 8, 128), (128, 32, 128), (128, 64, 256)], shapes);
    check!(bf16, bf16, bf16::from_f32, |x: bf16| x.to_f32(), [(64, 16, 128), (128, 64, 256)], [[20, 72, 64]]);
    check!(f16, f32, |x| x, |x: f32| x, [(64, 8, 128), (128, 64, 256)], [[70, 136, 72]]);
}

#[test]
fn without_roles() {
    let [m, n, k] = [21, 70, 40];
    let (x, w) = (small(m * k, 7), small(n * k, 11));
    let tall = small(n * m, 3);
    let half = |values: &[f32]| values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>();
    for device in devices() {
        let on = |v: &[f32], shape: [usize; 2]| device.tensor(&half(v), shape).unwrap();
        let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
        turned::<true>::launch(&device, &on(&x, [m, k]), &on(&w, [n, k]), &mut c).unwrap();
        assert_eq!(c.to_vec().unwrap(), half(&product(&x, &w, [m, n, k])));
        let mut c = device.zeros::<f16, 2>([m, n]).unwrap();
        // `w` of [N, M] as it is, turned.
        turned::<false>::launch(&device, &on(&small(m * m, 5), [m, m]), &on(&tall, [n, m]), &mut c).unwrap();
        let wanted: Vec<f32> = (0..m * n).map(|e| tall[e % n * m + e / n]).collect();
        assert_eq!(c.to_vec().unwrap(), half(&wanted));
    }
}

/// The programs of every instance for a target.
pub fn programs(definition: &'static Definition, target: Target) -> Vec<Program> {
    let kernel = definition.kernel().unwrap();
    kernel.instances.iter().map(|i| tile_ir::lower::lower(kernel, i, target).unwrap()).collect()
}

/// On Hopper 16-bit results leave by `stmatrix.trans` and TMA, where the tile has 16 columns.
#[test]
fn the_copy_engine_stores_what_stmatrix_turns() {
    for program in programs(swapped::<f16, f16, 64, 16, 128>::definition(), Target::Sm90a) {
        assert!(
            program.remarks.iter().all(|r| r.kind != RemarkKind::Fallback),
            "{}: {:?}",
            program.name,
            program.remarks
        );
        let turned = count(&program.body, &|op| matches!(op, OpKind::StoreMatrix { transposed: true, .. }));
        let straight = count(&program.body, &|op| matches!(op, OpKind::StoreMatrix { transposed: false, .. }));
        let stores = count(&program.body, &|op| matches!(op, OpKind::TensorStore { .. }));
        let by_engine = !program.name.contains("f32") && !program.name.contains("_8_");
        assert_eq!((turned > 0, stores > 0, straight), (by_engine, by_engine, 0), "{}", program.name);
    }
}
