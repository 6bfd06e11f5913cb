//! Results whose rows do not begin at multiples of 16 bytes, which TMA does not write: a warp-specialised kernel stores them through
//! shared memory, rows of a sub-tile by neighbouring threads, 8 or 4 bytes each or one element. So does a block that stores elements, where
//! operands do not begin at such multiples either. Small integers: every sum is exact.

use tile_ir::ir::{Class, Instance, Side, Target, Width};
use tile_ir::lower::lower;
use tile_ir::lowered::visit::count;
use tile_ir::lowered::{CheckKind, OpKind};
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

/// `c = a b^T` by the transposes of its tiles, whose columns are the rows of an instruction.
#[tile_kernel(
    instances((BM, BN, THREADS) in [(16, 64, 128), (96, 128, 128), (80, 128, 256)]),
    dtypes(T in [f16, bf16])
)]
pub fn turned<T: Half, const BM: usize, const BN: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, 64]);
    let mut b_s = alloc_shared::<T>([BN, 64]);
    let mut acc = alloc_fragment::<f32>([BN, BM]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, 64), 3) {
            copy(a.at([by * BM, k * 64]), &mut a_s);
            copy(b.at([bx * BN, k * 64]), &mut b_s);
            gemm(&b_s, a_s.t(), &mut acc);
        }
        copy(acc.t(), c.at_mut([by * BM, bx * BN]));
    }
}

/// `c = a b^T` of f32 as tf32, or by the transposes of its tiles.
#[tile_kernel(instances((BM, BN, THREADS, TURNED) in [(128, 64, 256, false), (64, 128, 128, true), (128, 128, 256, true)]))]
pub fn words<const BM: usize, const BN: usize, const THREADS: usize, const TURNED: bool>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    threads([THREADS]);
    let mut a_s = alloc_shared::<f32>([BM, 32]);
    let mut b_s = alloc_shared::<f32>([BN, 32]);
    let mut acc = alloc_fragment::<f32>([if TURNED { BN } else { BM }, if TURNED { BM } else { BN }]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, 32), 3) {
            copy(a.at([by * BM, k * 32]), &mut a_s);
            copy(b.at([bx * BN, k * 32]), &mut b_s);
            if TURNED {
                gemm(&b_s, a_s.t(), &mut acc).tf32();
            } else {
                gemm(&a_s, b_s.t(), &mut acc).tf32();
            }
        }
        if TURNED {
            copy(acc.t(), c.at_mut([by * BM, bx * BN]));
        } else {
            copy(&acc, c.at_mut([by * BM, bx * BN]));
        }
    }
}

/// The pitch of rows of `n` elements that begin at multiples of so many, and not at multiples of twice as many.
fn pitch(n: usize, at: usize) -> usize {
    let pitch = (n + 1).next_multiple_of(at);
    if pitch.is_multiple_of(2 * at) { pitch + at } else { pitch }
}

