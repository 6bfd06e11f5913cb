//! Copies between a matrix and a tile whose rows are of several axes: element by element, by `cp.async`, held in registers, by TMA, and stored from fragments;
//! against the host on both simulators, and on a GPU where there is one.

use tile_ir::ir::Target;
use tile_ir::lowered::RemarkKind;
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// Tiles of 4 x 8 rows into a matrix of 32, which is copied on, and stored as 8 x 4 rows.
#[tile_kernel]
pub fn regrouped(
    x: &Tensor<f32, (A, B, C)>,
    flat: &mut Tensor<f32, (Rows, Fixed<32>, Fixed<16>)>,
    y: &mut Tensor<f32, (A2, B2, C)>,
) {
    let [b, a] = blocks([ceil_div(B, 8), ceil_div(A, 4)]);
    threads([64]);
    let mut s = alloc_shared::<f32>([32, 16]);
    copy(x.tile([a * 4..a * 4 + 4, b * 8..b * 8 + 8, 0..16]), &mut s);
    copy(&s, flat.at_mut([a * ceil_div(B, 8) + b, 0, 0]));
    copy(&s, y.tile_mut([b * 8..b * 8 + 8, a * 4..a * 4 + 4, 0..16]));
}

/// A shared array of three axes from and into matrices of a tensor.
#[tile_kernel]
pub fn spread(x: &Tensor<f16, (M, Fixed<16>)>, y: &mut Tensor<f16, (M, Fixed<16>)>) {
    let [b] = blocks([ceil_div(M, 24)]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f16>([2, 12, 16]);
    copy(x.tile([b * 24..b * 24 + 24, 0..16]), &mut s);
    for i in 0..2 {
        for j in 0..12 {
            if t < 16 {
                s[[i, j, t]] = (s[[i, j, t]].cast::<f32>() + (i * 100 + j) as f32).cast::<f16>();
            }
        }
    }
    copy(&s, y.tile_mut([b * 24..b * 24 + 24, 0..16]));
}

/// `c[a, b, n]`, the sum over `k` of `x[a, b, k] w[n, k]`: `INNER` neighbours `b` of each of `BM / INNER` neighbours `a` are the rows of a product of matrices.
#[tile_kernel(instances((BM, INNER) in [(128, 1), (128, 8), (128, 32), (192, 24)]), partial(c))]
pub fn product<T: Half, const BM: usize, const INNER: usize>(
    x: &Tensor<T, (A, B, K)>,
    w: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (A, B, N)>,
) {
    let [n, b, a] = blocks([ceil_div(N, 64), ceil_div(B, INNER), ceil_div(A, BM / INNER)]);
    threads([2 * BM]);
    let mut x_s = alloc_shared::<T>([BM, 32]);
    let mut w_s = alloc_shared::<T>([64, 32]);
    let mut acc = alloc_fragment::<f32>([BM, 64]);
    clear(&mut acc);
    let (first, of) = (a * (BM / INNER), b * INNER);
    for k in pipelined(0..ceil_div(K, 32), 3) {
        copy(x.tile([first..first + BM / INNER, of..of + INNER, k * 32..k * 32 + 32]), &mut x_s);
        copy(w.at([n * 64, k * 32]), &mut w_s);
        gemm(&x_s, w_s.t(), &mut acc).policy(FullRow);
    }
    copy(&acc, c.tile_mut([first..first + BM / INNER, of..of + INNER, n * 64..n * 64 + 64]));
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + i / 13) % 31) as f32 - 15.0).collect()
}

