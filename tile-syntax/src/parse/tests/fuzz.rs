//! Arbitrary tokens give errors, never a panic.

use super::*;
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span};

/// A small generator of numbers: the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

/// Kernels that together use every form.
const SEEDS: [&str; 3] = [
    r#"#[tile_kernel(instances((A, B) in [(1, true), (8, false)], C in [T::BITS, 64] where A * C >= 64 || B), dtypes(U in [f32, i32]),
        require(K % (128 / T::BITS) == 0), targets(sm_80), min_blocks(2), lints(TK0601 = "deny"), crate = ::a::b)]
    pub fn k<T: Float, U, const A: usize, const B: bool, const C: usize>(
        x: &Tensor<T, (K,)>, w: &Tensor<T, (N, Fixed<{ 2 * C }>)>, y: &mut Tensor<f32, (N, C)>, n: usize, s: f32
    ) where U: Element {
        let vec = 128 / T::BITS;
        let [bn, _] = blocks([ceil_div(N, A), 2]);
        let [tk, tn] = threads([32, A]);
        let mut acc = 0.0f32;
        let mut xs = alloc_local::<T>([vec]);
        let mut ss = alloc_shared::<f32>([A, 32]);
        clear(&mut xs); fill(&mut ss, -1.0);
        for bk in (0..ceil_div(K, 32 * vec)).step_by(2) {
            for v in vectorized(0..vec) { xs[v] = x.masked([bk * 32 * vec + tk * vec + v]); }
            for v in unroll(tk..tk + 4) { acc += xs[v].cast::<f32>() * lit(2.0); }
            for [i, j] in parallel([A, 32]) { ss[[i, j]] += 1.0; }
        }
        sync_threads();
        let sum = thread_allreduce(Sum, acc, tk) + atomic_add(&mut ss[[0, tk]], s);
        let mut q = if tk == 0 { let d = sum; d * 2.0 } else if B { 1.0 } else { s };
        q -= shfl_xor(q, 16); q = if any(q > 0.0) { max(q, fast::exp(q)) } else { 0.0 };
        *y.masked_mut([bn, tk]) = q;
        if tk == 0 && bn * A < n { y[[bn, tn]] = sum as i32 as f32; } else { sync_warp(); }
    }"#,
    r#"#[tile_kernel()]
    fn c(w: &Tensor<f16, (N, K)>, y: &mut Tensor<f16, (N, K)>) {
        let [b] = blocks([ceil_div(N, 8)]); threads([128]);
        let mut s = alloc_shared::<f16>([8, 64]);
        for k in serial(0..ceil_div(K, 64)).unroll(2) {
            copy(w.at([b * 8, k * 64]), &mut s).width(8);
            copy(&s, y.at_mut([b * 8, k * 64])); copy(w.tile([b..b + 8, 0..64]), &mut s);
        }
        let lane = b & 31; let u = !(lane as u32) << 2; let v: f32 = select(u == 1, fma(1.0, 2.0, -3.0), u32::MAX as f32);
        device_print("v = {}, {}", v, u); device_assert(v < 4.0 || !(lane >= 3), "text");
        { let z = ballot(v != 0.0); atomic_max(&mut y[[0, 0]], lit(1.0)); }
    }"#,
    r#"#[tile_kernel(instances(N = 4))]
    fn outside<const N: usize>(x: &mut Tensor<f32, (M, 128)>, o: Option<&Tensor<f32, (K)>>) -> f32 {
        let f = |a: f32| a; let (p, q) = (1, 2); let [t] = threads([N]); blocks([1]);
        while t < 3 { if let Some(v) = o { break; } } 'l: loop { continue 'l; } match t { 0 => {}, _ => return };
        let a = [0; 4]; x[t..4] = gemm(x).clear()?; unsafe { println!("{}", a.b) }; const Z: usize = 3; let Some(c) = t else { return };
        pipelined(0..3, 2); for i in pipelined(0..Z, 3) {} struct S; x = y; t = 3; _ = &x; async { 1 }; x[0][1] += *x; let _ = "s";
    }"#,
];

