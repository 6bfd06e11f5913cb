//! Every form on the book's page "The grammar", once: it compiles, and both simulators give the same bits.

mod kernels;

use kernels::{
    axes, clamped, expressions, functions, leaving, numbers, products, reductions, specialized, statements, tiles,
};
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// A launch on both simulators, whose results must be equal.
fn both<R: PartialEq + std::fmt::Debug>(run: impl Fn(&Device) -> R) -> R {
    let (fast, checked) = (run(&Device::simulator()), run(&Device::checked_simulator()));
    assert_eq!(fast, checked);
    fast
}

fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn statements_run_alike() {
    let (n, k) = (3, 20);
    let x: Vec<f32> = (0..n * k).map(|i| (i as f32 * 0.7).sin()).collect();
    let table: Vec<f32> = (0..64).map(|i| i as f32 / 8.0).collect();
    both(|device| {
        let x = device.tensor(&x, [n, k]).unwrap();
        let small = device.tensor(&table[..32], [8, 4]).unwrap();
        let large = device.tensor(&table, [16, 4]).unwrap();
        let mut y = device.zeros::<f32, 2>([n, k]).unwrap();
        statements::<f32, 2, 4, 3, true>::launch(device, &x, &mut y, &small, 0.5f32, n).unwrap();
        let first = bits(y.to_vec().unwrap());
        statements::<f32, 4, 8, 3, false>::launch(device, &x, &mut y, &large, 0.5f32, n).unwrap();
        (first, bits(y.to_vec().unwrap()))
    });
}

#[test]
fn tiles_run_alike() {
    let (m, n) = (11, 20);
    let x: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let (y, copied) = both(|device| {
        let on_device = device.tensor(&x, [m, n]).unwrap();
        let mut y = device.zeros::<f32, 2>([m, n]).unwrap();
        let mut copied = device.zeros::<f32, 2>([m, n]).unwrap();
        tiles::launch(device, &on_device, &mut y, &mut copied).unwrap();
        (y.to_vec().unwrap(), copied.to_vec().unwrap())
    });
    assert_eq!(y, x);
    assert_eq!(copied, x);
}

/// Whole numbers, whose products and sums every executor has exactly.
#[test]
fn fragments_are_clamped() {
    for (m, n, k, low, high) in [(64, 64, 64, -2.0f32, 3.0f32), (70, 130, 40, -7.0, -1.0), (1, 3, 200, 5.0, 5.0)] {
        let [a, b] =
            [(m, 3), (n, 5)].map(|(rows, by)| (0..rows * k).map(|i| (i * by % 7) as f32 - 3.0).collect::<Vec<_>>());
        let product = |i: usize, j: usize| (0..k).map(|e| a[i * k + e] * b[j * k + e]).sum::<f32>().clamp(low, high);
        let greatest = |i: usize, tile: usize| {
            // What lies beyond the tensor is 0 before it is clamped.
            let columns =
                (tile * 64..tile * 64 + 64).map(|j| if j < n { product(i, j) } else { 0.0f32.clamp(low, high) });
            columns.fold(f32::NEG_INFINITY, f32::max).clamp(0.0, 4.0)
        };
        let wanted: Vec<f32> = (0..m * n).map(|e| product(e / n, e % n) + greatest(e / n, e % n / 64)).collect();
        let half = |values: &[f32]| values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>();
        for device in devices() {
            let (a, b) = (device.tensor(&half(&a), [m, k]).unwrap(), device.tensor(&half(&b), [n, k]).unwrap());
            let bounds = device.tensor(&[low, high], [2]).unwrap();
            let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
            clamped::<f16>::launch(&device, &a, &b, &bounds, &mut c).unwrap();
            assert_eq!(c.to_vec().unwrap(), wanted, "{m} x {n} x {k}");
        }
    }
}

#[test]
fn products_run_alike() {
    let (m, n, k) = (40, 36, 16);
    let [a, b] = [m, n].map(|rows| (0..rows * k).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<f32>>());
    let c = both(|device| {
        let (a, b) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
        let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
        products::launch(device, &a, &b, &mut c).unwrap();
        c.to_vec().unwrap()
    });
    let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum::<f32>();
    let twice: Vec<f32> = (0..m * n).map(|at| 2.0 * dot(at / n, at % n)).collect();
    assert_eq!(c, twice);
}

#[test]
fn expressions_run_alike() {
    let x: Vec<f32> = (0..150).map(|i| (i as f32 * 0.3).sin() * 2.0).collect();
    both(|device| {
        let x = device.tensor(&x, [150]).unwrap();
        let mut y = device.zeros::<f32, 1>([150]).unwrap();
        let mut counts = device.tensor(&[0u32, 0, 9, 0], [4]).unwrap();
        expressions::launch(device, &x, &mut y, &mut counts, true).unwrap();
        (bits(y.to_vec().unwrap()), counts.to_vec().unwrap())
    });
}

