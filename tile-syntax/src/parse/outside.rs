//! What is not in the language: each with what to write instead.

use super::Parser;
use super::call::function_name;
use super::range::Range;
use super::source;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprCall, ExprMethodCall, Item, Macro, RangeLimits};
use tile_ir::advice;
use tile_ir::diag::{Code, Diagnostic};

/// Functions that kernels elsewhere have and this version of the language has not, and what serves until then; nothing where nothing does.
/// `{x}` and `{y}` stand for the arguments.
const LATER: &[(&str, &str)] = &[
    ("cumsum", "use a loop"),
    ("tan", "write `(sin({x}) / cos({x}))`"),
    ("sinh", ""),
    ("cosh", ""),
    ("atan", ""),
    ("erf", ""),
    ("powf", "write `pow({x}, {y})`"),
    ("powi", "multiply, or write `pow({x}, ({y}) as f32)`"),
    ("rint", "write `round_ties_even({x})`"),
    ("exp10", "write `exp2(3.3219281 * ({x}))`"),
    ("log2", "write `(1.442695 * log({x}))`"),
    ("log10", "write `(0.4342945 * log({x}))`"),
    ("sigmoid", "write `(1.0 / (1.0 + exp(-({x}))))`"),
    ("popc", "write `count_ones({x})`"),
    ("clz", "write `leading_zeros({x})`"),
    ("ffs", "write `trailing_zeros({x})`, which counts from 0"),
    ("shfl_idx", "write `shfl({x}, {y})`"),
    ("atomic_cas", "there are `atomic_add`, `atomic_max` and `atomic_min`"),
    ("atomic_exch", "there are `atomic_add`, `atomic_max` and `atomic_min`"),
    ("relu", "write `max({x}, 0.0)`"),
    ("__expf", "write `fast::exp({x})`"),
    ("__logf", "write `fast::log({x})`"),
    ("expf", "write `exp({x})`"),
    ("__syncthreads", "write `sync_threads()`"),
    ("__syncwarp", "write `sync_warp()`"),
    ("thread_idx", "thread indices are bound at the beginning of the body: `let [tx] = threads([128]);`"),
    ("block_idx", "block indices are bound at the beginning of the body: `let [bx] = blocks([ceil_div(N, 128)]);`"),
    ("program_id", "block indices are bound at the beginning of the body: `let [bx] = blocks([ceil_div(N, 128)]);`"),
    ("atomic_sub", "of i32 and f32: `atomic_add(&mut s[i], -v)`"),
];

/// Functions of the language beside those of [`super::tile`], for "did you mean".
const FUNCTIONS: &[&str] = &[
    "blocks",
    "threads",
    "alloc_shared",
    "alloc_local",
    "alloc_fragment",
    "serial",
    "unroll",
    "vectorized",
    "pipelined",
    "parallel",
    "persistent",
    "cluster",
    "use_swizzle",
    "gemm",
    "thread_allreduce",
    "reduce",
    "warp_reduce",
    "shfl_xor",
    "shfl_down",
    "shfl_up",
    "shfl",
    "thread_argmax",
    "thread_argmin",
    "warp_argmax",
    "warp_argmin",
    "ballot",
    "any",
    "all",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "last_arriver",
    "cluster_reduce",
    "cluster_exchange",
    "sync_threads",
    "sync_warp",
    "lit",
    "ceil_div",
    "min",
    "max",
    "select",
    "device_print",
    "device_assert",
    "exp",
    "exp2",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "abs",
    "fma",
    "sin",
    "cos",
    "pow",
    "floor",
    "ceil",
    "trunc",
    "round",
    "round_ties_even",
    "is_nan",
    "mul_hi",
    "count_ones",
    "leading_zeros",
    "trailing_zeros",
    "to_bits",
    "fast::exp",
    "fast::exp2",
    "fast::log",
    "fast::recip",
    "fast::tanh",
    "fast::sin",
    "fast::cos",
];

