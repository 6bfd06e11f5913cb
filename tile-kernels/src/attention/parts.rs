//! What the kernels of attention share: steps of online softmax, masks, and the sums of warps and of parts of a sequence.

use tile_runtime::prelude::*;

/// One step of online softmax: `weights` become `exp2(scores * scale - most)`, where `most` is the largest of a row so far, times `scale`, and `total`
/// and `acc` are what they would be had that been known from the beginning. `scores`, `here` and `shrink` are overwritten. The accumulator is touched last, so that
/// the product that fills it may be in flight until then.
///
/// A row keeps its `most` until it has grown 2^8 times: until then weights are up to 2^8, which the formats hold as exactly as those up to 1, and a
/// warp none of whose rows has grown multiplies nothing.
#[tile_fn(uses(add_weights))]
pub fn softmax_step<T: Half>(
    scores: &mut Fragment<f32, (ROWS, KEYS)>,
    weights: &mut Fragment<T, (ROWS, KEYS)>,
    most: &mut Fragment<f32, (ROWS,)>,
    here: &mut Fragment<f32, (ROWS,)>,
    shrink: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    acc: &mut Fragment<f32, (ROWS, D)>,
    scale: f32,
) {
    reduce(Max, scores, here, 1);
    for [r] in parallel([ROWS]) {
        let top = max(most[r], here[r] * scale);
        let top = if top - most[r] > 8.0 { top } else { most[r] };
        shrink[r] = fast::exp2(most[r] - top);
        most[r] = top;
    }
    add_weights(scores, most, here, shrink, total, scale);
    for [r, j] in parallel([ROWS, KEYS]) {
        weights[[r, j]] = scores[[r, j]].cast::<T>();
    }
    for [r, j] in parallel([ROWS, D]) {
        if shrink[r] != 1.0 {
            acc[[r, j]] *= shrink[r];
        }
    }
}

/// [`softmax_step`] where the weights stay in the scores.
#[tile_fn(uses(add_weights, multiply_rows))]
pub fn online_softmax(
    scores: &mut Fragment<f32, (ROWS, KEYS)>,
    most: &mut Fragment<f32, (ROWS,)>,
    here: &mut Fragment<f32, (ROWS,)>,
    shrink: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    acc: &mut Fragment<f32, (ROWS, D)>,
    scale: f32,
) {
    reduce(Max, scores, here, 1);
    for [r] in parallel([ROWS]) {
        let top = max(most[r], here[r] * scale);
        shrink[r] = fast::exp2(most[r] - top);
        most[r] = top;
    }
    add_weights(scores, most, here, shrink, total, scale);
    multiply_rows(acc, shrink);
}

/// `scores` become weights, and `total` the sum of a row's weights so far; `here` is overwritten.
#[tile_fn]
fn add_weights(
    scores: &mut Fragment<f32, (ROWS, KEYS)>,
    most: &mut Fragment<f32, (ROWS,)>,
    here: &mut Fragment<f32, (ROWS,)>,
    shrink: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    scale: f32,
) {
    for [r, j] in parallel([ROWS, KEYS]) {
        scores[[r, j]] = fast::exp2(scores[[r, j]] * scale - most[r]);
    }
    reduce(Sum, scores, here, 1);
    for [r] in parallel([ROWS]) {
        total[r] = total[r] * shrink[r] + here[r];
    }
}

/// Multiplies rows by a factor each.
#[tile_fn]
fn multiply_rows(acc: &mut Fragment<f32, (ROWS, D)>, by: &mut Fragment<f32, (ROWS,)>) {
    for [r, j] in parallel([ROWS, D]) {
        acc[[r, j]] *= by[r];
    }
}

/// The natural logarithm of `total * 2^most`, the sum of a row's weights; negative infinity of a row that saw no key, whose `most` is as it began.
#[tile_fn]
pub fn log_of_sum(most: f32, total: f32) -> f32 {
    if most > -1e30 { most * 0.693147180559945 + log(total) } else { f32::NEG_INFINITY }
}

/// Hides keys outside of a window: of the scores of the keys from number `key` on, those that are not among the `keys` there are, or are more than `left`
/// before or `right` after the row's own. The first row's own key is number `own`, which may be none of them.
#[tile_fn]
pub fn hide_keys(
    scores: &mut Fragment<f32, (ROWS, KEYS)>,
    key: usize,
    own: usize,
    keys: usize,
    left: usize,
    right: usize,
) {
    for [r, j] in parallel([ROWS, KEYS]) {
        if key + j >= keys || key + j > own + r + right || key + j + left < own + r {
            scores[[r, j]] = f32::NEG_INFINITY;
        }
    }
}

