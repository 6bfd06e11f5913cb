//! Attention of the newest tokens over keys and values in pages, against f64: of few tokens of several sequences, of many of one, and of one
//! token that is appended in the same launch.

use tile_kernel_examples::devices::devices;
use tile_kernels::attention::decode_kernel::{self, DecodeParams};
use tile_kernels::attention::{Batch, Decode, append_and_decode, decode, prefill};
use tile_kernels::rope::{self, Rope};
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

/// Parts of more steps than a ring has slots, where a block has a multiprocessor for itself: its slots are filled again.
#[test]
fn bf16_of_long_parts_agrees() {
    let shape = Shape { heads: 8, key_heads: 8, d: 128, page: 128 };
    agrees!(bf16, bf16::from_f32, bf16::to_f64, 1.0 / 256.0, shape, [(1, 7000)], [1, 16]);
}

/// The instances for one query of at most 8 heads a group: parts in global memory, by clusters, of few and of many keys; without keys; a sequence without
/// queries; and one that is longer than its row of the table, whose keys beyond it are those of page 0.
#[test]
fn instances_for_one_query_agree_over_ragged_sequences() {
    let shape = Shape { heads: 8, key_heads: 2, d: 128, page: 128 };
    let Shape { heads, key_heads, d, page } = shape;
    let lengths = [(1, 1500), (1, 0), (0, 77), (1, 1), (1, 128), (1, 129), (1, 12 * 128 + 100)];
    let mut tables = tables(&lengths, page);
    let (table, columns) = (tables.pages.clone(), tables.longest - 2);
    let table: Vec<u32> = table.chunks(tables.longest).flat_map(|row| &row[..columns]).copied().collect();
    tables.pages.chunks_mut(tables.longest).for_each(|row| row[columns..].fill(0));
    let tokens = tables.first[lengths.len()] as usize;
    let cache = tables.count * key_heads * page * d;
    let [q, k, v] = [(tokens * heads * d, 0), (cache, 1000), (cache, 2000)]
        .map(|(count, seed)| noise(count, seed).into_iter().map(bf16::from_f32).collect::<Vec<_>>());
    let wanted = reference([&q, &k, &v], bf16::to_f64, &tables, &lengths, shape);
    let scale = (std::f64::consts::LOG2_E / (d as f64).sqrt()) as f32;
    for device in devices() {
        let q = device.tensor(&q, [tokens, heads, d]).unwrap();
        let [k, v] = [&k, &v].map(|x| device.tensor(x, [tables.count, key_heads, page, d]).unwrap());
        let pages = device.tensor(&table, [lengths.len(), columns]).unwrap();
        let first = device.tensor(&tables.first, [lengths.len() + 1]).unwrap();
        let ends = device.tensor(&tables.lengths, [lengths.len()]).unwrap();
        for [stages, splits, cluster] in INSTANCES {
            let params =
                DecodeParams { D: d, BN: 16, WARPS: 4, STAGES: stages, SPLITS: splits, CLUSTER: cluster, ROWS: 8 };
            let kernel = decode_kernel::decode::<bf16>::instance(&device, params).unwrap();
            let poison = vec![bf16::from_f32(f32::NAN); tokens * heads * d];
            let mut o = device.tensor(&poison, [tokens, heads, d]).unwrap();
            kernel.launch_on(&device, &q, &k, &v, &pages, &first, &ends, &mut o, scale, 1).unwrap();
            for (i, (found, wanted)) in o.to_vec().unwrap().into_iter().zip(&wanted).enumerate() {
                let error = (found.to_f64() - wanted).abs();
                assert!(error <= 3.0 / 256.0 + 1e-4, "{} {params:?}: {i}: {found} {wanted}", device.label());
            }
        }
    }
}

/// STAGES, SPLITS and CLUSTER.
const INSTANCES: [[usize; 3]; 9] =
    [[2, 1, 1], [2, 2, 1], [3, 4, 1], [3, 16, 1], [2, 32, 1], [2, 8, 1], [5, 2, 2], [5, 4, 4], [5, 8, 8]];

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

