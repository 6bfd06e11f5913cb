//! Products in parts of K over blocks whose threads copy: against a product on the CPU, in f32, as tf32 and of 16 bits, whatever their
//! layout and alignment.

use tile_kernel_examples::data::{Real, hash, integers, normal};
use tile_kernel_examples::gemm::{Case, LAYOUTS, product};
use tile_kernels::gemm::parts::{self, Parts};
use tile_kernels::gemm::{Choice, Gemm, GemmElement, Precision, candidates, gemm, gemm_by, tf32};
use tile_runtime::prelude::*;

fn shape(transposed: bool, rows: usize, cols: usize) -> [usize; 2] {
    if transposed { [cols, rows] } else { [rows, cols] }
}

/// A launch gives the product of the CPU.
fn check<T: GemmElement<U> + Real, U: Real>(
    device: &Device,
    parts: Parts,
    shape: [usize; 3],
    stored: [bool; 2],
    pad: usize,
) {
    let precision = if parts.tf32 { Precision::Tf32 } else { Precision::Full };
    let launch = |a: TensorView<'_, T, 2>,
                  b: TensorView<'_, T, 2>,
                  c: TensorViewMut<'_, U, 2>,
                  options: &Gemm<'_, T>| { parts::launch(device, parts, a, b, c, options) };
    if let Err(wrong) = Case::<T, U>::new(shape, stored, [pad, pad, 0]).check(device, precision, launch) {
        panic!("{parts:?}: {wrong}");
    }
}

/// A number that a seed and a place decide, below a limit.
fn drawn(seed: usize, limit: usize) -> usize {
    (seed.wrapping_mul(0x9E37_79B9) >> 7) % limit
}

/// Every tile in every layout on ragged shapes, with parts beyond the end of K among them. The checked simulator, which goes lane by lane,
/// takes a share.
fn every_tile<T: GemmElement<U> + Real, U: Real>(device: &Device, bytes: u32, share: usize) {
    for (number, parts) in Parts::samples(bytes).enumerate() {
        for (place, stored) in LAYOUTS.into_iter().enumerate() {
            let seed = 4 * number + place;
            if !seed.is_multiple_of(share) {
                continue;
            }
            let (rows, cols) = (parts.tile.0 as usize, parts.tile.1 as usize);
            let m = 1 + drawn(seed, 2 * rows);
            let n = 1 + drawn(seed + 1, cols + 20);
            let k = 1 + drawn(seed + 2, 300);
            check::<T, U>(device, parts, [m, n, k], stored, drawn(seed + 3, 5));
            // Rows that begin at multiples of 16 bytes.
            check::<T, U>(device, parts, [m, n, k].map(|extent| extent.next_multiple_of(8)), stored, 8);
        }
    }
}

#[test]
fn every_tile_on_the_fast_simulator() {
    let device = &Device::simulator();
    every_tile::<f32, f32>(device, 4, 1);
    every_tile::<bf16, bf16>(device, 2, 1);
    every_tile::<f16, f32>(device, 2, 3);
}

#[test]
fn a_share_on_the_checked_simulator() {
    let device = &Device::checked_simulator();
    every_tile::<f32, f32>(device, 4, 7);
    every_tile::<f16, f16>(device, 2, 5);
}

/// A shape of operands that TMA fetches, into rows that are not aligned: `gemm_slots` stores 16 bytes at once.
const FETCHED: [usize; 3] = [24, 97, 8000];

/// What a call takes: shapes of few tiles and a long K, whose operands TMA does not fetch.
#[test]
fn calls_are_split() {
    fn called<T: GemmElement + Real>(shape @ [m, n, k]: [usize; 3], stored: [bool; 2], precision: Precision) {
        let device = &Device::simulator();
        let (a, b) = (integers::<T>(1, m * k, 2), integers::<T>(2, n * k, 2));
        let da = device.tensor(&a, self::shape(stored[0], m, k)).unwrap();
        let db = device.tensor(&b, self::shape(stored[1], k, n)).unwrap();
        let mut c = device.zeros::<T, 2>([m, n]).unwrap();
        let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], precision, ..Gemm::default() };
        let all = candidates(device, &da, &db, &mut c, &options);
        let is_split = |choice: &Choice| choice.parts.is_some_and(|parts| parts.slots > 1);
        // Of operands that TMA fetches there are others that may be faster.
        let fetched = shape == FETCHED || precision == Precision::Tf32 && tf32::takes(stored);
        let looked_at = if fetched { &all[..] } else { &all[..1] };
        assert!(looked_at.iter().any(|(choice, _)| is_split(choice)), "{shape:?}: {}", all[0].0);
        let names: std::collections::BTreeSet<String> = all.iter().map(|(choice, _)| choice.to_string()).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        let wanted: Vec<T> = product(&a, &b, shape, stored).into_iter().map(T::from_f32).collect();
        gemm(device, &da, &db, &mut c, &options).unwrap();
        assert!(c.to_vec().unwrap() == wanted, "{shape:?}");
        let (slowest, _) = all[all.len() - 1];
        gemm_by(device, slowest, &da, &db, &mut c, &options).unwrap();
        assert!(c.to_vec().unwrap() == wanted, "{shape:?} by {slowest}");
    }
    called::<f32>([8, 136, 6000], [true, false], Precision::Full);
    called::<f32>([40, 72, 6000], [false, false], Precision::Full);
    called::<f32>([20, 68, 6000], [true, true], Precision::Tf32);
    called::<f32>([20, 68, 6000], [true, false], Precision::Tf32);
    called::<f32>([20, 68, 6000], [false, true], Precision::Tf32);
    called::<bf16>([4, 69, 6145], [false, true], Precision::Full);
    called::<f16>([5, 89, 6704], [true, false], Precision::Full);
    called::<bf16>(FETCHED, [false, true], Precision::Full);
}

/// Rounded sums have the same bits at every launch, and on both simulators.
#[test]
fn the_same_bits_at_every_launch() {
    let [m, n, k] = [19, 70, 331];
    let (a, b) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    let devices = [Device::simulator(), Device::checked_simulator()];
    for parts in Parts::samples(4).filter(|parts| parts.slots == 7) {
        let mut found = vec![];
        for device in &devices {
            let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            for _ in 0..3 {
                let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
                parts::launch(device, parts, &da, &db, &mut c, &Gemm::nt()).unwrap();
                found.push(hash(&c.to_vec().unwrap()));
            }
        }
        assert!(found.iter().all(|bits| *bits == found[0]), "{parts:?}: {found:?}");
    }
}

/// More blocks than there is room for are refused before anything is launched.
#[test]
fn too_many_parts_are_refused() {
    let device = Device::simulator();
    let (a, b) = (device.zeros::<f32, 2>([8, 64]).unwrap(), device.zeros::<f32, 2>([64, 64]).unwrap());
    let mut c = device.zeros::<f32, 2>([8, 64]).unwrap();
    for slots in [0, 1057] {
        let parts = Parts { slots, ..Parts::samples(4).next().unwrap() };
        assert!(parts::launch(&device, parts, &a, &b, &mut c, &Gemm::nt()).is_err(), "{slots}");
    }
}