/// All places in a token stream where something can be changed: paths of indices.
fn count(tokens: &TokenStream) -> usize {
    tokens.clone().into_iter().map(|t| 1 + if let TokenTree::Group(g) = &t { count(&g.stream()) } else { 0 }).sum()
}

/// Changes the token number `at`, counted in depth-first order.
fn change(tokens: TokenStream, at: &mut isize, how: &mut dyn FnMut(TokenTree) -> Vec<TokenTree>) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| {
            *at -= 1;
            if *at == -1 {
                return how(token);
            }
            match token {
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), change(group.stream(), at, how));
                    inner.set_span(group.span());
                    vec![TokenTree::Group(inner)]
                }
                token => vec![token],
            }
        })
        .collect()
}

/// The token number `at`.
fn pick(tokens: &TokenStream, at: usize) -> TokenTree {
    let mut found = None;
    let mut at = at as isize;
    change(tokens.clone(), &mut at, &mut |token| {
        found = Some(token.clone());
        vec![token]
    });
    found.unwrap_or_else(|| TokenTree::Ident(Ident::new("x", Span::call_site())))
}

fn odd_token(random: &mut Random) -> TokenTree {
    let group = |delimiter| TokenTree::Group(Group::new(delimiter, TokenStream::new()));
    match random.below(16) {
        0 => group(Delimiter::Parenthesis),
        1 => group(Delimiter::Bracket),
        2 => group(Delimiter::Brace),
        3 => group(Delimiter::None),
        4 => TokenTree::Literal(Literal::u128_unsuffixed(u128::MAX)),
        5 => TokenTree::Literal(Literal::f64_unsuffixed(f64::MAX)),
        6 => TokenTree::Literal(Literal::i64_suffixed(7)),
        7 => TokenTree::Literal(Literal::string("{")),
        8 => TokenTree::Literal(Literal::character('é')),
        9 => TokenTree::Literal(Literal::usize_unsuffixed(0)),
        10 => TokenTree::Ident(Ident::new_raw("fn", Span::call_site())),
        11 => TokenTree::Ident(Ident::new("T", Span::call_site())),
        12 => TokenTree::Ident(Ident::new("else", Span::call_site())),
        13 => TokenTree::Ident(Ident::new("_", Span::call_site())),
        n => TokenTree::Punct(Punct::new(
            [';', ',', '&', '-', '.', '=', '<', '#'][(n + random.below(8)) % 8],
            Spacing::Alone,
        )),
    }
}

fn mutate(tokens: &TokenStream, random: &mut Random) -> TokenStream {
    let total = count(tokens);
    let mut at = random.below(total) as isize;
    let other = pick(tokens, random.below(total));
    let odd = odd_token(random);
    match random.below(7) {
        0 => change(tokens.clone(), &mut at, &mut |_| vec![]),
        1 => change(tokens.clone(), &mut at, &mut |t| vec![t.clone(), t]),
        // Half a swap: most random pairs would only make the text unreadable at once.
        2 | 3 => change(tokens.clone(), &mut at, &mut |_| vec![other.clone()]),
        4 => change(tokens.clone(), &mut at, &mut |t| vec![other.clone(), t]),
        5 => change(tokens.clone(), &mut at, &mut |t| vec![odd.clone(), t]),
        _ => change(tokens.clone(), &mut at, &mut |_| vec![odd.clone()]),
    }
}

