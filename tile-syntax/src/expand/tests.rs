//! The expansion as tokens. That rustc accepts it, and what it says where it does not, is tested by `tests/ui.rs` and
//! `tests/valid.rs` of the root package.

use super::*;
use crate::repository::{Source, cpu, kernels};
use std::path::Path;
use std::time::Duration;
use syn::Meta;

/// A kernel that calls no functions.
fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    super::kernel(attribute, item, Rc::new([]))
}

/// The kernels of a Rust source text: attribute and function.
fn kernels_of(source: &str) -> Vec<(TokenStream, TokenStream)> {
    let file = syn::parse_file(source).expect("a Rust file");
    let mut found = vec![];
    for item in file.items {
        let syn::Item::Fn(mut function) = item else { continue };
        let Some(at) = function.attrs.iter().position(|a| a.path().is_ident("tile_kernel")) else { continue };
        let attribute = match function.attrs.remove(at).meta {
            Meta::List(list) => list.tokens,
            _ => TokenStream::new(),
        };
        found.push((attribute, quote!(#function)));
    }
    found
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn gemv() -> (TokenStream, TokenStream) {
    kernels_of(&read("tests/ui/valid/gemv.rs")).remove(0)
}

/// The shadow's body of a kernel with `body`, as text without spaces.
fn shadow_of(body: &str) -> String {
    let source = format!(
        "#[tile_kernel] fn k(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {{
            let [b] = blocks([N]); let [t] = threads([32]); let mut s = alloc_shared::<f32>([64]); {body} }}"
    );
    let (attribute, item) = kernels_of(&source).remove(0);
    kernel(attribute, item).to_string().replace(char::is_whitespace, "")
}

#[test]
fn the_right_side_of_a_compound_assignment_is_computed_first() {
    let shadow = shadow_of("s[t] += s[t + 1];");
    assert!(shadow.contains("{letvalue=s[t+1];s[t]+=value;};"), "{shadow}");
}

#[test]
fn values_are_computed_before_what_follows_is_borrowed() {
    let shadow = shadow_of("atomic_add(&mut s[t], s[t + 1]);");
    assert!(shadow.contains("({letvalue_1=s[t+1];atomic_add(&muts[t],value_1)});"), "{shadow}");
    let shadow = shadow_of("let q = 1.0; atomic_add(&mut s[t], q);");
    assert!(shadow.contains("atomic_add(&muts[t],q);"), "names need no variable of their own: {shadow}");
    let shadow = shadow_of("copy(x.at([b, 0]), &mut s);");
    assert!(shadow.contains("copy(x.at([b,0]),&muts);"), "what stands before is computed before: {shadow}");
}

#[test]
fn each_printed_value_is_checked_by_itself() {
    let shadow = shadow_of("device_print(\"{} {}\", b, t);");
    assert!(shadow.contains("({device_print(\"{}{}\");"), "{shadow}");
    assert!(shadow.contains("::dsl::printed(t);"), "{shadow}");
}

#[test]
fn dims_are_const_parameters_of_the_shadow() {
    let (attribute, item) = gemv();
    let text = kernel(attribute, item).to_string().replace(char::is_whitespace, "");
    assert!(text.contains("<T:Float,constROWS:::core::primitive::usize,constK:"), "{text}");
    assert!(text.contains("w:&::tile_runtime::dsl::Tensor<T,2>"), "{text}");
}

#[test]
fn an_expansion_names_only_the_runtime() {
    let (attribute, item) = gemv();
    let text = kernel(attribute, item).to_string().replace(char::is_whitespace, "");
    assert!(!text.contains("compile_error"), "{text}");
    let mut rest = text.as_str();
    while let Some(at) = rest.find("::") {
        let before = rest[..at].chars().next_back().unwrap_or(' ');
        rest = &rest[at + 2..];
        let absolute = !(before.is_alphanumeric() || before == '_' || before == '>' || before == ')');
        let known = ["tile_runtime::", "core::", "<"].iter().any(|root| rest.starts_with(root));
        assert!(!absolute || known, "::{}", &rest[..rest.len().min(40)]);
    }
}

#[test]
fn a_performance_lint_is_what_the_author_asks_for() {
    use tile_ir::diag::{Code, Diagnostic};
    use tile_ir::ir::SpanId;
    let lint = Diagnostic::new(Code::BANK_CONFLICT, SpanId::from_u32(0), "8-way bank conflict");
    let emitted = |levels: &[&str]| {
        let (attribute, item) = gemv();
        let mut parsed = parse::kernel(attribute, item, Rc::new([]));
        parsed.kernel.attributes.lints = levels.iter().map(|l| ("TK0601".to_owned(), (*l).to_owned())).collect();
        let emitted = errors::emit(&parsed, std::slice::from_ref(&lint));
        (emitted.any, emitted.tokens.to_string())
    };
    assert_eq!(emitted(&[]), (false, String::new()));
    assert_eq!(emitted(&["deny", "off"]), (false, String::new()));
    let (failed, text) = emitted(&["warn"]);
    assert!(!failed && text.contains("deprecated") && text.contains("[TK0601] 8-way bank conflict"), "{text}");
    let (failed, text) = emitted(&["deny"]);
    assert!(failed && text.contains("compile_error"), "{text}");
}

#[test]
fn an_access_that_only_the_compiler_guards_is_a_warning() {
    let check = |lints: &str| {
        let attribute: TokenStream = lints.parse().unwrap();
        let item = quote!(
            pub fn shifted(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, by: usize) {
                let [b] = blocks([ceil_div(N, 128)]);
                let [t] = threads([128]);
                let i = b * 128 + t;
                if i < N {
                    y[i + 1] = x[i - by];
                }
            }
        );
        kernel(attribute, item).to_string()
    };
    let text = check("");
    assert!(!text.contains("compile_error") && text.contains("unguarded_access"), "{text}");
    assert!(
        text.contains("nothing says that `i + 1` is below N; the compiler adds a guard: outside, it stores nothing")
    );
    assert!(text.contains("put `if i + 1 < N { .. }` around it, or store to `*y.masked_mut([i + 1])`"), "{text}");
    assert!(text.contains("[TK0605] an index of `x` may be negative"), "{text}");
    assert!(text.contains("put `if i >= by { .. }` around it, or read `x.masked([i - by])`"), "{text}");
    let text = check("lints(TK0604 = \"off\", TK0605 = \"deny\")");
    assert!(text.contains("compile_error") && !text.contains("TK0604]"), "{text}");
}

/// A conversion is written `v as usize` or `v.cast::<usize>()`: what is offered is the author's own text.
#[test]
fn lints_quote_conversions_as_they_are_written() {
    let plain = ["rows[t] as usize + 1", "rows[t].cast::<usize>() + 1"].map(|index| (index, index));
    // Rust reads `usize <` as the beginning of generic arguments.
    for (index, bounded) in plain.into_iter().chain([("rows[t] as usize", "(rows[t] as usize)")]) {
        let item: TokenStream = format!(
            "pub fn gathered(rows: &Tensor<u32, (Fixed<32>,)>, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<32>,)>) {{
                blocks([1]);
                let [t] = threads([32]);
                y[t] = x[{index}];
            }}"
        )
        .parse()
        .unwrap();
        let text = kernel(TokenStream::new(), item).to_string();
        assert!(text.contains(&format!("nothing says that `{index}` is below N")), "{text}");
        assert!(text.contains(&format!("put `if {bounded} < N {{ .. }}` around it")), "{text}");
    }
}