/// Appends and attends in one launch. What is appended equals, bit for bit, what [`rope::append`] appends; the result is near that of f64 over the pages
/// that this one leaves. Sequences of length 0 store nothing and give 0.
macro_rules! appends {
    ($T:ty, $of:expr, $up:expr, $epsilon:expr, $shape:expr, $keys:expr, $splits:expr, $normed:expr) => {{
        let (shape, keys): (Shape, &[usize]) = ($shape, &$keys);
        let Shape { heads, key_heads, d, page } = shape;
        let lengths: Vec<(usize, usize)> = keys.iter().map(|keys| (1, *keys)).collect();
        let tables = tables(&lengths, page);
        let (count, width) = (keys.len(), (heads + 2 * key_heads) * d);
        let cache = tables.count * key_heads * page * d;
        let [qkv, k, v, weights] = [(count * width, 0), (cache, 1000), (cache, 2000), (2 * d, 3000)]
            .map(|(count, seed)| noise(count, seed).into_iter().map($of).collect::<Vec<$T>>());
        let longest = tables.longest * page;
        let angle = |i: usize| (i / (d / 2)) as f32 / 10f32.powf((i % (d / 2)) as f32 * 8.0 / d as f32);
        let [cosines, sines] =
            [f32::cos, f32::sin].map(|f| (0..longest * d / 2).map(|i| f(angle(i))).collect::<Vec<f32>>());
        let positions: Vec<u32> = keys.iter().map(|keys| keys.saturating_sub(1) as u32).collect();
        let slot = |(s, keys): (usize, &usize)| match keys.checked_sub(1) {
            Some(at) => tables.pages[s * tables.longest + at / page] * page as u32 + (at % page) as u32,
            None => u32::MAX,
        };
        let slots: Vec<u32> = keys.iter().enumerate().map(slot).collect();
        let bound = 2.0 * $epsilon * 1.5 + 1e-4;
        for device in devices() {
            let qkv = device.tensor(&qkv, [count, width]).unwrap();
            let [cosines, sines] = [&cosines, &sines].map(|x| device.tensor(x, [longest, d / 2]).unwrap());
            let [q_norm, k_norm] = [&weights[..d], &weights[d..]].map(|x| device.tensor(x, [d]).unwrap());
            let (q_norm, k_norm) = if $normed { (Some(&q_norm), Some(&k_norm)) } else { (None, None) };
            let rope = Rope { cosines: &cosines, sines: &sines, q_norm, k_norm, epsilon: 1e-6 };
            let pages = device.tensor(&tables.pages, [count, tables.longest]).unwrap();
            let ends = device.tensor(&tables.lengths, [count]).unwrap();
            let caches = || [&k, &v].map(|x| device.tensor(x, [tables.count, key_heads, page, d]).unwrap());
            let [mut k_wanted, mut v_wanted] = caches();
            let mut q = device.zeros::<$T, 3>([count, heads, d]).unwrap();
            let (positions, slots) =
                (device.tensor(&positions, [count]).unwrap(), device.tensor(&slots, [count]).unwrap());
            rope::append(&device, &rope, &qkv, &positions, &slots, &mut q, [&mut k_wanted, &mut v_wanted]).unwrap();
            let [q, k_wanted, v_wanted] = [q.to_vec(), k_wanted.to_vec(), v_wanted.to_vec()].map(|x| x.unwrap());
            let wanted = reference([&q, &k_wanted, &v_wanted], $up, &tables, &lengths, shape);
            for splits in $splits {
                let [mut k, mut v] = caches();
                let mut o = device.tensor(&vec![$of(f32::NAN); count * heads * d], [count, heads, d]).unwrap();
                let options = Decode { splits: Some(splits), ..Decode::default() };
                append_and_decode(&device, &rope, &qkv, [&mut k, &mut v], &pages, &ends, &mut o, options).unwrap();
                let case = format!("{} {shape:?} {keys:?} {splits}", device.label());
                assert!(k.to_vec().unwrap() == k_wanted, "keys: {case}");
                assert!(v.to_vec().unwrap() == v_wanted, "values: {case}");
                for (i, (found, wanted)) in o.to_vec().unwrap().into_iter().zip(&wanted).enumerate() {
                    let error = ($up(found) - wanted).abs();
                    assert!(error <= bound, "{case}: {i}: {found} {wanted}");
                }
            }
        }
    }};
}

