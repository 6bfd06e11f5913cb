//! `tile_kernels::attention::forward` and `forward_packed` beside f64: ragged shapes, grouped heads, masks, windows, caps, sinks, packed sequences, and
//! both ways that heads lie in memory.

use tile_kernel_examples::devices::devices;
use tile_kernels::attention::packed_kernel::{self, PackedParams};
use tile_kernels::attention::{Forward, Packed, forward, forward_packed};
use tile_runtime::kernel::Target;
use tile_runtime::prelude::*;

/// Pseudo-random values in -1 .. 1.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// What is computed: a shape, a mask, and what is done with the scores.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Batches, heads of queries, heads of keys, queries, keys.
    sizes: [usize; 5],
    /// Elements of a head of queries and keys, and of values.
    head: [usize; 2],
    causal: bool,
    left: Option<usize>,
    right: Option<usize>,
    cap: Option<f32>,
    sinks: bool,
    /// Whether a token's heads lie side by side: `[B, S, H, D]`.
    by_token: bool,
    /// Whether later keys are longer, so that the largest score of a row grows from step to step, of some rows more than of others.
    steep: bool,
}

fn case(sizes: [usize; 5], d: usize) -> Case {
    let head = [d, if d == 192 { 128 } else { d }];
    Case { sizes, head, causal: false, left: None, right: None, cap: None, sinks: false, by_token: false, steep: false }
}

fn causal(sizes: [usize; 5], d: usize) -> Case {
    Case { causal: true, ..case(sizes, d) }
}

/// The logit of a head's sink.
fn sink(head: usize) -> f32 {
    head as f32 - 1.5
}

/// Attention of one head in f64, from the rounded inputs: the result `[M, DV]`, and the logarithms of the denominators, `[M]`.
fn reference([q, k, v]: [&[f64]; 3], case: &Case, [m, n]: [usize; 2], head: usize) -> (Vec<f64>, Vec<f64>) {
    let [d, dv] = case.head;
    let (mut all, mut logs) = (Vec::new(), Vec::new());
    for i in 0..m {
        let own = n as i64 - m as i64 + i as i64;
        let reach = |keys: Option<usize>| keys.map_or(1 << 40, |keys| keys.min(1 << 40) as i64);
        let right = if case.causal { 0 } else { reach(case.right) };
        let seen: Vec<usize> =
            (0..n).filter(|j| *j as i64 >= own - reach(case.left) && *j as i64 <= own + right).collect();
        let dot = |j: usize| q[i * d..][..d].iter().zip(&k[j * d..][..d]).map(|(a, b)| a * b).sum::<f64>();
        let capped = |s: f64| case.cap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh());
        let weights: Vec<f64> = seen.iter().map(|j| capped(dot(*j) / (d as f64).sqrt()).exp()).collect();
        let of_sink = if case.sinks { f64::from(sink(head)).exp() } else { 0.0 };
        let total = weights.iter().sum::<f64>() + of_sink;
        logs.push(total.ln());
        let sum = |c: usize| seen.iter().zip(&weights).map(|(j, w)| w * v[j * dv + c]).sum::<f64>();
        all.extend((0..dv).map(|c| if total > 0.0 { sum(c) / total } else { 0.0 }));
    }
    (all, logs)
}

fn half(count: usize, seed: u64) -> Vec<f16> {
    noise(count, seed).into_iter().map(f16::from_f32).collect()
}

