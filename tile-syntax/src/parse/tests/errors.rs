//! One mistake, one diagnostic, at the exact token.

use super::*;

/// The one diagnostic of a kernel: `code | the marked text | message | help`.
fn one(text: &str) -> String {
    let parsed = parse(text);
    let all: Vec<String> = parsed.diagnostics.iter().map(|d| d.compiler_text(&parsed.kernel)).collect();
    assert_eq!(all.len(), 1, "{text}\n{}", all.join("\n"));
    let d = &parsed.diagnostics[0];
    let marked = marked(&parsed, d.primary);
    format!("{} | {marked} | {} | {}", d.code, d.message, d.help.clone().unwrap_or_default())
}

/// The author's text at a place.
fn marked(parsed: &Parsed, place: SpanId) -> String {
    let span = parsed.kernel.spans[place];
    let line = parsed.kernel.source.line(span.line).unwrap_or_default();
    let end = if span.end_line == span.line { span.end_column as usize } else { line.len() + 1 };
    line.get(span.column as usize - 1..end - 1).unwrap_or_default().to_owned()
}

/// The diagnostic of a body.
fn in_body(body: &str) -> String {
    one(&around(body))
}

/// A mistake that rustc reports: nothing is said here, and it is known that the body did not resolve.
fn left_to_rustc(body: &str) {
    let parsed = parse(&around(body));
    let said: Vec<String> = parsed.diagnostics.iter().map(|d| d.compiler_text(&parsed.kernel)).collect();
    assert!(said.is_empty(), "{body}: {}", said.join("\n"));
    assert!(!parsed.body_resolved, "{body}");
    assert_eq!(parsed.deferred.len(), 1, "{body}: {:?}", parsed.deferred);
}

#[test]
fn rustc_reports_names_types_and_mutability() {
    for body in [
        "y[t] = missing;",
        "let a = missing + 1; let b = a * 2; y[b] = 0.0;",
        "y[t] = 1;",
        "y[t] = w[t];",
        "y[t] = x[[t, t]];",
        "y[t] = w.masked([t]);",
        "x[t] = 0.0;",
        "let v = 0.0; v = 1.0;",
        "if t { sync_threads(); }",
        "let s = alloc_shared::<f32>([4]); s[t] = 0.0;",
        "y[1.0] = 0.0;",
        "y[t] = -t;",
        "y[t] = exp(t);",
        "y[t] = fma(x[t], x[t]);",
        "let c = 2.0.cast::<f16>();",
        "let h = x[t] as f16;",
        "y[t] = select(t, 1.0, 2.0);",
        "let v = lit(1.0);",
        "for [i, j] in parallel([4]) { y[i] = x[j]; }",
        "y[t] = min(x[t], 1);",
        "n = 4;",
        "t += 1;",
        "y[t] = x[t][0];",
        "let mut r = alloc_local::<f32>([4]); copy(x.at_mut([0]), &mut r);",
        "let mut r = alloc_local::<f32>([4]); clear(&r);",
    ] {
        left_to_rustc(body);
    }
}

#[test]
fn numbers_of_the_wrong_type_come_with_the_conversion() {
    for (body, place, help) in [
        ("y[t] = x[t] + t;", "t", "`t as f32`"),
        ("y[t] = x[t].cast::<f16>();", "x[t].cast::<f16>()", "`x[t].cast::<f16>().cast::<f32>()`"),
        ("let a: f32 = t * 2;", "t * 2", "`(t * 2) as f32`"),
        ("let i = 1i32; y[i] = 0.0;", "i", "`i as usize`"),
        ("let h = x[t].cast::<f16>(); y[t] = h;", "h", "`h.cast::<f32>()`"),
        ("let h = x[t].cast::<f16>(); y[t] = x[t] * h;", "h", "`h.cast::<f32>()`"),
        ("let i = 1u32; if i < t { y[t] = 0.0; }", "i", "`i as usize`"),
        ("let h = f16::from_f32(t); y[t] = h.to_f32();", "t", "`t as f32`"),
        (
            "let n: usize = f32::from(x[t].cast::<f16>());",
            "f32::from(x[t].cast::<f16>())",
            "`f32::from(x[t].cast::<f16>()) as usize`",
        ),
    ] {
        let said = in_body(body);
        assert!(said.starts_with(&format!("TK0807 | {place} | ")), "{said}");
        assert!(said.contains(help), "{said}");
    }
}

