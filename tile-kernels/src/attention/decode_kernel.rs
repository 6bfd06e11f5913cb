//! The kernel of decode attention: bound by the bytes of keys and values, so the warps of a block share nothing but the loads until they have
//! seen all of their keys.

use super::parts::{add_blocks, add_parts, add_warps, largest_of_warps, online_softmax, store_warps};
use tile_runtime::prelude::*;

// ANCHOR: kernel
/// `o = softmax(scale q k^T) v` for the newest tokens of every sequence, over keys and values in pages. `scale` is
/// log2(e) / sqrt(D).
///
/// A block has `ROWS` rows, a row being a query of one head of a group, and one of `SPLITS` parts of the sequence: every `SPLITS`-th step of `WARPS * BN` keys.
/// Each of its `WARPS` warps multiplies all rows with `BN` keys of its own of each step, and keeps maximum, sum and result for these; the warps'
/// results are added at the end, and then those of the parts. `ROWS` is 8 where there is one query of at most eight heads, which `mma.sync` multiplies with its operands exchanged.
/// The `CLUSTER` blocks of a cluster are all the parts: each of them gets what the others have of some of the rows; of a `CLUSTER` of 1, the last of the parts' blocks to be
/// done adds them all. Both ways add in the same order. Tables may be read before the previous kernel is done, which makes queries, keys and values.
#[tile_kernel(
    instances(
        (D, BN, WARPS, STAGES) in [
            (64, 16, 4, 4), (128, 16, 4, 2), (128, 16, 4, 3), (128, 16, 4, 5), (128, 16, 8, 2), (64, 16, 1, 4),
            (128, 16, 1, 3)
        ],
        (SPLITS, CLUSTER, ROWS) in [
            (1, 1, 8), (2, 1, 8), (4, 1, 8), (8, 1, 8), (16, 1, 8), (32, 1, 8),
            (1, 1, 16), (2, 1, 16), (4, 1, 16), (8, 1, 16), (16, 1, 16), (32, 1, 16),
            (2, 2, 8), (2, 2, 16), (4, 4, 8), (4, 4, 16), (8, 8, 8), (8, 8, 16)
        ],
        where (T::BITS == 16) == (WARPS >= 4),
        where T::BITS == 16 || ROWS == 16 && (SPLITS == 1 || SPLITS == 8 && CLUSTER == 1),
        where D == 128 || ROWS == 16 || CLUSTER > 1,
        where WARPS != 4 || D == 64 || (STAGES == 5) == (CLUSTER > 1),
        where WARPS != 8 || CLUSTER > 1,
        where WARPS != 4 || STAGES != 3 || SPLITS >= 4
    ),
    partial(o),
    require(ROWS == 16 || H <= 8 * HK && tiles == 1),
    require(H % HK == 0 && HK <= 64 && PAGE % (WARPS * BN) == 0 && (SPLITS == 1 || B * tiles <= 1024)),
    specialize(H, HK, PAGE),
    pdl(independent = [pages, first, lengths], trigger = AtStart),
    uses(add_blocks, add_parts, add_warps, largest_of_warps, online_softmax, store_warps)
)]
pub fn decode<
    T: Float,
    const D: usize,
    const BN: usize,
    const WARPS: usize,
    const STAGES: usize,
    const SPLITS: usize,
    const CLUSTER: usize,
    const ROWS: usize,
