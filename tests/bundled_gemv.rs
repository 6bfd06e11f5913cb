//! The bundled GEMV on both simulators: every instance, ragged shapes, row pitch, alpha and beta.

use tile_kernel_examples::data::{Real, hash, normal};
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernels::gemv::bulk::{GemvBulkParams, gemv_bulk};
use tile_kernels::gemv::kernel::{GemvParams, gemv as instance_of};
use tile_kernels::gemv::specialized::{GemvSpecializedParams, gemv_specialized};
use tile_kernels::gemv::{Gemv, GemvElement, definition, gemv};
use tile_runtime::prelude::*;

const SHAPES: [(usize, usize); 9] =
    [(1, 1), (1, 8), (2, 257), (3, 256), (7, 1000), (16, 1024), (17, 1032), (33, 4104), (5, 8200)];

/// Every declared instance agrees on both simulators and with f64, where it takes the shape.
fn every_instance<T: GemvElement + Real + Float>() {
    let devices = [Device::simulator(), Device::checked_simulator()];
    let mut run = 0;
    let instances = &definition().kernel().unwrap().instances;
    for instance in instances.iter().filter(|i| i.dtypes == [T::DTYPE]) {
        let [warps, rows, groups, unroll, stages, vec] = instance.consts[..] else { panic!("six constants") };
        let params = GemvParams {
            WARPS: warps as usize,
            ROWS: rows as usize,
            GROUPS: groups as usize,
            UNROLL: unroll as usize,
            STAGES: stages as usize,
            VEC: vec as usize,
        };
        for (n, k) in SHAPES.into_iter().filter(|(_, k)| k.is_multiple_of(vec as usize)) {
            let (w, x) = (normal::<T>(n as u64, n * k), normal::<T>(k as u64, k));
            let results = devices.each_ref().map(|device| {
                let kernel = instance_of::<T>::instance(device, params).unwrap();
                let (w, x) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
                let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n]).unwrap();
                kernel.launch(&w, &x, &mut y, 1.0, 0.0).unwrap_or_else(|e| panic!("{params:?} {n}x{k}: {e}"));
                y.to_vec().unwrap()
            });
            assert_eq!(hash(&results[0]), hash(&results[1]), "{params:?} {n}x{k}: fast and checked differ");
            let error = worst_error(&results[0], &reference(&w, &x, n, k), k);
            assert!(error <= 1.0, "{params:?} {n}x{k}: {error} times the bound");
            run += 1;
        }
    }
    assert!(run >= 50, "{run} runs");
}

#[test]
fn every_instance_in_f16() {
    every_instance::<f16>();
}

#[test]
fn every_instance_in_bf16() {
    every_instance::<bf16>();
}

#[test]
fn every_instance_in_f32() {
    every_instance::<f32>();
}

/// Every instance of the specialised kernel, each for several K in one process: like the reference, and alike on both
/// simulators.
fn specialized<T: GemvElement + Real + Float>() {
    let devices = [Device::simulator(), Device::checked_simulator()];
    let instances = &gemv_specialized::<T>::definition().kernel().unwrap().instances;
    let mut run = 0;
    for instance in instances.iter().filter(|i| i.dtypes == [T::DTYPE]) {
        let [warps, rows, groups, unroll, stages, vec] = instance.consts[..] else { panic!("six constants") };
        let params = GemvSpecializedParams {
            WARPS: warps as usize,
            ROWS: rows as usize,
            GROUPS: groups as usize,
            UNROLL: unroll as usize,
            STAGES: stages as usize,
            VEC: vec as usize,
        };
        for (n, k) in [(1, 8), (3, 256), (7, 1000), (16, 1024), (5, 8200), (2, 16384)] {
            let (w, x) = (normal::<T>(n as u64, n * k), normal::<T>(k as u64, k));
            let results = devices.each_ref().map(|device| {
                let kernel = gemv_specialized::<T>::instance(device, params).unwrap();
                let (w, x) = (device.tensor(&w, [n, k]).unwrap(), device.tensor(&x, [k]).unwrap());
                let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n]).unwrap();
                kernel.launch(&w, &x, &mut y, 1.0, 0.0).unwrap_or_else(|e| panic!("{params:?} {n}x{k}: {e}"));
                y.to_vec().unwrap()
            });
            assert_eq!(hash(&results[0]), hash(&results[1]), "{params:?} {n}x{k}: fast and checked differ");
            let error = worst_error(&results[0], &reference(&w, &x, n, k), k);
            assert!(error <= 1.0, "{params:?} {n}x{k}: {error} times the bound");
            run += 1;
        }
    }
    assert_eq!(run, 16 * 6);
}

