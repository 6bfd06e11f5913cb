//! Forms of the language, each with the IR it becomes.

use super::*;

#[test]
fn literals_take_the_type_of_their_use() {
    let text = body(
        "let mut count = 0; count += 1u32; let mut i = 0; y[i] = 1.0; let k = 4; let f = x[k] * 2.0; let n = -1;\n\
         i = i + 2; y[i] = f; let mut j = 5; j -= 1i32; device_print(\"{} {} {}\", count, n, j);",
    );
    let expected = "\
let mut count: u32 = 0u32
count = (count + 1u32)
let mut i: usize = 0
y[i] = 1.0f32
let k: usize = 4
let f: f32 = (x[k] * 2.0f32)
let n: i32 = -1i32
i = (i + 2)
y[i] = f
let mut j: i32 = 5i32
j = (j - 1i32)
print \"{} {} {}\" count, n, j
";
    assert_eq!(text, expected);
}

#[test]
fn lit_and_the_dtype_parameter() {
    let kernel = valid(
        "#[tile_kernel(dtypes(T in [f16, f32]))]\nfn k<T: Float>(x: &Tensor<T, (K,)>, y: &mut Tensor<T, (K,)>, s: T) {\n\
         blocks([1]); let [t] = threads([32]);\n\
         let mut m = T::NEG_INFINITY; m = max(m, x[t] * lit(2.5) + lit(-0.5));\n\
         y[t] = exp(m - s) * fast::exp2(T::ONE) / fma(m, s, T::ZERO); y[t + 32] = lit::<T>(1.0); }",
    );
    let expected = "\
let mut m: T = T::NegInfinity
m = (m max ((x[t] * 2.5T) + -0.5T))
y[t] = ((exp((m - s)) * fast::exp2(T::One)) / fma(m, s, T::Zero))
y[(t + 32)] = 1.0T
";
    assert_eq!(print(&kernel), expected);
    assert_eq!(kernel.vars[kernel.grid[0].var].name, "block_x");
    assert_eq!(kernel.instances.len(), 2);
}

#[test]
fn a_kernel_without_parameters_has_one_instance() {
    let kernel = valid(&around(""));
    assert_eq!(kernel.instances, [Instance::default()]);
}

#[test]
fn if_as_a_value() {
    let text = body(
        "let a = if t < 4 { 1.0 } else if t < 8 { 2.0 } else { x[t] };\n\
         let b = if t < 4 { let c = x[t]; c * c } else { 0.0 };\n\
         let mut v = a; v = if b > 0.0 { sync_warp(); v + b } else { a }; y[t] = v + if t == 0 { let d = v; d } else { 1.0 };",
    );
    let expected = "\
let a: f32 = (if (t < 4) { 1.0f32 } else { (if (t < 8) { 2.0f32 } else { x[t] }) })
let mut b: f32
if (t < 4)
  let c: f32 = x[t]
  b = (c * c)
else
  b = 0.0f32
let mut v: f32 = a
if (b > 0.0f32)
  sync_warp
  v = (v + b)
else
  v = a
let _t8: f32 = v
let mut _t6: f32
if (t == 0)
  let d: f32 = v
  _t6 = d
else
  _t6 = 1.0f32
y[t] = (_t8 + _t6)
";
    assert_eq!(text, expected);
}

#[test]
fn collectives_leave_expressions_in_order() {
    let text = body(
        "let mut s = alloc_shared::<f32>([128]); fill(&mut s, 0.0);\n\
         let mut v = x[t];\n\
         let a = s[t] + atomic_add(&mut s[0], v) * thread_allreduce(Max, v, t);\n\
         v += shfl_xor(v, 16); v = v + shfl_down(v, 8);\n\
         let lanes = ballot(v > a); if any(lanes == 1) && v > 0.0 { y[t] = warp_reduce(Min, v); }\n\
         s[t] += s[t + 64];",
    );
    let expected = "\
Shared s: f32[128]
fill s 0.0f32
let mut v: f32 = x[t]
let _t5: f32 = s[t]
_t3 = atomic Add s[0] v
_t4 = reduce Max v over t
let a: f32 = (_t5 + (_t3 * _t4))
_t7 = shuffle Xor v 16
v = (v + _t7)
_t8 = shuffle Down v 8
v = (v + _t8)
lanes = vote Ballot (v > a)
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("s[t] = (s[t] + s[(t + 64)])\n"), "{text}");
}