#[test]
fn a_list_of_indices_needs_a_bracket_of_its_own() {
    let said = in_body("y[t] = w[t, 2 * t];");
    assert!(said.starts_with("TK0801 | w[t, 2 * t] | "), "{said}");
    assert!(said.contains("write `w[[t, 2 * t]]`"), "{said}");
    // The literal of a fixed dim is not taken for the mistake.
    let said = one(
        "#[tile_kernel] fn k(y: &mut Tensor<f32, (N, Fixed<128>)>) { let [r] = blocks([N]); let [t] = threads([128]); y[r, t] = 1.0; }",
    );
    assert!(said.contains("write `y[[r, t]]`"), "{said}");
}

#[test]
fn syntax_outside_the_language() {
    let check = |body: &str, place: &str, message: &str| {
        let said = in_body(body);
        assert!(said.starts_with(&format!("TK0801 | {place} | ")), "{said}");
        assert!(said.contains(message), "{said}");
        assert!(!said.ends_with("| "), "no help: {said}");
    };
    check("match t { _ => {} }", "match", "`match` is not in the language");
    check("let v = match t { 0 => 1.0, _ => 2.0 }; y[t] = v * 2.0;", "match", "`match`");
    check("while let 0 = t { sync_warp(); }", "while", "use `while` with a condition");
    check("'a: while t < 4 { sync_warp(); }", "a", "labels");
    check("let v = loop { break 1.0; }; y[t] = v;", "loop", "`loop` as a value");
    check("if t > 4 { return; }", "return", "put what follows into an `if`");
    check("for i in 0..n { if t > 4 { if t > 5 { break; } } }", "break", "of the loop's own body");
    check("for i in unroll(0..4) { if t > 4 { break; } }", "break", "a serial `for`");
    check("loop { break 'a; }", "break", "with a label or a value");
    check("for i in 0..n { continue; }", "continue", "an `if`");
    check("let f = |v: f32| v * 2.0; y[t] = f(1.0);", "|v: f32| v * 2.0", "closure");
    check("println!(\"{}\", t);", "println", "device_print");
    check("assert!(t < 4);", "assert", "device_assert");
    check("let a = [1, 2]; y[a] = 0.0;", "[1, 2]", "alloc_local");
    check("let (p, q) = t; y[p] = 0.0;", "(p, q)", "pattern");
    check("y[t] = \"text\";", "\"text\"", "text");
    check("y[t] = x[t].sqrt();", "x[t].sqrt()", "write `sqrt(x[t])`");
    check("y[t] = helper(x[t]);", "helper", "`helper` is not a function");
    check("y[t] = expp(x[t]);", "expp", "there is `exp`");
    check("let v = x.t(); y[t] = v;", "t", "an operand of `gemm`");
    check("for i in (0..n).schedule(PingPong) { y[i] = x[i]; }", "schedule", "belongs to a `pipelined` loop");
    check("let mut s = alloc_local::<f32>([4]).swizzle(B64); clear(&mut s);", "swizzle", "a shared array has");
    check("for i in pipelined(0..n) { y[i] = x[i]; }", "(0..n)", "pipelined(0..n, 2)");
    check("for i in 0..=n { y[i] = 0.0; }", "..=", "a..b + 1");
    check("for i in (0..n).rev() { y[i] = 0.0; }", "rev", "step_by");
    check("for v in x { y[t] = v; }", "x", "loops run over");
    check("const Q: usize = 4; y[Q] = 0.0;", "const Q: usize = 4;", "a `let` of constants");
    check("let p = &x; y[t] = p[t];", "&", "reference");
    check("let q = x; y[t] = q[t];", "x", "tensor `x` is not a value");
    check("unsafe { y[t] = 0.0; }", "unsafe", "needs none");
    check("#[cfg(debug)] y[t] = 0.0;", "#[cfg(debug)]", "attribute `cfg`");
    check("if let Some(v) = t { y[v] = 0.0; }", "let", "`if let`");
    check("let s = x[t..t + 4];", "t..t + 4", "not a range");
    check("let mut s = alloc_shared::<f32>([4, 4]); s[(t, t)] = 0.0;", "(t, t)", "`x[[i, j]]`");
    check("'a: for i in 0..n { y[i] = 0.0; }", "a", "labels");
    check("let Some(v) = t else { return; };", "let", "let .. else");
    check("for i in serial(0..n) { for mut j in 0..n { y[j] = 0.0; } }", "j", "not a variable");
}