#[test]
fn a_struct_under_the_attribute_is_given_back() {
    let tokens = kernel(
        TokenStream::new(),
        quote!(
            pub struct Point {
                x: f32,
            }
        ),
    );
    let text = tokens.to_string();
    assert!(text.contains("compile_error") && text.contains("struct Point"), "{text}");
}

/// Any tokens give tokens: dropped, doubled and swapped ones, in the attribute and in the function.
#[test]
fn damaged_kernels_expand_to_something() {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let (attribute, item) = gemv();
    for _ in 0..300 {
        let damaged_attribute = if random(4) == 0 { damage(&attribute, &mut random) } else { attribute.clone() };
        let damaged_item = damage(&item, &mut random);
        let _ = kernel(damaged_attribute, damaged_item).to_string();
    }
}

fn damage(tokens: &TokenStream, random: &mut impl FnMut(usize) -> usize) -> TokenStream {
    let mut list: Vec<proc_macro2::TokenTree> = tokens.clone().into_iter().collect();
    if list.is_empty() {
        return tokens.clone();
    }
    let at = random(list.len());
    if let proc_macro2::TokenTree::Group(group) = &list[at]
        && random(8) != 0
    {
        let mut inner = proc_macro2::Group::new(group.delimiter(), damage(&group.stream(), random));
        inner.set_span(group.span());
        list[at] = inner.into();
        return list.into_iter().collect();
    }
    match random(3) {
        0 => drop(list.remove(at)),
        1 => list.insert(at, list[at].clone()),
        _ => {
            let other = random(list.len());
            list.swap(at, other);
        }
    }
    list.into_iter().collect()
}