fn wide(x: &[f16]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

/// `[B, X, Y, D]` as `[B, Y, X, D]`.
fn exchanged<T: Copy>(x: &[T], [b, rows, columns, d]: [usize; 4]) -> Vec<T> {
    let mut all = Vec::with_capacity(x.len());
    for at in 0..b * columns * rows {
        let (batch, column, row) = (at / (columns * rows), at / rows % columns, at % rows);
        all.extend_from_slice(&x[((batch * rows + row) * columns + column) * d..][..d]);
    }
    all
}

/// A weight is at most 1 and rounded once, which moves a mean of values of at most 1 by at most the type's epsilon; so does rounding the result.
/// The hardware's tanh moves a score by up to 2^-11 of the cap.
fn bound(case: &Case) -> f64 {
    2.1e-3 + f64::from(case.cap.unwrap_or(0.0)) * 2.0 / 2048.0
}

fn near(found: &[f16], logs: &[f32], wanted: &(Vec<f64>, Vec<f64>), case: &Case, device: &Device) {
    for (at, (found, wanted)) in found.iter().zip(&wanted.0).enumerate() {
        let error = (found.to_f64() - wanted).abs();
        assert!(error <= bound(case), "{device} {case:?}: element {at} is {found} for {wanted}");
    }
    for (row, (found, wanted)) in logs.iter().zip(&wanted.1).enumerate() {
        let error = (f64::from(*found) - wanted).abs();
        let equal = f64::from(*found) == *wanted || error <= bound(case);
        assert!(equal, "{device} {case:?}: the logarithm of row {row} is {found} for {wanted}");
    }
}

/// Runs a case with and without logarithms, on every device.
fn agrees(case: Case) {
    let Case { sizes: [b, h, hk, m, n], head: [d, dv], causal, left, right, cap: soft_cap, .. } = case;
    let [q, mut k, v] = [half(b * h * m * d, 1), half(b * hk * n * d, 2), half(b * hk * n * dv, 3)];
    if case.steep {
        for (at, k) in k.iter_mut().enumerate() {
            *k = f16::from_f32(k.to_f32() * (1.0 + 64.0 * (at / d % n) as f32 / n as f32));
        }
    }
    let (mut all, mut logs) = (Vec::new(), Vec::new());
    let [wide_q, wide_k, wide_v] = [wide(&q), wide(&k), wide(&v)];
    for at in 0..b * h {
        let of = at / h * hk + at % h / (h / hk);
        let operands =
            [&wide_q[at * m * d..][..m * d], &wide_k[of * n * d..][..n * d], &wide_v[of * n * dv..][..n * dv]];
        let (o, log) = reference(operands, &case, [m, n], at % h);
        all.extend(o);
        logs.extend(log);
    }
    let wanted = (all, logs);
    for device in devices() {
        let put = |x: &[f16], [b, heads, s, d]: [usize; 4]| match case.by_token {
            true => device.tensor(&exchanged(x, [b, heads, s, d]), [b, s, heads, d]).unwrap(),
            false => device.tensor(x, [b, heads, s, d]).unwrap(),
        };
        let (queries, keys, values) = (put(&q, [b, h, m, d]), put(&k, [b, hk, n, d]), put(&v, [b, hk, n, dv]));
        let sinks = device.tensor(&(0..h).map(sink).collect::<Vec<_>>(), [h]).unwrap();
        for with_logs in [true, false] {
            // Poisoned: every element must be written.
            let shape = if case.by_token { [b, m, h, dv] } else { [b, h, m, dv] };
            let mut o = device.tensor(&vec![f16::NAN; b * h * m * dv], shape).unwrap();
            let mut logs = device.tensor(&vec![f32::NAN; b * h * m], [b, h, m]).unwrap();
            let log_sum_exp = with_logs.then_some(&mut logs);
            let sinks = case.sinks.then_some(&sinks);
            let options = Forward { causal, left, right, soft_cap, sinks, log_sum_exp, ..Forward::default() };
            if case.by_token {
                let [q, k, v] = [&queries, &keys, &values].map(|x| x.view().swap_axes(1, 2).unwrap());
                forward(&device, q, k, v, o.view_mut().swap_axes(1, 2).unwrap(), options).unwrap();
            } else {
                forward(&device, queries.view(), keys.view(), &values, &mut o, options).unwrap();
            }
            let found = o.to_vec().unwrap();
            let found = if case.by_token { exchanged(&found, [b, m, h, dv]) } else { found };
            let logs = if with_logs { logs.to_vec().unwrap() } else { Vec::new() };
            near(&found, &logs, &wanted, &case, &device);
        }
    }
}

#[test]
fn ragged_shapes_with_heads_of_64() {
    agrees(case([1, 2, 2, 192, 128], 64));
    agrees(case([2, 2, 1, 70, 200], 64));
    agrees(case([1, 1, 1, 1, 1], 64));
}

#[test]
fn ragged_shapes_with_heads_of_128() {
    agrees(case([1, 1, 1, 130, 300], 128));
    agrees(case([1, 4, 2, 17, 129], 128));
}

/// Tiles of 128 rows and of 192 give a row the same bits where their steps have as many keys.
#[test]
fn rows_of_a_tile_do_not_change_bits() {
    let (m, n, d) = (197, 331, 64);
    for device in devices().into_iter().filter(|device| device.supports(Target::Sm90a)) {
        let q = device.tensor(&half(2 * m * d, 5), [1, 2, m, d]).unwrap();
        let [k, v] = [6, 7].map(|seed| device.tensor(&half(n * d, seed), [1, 1, n, d]).unwrap());
        for causal in [false, true] {
            let [low, tall] = [128, 192].map(|rows| {
                let mut o = device.tensor(&vec![f16::NAN; 2 * m * d], [1, 2, m, d]).unwrap();
                let options = Forward { causal, tile: Some([rows, 128]), ..Forward::default() };
                forward(&device, q.view(), k.view(), &v, &mut o, options).unwrap();
                o.to_vec().unwrap().into_iter().map(f16::to_bits).collect::<Vec<_>>()
            });
            assert!(low == tall, "{device}, causal {causal}");
        }
    }
}

/// Heads that share keys have their queries in one tile where that leaves fewer tiles than a device has multiprocessors, with the bits of heads that have keys of their own.
#[test]
fn heads_that_share_keys_have_their_own_bits() {
    let (h, hk, m, n, d) = (136, 17, 3, 140, 64);
    for (device, causal) in devices().into_iter().flat_map(|device| [(device.clone(), false), (device, true)]) {
        let q = device.tensor(&half(h * m * d, 5), [1, h, m, d]).unwrap();
        let [few_keys, few_values] = [6, 7].map(|seed| half(hk * n * d, seed));
        let [together, apart] = [hk, h].map(|key_heads| {
            let repeated = |x: &[f16]| x.chunks(n * d).flat_map(|head| head.repeat(key_heads / hk)).collect::<Vec<_>>();
            let [k, v] = [&few_keys, &few_values].map(|x| device.tensor(&repeated(x), [1, key_heads, n, d]).unwrap());
            let mut o = device.tensor(&vec![f16::NAN; h * m * d], [1, h, m, d]).unwrap();
            forward(&device, q.view(), k.view(), &v, &mut o, Forward { causal, ..Forward::default() }).unwrap();
            o.to_vec().unwrap().into_iter().map(f16::to_bits).collect::<Vec<_>>()
        });
        assert!(together == apart, "{device}, causal {causal}");
    }
}

/// Tiles of the queries of 2, 4 and 8 heads, and of one of 67 that share keys.
#[test]
fn causal_heads_that_share_keys() {
    agrees(causal([1, 136, 17, 3, 140], 128));
    agrees(Case { by_token: true, ..causal([1, 144, 36, 40, 190], 64) });
    agrees(causal([1, 134, 67, 60, 61], 64));
    agrees(causal([1, 134, 2, 3, 30], 64));
}

/// Heads of 128 keep a row's maximum until it has grown 2^8 times, and a warp none of whose rows has multiplies nothing.
#[test]
fn maxima_that_grow() {
    agrees(Case { steep: true, ..case([1, 2, 1, 140, 700], 128) });
    agrees(Case { steep: true, ..causal([1, 1, 1, 300, 600], 128) });
    agrees(Case { steep: true, ..causal([1, 1, 1, 70, 300], 64) });
    agrees(Case { steep: true, sinks: true, left: Some(200), ..causal([1, 1, 1, 200, 500], 128) });
}

#[test]
fn causal_rows() {
    agrees(causal([1, 1, 1, 256, 256], 64));
    agrees(causal([1, 2, 1, 150, 333], 64));
    agrees(causal([1, 1, 1, 129, 129], 128));
    agrees(causal([1, 1, 1, 3, 290], 128));
}

#[test]
fn other_heads() {
    agrees(case([1, 1, 1, 20, 140], 96));
    agrees(causal([1, 2, 1, 17, 150], 96));
    agrees(case([1, 1, 1, 20, 140], 192));
    agrees(causal([1, 1, 1, 130, 140], 192));
    agrees(case([1, 1, 1, 20, 100], 256));
    agrees(causal([1, 1, 1, 17, 70], 256));
}

#[test]
fn heads_side_by_side() {
    agrees(Case { by_token: true, ..causal([2, 2, 1, 40, 150], 64) });
    agrees(Case { by_token: true, left: Some(30), ..causal([1, 2, 2, 40, 150], 64) });
}

#[test]
fn windows() {
    agrees(Case { left: Some(50), ..causal([1, 2, 1, 150, 333], 64) });
    agrees(Case { left: Some(0), ..causal([1, 1, 1, 70, 140], 64) });
    agrees(Case { left: Some(200), ..causal([1, 1, 1, 20, 260], 128) });
    agrees(Case { left: Some(70), ..causal([1, 1, 1, 20, 200], 256) });
    agrees(Case { left: Some(10), right: Some(20), ..case([1, 1, 1, 140, 300], 64) });
    agrees(Case { right: Some(5), ..case([1, 1, 1, 30, 150], 64) });
    agrees(Case { left: Some(5), ..case([1, 1, 1, 30, 150], 64) });
    // No more than `causal` is, and wider than the keys.
    agrees(Case { right: Some(0), ..case([1, 1, 1, 30, 150], 64) });
    agrees(Case { left: Some(usize::MAX), right: Some(usize::MAX), ..case([1, 1, 1, 30, 150], 64) });
}

#[test]
fn soft_caps() {
    agrees(Case { cap: Some(0.3), ..case([1, 2, 1, 40, 200], 64) });
    agrees(Case { cap: Some(1.0), left: Some(40), ..causal([1, 1, 1, 40, 200], 128) });
    agrees(Case { cap: Some(50.0), ..causal([1, 1, 1, 20, 70], 256) });
}

#[test]
fn sinks() {
    agrees(Case { sinks: true, ..case([1, 4, 2, 20, 150], 64) });
    agrees(Case { sinks: true, left: Some(30), cap: Some(2.0), ..causal([2, 2, 1, 20, 150], 64) });
}

/// Rows that see no key are 0, and their logarithm is negative infinity, or the sink.
#[test]
fn queries_without_keys() {
    agrees(causal([1, 2, 1, 140, 5], 64));
    agrees(Case { left: Some(2), ..causal([1, 1, 1, 9, 4], 128) });
    agrees(Case { right: Some(1), ..case([1, 1, 1, 9, 4], 64) });
    agrees(Case { sinks: true, ..causal([1, 2, 1, 9, 4], 64) });
    agrees(case([1, 1, 1, 9, 0], 64));
    agrees(Case { sinks: true, ..causal([1, 1, 1, 9, 0], 64) });
}

/// Blocks of keys that a window hides are not read: what is not a number there does not matter.
#[test]
fn hidden_blocks_are_not_visited() {
    let [m, n, d] = [128, 512, 64];
    for device in devices() {
        let q = device.tensor(&half(m * d, 1), [1, 1, m, d]).unwrap();
        let mut keys = half(n * d, 2);
        // Queries 384 to 511 see keys from 364 on.
        keys[..256 * d].fill(f16::NAN);
        let k = device.tensor(&keys, [1, 1, n, d]).unwrap();
        let mut o = device.tensor(&vec![f16::NAN; m * d], [1, 1, m, d]).unwrap();
        let options = Forward { causal: true, left: Some(20), ..Forward::default() };
        forward(&device, q.view(), k.view(), &k, &mut o, options).unwrap();
        assert!(o.to_vec().unwrap().iter().all(|x| x.is_finite()), "{device}");
    }
}

/// Packed sequences of so many queries and keys, on every device; three tokens at each end belong to none.
fn packed_agrees(case: Case, lengths: &[[usize; 2]]) {
    packed_agrees_by(case, lengths, None);
}

/// Packed sequences of so many queries and keys, on every device, by tiles of so many rows, which are queries of so many heads, or, without them, by those that a
/// call takes.
fn packed_agrees_by(case: Case, lengths: &[[usize; 2]], tile: Option<[usize; 2]>) {
    let Case { sizes: [_, h, hk, ..], head: [d, dv], causal, left, right, cap: soft_cap, .. } = case;
    let firsts = |of: usize| {
        let ends = lengths.iter().scan(3, |at, length| {
            *at += length[of] as i32;
            Some(*at)
        });
        [3].into_iter().chain(ends).collect::<Vec<i32>>()
    };
    let (first_query, first_key) = (firsts(0), firsts(1));
    let [s, n] = [&first_query, &first_key].map(|all| *all.last().unwrap() as usize + 3);
    let [q, k, v] = [half(s * h * d, 1), half(n * hk * d, 2), half(n * hk * dv, 3)];
    // Head after head.
    let by_head = |x: &[f16], [rows, heads, d]: [usize; 3]| wide(&exchanged(x, [1, rows, heads, d]));
    let [wide_q, wide_k, wide_v] = [by_head(&q, [s, h, d]), by_head(&k, [n, hk, d]), by_head(&v, [n, hk, dv])];
    for device in devices() {
        let queries = device.tensor(&q, [s, h, d]).unwrap();
        let (keys, values) = (device.tensor(&k, [n, hk, d]).unwrap(), device.tensor(&v, [n, hk, dv]).unwrap());
        let all = device.tensor(&(0..h).map(sink).collect::<Vec<_>>(), [h]).unwrap();
        let [fq, fk] = [&first_query, &first_key].map(|x| device.tensor(x, [x.len()]).unwrap());
        let mut o = device.tensor(&vec![f16::NAN; s * h * dv], [s, h, dv]).unwrap();
        let mut logs = device.tensor(&vec![f32::NAN; h * s], [1, h, s]).unwrap();
        let sinks = case.sinks.then_some(&all);
        let log_sum_exp = Some(&mut logs);
        let options = Forward { causal, left, right, soft_cap, sinks, log_sum_exp, ..Forward::default() };
        let packed = Packed { first_query: &fq, first_key: &fk };
        match tile {
            None => forward_packed(&device, queries.view(), keys.view(), values.view(), packed, o.view_mut(), options)
                .unwrap(),
            Some([rows, together]) => {
                let step = if d == 128 && rows == 192 { 80 } else { 128 };
                let params = PackedParams {
                    BM: rows,
                    BN: step,
                    D: d,
                    DV: dv,
                    THREADS: 2 * rows,
                    WINDOW: false,
                    CAP: false,
                    GROUP: together,
                };
                let kernel = packed_kernel::packed::<f16>::instance(&device, params).unwrap();
                let (sequences, scale) = (lengths.len(), std::f32::consts::LOG2_E / (d as f32).sqrt());
                let [k, v] = [&keys, &values].map(|x| x.view().swap_axes(0, 1).unwrap());
                let (q, o) = (queries.view(), o.view_mut());
                let halvings = sequences.next_power_of_two().trailing_zeros() as usize;
                let [left, right] = [left.unwrap_or(usize::MAX), if causal { 0 } else { right.unwrap_or(usize::MAX) }]
                    .map(|keys| keys.min(1 << 29));
                let (sums, group) = (options.log_sum_exp, h / hk);
                kernel
                    .launch(q, k, v, &fq, &fk, o, sinks, sums, scale, 0.0, group, sequences, halvings, left, right)
                    .unwrap();
            }
        }
        let (found, logs) = (exchanged(&o.to_vec().unwrap(), [1, s, h, dv]), logs.to_vec().unwrap());
        for head in 0..h {
            let (found, logs) = (&found[head * s * dv..][..s * dv], &logs[head * s..][..s]);
            let (key_rows, of) = (n, head / (h / hk));
            for (z, [m, n]) in lengths.iter().copied().enumerate() {
                let [at, from] = [first_query[z] as usize, first_key[z] as usize];
                let operands = [
                    &wide_q[(head * s + at) * d..][..m * d],
                    &wide_k[(of * key_rows + from) * d..][..n * d],
                    &wide_v[(of * key_rows + from) * dv..][..n * dv],
                ];
                let wanted = reference(operands, &case, [m, n], head);
                near(&found[at * dv..][..m * dv], &logs[at..][..m], &wanted, &case, &device);
            }
            // What belongs to no sequence is left as it was.
            let outside = found[..3 * dv].iter().chain(&found[(s - 3) * dv..]).all(|x| x.is_nan());
            assert!(outside && logs[..3].iter().chain(&logs[s - 3..]).all(|x| x.is_nan()), "{device} {case:?}");
        }
    }
}

#[test]
fn packed_sequences() {
    // One without queries, one without keys, one with fewer keys than queries, one of several tiles.
    let lengths = [[5, 70], [0, 4], [140, 200], [3, 0], [4, 2], [1, 1]];
    packed_agrees(causal([1, 2, 1, 0, 0], 64), &lengths);
    packed_agrees(case([1, 1, 1, 0, 0], 64), &[[5, 70], [0, 4], [3, 0], [20, 130]]);
}

/// Calls with enough heads and queries to fill a device take tiles of 192 rows, which no other test's shape does: sequences of less than a tile, of one to its
/// last row, and of one row more.
#[test]
fn packed_sequences_by_tiles_of_192_rows() {
    let lengths = [[5, 70], [0, 4], [192, 200], [3, 0], [193, 260], [4, 2], [1, 1]];
    let tile = Some([192, 1]);
    packed_agrees_by(causal([1, 2, 1, 0, 0], 64), &lengths, tile);
    packed_agrees_by(case([1, 1, 1, 0, 0], 64), &[[5, 70], [0, 4], [3, 0], [200, 130]], tile);
    packed_agrees_by(Case { sinks: true, right: Some(3), ..case([1, 2, 2, 0, 0], 64) }, &lengths[..3], tile);
    packed_agrees_by(causal([1, 2, 1, 0, 0], 128), &lengths, tile);
}

/// Heads that share keys have their queries in one tile: sequences of less than a tile, of one to its last row, and of one query more.
#[test]
fn packed_sequences_of_heads_that_share_keys() {
    let lengths = [[5, 70], [0, 4], [16, 30], [3, 0], [33, 130], [4, 2], [1, 1]];
    packed_agrees(causal([1, 8, 1, 0, 0], 64), &lengths);
    packed_agrees(Case { sinks: true, ..case([1, 8, 2, 0, 0], 128) }, &lengths);
    packed_agrees(Case { right: Some(3), sinks: true, ..case([1, 6, 3, 0, 0], 64) }, &lengths);
    packed_agrees(causal([1, 12, 1, 0, 0], 64), &lengths[..3]);
    packed_agrees(causal([1, 3, 1, 0, 0], 64), &lengths[..3]);
    for together in [2, 4, 8] {
        let lengths = [[5, 70], [192 / together, 200], [192 / together + 1, 30]];
        packed_agrees_by(causal([1, 8, 1, 0, 0], 64), &lengths, Some([192, together]));
        packed_agrees_by(Case { sinks: true, ..case([1, 8, 1, 0, 0], 128) }, &lengths, Some([192, together]));
    }
}

#[test]
fn packed_sequences_with_options() {
    let lengths = [[5, 70], [20, 150], [4, 2]];
    packed_agrees(Case { left: Some(10), sinks: true, ..causal([1, 2, 2, 0, 0], 64) }, &lengths);
    packed_agrees(Case { left: Some(10), right: Some(3), cap: Some(0.5), ..case([1, 1, 1, 0, 0], 128) }, &lengths);
}

#[test]
fn packed_sequences_of_other_heads() {
    let lengths = [[5, 30], [20, 120]];
    packed_agrees(causal([1, 1, 1, 0, 0], 192), &lengths);
    packed_agrees(causal([1, 1, 1, 0, 0], 256), &lengths);
}

/// Offsets that leave the tensors are cut off: nothing outside is read or written.
#[test]
fn offsets_outside_are_cut_off() {
    for device in devices() {
        let x = device.tensor(&half(20 * 64, 1), [20, 1, 64]).unwrap();
        let mut o = device.zeros::<f16, 3>([20, 1, 64]).unwrap();
        let first = device.tensor(&[-7, 5, i32::MAX, 3, i32::MIN], [5]).unwrap();
        let packed = Packed { first_query: &first, first_key: &first };
        forward_packed(&device, x.view(), x.view(), x.view(), packed, o.view_mut(), Forward::default()).unwrap();
        assert!(o.to_vec().unwrap().iter().all(|x| x.is_finite()), "{device}");
    }
}

/// What cannot be is refused with its numbers, and nothing is launched.
#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::simulator();
    let make = |shape: [usize; 4]| device.zeros::<f16, 4>(shape).unwrap();
    let with = |q: [usize; 4], k: [usize; 4], options: Forward<'_>| {
        let (queries, keys, values) = (make(q), make(k), make(k));
        let mut o = make(q);
        forward(&device, queries.view(), keys.view(), &values, &mut o, options).unwrap_err().to_string()
    };
    let says = |said: String, words: &[&str]| assert!(words.iter().all(|word| said.contains(word)), "{said}");
    let (few, default) = ([1, 2, 8, 64], Forward::default);
    says(with([1, 3, 8, 64], few, default()), &["H % HK", "H = 3", "HK = 2"]);
    says(with([1, 2, 9, 80], [1, 2, 8, 80], default()), &["64, 96, 128 or 256", "here are 80 with values of 80"]);
    says(with([1, 2, 8, 96], [1, 2, 8, 96], Forward { left: Some(3), ..default() }), &["64, 128 or", "here are 96"]);
    says(with([1, 2, 9, 96], [1, 2, 8, 96], Forward { causal: true, ..default() }), &["9 queries, 8 keys", "96"]);
    says(
        with(few, few, Forward { tile: Some([128, 64]), ..default() }),
        &["heads of 64 elements", "tiles of 128 x 128", "a tile of 128 x 64"],
    );
    says(with(few, few, Forward { causal: true, right: Some(3), ..default() }), &["causal", "right = 3"]);
    for scale in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        says(with(few, few, Forward { scale: Some(scale), ..default() }), &["above 0", &scale.to_string()]);
        says(with(few, few, Forward { soft_cap: Some(scale), ..default() }), &["soft cap", &scale.to_string()]);
    }
    let many = [1, 0, (1 << 28) + 1, 64];
    says(
        with(many, many, Forward { left: Some(3), ..default() }),
        &["at most 268435456", "here are 268435457 queries"],
    );
    let sinks = device.zeros::<f32, 1>([3]).unwrap();
    says(with(few, few, Forward { sinks: Some(&sinks), ..default() }), &["H = 2", "H = 3", "`sinks`"]);
    let mut logs = device.zeros::<f32, 3>([1, 2, 7]).unwrap();
    says(with(few, few, Forward { log_sum_exp: Some(&mut logs), ..default() }), &["M = 8", "M = 7", "`sums`"]);
}