#[test]
fn a_collective_right_of_an_and_must_move() {
    let parsed = parse(&around("if t < 4 && any(t == 2) { sync_warp(); }"));
    assert_eq!(parsed.diagnostics.len(), 1);
    assert_eq!(parsed.diagnostics[0].code.0, 804);
}

#[test]
fn allreduce_of_an_array() {
    let text = body("let mut a = alloc_local::<f32>([4]); clear(&mut a); thread_allreduce(Sum, &mut a, t);");
    assert_eq!(text, "Local a: f32[4]\nfill a f32::Zero\nreduce Sum &mut a over t\n");
}

#[test]
fn loops() {
    let text = body(
        "for i in 0..n { y[i] = 0.0; } for i in (t..n).step_by(128) { y[i] = 1.0; }\n\
         for i in serial(0..n).unroll(4) { y[i] = 2.0; } for i in unroll(t..t + 4) { y[i] = 3.0; }\n\
         for i in serial((0..n).step_by(2)).unroll(2) { y[i] = 5.0; }\n\
         for _ in (0..4).unroll(2) { sync_warp(); } for [i, j] in parallel([8, 16]) { y[i * 16 + j] = 4.0; }",
    );
    let expected = "\
for i in 0..n by 1 serial
  y[i] = 0.0f32
for i in t..n by 128 serial
  y[i] = 1.0f32
for i in 0..n by 1 serial.unroll(4)
  y[i] = 2.0f32
for i in t..(t + 4) by 1 unroll
  y[i] = 3.0f32
for i in 0..n by 2 serial.unroll(2)
  y[i] = 5.0f32
for _ in 0..4 by 1 serial.unroll(2)
  sync_warp
for [i, j] in parallel [8, 16]
  y[((i * 16) + j)] = 4.0f32
";
    assert_eq!(text, expected);
}

#[test]
fn copies() {
    let text = body(
        "let mut s = alloc_shared::<f32>([8, 64]); let mut r = alloc_local::<f32>([4]);\n\
         copy(w.at([b * 8, 0]), &mut s); copy(w.tile([b..b + 8, 0..64]), &mut s).width(4);\n\
         copy(x.at([t * 4]), &mut r); copy(&r, y.at_mut([t * 4])); copy(&s, &mut s); copy(x, &mut r);\n\
         copy(s.tile([0..4, 8..16]), y.tile_mut([t..t + 1])); copy(x, &mut r).evict(Last);\n\
         copy(x, &mut r).evict(if 1 < 2 { First } else if 2 < 1 { Last } else { Normal });",
    );
    let expected = "\
Shared s: f32[8, 64]
Local r: f32[4]
copy w@[(b * 8), 0]x[] -> s@[]x[]
copy w@[b, 0]x[8, 64] -> s@[]x[] width 4
copy x@[(t * 4)]x[] -> r@[]x[]
copy r@[]x[] -> y@[(t * 4)]x[]
copy s@[]x[] -> s@[]x[]
copy x@[]x[] -> r@[]x[]
copy s@[0, 8]x[4, (16 - 8)] -> y@[t]x[1]
copy x@[]x[] -> r@[]x[] evict Last
copy x@[]x[] -> r@[]x[] evict (1 < 2) First (2 < 1) Last Normal
";
    assert_eq!(text, expected);
}

