//! Kernels that a first author plausibly writes around a product of tiles, each a step away from the plain GEMM: a loop that is not
//! marked, two loops, a bias in shared memory. `tests/cliff.rs` holds that they keep TMA and `wgmma` on sm_90a.
//!
//! `a` is `[M, K]`, `b` is `[N, K]`; a block has a tile of the result.

use tile_runtime::prelude::*;

/// The plain product: what the others are measured against. `c = a b^T`.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn reference<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// A plain `for` around the copies and the product.
#[tile_kernel(instances((BM, BN, BK, THREADS) in [(128, 128, 64, 256)]), dtypes(T in [f16, bf16]))]
pub fn plain<T: Half, const BM: usize, const BN: usize, const BK: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in 0..ceil_div(K, BK) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// Two loops into one accumulator: `c = a b^T + u v^T`, as an adapter of low rank adds its product.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn low_rank<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    u: &Tensor<T, (M, R)>,
    v: &Tensor<T, (N, R)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for k in pipelined(0..ceil_div(R, BK), STAGES) {
        copy(u.at([i * BM, k * BK]), &mut a_s);
        copy(v.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// A row of bias in shared memory: `c = a b^T + bias`.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn shared_bias<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    bias: &Tensor<f32, (N,)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut bias_s = alloc_shared::<f32>([BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    copy(bias.at([j * BN]), &mut bias_s);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [row, col] in parallel([BM, BN]) {
        acc[[row, col]] += bias_s[col];
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// Scales of blocks of `a`, one for each row and step, loaded beside the tiles: `c[m, n] = sum over k of s[k, m] (a b^T of step k)`.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn shared_scales<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    scales: &Tensor<f32, (STEPS, M)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut scale_s = alloc_shared::<f32>([BM]);
    let mut part = alloc_fragment::<f32>([BM, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        copy(scales.at([k, i * BM]), &mut scale_s);
        gemm(&a_s, b_s.t(), &mut part).clear();
        for [row, col] in parallel([BM, BN]) {
            acc[[row, col]] += part[[row, col]] * scale_s[row];
        }
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// Block scales that are read from global memory.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn global_scales<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    scales: &Tensor<f32, (STEPS, M)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut part = alloc_fragment::<f32>([BM, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut part).clear();
        for [row, col] in parallel([BM, BN]) {
            acc[[row, col]] += part[[row, col]] * scales.masked([k, i * BM + row]);
        }
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// A product under a condition that all threads agree on: the first `window` steps alone count.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn windowed<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
    window: u32,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        if k < window as usize {
            gemm(&a_s, b_s.t(), &mut acc);
        }
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// The result leaves through a shared tile of the author's.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn shared_result<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut c_s = alloc_shared::<T>([BM, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, &mut c_s);
    copy(&c_s, c.at_mut([i * BM, j * BN]));
}

/// f32 weights, which a load converts.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn converted<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// Sums of the result's rows, through shared memory and a barrier of the author's.
#[tile_kernel(
    instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]),
    dtypes(T in [f16, bf16]),
    require(TILES == ceil_div(N, BN))
)]
pub fn row_sums<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
    sums: &mut Tensor<f32, (M, TILES)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    let [t] = threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut sum_s = alloc_shared::<f32>([BM]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    let mut sum = alloc_fragment::<f32>([BM]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    reduce(Sum, &acc, &mut sum, 1);
    for [row] in parallel([BM]) {
        sum_s[row] = sum[row];
    }
    sync_threads();
    if t < BM {
        *sums.masked_mut([i * BM + t, j]) = sum_s[t];
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// A tile of 192 rows for two warpgroups, which cannot share them out in blocks of 64: they have columns each.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(192, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn wide<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// A second product after the loop, of what the first one has left in shared memory: `c = relu(a b^T) w^T`, of `b` with `BN` rows.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 3, 256)]), dtypes(T in [f16, bf16]))]
pub fn fused_mlp<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (BN, K)>,
    w: &Tensor<T, (N, BN)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut h_s = alloc_shared::<T>([BM, BN]);
    let mut w_s = alloc_shared::<T>([BN, BN]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(b.at([0, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [row, col] in parallel([BM, BN]) {
        acc[[row, col]] = max(acc[[row, col]], 0.0);
    }
    copy(&acc, &mut h_s);
    copy(w.at([j * BN, 0]), &mut w_s);
    gemm(&h_s, w_s.t(), &mut acc).clear();
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// K shared out over blocks, which add up their parts with atomics: `sum = a b^T`, of zeros.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)], S = 2), dtypes(T in [f16, bf16]))]
pub fn atomic_split<
    T: Half,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const S: usize,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (N, K)>,
    sum: &mut Tensor<f32, (M, N)>,
) {
    let [j, i, s] = blocks([ceil_div(N, BN), ceil_div(M, BM), S]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    let steps = ceil_div(ceil_div(K, BK), S);
    for k in pipelined(0..steps, STAGES) {
        copy(a.at([i * BM, (s * steps + k) * BK]), &mut a_s);
        copy(b.at([j * BN, (s * steps + k) * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    for [row, col] in parallel([BM, BN]) {
        if i * BM + row < M && j * BN + col < N {
            atomic_add(&mut sum[[i * BM + row, j * BN + col]], acc[[row, col]]);
        }
    }
}

/// `c = a a^T`.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 4, 256)]), dtypes(T in [f16, bf16]))]
pub fn gram<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    c: &mut Tensor<T, (M, M)>,
) {
    let [j, i] = blocks([ceil_div(M, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut b_s = alloc_shared::<T>([BN, BK]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(a.at([j * BN, k * BK]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * BM, j * BN]));
}

/// Two products of one left operand, `c = silu(a g^T) (a u^T)`.
#[tile_kernel(instances((BM, BN, BK, STAGES, THREADS) in [(128, 128, 64, 3, 256)]), dtypes(T in [f16, bf16]))]
pub fn swiglu<T: Half, const BM: usize, const BN: usize, const BK: usize, const STAGES: usize, const THREADS: usize>(
    a: &Tensor<T, (M, K)>,
    gate: &Tensor<T, (N, K)>,
    up: &Tensor<T, (N, K)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [j, i] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, BK]);
    let mut gate_s = alloc_shared::<T>([BN, BK]);
    let mut up_s = alloc_shared::<T>([BN, BK]);
    let mut gates = alloc_fragment::<f32>([BM, BN]);
    let mut ups = alloc_fragment::<f32>([BM, BN]);
    clear(&mut gates);
    clear(&mut ups);
    for k in pipelined(0..ceil_div(K, BK), STAGES) {
        copy(a.at([i * BM, k * BK]), &mut a_s);
        copy(gate.at([j * BN, k * BK]), &mut gate_s);
        copy(up.at([j * BN, k * BK]), &mut up_s);
        gemm(&a_s, gate_s.t(), &mut gates);
        gemm(&a_s, up_s.t(), &mut ups);
    }
    for [row, col] in parallel([BM, BN]) {
        let g = gates[[row, col]];
        gates[[row, col]] = g / (1.0 + fast::exp(-g)) * ups[[row, col]];
    }
    copy(&gates, c.at_mut([i * BM, j * BN]));
}
