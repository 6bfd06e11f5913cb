//! The GEMM ladder on both simulators, and what its first rungs read against the memory-traffic model.

use tile_bench::problem::Problem;
use tile_ir::analysis::traffic::Gemm;
use tile_kernel_examples::data::hash;
use tile_kernel_examples::gemm_ladder::{LadderElement, reads};
use tile_kernel_examples::suites::gemm::Dense;
use tile_runtime::prelude::*;

/// Ragged against every tile; the last as seed 003 has it.
const SHAPES: [[usize; 3]; 4] = [[136, 264, 72], [64, 64, 64], [129, 8, 24], [37, 23, 19]];

fn every_rung<T: LadderElement>() {
    let devices = [Device::simulator(), Device::checked_simulator()];
    for shape @ [m, n, k] in SHAPES {
        let problem = Dense::<T>::new(shape, [false, false]);
        for rung in T::rungs() {
            if n % rung.multiple != 0 || k % rung.multiple != 0 {
                continue;
            }
            let results = devices.each_ref().map(|device| {
                let mut buffers = problem.buffers(device).unwrap();
                problem.poison(&mut buffers).unwrap();
                let (a, b, c) = &mut buffers;
                (rung.launch)(&device.stream().unwrap(), a, b, c).unwrap_or_else(|e| panic!("{}: {e}", rung.name));
                let error = problem.error(&buffers).unwrap();
                assert!(error <= 1.0, "{} on {m} x {n} x {k}: {error} times the bound", rung.name);
                hash(&buffers.2.to_vec().unwrap())
            });
            assert_eq!(results[0], results[1], "{} on {m} x {n} x {k}: fast and checked differ", rung.name);
        }
    }
}

#[test]
fn every_rung_in_f16() {
    every_rung::<f16>();
}

#[test]
fn every_rung_in_bf16() {
    every_rung::<bf16>();
}

/// Elements read, counted by the checked simulator, are those of the formulas: naive `2 M N K`, tiled
/// `M K ceil(N / tile) + K N ceil(M / tile)`.
#[test]
fn what_is_read_is_what_the_model_says() {
    let mut counted = 0;
    for [m, n, k] in SHAPES {
        let traffic = Gemm { m: m as u64, n: n as u64, k: k as u64 };
        for rung in f16::rungs() {
            if n % rung.multiple != 0 || k % rung.multiple != 0 {
                continue;
            }
            if let Some(found) = reads(&rung, [m, n, k]).unwrap() {
                assert_eq!(u128::from(found), traffic.tiled_traffic(rung.tile), "{} on {m} x {n} x {k}", rung.name);
                counted += 1;
            }
        }
    }
    assert!(counted >= 10, "{counted} counts");
    let lab = Gemm { m: 37, n: 23, k: 19 };
    assert_eq!(lab.naive_traffic(), 2 * 37 * 23 * 19);
}
