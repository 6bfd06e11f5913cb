//! The kernel of decode attention: bound by the bytes of keys and values, so a block is one warp, which waits for no other, and
//! several of them on a multiprocessor have tiles under way.

use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v` for the newest tokens of every sequence, over keys and values in pages. `scale` is
/// log2(e) / sqrt(D). A block is a warp, which has 16 rows, a row being a query of one head of a group, and one of `SPLITS` parts of the
/// sequence; the last of the parts to be done adds them. Tables may be read before the previous kernel is done, which makes
/// queries, keys and values.
#[tile_kernel(
    instances(
        (D, BN, STAGES) in [(64, 32, 4), (128, 32, 3), (64, 16, 4), (128, 16, 3)],
        SPLITS in [1, 4, 8, 16, 32],
        where (T::BITS == 16) == (BN == 32),
        where T::BITS == 16 || SPLITS == 1 || SPLITS == 8
    ),
    partial(o),
    require(H % HK == 0 && HK <= 64 && PAGE % BN == 0 && (SPLITS == 1 || B * tiles <= 1024)),
    specialize(H, HK, PAGE),
    pdl(independent = [pages, first, lengths])
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
    let [t] = threads([32]);
    let sequence = z / tiles;
    let row = z % tiles * 16;
    let group = H / HK;
    let from = min(first.masked([sequence]) as usize, S);
    let count = min(first.masked([sequence + 1]) as usize, S) - from;
    let length = min(lengths.masked([sequence]) as usize, 1 << 30);
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
    let vec = 128 / T::BITS;
    for e in unroll(0..16 * D / (32 * vec)) {
        let i = (e * 32 + t) * vec / D;
        let j = (e * 32 + t) * vec % D;
        for x in vectorized(0..vec) {
            q_s[[i, j + x]] = q.masked([from + (row + i) / group, head * group + (row + i) % group, j + x]);
        }
    }
    let share = ceil_div(ceil_div(length, BN), SPLITS);
    let begin = split * share;
    let end = min(begin + share, ceil_div(length, BN));
    for step in pipelined(begin..end, STAGES).schedule(Cooperative) {
        let page = pages.masked([sequence, step * BN / PAGE]) as usize;
        copy(k.at([page, head, step * BN % PAGE, 0]), &mut k_s);
        copy(v.at([page, head, step * BN % PAGE, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).clear();
        if step * BN + BN + count > length {
            for [i, j] in parallel([16, BN]) {
                // A query sees the keys up to its own.
                if step * BN + j + count > length + (row + i) / group {
                    scores[[i, j]] = f32::NEG_INFINITY;
                }
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
        gemm(&weights, &v_s, &mut acc);
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
            // Each lane has four columns of rows that are `apart`, two of them at a time, and loads several parts of both at once.
            let apart = 128 / D;
            let at_once = if SPLITS == 32 { 8 } else { SPLITS };
            let column = t * 4 % D;
            let rows = min(max(count * group - row, 0), 16);
            let mut tops = alloc_local::<f32>([2, SPLITS]);
            let mut counts = alloc_local::<f32>([2, SPLITS]);
            let mut read = alloc_local::<f32>([2, at_once, 4]);
            let mut sum = alloc_local::<f32>([2, 4]);
            let mut all = alloc_local::<f32>([2]);
            for e in 0..ceil_div(rows, 2 * apart) {
                for r in unroll(0..2) {
                    // Rows beyond the last may be other blocks' to write.
                    let i = min(row + (e * 2 + r) * apart + t * 4 / D, count * group - 1);
                    for s in unroll(0..SPLITS) {
                        tops[[r, s]] = parts.masked([s, from + i / group, head * group + i % group, 0]);
                        counts[[r, s]] = parts.masked([s, from + i / group, head * group + i % group, 1]);
                    }
                    all[r] = 0.0;
                    for c in unroll(0..4) {
                        sum[[r, c]] = 0.0;
                    }
                }
                for chunk in unroll(0..SPLITS / at_once) {
                    for r in unroll(0..2) {
                        let i = min(row + (e * 2 + r) * apart + t * 4 / D, count * group - 1);
                        for s in unroll(0..at_once) {
                            for c in vectorized(0..4) {
                                read[[r, s, c]] = sums.masked([
                                    chunk * at_once + s,
                                    from + i / group,
                                    head * group + i % group,
                                    column + c,
                                ]);
                            }
                        }
                    }
                    for r in unroll(0..2) {
                        let mut top = -1e30;
                        for s in unroll(0..SPLITS) {
                            top = max(top, tops[[r, s]]);
                        }
                        for s in unroll(0..at_once) {
                            let factor = fast::exp2(tops[[r, chunk * at_once + s]] - top);
                            all[r] += counts[[r, chunk * at_once + s]] * factor;
                            for c in unroll(0..4) {
                                sum[[r, c]] += read[[r, s, c]] * factor;
                            }
                        }
                    }
                }
                for r in unroll(0..2) {
                    let i = row + (e * 2 + r) * apart + t * 4 / D;
                    if i / group < count {
                        for c in unroll(0..4) {
                            let value = if all[r] > 0.0 { sum[[r, c]] / all[r] } else { 0.0 };
                            *o.masked_mut([from + i / group, head * group + i % group, column + c]) = value.cast::<T>();
                        }
                    }
                }
            }
        }
    }
}
// ANCHOR_END: kernel
