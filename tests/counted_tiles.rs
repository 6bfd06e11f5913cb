//! A `persistent` loop whose tiles are counted: every tile once, whichever block takes it, and the counter is 0 again when a launch ends. On both
//! simulators, and on a GPU where there is one.

use tile_kernel_examples::data::integers;
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::prelude::*;

/// C = A B^T of a lower triangular A: the rows of a tile have no column behind the diagonal, so tiles are of different length, the longest first.
#[tile_kernel]
pub fn triangular(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    taken: &mut Tensor<u32, (Fixed<2>,)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [x, y] in persistent([ceil_div(N, 64), ceil_div(M, 64)]).counter(&mut taken[1]) {
        let row = (ceil_div(M, 64) - 1 - y) * 64;
        clear(&mut acc);
        for step in pipelined(0..ceil_div(min(min(row + 64, K), 1 << 30), 64), 2) {
            copy(a.at([row, step * 64]), &mut a_s);
            copy(b.at([x * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([row, x * 64]));
    }
}

#[test]
fn every_tile_is_taken_once_and_the_counter_is_left_at_zero() {
    for [m, n] in [[64, 64], [200, 328], [328, 72], [520, 136]] {
        let (mut a, b) = (integers::<f16>(1, m * m, 3), integers::<f16>(2, n * m, 3));
        for (at, value) in a.iter_mut().enumerate() {
            *value = if at % m > at / m { f16::ZERO } else { *value };
        }
        let wanted = product(&a, &b, [m, n, m], [false, true]);
        for device in devices() {
            let (da, db) = (device.tensor(&a, [m, m]).unwrap(), device.tensor(&b, [n, m]).unwrap());
            let mut taken = device.zeros::<u32, 1>([2]).unwrap();
            for _ in 0..3 {
                let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
                triangular::launch(&device, &da, &db, &mut c, &mut taken).unwrap();
                assert_eq!(c.to_vec().unwrap(), wanted, "{device:?}: {m} x {n}");
                assert_eq!(taken.to_vec().unwrap(), [0, 0], "{device:?}: {m} x {n}");
            }
        }
    }
}

/// Where there is TMA the tiles are counted, and a remark says so; elsewhere a block has one tile, and another remark says that.
#[test]
fn it_is_said_whether_tiles_are_counted() {
    use tile_ir::ir::Target;
    let kernel = triangular::definition().kernel().unwrap();
    let remarks = |target| {
        let program = tile_ir::lower::lower(kernel, &kernel.instances[0], target).unwrap();
        program.remarks.iter().map(|remark| remark.text.clone()).collect::<Vec<_>>().join("\n")
    };
    assert!(
        remarks(Target::Sm90a).contains("each block takes the next tile that is counted"),
        "{}",
        remarks(Target::Sm90a)
    );
    assert!(remarks(Target::Sm80).contains("`.counter(..)` has no effect"), "{}", remarks(Target::Sm80));
}

/// `explain` counts as many tiles a block as there are, whether they are counted or a grid apart.
#[test]
fn explain_counts_every_tile() {
    use tile_ir::explain::{Machine, Shape, explain};
    use tile_ir::ir::Target;
    let kernel = whole::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], Target::Sm90a).unwrap();
    // 132 blocks of one to ten tiles: the next one is counted late, and early.
    for tiles in [1, 2, 4, 5, 10] {
        let (m, n, k) = (132.0 * 64.0, 64.0 * f64::from(tiles), 256.0);
        let shape = Shape::dense(&program, &[("M", m), ("N", n), ("K", k)]).unwrap().with_capacity(132);
        let report = explain(&program, &shape, &Machine::H200, None).unwrap();
        assert_eq!(report.roofline.flops, 2.0 * m * n * k, "{tiles} tiles a block: {report}");
    }
}

/// C = A B^T in tiles of equal length.
#[tile_kernel]
pub fn whole(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
    taken: &mut Tensor<u32, (Fixed<1>,)>,
) {
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    for [x, y] in persistent([ceil_div(N, 64), ceil_div(M, 64)]).counter(&mut taken[0]) {
        clear(&mut acc);
        for step in pipelined(0..ceil_div(K, 64), 2) {
            copy(a.at([y * 64, step * 64]), &mut a_s);
            copy(b.at([x * 64, step * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([y * 64, x * 64]));
    }
}