/// Whether the language has a function of this name.
pub(crate) fn is_function(name: &str) -> bool {
    functions().any(|function| function == name)
}

fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().copied().chain(super::tile::FUNCTIONS.iter().map(|(name, _)| *name))
}

impl Parser {
    /// A form of a later version.
    pub(super) fn not_in_version(&mut self, range: impl Into<Range>, form: &str, help: &str) {
        let at = self.mark(range);
        let mut diagnostic =
            Diagnostic::new(Code::SYNTAX, at, format!("`{form}` is not in this version of the language"));
        if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        self.unsupported(diagnostic);
    }

    /// A call of something that is no function of the language.
    pub(super) fn unknown_function(&mut self, call: &ExprCall) {
        let Some(function) = function_name(&call.func) else {
            let help = "a kernel calls the functions of the language only";
            return self.syntax(&*call.func, "this call is not in the language", help);
        };
        let name = &function.name;
        if let Some((_, help)) = LATER.iter().find(|(later, _)| later == name) {
            // The help is about all of the call.
            let range = Range { first: function.range.first, last: call.paren_token.span.close() };
            let help = self.with_arguments(help, call);
            return self.not_in_version(range, &format!("{name}(..)"), &help);
        }
        let near = functions().map(|f| (distance(f, name), f)).min();
        // Of names of three letters nearly every one is near another.
        let near = near.filter(|(d, _)| *d <= 2.min(name.len() / 4));
        let help = match near {
            Some((_, near)) => format!("there is `{near}`"),
            None => {
                format!("write its body here, or make it a `#[tile_fn]` and name it: `#[tile_kernel(uses({name}))]`")
            }
        };
        self.syntax(function.range, format!("`{name}` is not a function of the language"), &help);
    }

    /// A method that values do not have.
    pub(super) fn outside_method(&mut self, call: &ExprMethodCall, name: &str) {
        let math =
            ["exp", "exp2", "sqrt", "tanh", "abs", "min", "max", "sin", "cos", "floor", "ceil", "trunc", "round"];
        let more = ["round_ties_even", "is_nan", "count_ones", "leading_zeros", "trailing_zeros", "to_bits"];
        let at = call.method.span();
        match name {
            "t" => self.syntax(
                at,
                "a transpose is not a value",
                "it is an operand of `gemm`: `gemm(&a_s, b_s.t(), &mut acc)`",
            ),
            "swizzle" | "policy" | "tf32" | "schedule" | "per_sm" | "contiguous" | "counter" | "tma" | "evict" => {
                let owner = match name {
                    "swizzle" => "let mut s = alloc_shared::<T>([BM, BK]).swizzle(B128);",
                    "policy" => "gemm(&a_s, b_s.t(), &mut acc).policy(FullRow);",
                    "tf32" => "gemm(&a_s, b_s.t(), &mut acc).tf32();",
                    "schedule" => "for k in pipelined(0..n, 4).schedule(Cooperative) { .. }",
                    "tma" | "evict" => "copy(src, dst).tma(false).evict(First);",
                    _ => "for [x, y] in persistent([m, n]).per_sm(2).contiguous() { .. }",
                };
                self.syntax(at, format!("`.{name}(..)` does not belong here"), owner);
            }
            "at" | "tile" | "at_mut" | "tile_mut" => {
                let message = format!("`.{name}(..)` is a part of a tensor, not a value");
                self.syntax(at, message, "it is an operand of `copy`; an element is `x[[i, j]]`");
            }
            "width" => self.syntax(at, "only a copy has a width", "copy(src, dst).width(8);"),
            "step_by" | "rev" | "map" | "sum" | "iter" => {
                self.syntax(at, format!("`.{name}(..)` is not in the language"), "use a `for` loop");
            }
            "len" | "shape" | "size" | "dim" => {
                let help = "an extent is a name in the tensor's type: `N` of a `Tensor<f32, (N,)>`";
                self.syntax(at, format!("`.{name}(..)` is not in the language"), help);
            }
            _ if math.contains(&name) || more.contains(&name) => self.method_of_function(call, name, name),
            "mul_add" => self.method_of_function(call, name, "fma"),
            "div_ceil" => self.method_of_function(call, name, "ceil_div"),
            "ln" => self.method_of_function(call, name, "log"),
            "powf" => self.method_of_function(call, name, "pow"),
            "powi" => self.syntax(at, "`.powi(..)` is not in the language", "multiply, or use `pow`"),
            "wrapping_add" | "wrapping_sub" | "wrapping_mul" => {
                let message = format!("`.{name}(..)` is not in the language");
                self.syntax(at, message, "`+`, `-` and `*` of i32 and u32 wrap");
            }
            _ => {
                let help = "values have `.cast::<T>()`; tensors have `.masked`, `.at` and `.tile`";
                self.syntax(at, format!("`.{name}(..)` is not in the language"), help);
            }
        }
    }