#[test]
fn products_of_tiles() {
    const ARRAYS: &str = "let mut a = alloc_shared::<f16>([64, 32]); let mut b = alloc_shared::<f16>([64, 32]); \
                          let mut v = alloc_shared::<f16>([64]); let mut acc = alloc_fragment::<f32>([64, 64]); ";
    let check = |body: &str, place: &str, message: &str| {
        let said = in_body(&format!("{ARRAYS}{body}"));
        assert!(said.contains(&format!(" | {place} | ")), "{said}");
        assert!(said.contains(message), "{said}");
    };
    check("gemm(&x, b.t(), &mut acc);", "x", "`x` is a tensor");
    check("gemm(&v, b.t(), &mut acc);", "v", "`v` has 1 axis, not 2");
    check("gemm(a[[0, 0]], b.t(), &mut acc);", "a[[0, 0]]", "not the left operand");
    check("gemm(&a, b.t(), &mut acc).policy(Round);", "Round", "`Square`, `FullRow`, `FullCol`");
    check("gemm(&a, b.t(), &mut acc).scale(2.0);", "scale", "`.tf32()` and `.grouped()`");
    check("let c = gemm(&a, b.t(), &mut acc);", "gemm(&a, b.t(), &mut acc)", "gives no value");
    check("copy(w.at([0, 0]), &mut a).evict(Late);", "Late", "`First`, `Last`, `Normal`");
    check("copy(w.at([0, 0]), &mut a).evict(if t == 0 { First } else { Last });", "t == 0", "is not a constant");
    check("copy(w.at([0, 0]), &mut a).evict(if true { First });", "if true { First }", "a word in each");
    check("copy(w.at([0, 0]), &mut a).tma(0);", "0", "write `false`");
    check("copy(w.t(), &mut a);", "t", "a copy transposes only a fragment that it stores");
    check("cluster([2, 1]); cluster([2, 1]);", "cluster([2, 1])", "given twice");
    check("if t == 0 { use_swizzle(8); }", "use_swizzle(8)", "inside an `if`");
    check("cluster(2);", "(2)", "cluster([2, 1])");
    for body in [
        "gemm(&a, b.t());",
        "gemm(a, b.t(), &mut acc);",
        "gemm(&a, b.t(), &acc);",
        "gemm(&a, b.t(), &mut acc).clear(1);",
        "gemm(&a, b.t(), &mut acc).tf32(true);",
        "let f = alloc_fragment::<f32>([4, 4, 4]);",
        "use_swizzle();",
    ] {
        left_to_rustc(&format!("{ARRAYS}{body}"));
    }
}

#[test]
fn optional_tensors() {
    let with = |bias: &str, body: &str| {
        one(&format!(
            "#[tile_kernel] fn k(x: &Tensor<f32, (N,)>, v: {bias}, y: &mut Tensor<f32, (N,)>) {{ \
             let [b] = blocks([N]); let [t] = threads([1]); {body} }}"
        ))
    };
    let fine = "Option<&Tensor<f32, (N,)>>";
    let said = with("Option<f32>", "y[b] = x[b];");
    assert!(said.contains("is no optional tensor"), "{said}");
    let said = with("Option<&Tensor<f32, (Q,)>>", "y[b] = x[b];");
    assert!(said.contains("| Q | dim `Q` is known only where `v` is given"), "{said}");
    let said = with(fine, "if let Some(s) = x { y[b] = s[b]; }");
    assert!(said.contains("`if let` of this"), "{said}");
    let said = with(fine, "if let None = v { y[b] = x[b]; }");
    assert!(said.contains("the only `if let` is"), "{said}");
    let said = with(fine, "let q = v; y[b] = q[b];");
    assert!(said.contains("if let Some(t) = v"), "{said}");
}

