//! Products of tiles on the fast simulator, against a product on the CPU: layouts, epilogues, ragged shapes, grids.

use tile_runtime::prelude::*;

/// C = A B^T, f32 accumulation.
#[tile_kernel(instances((BM, BN) in [(64, 64), (128, 32)], BK = 32, STAGES = 3))]
pub fn gemm_nt<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([128]);
    use_swizzle(8);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([by * BM, k * BK]), &mut a_s);
        copy(b.at([bx * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([by * BM, bx * BN]));
}

#[test]
fn one() {
    let device = Device::simulator();
    let (m, n, k) = (100, 72, 40);
    let a: Vec<f16> = (0..m * k).map(|i| f16::from_f32((i % 7) as f32 - 3.0)).collect();
    let b: Vec<f16> = (0..n * k).map(|i| f16::from_f32((i % 5) as f32 - 2.0)).collect();
    let (da, db) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
    let mut dc = device.zeros::<f16, _>([m, n]).unwrap();
    gemm_nt::<f16, 64, 64, 32, 3>::launch(&device, &da, &db, &mut dc).unwrap();
    let c = dc.to_vec().unwrap();
    for i in 0..m {
        for j in 0..n {
            let sum: f32 = (0..k).map(|l| a[i * k + l].to_f32() * b[j * k + l].to_f32()).sum();
            assert_eq!(c[i * n + j], f16::from_f32(sum), "{i} {j}");
        }
    }
}
