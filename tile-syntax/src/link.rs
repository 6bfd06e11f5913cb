//! How a kernel gets at the bodies of the `#[tile_fn]`s that it calls.
//!
//! A macro sees the tokens of its own item only. So `#[tile_fn] fn f` also makes a macro `f!`, in the namespace of macros
//! and under the same path, which hands the function's tokens on:
//!
//! ```text
//!  #[tile_kernel(uses(f, m::g))] fn k  ──▶  f! { state }  ──▶  link_step! { state, tokens of f }
//!                                      ──▶  m::g! { state }  ──▶  link_step! { state, tokens of g }  ──▶  the expansion
//! ```
//!
//! All of it happens in one expansion, so that mistakes are found while typing; tokens keep their places, so that they
//! are shown where they are written. A function that calls others is linked with them first, and carries them along.
//!
//! The caller may be of another crate. Then what the carrier hands on is all that it can count on: the step is found by
//! the caller's path of the runtime, which leads the state, and the content says which package and which version of this
//! protocol it comes from.

use crate::expand;
use crate::parse::{Origin, TileFunction};
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::rc::Rc;

/// What is being linked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kernel,
    Function,
}

/// A link in progress: everything as tokens, so that it survives the way through other macros.
struct State {
    kind: Kind,
    attribute: TokenStream,
    item: TokenStream,
    /// The paths whose tokens are still to come.
    remaining: Vec<TokenStream>,
    /// `{path} {tokens}` of each that came.
    found: TokenStream,
}

/// The expansion of `#[tile_kernel(attribute)] item`.
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    start(Kind::Kernel, attribute, item)
}

/// The expansion of `#[tile_fn(attribute)] item`.
pub fn function(attribute: TokenStream, item: TokenStream) -> TokenStream {
    start(Kind::Function, attribute, item)
}

fn start(kind: Kind, attribute: TokenStream, item: TokenStream) -> TokenStream {
    let itself = if kind == Kind::Function { item_name(&item) } else { None };
    let (used, _) = entries(&attribute);
    // One that calls itself is reported where it does.
    let remaining = used.into_iter().filter(|p| Some(p.to_string()) != itself).collect();
    State { kind, attribute, item, remaining, found: TokenStream::new() }.next()
}

/// A step: the state with the tokens that were asked for. Anything else is nobody's call and gives nothing.
pub fn step(tokens: TokenStream) -> TokenStream {
    match State::from_tokens(tokens) {
        Some(state) => state.next(),
        None => TokenStream::new(),
    }
}

