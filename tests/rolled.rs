//! Rolled rings, and loads at addresses that the block has read into shared memory before the loop: results on every device against sums of
//! integers, which are exact.

use tile_kernel_examples::data::integers;
use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `c = a[rows] b^T`, where `rows` are 32 rows of `a` a place.
#[tile_kernel(instances(STAGES in [1, 2, 3, 5]), require(32 <= L))]
pub fn gathered<const STAGES: usize>(
    a: &Tensor<f16, (P, K)>,
    b: &Tensor<f16, (N, K)>,
    places: &Tensor<u32, (L,)>,
    c: &mut Tensor<f32, (Fixed<32>, N)>,
    steps: usize,
) {
    let [bx] = blocks([ceil_div(N, 32)]);
    let [t] = threads([64]);
    let mut a_s = alloc_shared::<f16>([32, 16]);
    let mut b_s = alloc_shared::<f16>([32, 16]);
    let mut table = alloc_shared::<u32>([64]);
    let mut acc = alloc_fragment::<f32>([32, 32]);
    clear(&mut acc);
    table[t] = places.masked([t]);
    sync_threads();
    for step in pipelined(0..steps, STAGES).schedule(Rolled) {
        let place = if step < 64 { table[step] } else { places.masked([step]) } as usize;
        copy(a.at([place * 32, step * 16]), &mut a_s);
        copy(b.at([bx * 32, step * 16]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([0, bx * 32]));
}

/// The sum of a row, by loads into registers, which no rolled loop can choose by a number: it is written out.
#[tile_kernel]
pub fn row_sum(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    let [row] = blocks([M]);
    let [t] = threads([32]);
    let mut here = alloc_local::<f32>([4]);
    let mut sum = 0.0f32;
    for step in pipelined(0..ceil_div(N, 128), 3).schedule(Rolled) {
        for v in unroll(0..4) {
            here[v] = x.masked([row, step * 128 + v * 32 + t]);
        }
        for v in unroll(0..4) {
            sum += here[v];
        }
    }
    let all = thread_allreduce(Sum, sum, t);
    if t == 0 {
        y[row] = all;
    }
}

#[test]
fn gathered_products_agree() {
    // Rows of whole and of split 16 bytes; more steps than slots, fewer, none, and more than the table has places.
    for (k, n, steps) in [(160, 48, 10), (163, 33, 10), (160, 48, 2), (40, 32, 3), (160, 48, 0), (1120, 40, 70)] {
        let (pages, places) = (5, 80);
        let a: Vec<f16> = integers(1, pages * 32 * k, 4);
        let b: Vec<f16> = integers(2, n * k, 4);
        let table: Vec<u32> = (0..places).map(|i| (i * 3 % pages) as u32).collect();
        let element = |i: usize, j: usize| -> f32 {
            (0..k.min(steps * 16))
                .map(|d| a[(table[d / 16] as usize * 32 + i) * k + d].to_f32() * b[j * k + d].to_f32())
                .sum()
        };
        let wanted: Vec<f32> = (0..32 * n).map(|at| element(at / n, at % n)).collect();
        for device in devices() {
            let a = device.tensor(&a, [pages * 32, k]).unwrap();
            let b = device.tensor(&b, [n, k]).unwrap();
            let places = device.tensor(&table, [places]).unwrap();
            for stages in [1, 2, 3, 5] {
                let mut c = device.tensor(&vec![f32::NAN; 32 * n], [32, n]).unwrap();
                let kernel = gathered::instance(&device, GatheredParams { STAGES: stages }).unwrap();
                kernel.launch(&a, &b, &places, &mut c, steps).unwrap();
                assert!(c.to_vec().unwrap() == wanted, "{} {k} {n} {steps} {stages}", device.label());
            }
        }
    }
}

#[test]
fn rows_loaded_into_registers_agree() {
    let (m, n) = (3, 900);
    let x: Vec<f32> = integers(3, m * n, 9);
    let wanted: Vec<f32> = x.chunks(n).map(|row| row.iter().sum()).collect();
    for device in devices() {
        let x = device.tensor(&x, [m, n]).unwrap();
        let mut y = device.tensor(&vec![f32::NAN; m], [m]).unwrap();
        row_sum::launch(&device, &x, &mut y).unwrap();
        assert!(y.to_vec().unwrap() == wanted, "{}", device.label());
    }
}
