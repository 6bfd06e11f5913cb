//! `tile_kernels::attention::forward` beside f64: ragged shapes, grouped heads, causal, both ways that heads lie in memory.

use tile_kernel_examples::devices::devices;
use tile_kernels::attention::{Forward, forward};
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

/// Batches, heads of queries, heads of keys, queries, keys, elements of a head.
type Sizes = [usize; 6];

/// Attention in f64, from the rounded inputs, `[B, H, M, D]`.
fn reference([q, k, v]: [&[f64]; 3], [b, h, hk, m, n, d]: Sizes, causal: bool) -> Vec<f64> {
    let mut all = Vec::with_capacity(b * h * m * d);
    for row in 0..b * h * m {
        let (at, i) = (row / m, row % m);
        let of = (at / h * hk + at % h / (h / hk)) * n * d;
        let (k, v) = (&k[of..][..n * d], &v[of..][..n * d]);
        let sees = if causal { n - m + i + 1 } else { n };
        let dot = |j: usize| q[row * d..][..d].iter().zip(&k[j * d..][..d]).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> = (0..sees).map(|j| dot(j) / (d as f64).sqrt()).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        all.extend((0..d).map(|c| (0..sees).map(|j| weights[j] * v[j * d + c]).sum::<f64>() / total));
    }
    all
}

/// A weight is at most 1 and rounded once, which moves a mean of values of at most 1 by at most the type's epsilon; so does rounding the result.
fn agrees(sizes @ [b, h, hk, m, n, d]: Sizes, causal: bool) {
    let half = |count: usize, seed: u64| noise(count, seed).into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let [q, k, v] = [half(b * h * m * d, 1), half(b * hk * n * d, 2), half(b * hk * n * d, 3)];
    let wide = |x: &[f16]| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let wanted = reference([&wide(&q), &wide(&k), &wide(&v)], sizes, causal);
    for device in devices() {
        let queries = device.tensor(&q, [b, h, m, d]).unwrap();
        let keys = device.tensor(&k, [b, hk, n, d]).unwrap();
        let values = device.tensor(&v, [b, hk, n, d]).unwrap();
        // Poisoned: every element must be written.
        let mut o = device.tensor(&vec![f16::NAN; b * h * m * d], [b, h, m, d]).unwrap();
        let options = Forward { causal, ..Forward::default() };
        forward(&device, queries.view(), keys.view(), &values, &mut o, options).unwrap();
        let found = o.to_vec().unwrap();
        for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let error = (found.to_f64() - wanted).abs();
            assert!(error <= 2.1e-3, "{device} {sizes:?} {causal}: element {at} is {found} for {wanted}");
        }
    }
}

#[test]
fn ragged_shapes_with_heads_of_64() {
    agrees([1, 2, 2, 192, 128, 64], false);
    agrees([2, 2, 1, 70, 200, 64], false);
    agrees([1, 1, 1, 1, 1, 64], false);
}

#[test]
fn ragged_shapes_with_heads_of_128() {
    agrees([1, 1, 1, 130, 300, 128], false);
    agrees([1, 4, 2, 17, 129, 128], false);
}

#[test]
fn causal() {
    agrees([1, 1, 1, 256, 256, 64], true);
    agrees([1, 2, 1, 150, 333, 64], true);
    agrees([1, 1, 1, 129, 129, 128], true);
    agrees([1, 1, 1, 3, 290, 128], true);
}

/// What cannot be is refused with its numbers, and nothing is launched.
#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::simulator();
    let make = |shape: [usize; 4]| device.zeros::<f16, 4>(shape).unwrap();
    let attempt = |q: [usize; 4], k: [usize; 4], causal: bool| {
        let (queries, keys, values) = (make(q), make(k), make(k));
        let mut o = make(q);
        let options = Forward { causal, ..Forward::default() };
        forward(&device, queries.view(), keys.view(), &values, &mut o, options).unwrap_err().to_string()
    };
    assert!(attempt([1, 3, 8, 64], [1, 2, 8, 64], false).contains("H % HK"));
    assert!(attempt([1, 2, 8, 64], [1, 2, 0, 64], false).contains("N > 0"));
    assert!(attempt([1, 2, 9, 64], [1, 2, 8, 64], true).contains("N >= M"));
    let text = attempt([1, 2, 9, 80], [1, 2, 8, 80], true);
    assert!(text.contains("80"), "{text}");
}

/// Every instance keeps wgmma and TMA, and its two products overlap.
#[test]
fn it_is_software_pipelined() {
    use tile_ir::ir::Target;
    use tile_ir::lowered::RemarkKind;
    let kernel = tile_kernels::attention::forward_kernel::forward::<f16>::definition().kernel().unwrap();
    for instance in &kernel.instances {
        let program = tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap();
        let fallbacks: Vec<_> = program.remarks.iter().filter(|r| r.kind == RemarkKind::Fallback).collect();
        assert!(fallbacks.is_empty(), "{}: {fallbacks:?}", program.name);
        assert!(program.remarks.iter().any(|r| r.text.starts_with("software pipelined")), "{}", program.name);
    }
}