#[test]
fn casts_shifts_and_bits() {
    let text = body(
        "let lane = t & 31; let warp = t >> 5; let u = (lane as u32) << 2; let f = warp as f32; let i = f as i32;\n\
         y[t] = f + (u as f32) + (i as f32); let m = !u ^ (1 << lane); y[u as usize] = m as f32;\n\
         if (t == 0) as u32 == 1 { y[0] = f32::INFINITY; }",
    );
    let expected = "\
let lane: usize = (t & 31)
let warp: usize = (t >> 5)
let u: u32 = (u32(lane) << 2u32)
let f: f32 = f32(warp)
let i: i32 = i32(f)
y[t] = ((f + f32(u)) + f32(i))
let m: u32 = (Not(u) ^ (1u32 << u32(lane)))
y[usize(u)] = f32(m)
if (u32((t == 0)) == 1u32)
  y[0] = f32::Infinity
";
    assert_eq!(text, expected);
}

#[test]
fn conversions_of_rust_and_half() {
    let text =
        body("let h = f16::from_f32(x[t]); let n = u32::from(t == 0); y[t] = f32::from(h) + h.to_f32() + n as f32;");
    assert_eq!(text, "let h: f16 = f16(x[t])\nlet n: u32 = u32((t == 0))\ny[t] = ((f32(h) + f32(h)) + f32(n))\n");
}

#[test]
fn several_names_at_once() {
    let text = body("let (i, mut v) = (t + 1, x[t]); let (_, w) = (i, v); v += w; y[i] = v;");
    assert_eq!(text, "let i: usize = (t + 1)\nlet mut v: f32 = x[t]\nlet w: f32 = v\nv = (v + w)\ny[i] = v\n");
}

#[test]
fn cast_converts_indices_too() {
    let text = body("let i = x[t].cast::<usize>(); y[i] = t.cast::<f32>(); y[t] = (t == 0).cast::<f32>();");
    assert_eq!(text, "let i: usize = usize(x[t])\ny[i] = f32(t)\ny[t] = f32((t == 0))\n");
}

#[test]
fn lit_of_a_type_that_may_be_an_integer() {
    let kernel = valid(
        "#[tile_kernel(dtypes(T in [i32, f32]))]\nfn k<T: Number>(y: &mut Tensor<T, (N,)>) {\n\
         blocks([1]); let [t] = threads([32]); y[t] = lit(2.0) + T::ONE; let i: i32 = lit(3.0); device_print(\"{}\", i); }",
    );
    assert_eq!(print(&kernel), "y[t] = (T(2.0f32) + T::One)\nlet i: i32 = i32(3.0f32)\nprint \"{}\" i\n");
}

