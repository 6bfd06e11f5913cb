//! The expansion as tokens. That rustc accepts it, and what it says where it does not, is tested by `tests/ui.rs` and
//! `tests/valid.rs` of the root package.

use super::*;
use std::path::Path;
use std::time::{Duration, Instant};
use syn::Meta;

/// A kernel that calls no functions.
fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    super::kernel(attribute, item, Rc::new([]))
}

/// The kernels of a Rust source text: attribute and function.
fn kernels(source: &str) -> Vec<(TokenStream, TokenStream)> {
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
    kernels(&read("tests/ui/valid/gemv.rs")).remove(0)
}

/// The shadow's body of a kernel with `body`, as text without spaces.
fn shadow_of(body: &str) -> String {
    let source = format!(
        "#[tile_kernel] fn k(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>) {{
            let [b] = blocks([N]); let [t] = threads([32]); let mut s = alloc_shared::<f32>([64]); {body} }}"
    );
    let (attribute, item) = kernels(&source).remove(0);
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
    assert!(text.contains("w:&::tile_runtime::dsl::Tensor<T,2usize>"), "{text}");
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

/// Expansion with all checks, in a debug build: what every keystroke in an editor costs.
///
/// `cargo test -p tile-syntax --config 'profile.dev.package.tile-ir.opt-level=0' expansion_time -- --nocapture` measures
/// what a user has, whose profile does not optimise `tile-ir` as this workspace's does.
#[test]
fn expansion_time() {
    const BUDGET: Duration = Duration::from_millis(100);
    for path in ["tests/ui/valid/gemv.rs", "tile-kernels/src/gemv/kernel.rs"] {
        let found = kernels(&read(path));
        assert!(!found.is_empty(), "{path} holds no kernel");
        for (attribute, item) in found {
            let mut times: Vec<Duration> = vec![];
            for _ in 0..10 {
                let (attribute, item) = (attribute.clone(), item.clone());
                let start = Instant::now();
                let tokens = kernel(attribute, item);
                times.push(start.elapsed());
                assert!(!tokens.to_string().contains("compile_error"), "{path}: {tokens}");
            }
            times.sort();
            println!("{path}: expansion {:.2?} (fastest of 10; median {:.2?})", times[0], times[5]);
            // An optimised build proves nothing, but a loaded machine must not fail a debug one: the fastest counts.
            assert!(times[0] <= BUDGET, "{path}: {:?} is over the budget of {BUDGET:?}", times[0]);
        }
    }
}
