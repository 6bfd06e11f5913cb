//! `gemm` with a fragment for its left operand: two products in a row, the first's result never leaving the registers.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `o = f16(max(q k^T / 2, 0)) v`, in tiles of 64 rows, with the sums of the rows of the middle.
#[tile_kernel(instances((ROWS, THREADS) in [(64, 128), (16, 32)]), dtypes(T in [f16, bf16]))]
pub fn chained<T: Half, const ROWS: usize, const THREADS: usize>(
    q: &Tensor<T, (M, Fixed<32>)>,
    k: &Tensor<T, (N, Fixed<32>)>,
    v: &Tensor<T, (N, Fixed<64>)>,
    o: &mut Tensor<f32, (M, Fixed<64>)>,
    sums: &mut Tensor<f32, (M,)>,
) {
    let [b] = blocks([ceil_div(M, ROWS)]);
    threads([THREADS]);
    let mut q_s = alloc_shared::<T>([ROWS, 32]);
    let mut k_s = alloc_shared::<T>([48, 32]);
    let mut v_s = alloc_shared::<T>([48, 64]);
    let mut scores = alloc_fragment::<f32>([ROWS, 48]);
    let mut weights = alloc_fragment::<T>([ROWS, 48]);
    let mut sum = alloc_fragment::<f32>([ROWS]);
    let mut total = alloc_fragment::<f32>([ROWS]);
    let mut acc = alloc_fragment::<f32>([ROWS, 64]);
    clear(&mut acc);
    clear(&mut total);
    copy(q.at([b * ROWS, 0]), &mut q_s);
    for step in 0..ceil_div(N, 48) {
        copy(k.at([step * 48, 0]), &mut k_s);
        copy(v.at([step * 48, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
        reduce(Sum, &scores, &mut sum, 1);
        for [i] in parallel([ROWS]) {
            total[i] += sum[i];
        }
        for [i, j] in parallel([ROWS, 48]) {
            weights[[i, j]] = max(scores[[i, j]] * 0.5, 0.0).cast::<T>();
        }
        gemm(&weights, &v_s, &mut acc);
    }
    for [i] in parallel([ROWS]) {
        *sums.masked_mut([b * ROWS + i]) = total[i];
    }
    for [i, j] in parallel([ROWS, 64]) {
        acc[[i, j]] += total[i];
    }
    copy(&acc, o.at_mut([b * ROWS, 0]));
}

fn small(count: usize, by: usize) -> Vec<f32> {
    (0..count).map(|i| (i * by % 5) as f32 - 2.0).collect()
}

#[test]
fn two_products_in_registers() {
    let (m, n) = (70, 100);
    let (q, k, v) = (small(m * 32, 7), small(n * 32, 11), small(n * 64, 3));
    let scores: Vec<f32> = (0..m * n).map(|e| (0..32).map(|x| q[e / n * 32 + x] * k[e % n * 32 + x]).sum()).collect();
    let sums: Vec<f32> = (0..m).map(|i| scores[i * n..(i + 1) * n].iter().sum()).collect();
    let wanted: Vec<f32> = (0..m * 64)
        .map(|e| {
            let (i, d) = (e / 64, e % 64);
            let product: f32 = (0..n).map(|j| (scores[i * n + j] * 0.5).max(0.0) * v[j * 64 + d]).sum();
            product + sums[i]
        })
        .collect();
    let half = |values: &[f32]| values.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>();
    for device in devices() {
        let (q, k, v) = (
            device.tensor(&half(&q), [m, 32]).unwrap(),
            device.tensor(&half(&k), [n, 32]).unwrap(),
            device.tensor(&half(&v), [n, 64]).unwrap(),
        );
        for small in [false, true] {
            let mut o = device.zeros::<f32, 2>([m, 64]).unwrap();
            let mut s = device.zeros::<f32, 1>([m]).unwrap();
            match small {
                false => chained::<f16, 64, 128>::launch(&device, &q, &k, &v, &mut o, &mut s).unwrap(),
                true => chained::<f16, 16, 32>::launch(&device, &q, &k, &v, &mut o, &mut s).unwrap(),
            }
            assert_eq!(s.to_vec().unwrap(), sums);
            assert_eq!(o.to_vec().unwrap(), wanted);
        }
    }
}
