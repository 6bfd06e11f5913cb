//! The kernel of decode attention: bound by the bytes of keys and values, so two warps a block and two blocks a multiprocessor, each with three
//! tiles under way.

use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v` for the newest tokens of every sequence, over keys and values in pages. `scale` is
/// log2(e) / sqrt(D). A block of two warps, each with half of a tile's keys, has 16 rows, a row being a query of one head of a group, and one of `SPLITS` parts of the
/// sequence; the last of the parts to be done adds them.
#[tile_kernel(
    instances(
        (D, BN, STAGES) in [(64, 64, 4), (128, 64, 3), (64, 32, 4), (128, 32, 3)],
        SPLITS in [1, 4, 8, 16, 32],
        where (T::BITS == 16) == (BN == 64),
        where T::BITS == 16 || SPLITS == 1 || SPLITS == 8
    ),
    partial(o),
    require(H % HK == 0 && HK <= 64 && PAGE % BN == 0 && (SPLITS == 1 || B * tiles <= 1024))
)]
pub fn decode<T: Float, const D: usize, const BN: usize, const STAGES: usize, const SPLITS: usize>(
    q: &Tensor<T, (S, H, D)>,
    k: &Tensor<T, (P, HK, PAGE, D)>,
    v: &Tensor<T, (P, HK, PAGE, D)>,
    pages: &Tensor<u32, (B, L)>,
    first: &Tensor<u32, (Extent<{ B + 1 }>,)>,
    lengths: &Tensor<u32, (B,)>,
    o: &mut Tensor<T, (S, H, D)>,
    scale: f32,
    tiles: usize,
    sums: &mut Workspace<f32, (SPLITS, S, H, D)>,
    parts: &mut Workspace<f32, (SPLITS, S, H, Fixed<2>)>,
    arrived: &mut Workspace<u32, (Fixed<1024>, Fixed<64>)>,
) {
    let [split, head, z] = blocks([SPLITS, HK, B * tiles]);
    let [t] = threads([64]);
    let sequence = z / tiles;
    let row = z % tiles * 16;
    let group = H / HK;
    let from = first.masked([sequence]) as usize;
    let count = first.masked([sequence + 1]) as usize - from;
    let length = lengths.masked([sequence]) as usize;
    let mut q_s = alloc_shared::<T>([16, D]);
    let mut k_s = alloc_shared::<T>([BN, D]);
    let mut v_s = alloc_shared::<T>([BN, D]);
    let mut weights = alloc_shared::<T>([16, BN]);
    let mut scores = alloc_fragment::<f32>([16, BN]);
    let mut acc = alloc_fragment::<f32>([16, D]);
    let mut most = alloc_fragment::<f32>([16]);
    let mut here = alloc_fragment::<f32>([16]);
    let mut shrink = alloc_fragment::<f32>([16]);
    let mut total = alloc_fragment::<f32>([16]);
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, -1e30); // finite: a row may see none of a tile's keys
    for [i, j] in parallel([16, D]) {
        q_s[[i, j]] = q.masked([from + (row + i) / group, head * group + (row + i) % group, j]);
    }
    let share = ceil_div(ceil_div(length, BN), SPLITS);
    let begin = split * share;
    let end = min(begin + share, ceil_div(length, BN));
    for step in pipelined(begin..end, STAGES).schedule(Cooperative) {
        let page = pages.masked([sequence, step * BN / PAGE]) as usize;
        copy(k.at([page, head, step * BN % PAGE, 0]), &mut k_s);
        copy(v.at([page, head, step * BN % PAGE, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).policy(FullCol).clear();
        for [i, j] in parallel([16, BN]) {
            // A query sees the keys up to its own.
            if step * BN + j + count > length + (row + i) / group {
                scores[[i, j]] = f32::NEG_INFINITY;
            }
        }
        reduce(Max, &scores, &mut here, 1);
        for [i] in parallel([16]) {
            let top = max(most[i], here[i] * scale);
            shrink[i] = fast::exp2(most[i] - top);
            most[i] = top;
        }
        for [i, j] in parallel([16, BN]) {
            scores[[i, j]] = fast::exp2(scores[[i, j]] * scale - most[i]);
            weights[[i, j]] = scores[[i, j]].cast::<T>();
        }
        reduce(Sum, &scores, &mut here, 1);
        for [i] in parallel([16]) {
            total[i] = total[i] * shrink[i] + here[i];
        }
        for [i, j] in parallel([16, D]) {
            acc[[i, j]] *= shrink[i];
        }
        gemm(&weights, &v_s, &mut acc).policy(FullCol);
    }
    if SPLITS == 1 {
        for [i, j] in parallel([16, D]) {
            if (row + i) / group < count {
                let value = if total[i] > 0.0 { acc[[i, j]] / total[i] } else { 0.0 };
                *o.masked_mut([from + (row + i) / group, head * group + (row + i) % group, j]) = value.cast::<T>();
            }
        }
    } else {
        for [i, j] in parallel([16, D]) {
            if (row + i) / group < count {
                *sums.masked_mut([split, from + (row + i) / group, head * group + (row + i) % group, j]) = acc[[i, j]];
            }
        }
        for [i] in parallel([16]) {
            if (row + i) / group < count {
                *parts.masked_mut([split, from + (row + i) / group, head * group + (row + i) % group, 0]) = most[i];
                *parts.masked_mut([split, from + (row + i) / group, head * group + (row + i) % group, 1]) = total[i];
            }
        }
        if last_arriver(&mut arrived[[z, head]], SPLITS) {
            let mut read = alloc_local::<f32>([4]);
            let mut sum = alloc_local::<f32>([4]);
            for e in serial(0..16 * D / 256) {
                let at = (e * 64 + t) * 4;
                let i = row + at / D;
                if i / group < count {
                    let token = from + i / group;
                    let h = head * group + i % group;
                    let mut top = -1e30;
                    for s in unroll(0..SPLITS) {
                        top = max(top, parts.masked([s, token, h, 0]));
                    }
                    let mut all = 0.0f32;
                    for v in unroll(0..4) {
                        sum[v] = 0.0;
                    }
                    for s in serial(0..SPLITS).unroll(4) {
                        let part = parts.masked([s, token, h, 1]);
                        let factor = fast::exp2(parts.masked([s, token, h, 0]) - top);
                        all += part * factor;
                        for v in vectorized(0..4) {
                            read[v] = sums.masked([s, token, h, at % D + v]);
                        }
                        for v in unroll(0..4) {
                            sum[v] += read[v] * factor;
                        }
                    }
                    for v in unroll(0..4) {
                        let value = if all > 0.0 { sum[v] / all } else { 0.0 };
                        *o.masked_mut([token, h, at % D + v]) = value.cast::<T>();
                    }
                }
            }
        }
    }
}
// ANCHOR_END: kernel