#[test]
fn every_specialized_instance_in_bf16() {
    specialized::<bf16>();
}

#[test]
fn every_specialized_instance_in_f32() {
    specialized::<f32>();
}

/// Every instance of the kernel with bulk copies, on ragged rows and columns, dense and with a row pitch.
fn bulk<T: GemvElement + Real + Float>() {
    let devices = [Device::simulator(), Device::checked_simulator()];
    let instances = &gemv_bulk::<T>::definition().kernel().unwrap().instances;
    let mut run = 0;
    for instance in instances.iter().filter(|i| i.dtypes == [T::DTYPE]) {
        let [warps, span, stages, rows, vec] = instance.consts[..] else { panic!("five constants") };
        let params = GemvBulkParams {
            WARPS: warps as usize,
            SPAN: span as usize,
            STAGES: stages as usize,
            ROWS: rows as usize,
            VEC: vec as usize,
        };
        for (n, k, pitch) in [(1, 8, 8), (7, 1000, 1008), (33, 1024, 1024), (37, 2056, 2056), (19, 4096, 4104)] {
            let step = 32 * warps * vec;
            let slot = span * ((k as i64 + step - 1) / step * step) * size_of::<T>() as i64;
            if slot * stages > 220_000 {
                continue; // more than shared memory has
            }
            let (w, x) = (normal::<T>(n as u64, n * pitch), normal::<T>(k as u64, k));
            let results = devices.each_ref().map(|device| {
                let kernel = gemv_bulk::<T>::instance(device, params).unwrap();
                let (w, x) = (device.tensor(&w, [n, pitch]).unwrap(), device.tensor(&x, [k]).unwrap());
                let view = w.slice([0..n, 0..k]).unwrap();
                let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n]).unwrap();
                kernel.launch(view, &x, &mut y, 1.0, 0.0).unwrap_or_else(|e| panic!("{params:?} {n}x{k}: {e}"));
                y.to_vec().unwrap()
            });
            assert_eq!(hash(&results[0]), hash(&results[1]), "{params:?} {n}x{k}: fast and checked differ");
            let dense: Vec<T> = w.chunks(pitch).flat_map(|row| row[..k].to_vec()).collect();
            let error = worst_error(&results[0], &reference(&dense, &x, n, k), k);
            assert!(error <= 1.0, "{params:?} {n}x{k} pitch {pitch}: {error} times the bound");
            run += 1;
        }
    }
    assert!(run >= 60, "{run} runs");
}

#[test]
fn every_bulk_instance_in_f16() {
    bulk::<f16>();
}

#[test]
fn every_bulk_instance_in_bf16() {
    bulk::<bf16>();
}

#[test]
fn every_bulk_instance_in_f32() {
    bulk::<f32>();
}

/// The weights come by bulk copies, which stand above the wait for the previous kernel.
#[test]
fn bulk_copies_of_the_weights_are_not_waited_for() {
    use tile_ir::ir::Target;
    use tile_runtime::kernel::{Format, Variant, show};
    let def = gemv_bulk::<f16>::definition();
    for instance in 0..def.kernel().unwrap().instances.len() {
        let text =
            show(def, Variant { instance, dims: &[("K", 1024)], ..Variant::default() }, Target::Sm90a, Format::Lowered)
                .unwrap();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}:\n{text}"));
        assert!(at("bulk load") < at("wait for the previous kernel"), "{text}");
    }
}