#[test]
fn placement() {
    let check = |body: &str, place: &str, message: &str| {
        let said = in_body(body);
        assert!(said.starts_with(&format!("TK0804 | {place} | ")), "{said}");
        assert!(said.contains(message), "{said}");
    };
    check("if t == 0 { let [u] = threads([4]); }", "threads([4])", "inside an `if`");
    check("for [i] in persistent([n]).per_sm(2) { y[i] = x[i]; }", "persistent([n])", "beside `blocks(..)`");
    check("for i in 0..n { let [u] = blocks([4]); y[u] = 0.0; }", "blocks([4])", "inside a loop");
    check("let [u] = threads([4]); y[u] = 0.0;", "threads([4])", "given twice");
    check("y[t] = alloc_local::<f32>([4]);", "alloc_local::<f32>([4])", "let mut a = alloc_local");
    check("let v = if t == 0 { warp_reduce(Sum, 1.0) } else { 0.0 };", "warp_reduce(Sum, 1.0)", "an arm of `if`");
    check("let s = sync_threads();", "sync_threads()", "gives no value");
    check("let mut r = alloc_local::<f32>([ballot(t == 0) as usize]);", "ballot(t == 0)", "the extents of an array");
    let said = one("#[tile_kernel()]\nfn k(x: &mut Tensor<f32, (N,)>) { let [b] = blocks([N]); }");
    assert!(said.starts_with("TK0804 | k | kernel `k` does not say how many threads"), "{said}");
}

#[test]
fn constants_are_demanded() {
    let check = |body: &str, place: &str, what: &str| {
        let said = in_body(body);
        assert!(said.starts_with(&format!("TK0806 | {place} | {what} is not a constant")), "{said}");
    };
    check("let mut s = alloc_shared::<f32>([K]); s[t] = 0.0;", "K", "the extent of an array");
    check("let e = t * 4; let mut r = alloc_local::<f32>([e]);", "e", "the extent of an array");
    check("let mut m = 4; let mut r = alloc_local::<f32>([m]);", "m", "the extent of an array");
    check("for i in unroll(0..K) { y[i] = 0.0; }", "K", "the extent of unrolled loop");
    check("for i in vectorized(t..n) { y[i] = 0.0; }", "n", "the extent of vectorised loop");
    check("for i in serial(0..n).unroll(n) { y[i] = 0.0; }", "n", "the unrolling factor");
    check("let mut r = alloc_local::<f32>([8]); copy(x.tile([t..n]), &mut r);", "t..n", "the extent of a tile");
    let said = one(
        "#[tile_kernel()]\nfn k(x: &mut Tensor<f32, (N,)>, n: usize) { blocks([1]); let [t] = threads([n]); x[t] = 0.0; }",
    );
    assert!(said.starts_with("TK0806 | n | the extent of `threads`"), "{said}");
    let said = one("#[tile_kernel()]\nfn k(x: &mut Tensor<f32, (N,)>) { let [t] = threads([32]); blocks([t]); }");
    assert!(said.starts_with("TK0806 | t | the extent of `blocks` is not known before the launch"), "{said}");
    let said = one("#[tile_kernel()]\nfn k(x: &Tensor<f32, (Fixed<HEAD_DIM>,)>) { blocks([1]); threads([32]); }");
    assert!(said.starts_with("TK0802 | HEAD_DIM |"), "{said}");
    let said = in_body("y[TILE] = 0.0;");
    assert!(said.starts_with("TK0802 | TILE | `TILE` is no dim, const parameter or variable of `k`"), "{said}");
}

#[test]
fn shapes_of_arrays() {
    let said = in_body("let mut s = alloc_shared::<f32>([8, 16]); s[t] = 0.0;");
    assert_eq!(said, "TK0101 | [t] | `s` has 2 axes, 1 index is given | write `s[[i, j]]`");
    let said = in_body("let mut s = alloc_shared::<f32>([8]); y[t] = s[[t, 0]];");
    assert_eq!(said, "TK0101 | [[t, 0]] | `s` has 1 axis, 2 indices are given | write `s[i]`");
    let said = in_body("let mut s = alloc_shared::<f32>([8, 16]); copy(w.at([0, 0]), s.at_mut([0]));");
    assert!(said.starts_with("TK0101 | [0] |"), "{said}");
    let said = in_body("let mut s = alloc_shared::<f32>([]); s[t] = 0.0;");
    assert!(said.starts_with("TK0101 | [] | an array has 1 to 3 axes"), "{said}");
    let said = in_body("let mut s = alloc_shared::<f32>([8, 16]); y[t] = s[t][0];");
    assert!(said.starts_with("TK0101 | [0] |"), "{said}");
    let said = in_body("let mut r = alloc_local::<f32>([8]); copy(r.at([0]), y.at_mut([t]));");
    assert!(said.starts_with("TK0102 | r.at([0]) | neither side"), "{said}");
    let said = in_body("copy(x, y);");
    assert!(said.starts_with("TK0102 | copy(x, y); | a copy between two tensors"), "{said}");
}

