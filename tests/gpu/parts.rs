//! K in parts over blocks whose threads copy, on a GPU: against a product on the CPU, of integers, whose sums are exact in any order; and,
//! of others, the same bits at every launch.

use tile_kernel_examples::data::{Real, hash, integers, normal};
use tile_kernel_examples::gemm::product;
use tile_kernels::gemm::parts::{self, Parts};
use tile_kernels::gemm::{Gemm, GemmElement, Precision, candidates, gemm, gemm_by};
use tile_runtime::prelude::*;

const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

fn options<T: Element>([a_transposed, b_transposed]: [bool; 2], tf32: bool) -> Gemm<'static, T> {
    let precision = if tf32 { Precision::Tf32 } else { Precision::Full };
    Gemm { a_transposed, b_transposed, precision, ..Gemm::default() }
}

/// Every choice of a call gives the product, three times over, and leaves what is behind it alone.
fn every_choice<T: GemmElement + Real>(device: &Device, [m, n, k]: [usize; 3], stored: [bool; 2], tf32: bool) {
    let (a, b) = (integers::<T>(m as u64, m * k, 2), integers::<T>(n as u64, n * k, 2));
    let da = device.tensor(&a, if stored[0] { [k, m] } else { [m, k] }).unwrap();
    let db = device.tensor(&b, if stored[1] { [n, k] } else { [k, n] }).unwrap();
    let wanted: Vec<T> = product(&a, &b, [m, n, k], stored).into_iter().map(T::from_f32).collect();
    let poison = T::from_f32(12345.0);
    let mut all = device.tensor(&vec![poison; (m + 40) * n], [m + 40, n]).unwrap();
    let options = options(stored, tf32);
    let choices = candidates(device, &da, &db, all.rows_mut(0..m).unwrap(), &options);
    assert!(choices.iter().any(|(choice, _)| choice.parts.is_some_and(|parts| parts.slots > 1)));
    for (choice, _) in choices {
        for _ in 0..3 {
            gemm_by(device, choice, &da, &db, all.rows_mut(0..m).unwrap(), &options).unwrap();
            let found = all.to_vec().unwrap();
            let wrong = found[..m * n].iter().zip(&wanted).position(|(x, y)| x != y);
            assert_eq!(wrong, None, "{choice}: {m} x {n} x {k}, {stored:?}");
            assert!(found[m * n..].iter().all(|x| *x == poison), "{choice}: {m} x {n} x {k}, behind");
        }
    }
}

#[test]
fn every_choice_of_a_call() {
    let Some(device) = super::gpu() else { return };
    for (place, stored) in LAYOUTS.into_iter().enumerate() {
        for [m, n, k] in [[8, 136, 23_592], [33, 264, 4104], [200, 72, 1032], [1, 1416, 320]] {
            // Rows of a multiple of 16 bytes, and others.
            let odd = [m + place, n - place, k - 3 * place];
            every_choice::<f32>(&device, [m, n, k], stored, false);
            every_choice::<f32>(&device, odd, stored, false);
            every_choice::<f32>(&device, [m, n, k], stored, true);
            every_choice::<bf16>(&device, [m, n - 1, k - 1], stored, false);
            every_choice::<f16>(&device, [m + 1, n - 2, k - 2], stored, false);
        }
    }
}

/// Whichever block is the last, and whoever is still at work on the launch before.
#[test]
fn parts_give_the_same_bits_at_every_launch() {
    fn check<T: Real>(device: &Device, parts: Parts) {
        let [m, n, k] = [61, 139, 8201];
        let (da, db) = (
            device.tensor(&normal::<T>(1, m * k), [m, k]).unwrap(),
            device.tensor(&normal::<T>(2, n * k), [n, k]).unwrap(),
        );
        let mut results: Vec<_> = (0..8).map(|_| device.zeros::<f32, 2>([m, n]).unwrap()).collect();
        let mut first = None;
        for _ in 0..25 {
            for c in &mut results {
                parts::launch(device, parts, &da, &db, c, &options([false, true], parts.tf32)).unwrap();
            }
            for c in &results {
                let found = hash(&c.to_vec().unwrap());
                assert_eq!(*first.get_or_insert(found), found, "{parts:?}");
            }
        }
    }
    let Some(device) = super::gpu() else { return };
    for parts in Parts::samples(2) {
        check::<f16>(&device, parts);
    }
    for parts in Parts::samples(4) {
        check::<f32>(&device, parts);
    }
}

/// Each product is an operand of the next, which may begin before it is done.
#[test]
fn parts_follow_one_another() {
    let Some(device) = super::gpu() else { return };
    let n = 256;
    // A permutation of columns whose sixteenth power is the identity.
    let shift: Vec<f32> = (0..n * n).map(|e| f32::from(u8::from(e % n == (e / n + n / 16) % n))).collect();
    let values = integers::<f32>(5, 24 * n, 3);
    let w = device.tensor(&shift, [n, n]).unwrap();
    for tf32 in [false, true] {
        let mut x = [device.tensor(&values, [24, n]).unwrap(), device.zeros::<f32, 2>([24, n]).unwrap()];
        for _ in 0..64 {
            let [from, to] = &mut x;
            gemm(&device, &*from, &w, to, &options([false, true], tf32)).unwrap();
            x.swap(0, 1);
        }
        assert!(x[0].to_vec().unwrap() == values, "{tf32}");
    }
}
