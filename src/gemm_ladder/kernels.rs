//! The rungs: C = A B, from a thread an element to persistent clusters on tensor cores.

use tile_runtime::prelude::*;

// ANCHOR: naive
/// One thread for each element of C reads a row of A and a column of B.
#[tile_kernel]
pub fn naive<T: Half>(a: &Tensor<T, (M, K)>, b: &Tensor<T, (K, N)>, c: &mut Tensor<T, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 32), ceil_div(M, 8)]);
    let [tx, ty] = threads([32, 8]);
    let i = by * 8 + ty;
    let j = bx * 32 + tx;
    if i < M && j < N {
        let mut sum = 0.0f32;
        for k in 0..K {
            sum += a[[i, k]].cast::<f32>() * b[[k, j]].cast::<f32>();
        }
        c[[i, j]] = sum.cast::<T>();
    }
}
// ANCHOR_END: naive

// ANCHOR: tiled
/// Two levels of tiles: a block's in shared memory, a thread's `TM x TN` elements of C in registers.
#[tile_kernel(instances((BM, BN, BK, TM, TN) in [(64, 64, 16, 4, 4)]))]
pub fn tiled<T: Half, const BM: usize, const BN: usize, const BK: usize, const TM: usize, const TN: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (K, N)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let across = BN / TN;
    let down = BM / TM;
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    let [tx, ty] = threads([across, down]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BK, BN]);
    let mut sums = alloc_local::<f32>([TM, TN]);
    let mut left = alloc_local::<f32>([TM]);
    let mut right = alloc_local::<f32>([TN]);
    clear(&mut sums);
    for step in 0..ceil_div(K, BK) {
        copy(a.at([by * BM, step * BK]), &mut a_s);
        copy(b.at([step * BK, bx * BN]), &mut b_s);
        for k in 0..BK {
            for i in unroll(0..TM) {
                left[i] = a_s[[ty + i * down, k]].cast::<f32>();
            }
            for j in unroll(0..TN) {
                right[j] = b_s[[k, tx + j * across]].cast::<f32>();
            }
            for i in unroll(0..TM) {
                for j in unroll(0..TN) {
                    sums[[i, j]] += left[i] * right[j];
                }
            }
        }
    }
    for i in unroll(0..TM) {
        for j in unroll(0..TN) {
            let row = by * BM + ty + i * down;
            let col = bx * BN + tx + j * across;
            if row < M && col < N {
                c[[row, col]] = sums[[i, j]].cast::<T>();
            }
        }
    }
}
// ANCHOR_END: tiled

// ANCHOR: mma
/// Tensor cores by `mma.sync`. `cp.async` copies tiles, 16 bytes at a time, in `STAGES` stages.
#[tile_kernel(
    instances((BM, BN, BK, STAGES) in [(128, 128, 32, 3)]),
    require(K % 8 == 0),
    require(N % 8 == 0)
)]
pub fn mma<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (K, N)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([256]);
    use_swizzle(8);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BK, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([by * BM, k * BK]), &mut a_s).width(8).tma(false);
        copy(b.at([k * BK, bx * BN]), &mut b_s).width(8).tma(false);
        gemm(&a_s, &b_s, &mut acc);
    }
    copy(&acc, c.at_mut([by * BM, bx * BN]));
}
// ANCHOR_END: mma

// ANCHOR: wgmma
/// Without `.tma(false)`: a producer warp fills a ring of slots by TMA, and warpgroups multiply from
/// it with `wgmma`.
#[tile_kernel(instances((BM, BN, STAGES) in [(128, 128, 4), (128, 256, 4)]), targets(sm_90a))]
pub fn wgmma<T: Half, const BM: usize, const BN: usize, const STAGES: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (K, N)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([256]);
    use_swizzle(8);
    let mut a_s = alloc_shared::<T>([BM, 64]);
    let mut b_s = alloc_shared::<T>([64, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), STAGES) {
        copy(a.at([by * BM, k * 64]), &mut a_s);
        copy(b.at([k * 64, bx * BN]), &mut b_s);
        gemm(&a_s, &b_s, &mut acc);
    }
    copy(&acc, c.at_mut([by * BM, bx * BN]));
}
// ANCHOR_END: wgmma

// ANCHOR: persistent
/// A block takes tile after tile, so that one is stored while the next is fetched. Blocks take tiles
/// in panels of `PANEL` rows, which share columns of B in L2. A cluster of 2 shares its reads of B.
#[tile_kernel(
    instances((BM, BN, STAGES) in [(128, 256, 4)], (CLUSTER, PANEL) in [(1, 16), (2, 8)]),
    targets(sm_90a)
)]
pub fn persistent_tiles<
    T: Half,
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const CLUSTER: usize,
    const PANEL: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (K, N)>,
    c: &mut Tensor<T, (M, N)>,
) {
    cluster([1, CLUSTER]);
    threads([256]);
    use_swizzle(PANEL);
    let mut a_s = alloc_shared::<T>([BM, 64]);
    let mut b_s = alloc_shared::<T>([64, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        clear(&mut acc);
        for k in pipelined(0..ceil_div(K, 64), STAGES) {
            copy(a.at([by * BM, k * 64]), &mut a_s);
            copy(b.at([k * 64, bx * BN]), &mut b_s);
            gemm(&a_s, &b_s, &mut acc);
        }
        copy(&acc, c.at_mut([by * BM, bx * BN]));
    }
}
// ANCHOR_END: persistent
