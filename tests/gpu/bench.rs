//! The harness on a GPU: a short race of our GEMV and cuBLAS, and cuBLAS's own results.

use crate::gpu;
use std::time::Duration;
use tile_bench::blas::{Blas, BlasError};
use tile_bench::data::normal;
use tile_bench::race::{OURS, Options};
use tile_kernel_examples::suites::gemv::measure;
use tile_runtime::prelude::*;

/// cuBLAS where it is installed; says so where it is not.
fn blas(device: &Device) -> Option<Blas> {
    match Blas::open(device) {
        Ok(blas) => Some(blas),
        Err(error @ BlasError::Library(_)) => {
            eprintln!("SKIPPED, no cuBLAS: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_short_race_gives_plausible_times() {
    let Some(device) = gpu() else { return };
    let blas = blas(&device);
    let sustained = Some((1, Duration::from_millis(50)));
    let options = Options { rounds: 5, keep: 2, sustained, ..Options::default() };
    let row = measure::<f16>(&device, blas.as_ref(), 4096, 4096, &options).unwrap();
    eprintln!("{row}");
    assert_eq!(row.refused, []);
    for entry in &row.entries {
        // 34 MB: faster than 10 TB/s would be L2 or nothing at all, slower than 0.1 TB/s would be host time.
        let tbps = row.tbps(entry.burst_us.median);
        assert!((0.1..10.0).contains(&tbps), "{}: {tbps} TB/s", entry.full_name());
        assert!(entry.error <= 1.0);
    }
    assert!(row.best(OURS).unwrap().sustained.is_some());
    if blas.is_some() {
        assert!(row.best("cublas").is_some() && row.best("cublaslt").is_some(), "{row}");
        assert!(row.baseline.starts_with("cublas"), "{}", row.baseline);
    }
}

#[test]
fn cublas_multiplies_row_major_matrices() {
    let Some(device) = gpu() else { return };
    let Some(blas) = blas(&device) else { return };
    // Extents that all differ, so that no transposition goes unnoticed.
    let (m, n, k) = (48, 80, 112);
    let (a, b) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    let (a_device, b_device) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    let dot = |row: usize, column: usize| -> f64 {
        (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[column * k + i])).sum()
    };
    let expected: Vec<f64> = (0..m * n).map(|i| dot(i / n, i % n)).collect();
    let norm = expected.iter().map(|v| v * v).sum::<f64>().sqrt();
    let stream = device.stream().unwrap();
    let distance = |c: &Tensor<f32, 2>| {
        let c = c.to_vec().unwrap();
        c.iter().zip(&expected).map(|(c, e)| (f64::from(*c) - e).powi(2)).sum::<f64>().sqrt() / norm
    };
    let algorithms = blas.heuristics::<f32>(m, n, k).unwrap();
    assert!(!algorithms.is_empty());
    for index in 0..=algorithms.len() {
        let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
        device.synchronize().unwrap();
        if index < algorithms.len() {
            algorithms.gemm(index, &stream, &a_device, &b_device, &mut c).unwrap();
        } else {
            blas.gemm(&stream, &a_device, &b_device, &mut c).unwrap();
        }
        device.synchronize().unwrap();
        let distance = distance(&c);
        assert!(distance < 1e-5, "algorithm {index}: {distance}");
    }
    let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
    let beyond = algorithms.gemm(algorithms.len(), &stream, &a_device, &b_device, &mut c);
    assert!(matches!(beyond, Err(BlasError::Algorithm { .. })));
    let swapped = algorithms.gemm(0, &stream, &b_device, &a_device, &mut c);
    assert!(matches!(swapped, Err(BlasError::Shape { .. })));
}