#[test]
fn rows_are_taken_in_order() {
    for device in devices() {
        for [a, b] in [[8, 16], [6, 13], [3, 5]] {
            let x = numbers(a * b * 16);
            let (across, down) = (b.div_ceil(8), a.div_ceil(4));
            let source = device.tensor(&x, [a, b, 16]).unwrap();
            let mut flat = device.tensor(&vec![f32::NAN; across * down * 512], [across * down, 32, 16]).unwrap();
            let mut y = device.tensor(&vec![f32::NAN; across * 8 * down * 4 * 16], [across * 8, down * 4, 16]).unwrap();
            regrouped::launch(&device, &source, &mut flat, &mut y).unwrap();
            let (flat, y) = (flat.to_vec().unwrap(), y.to_vec().unwrap());
            for block in 0..across * down {
                let (first_a, first_b) = (block / across * 4, block % across * 8);
                for row in 0..32 {
                    let (i, j) = (first_a + row / 8, first_b + row % 8);
                    for column in 0..16 {
                        let wanted = if i < a && j < b { x[(i * b + j) * 16 + column] } else { 0.0 };
                        assert_eq!(flat[(block * 32 + row) * 16 + column], wanted, "{device} {a} x {b}");
                        let (i, j) = (first_b + row / 4, first_a + row % 4);
                        assert_eq!(y[(i * down * 4 + j) * 16 + column], wanted, "{device} {a} x {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_array_may_have_the_axes() {
    for device in devices() {
        for m in [48, 31] {
            let x = numbers(m * 16);
            let source = device.tensor(&x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>(), [m, 16]).unwrap();
            let mut y = device.tensor(&vec![f16::NAN; m * 16], [m, 16]).unwrap();
            spread::launch(&device, &source, &mut y).unwrap();
            for (at, found) in y.to_vec().unwrap().into_iter().enumerate() {
                let row = at / 16 % 24;
                assert_eq!(found.to_f32(), x[at] + (row / 12 * 100 + row % 12) as f32, "{device} {m} {at}");
            }
        }
    }
}

/// Of whole and ragged shapes, of rows that begin where TMA and `cp.async` may and of others.
#[test]
fn rows_of_two_axes_are_multiplied() {
    for device in devices() {
        for (bm, inner) in [(128, 1), (128, 8), (128, 32), (192, 24)] {
            let kernel = product::<f16>::instance(&device, ProductParams { BM: bm, INNER: inner }).unwrap();
            for [a, b, n, k] in [[16, 32, 64, 64], [11, 27, 72, 40], [3, 10, 64, 36], [4, 7, 30, 38], [5, 9, 61, 37]] {
                let (x, w) = (numbers(a * b * k), numbers(n * k));
                let [left, right] = [&x, &w].map(|all| all.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>());
                let (left, right) = (device.tensor(&left, [a, b, k]).unwrap(), device.tensor(&right, [n, k]).unwrap());
                let mut c = device.tensor(&vec![f16::NAN; a * b * n], [a, b, n]).unwrap();
                kernel.launch(&left, &right, &mut c).unwrap();
                for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
                    let (row, column) = (at / n, at % n);
                    let wanted: f32 = (0..k).map(|at| x[row * k + at] * w[column * k + at]).sum();
                    assert_eq!(found, f16::from_f32(wanted), "{device} {bm} by {inner}: {a} x {b} x {n} x {k}, {at}");
                }
            }
        }
    }
}

/// A producer loads rows of two axes by TMA, a box a tile, and the result leaves by TMA where the axes come out even in 64 rows.
#[test]
fn tma_takes_rows_of_two_axes() {
    let kernel = product::<f16>::definition().kernel().unwrap();
    for (instance, leaves) in kernel.instances.iter().zip([true, true, true, false]) {
        let program = tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap();
        let fallbacks: Vec<_> = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).collect();
        assert!(fallbacks.is_empty(), "{}: {fallbacks:?}", program.name);
        let maps: Vec<_> = program.tensor_maps.values().filter(|map| map.box_extents.len() == 3).collect();
        let [bm, inner] = [0, 1].map(|at| instance.consts[at] as u32);
        assert!(maps.iter().any(|map| !map.stores && map.box_extents == [32, inner, bm / inner]), "{maps:?}");
        assert_eq!(
            maps.iter().any(|map| map.stores && map.box_extents[1..] == [inner, 64 / inner]),
            leaves,
            "{maps:?}"
        );
    }
}
