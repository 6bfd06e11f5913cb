//! What the launcher computes: extents and contracts with conditions, on both simulators and on a GPU where there is one.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// Rows of a matrix in one order or in the other, as the launch says: block (x, y) notes where it stands.
#[tile_kernel(require(if by_row { M > 0 } else { N > 0 }))]
pub fn in_order(y: &mut Tensor<u32, (M, N)>, by_row: bool) {
    let [first, second] = blocks([if by_row { M } else { N }, if by_row { N } else { M }]);
    let [t] = threads([32]);
    let (i, j) = (if by_row { first } else { second }, if by_row { second } else { first });
    if t == 0 {
        *y.masked_mut([i, j]) = (first * 1000 + second) as u32;
    }
}

/// The sum of each row by blocks that take row after row, a row by so many of them as fit.
#[tile_kernel]
pub fn row_after_row(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>, twice: bool) {
    let [t] = threads([32]);
    for [row] in persistent([if twice { 2 * M } else { M }]) {
        let mut sum = 0.0f32;
        for i in 0..ceil_div(N, 32) {
            sum += x.masked([row, i * 32 + t]);
        }
        let all = thread_allreduce(Sum, sum, t);
        if t == 0 {
            *y.masked_mut([row]) = all;
        }
    }
}

#[test]
fn extents_may_depend_on_conditions() {
    let (m, n) = (3, 5);
    for (device, by_row) in devices().into_iter().flat_map(|device| [(device.clone(), false), (device, true)]) {
        let mut y = device.tensor(&vec![u32::MAX; m * n], [m, n]).unwrap();
        in_order::launch(&device, &mut y, by_row).unwrap();
        for (at, found) in y.to_vec().unwrap().into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            assert_eq!(found as usize, if by_row { i * 1000 + j } else { j * 1000 + i }, "{device} {by_row}");
        }
    }
}

#[test]
fn tiles_may_depend_on_conditions() {
    let (m, n) = (7, 45);
    let x: Vec<f32> = (0..m * n).map(|i| (i % 11) as f32).collect();
    for (device, twice) in devices().into_iter().flat_map(|device| [(device.clone(), false), (device, true)]) {
        let data = device.tensor(&x, [m, n]).unwrap();
        let mut y = device.tensor(&vec![f32::NAN; m], [m]).unwrap();
        row_after_row::launch(&device, &data, &mut y, twice).unwrap();
        let wanted: Vec<f32> = x.chunks(n).map(|row| row.iter().sum()).collect();
        assert_eq!(y.to_vec().unwrap(), wanted, "{device} {twice}");
    }
}

/// A contract with a condition is checked, and said as it is written.
#[test]
fn contracts_with_conditions_are_checked() {
    let device = Device::simulator();
    let mut y = device.zeros::<u32, 2>([0, 5]).unwrap();
    let refused = in_order::launch(&device, &mut y, true).unwrap_err().to_string();
    assert!(refused.contains("if by_row { M > 0 } else { N > 0 }"), "{refused}");
    assert!(in_order::launch(&device, &mut y, false).is_ok());
}