#[test]
fn what_does_not_fit_packed_is_refused() {
    let device = Device::simulator();
    let first = device.tensor(&[0, 8], [2]).unwrap();
    let with = |[heads, key_heads, d, dv]: [usize; 4], first_key: &Tensor<i32, 1>, options: Forward<'_>| {
        let make = |shape: [usize; 3]| device.zeros::<f16, 3>(shape).unwrap();
        let (q, k, v) = (make([8, heads, d]), make([8, key_heads, d]), make([8, key_heads, dv]));
        let mut o = make([8, heads, dv]);
        let packed = Packed { first_query: &first, first_key };
        forward_packed(&device, q.view(), k.view(), v.view(), packed, o.view_mut(), options).unwrap_err().to_string()
    };
    let says = |said: String, words: &[&str]| assert!(words.iter().all(|word| said.contains(word)), "{said}");
    let default = Forward::default;
    says(with([3, 2, 64, 64], &first, default()), &["H % HK", "H = 3", "HK = 2"]);
    says(with([2, 2, 96, 96], &first, default()), &["64, 128 or 256", "here are 96"]);
    let capped = Forward { soft_cap: Some(2.0), ..default() };
    says(
        with([2, 2, 192, 128], &first, capped),
        &["without a soft cap", "here are 192 with values of 128 and a soft cap"],
    );
    says(with([2, 2, 64, 64], &first, Forward { scale: Some(-1.0), ..default() }), &["above 0", "-1"]);
    let more = device.tensor(&[0, 4, 8], [3]).unwrap();
    says(with([2, 2, 64, 64], &more, default()), &["Z = 2", "Z = 3"]);
    let none = device.zeros::<i32, 1>([0]).unwrap();
    says(with([2, 2, 64, 64], &none, default()), &["Z = 2", "Z = 0"]);
}

