//! Chains, which are as deep as they are long: `else if`, `&&`, `+`. A hundred of them are read, checked and lowered on the
//! stack that a thread has by default; several hundred are an error.

use super::*;
use tile_ir::diag::Code;

/// Chains of `n`, each with its name.
fn chains(n: usize) -> Vec<(&'static str, String)> {
    let arms = |arm: &dyn Fn(usize) -> String, last: &str| -> String {
        let arms: String = (0..n).map(|i| format!("if t == {i} {{ {} }} else ", arm(i))).collect();
        format!("{arms}{{ {last} }}")
    };
    let joined = |by: &str, item: &dyn Fn(usize) -> String| -> String { (0..n).map(item).collect::<Vec<_>>().join(by) };
    let stored = "if b * 128 + t < N { y[b * 128 + t] = v; }";
    vec![
        ("else if, statements", format!("let mut v = 0.0; {} {stored}", arms(&|i| format!("v = {i}.0;"), "v = 0.5;"))),
        ("else if, values", format!("let v = {}; {stored}", arms(&|i| format!("{i}.0"), "0.5"))),
        (
            "else if, values after statements",
            format!("let v = {}; {stored}", arms(&|i| format!("let c = {i}.0; c * c"), "let c = 0.5; c * c")),
        ),
        ("&&", format!("let v = if {} {{ 1.0 }} else {{ 2.0 }}; {stored}", joined(" && ", &|i| format!("t != {i}")))),
        ("||", format!("let v = if {} {{ 1.0 }} else {{ 2.0 }}; {stored}", joined(" || ", &|i| format!("n == {i}")))),
        ("+", format!("let v = {}; {stored}", joined(" + ", &|i| format!("x.masked([t + {i}])")))),
        ("+ of indices", format!("let at = {}; let v = x.masked([at]); {stored}", joined(" + ", &|_| "t".to_owned()))),
    ]
}

#[test]
fn a_hundred_are_lowered() {
    let lowered = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for (name, text) in chains(100) {
            let kernel = valid(&around(&text));
            let said: Vec<String> = tile_ir::analysis::check(&kernel).iter().map(|d| d.message.clone()).collect();
            assert_eq!(said, Vec::<String>::new(), "{name}");
            for target in [Target::Sm80, Target::Sm90a] {
                let program = tile_ir::lower::lower(&kernel, &Instance::default(), target);
                let program = program.unwrap_or_else(|said| panic!("{name}: {said:?}"));
                assert!(tile_ir::emit::cuda::emit(&program).contains("__global__"), "{name}");
            }
        }
    });
    lowered.expect("a thread").join().expect("every chain is lowered");
}

#[test]
fn several_hundred_are_an_error() {
    let read = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for (name, text) in chains(900) {
            let parsed = parse(&around(&text));
            let codes: Vec<Code> = parsed.diagnostics.iter().map(|d| d.code).collect();
            assert!(codes.contains(&Code::SYNTAX), "{name}: {codes:?}");
        }
    });
    read.expect("a thread").join().expect("every chain is refused");
}

/// Chains in chains are as deep as all of them together.
#[test]
fn a_chain_in_a_chain_counts() {
    let long = |n: usize, item: &str| vec![item; n].join(" + ");
    let sum = |outer: usize, inner: usize| {
        let text = format!("y[t] = ({}) + {};", long(inner, "x[t]"), long(outer, "1.0"));
        let parsed = parse(&around(&text));
        let sound = tile_ir::verify::structure(&parsed.kernel);
        (parsed.diagnostics.is_empty(), sound)
    };
    assert_eq!(sum(90, 90), (true, Ok(())));
    assert!(!sum(150, 150).0);
    // Every number of links that is read is one that the IR holds.
    for n in 185..205 {
        let (read, sound) = sum(n - 100, 100);
        assert!(!read || sound.is_ok(), "{n}: {sound:?}");
        let ifs =
            format!("let mut v = 0.0; {}{{ v = {}; }}", "if t == 0 { v = 1.0; } else ".repeat(n - 50), long(50, "v"));
        let parsed = parse(&around(&ifs));
        assert!(!parsed.diagnostics.is_empty() || tile_ir::verify::structure(&parsed.kernel).is_ok(), "{n}");
    }
}

/// What stands in an arm is seen in that arm alone, and what a condition is made into stands before the whole chain or not at all.
#[test]
fn chains_mean_what_nested_ones_mean() {
    let chain =
        "let mut v = 0.0; if t == 0 { let a = 1.0; v = a; } else if t == 1 { v = 2.0; } else { let a = 3.0; v = a; }";
    let nested = "let mut v = 0.0; if t == 0 { let a = 1.0; v = a; } else { if t == 1 { v = 2.0; } else { let a = 3.0; v = a; } }";
    assert_eq!(body(chain), body(nested));
    let values = |text: &str| body(&format!("let v = {text}; y[t] = v;"));
    assert_eq!(
        values("if t == 0 { 1.0 } else if t == 1 { 2.0 } else { 3.0 }"),
        values("if t == 0 { 1.0 } else { if t == 1 { 2.0 } else { 3.0 } }")
    );
    assert_eq!(values("x[t] + x[t + 1] * 2.0 - x[t + 2]"), values("(x[t] + (x[t + 1] * 2.0)) - x[t + 2]"));
    // The second condition is not always evaluated: no statement is made from it ahead of the chain.
    let parsed = parse(&around("let v = if t == 0 { 1.0 } else if any(t == 1) { 2.0 } else { 3.0 }; y[t] = v;"));
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::PLACEMENT), "{:?}", parsed.diagnostics);
}

/// A literal that lanes exchange is of an element type: what its use says, else `i32`.
#[test]
fn literals_of_collectives_take_the_type_of_their_use() {
    let text = body(
        "let a = warp_reduce(Sum, 2); let s: u32 = warp_reduce(Sum, 2); let f: f32 = warp_reduce(Max, lit(2.0));\n\
         let m = thread_allreduce(Sum, 3, t); let x = shfl_xor(4, 1); let u = shfl_xor(5, 1) + s;\n\
         device_print(\"{} {} {} {} {} {}\", a, s, f, m, x, u);",
    );
    for typed in ["2i32", "2u32", "2.0f32", "3i32", "4i32", "5u32"] {
        assert!(text.contains(typed), "no {typed} in\n{text}");
    }
    assert!(!text.contains("usize"), "{text}");
    // An index stays one, and is not reduced.
    let parsed = parse(&around("let n = t + 2; let s = warp_reduce(Sum, n); device_print(\"{}\", s);"));
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::DTYPE), "{:?}", parsed.diagnostics);
}