>(
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
    cluster([CLUSTER, 1, 1]);
    let [t] = threads([32 * WARPS]);
    let sequence = if ROWS < 16 { z } else { z / tiles };
    let row = if ROWS < 16 { 0 } else { z % tiles * 16 };
    let group = H / HK;
    let step_keys = WARPS * BN;
    let shift = if ROWS == 8 { 3 } else { 4 }; // `r >> shift` is the warp of row `r`
    let from = min(first.masked([sequence]) as usize, S);
    let count = min(first.masked([sequence + 1]) as usize, S) - from;
    let length = min(lengths.masked([sequence]) as usize, 1 << 29);
    // Every SPLITS-th step is the block's, from number `split` on: so which pages its first steps are in does not depend on the length, and is asked for
    // beside it.
    let begin = split * step_keys;
    let apart_keys = SPLITS * step_keys;
    let turns = min((ceil_div(length, step_keys) + SPLITS - 1 - split) / SPLITS, (1 << 29) / apart_keys);
    // The pages of so many steps; the next ones' are read as they are reached. Two blocks of 16 rows on a multiprocessor have room for no more.
    let noted = 16 * WARPS;
    let mut table = alloc_shared::<u32>([noted]);
    let page_of_mine = pages.masked([sequence, (begin + t * apart_keys) / PAGE]);
    let mut q_s = alloc_shared::<T>([ROWS, D]);
    let mut k_s = alloc_shared::<T>([WARPS * BN, D]);
    let mut v_s = alloc_shared::<T>([WARPS * BN, D]);
    let mut scores = alloc_fragment::<f32>([ROWS * WARPS, BN]);
    let mut weights = alloc_fragment::<T>([ROWS * WARPS, BN]);
    let mut weights_s = alloc_shared::<T>([ROWS * WARPS, BN]); // of f32, which the tensor cores do not take from registers
    let mut acc = alloc_fragment::<f32>([ROWS * WARPS, D]);
    let mut most = alloc_fragment::<f32>([ROWS * WARPS]);
    let mut here = alloc_fragment::<f32>([ROWS * WARPS]);
    let mut shrink = alloc_fragment::<f32>([ROWS * WARPS]);
    let mut total = alloc_fragment::<f32>([ROWS * WARPS]);
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, -1e30); // finite: a row may see none of a step's keys
    // Queries are asked for before keys and values, and stored behind what asks for those: nobody waits for them until then.
    let vec = 128 / T::BITS;
    let at_once = 32 * WARPS * vec / D; // rows
    let mut asked = alloc_local::<T>([ceil_div(ROWS, at_once), vec]);
    let i = t * vec / D;
    let j = t * vec % D;
    for e in unroll(0..ceil_div(ROWS, at_once)) {
        let r = row + e * at_once + i;
        if i < ROWS {
            for x in vectorized(0..vec) {
                asked[[e, x]] = q.masked([from + r / group, head * group + r % group, j + x]);
            }
        }
    }
    if t < noted {
        table[t] = page_of_mine;
    }
    sync_threads(); // also keeps ptxas from moving the queries' loads behind the first copies
    for e in unroll(0..ceil_div(ROWS, at_once)) {
        if i < ROWS {
            for x in vectorized(0..vec) {
                q_s[[e * at_once + i, j + x]] = asked[[e, x]];
            }
        }
    }
    for turn in pipelined(0..turns, STAGES).schedule(Rolled) {
        let key = begin + turn * apart_keys;
        let page = if turn < noted { table[turn] } else { pages.masked([sequence, key / PAGE]) } as usize;
        copy(k.at([page, head, key % PAGE, 0]), &mut k_s);
        copy(v.at([page, head, key % PAGE, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).grouped().clear();
        if key + step_keys + count > length {
            for [r, j] in parallel([ROWS * WARPS, BN]) {
                // A query sees the keys up to its own.
                if key + (r >> shift) * BN + j + count > length + (row + (r & (ROWS - 1))) / group {
                    scores[[r, j]] = f32::NEG_INFINITY;
                }
            }
        }
        online_softmax(&mut scores, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
        if T::BITS == 16 {
            for [r, j] in parallel([ROWS * WARPS, BN]) {
                weights[[r, j]] = scores[[r, j]].cast::<T>();
            }
            gemm(&weights, &v_s, &mut acc).grouped();
        } else {
            for [r, j] in parallel([ROWS * WARPS, BN]) {
                weights_s[[r, j]] = scores[[r, j]].cast::<T>();
            }
            gemm(&weights_s, &v_s, &mut acc).grouped();
        }
    }

    // The warps' results, added: a thread has four columns of some of the rows.
    let mut tops = alloc_shared::<f32>([WARPS, ROWS]);
    let mut counts = alloc_shared::<f32>([WARPS, ROWS]);
    // What the lanes of a warp store at once lies in different banks.
    let mut results = alloc_shared::<f32>([WARPS, ROWS, if ROWS == 8 { D + 4 } else { D + 8 }]);
    let rows = min(count * group - row, ROWS); // of the block's, those that are queries
    let stored = if CLUSTER > 1 || ROWS == 8 { ROWS } else { rows };
    let added = if CLUSTER > 1 { ROWS } else { rows }; // a cluster exchanges whole arrays
    store_warps(&mut most, &mut total, &mut acc, &mut tops, &mut counts, &mut results, stored);
    let mut mine = alloc_shared::<f32>([CLUSTER, ROWS / CLUSTER, D + 4]);
    let mut theirs = alloc_shared::<f32>([CLUSTER, ROWS / CLUSTER, D + 4]);
    let apart = 128 * WARPS / D; // rows of the block's threads
    let column = t * 4 % D;
    for e in unroll(0..ceil_div(ROWS, apart)) {
        let i = e * apart + t * 4 / D;
        if i < added {
            let top = largest_of_warps(&tops, i);
            let mut sum = alloc_local::<f32>([4]);
            clear(&mut sum);
            let all = add_warps(&tops, &counts, &results, i, column, top, &mut sum);
            if CLUSTER > 1 {
                for c in vectorized(0..4) {
                    mine[[i % CLUSTER, i / CLUSTER, column + c]] = sum[c];
                }
                if column == 0 {
                    for c in vectorized(0..4) {
                        mine[[i % CLUSTER, i / CLUSTER, D + c]] = if c == 0 { top } else { all };
                    }
                }
            } else if SPLITS == 1 {
                let inverse = if all > 0.0 { 1.0 / all } else { 0.0 };
                for c in vectorized(0..4) {
                    *o.masked_mut([from + (row + i) / group, head * group + (row + i) % group, column + c]) =
                        (sum[c] * inverse).cast::<T>();
                }
            } else {
                for c in vectorized(0..4) {
                    *sums.masked_mut([split, from + (row + i) / group, head * group + (row + i) % group, column + c]) =
                        sum[c];
                }
                if column == 0 {
                    *parts.masked_mut([split, from + (row + i) / group, head * group + (row + i) % group, 0]) = top;
                    *parts.masked_mut([split, from + (row + i) / group, head * group + (row + i) % group, 1]) = all;
                }
            }
        }
    }
    if CLUSTER > 1 {
        cluster_exchange(&mine, &mut theirs);
        // This block's rows are those whose number is its own, modulo the cluster's.
        let columns = min(max(ROWS * D / (CLUSTER * 32 * WARPS), 1), 4); // of a thread, at once
        let own = ROWS / CLUSTER;
        for e in unroll(0..ceil_div(own * D, 32 * WARPS * columns)) {
            let at = (e * 32 * WARPS + t) * columns;
            let i = at / D * CLUSTER + split;
            if at < own * D && i < rows {
                let mut sum = alloc_local::<f32>([columns]);
                clear(&mut sum);
                let all = add_blocks(&theirs, at / D, at % D, &mut sum);
                let inverse = if all > 0.0 { 1.0 / all } else { 0.0 };
                for c in vectorized(0..columns) {
                    *o.masked_mut([from + (row + i) / group, head * group + (row + i) % group, at % D + c]) =
                        (sum[c] * inverse).cast::<T>();
                }
            }
        }
    } else if SPLITS > 1 {
        if last_arriver(&mut arrived[[z, head]], SPLITS) {
            add_parts::<T, SPLITS, WARPS>(sums, parts, o, from, count, row, head, group, t);
        }
    }
}
// ANCHOR_END: kernel