/// Every instance keeps wgmma and TMA, and its two products overlap, with optional tensors and without.
#[test]
fn it_is_software_pipelined() {
    use tile_ir::ir::{Instance, ParamKind, Target};
    use tile_ir::lowered::RemarkKind;
    let is_forward = |name: &str| ["forward", "causal", "forward_options", "packed"].contains(&name);
    let mut programs = 0;
    for definition in tile_kernels::attention::definitions() {
        let kernel = definition.kernel().unwrap();
        let optional = kernel.params.iter().filter(|(_, p)| matches!(p.kind, ParamKind::Tensor { optional: true, .. }));
        let absent: Vec<_> = optional.map(|(id, _)| id).collect();
        for instance in kernel.instances.iter().filter(|_| is_forward(&kernel.name)) {
            for instance in [instance.clone(), Instance { absent: absent.clone(), ..instance.clone() }] {
                let program = tile_ir::lower::lower(kernel, &instance, Target::Sm90a).unwrap();
                let fallbacks: Vec<_> = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).collect();
                assert!(fallbacks.is_empty(), "{}: {fallbacks:?}", program.name);
                assert!(program.remarks.iter().any(|r| r.text.starts_with("software pipelined")), "{}", program.name);
                // Warpgroups begin in turn where there are three, or where the second product has 128 columns or more.
                let constant = |name: &str| {
                    let at = kernel.consts.values().position(|constant| constant.name == name)?;
                    instance.consts.get(at).copied()
                };
                let begins_in_turn = constant("BM") == Some(192) || constant("DV").or(constant("D")) >= Some(128);
                let cuda = tile_ir::emit::cuda::emit(&program);
                assert_eq!(
                    cuda.contains("named_barrier_arrive<5, 256>()"),
                    begins_in_turn,
                    "{}: {instance:?}",
                    program.name
                );
                programs += 1;
            }
        }
    }
    assert!(programs >= 100, "{programs}");
}
