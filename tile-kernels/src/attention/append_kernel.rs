//! The kernel of a decode step's attention: norms and rotates what a product has made of the newest token, appends it to the cache, and attends.

use super::parts::{add_parts, add_warps, largest_of_warps, online_softmax, store_warps};
use tile_runtime::prelude::*;

/// The sum of squares of the thread's part of a head.
#[tile_fn]
pub fn sum_of_squares<T: Float>(a: &LocalArray<T, (VEC,)>, b: &LocalArray<T, (VEC,)>) -> f32 {
    let mut squares = 0.0f32;
    for x in unroll(0..VEC) {
        squares += a[x].cast::<f32>() * a[x].cast::<f32>();
        squares += b[x].cast::<f32>() * b[x].cast::<f32>();
    }
    squares
}

/// The sum of `value` over the `D / 16` neighbouring lanes that have a head.
#[tile_fn]
pub fn sum_of_head<const D: usize>(value: f32) -> f32 {
    let mut sum = value;
    for step in unroll(1..5) {
        if 16 << step <= D {
            sum += shfl_xor(sum, D / 16 >> step);
        }
    }
    sum
}

/// Scales elements `a` of the first half of a head, and `b` of the second, by `scale` and weights, and rotates each pair of them by its angle.
#[tile_fn]
pub fn scale_and_rotate<T: Float>(
    a: &mut LocalArray<T, (VEC,)>,
    b: &mut LocalArray<T, (VEC,)>,
    weights: &LocalArray<T, (TWO, VEC)>,
    cosines: &LocalArray<f32, (VEC,)>,
    sines: &LocalArray<f32, (VEC,)>,
    scale: f32,
) {
    for x in unroll(0..VEC) {
        let re = a[x].cast::<f32>() * scale * weights[[0, x]].cast::<f32>();
        let im = b[x].cast::<f32>() * scale * weights[[1, x]].cast::<f32>();
        a[x] = (re * cosines[x] - im * sines[x]).cast::<T>();
        b[x] = (im * cosines[x] + re * sines[x]).cast::<T>();
    }
}

// ANCHOR: kernel
/// Of the newest token of each of B sequences: norms and rotates its queries and keys, appends its keys and values to the pages, and
/// `o = softmax(scale q k^T) v` over all keys of the sequence. `scale` is log2(e) / sqrt(D).
///
/// A block has the queries of one group of heads, at most `ROWS` rows, and one of `SPLITS` parts of the keys that are in the pages: every `SPLITS`-th step of
/// `WARPS * BN` keys. Each of its `WARPS` warps multiplies all rows with `BN` keys of its own of each step. The block that has the last of these keys has the
/// token's own key too, which it does not read from the page. The warps' results are added at the end, and those of the parts by the last of the
/// blocks to be done. All but `qkv` may be read before the previous kernel is done, which makes that: so the first keys and values are under way by then.
#[tile_kernel(
    instances(
        (D, BN, WARPS, STAGES) in [(64, 16, 4, 4), (128, 16, 4, 2), (128, 16, 4, 3)],
        SPLITS in [1, 2, 4, 8, 16, 32],
        ROWS in [8, 16],
        where T::BITS == 16 && (STAGES != 3 || SPLITS >= 4)
    ),
    partial(k, v),
    require(H % HK == 0 && HK <= 64 && H <= ROWS * HK && PAGE % (WARPS * BN) == 0 && (SPLITS == 1 || B <= 1024)),
    specialize(H, HK, PAGE),
    pdl(independent = [cosines, sines, q_norm, k_norm, k, v, pages, lengths], trigger = AtStart),
    uses(add_parts, add_warps, largest_of_warps, online_softmax, scale_and_rotate, store_warps, sum_of_head, sum_of_squares)
)]
pub fn append_decode<
    T: Float,
    const D: usize,
    const BN: usize,
    const WARPS: usize,
    const STAGES: usize,
    const SPLITS: usize,
    const ROWS: usize,