impl State {
    fn next(self) -> TokenStream {
        if let Some(path) = self.remaining.first() {
            let state = self.to_tokens();
            return quote!(#path! { #state });
        }
        let functions = found(self.found.clone());
        match self.kind {
            Kind::Kernel => expand::kernel(self.attribute, self.item, functions),
            Kind::Function => expand::function(self.attribute, self.item, functions, &self.found),
        }
    }

    fn to_tokens(&self) -> TokenStream {
        let State { kind, attribute, item, remaining, found } = self;
        let kind = match kind {
            Kind::Kernel => quote!(kernel),
            Kind::Function => quote!(function),
        };
        let (_, runtime) = entries(attribute);
        quote!({#runtime} #kind {#attribute} {#item} {#(#remaining),*} {#found})
    }

    /// The state that [`State::to_tokens`] made and a carrier (`expand::function`) added the function's tokens to.
    fn from_tokens(tokens: TokenStream) -> Option<State> {
        let mut tokens = tokens.into_iter();
        let _runtime = group(tokens.next())?;
        let kind = match tokens.next()? {
            TokenTree::Ident(word) if word == "kernel" => Kind::Kernel,
            TokenTree::Ident(word) if word == "function" => Kind::Function,
            _ => return None,
        };
        let (attribute, item) = (group(tokens.next())?, group(tokens.next())?);
        let mut remaining = paths(group(tokens.next())?);
        let mut found = group(tokens.next())?;
        let (path, content) = (remaining.first()?.clone(), group(tokens.next())?);
        remaining.remove(0);
        found.extend(quote!({#path} {#content}));
        Some(State { kind, attribute, item, remaining, found })
    }
}

/// The version of what [`content`] makes and [`found`] reads. A crate compiled by other macros may hand on another.
const VERSION: u32 = 1;

/// The functions in `{path} {version package sound {attribute} {item} {functions}}` of each.
fn found(tokens: TokenStream) -> Rc<[Rc<TileFunction>]> {
    let mut tokens = tokens.into_iter();
    let mut all = vec![];
    while let (Some(path), Some(content)) = (group(tokens.next()), group(tokens.next())) {
        let path: Vec<TokenTree> = path.into_iter().collect();
        let Some(path) = self::path(&path) else { continue };
        all.push(Rc::new(function_of(path.clone(), content).unwrap_or(TileFunction::of_another_version(path))));
    }
    all.into()
}

/// The function that a content says, where it is one of this version.
fn function_of(path: String, content: TokenStream) -> Option<TileFunction> {
    let mut content = content.into_iter();
    match content.next()? {
        TokenTree::Literal(version) if version.to_string() == VERSION.to_string() => {}
        _ => return None,
    }
    let foreign = content.next()?.to_string() != package().to_string();
    let sound = matches!(content.next()?, TokenTree::Ident(word) if word == "sound");
    let (attribute, item) = (group(content.next())?, group(content.next())?);
    let uses = found(group(content.next())?);
    let origin = if foreign { Origin::AnotherPackage } else { Origin::ThisPackage };
    Some(TileFunction::new(path, origin, sound, attribute, item, uses))
}

/// The package being compiled, as cargo names it: one text for all of its crates, and the same on every machine.
fn package() -> Literal {
    let variable = |name| std::env::var(name).unwrap_or_default();
    Literal::string(&format!("{} {}", variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION")))
}

/// The paths of `uses(..)`, and where the runtime is (`crate = path`).
fn entries(attribute: &TokenStream) -> (Vec<TokenStream>, TokenStream) {
    let tokens: Vec<TokenTree> = attribute.clone().into_iter().collect();
    let (mut used, mut runtime) = (vec![], quote!(::tile_runtime));
    for item in tokens.split(|t| matches!(t, TokenTree::Punct(comma) if comma.as_char() == ',')) {
        match item {
            [TokenTree::Ident(word), TokenTree::Group(list)] if word == "uses" => used.extend(paths(list.stream())),
            [TokenTree::Ident(word), TokenTree::Punct(_), path @ ..]
                if word == "crate" && self::path(path).is_some() =>
            {
                runtime = path.iter().cloned().collect();
            }
            _ => {}
        }
    }
    (used, runtime)
}

/// The runtime's path, in an attribute.
pub fn runtime(attribute: &TokenStream) -> TokenStream {
    entries(attribute).1
}

/// The paths of a list; what is none is left out.
fn paths(tokens: TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let items = tokens.split(|t| matches!(t, TokenTree::Punct(comma) if comma.as_char() == ','));
    items.filter(|item| path(item).is_some()).map(|item| item.iter().cloned().collect()).collect()
}

/// The paths of `uses(..)`, as text.
#[cfg(test)]
pub fn used(attribute: &TokenStream) -> Vec<String> {
    let paths = entries(attribute).0;
    paths.into_iter().filter_map(|p| path(&p.into_iter().collect::<Vec<_>>())).collect()
}

/// The text of a path without generic arguments.
pub fn path(tokens: &[TokenTree]) -> Option<String> {
    let path: syn::Path = syn::parse2(tokens.iter().cloned().collect()).ok()?;
    path.segments.iter().all(|s| s.arguments.is_none()).then(|| name(&path))
}

/// A path as text: `epilogue::scale`.
pub fn name(path: &syn::Path) -> String {
    let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    format!("{}{}", if path.leading_colon.is_some() { "::" } else { "" }, segments.join("::"))
}

fn group(token: Option<TokenTree>) -> Option<TokenStream> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}

/// The name after `fn`.
fn item_name(item: &TokenStream) -> Option<String> {
    let mut tokens = item.clone().into_iter();
    tokens.find(|t| matches!(t, TokenTree::Ident(word) if word == "fn"))?;
    tokens.next().map(|name| name.to_string())
}

/// What a carrier adds to a state.
pub fn content(attribute: &TokenStream, item: &TokenStream, uses: &TokenStream, sound: bool) -> TokenStream {
    let word = Ident::new(if sound { "sound" } else { "damaged" }, Span::call_site());
    let (version, package) = (Literal::u32_unsuffixed(VERSION), package());
    let content = quote!(#version #package #word {#attribute} {#item} {#uses});
    Group::new(Delimiter::Brace, content).into_token_stream()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "fn k(x: &mut Tensor<f32, (N,)>) {
        let [b] = blocks([ceil_div(N, 32)]); let [t] = threads([32]);
        if b * 32 + t < N { x[b * 32 + t] = m::twice(x[b * 32 + t]); }
    }";

    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("the test's text is made of tokens")
    }

    /// What a carrier makes of the state it is given.
    fn carried(asked: TokenStream, function: &str, sound: bool) -> TokenStream {
        let state: Vec<TokenTree> = asked.into_iter().collect();
        let Some(TokenTree::Group(state)) = state.last() else { panic!("a macro is called") };
        let mut state = state.stream();
        state.extend(content(&TokenStream::new(), &tokens(function), &TokenStream::new(), sound));
        state
    }

    #[test]
    fn a_kernel_gets_the_functions_it_names() {
        let asked = kernel(tokens("uses(m::twice)"), tokens(KERNEL));
        assert!(asked.to_string().replace(' ', "").starts_with("m::twice!{"), "{asked}");
        let expansion = step(carried(asked, "fn twice(x: f32) -> f32 { x + x }", true)).to_string();
        assert!(!expansion.contains("compile_error") && expansion.contains("struct k"), "{expansion}");
    }

    #[test]
    fn what_is_wrong_with_a_function_is_said_where_it_is_defined() {
        let asked = kernel(tokens("uses(m::twice)"), tokens(KERNEL));
        let damaged = step(carried(asked, "fn twice(x: f32) -> f32 { loop {} }", false)).to_string();
        assert!(!damaged.contains("compile_error"), "{damaged}");
        let defined = function(TokenStream::new(), tokens("fn twice(x: f32) -> f32 { loop {} }")).to_string();
        assert_eq!(defined.matches("[TK").count(), 1, "{defined}");
        assert!(defined.contains("damaged"), "kernels are told: {defined}");
    }

    #[test]
    fn tokens_of_another_version_are_not_read() {
        for (attribute, item) in [("uses(m::twice)", KERNEL), ("uses(m::twice)", "fn f(x: f32) -> f32 { m::twice(x) }")]
        {
            let asked = match item {
                KERNEL => kernel(tokens(attribute), tokens(item)),
                _ => function(tokens(attribute), tokens(item)),
            };
            let carried = carried(asked, "fn twice(x: f32) -> f32 { x + x }", true);
            let mut state: Vec<TokenTree> = carried.into_iter().collect();
            state.pop();
            state.extend(tokens("{ 2 something else }"));
            let expansion = step(state.into_iter().collect()).to_string();
            assert_eq!(expansion.matches("compile_error ! { \"[TK").count(), 1, "{expansion}");
            assert!(expansion.contains("the crate of `m::twice` was compiled with another version"), "{expansion}");
        }
    }

    /// The names of the macros in an expansion, without those of the language.
    fn carriers(expansion: TokenStream) -> Vec<String> {
        let words: Vec<String> = expansion.to_string().split_whitespace().map(str::to_owned).collect();
        words.windows(3).filter(|w| w[0] == "macro_rules" && w[1] == "!").map(|w| w[2].clone()).collect()
    }

    #[test]
    fn exported_macros_have_names_of_their_own() {
        let twice = tokens("pub fn twice(x: f32) -> f32 { x + x }");
        let made = || carriers(function(TokenStream::new(), twice.clone()));
        let (first, second) = (made(), made());
        assert_eq!(second, [format!("{}_1", first[0])], "one that an author's macro makes again");
        let other = carriers(function(TokenStream::new(), tokens("pub fn twice(x: f32) -> f32 { 2.0 * x }")));
        assert!(other != first && other[0].starts_with("__tile_fn_twice_"), "{other:?}");
        let private = carriers(function(TokenStream::new(), tokens("fn twice(x: f32) -> f32 { x + x }")));
        assert_eq!(private, ["tile_fn_twice"], "nothing of it is seen outside");
    }

    #[test]
    fn a_function_that_calls_itself_does_not_wait_for_itself() {
        let itself = function(tokens("uses(f)"), tokens("fn f(x: f32) -> f32 { f(x) }")).to_string();
        assert!(itself.contains("calls itself"), "{itself}");
    }

    #[test]
    fn any_tokens_give_tokens() {
        let asked = kernel(tokens("uses(m::twice)"), tokens(KERNEL));
        let state: Vec<TokenTree> = carried(asked, "fn twice(x: f32) -> f32 { x + x }", true).into_iter().collect();
        for end in 0..=state.len() {
            for start in 0..=end {
                let _ = step(state[start..end].iter().cloned().collect()).to_string();
            }
        }
    }
}