#[test]
fn calls() {
    let check = |body: &str, expected: &str| {
        let said = in_body(body);
        assert!(said.starts_with(expected), "{said}");
    };
    check(
        "let row = b * 128 + t; y[t] = thread_allreduce(Sum, 1.0, row);",
        "TK0803 | row | the last argument of `thread_allreduce` is not a thread index | it is the binding itself, one of `t`",
    );
    check("y[t] = thread_allreduce(t, 1.0, t);", "TK0803 | t | `thread_allreduce` needs its operator");
    check(
        "let mut s = alloc_shared::<f32>([4]); thread_allreduce(Sum, &mut s, t);",
        "TK0803 | &mut s | `thread_allreduce` takes a value or a per-thread array; `s` is a shared array",
    );
    check(
        "let mut s = alloc_shared([4]); s[t] = 0.0;",
        "TK0803 | alloc_shared | `alloc_shared` needs its element type",
    );
    check("fill(&mut y, 0.0);", "TK0803 | &mut y | `fill` takes a shared or per-thread array; `y` is a tensor");
    check("device_print(\"{} {}\", t);", "TK0803 | \"{} {}\" | the text has 2 `{}` for 1 values");
    check("device_assert(t < 4, t);", "TK0803 | t | a text in quotes");
    check("let mut v = 0.0; atomic_add(&mut v, 1.0);", "TK0803 | v | `atomic_add` takes an element");
    check(
        "let mut r = alloc_local::<f32>([4]); atomic_add(&mut r[0], 1.0);",
        "TK0803 | r[0] | `atomic_add` on `r`, which every",
    );
    check("y[t] = x[t].cast();", "TK0803 | cast | `cast` needs the type");
    check("y[t] = Sum;", "TK0803 | Sum | `Sum` is an operator");
}

#[test]
fn dtypes_of_operations() {
    let check = |body: &str, expected: &str| {
        let said = in_body(body);
        assert!(said.starts_with(expected), "{said}");
    };
    check("atomic_max(&mut y[t], 1.0);", "TK0103 | y[t] | `atomic_max` does not exist for f32: `y` holds `f32`");
    check("let mut s = alloc_shared::<f16>([4]); atomic_add(&mut s[t], lit(1.0));", "TK0103 | s[t] |");
    check("y[t] = x[t] % 2.0;", "TK0103 | x[t] % 2.0 | the remainder of `f32`");
    check("y[t] = 1.0f64;", "TK0103 | 1.0f64 | `f64` is not a type");
    check("let mut s = alloc_shared::<i8>([4]); s[t] = 0;", "TK0103 | i8 | `i8` is not an element type");
    check("let v = warp_reduce(Sum, t); y[v] = 0.0;", "TK0103 | t | a reduction of `usize`");
    check("let m = !t; y[m] = 0.0;", "TK0807 | !t | `!` on a `usize`");
    check("let mut c = 0i32; for i in 0..8 { c += i; } y[t] = c as f32;", "TK0807 | i | loop index `i` is `i32`");
    let said = one(
        "#[tile_kernel()]\nfn k<T: Half>(y: &mut Tensor<T, (N,)>) { blocks([1]); let [t] = threads([32]); atomic_add(&mut y[t], T::ONE); }",
    );
    assert!(said.starts_with("TK0103 | y[t] | `atomic_add` does not exist for f16: `y` holds `T`"), "{said}");
}

/// A kernel of a signature with an empty body.
fn signature(attribute: &str, signature: &str) -> String {
    one(&format!("#[tile_kernel({attribute})]\nfn k{signature} {{ blocks([1]); threads([32]); }}"))
}