    /// A method that is a function of the language: the call as it is written here.
    fn method_of_function(&mut self, call: &ExprMethodCall, name: &str, function: &str) {
        let values = std::iter::once(&*call.receiver).chain(&call.args);
        let arguments: Vec<String> = values.map(|value| self.written(value, || value.to_token_stream())).collect();
        let arguments = arguments.join(", ");
        let range = Range { first: Range::from(&*call.receiver).first, last: call.paren_token.span.close() };
        let help = format!("write `{function}({arguments})`");
        self.syntax(range, format!("`.{name}(..)` is not in the language"), &help);
    }

    /// An expression of Rust that is not one of the language.
    pub(super) fn outside(&mut self, expr: &Expr) {
        let range = Range::from(expr);
        let (range, what, help): (Range, &str, &str) = match expr {
            Expr::Match(e) => (e.match_token.span.into(), "`match`", "use `if` and `else if`"),
            Expr::While(e) => (e.while_token.span.into(), "`while let`", "use `while` with a condition"),
            Expr::Loop(e) => {
                (e.loop_token.span.into(), "`loop` as a value", "make it a statement of its own, and assign a variable")
            }
            Expr::Closure(_) => (range, "a closure", "write its body where it is used"),
            Expr::Return(e) => (e.return_token.span.into(), "`return`", "put what follows into an `if`"),
            Expr::Break(e) => (
                e.break_token.span.into(),
                "`break` as a value",
                "make it a statement of its own: `if done { break; }`",
            ),
            Expr::Continue(e) => (e.continue_token.span.into(), "`continue`", "put what follows into an `if`"),
            Expr::Try(e) => (e.question_token.span.into(), "`?`", "use `if`"),
            Expr::Await(e) => (e.await_token.span.into(), "`await`", "remove it"),
            Expr::Async(e) => (e.async_token.span.into(), "`async`", "remove it"),
            Expr::Unsafe(e) => (e.unsafe_token.span.into(), "`unsafe`", "remove it: a kernel needs none"),
            Expr::Const(e) => (e.const_token.span.into(), "a `const` block", "a `let` of constants is a constant"),
            Expr::TryBlock(e) => (e.try_token.span.into(), "a `try` block", "use `if`"),
            Expr::Let(e) => (e.let_token.span.into(), "`let` in a condition", "use a bool"),
            Expr::Array(e) => (e.bracket_token.span.into(), "an array as a value", "use `alloc_local::<f32>([n])`"),
            Expr::Repeat(e) => {
                (e.bracket_token.span.into(), "an array as a value", "use `alloc_local::<f32>([n])` and `fill`")
            }
            Expr::Tuple(e) if e.elems.is_empty() => (e.paren_token.span.into(), "`()`", "remove it"),
            Expr::Tuple(e) => (e.paren_token.span.into(), "a tuple", "bind each value with a `let` of its own"),
            Expr::Struct(e) => (Range::from(&e.path), "a struct", "bind each value with a `let` of its own"),
            Expr::Field(_) => (range, "a field", "bind each value with a `let` of its own"),
            Expr::Reference(e) => (e.and_token.span.into(), "a reference", "pass the value itself"),
            Expr::RawAddr(e) => (e.and_token.span.into(), "a raw pointer", "index the tensor: `x[i]`"),
            Expr::Range(e) => {
                let limits: Range = match &e.limits {
                    RangeLimits::HalfOpen(dots) => Range { first: dots.spans[0], last: dots.spans[1] },
                    RangeLimits::Closed(dots) => Range { first: dots.spans[0], last: dots.spans[2] },
                };
                (limits, "a range as a value", "ranges stand in `for` loops and `.tile(..)`")
            }
            Expr::Assign(e) => (
                e.eq_token.span.into(),
                "an assignment as a value",
                "assign in a statement of its own; to compare, write `==`",
            ),
            Expr::ForLoop(e) => (e.for_token.span.into(), "a loop as a value", "make it a statement of its own"),
            Expr::Infer(e) => (e.underscore_token.span.into(), "`_` as a value", "name the value"),
            Expr::Macro(e) => return self.outside_macro(&e.mac),
            _ => (range, "this expression", "see the grammar in the book"),
        };
        self.syntax(range, format!("{what} is not in the language"), help);
    }

