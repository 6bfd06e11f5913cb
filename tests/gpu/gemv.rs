//! The bundled GEMV on the GPU: random shapes, row pitch, alpha and beta, poisoned output, guard rows.

use crate::gpu;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tile_kernel_examples::data::{Real, hash, normal};
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernels::gemv::bulk::{GemvBulkParams, gemv_bulk};
use tile_kernels::gemv::kernel::{GemvParams, gemv as any_k};
use tile_kernels::gemv::specialized::{GemvSpecializedParams, gemv_specialized};
use tile_kernels::gemv::{Gemv, GemvElement, gemv};
use tile_runtime::prelude::*;

fn random_shapes<T: GemvElement + Real>(device: &Device, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..60 {
        let n = if round % 5 == 0 { rng.random_range(1..20) } else { rng.random_range(1..3000) };
        let k = if round % 3 == 0 { rng.random_range(1..700) } else { rng.random_range(1..500) * 8 };
        let pitch = k + [0, 8, 16, 1][round % 4];
        let (w, x) = (normal::<T>(seed + round as u64, n * pitch), normal::<T>(seed ^ 99, k));
        let dense: Vec<T> = (0..n).flat_map(|row| w[row * pitch..row * pitch + k].to_vec()).collect();

        let w = device.tensor(&w, [n, pitch]).unwrap();
        let x_device = device.tensor(&x, [k]).unwrap();
        // Rows before and after the output must stay as they are, and what is in it must not matter.
        let guard = 5;
        let poison = vec![T::from_f32(f32::NAN); n + 2 * guard];
        let mut y = device.tensor(&poison, [n + 2 * guard]).unwrap();
        let view = w.slice([0..n, 0..k]).unwrap();
        let mut run = || {
            let out = y.rows_mut(guard..guard + n).unwrap();
            gemv(device, view, &x_device, out, Gemv::default()).unwrap();
            y.to_vec().unwrap()
        };
        let result = run();
        assert_eq!(hash(&result), hash(&run()), "{n}x{k}: a second launch gave other bits");
        let (before, rest) = result.split_at(guard);
        let (inside, after) = rest.split_at(n);
        assert!(before.iter().chain(after).all(|v| v.to_f32().is_nan()), "{n}x{k}: wrote outside y");
        let error = worst_error(inside, &reference(&dense, &x, n, k), k);
        assert!(error <= 1.0, "{n}x{k} pitch {pitch}: {error} times the bound away from f64");
    }
}

#[test]
fn random_shapes_are_right() {
    let Some(device) = gpu() else { return };
    random_shapes::<f16>(&device, 1);
    random_shapes::<bf16>(&device, 2);
    random_shapes::<f32>(&device, 3);
}

/// Every instance of the kernel with bulk copies has the fast simulator's bits, on ragged rows and columns, dense and with a
/// row pitch.
fn bulk<T: GemvElement + Real + Float>(device: &Device) {
    let simulator = Device::simulator();
    for instance in &gemv_bulk::<T>::definition().kernel().unwrap().instances {
        let [warps, span, stages, rows, vec] = instance.consts[..] else { panic!("five constants") };
        if instance.dtypes != [T::DTYPE] {
            continue;
        }
        let [warps, span, stages, rows, vec] = [warps, span, stages, rows, vec].map(|v| v as usize);
        let params = GemvBulkParams { WARPS: warps, SPAN: span, STAGES: stages, ROWS: rows, VEC: vec };
        for (n, k, pitch) in
            [(1usize, 8usize, 8), (700, 1000, 1016), (1024, 1024, 1024), (1030, 4096, 4096), (300, 4104, 4112)]
        {
            let step = 32 * warps * vec;
            if span * k.next_multiple_of(step) * size_of::<T>() * stages > 220_000 {
                continue; // more than shared memory has
            }
            let (w, x) = (normal::<T>(n as u64, n * pitch), normal::<T>(k as u64, k));
            let [ours, expected] = [device, &simulator].map(|device| {
                let kernel = gemv_bulk::<T>::instance(device, params).unwrap();
                let (w, x) = (device.tensor(&w, [n, pitch]).unwrap(), device.tensor(&x, [k]).unwrap());
                let view = w.slice([0..n, 0..k]).unwrap();
                let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n + 2], [n + 2]).unwrap();
                let mut all = Vec::new();
                for _ in 0..3 {
                    kernel.launch(view, &x, y.rows_mut(1..n + 1).unwrap(), 1.0, 0.0).unwrap();
                    all.push(y.to_vec().unwrap());
                }
                all
            });
            let edges = ours.iter().flat_map(|y| [y[0], y[n + 1]]);
            assert!(edges.into_iter().all(|v| v.to_f32().is_nan()), "{params:?} {n}x{k}: wrote outside y");
            let bits = |all: &[Vec<T>]| all.iter().map(|y| hash(&y[1..=n])).collect::<Vec<_>>();
            assert_eq!(bits(&ours), bits(&expected), "{params:?} {n}x{k} pitch {pitch}: not the simulator's bits");
        }
    }
}

