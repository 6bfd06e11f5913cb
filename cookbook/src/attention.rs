//! Causal attention with grouped heads: `softmax(q k^T / sqrt(D)) v`, where several heads of queries share one of keys
//! and values.
//!
//! A block has 128 queries of a head and goes through the keys and values in tiles of 128, which arrive ahead of their
//! use. The scores of a tile never leave the registers: they are scaled, masked and turned into weights there, and
//! multiply the values from there. The softmax is online (see [`crate::softmax`]), so what has been summed is scaled
//! down when a larger score comes. Tiles of keys that lie wholly in the future are not visited.

use crate::vector::{length, row};
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v`; query `i` sees keys up to `past + i`. `scale` is log2(e) / sqrt(D).
#[tile_kernel(instances((BM, D, THREADS) in [(64, 64, 128), (128, 128, 256)]), require(past + M == N && H % HK == 0))]
pub fn causal_attention<T: Half, const BM: usize, const D: usize, const THREADS: usize>(
    q: &Tensor<T, (H, M, D)>,
    k: &Tensor<T, (HK, N, D)>,
    v: &Tensor<T, (HK, N, D)>,
    o: &mut Tensor<T, (H, M, D)>,
    scale: f32,
    past: usize,
) {
    let [b, h] = blocks([ceil_div(M, BM), H]);
    threads([THREADS]);
    let mut q_s = alloc_shared::<T>([BM, D]);
    let mut k_s = alloc_shared::<T>([BM, D]);
    let mut v_s = alloc_shared::<T>([BM, D]);
    let mut scores = alloc_fragment::<f32>([BM, BM]);
    let mut weights = alloc_fragment::<T>([BM, BM]);
    let mut acc = alloc_fragment::<f32>([BM, D]);
    let mut most = alloc_fragment::<f32>([BM]);
    let mut here = alloc_fragment::<f32>([BM]);
    let mut shrink = alloc_fragment::<f32>([BM]);
    let mut total = alloc_fragment::<f32>([BM]);
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, f32::NEG_INFINITY);
    copy(q.at([h, b * BM, 0]), &mut q_s);
    for step in pipelined(0..ceil_div(min(past + b * BM + BM, N), BM), 2) {
        copy(k.at([h / (H / HK), step * BM, 0]), &mut k_s);
        copy(v.at([h / (H / HK), step * BM, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).policy(FullRow).clear();
        if step * BM + BM > past + b * BM {
            for [i, j] in parallel([BM, BM]) {
                if step * BM + j > past + b * BM + i {
                    scores[[i, j]] = f32::NEG_INFINITY;
                }
            }
        }
        reduce(Max, &scores, &mut here, 1);
        for [i] in parallel([BM]) {
            let top = max(most[i], here[i] * scale);
            shrink[i] = fast::exp2(most[i] - top);
            most[i] = top;
        }
        for [i, j] in parallel([BM, BM]) {
            scores[[i, j]] = fast::exp2(scores[[i, j]] * scale - most[i]);
            weights[[i, j]] = scores[[i, j]].cast::<T>();
        }
        reduce(Sum, &scores, &mut here, 1);
        for [i] in parallel([BM]) {
            total[i] = total[i] * shrink[i] + here[i];
        }
        for [i, j] in parallel([BM, D]) {
            acc[[i, j]] *= shrink[i];
        }
        gemm(&weights, &v_s, &mut acc);
    }
    for [i, j] in parallel([BM, D]) {
        acc[[i, j]] /= total[i];
    }
    copy(&acc, o.at_mut([h, b * BM, 0]));
}
// ANCHOR_END: kernel

// ANCHOR: host
/// Attention of `q` (head, query, element) over `k` and `v` (head, key, element); heads of 64 or 128 elements. The last
/// query sees all keys, each one before it one key less. Head `h` of `q` uses head `h / (H / HK)` of the `HK` heads of
/// `k`. A batch of B sequences is `B H` heads over `B HK` heads, the same memory.
///
/// # Errors
/// Where heads have another length, `q` has no multiple of the heads of `k` or more queries than keys, shapes differ or
/// tensors overlap, and whatever a launch may fail with.
pub fn attention<T: Half>(
    on: &impl LaunchOn,
    q: impl TensorInput<T, 3>,
    k: impl TensorInput<T, 3>,
    v: impl TensorInput<T, 3>,
    o: impl TensorOutput<T, 3>,
) -> Result<(), LaunchError> {
    let d = row(&q.argument());
    let past = length(&k.argument()).saturating_sub(length(&q.argument()));
    let (block, threads) = if d == 64 { (64, 128) } else { (128, 256) };
    let params = CausalAttentionParams { BM: block, D: d, THREADS: threads };
    let scale = std::f64::consts::LOG2_E / (d as f64).sqrt();
    causal_attention::<T>::instance(on.device(), params)?.launch_on(on, q, k, v, o, scale as f32, past)
}
// ANCHOR_END: host

/// The extents of an attention.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Queries a head.
    pub m: usize,
    /// Keys a head.
    pub n: usize,
    /// Elements of a head.
    pub d: usize,
}

/// Attention in f64.
pub fn reference(q: &[f64], k: &[f64], v: &[f64], extents: Extents) -> Vec<f64> {
    let Extents { heads, key_heads, m, n, d } = extents;
    let mut o = Vec::with_capacity(heads * m * d);
    for (h, i) in (0..heads).flat_map(|h| (0..m).map(move |i| (h, i))) {
        let head = h / (heads / key_heads) * n * d;
        let (k, v) = (&k[head..head + n * d], &v[head..head + n * d]);
        let query = &q[(h * m + i) * d..][..d];
        let seen = i + n - m + 1;
        let dot = |key: &[f64]| query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt();
        let scores: Vec<f64> = k.chunks(d).take(seen).map(dot).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let value = |c: usize| weights.iter().zip(v.chunks(d)).map(|(w, value)| w * value[c]).sum::<f64>() / total;
        o.extend((0..d).map(value));
    }
    o
}