/// Hides the keys from number `keys` on, of the scores of a step of `KEYS` keys: there are no others.
#[tile_fn]
pub fn hide_beyond(scores: &mut Fragment<f32, (ROWS, KEYS)>, step: usize, keys: usize) {
    if step * KEYS + KEYS > keys {
        for [i, j] in parallel([ROWS, KEYS]) {
            if step * KEYS + j >= keys {
                scores[[i, j]] = f32::NEG_INFINITY;
            }
        }
    }
}

/// Hides the keys behind the row's own, of the scores of a step of `KEYS` keys: row `i` sees those up to number `own + i / GROUP`.
#[tile_fn]
pub fn hide_later<const GROUP: usize>(scores: &mut Fragment<f32, (ROWS, KEYS)>, step: usize, own: usize) {
    if step * KEYS + KEYS > own + 1 {
        for [i, j] in parallel([ROWS, KEYS]) {
            if step * KEYS + j > own + i / GROUP {
                scores[[i, j]] = f32::NEG_INFINITY;
            }
        }
    }
}

/// Hides keys of the scores of a step of `KEYS` keys: those that are not among the `keys` there are, or are more than `right` after the row's own, which is number
/// `own + i / GROUP` of row `i`.
#[tile_fn]
pub fn hide_unseen<const GROUP: usize>(
    scores: &mut Fragment<f32, (ROWS, KEYS)>,
    step: usize,
    own: usize,
    keys: usize,
    right: usize,
) {
    if step * KEYS + KEYS > min(own + right + 1, keys) {
        for [i, j] in parallel([ROWS, KEYS]) {
            if step * KEYS + j >= min(own + i / GROUP + right + 1, keys) {
                scores[[i, j]] = f32::NEG_INFINITY;
            }
        }
    }
}

/// Begins a tile whose rows see at least one key of the first step: none has seen a key yet.
#[tile_fn]
pub fn begin_tile(
    acc: &mut Fragment<f32, (ROWS, D)>,
    most: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
) {
    clear(acc);
    clear(total);
    fill(most, f32::NEG_INFINITY);
}

/// Begins online softmax: no row has seen a key but that of its head's sink, a score without a value, where there are `sinks`.
#[tile_fn]
pub fn begin_rows(
    most: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    sinks: Option<&Tensor<f32, (H,)>>,
    head: usize,
) {
    clear(total);
    fill(most, -1e30); // finite: a row may see none of a step's keys
    if let Some(sinks) = sinks {
        fill(most, max(sinks[head] * 1.442695040888963, -1e30));
        fill(total, 1.0);
    }
}

/// [`begin_rows`] where rows are of `GROUP` heads in turn, from number `head` on.
#[tile_fn]
pub fn begin_rows_of<const GROUP: usize>(
    most: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    sinks: Option<&Tensor<f32, (H,)>>,
    head: usize,
) {
    clear(total);
    fill(most, -1e30); // finite: a row may see none of a step's keys
    if let Some(sinks) = sinks {
        for [i] in parallel([ROWS]) {
            most[i] = max(sinks.masked([head + i % GROUP]) * 1.442695040888963, -1e30);
        }
        fill(total, 1.0);
    }
}

/// [`softmax_step`] of scores as they come from their product, of the keys from number `step * KEYS` on. `CAP`: they become `tanh(inner s)` first. Keys outside of
/// the window are hidden where the step has any: `own`, `keys`, `left` and `right` are those of [`hide_keys`]. Without `WINDOW` all keys before a row's own are inside,
/// and `GROUP` rows have one own key.
#[tile_fn(uses(hide_keys, hide_unseen, softmax_step))]
pub fn step_in_window<T: Half, const WINDOW: bool, const CAP: bool, const GROUP: usize>(
    scores: &mut Fragment<f32, (ROWS, KEYS)>,
    weights: &mut Fragment<T, (ROWS, KEYS)>,
    most: &mut Fragment<f32, (ROWS,)>,
    here: &mut Fragment<f32, (ROWS,)>,
    shrink: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    acc: &mut Fragment<f32, (ROWS, D)>,
    scale: f32,
    inner: f32,
    step: usize,
    own: usize,
    keys: usize,
    left: usize,
    right: usize,
) {
    if CAP {
        for [r, j] in parallel([ROWS, KEYS]) {
            scores[[r, j]] = fast::tanh(scores[[r, j]] * inner);
        }
    }
    if WINDOW {
        if step * KEYS + KEYS > min(own + right + 1, keys) || step * KEYS + left < own + ROWS - 1 {
            hide_keys(scores, step * KEYS, own, keys, left, right);
        }
    } else {
        hide_unseen::<GROUP>(scores, step, own, keys, right);
    }
    softmax_step(scores, weights, most, here, shrink, total, acc, scale);
}