    /// A macro call.
    pub(super) fn outside_macro(&mut self, mac: &Macro) {
        let name = mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let help = match name.as_str() {
            "println" | "print" | "eprintln" | "eprint" | "dbg" => "use `device_print(\"i = {}\", i)`",
            "assert" | "assert_eq" | "assert_ne" | "debug_assert" | "panic" | "unreachable" | "todo" => {
                "use `device_assert(condition, \"message\")`"
            }
            "vec" => "use `alloc_local::<f32>([n])`",
            _ => "write what it stands for",
        };
        self.syntax(Range::from(&mac.path), format!("macro `{name}!` is not in the language"), help);
    }

    /// An item in a body.
    pub(super) fn outside_item(&mut self, item: &Item) {
        use syn::spanned::Spanned;
        let (what, help) = match item {
            Item::Const(_) => ("a `const` item", "a `let` of constants is a constant: `let n = 128 / T::BITS;`"),
            Item::Static(_) => ("a `static` item", "use `alloc_shared`"),
            Item::Fn(_) => ("a function in a kernel", "write its body where it is used"),
            Item::Use(_) => ("`use` in a kernel", "move it above the kernel"),
            _ => ("an item in a kernel", "move it above the kernel"),
        };
        if let Item::Const(constant) = item {
            self.bind(constant.ident.to_string(), super::Binding::Poison);
        }
        self.syntax(item.span(), format!("{what} is not in the language"), help);
    }
}

/// The number of single-character edits between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(32).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

impl Parser {
    /// A help with the arguments of the call that it is about, or with letters where there are fewer.
    fn with_arguments(&mut self, help: &str, call: &ExprCall) -> String {
        let mut help = help.to_owned();
        for (at, letter) in ["x", "y"].into_iter().enumerate() {
            let text = call.args.get(at).map(|value| self.written(value, || value.to_token_stream()));
            help = help.replace(&format!("{{{letter}}}"), text.as_deref().unwrap_or(letter));
        }
        help
    }

    /// What an author wrote at a place: the text of its line, or where it has several lines its tokens.
    pub(super) fn written(&mut self, range: impl Into<Range>, tokens: impl Fn() -> TokenStream) -> String {
        let at = self.mark(range);
        let line = self.kernel.spans.get(at).and_then(|span| advice::text(&self.kernel.source, *span));
        line.map_or_else(|| source::text(&tokens()), str::to_owned)
    }
}
