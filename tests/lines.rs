//! Loads of a loop over a fragment whose place depends on the row alone, or on the column alone: once a row or column of a thread, by pairs
//! where what is loaded is aligned and the tile is not cut.

use tile_kernel_examples::data::{Real, integers};
use tile_kernel_examples::devices::devices;
use tile_kernel_examples::gemm::product;
use tile_runtime::prelude::*;

/// `c = (a b^T) * scales + weights + bias`: with a positive `limit` the lesser of that and the limit, else with every second element of `bias`.
#[tile_kernel(
    instances(
        (BM, BN, BK, THREADS) in [
            // Accumulators of warpgroups, one and two blocks of rows; two warpgroups; fewer rows than an instruction has.
            (64, 64, 32, 128), (128, 64, 32, 128), (128, 64, 32, 256), (16, 64, 64, 128),
            // Of warps, and of threads that multiply and add: what all threads do is loaded for each element.
            (32, 32, 32, 64), (32, 64, 16, 64),
        ],
        where (T::BITS == 32) == (BK == 16)
    ),
    dtypes(T in [f16, f32])
)]
pub fn shaded<T, const BM: usize, const BN: usize, const BK: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    bias: &Tensor<T, (N,)>,
    weights: &Tensor<f32, (N,)>,
    scales: &Tensor<f32, (M,)>,
    c: &mut Tensor<f32, (M, N)>,
    limit: f32,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), 2) {
        copy(a.at([by * BM, k * BK]), &mut a_s);
        copy(b.at([bx * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [i, j] in parallel([BM, BN]) {
        let col = bx * BN + j;
        let mut value = acc[[i, j]] * scales.masked([by * BM + i]) + weights.masked([col]);
        if limit > 0.0 {
            value = min(value + bias.masked([col]).cast::<f32>(), limit);
        } else {
            value += bias.masked([col * 2]).cast::<f32>();
        }
        acc[[i, j]] = value;
    }
    copy(&acc, c.at_mut([by * BM, bx * BN]));
}

#[allow(clippy::single_range_in_vec_init)] // a range an axis, of which there is one
fn at_every_alignment<T: Real, const BM: usize, const BN: usize, const BK: usize, const THREADS: usize>()
where
    shaded<T, BM, BN, BK, THREADS>: ShadedInstance,
{
    let k = 40;
    for device in devices() {
        // Tiles that are whole and tiles that are cut, in each direction; rows that cannot be stored by pairs.
        for [m, n] in [[70, 72], [130, 65]] {
            let (a, b) = (integers::<T>(1, m * k, 3), integers::<T>(2, n * k, 3));
            let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            let (w, s) = (integers::<f32>(3, n + 1, 9), integers::<f32>(4, m, 2));
            let scales = device.tensor(&s, [m]).unwrap();
            let (shift, weights) = (integers::<T>(5, n + 1, 9), device.tensor(&w, [n + 1]).unwrap());
            let bias = device.tensor(&shift, [n + 1]).unwrap();
            let sums = product(&a, &b, [m, n, k], [false, true]);
            for (skip, limit) in [(0, 20.0), (1, 20.0), (0, 0.0)] {
                let mut c = device.zeros::<f32, 2>([m, n]).unwrap();
                let (bias, weights) = (bias.slice([skip..skip + n]).unwrap(), weights.slice([skip..skip + n]).unwrap());
                shaded::<T, BM, BN, BK, THREADS>::launch(&device, &da, &db, bias, weights, &scales, &mut c, limit)
                    .unwrap();
                let wanted = |at: usize| {
                    let (row, col) = (at / n, at % n);
                    let value = sums[at] * s[row] + w[skip + col];
                    let bias = |col: usize| if col < n { shift[skip + col].to_f32() } else { 0.0 };
                    if limit > 0.0 { (value + bias(col)).min(limit) } else { value + bias(2 * col) }
                };
                let wanted: Vec<f32> = (0..m * n).map(wanted).collect();
                assert_eq!(c.to_vec().unwrap(), wanted, "{BM} x {BN}: {m} x {n}, from element {skip} on, {limit}");
            }
        }
    }
}

#[test]
fn accumulators_of_warpgroups() {
    at_every_alignment::<f16, 64, 64, 32, 128>();
    at_every_alignment::<f16, 128, 64, 32, 128>();
    at_every_alignment::<f16, 128, 64, 32, 256>();
    at_every_alignment::<f16, 16, 64, 64, 128>();
}

#[test]
fn accumulators_of_warps_and_of_threads() {
    at_every_alignment::<f16, 32, 32, 32, 64>();
    at_every_alignment::<f32, 32, 64, 16, 64>();
}
