//! Diagnostics at the author's own tokens.

use crate::parse::{Call, Parsed};
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::SpanId;

/// The tokens that make rustc report diagnostics.
pub(super) struct Emitted {
    /// `compile_error!`s and warnings.
    pub(super) tokens: TokenStream,
    /// Whether there is an error among them.
    pub(super) any: bool,
}

/// Makes rustc report `diagnostics`: each as an error, except that a lint is what `lints(..)` says.
pub(super) fn emit(parsed: &Parsed, diagnostics: &[Diagnostic]) -> Emitted {
    let mut emitted = Emitted { tokens: TokenStream::new(), any: false };
    for diagnostic in diagnostics {
        let diagnostic = &with_calls(parsed, diagnostic);
        let (first, last) = place(parsed, diagnostic);
        let text = diagnostic.compiler_text(&parsed.kernel);
        match level(parsed, diagnostic) {
            Level::Off => {}
            Level::Warn => emitted.tokens.extend(warning(first, diagnostic.code, &text)),
            Level::Deny => {
                emitted.any = true;
                emitted.tokens.extend(compile_error(first, last, &text));
            }
        }
    }
    emitted
}

/// A diagnostic about a place in a `#[tile_fn]`, with the calls that wrote it out. In a dependency's function, whose lines
/// the author cannot change, it is the call that is pointed to.
fn with_calls(parsed: &Parsed, diagnostic: &Diagnostic) -> Diagnostic {
    let mut diagnostic = diagnostic.clone();
    let call_of = |place: SpanId| parsed.calls.get(place.as_u32() as usize).copied().flatten();
    let mut call = call_of(diagnostic.primary);
    if let Some(Call { at, foreign: true }) = call {
        let place = std::mem::replace(&mut diagnostic.primary, at);
        let line = |place: SpanId| parsed.kernel.spans.get(place).map(|span| (span.text, span.line));
        if diagnostic.labels.iter().all(|(other, _)| line(*other) != line(place)) {
            diagnostic.labels.insert(0, (place, "in the function that is called".to_owned()));
        }
        call = call_of(at);
    }
    while let Some(Call { at, .. }) = call {
        diagnostic.labels.push((at, "called here".to_owned()));
        call = call_of(at);
    }
    diagnostic
}

/// Whether the author is shown a diagnostic, as an error or a warning.
pub(crate) fn is_shown(parsed: &Parsed, diagnostic: &Diagnostic) -> bool {
    !matches!(level(parsed, diagnostic), Level::Off)
}

enum Level {
    Off,
    Warn,
    Deny,
}

/// Errors are errors. An access that only the compiler guards and memory without a use are warnings; performance lints are off unless the author asks
/// for them.
fn level(parsed: &Parsed, diagnostic: &Diagnostic) -> Level {
    if !diagnostic.code.is_lint() {
        return Level::Deny;
    }
    let code = diagnostic.code.to_string();
    match parsed.kernel.attributes.lints.iter().rev().find(|(name, _)| *name == code) {
        Some((_, level)) if level == "deny" => Level::Deny,
        Some((_, level)) if level == "warn" => Level::Warn,
        None if matches!(diagnostic.code, Code::UNGUARDED | Code::SIGN | Code::UNUSED | Code::TARGET_REFUSED) => {
            Level::Warn
        }
        _ => Level::Off,
    }
}

/// First and last token of the primary place. A diagnostic about nothing in particular is about the kernel's name.
fn place(parsed: &Parsed, diagnostic: &Diagnostic) -> (Span, Span) {
    let index = diagnostic.primary.as_u32() as usize;
    match (parsed.spans.get(index), parsed.ends.get(index), &parsed.item) {
        (Some(&first), Some(&last), _) => (first, last),
        (_, _, Some(item)) => (item.sig.ident.span(), item.sig.ident.span()),
        _ => (Span::call_site(), Span::call_site()),
    }
}

/// `::core::compile_error! { "text" }` whose first tokens stand at `first` and whose last stand at `last`: rustc
/// underlines everything between.
fn compile_error(first: Span, last: Span, text: &str) -> TokenStream {
    let mut tokens: Vec<TokenTree> = Vec::with_capacity(8);
    for name in ["core", "compile_error"] {
        tokens.extend([Punct::new(':', Spacing::Joint).into(), Punct::new(':', Spacing::Alone).into()]);
        tokens.push(Ident::new(name, first).into());
    }
    tokens.push(Punct::new('!', Spacing::Alone).into());
    tokens.push(Group::new(Delimiter::Brace, TokenTree::from(Literal::string(text)).into()).into());
    let name_end = tokens.len() - 2;
    for (index, token) in tokens.iter_mut().enumerate() {
        token.set_span(if index < name_end { first } else { last });
    }
    tokens.into_iter().collect()
}

/// A warning, which stable Rust can only make from the use of something deprecated.
fn warning(at: Span, code: Code, text: &str) -> TokenStream {
    let text = Literal::string(text);
    let name = match code {
        Code::UNGUARDED | Code::SIGN => "unguarded_access",
        Code::UNUSED => "unused_memory",
        Code::TARGET_REFUSED => "refused_target",
        _ => "performance_lint",
    };
    let lint = Ident::new(name, at);
    let declared = Ident::new(name, Span::call_site());
    quote_spanned! {at=>
        const _: () = {
            #[deprecated(note = #text)]
            #[allow(non_upper_case_globals)]
            const #declared: () = ();
            #lint
        };
    }
}
