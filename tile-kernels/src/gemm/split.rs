//! K split over blocks, where a shape has too few tiles to fill the device: [`gemm_cluster`] over the blocks of a cluster,
//! which add their sums through distributed shared memory, and [`gemm_slots`] over clusters that put their sums aside, which
//! the last to arrive adds in order. Both give the same bits at every launch. `b` is stored as N x K, as weights are.

use super::epilogue::{activate, finish};
use tile_runtime::prelude::*;

/// `c = f(alpha a b^T + beta c + bias)`, as [`kernel::gemm`](fn@super::kernel::gemm) has it, K cut into `CK` parts.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, CK) in [(16, 64, 128, 11, 2), (32, 64, 128, 9, 2), (64, 64, 128, 6, 2), (128, 64, 64, 7, 2)],
        EPILOGUE in [false, true]
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(finish),
    targets(sm_90a)
)]
pub fn gemm_cluster<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const CK: usize,
    const EPILOGUE: bool,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), CK]);
    cluster([1, 1, CK]);
    threads([128]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(K, BK), CK);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for step in pipelined(0..share, STAGES) {
        let k = (part * share + step) * BK;
        copy(a.at([row, k]), &mut a_s);
        copy(b.at([col, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    cluster_reduce(Sum, &mut acc);
    if part == 0 {
        if EPILOGUE {
            finish(&mut acc, c, bias, row, col, alpha, beta, activation);
        }
        copy(&acc, c.at_mut([row, col]));
    }
}

/// The same with K cut into `S` slots, each of a cluster of `CK` blocks. A cluster puts its sum aside; the last of a tile's
/// adds those of all, slot after slot.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, CK) in [(64, 64, 128, 6, 2), (64, 64, 128, 7, 1), (128, 64, 64, 7, 2)],
        S in [2, 4, 8, 16],
        EPILOGUE in [false, true]
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(activate),
    targets(sm_90a),
    require(N % 8 == 0),
    require(ceil_div(M, BM) <= 64),
    require(ceil_div(N, BN) <= 64)
)]
pub fn gemm_slots<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const CK: usize,
    const S: usize,
    const EPILOGUE: bool,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
    partial: &mut Workspace<f32, (S, M, N)>,
    arrived: &mut Workspace<u32, (Fixed<64>, Fixed<64>)>,
) {
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), S * CK]);
    cluster([1, 1, CK]);
    let [t] = threads([128]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(K, BK), S * CK);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for step in pipelined(0..share, STAGES) {
        let k = (part * share + step) * BK;
        copy(a.at([row, k]), &mut a_s);
        copy(b.at([col, k]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    cluster_reduce(Sum, &mut acc);
    if part % CK == 0 {
        copy(&acc, partial.at_mut([part / CK, row, col]));
        if last_arriver(&mut arrived[[by, bx]], S) {
            // A thread has four neighbours of every so many rows: 16 bytes that all of a warp's lie together.
            let mut sums = alloc_local::<f32>([BM * BN / 128]);
            let mut read = alloc_local::<f32>([4]);
            let mut out = alloc_local::<U>([4]);
            for e in unroll(0..BM * BN / 128) {
                sums[e] = 0.0;
            }
            for s in serial(0..S).unroll(8192 / (BM * BN)) {
                for e in unroll(0..BM * BN / 512) {
                    let at = (e * 128 + t) * 4;
                    for v in vectorized(0..4) {
                        read[v] = partial.masked([s, row + at / BN, col + at % BN + v]);
                    }
                    for v in unroll(0..4) {
                        sums[e * 4 + v] += read[v];
                    }
                }
            }
            for e in unroll(0..BM * BN / 512) {
                let at = (e * 128 + t) * 4;
                if EPILOGUE && beta != 0.0 {
                    for v in vectorized(0..4) {
                        out[v] = c.masked([row + at / BN, col + at % BN + v]);
                    }
                }
                for v in unroll(0..4) {
                    let mut value = sums[e * 4 + v];
                    if EPILOGUE {
                        value = alpha * value;
                        if beta != 0.0 {
                            value += beta * out[v].cast::<f32>();
                        }
                        if let Some(shift) = bias {
                            value += shift.masked([col + at % BN + v]).cast::<f32>();
                        }
                        value = activate(value, activation);
                    }
                    out[v] = value.cast::<U>();
                }
                for v in vectorized(0..4) {
                    *c.masked_mut([row + at / BN, col + at % BN + v]) = out[v];
                }
            }
        }
    }
}
