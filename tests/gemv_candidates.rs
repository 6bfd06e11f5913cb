//! What a call of the bundled GEMV may choose: every candidate is a declared instance, and right on both simulators, bit for bit alike, on
//! ragged shapes of every alignment.

use std::collections::BTreeSet;
use tile_kernel_examples::data::{Real, hash, normal};
use tile_kernel_examples::gemv::{reference, worst_error};
use tile_kernels::gemv::model::Parameters;
use tile_kernels::gemv::{Choice, Gemv, GemvElement, Problem, candidates};
use tile_kernels::gemv::{bulk, lines, ring, rows, specialized, split};
use tile_runtime::kernel::{Definition, Dtype};
use tile_runtime::prelude::*;

const DTYPES: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::F32];

/// The kernels that candidates are of: `gemv`, which is not compiled for K, is what serves where none of these does.
fn definitions() -> [&'static Definition; 6] {
    [
        specialized::gemv_specialized::<f32>::definition(),
        rows::gemv_rows::<f32>::definition(),
        lines::gemv_lines::<f32>::definition(),
        split::gemv_split::<f32>::definition(),
        bulk::gemv_bulk::<f32>::definition(),
        ring::gemv_ring::<f32>::definition(),
    ]
}

/// Shapes from one row to very many, from short rows to long ones, and of every alignment.
fn problems() -> impl Iterator<Item = Problem> {
    let shapes = [1, 7, 132, 1500, 4096, 262_144]
        .into_iter()
        .flat_map(|n| [0, 1, 64, 100, 250, 333, 512, 1024, 4096, 9001, 9008, 32_768].into_iter().map(move |k| (n, k)));
    shapes.flat_map(|(n, k)| DTYPES.into_iter().map(move |dtype| Problem::dense(n, k, dtype)))
}

#[test]
fn every_candidate_is_a_declared_instance_and_has_a_time() {
    let mut kernels = BTreeSet::new();
    for problem in problems().chain(problems().map(|p| Problem { hopper: false, ..p })) {
        let mut any = false;
        for candidate in candidates(problem) {
            let choice = candidate.choice;
            let definition = definitions().into_iter().find(|d| d.name() == choice.kernel());
            let kernel = definition.unwrap_or_else(|| panic!("{choice}")).kernel().unwrap();
            let declared = kernel.instances.iter().any(|i| i.dtypes == [problem.dtype] && i.consts == choice.consts());
            assert!(declared, "{choice} of {problem:?}");
            assert!(candidate.us().is_finite() && candidate.us() > 0.0, "{choice} of {problem:?}: {candidate:?}");
            let hopper = matches!(choice, Choice::Split(_) | Choice::Bulk(_) | Choice::Ring(..));
            assert!(problem.hopper || !hopper, "{choice} of {problem:?}");
            kernels.insert(choice.kernel());
            any = true;
        }
        assert!(any, "{problem:?} has no candidate");
    }
    assert_eq!(kernels.len(), definitions().len(), "{kernels:?}");
}

#[test]
fn parameters_survive_being_a_row() {
    assert_eq!(Parameters::from_array(Parameters::H200.to_array()), Parameters::H200);
}

/// Every candidate for operands with a row pitch and a first column.
fn every_candidate<T: GemvElement + Real>(cases: &[(usize, usize, usize, usize)]) {
    let devices = [Device::simulator(), Device::checked_simulator()];
    let mut run = BTreeSet::new();
    for &(n, k, pitch, first) in cases {
        let (w, x) = (normal::<T>(n as u64, n * pitch), normal::<T>(k as u64, k));
        let dense: Vec<T> = w.chunks(pitch).flat_map(|row| row[first..first + k].to_vec()).collect();
        let expected = reference(&dense, &x, n, k);
        let wide = [16, 8, 4].into_iter().find(|wide| {
            [first, pitch, k].into_iter().all(|elements| (elements * size_of::<T>()).is_multiple_of(*wide))
        });
        let wide = wide.map_or(1, |wide| (wide / size_of::<T>()).max(1));
        let problem = Problem { wide, dense: pitch == k, ..Problem::dense(n as i64, k as i64, T::DTYPE) };
        let choices = candidates(problem).map(|candidate| candidate.choice).flat_map(|choice| match choice {
            // Blocks of several rows, the last of them with fewer.
            Choice::Ring(params, rows) => vec![Choice::Ring(params, rows), Choice::Ring(params, 5)],
            _ => vec![choice],
        });
        for choice in choices.collect::<Vec<_>>() {
            let results = devices.each_ref().map(|device| {
                let w = device.tensor(&w, [n, pitch]).unwrap();
                let view = w.slice([0..n, first..first + k]).unwrap();
                let x = device.tensor(&x, [k]).unwrap();
                let mut y = device.tensor(&vec![T::from_f32(f32::NAN); n], [n]).unwrap();
                T::launch(device, choice, view, &x, &mut y, Gemv::default())
                    .unwrap_or_else(|e| panic!("{choice} {n}x{k}: {e}"));
                y.to_vec().unwrap()
            });
            let what = format!("{choice} {} {n}x{k}, pitch {pitch}, from column {first}", T::DTYPE);
            assert_eq!(hash(&results[0]), hash(&results[1]), "{what}: fast and checked differ");
            let error = worst_error(&results[0], &expected, k);
            assert!(error <= 1.0, "{what}: {error} times the bound");
            run.insert(choice.kernel());
        }
    }
    assert_eq!(run.len(), definitions().len(), "{run:?}");
}

/// Rows, columns, pitch and first column of each.
const ALIGNED: [(usize, usize, usize, usize); 7] = [
    (1, 8, 8, 0),
    (37, 64, 64, 0),
    (131, 264, 272, 8),
    (9, 1032, 1032, 0),
    (13, 2048, 2048, 0),
    (3, 8200, 8208, 0),
    (2, 16_400, 16_400, 0),
];
const RAGGED: [(usize, usize, usize, usize); 7] = [
    (1, 1, 1, 0),
    (37, 100, 100, 0),
    (67, 257, 257, 0),
    (9, 1030, 1032, 2),
    (3, 5001, 5001, 0),
    (2, 9000, 9003, 1),
    (1, 17_001, 17_001, 0),
];

#[test]
fn every_candidate_is_right_in_f16() {
    every_candidate::<f16>(&[&ALIGNED[..], &RAGGED].concat());
}

#[test]
fn every_candidate_is_right_in_bf16() {
    every_candidate::<bf16>(&[&ALIGNED[1..5], &RAGGED[2..5], &ALIGNED[5..7]].concat());
}

#[test]
fn every_candidate_is_right_in_f32() {
    every_candidate::<f32>(&[&ALIGNED[..6], &RAGGED].concat());
}