/// Offset `z` of packed sequences, of at most `most`; bounded so that indices can be computed in 32 bits.
#[tile_fn]
pub fn offset(first: &Tensor<i32, (Z,)>, z: usize, most: usize) -> usize {
    min(min(max(first.masked([z]) as usize, 0), most), 1 << 28)
}

/// The sequence that tile `tile` of `of_tile` queries is of, of packed sequences: the last one whose first tile is this one or before. Sequence `z` has the tiles from
/// number `first[z] / of_tile + z` on. `halvings` of `sequences` leave one of them.
#[tile_fn(uses(offset))]
pub fn sequence_of(
    first: &Tensor<i32, (Z,)>,
    of_tile: usize,
    tile: usize,
    sequences: usize,
    halvings: usize,
    most: usize,
) -> usize {
    let mut z = 0;
    let mut beyond = sequences;
    for _ in 0..halvings {
        let middle = (z + beyond) / 2;
        if offset(first, middle, most) / of_tile + middle <= tile {
            z = middle;
        } else {
            beyond = middle;
        }
    }
    z
}

/// Writes the logarithms of the rows' sums of weights, where they are asked for: of sequence `batch`, from query `row` and head `head` on, `GROUP` heads of
/// a query one behind the other.
#[tile_fn(uses(log_of_sum))]
pub fn write_sums<const GROUP: usize>(
    sums: Option<&mut Tensor<f32, (B, H, M)>>,
    most: &mut Fragment<f32, (ROWS,)>,
    total: &mut Fragment<f32, (ROWS,)>,
    batch: usize,
    head: usize,
    row: usize,
) {
    if let Some(sums) = sums {
        for [i] in parallel([ROWS]) {
            *sums.masked_mut([batch, head + i % GROUP, row + i / GROUP]) = log_of_sum(most[i], total[i]);
        }
    }
}

/// Divides rows by the sums of their weights; a row that saw no key, whose sum is 0, becomes 0. `total` is overwritten.
#[tile_fn(uses(multiply_rows))]
pub fn divide_rows(acc: &mut Fragment<f32, (ROWS, D)>, total: &mut Fragment<f32, (ROWS,)>) {
    for [r] in parallel([ROWS]) {
        total[r] = if total[r] > 0.0 { 1.0 / total[r] } else { 0.0 };
    }
    multiply_rows(acc, total);
}

/// [`divide_rows`] where every row saw a key.
#[tile_fn(uses(multiply_rows))]
pub fn divide_seen_rows(acc: &mut Fragment<f32, (ROWS, D)>, total: &mut Fragment<f32, (ROWS,)>) {
    for [r] in parallel([ROWS]) {
        total[r] = 1.0 / total[r];
    }
    multiply_rows(acc, total);
}

/// Stores what each warp has of its `ROWS` rows, 8 or 16, for the block to add: largest scores, sums of weights, and of the first `stored` rows the results.
#[tile_fn]
pub fn store_warps(
    most: &mut Fragment<f32, (ALL,)>,
    total: &mut Fragment<f32, (ALL,)>,
    acc: &mut Fragment<f32, (ALL, D)>,
    tops: &mut SharedArray<f32, (WARPS, ROWS)>,
    counts: &mut SharedArray<f32, (WARPS, ROWS)>,
    results: &mut SharedArray<f32, (WARPS, ROWS, PITCH)>,
    stored: usize,
) {
    let shift = if ROWS == 8 { 3 } else { 4 };
    for [r] in parallel([ROWS * WARPS]) {
        tops[[r >> shift, r & (ROWS - 1)]] = most[r];
        counts[[r >> shift, r & (ROWS - 1)]] = total[r];
    }
    for [r, j] in parallel([ROWS * WARPS, D]) {
        if r & (ROWS - 1) < stored {
            results[[r >> shift, r & (ROWS - 1), j]] = acc[[r, j]];
        }
    }
}

/// The largest score of row `i` over the block's warps.
#[tile_fn]
pub fn largest_of_warps(tops: &SharedArray<f32, (WARPS, ROWS)>, i: usize) -> f32 {
    let mut top = tops[[0, i]];
    for w in unroll(1..WARPS) {
        top = max(top, tops[[w, i]]);
    }
    top
}