/// Every instance for any K and every one compiled for K has the fast simulator's bits.
macro_rules! instances {
    ($device:expr, $ty:ty, $kernel:ident, $params:ident) => {
        for instance in &$kernel::<$ty>::definition().kernel().unwrap().instances {
            let [warps, rows, groups, unroll, stages, vec] = instance.consts[..] else { panic!("six constants") };
            if instance.dtypes != [<$ty>::DTYPE] {
                continue;
            }
            let params = $params {
                WARPS: warps as usize,
                ROWS: rows as usize,
                GROUPS: groups as usize,
                UNROLL: unroll as usize,
                STAGES: stages as usize,
                VEC: vec as usize,
            };
            for (n, k) in [(1, 8), (2, 257), (3, 256), (7, 1000), (129, 1016), (257, 1024), (33, 4104), (5, 8200)] {
                if k % params.VEC != 0 {
                    continue;
                }
                let (w, x) = (normal::<$ty>(n as u64, n * k), normal::<$ty>(k as u64, k));
                let results = [$device, &Device::simulator()].map(|device| {
                    let kernel = $kernel::<$ty>::instance(device, params).unwrap();
                    let (w, x) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
                    let mut y = device.tensor(&vec![<$ty>::from_f32(f32::NAN); n], [n]).unwrap();
                    kernel.launch(&w, &x, &mut y, 1.0, 0.0).unwrap();
                    hash(&y.to_vec().unwrap())
                });
                assert_eq!(results[0], results[1], "{params:?} {n}x{k}: not the simulator's bits");
            }
        }
    };
}

#[test]
fn every_instance_gives_the_simulators_bits() {
    let Some(device) = gpu() else { return };
    instances!(&device, f16, any_k, GemvParams);
    instances!(&device, bf16, any_k, GemvParams);
    instances!(&device, f32, any_k, GemvParams);
    instances!(&device, f16, gemv_specialized, GemvSpecializedParams);
    instances!(&device, bf16, gemv_specialized, GemvSpecializedParams);
    instances!(&device, f32, gemv_specialized, GemvSpecializedParams);
}

#[test]
fn bulk_copies_give_the_simulators_bits() {
    let Some(device) = gpu() else { return };
    bulk::<f16>(&device);
    bulk::<bf16>(&device);
    bulk::<f32>(&device);
}

#[test]
fn alpha_and_beta_scale() {
    let Some(device) = gpu() else { return };
    let (n, k) = (777, 1024);
    let (w, x, y0) = (normal::<f32>(1, n * k), normal::<f32>(2, k), normal::<f32>(3, n));
    let (w_device, x_device) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
    let mut y = device.tensor(&y0, [n]).unwrap();
    gemv(&device, &w_device, &x_device, &mut y, Gemv { alpha: 1.5, beta: -0.5 }).unwrap();
    let result = y.to_vec().unwrap();
    for (row, (sum, abs)) in reference(&w, &x, n, k).into_iter().enumerate() {
        let expected = 1.5 * sum - 0.5 * f64::from(y0[row]);
        let bound = 1e-6 * (expected.abs() + 1.0) + 1.5 * k as f64 * 2f64.powi(-24) * abs;
        assert!((f64::from(result[row]) - expected).abs() <= bound, "row {row}");
    }
}