/// Where K divides, every load of W and x stands without a mask of its column.
#[test]
fn a_k_that_divides_needs_no_mask() {
    use tile_ir::ir::Target;
    use tile_runtime::kernel::{Format, Variant, show};
    let def = gemv_specialized::<f16>::definition();
    let wanted = |i: &tile_ir::ir::Instance| i.dtypes == [f16::DTYPE] && i.consts == [8, 1, 1, 4, 1, 8];
    let instance = def.kernel().unwrap().instances.iter().position(wanted).unwrap();
    let text = |k| {
        let which = Variant { instance, dims: &[("K", k)], ..Variant::default() };
        show(def, which, Target::Sm90a, Format::Lowered).unwrap()
    };
    let guards = |text: &str| text.matches(" if ").count();
    assert!(guards(&text(8192)) < guards(&text(8200)), "{}\n{}", text(8192), text(8200));
}

#[test]
fn a_row_pitch_and_an_odd_start_are_served() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        let (n, k, pitch) = (37, 264, 280);
        let matrix = normal::<f16>(1, n * pitch);
        let x = normal::<f16>(2, k);
        let on_device = (device.tensor(&matrix, [n, pitch]).unwrap(), device.tensor(&x, [k]).unwrap());
        // Column 0 is aligned and takes the vectorised kernel; column 3 is not and takes the other.
        for first in [0, 3] {
            let rows = matrix.chunks(pitch).flat_map(|row| row[first..first + k].to_vec()).collect::<Vec<_>>();
            let view = on_device.0.slice([0..n, first..first + k]).unwrap();
            let mut y = device.zeros::<f16, 1>([n]).unwrap();
            gemv(&device, view, &on_device.1, &mut y, Gemv::default()).unwrap();
            let error = worst_error(&y.to_vec().unwrap(), &reference(&rows, &x, n, k), k);
            assert!(error <= 1.0, "from column {first}: {error} times the bound");
        }
    }
}

#[test]
fn alpha_scales_the_product_and_beta_the_old_result() {
    let device = Device::checked_simulator();
    let w = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
    let x = device.tensor(&[10.0f32, 100.0], [2]).unwrap();
    let mut y = device.tensor(&[1.0f32, -1.0], [2]).unwrap();
    gemv(&device, &w, &x, &mut y, Gemv { alpha: 0.5, beta: 8.0 }).unwrap();
    assert_eq!(y.to_vec().unwrap(), [113.0, 207.0]);
    // beta = 0 does not read y, so that what it held cannot matter.
    let mut y = device.tensor(&[f32::NAN, f32::INFINITY], [2]).unwrap();
    gemv(&device, &w, &x, &mut y, Gemv { alpha: 2.0, beta: 0.0 }).unwrap();
    assert_eq!(y.to_vec().unwrap(), [420.0, 860.0]);
}

#[test]
fn empty_operands_do_nothing_and_k_of_zero_gives_zeros() {
    let device = Device::simulator();
    let (w, x) = (device.zeros::<f32, 2>([3, 0]).unwrap(), device.zeros::<f32, 1>([0]).unwrap());
    let mut y = device.tensor(&[f32::NAN; 3], [3]).unwrap();
    gemv(&device, &w, &x, &mut y, Gemv::default()).unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0; 3]);
    let (w, x) = (device.zeros::<f32, 2>([0, 3]).unwrap(), device.zeros::<f32, 1>([3]).unwrap());
    let mut y = device.zeros::<f32, 1>([0]).unwrap();
    gemv(&device, &w, &x, &mut y, Gemv::default()).unwrap();
}

#[test]
fn shapes_that_disagree_launch_nothing() {
    let device = Device::simulator();
    let w = device.zeros::<f16, 2>([8, 16]).unwrap();
    let x = device.zeros::<f16, 1>([24]).unwrap();
    let mut y = device.zeros::<f16, 1>([8]).unwrap();
    let error = gemv(&device, &w, &x, &mut y, Gemv::default()).unwrap_err().to_string();
    assert!(error.contains("TK0701") && error.contains("16") && error.contains("24"), "{error}");
    assert!(error.contains("bundled_gemv.rs"), "the caller's line is named: {error}");
}