#[test]
fn dims() {
    let said = signature("", "(x: &Tensor<f32, (K)>)");
    assert_eq!(
        said,
        "TK0104 | (K) | the dims of `x` are not a tuple: `(K)` is `K` in parentheses | one dim is written `(K,)`"
    );
    let said = signature("", "(x: &Tensor<f32, (M, 128)>)");
    assert_eq!(said, "TK0104 | 128 | `128` is not a dim | a constant extent is written `Fixed<128>`");
    let said = signature("", "(x: &Tensor<f32, (A, B, C, D, E)>)");
    assert!(said.starts_with("TK0104 | (A, B, C, D, E) | tensor `x` has 5 dims"), "{said}");
    let said = signature("", "(x: &Tensor<f32, K>)");
    assert!(said.ends_with("| one dim is written `(K,)`"), "{said}");
    let said = signature("instances(B in [true])", "<const B: bool>(x: &Tensor<f32, (B,)>)");
    assert!(said.starts_with("TK0104 | B | dim `B` is a bool"), "{said}");
    let said = signature("", "(n: usize, x: &Tensor<f32, (n,)>)");
    assert!(said.starts_with("TK0104 | n | `n` is a parameter, not a dim"), "{said}");
    let said = signature("", "(x: &Tensor<f32, (n,)>, n: usize)");
    assert!(said.starts_with("TK0104 | n | `n` is a dim already"), "{said}");
    let said = signature("", "(x: &Tensor<f32>)");
    assert!(said.starts_with("TK0104 | Tensor<f32> | tensor `x` needs an element type and dims"), "{said}");
    let said = signature("", "(x: Tensor<f32, (K,)>)");
    assert!(said.contains("taken by value | borrow it: `&Tensor<f32, (K,)>`"), "{said}");
    let said = signature("", "(x: &Tensor<f64, (K,)>)");
    assert!(said.starts_with("TK0103 | f64 |"), "{said}");
    let said = signature("", "(x: &Tensor<f32, (Fixed<N>, N)>)");
    assert!(said.starts_with("TK0802 | N |"), "{said}");
    let said = signature("", "(x: Option<&Tensor<f32, (K,)>>)");
    assert!(said.starts_with("TK0104 | K | dim `K` is known only where `x` is given"), "{said}");
    let said = signature("", "<T>(x: &Tensor<T, (K,)>)");
    assert!(said.starts_with("TK0103 | T | the dtypes of `T` are not known"), "{said}");
    let said = signature("", "(x: &Tensor<f32, (K,)>) -> f32");
    assert!(said.starts_with("TK0801 | f32 | a kernel returns nothing"), "{said}");
    let said = signature("", "<const S: u32>(x: &Tensor<f32, (K,)>)");
    assert_eq!(said, "TK0103 | u32 | const parameter `S` is neither `usize` nor `bool` | const S: usize");
}