#[test]
fn functions_of_numbers_and_lanes_run_alike() {
    let x: Vec<f32> = (0..150).map(|i| (i as f32 * 0.3).sin() * 20.0).collect();
    both(|device| {
        let x = device.tensor(&x, [150]).unwrap();
        let mut y = device.zeros::<f32, 1>([150]).unwrap();
        let mut words = device.zeros::<u32, 1>([150]).unwrap();
        numbers::launch(device, &x, &mut y, &mut words).unwrap();
        (bits(y.to_vec().unwrap()), words.to_vec().unwrap())
    });
}

#[test]
fn four_axes_run_alike() {
    let x: Vec<f32> = (0..2 * 3 * 4 * 40).map(|i| i as f32).collect();
    let y = both(|device| {
        let x = device.tensor(&x, [2, 3, 4, 40]).unwrap();
        let mut y = device.zeros::<f32, 4>([2, 3, 4, 80]).unwrap();
        axes::launch(device, &x, &mut y).unwrap();
        y.to_vec().unwrap()
    });
    assert!(y.iter().enumerate().all(|(i, v)| {
        let wanted = x[i / 80 * 40 + i % 40];
        *v == if i % 80 < 40 { wanted } else { -wanted }
    }));
}

#[test]
fn loops_that_end_early_run_alike() {
    let x: Vec<f32> = (0..150).map(|i| (i as f32 * 0.3).sin() * 20.0).collect();
    both(|device| {
        let x = device.tensor(&x, [150]).unwrap();
        let mut y = device.zeros::<f32, 1>([150]).unwrap();
        leaving::launch(device, &x, &mut y).unwrap();
        bits(y.to_vec().unwrap())
    });
}

#[test]
fn specialized_dims_run_alike() {
    for k in [1, 127, 128, 300] {
        let x: Vec<f32> = (0..2 * k).map(|i| i as f32).collect();
        let y = both(|device| {
            let x = device.tensor(&x, [2, k]).unwrap();
            let mut y = device.zeros::<f32, 2>([2, k]).unwrap();
            specialized::launch(device, &x, &mut y).unwrap();
            y.to_vec().unwrap()
        });
        assert_eq!(y, x.iter().map(|v| v + k as f32).collect::<Vec<_>>());
    }
}

#[test]
fn functions_run_alike() {
    let x: Vec<f32> = (0..40 * 3).map(|i| (i as f32 * 0.3).sin()).collect();
    both(|device| {
        let x = device.tensor(&x, [40, 3]).unwrap();
        let bias = device.tensor(&[1.0f32, 2.0, 3.0], [3]).unwrap();
        let mut y = device.zeros::<f32, 1>([40]).unwrap();
        let mut twice = device.tensor(&[f32::NAN; 40], [40]).unwrap();
        functions::<2>::launch(device, &x, None, &mut y, Some(&mut twice)).unwrap();
        let first = y.to_vec().unwrap();
        assert_eq!(twice.to_vec().unwrap(), first.iter().map(|y| 2.0 * y).collect::<Vec<_>>());
        functions::<2>::launch(device, &x, Some(&bias), &mut y, None).unwrap();
        // The one that was left out is as it was, and another argument may not be it.
        assert_eq!(twice.to_vec().unwrap(), first.iter().map(|y| 2.0 * y).collect::<Vec<_>>());
        let short = functions::<2>::launch(device, &x, None, &mut y, Some(&mut device.zeros([39]).unwrap()));
        assert!(short.unwrap_err().to_string().contains("M = 39 (`twice`, axis 0)"));
        (bits(first), bits(y.to_vec().unwrap()))
    });
}

#[test]
fn reductions_run_alike() {
    let (m, n) = (40, 30);
    let x: Vec<f32> = (0..m * n).map(|i| (i as f32 * 0.3).sin()).collect();
    let (_, total) = both(|device| {
        let x = device.tensor(&x, [m, n]).unwrap();
        let mut y = device.zeros::<f32, 1>([m]).unwrap();
        let mut total = device.zeros::<f32, 1>([1]).unwrap();
        reductions::launch(device, &x, &mut y, &mut total).unwrap();
        (bits(y.to_vec().unwrap()), total.to_vec().unwrap())
    });
    let most = |rows: std::ops::Range<usize>| {
        let edge = if rows.end > m { 0.0 } else { f32::NEG_INFINITY };
        rows.filter(|i| *i < m).map(|i| x[i * n]).fold(edge, f32::max)
    };
    assert_eq!(total, [most(0..16) + most(16..32) + most(32..48)]);
}