#[test]
fn bf16_is_appended_and_attended() {
    let shape = Shape { heads: 8, key_heads: 2, d: 128, page: 64 };
    appends!(bf16, bf16::from_f32, bf16::to_f64, 1.0 / 256.0, shape, [1, 200, 0, 64, 65, 129], [1, 4, 16, 32], true);
}

#[test]
fn f16_is_appended_and_attended() {
    // Sixteen heads share a key; without norms.
    let shape = Shape { heads: 16, key_heads: 1, d: 64, page: 192 };
    appends!(f16, f16::from_f32, f16::to_f64, 1.0 / 2048.0, shape, [131, 2, 193], [1, 8], false);
}

/// One block has more steps than its table has pages of.
#[test]
fn more_pages_than_a_block_notes_are_appended_and_attended() {
    let shape = Shape { heads: 2, key_heads: 1, d: 64, page: 64 };
    appends!(f16, f16::from_f32, f16::to_f64, 1.0 / 2048.0, shape, [4200], [1], true);
}

/// Eight parts of one sequence are added in a cluster, those of eight sequences by the last of a sequence's blocks: both give the same bits.
#[test]
fn one_sequence_has_the_bits_it_has_among_eight() {
    let (heads, key_heads, d, page, keys) = (8, 2, 128, 64, 600);
    let width = (heads + 2 * key_heads) * d;
    let of = |count: usize, seed: usize| noise(count, seed).into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let each = keys / page + 1;
    let table: Vec<u32> = (0..each as u32).map(|i| i * 3 % each as u32).collect();
    let options = || Decode { splits: Some(8), ..Decode::default() };
    for device in devices() {
        let found = [1, 8].map(|count: usize| {
            // Every sequence has the same queries and, in pages of its own, the same keys and values.
            let again = |one: Vec<bf16>| one.repeat(count);
            let pages: Vec<u32> =
                (0..count as u32).flat_map(|s| table.iter().map(move |p| s * each as u32 + p)).collect();
            let pages = device.tensor(&pages, [count, each]).unwrap();
            let lengths = device.tensor(&vec![keys as u32; count], [count]).unwrap();
            let first = device.tensor(&(0..=count as u32).collect::<Vec<_>>(), [count + 1]).unwrap();
            let cache =
                |seed| device.tensor(&again(of(each * key_heads * page * d, seed)), [count * each, key_heads, page, d]);
            let (mut k, mut v) = (cache(1000).unwrap(), cache(2000).unwrap());
            let q = device.tensor(&again(of(heads * d, 0)), [count, heads, d]).unwrap();
            let mut o = device.zeros::<bf16, 3>([count, heads, d]).unwrap();
            let batch = Batch { pages: &pages, first: &first, lengths: &lengths };
            decode(&device, &q, &k, &v, batch, &mut o, options()).unwrap();
            let decoded = o.to_vec().unwrap()[..heads * d].to_vec();
            let qkv = device.tensor(&again(of(width, 3000)), [count, width]).unwrap();
            let [cosines, sines] = [f32::cos, f32::sin].map(|f| {
                let table: Vec<f32> = (0..each * page * d / 2).map(|i| f(i as f32 / 100.0)).collect();
                device.tensor(&table, [each * page, d / 2]).unwrap()
            });
            let rope = Rope { cosines: &cosines, sines: &sines, q_norm: None, k_norm: None, epsilon: 1e-6 };
            append_and_decode(&device, &rope, &qkv, [&mut k, &mut v], &pages, &lengths, &mut o, options()).unwrap();
            [decoded, o.to_vec().unwrap()[..heads * d].to_vec()]
        });
        assert!(found[0] == found[1], "{}", device.label());
        assert!(found[0].iter().flatten().all(|x| x.to_f32().is_finite()));
        assert!(found[0][0] != found[0][1], "the two calls have queries of their own");
    }
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
