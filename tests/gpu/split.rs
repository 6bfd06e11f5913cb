//! K split over clusters and slots, on a GPU: against a product on the CPU, of integers, whose sums are exact in any order;
//! and, of others, the same bits at every launch.

use tile_kernel_examples::data::{hash, integers, normal};
use tile_kernel_examples::gemm::product;
use tile_kernels::gemm::Gemm;
use tile_kernels::gemm::split::{self, Split};
use tile_runtime::kernel::Target;
use tile_runtime::prelude::*;

fn hopper() -> Option<Device> {
    let device = super::gpu()?;
    if !device.supports(Target::Sm90a) {
        eprintln!("SKIPPED, no clusters on this GPU");
        return None;
    }
    Some(device)
}

/// Every split on shapes that its tile does not divide, on more rows than one tile has, and on a K shorter than its parts;
/// clusters beyond what the device holds at once among them.
#[test]
fn every_split() {
    let Some(device) = hopper() else { return };
    for split in Split::samples(false) {
        let (rows, cols) = (split.tile.0 as usize, split.tile.1 as usize);
        for m in [1, rows - 1, rows, rows + 8, 2 * rows + 5] {
            for (n, k) in
                [(cols, 8), (cols + 8, 72), (3 * cols + 8, 520), (40 * cols + 8, 136), (8, 16_392), (136, 4104)]
            {
                // The CPU multiplies them slowly.
                if n > 10 * cols && m > rows {
                    continue;
                }
                // Rows of a matrix that is stored transposed are of whole 16 bytes.
                let stored = [[false, true], [false, false], [true, false], [true, true]][(m + n) % 4];
                let stored = if split.has(stored) && (!stored[0] || m % 8 == 0) { stored } else { [false, true] };
                let (a, b) = (integers::<bf16>(m as u64, m * k, 3), integers::<bf16>(n as u64, n * k, 3));
                let (da, db) = (
                    device.tensor(&a, if stored[0] { [k, m] } else { [m, k] }).unwrap(),
                    device.tensor(&b, if stored[1] { [n, k] } else { [k, n] }).unwrap(),
                );
                let wanted: Vec<bf16> = product(&a, &b, [m, n, k], stored).into_iter().map(bf16::from_f32).collect();
                let options = Gemm { a_transposed: stored[0], b_transposed: stored[1], ..Gemm::default() };
                // The rows behind the result are somebody else's.
                let poison = bf16::from_f32(12345.0);
                let mut all = device.tensor(&vec![poison; (m + 40) * n], [m + 40, n]).unwrap();
                for _ in 0..3 {
                    let c = all.rows_mut(0..m).unwrap();
                    split::launch(&device, split, &da, &db, c, &options).unwrap();
                    let found = all.to_vec().unwrap();
                    let wrong = found[..m * n].iter().zip(&wanted).position(|(x, y)| x != y);
                    assert_eq!(wrong, None, "{split:?}: {m} x {n} x {k}, {stored:?}");
                    assert!(found[m * n..].iter().all(|x| *x == poison), "{split:?}: {m} x {n} x {k}, behind");
                }
            }
        }
    }
}

/// Whichever block is the last, and whoever is still at work on the launch before.
#[test]
fn splits_give_the_same_bits_at_every_launch() {
    let Some(device) = hopper() else { return };
    let [m, n, k] = [64, 136, 8200];
    let (a, b) = (normal::<f16>(1, m * k), normal::<f16>(2, n * k));
    let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    for split in Split::samples(false) {
        let mut results: Vec<_> = (0..8).map(|_| device.zeros::<f32, 2>([m, n]).unwrap()).collect();
        let mut first = None;
        for _ in 0..25 {
            for c in &mut results {
                split::launch(&device, split, &da, &db, c, &Gemm::nt()).unwrap();
            }
            for c in &results {
                let found = hash(&c.to_vec().unwrap());
                assert_eq!(*first.get_or_insert(found), found, "{split:?}");
            }
        }
    }
}

/// Each product is an operand of the next, which may begin before it is done.
#[test]
fn splits_follow_one_another() {
    let Some(device) = hopper() else { return };
    let n = 256;
    // A permutation of rows, 16 times: of 16 elements each cycle, so that the first operand comes back.
    let shift: Vec<f16> = (0..n * n).map(|e| f16::from_f32(f32::from(e % n == (e / n + n / 16) % n))).collect();
    let values = integers::<f16>(5, 64 * n, 3);
    let w = device.tensor(&shift, [n, n]).unwrap();
    for split in Split::samples(false) {
        let mut x = [device.tensor(&values, [64, n]).unwrap(), device.zeros::<f16, 2>([64, n]).unwrap()];
        for _ in 0..64 {
            let [from, to] = &mut x;
            split::launch(&device, split, &*from, &w, to, &Gemm::nt()).unwrap();
            x.swap(0, 1);
        }
        assert!(x[0].to_vec().unwrap() == values, "{split:?}");
    }
}