/// What every keystroke in an editor costs, at most: everything that the macro does for a kernel.
const BUDGET: Duration = Duration::from_millis(100);
/// How much slower than that a test may be: it is built without optimisation, and other tests share the processor's caches.
const UNOPTIMISED: u32 = 12;

/// The processor time of an expansion, the fastest of a few.
fn time(source: &Source) -> Duration {
    let once = || {
        let start = cpu();
        let tokens = source.expand();
        let time = cpu() - start;
        assert!(!tokens.is_empty(), "{}", source.name);
        time
    };
    let first = once();
    // What is far from the budget is not measured again.
    if first < BUDGET { first } else { (0..3).map(|_| once()).fold(first, Duration::min) }
}

/// Every kernel of the repository, in processor time, so that a loaded machine does not fail it.
///
/// `cargo test -p tile-syntax --config 'profile.dev.package.tile-ir.opt-level=0' expansion_time -- --nocapture` measures
/// what a user has whose profile optimises no macros, and lists the slowest.
#[test]
fn expansion_time_of_every_kernel() {
    let kernels = kernels();
    assert!(kernels.len() > 150, "{} kernels were found", kernels.len());
    for crate_ in ["tile-kernels/", "cookbook/", "tile-candle/"] {
        assert!(kernels.iter().any(|k| k.name.starts_with(crate_)), "{crate_} has kernels");
    }
    let mut times: Vec<(Duration, &str)> = kernels.iter().map(|k| (time(k), k.name.as_str())).collect();
    times.sort_by(|a, b| b.cmp(a));
    times.iter().take(8).for_each(|(time, name)| println!("{time:8.1?} {name}"));
    let (slowest, name) = times[0];
    assert!(slowest <= BUDGET * UNOPTIMISED, "{name}: {slowest:?}, the budget is {BUDGET:?}");
}

/// A kernel with `body`, whose block and thread indices are `b` and `t`.
fn indexing(name: &str, body: &str) -> Source {
    let text = format!(
        "#[tile_kernel] fn k(y: &mut Tensor<f32, (N,)>) {{
            let [b] = blocks([ceil_div(N, 64)]); let [t] = threads([64]); let a0 = b * 64 + t; {body} }}"
    );
    Source::of_text(name, &text)
}

/// `a1` from `a0`, `a2` from `a1` and so on, each made of the one before more than once; the last indexes.
fn chain(name: &str, length: usize, step: impl Fn(&str) -> String) -> Source {
    let steps: String = (0..length).map(|i| format!("let a{} = {};", i + 1, step(&format!("a{i}")))).collect();
    indexing(name, &format!("{steps} *y.masked_mut([a{length} % 64]) = 1.0;"))
}

