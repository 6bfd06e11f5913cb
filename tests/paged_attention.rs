//! Attention of the newest tokens over keys and values in pages, against f64: of few tokens of several sequences, of many of one.

use tile_kernel_examples::devices::devices;
use tile_kernels::attention::{Batch, Decode, decode, prefill};
use tile_runtime::prelude::*;

/// Shapes of a case.
#[derive(Clone, Copy, Debug)]
struct Shape {
    heads: usize,
    key_heads: usize,
    d: usize,
    page: usize,
}

/// Sequences: how many queries and how many keys each has.
type Lengths = [(usize, usize)];

fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| (((i + seed) * 7919 % 100_003) as f32 * 0.37).sin() * 1.5).collect()
}

/// The tables of a case: pages (each sequence's own, in an order that mixes them), first queries, lengths.
struct Tables {
    pages: Vec<u32>,
    longest: usize,
    count: usize,
    first: Vec<u32>,
    lengths: Vec<u32>,
}

fn tables(lengths: &Lengths, page: usize) -> Tables {
    let longest = lengths.iter().map(|l| l.1.div_ceil(page)).max().unwrap_or(0).max(1) + 1;
    let count = lengths.len() * longest;
    // Multiplying by what has no divisor with `count` mixes them.
    let stride = (7..).find(|s| gcd(*s, count) == 1).unwrap_or(1);
    let pages = (0..count).map(|i| (i * stride % count) as u32).collect();
    let mut first = vec![0];
    for (queries, _) in lengths {
        first.push(first[first.len() - 1] + *queries as u32);
    }
    Tables { pages, longest, count, first, lengths: lengths.iter().map(|l| l.1 as u32).collect() }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The result in f64; `up` gives an element's value.
fn reference<T: Copy>(
    [q, k, v]: [&[T]; 3],
    up: impl Fn(T) -> f64,
    tables: &Tables,
    lengths: &Lengths,
    shape: Shape,
) -> Vec<f64> {
    let Shape { heads, key_heads, d, page } = shape;
    let mut o = Vec::new();
    for (s, (queries, keys)) in lengths.iter().enumerate() {
        let at = |head: usize, key: usize| {
            let p = tables.pages[s * tables.longest + key / page] as usize;
            ((p * key_heads + head) * page + key % page) * d
        };
        for i in 0..*queries {
            for h in 0..heads {
                let token = tables.first[s] as usize + i;
                let query = &q[(token * heads + h) * d..][..d];
                let head = h / (heads / key_heads);
                let seen = (keys + i + 1).saturating_sub(*queries);
                let dot =
                    |key: usize| query.iter().zip(&k[at(head, key)..][..d]).map(|(a, b)| up(*a) * up(*b)).sum::<f64>();
                let scores: Vec<f64> = (0..seen).map(|key| dot(key) / (d as f64).sqrt()).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                let value =
                    |c: usize| weights.iter().enumerate().map(|(key, w)| w * up(v[at(head, key) + c])).sum::<f64>();
                o.extend((0..d).map(|c| if seen == 0 { 0.0 } else { value(c) / total }));
            }
        }
    }
    o
}

/// Runs a case on every device with each number of parts. A weight is at most 1 and rounded once, which moves a mean of values
/// by at most epsilon times the largest; so does rounding the result. What exponentials and sums of f32 add is far below.
macro_rules! agrees {
    ($T:ty, $of:expr, $up:expr, $epsilon:expr, $shape:expr, $lengths:expr, $splits:expr) => {{
        let (shape, lengths): (Shape, &Lengths) = ($shape, &$lengths);
        let Shape { heads, key_heads, d, page } = shape;
        let tables = tables(lengths, page);
        let tokens = tables.first[lengths.len()] as usize;
        let cache = tables.count * key_heads * page * d;
        let [q, k, v] = [(tokens * heads * d, 0), (cache, 1000), (cache, 2000)]
            .map(|(count, seed)| noise(count, seed).into_iter().map($of).collect::<Vec<$T>>());
        let wanted = reference([&q, &k, &v], $up, &tables, lengths, shape);
        let bound = 2.0 * $epsilon * 1.5 + 1e-4;
        for device in devices() {
            for splits in $splits {
                let q = device.tensor(&q, [tokens, heads, d]).unwrap();
                let [k, v] = [&k, &v].map(|x| device.tensor(x, [tables.count, key_heads, page, d]).unwrap());
                let pages = device.tensor(&tables.pages, [lengths.len(), tables.longest]).unwrap();
                let first = device.tensor(&tables.first, [lengths.len() + 1]).unwrap();
                let ends = device.tensor(&tables.lengths, [lengths.len()]).unwrap();
                let batch = Batch { pages: &pages, first: &first, lengths: &ends };
                let queries = lengths.iter().map(|l| l.0).max().unwrap_or(1);
                let options = Decode { queries, splits: Some(splits), scale: None };
                // Poisoned: every element must be written.
                let poison = vec![$of(f32::NAN); tokens * heads * d];
                let mut o = device.tensor(&poison, [tokens, heads, d]).unwrap();
                decode(&device, &q, &k, &v, batch, &mut o, options).unwrap();
                for (i, (found, wanted)) in o.to_vec().unwrap().into_iter().zip(&wanted).enumerate() {
                    let error = ($up(found) - wanted).abs();
                    assert!(error <= bound, "{} {shape:?} {lengths:?} {splits}: {i}: {found} {wanted}", device.label());
                }
            }
        }
    }};
}

#[test]
fn bf16_of_grouped_heads_agrees() {
    let shape = Shape { heads: 8, key_heads: 2, d: 128, page: 64 };
    agrees!(
        bf16,
        bf16::from_f32,
        bf16::to_f64,
        1.0 / 256.0,
        shape,
        [(1, 1), (1, 200), (1, 64), (1, 130)],
        [1, 4, 16, 32]
    );
}

#[test]
fn f16_of_several_queries_agrees() {
    // 3 queries of 8 heads are two tiles of 16 rows; a sequence without any is passed over; one has no earlier keys.
    let shape = Shape { heads: 8, key_heads: 1, d: 64, page: 192 };
    agrees!(f16, f16::from_f32, f16::to_f64, 1.0 / 2048.0, shape, [(3, 131), (0, 77), (2, 2), (1, 300)], [1, 8]);
}

#[test]
fn f32_agrees() {
    let shape = Shape { heads: 4, key_heads: 2, d: 64, page: 64 };
    agrees!(f32, |x| x, f64::from, 0.0, shape, [(5, 70), (1, 33)], [1, 32]);
}

/// Runs prompts of so many tokens after so many earlier ones on every device; bounds as above.
macro_rules! prefill_agrees {
    ($T:ty, $of:expr, $up:expr, $epsilon:expr, $shape:expr, $cases:expr) => {{
        let shape: Shape = $shape;
        let Shape { heads, key_heads, d, page } = shape;
        for (tokens, past) in $cases {
            let lengths = [(tokens, past + tokens)];
            let tables = tables(&lengths, page);
            let cache = tables.count * key_heads * page * d;
            let [q, k, v] = [(tokens * heads * d, 0), (cache, 1000), (cache, 2000)]
                .map(|(count, seed)| noise(count, seed).into_iter().map($of).collect::<Vec<$T>>());
            let wanted = reference([&q, &k, &v], $up, &tables, &lengths, shape);
            let bound = 2.0 * $epsilon * 1.5 + 1e-4;
            for device in devices() {
                let q = device.tensor(&q, [tokens, heads, d]).unwrap();
                let [k, v] = [&k, &v].map(|x| device.tensor(x, [tables.count, key_heads, page, d]).unwrap());
                let pages = device.tensor(&tables.pages, [tables.longest]).unwrap();
                let poison = vec![$of(f32::NAN); tokens * heads * d];
                let mut o = device.tensor(&poison, [tokens, heads, d]).unwrap();
                prefill(&device, q.view(), &k, &v, &pages, o.view_mut(), past, None).unwrap();
                for (i, (found, wanted)) in o.to_vec().unwrap().into_iter().zip(&wanted).enumerate() {
                    let error = ($up(found) - wanted).abs();
                    assert!(error <= bound, "{} {shape:?} {tokens} {past}: {i}: {found} {wanted}", device.label());
                }
            }
        }
    }};
}

#[test]
fn prompts_in_bf16_agree() {
    let shape = Shape { heads: 2, key_heads: 1, d: 128, page: 128 };
    prefill_agrees!(bf16, bf16::from_f32, bf16::to_f64, 1.0 / 256.0, shape, [(1, 0), (140, 0), (129, 200), (17, 127)]);
}

#[test]
fn prompts_in_f16_agree() {
    let shape = Shape { heads: 4, key_heads: 2, d: 64, page: 256 };
    prefill_agrees!(f16, f16::from_f32, f16::to_f64, 1.0 / 2048.0, shape, [(128, 128), (0, 5), (150, 1)]);
}