#[test]
fn attributes() {
    let rows = "<const ROWS: usize>(x: &Tensor<f32, (K,)>)";
    let check = |attribute: &str, on: &str, expected: &str| {
        let said = signature(attribute, on);
        assert!(said.starts_with(expected), "{said}");
    };
    check("", rows, "TK0805 | ROWS | const parameter `ROWS` has no declared values | add `instances(ROWS in [1, 2])`");
    check(
        "instances(ROW in [1], ROWS in [1])",
        rows,
        "TK0805 | ROW | `ROW` is not a const parameter of `k` | the const",
    );
    check("instances(ROWS in [1, 2], ROWS = 4)", rows, "TK0805 | ROWS | the values of `ROWS` are given twice");
    check("instances(ROWS in [true])", rows, "TK0805 | true | `ROWS` is a usize and cannot be true");
    check("instances(ROWS in [-1])", rows, "TK0805 | -1 | `ROWS` is a usize and cannot be -1");
    check(
        "instances(ROWS in [1, 1])",
        rows,
        "TK0805 | instances(ROWS in [1, 1]) | the combination (1) is listed twice",
    );
    check(
        "instances(ROWS in [1, 2] where ROWS > 4)",
        rows,
        "TK0805 | instances(ROWS in [1, 2] where ROWS > 4) | `where`",
    );
    check("instances(ROWS in [1, 2], where ROWS)", rows, "TK0805 | ROWS | `where` takes a condition");
    check("instances(ROWS in [1, 4 / 0])", rows, "TK0805 | 4 / 0 | this divides by zero");
    check("instances(ROWS in [])", rows, "TK0805 | ROWS in [] | the list of values is empty");
    check("instances(ROWS of [1])", rows, "TK0805 | ROWS of [1] | this is not a list of values");
    check("instances((ROWS,) in [(1, 2)])", rows, "TK0805 | (1, 2) | this tuple has 2 values for 1 names");
    check("instance(ROWS in [1])", "()", "TK0805 | instance | #[tile_kernel] has no item `instance`");
    check("targets(sm_75)", "()", "TK0805 | sm_75 | `sm_75` is not a target | targets(sm_80, sm_90a)");
    check("min_blocks(many)", "()", "TK0805 | many | `min_blocks` takes a number");
    check("lints(TK0101 = \"deny\")", "()", "TK0805 | TK0101 | `TK0101` is not a lint");
    check("stream(x, x)", "(x: &mut Tensor<f32, (K,)>)", "TK0805 | x | `x` is listed twice");
    check("stream(x, x)", "(x: &Tensor<f32, (K,)>)", "TK0805 | x | `x` is listed twice");
    check("stream(s)", "(x: &Tensor<f32, (K,)>, s: f32)", "TK0805 | s | `s` is a scalar");
    check("stream(q)", "()", "TK0805 | q | the kernel has no parameter `q`");
    check("stream(x + 1)", "()", "TK0805 | x + 1 | `stream` takes the names of tensors");
    check("lints(TK0601 = \"loud\")", "()", "TK0805 | \"loud\" |");
    check(
        "specialize(J)",
        "(x: &Tensor<f32, (K,)>)",
        "TK0805 | J | `J` is no dim of a tensor of this kernel | its dims are `K`",
    );
    check("specialize(K, K)", "(x: &Tensor<f32, (K,)>)", "TK0805 | K | `K` is listed twice");
    check("specialize(s)", "(x: &Tensor<f32, (K,)>, s: usize)", "TK0805 | s | `s` is a parameter: only dims");
    check("specialize(K, max = 0)", "(x: &Tensor<f32, (K,)>)", "TK0805 | 0 | `max` is how many variants are kept");
    check("specialize(K, max = K)", "(x: &Tensor<f32, (K,)>)", "TK0805 | K | `max` is how many variants are kept");
    check("specialize()", "(x: &Tensor<f32, (K,)>)", "TK0805 | () | `specialize` names no dim");
    check("specialize(K + 1)", "(x: &Tensor<f32, (K,)>)", "TK0805 | K + 1 | `specialize` takes the names of dims");
    check(
        "specialize(B), instances(B = 4)",
        "<const B: usize>(x: &Tensor<f32, (K,)>)",
        "TK0805 | B | `B` is a const parameter: every instance has its value",
    );
    check("pdl(independent = [z])", "()", "TK0805 | z | the kernel has no parameter `z`");
    check("pdl(x)", "()", "TK0805 | pdl(x) | `pdl` names the tensors");
    check("pdl(independent = [x + 1])", "()", "TK0805 | x + 1 | `independent` takes the names");
    check("pdl", "()", "TK0805 | pdl | `pdl` is written otherwise");
    check("dtypes(T in [f16, f8])", "<T>(x: &Tensor<T, (K,)>)", "TK0103 | f8 | `f8` is not a dtype");
    check(
        "dtypes(T in [i32])",
        "<T: Float>(x: &Tensor<T, (K,)>)",
        "TK0103 | T | `i32` is listed for `T` but is not a `Float`",
    );
    check("dtypes(U in [f32])", "(x: &Tensor<f32, (K,)>)", "TK0805 | U | `U` is not a dtype parameter of `k`");
    check("require(J % 8 == 0)", "(x: &Tensor<f32, (K,)>)", "TK0802 | J | `J` is no dim");
    check(
        "require(K % 8)",
        "(x: &Tensor<f32, (K,)>)",
        "TK0807 | K % 8 | mismatched types: expected `bool`, found `usize`",
    );
    check("require(k > 0)", "(x: &Tensor<f32, (K,)>)", "TK0802 | k | `k` is no dim");
    check("require(%)", "()", "TK0805 | % | `require` takes a condition");
    check(
        "require(K < 9, K > 1, a::<b<c>, d)",
        "(x: &Tensor<f32, (K,)>)",
        "TK0805 | a::<b<c>, d | `require` takes a condition",
    );
    check("targets(sm_80),, min_blocks(1)", "()", "TK0805 | , | nothing stands before this comma");
    check("targets(sm_80), targets(sm_90a)", "()", "TK0805 | targets | `targets` is given twice");
}