/// Definitions that use the one before twice are a tree that doubles with each, where they are written out.
#[test]
fn expansion_time_of_what_doubles() {
    let repeat = |text: &str, times: usize| text.repeat(times);
    let level = |i: usize| {
        let attribute = format!("#[tile_fn(uses(f{i}))] fn f{}(x: f32) -> f32", i + 1);
        format!("{attribute} {{ f{i}(x) + f{i}(-x) }}")
    };
    let levels: String = (0..18).map(level).collect();
    let functions = format!(
        "#[tile_fn] fn f0(x: f32) -> f32 {{ x + 1.0 }} {levels}
         #[tile_kernel(uses(f18))] fn k(y: &mut Tensor<f32, (N,)>) {{
            let [b] = blocks([N]); let [t] = threads([32]); y[b] = f18(1.0); }}"
    );
    let sources = [
        indexing(
            "squares of a variable",
            &format!("let mut h = a0; {} *y.masked_mut([h % 64]) = 1.0;", repeat("h = h * h + 3;", 40)),
        ),
        chain("squares", 40, |a| format!("{a} * {a} + 1")),
        chain("products", 40, |a| format!("{a} * (a0 + {a})")),
        chain("quotients and remainders", 40, |a| format!("({a} + b) / 3 + {a} % 4")),
        chain("quotients of sums", 40, |a| format!("({a} / 3 + {a}) / 2")),
        chain("lesser and greater", 60, |a| format!("min(max({a}, t + b), {a} + t * 3)")),
        chain("the greater of multiples", 60, |a| format!("max({a} + t, {a} * 2)")),
        chain("shifts and masks", 40, |a| format!("({a} ^ ({a} >> 1)) & 1023")),
        chain("choices", 30, |a| format!("if {a} < 100 {{ {a} + 1 }} else {{ {a} - 1 }}")),
        chain("sums of dims", 40, |a| format!("({a} + N) / 2 + {a} / 3")),
        // A shared array's elements are enumerated, so each step of the chain is evaluated at many points.
        indexing(
            "a shared array by quotients",
            &format!(
                "let mut s = alloc_shared::<f32>([64]); let a1 = t; {} s[a40 % 64] = 1.0; sync_threads(); \
                 *y.masked_mut([a0]) = s[a40 % 64];",
                (1..40).map(|i| format!("let a{} = (a{i} + t) / 3 + a{i} % 4;", i + 1)).collect::<String>()
            ),
        ),
        Source::of_text("functions that call the next twice", &functions),
    ];
    let times: Vec<(Duration, &str)> = sources.iter().map(|s| (time(s), s.name.as_str())).collect();
    times.iter().for_each(|(time, name)| println!("{time:8.1?} {name}"));
    for (time, name) in times {
        assert!(time <= BUDGET * UNOPTIMISED, "{name}: {time:?}, the budget is {BUDGET:?}");
    }
}

/// Tiles that no grid of warps divides: one loop over K around a thread's elements, and neither it nor a loop around it is
/// unrolled. A loop for each of 24 elements took NVRTC 46 s.
#[test]
fn products_by_elements_are_bounded() {
    let text = "#[tile_kernel]
        fn k(a: &Tensor<f16, (K, M)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>) {
            let [bx, by] = blocks([ceil_div(N, 24), ceil_div(M, 128)]);
            threads([128]);
            let mut a_s = alloc_shared::<f16>([64, 128]);
            let mut b_s = alloc_shared::<f16>([64, 24]);
            let mut acc = alloc_fragment::<f32>([128, 24]);
            clear(&mut acc);
            for k in pipelined(0..ceil_div(K, 64), 2) {
                copy(a.at([k * 64, by * 128]), &mut a_s);
                copy(b.at([k * 64, bx * 24]), &mut b_s);
                gemm(a_s.t(), &b_s, &mut acc).policy(FullCol);
            }
            copy(&acc, c.at_mut([by * 128, bx * 24]));
        }";
    let kernel = Source::of_text("products by elements", text).parse().kernel;
    let program =
        tile_ir::lower::lower(&kernel, &kernel.instances[0], tile_ir::ir::Target::Sm80).expect("it is lowered");
    let text = tile_ir::emit::cuda::emit(&program);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let loops: Vec<usize> = (1..lines.len()).filter(|at| lines[*at].starts_with("for (int depth")).collect();
    assert_eq!(loops.len(), 2, "one a slot:\n{text}");
    for at in loops {
        assert_eq!(lines[at - 1], "#pragma unroll 1", "{text}");
        assert!(!lines[at - 2].starts_with("const int row"), "a loop for each element:\n{text}");
    }
}