/// Adds to `sum` columns `column` to `column + 3` of the warps' results of row `i`, as if `top` had been the largest score of each; returns the sum of
/// their weights.
#[tile_fn]
pub fn add_warps(
    tops: &SharedArray<f32, (WARPS, ROWS)>,
    counts: &SharedArray<f32, (WARPS, ROWS)>,
    results: &SharedArray<f32, (WARPS, ROWS, PITCH)>,
    i: usize,
    column: usize,
    top: f32,
    sum: &mut LocalArray<f32, (FOUR,)>,
) -> f32 {
    let mut all = 0.0f32;
    for w in unroll(0..WARPS) {
        let factor = fast::exp2(tops[[w, i]] - top);
        all += counts[[w, i]] * factor;
        let mut part = alloc_local::<f32>([4]);
        for c in vectorized(0..4) {
            part[c] = results[[w, i, column + c]];
        }
        for c in unroll(0..4) {
            sum[c] += part[c] * factor;
        }
    }
    all
}

/// Adds to `sum` columns `column` on of row `row` of what each block of a cluster has sent, as if the largest score of all had been that of each;
/// returns the sum of their weights. Behind a row's columns are its largest score and the sum of its weights.
#[tile_fn]
pub fn add_blocks(
    theirs: &SharedArray<f32, (BLOCKS, ROWS, WIDTH)>,
    row: usize,
    column: usize,
    sum: &mut LocalArray<f32, (COLUMNS,)>,
) -> f32 {
    let mut top = -1e30f32;
    for s in unroll(0..BLOCKS) {
        top = max(top, theirs[[s, row, WIDTH - 4]]);
    }
    let mut all = 0.0f32;
    for s in unroll(0..BLOCKS) {
        let factor = fast::exp2(theirs[[s, row, WIDTH - 4]] - top);
        all += theirs[[s, row, WIDTH - 3]] * factor;
        let mut part = alloc_local::<f32>([COLUMNS]);
        for c in vectorized(0..COLUMNS) {
            part[c] = theirs[[s, row, column + c]];
        }
        for c in unroll(0..COLUMNS) {
            sum[c] += part[c] * factor;
        }
    }
    all
}

/// Adds the `SPLITS` parts of a sequence: rows `row` to `row + 15`, a row being a query of one head of a group, of the `count`
/// queries from `from` on. `sums` are the parts' results, `parts` their largest scores and the sums of their weights. `t` is one of the threads of `WARPS` warps.
#[tile_fn]
pub fn add_parts<T: Float, const SPLITS: usize, const WARPS: usize>(
    sums: &Tensor<f32, (PARTS, S, H, D)>,
    parts: &Tensor<f32, (PARTS, S, H, TWO)>,
    o: &mut Tensor<T, (S, H, D)>,
    from: usize,
    count: usize,
    row: usize,
    head: usize,
    group: usize,
    t: usize,
) {
    // Several parts of a row are loaded at once.
    let at_once = min(SPLITS, 16);
    let apart = 128 * WARPS / D; // rows of the block's threads
    let column = t * 4 % D;
    let rows = min(max(count * group - row, 0), 16);
    let mut part = alloc_local::<f32>([SPLITS, 2]); // largest scores, and sums of weights
    let mut read = alloc_local::<f32>([at_once, 4]);
    for e in 0..ceil_div(rows, apart) {
        // Rows beyond the last may be other blocks' to write.
        let i = min(row + e * apart + t * 4 / D, count * group - 1);
        for s in unroll(0..SPLITS) {
            for x in vectorized(0..2) {
                part[[s, x]] = parts.masked([s, from + i / group, head * group + i % group, x]);
            }
        }
        let mut all = 0.0;
        let mut sum = alloc_local::<f32>([4]);
        clear(&mut sum);
        for chunk in unroll(0..SPLITS / at_once) {
            for s in unroll(0..at_once) {
                for c in vectorized(0..4) {
                    read[[s, c]] =
                        sums.masked([chunk * at_once + s, from + i / group, head * group + i % group, column + c]);
                }
            }
            let mut top = -1e30;
            for s in unroll(0..SPLITS) {
                top = max(top, part[[s, 0]]);
            }
            for s in unroll(0..at_once) {
                let factor = fast::exp2(part[[chunk * at_once + s, 0]] - top);
                all += part[[chunk * at_once + s, 1]] * factor;
                for c in unroll(0..4) {
                    sum[c] += read[[s, c]] * factor;
                }
            }
        }
        if row + e * apart + t * 4 / D < count * group {
            let inverse = if all > 0.0 { 1.0 / all } else { 0.0 };
            for c in vectorized(0..4) {
                *o.masked_mut([from + i / group, head * group + i % group, column + c]) =
                    (sum[c] * inverse).cast::<T>();
            }
        }
    }
}