#[test]
fn every_mistake_is_reported() {
    let text = "#[tile_kernel(instances(A in [1]), min_blocks(x))]\n\
         fn k<const A: usize, const B: usize>(x: &Tensor<f32, (K)>, y: &mut Tensor<f64, (N,)>) {\n\
         let [b] = blocks([x]); let [t] = threads([K]);\n\
         let mut s = alloc_shared::<f32>([8, 8]);\n\
         s[t] = 0.0; while let 4 = t { s[[t, 0, 0]] = 1.0; }\n\
         match b { _ => {} }\n\
         let q = match b { _ => 1 };\n\
         y[q] = cumsum(x); s[[t, t]] = q; }";
    let parsed = parse(text);
    let codes: Vec<u16> = parsed.diagnostics.iter().map(|d| d.code.0).collect();
    assert_eq!(codes, [805, 104, 103, 805, 801, 806, 101, 801, 101, 801, 801, 801], "{:#?}", parsed.diagnostics);
    assert!(parsed.item.is_some());
}

#[test]
fn no_internal_name_is_said() {
    const INTERNAL: [&str; 8] = ["ExprId", "StmtKind", "Poison", "TokenStream", "syn::", "proc_macro", "Some(", "None"];
    for body in ["match t { _ => {} }", "y[t] = helper(1.0);", "for v in x { }", "let a = [1];"] {
        let said = in_body(body);
        assert!(INTERNAL.iter().all(|word| !said.contains(word)), "{said}");
    }
}

/// An integer is at most 2^53, in the text and where constants are computed: what is beyond says so where it stands.
#[test]
fn the_largest_integer() {
    let said = |attribute: &str, body: &str| -> String {
        let parsed = parse(&format!(
            "#[tile_kernel({attribute})] fn k<const B: usize>(y: &mut Tensor<f32, (N,)>) {{ blocks([1]); let [t] = threads([32]); {body} }}"
        ));
        match parsed.diagnostics.first() {
            Some(diagnostic) => diagnostic.compiler_text(&parsed.kernel),
            None => tile_ir::analysis::check(&parsed.kernel).iter().map(|d| d.compiler_text(&parsed.kernel)).collect(),
        }
    };
    let store = |index: &str| format!("*y.masked_mut([{index}]) = 1.0;");
    assert_eq!(said("instances(B = 1)", &store("t + 9007199254740992 - 9007199254740992 + B")), "");
    let text = said("instances(B = 1)", &store("t + 9007199254740993"));
    assert!(text.contains("[TK0801] this number is too large") && text.contains("2^53"), "{text}");
    assert_eq!(said("instances(B = 9007199254740992)", &store("t + B - B")), "");
    let text = said("instances(B = 9007199254740993)", &store("t + B - B"));
    assert!(text.contains("[TK0805] `B` is too large: at most 2^53"), "{text}");
    for (index, operation) in [("t + B * 2 - B", "9007199254740992 * 2"), ("t + (B << 1)", "9007199254740992 << 1")] {
        let text = said("instances(B = 9007199254740992)", &store(index));
        assert!(text.contains(&format!("[TK0806] {operation} is too large for a constant")), "{text}");
    }
    let text = said("instances(B = 4)", &store("t + B / (B - 4)"));
    assert!(text.contains("[TK0806] 4 / 0 has no value"), "{text}");
}

/// One mistake, one error: an option that lists a parameter says nothing of one that is wrong where it stands.
#[test]
fn options_that_list_a_parameter_with_a_mistake() {
    for option in ["partial(z)", "stream(z)", "pdl(independent = [z])"] {
        let parsed = parse(&format!(
            "#[tile_kernel({option})] fn k(y: &mut Tensor<f32, (N,)>, z: Option<&mut Tensor<f32, (M,)>>) {{
                let [b] = blocks([N]); let [t] = threads([32]); if t == 0 {{ y[b] = 1.0; }} }}"
        ));
        let codes: Vec<_> = parsed.diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, [tile_ir::diag::Code::DIM], "{option}");
    }
}