/// Reads a kernel and looks at all that is said of it.
fn read(attribute: TokenStream, item: TokenStream) -> Parsed {
    let parsed = kernel(attribute, item);
    assert_eq!(parsed.spans.len(), parsed.kernel.spans.len());
    for d in parsed.diagnostics.iter().chain(&parsed.deferred) {
        assert!(parsed.kernel.spans.get(d.primary).is_some());
        let text = d.compiler_text(&parsed.kernel);
        assert!(text.starts_with("[TK0"), "{text}");
    }
    if parsed.diagnostics.is_empty() && parsed.body_resolved {
        let bytes = tile_ir::codec::encode(&parsed.kernel);
        assert_eq!(tile_ir::codec::decode(&bytes).as_ref(), Ok(&parsed.kernel));
        // What is read without a mistake goes through the compiler, which may refuse it but not panic.
        if let Some(instance) = parsed.kernel.instances.first() {
            if let Ok(bound) = tile_ir::lower::bind(&parsed.kernel, instance) {
                tile_ir::analysis::analyse(&bound, Target::Sm80);
            }
            let _ = tile_ir::lower::lower(&parsed.kernel, instance, Target::Sm80);
        }
    }
    if parsed.item.is_none() {
        assert!(!parsed.diagnostics.is_empty() && !parsed.body_resolved);
    }
    parsed
}

#[test]
fn changed_tokens_give_errors_and_no_panic() {
    let seeds: Vec<_> = SEEDS.iter().map(|text| split(text.parse().unwrap())).collect();
    let (mut unreadable, mut wrong, mut right) = (0, 0, 0);
    for (index, (attribute, item)) in seeds.iter().enumerate() {
        let mut random = Random(0x5eed + index as u64);
        for _ in 0..1500 {
            let (mut attribute, mut item) = (attribute.clone(), item.clone());
            for _ in 0..=random.below(2) {
                if random.below(6) == 0 {
                    attribute = mutate(&attribute, &mut random);
                } else {
                    item = mutate(&item, &mut random);
                }
            }
            let parsed = read(attribute, item);
            match (parsed.item, parsed.diagnostics.is_empty()) {
                (None, _) => unreadable += 1,
                (Some(_), false) => wrong += 1,
                (Some(_), true) => right += 1,
            }
        }
    }
    // The changes reach all layers: some kernels are no Rust, some not the language's, some still right.
    assert!(unreadable > 200 && wrong > 200 && right > 20, "{unreadable} {wrong} {right}");
}

#[test]
fn seeds_are_what_they_say() {
    let codes = |text| parse(text).diagnostics.iter().map(|d| d.code.0).collect::<Vec<_>>();
    assert_eq!(codes(SEEDS[0]), [], "{:#?}", parse(SEEDS[0]).diagnostics);
    // An atomic that its dtype does not have.
    assert_eq!(codes(SEEDS[1]), [103]);
    assert!(codes(SEEDS[2]).len() > 10);
}

#[test]
fn deep_nesting_is_an_error() {
    let nest = |open: &str, close: &str, depth: usize| {
        let text = around(&format!("y[t] = {}1.0{};", open.repeat(depth), close.repeat(depth)));
        let (attribute, item) = split(text.parse().unwrap());
        read(attribute, item)
    };
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("x[t] + ", ""),
        ("(1.0 + ", ")"),
        ("if t == 0 { ", " } else { 2.0 }"),
        ("{ let a = 1.0; ", "}"),
    ] {
        for depth in [60, 150, 2000] {
            let parsed = nest(open, close, depth);
            // A chain is read without recursion.
            if depth > if open == "x[t] + " { 200 } else { 100 } {
                assert!(!parsed.diagnostics.is_empty(), "{open} {depth}");
            }
        }
    }
    let chain = "if t == 0 { sync_warp(); } else ".repeat(3000);
    let (attribute, item) = split(around(&format!("{chain} {{ }}")).parse().unwrap());
    assert!(!read(attribute, item).diagnostics.is_empty());
}

#[test]
fn tokens_of_any_kind() {
    for text in [
        "",
        "fn",
        "struct S;",
        "fn f();",
        "impl X { fn f() {} }",
        "fn f(self) {}",
        "fn f(x: ...) {}",
        "1 2 3",
        "fn f<'a>() {}",
    ] {
        let item: TokenStream = text.parse().unwrap();
        assert!(!read(TokenStream::new(), item.clone()).diagnostics.is_empty(), "{text}");
        read(item.clone(), item);
    }
}