/// What every iteration reads was copied before its inner loops: the barriers of the GEMM ladder's rung stand there.
#[test]
fn the_inner_loops_of_tiled_have_no_barrier() {
    let source =
        kernels().into_iter().find(|k| k.name == "src/gemm_ladder/kernels.rs: tiled").expect("the ladder has it");
    let kernel = source.parse().kernel;
    let program =
        tile_ir::lower::lower(&kernel, &kernel.instances[0], tile_ir::ir::Target::Sm90a).expect("it is lowered");
    let text = tile_ir::emit::cuda::emit(&program);
    let places: Vec<&str> = text
        .lines()
        .zip(text.lines().skip(1))
        .filter(|l| l.0.trim() == "__syncthreads();")
        .map(|l| l.1.trim())
        .collect();
    assert_eq!(places.len(), 2, "{text}");
    assert!(places[0].starts_with("for (int element ="), "before the first copy: {text}");
    assert!(places[1].starts_with("for (int k ="), "before the reads: {text}");
}

#[test]
fn a_mistake_moves_no_token_of_the_body() {
    let body = |last: &str| {
        let source = format!(
            "#[tile_kernel] fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {{
                let [b] = blocks([N]); let [t] = threads([32]); {last} }}"
        );
        let (attribute, item) = kernels_of(&source).remove(0);
        let text = kernel(attribute, item).to_string();
        (text.find("let [b]").expect("the body is in the expansion"), text.contains("compile_error"))
    };
    let (sound, mistaken) = (body("if t == 0 { y[b] = x[b]; }"), body("if t == 0 { y[b] = x.m; }"));
    assert!(!sound.1 && mistaken.1, "the second has a mistake");
    assert_eq!(sound.0, mistaken.0, "an editor takes what it completes with from the same offset of either");
}

#[test]
fn the_documentation_of_a_kernel_says_how_to_launch_it() {
    let documented = |source: &str| {
        let (attribute, item) = kernels_of(source).remove(0);
        let file = syn::parse2::<syn::File>(kernel(attribute, item)).expect("an expansion is a file of items");
        let structs = file.items.into_iter().filter_map(|item| match item {
            syn::Item::Struct(item) => Some(item),
            _ => None,
        });
        let attributes = structs.take(1).flat_map(|item| item.attrs);
        let lines = attributes.filter_map(|attribute| match attribute.meta {
            Meta::NameValue(syn::MetaNameValue { value: syn::Expr::Lit(literal), .. }) => match literal.lit {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let body = "let [b] = blocks([N]); let [t] = threads([32]); if t == 0 && A > B { y[b] = x[b] * s; }";
    let text = documented(&format!(
        "#[tile_kernel(instances((A, B) in [(1, 2), (2, 1)]), require(N % 2 == 0))]
         fn k<T: Half, const A: usize, const B: usize>(x: &Tensor<T, (N,)>, s: T, y: &mut Tensor<T, (N,)>) {{ {body} }}"
    ));
    let expected = "```text\nfn k<T: Half, const A: usize, const B: usize>(\n    x: &Tensor<T, (N,)>,\n    s: T,\n    \
                    y: &mut Tensor<T, (N,)>,\n)\n```\n";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("launch: `N`.") && text.contains("satisfy `N % 2 == 0`."), "{text}");
    let table = "4 in all:\n\n| `T` | `A` | `B` |\n|---|---|---|\n| f16, bf16 | 1 | 2 |\n| f16, bf16 | 2 | 1 |\n";
    assert!(text.contains(table), "{text}");
    let body = "let [b] = blocks([N]); let [t] = threads([A]); if t == 0 { y[b] = x[b]; }";
    let text = documented(&format!(
        "#[tile_kernel(instances(A in [32, 64]))]
         fn k<T: Half, const A: usize>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {{ {body} }}"
    ));
    assert!(text.contains("| `T` | `A` |\n|---|---|\n| f16, bf16 | 32, 64 |\n"), "{text}");
}