#[test]
fn a_macro_passes_pieces_on() {
    use proc_macro2::{Delimiter, Group};
    // What `$value` of a macro becomes.
    let piece = |text: &str| TokenTree::Group(Group::new(Delimiter::None, text.parse().unwrap()));
    let (rows, blocks, extent) = (piece("(1, 2)"), piece("2"), piece("n + 1"));
    let attribute = quote::quote!(instances((A, B) in [#rows]), min_blocks(#blocks));
    let item = quote::quote! {
        fn k<const A: usize, const B: usize>(n: usize) { blocks([#extent]); threads([A * B]); }
    };
    let parsed = kernel(attribute, item);
    assert!(parsed.diagnostics.is_empty() && parsed.body_resolved, "{:?}", parsed.diagnostics);
    assert_eq!(parsed.kernel.instances[0].consts, [1, 2]);
}

#[test]
fn the_grid_sees_through_lets() {
    let kernel = valid(
        "#[tile_kernel(instances(BM = 64))]\nfn k<const BM: usize>(x: &mut Tensor<f32, (M, Fixed<{ 2 * BM }>, BM)>) {\n\
         let tiles = ceil_div(M, BM); let twice = tiles * 2; let [b] = blocks([twice]); let [t] = threads([BM]);\n\
         x[[b, t, 0]] = 0.0; }",
    );
    assert!(matches!(kernel.exprs[kernel.grid[0].extent].kind, ExprKind::Binary(BinaryOp::Mul, _, two)
        if kernel.const_index(two) == Some(2)));
    let printer = Printer { kernel: &kernel };
    assert_eq!(printer.expr(kernel.grid[0].extent), "((M ceil_div BM) * 2)");
    let ParamKind::Tensor { shape, .. } = &kernel.params.values().next().unwrap().kind else { panic!() };
    let Extent::Fixed(fixed) = shape[1] else { panic!() };
    assert_eq!(printer.expr(fixed), "(2 * BM)");
}

#[test]
fn instances_are_filtered_for_each_dtype() {
    let kernel = valid(
        "#[tile_kernel(instances((A, B) in [(1, true), (8, false)], C in [T::BITS, 64], where A * C >= 64 || B))]\n\
         fn k<T: Float, const A: usize, const B: bool, const C: usize>(x: &mut Tensor<T, (N,)>) {\n\
         blocks([1]); threads([32]); if B { sync_threads(); } }",
    );
    let of = |dtype: Dtype| -> Vec<Vec<i64>> {
        kernel.instances.iter().filter(|i| i.dtypes == [dtype]).map(|i| i.consts.clone()).collect()
    };
    assert_eq!(of(Dtype::F16), [[1, 1, 16], [1, 1, 64], [8, 0, 16], [8, 0, 64]]);
    assert_eq!(of(Dtype::F32).len(), 4);
}

#[test]
fn attributes() {
    let parsed = parse(
        "#[tile_kernel(crate = ::my::runtime, targets(sm_90a), min_blocks(2), lints(TK0601 = \"deny\"),\n\
         require(K % 8 == 0, n < K), require(N > 0 && (K < 9 || n > 1)))]\n\
         fn k(x: &Tensor<f32, (N, K)>, n: usize) { blocks([N]); threads([32]); }",
    );
    assert!(parsed.diagnostics.is_empty() && parsed.body_resolved);
    let kernel = &parsed.kernel;
    assert_eq!(kernel.targets, [Target::Sm90a]);
    assert_eq!(kernel.attributes.min_blocks, Some(2));
    assert_eq!(kernel.attributes.lints, [("TK0601".to_owned(), "deny".to_owned())]);
    let texts: Vec<&str> = kernel.requires.iter().map(|r| r.text.as_str()).collect();
    assert_eq!(texts, ["K % 8 == 0", "n < K", "N > 0", "K < 9 || n > 1"]);
    assert_eq!(parsed.attribute.requires.len(), 3);
    assert!(parsed.attribute.crate_path.is_some());
    assert_eq!(kernel.attributes.dependent, None);
}

#[test]
fn dependent_launch() {
    let independent = |list: &str| {
        let parsed = parse(&format!(
            "#[tile_kernel(pdl({list}))] fn k(x: &Tensor<f32, (N,)>, w: &Tensor<f32, (N,)>) {{ blocks([N]); threads([32]); }}"
        ));
        assert!(parsed.diagnostics.is_empty(), "{list}");
        let Dependent { independent, trigger } = parsed.kernel.attributes.dependent.expect("it is there");
        (independent.into_iter().map(|p| p.as_u32()).collect::<Vec<_>>(), trigger)
    };
    assert_eq!(independent("independent = [w]"), (vec![1], Trigger::AfterWait));
    assert_eq!(independent("independent = [w, x,],"), (vec![1, 0], Trigger::AfterWait));
    assert_eq!(independent("independent = []"), (vec![], Trigger::AfterWait));
    assert_eq!(independent("independent = [w], trigger = AtStart"), (vec![1], Trigger::AtStart));
}

#[test]
fn scopes_shadow() {
    let text = body("let a = x[0]; { let a = x[1]; y[0] = a; } y[1] = a; let a = a + 1.0; y[2] = a;");
    assert_eq!(text, "let a: f32 = x[0]\nlet a: f32 = x[1]\ny[0] = a\ny[1] = a\nlet a: f32 = (a + 1.0f32)\ny[2] = a\n");
}