type Launch<T> = fn(&Device, &Tensor<T, 2>, &Tensor<T, 2>, &mut TensorViewMut<'_, T, 2>);

/// Products of several extents, whose rows begin at multiples of 1, 2 and 4 elements; those of operands have `k` elements, one after the other.
fn right<T: Real>(k: usize, bn: usize, launch: Launch<T>) {
    for ([m, n], at) in
        [([1, 1], 1), ([64, 65], 2), ([131, 2 * bn + 1], 4), ([150, 201], 1), ([40, 31], 4), ([131, bn + 6], 2)]
    {
        let (a, b) = (integers::<T>(1, m * k, 3), integers::<T>(2, n * k, 3));
        let sums = product(&a, &b, [m, n, k], [false, true]);
        let wanted: Vec<f32> = sums.into_iter().map(|sum| Real::to_f32(<T as Real>::from_f32(sum))).collect();
        for device in devices() {
            let (a, b) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            // What is beyond a row stays as it is.
            let pitch = pitch(n, at);
            let mut c = device.tensor(&vec![<T as Real>::from_f32(12345.0); m * pitch], [m, pitch]).unwrap();
            let mut part = c.view_mut().slice([0..m, 0..n]).unwrap();
            launch(&device, &a, &b, &mut part);
            let found: Vec<f32> = c.to_vec().unwrap().into_iter().map(Real::to_f32).collect();
            let untouched = Real::to_f32(<T as Real>::from_f32(12345.0));
            for (row, wanted) in found.chunks(pitch).zip(wanted.chunks(n)) {
                assert_eq!(&row[..n], wanted, "{m} x {n} of pitch {pitch}, {bn} columns a tile");
                assert!(row[n..].iter().all(|x| *x == untouched), "{m} x {n} of pitch {pitch}, {bn} columns a tile");
            }
        }
    }
}

/// Launches an instance of a kernel.
macro_rules! by {
    ($kernel:ident, $t:ty, $bm:literal, $bn:literal, $threads:literal) => {
        by!(72, $kernel, $t, $bm, $bn, $threads)
    };
    ($k:literal, $kernel:ident, $t:ty, $bm:literal, $bn:literal, $threads:literal) => {
        right::<$t>($k, $bn, |device, a, b, c| {
            $kernel::<$t, $bm, $bn, $threads>::launch(device, a, b, c).unwrap();
        })
    };
}

#[test]
fn rows_that_tma_does_not_write_are_right() {
    by!(tiles, f16, 64, 32, 128);
    by!(tiles, f16, 64, 192, 128);
    by!(tiles, bf16, 128, 64, 256);
    by!(tiles, f16, 128, 80, 256);
    by!(tiles, bf16, 64, 256, 256);
    by!(tiles, f16, 128, 128, 128);
    by!(turned, f16, 16, 64, 128);
    by!(turned, bf16, 96, 128, 128);
    by!(turned, f16, 80, 128, 256);
}

/// Of operands that TMA does not fetch: the block stores elements from shared memory, tile after tile.
#[test]
fn elements_that_a_block_stores_are_right() {
    by!(71, tiles, f16, 64, 32, 128);
    by!(71, tiles, bf16, 128, 64, 256);
    by!(71, tiles, f16, 64, 256, 256);
    by!(71, tiles, bf16, 64, 192, 128);
    by!(71, tiles, f16, 128, 80, 256);
}

#[test]
fn words_are_right() {
    for k in [72, 71] {
        right::<f32>(k, 64, |device, a, b, c| words::<128, 64, 256, false>::launch(device, a, b, c).unwrap());
        right::<f32>(k, 128, |device, a, b, c| words::<64, 128, 128, true>::launch(device, a, b, c).unwrap());
        right::<f32>(k, 128, |device, a, b, c| words::<128, 128, 256, true>::launch(device, a, b, c).unwrap());
    }
}

/// Of f32 too, whatever the rows allow; transposed tiles of rows that TMA writes leave from registers.
#[test]
fn words_leave_through_shared_memory() {
    let kernel = words::<128, 64, 256, false>::definition().kernel().unwrap();
    for instance in &kernel.instances {
        let turned = instance.consts.last() == Some(&1);
        for writes in [Width::Sixteen, Width::Eight, Width::Four, Width::Element] {
            let instance = Instance { class: Class { writes, ..Class::WIDEST }, ..instance.clone() };
            let program = lower(kernel, &instance, Target::Sm90a).unwrap();
            assert!(verify(&program, Effort::Test).is_ok(), "{} {writes}", program.name);
            let staged = program.shared.values().any(|array| array.name.starts_with("staging"));
            assert_eq!(staged, !(turned && writes == Width::Sixteen), "{} {writes}", program.name);
        }
    }
}

/// `c = a b^T` for rows of pairs.
#[tile_kernel(require(N % 2 == 0))]
pub fn pairs(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 32]);
    let mut b_s = alloc_shared::<f16>([64, 32]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 32), 2) {
        copy(a.at([by * 64, k * 32]), &mut a_s);
        copy(b.at([bx * 64, k * 32]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * 64, bx * 64]));
}

/// What is stored by elements goes through an array that is neither operand's, on both targets; pairs leave from registers.
#[test]
fn a_block_stores_elements_from_shared_memory() {
    let class = Class { reads: Width::Element, writes: Width::Element };
    for (definition, wanted) in [(tiles::<f16, 128, 64, 256>::definition(), true), (pairs::definition(), false)] {
        let kernel = definition.kernel().unwrap();
        let is_tried = |i: &&Instance| i.consts.is_empty() || i.consts == [128, 64, 256];
        for instance in kernel.instances.iter().filter(is_tried) {
            for target in [Target::Sm80, Target::Sm90a] {
                let class = if wanted { class } else { Class::WIDEST };
                let instance = Instance { class, ..instance.clone() };
                let program = lower(kernel, &instance, target).unwrap();
                assert!(verify(&program, Effort::Test).is_ok(), "{target} {}", program.name);
                let staged = program.shared.values().any(|array| array.name.starts_with("staged"));
                assert_eq!(staged, wanted, "{target} {}", program.name);
            }
        }
    }
}

#[test]
fn they_leave_through_shared_memory() {
    let kernels = [tiles::<f16, 64, 32, 128>::definition(), turned::<f16, 96, 128, 128>::definition()];
    for kernel in kernels.map(|definition| definition.kernel().unwrap()) {
        for instance in &kernel.instances {
            // Sixteen bytes by TMA; then what a thread stores, and what the launch therefore asks of rows.
            for (writes, bytes) in [(Width::Sixteen, 16), (Width::Eight, 8), (Width::Four, 4), (Width::Element, 1)] {
                let instance = Instance { class: Class { writes, ..Class::WIDEST }, ..instance.clone() };
                let program = lower(kernel, &instance, Target::Sm90a).unwrap();
                let name = format!("{} {writes}", program.name);
                let verified = verify(&program, Effort::Test);
                assert!(verified.is_ok_and(|verified| !verified.launches.is_empty()), "{name}");
                assert!(count(&program.body, &|op| matches!(op, OpKind::StoreMatrix { .. })) > 0, "{name}");
                let by_tma = count(&program.body, &|op| matches!(op, OpKind::TensorStore { .. })) > 0;
                assert_eq!(by_tma, writes == Width::Sixteen, "{name}");
                let asked = program.launch.checks.iter().filter(|check| check.request == Some(Side::Writes));
                let most = asked.filter_map(|check| match check.kind {
                    CheckKind::Alignment { bytes, .. } => Some(bytes),
                    _ => None,
                });
                assert_eq!(most.max().unwrap_or(1), bytes, "{name}");
            }
        }
    }
}