>(
    k: &mut Tensor<T, (P, HK, PAGE, D)>,
    v: &mut Tensor<T, (P, HK, PAGE, D)>,
    o: &mut Tensor<T, (B, H, D)>,
    qkv: &Tensor<T, (B, Extent<{ (H + 2 * HK) * D }>)>,
    cosines: &Tensor<f32, (M, Extent<{ D / 2 }>)>,
    sines: &Tensor<f32, (M, Extent<{ D / 2 }>)>,
    q_norm: Option<&Tensor<T, (D,)>>,
    k_norm: Option<&Tensor<T, (D,)>>,
    pages: &Tensor<u32, (B, L)>,
    lengths: &Tensor<u32, (B,)>,
    scale: f32,
    epsilon: f32,
    sums: &mut Workspace<f32, (SPLITS, B, H, D)>,
    parts: &mut Workspace<f32, (SPLITS, B, H, Fixed<2>)>,
    arrived: &mut Workspace<u32, (Fixed<1024>, Fixed<64>)>,
) {
    let [split, head, z] = blocks([SPLITS, HK, B]);
    let [t] = threads([32 * WARPS]);
    // `D / 16` lanes have a head, each two vectors of 8 of it: of its first half and of its second.
    let lane = t % (D / 16);
    let slot = t / (D / 16);
    let group = H / HK;
    let shift = if ROWS == 8 { 3 } else { 4 }; // `r >> shift` is the warp of row `r`
    let step_keys = WARPS * BN;
    let length = min(lengths.masked([z]) as usize, 1 << 29);
    let cached = max(length, 1) - 1; // keys in the pages; the token's position
    // Every SPLITS-th step is the block's, from number `split` on: so which pages its first steps are in does not depend on the length, and is asked for
    // beside it.
    let begin = split * step_keys;
    let apart_keys = SPLITS * step_keys;
    let steps = ceil_div(cached, step_keys);
    let turns = min((steps + SPLITS - 1 - split) / SPLITS, (1 << 29) / apart_keys);
    // The pages of so many steps; the next ones' are read as they are reached.
    let noted = 16 * WARPS;
    let mut table = alloc_shared::<u32>([noted]);
    let page_of_mine = pages.masked([z, (begin + t * apart_keys) / PAGE]);

    let mut q_s = alloc_shared::<T>([ROWS, D]);
    let mut k_s = alloc_shared::<T>([WARPS * BN, D]);
    let mut v_s = alloc_shared::<T>([WARPS * BN, D]);
    let mut own_key = alloc_shared::<T>([D]);
    let mut own_value = alloc_shared::<T>([D]);
    let mut own_scores = alloc_shared::<f32>([ROWS]);
    if t < noted {
        table[t] = page_of_mine;
    }
    sync_threads();
    // Here the previous kernel is waited for, which makes `qkv`. The first copies of keys and values are issued before that, though the loop stands below.
    // Lanes that have a query also make the token's key, which is multiplied with it in f32.
    let mut ka = alloc_local::<T>([8]);
    let mut kb = alloc_local::<T>([8]);
    for x in vectorized(0..8) {
        ka[x] = qkv[[z, (H + head) * D + lane * 8 + x]];
    }
    for x in vectorized(0..8) {
        kb[x] = qkv[[z, (H + head) * D + D / 2 + lane * 8 + x]];
    }
    let mut qa = alloc_local::<T>([8]);
    let mut qb = alloc_local::<T>([8]);
    clear(&mut qa);
    clear(&mut qb);
    if slot < group {
        for x in vectorized(0..8) {
            qa[x] = qkv[[z, (head * group + slot) * D + lane * 8 + x]];
        }
        for x in vectorized(0..8) {
            qb[x] = qkv[[z, (head * group + slot) * D + D / 2 + lane * 8 + x]];
        }
    }
    let column = t * 4 % D;
    let mut value = alloc_local::<T>([4]);
    for x in vectorized(0..4) {
        value[x] = qkv[[z, (H + HK + head) * D + column + x]];
    }
    let mut c = alloc_local::<f32>([8]);
    let mut s = alloc_local::<f32>([8]);
    for quad in unroll(0..2) {
        for x in vectorized(0..4) {
            c[quad * 4 + x] = cosines.masked([cached, lane * 8 + quad * 4 + x]);
            s[quad * 4 + x] = sines.masked([cached, lane * 8 + quad * 4 + x]);
        }
    }
    let mut q_weights = alloc_local::<T>([2, 8]);
    let mut k_weights = alloc_local::<T>([2, 8]);
    fill(&mut q_weights, T::ONE);
    fill(&mut k_weights, T::ONE);
    if let Some(weight) = q_norm {
        for half in unroll(0..2) {
            for x in vectorized(0..8) {
                q_weights[[half, x]] = weight[half * (D / 2) + lane * 8 + x];
            }
        }
    }
    if let Some(weight) = k_norm {
        for half in unroll(0..2) {
            for x in vectorized(0..8) {
                k_weights[[half, x]] = weight[half * (D / 2) + lane * 8 + x];
            }
        }
    }

    let mut k_scale = 1.0f32;
    let k_squares = sum_of_head::<D>(sum_of_squares(&ka, &kb));
    if let Some(_) = k_norm {
        k_scale = rsqrt(k_squares / D as f32 + epsilon);
    }
    scale_and_rotate(&mut ka, &mut kb, &k_weights, &c, &s, k_scale);
    if slot == 0 {
        for x in vectorized(0..8) {
            own_key[lane * 8 + x] = ka[x];
        }
        for x in vectorized(0..8) {
            own_key[D / 2 + lane * 8 + x] = kb[x];
        }
    }
    if t * 4 < D {
        for x in vectorized(0..4) {
            own_value[column + x] = value[x];
        }
    }
    let mut q_scale = 1.0f32;
    let q_squares = sum_of_head::<D>(sum_of_squares(&qa, &qb));
    if let Some(_) = q_norm {
        q_scale = rsqrt(q_squares / D as f32 + epsilon);
    }
    scale_and_rotate(&mut qa, &mut qb, &q_weights, &c, &s, q_scale);
    let mut product = 0.0f32;
    for x in unroll(0..8) {
        product += qa[x].cast::<f32>() * ka[x].cast::<f32>();
        product += qb[x].cast::<f32>() * kb[x].cast::<f32>();
    }
    let score = sum_of_head::<D>(product) * scale;
    if slot < ROWS {
        if lane == 0 {
            own_scores[slot] = score;
        }
        for x in vectorized(0..8) {
            q_s[[slot, lane * 8 + x]] = qa[x];
        }
        for x in vectorized(0..8) {
            q_s[[slot, D / 2 + lane * 8 + x]] = qb[x];
        }
    }

    let mut scores = alloc_fragment::<f32>([ROWS * WARPS, BN]);
    let mut weights = alloc_fragment::<T>([ROWS * WARPS, BN]);
    let mut acc = alloc_fragment::<f32>([ROWS * WARPS, D]);
    let mut most = alloc_fragment::<f32>([ROWS * WARPS]);
    let mut here = alloc_fragment::<f32>([ROWS * WARPS]);
    let mut shrink = alloc_fragment::<f32>([ROWS * WARPS]);
    let mut total = alloc_fragment::<f32>([ROWS * WARPS]);
    clear(&mut acc);
    clear(&mut total);
    fill(&mut most, -1e30); // finite: a row may see none of a step's keys
    for turn in pipelined(0..turns, STAGES).schedule(Rolled) {
        let key = begin + turn * apart_keys;
        let page = if turn < noted { table[turn] } else { pages.masked([z, key / PAGE]) } as usize;
        copy(k.at([page, head, key % PAGE, 0]), &mut k_s);
        copy(v.at([page, head, key % PAGE, 0]), &mut v_s);
        gemm(&q_s, k_s.t(), &mut scores).grouped().clear();
        if key + step_keys > cached {
            for [r, j] in parallel([ROWS * WARPS, BN]) {
                if key + (r >> shift) * BN + j >= cached {
                    scores[[r, j]] = f32::NEG_INFINITY;
                }
            }
        }
        online_softmax(&mut scores, &mut most, &mut here, &mut shrink, &mut total, &mut acc, scale);
        for [r, j] in parallel([ROWS * WARPS, BN]) {
            weights[[r, j]] = scores[[r, j]].cast::<T>();
        }
        gemm(&weights, &v_s, &mut acc).grouped();
    }

    // The warps' results and the token's own value, added: a thread has four columns of some of the rows.
    let mut tops = alloc_shared::<f32>([WARPS, ROWS]);
    let mut counts = alloc_shared::<f32>([WARPS, ROWS]);
    // What the lanes of a warp store at once lies in different banks.
    let mut results = alloc_shared::<f32>([WARPS, ROWS, if ROWS == 8 { D + 4 } else { D + 8 }]);
    store_warps(
        &mut most,
        &mut total,
        &mut acc,
        &mut tops,
        &mut counts,
        &mut results,
        if ROWS == 8 { ROWS } else { group },
    );
    // The last key in the pages is the block's: nobody else reads the page's rows beside the token's.
    let is_last = length > 0 && split == (max(steps, 1) - 1) % SPLITS;
    let apart = 128 * WARPS / D; // rows of the block's threads
    sync_threads();
    if is_last && t * 4 < D {
        // Behind the barrier: every warp has read its part of the page.
        let page = pages.masked([z, cached / PAGE]) as usize;
        for x in vectorized(0..4) {
            *k.masked_mut([page, head, cached % PAGE, column + x]) = own_key[column + x];
        }
        for x in vectorized(0..4) {
            *v.masked_mut([page, head, cached % PAGE, column + x]) = own_value[column + x];
        }
    }
    for e in unroll(0..ceil_div(ROWS, apart)) {
        let i = e * apart + t * 4 / D;
        if e * apart < group {
            if i < group {
                let mut top = largest_of_warps(&tops, i);
                let mut own_weight = 0.0f32;
                if is_last {
                    let own = own_scores[i];
                    top = max(top, own);
                    own_weight = fast::exp2(own - top);
                }
                let mut sum = alloc_local::<f32>([4]);
                for x in unroll(0..4) {
                    sum[x] = own_value[column + x].cast::<f32>() * own_weight;
                }
                let all = own_weight + add_warps(&tops, &counts, &results, i, column, top, &mut sum);
                if SPLITS == 1 {
                    for x in vectorized(0..4) {
                        let value = if all > 0.0 { sum[x] / all } else { 0.0 };
                        o[[z, head * group + i, column + x]] = value.cast::<T>();
                    }
                } else {
                    for x in vectorized(0..4) {
                        sums[[split, z, head * group + i, column + x]] = sum[x];
                    }
                    if column == 0 {
                        parts[[split, z, head * group + i, 0]] = top;
                        parts[[split, z, head * group + i, 1]] = all;
                    }
                }
            }
        }
    }
    if SPLITS > 1 {
        if last_arriver(&mut arrived[[z, head]], SPLITS) {
            add_parts::<T, SPLITS, WARPS>(sums, parts, o, z, 1, 0, head, group, t);
        }
    }
}
// ANCHOR_END: kernel
