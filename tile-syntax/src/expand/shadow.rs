//! The shadow: the author's body as a function that is never called, so that rustc checks names, types, mutability
//! and moves, and an editor has something to show.
//!
//! Some forms of the language are not Rust as they stand, because Rust evaluates or borrows in another order:
//! `s[t] += s[t + 64]` becomes `{ let r = s[t + 64]; s[t] += r; }`, and in `atomic_add(&mut s[t], s[t + 1])` the value
//! is computed first. In a function an array parameter `a` of type `&mut` is passed on as `&mut *a`: Rust borrows it again by itself only
//! where the callee's parameter says `&mut`, and `copy`'s says `impl CopyDestination`. `device_print` takes any number of arguments, which a Rust function cannot. All tokens keep
//! their places.

use super::place::before;
use super::signature::{Param, ParamKind, Signature};
use crate::parse::Parsed;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, ExprCall, Type, TypeParamBound};
use tile_ir::ir::Dtype;

/// Who sees a shadow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// rustc and editors.
    ToAll,
    /// rust-analyzer alone: the author is told already what rustc would tell again, but while a name is being typed it is
    /// unknown, and its completion comes from the shadow.
    ToEditors,
}

impl Shown {
    /// The condition under which a function is there. Either is as long as the other: `super::kernel` says why. What it
    /// stands in allows `unexpected_cfgs`.
    pub(super) fn condition(self) -> TokenStream {
        match self {
            Shown::ToAll => quote!(#[cfg(any(rust_analyzer, all()))]),
            Shown::ToEditors => quote!(#[cfg(any(rust_analyzer, any()))]),
        }
    }
}

/// The shadow of a kernel.
pub(super) fn function(signature: &Signature<'_>, parsed: &Parsed, shown: Shown) -> TokenStream {
    let Signature { name, runtime, dims, .. } = signature;
    let levels = signature.attributes(&["allow", "expect", "warn", "deny", "forbid", "cfg"]);
    let types = signature.types.iter().map(|parameter| {
        let bound = dtype_bound(parsed, &parameter.ident);
        let (ident, bounds) = (&parameter.ident, &parameter.bounds);
        match parameter.bounds.iter().any(|b| names(b, &bound)) {
            true => quote!(#ident: #bounds),
            false if bounds.is_empty() => quote!(#ident: #runtime::dsl::#bound),
            false => quote!(#ident: #bounds + #runtime::dsl::#bound),
        }
    });
    let consts = signature.consts.iter().map(|c| {
        let (name, ty) = (c.name, c.ty());
        quote!(const #name: #ty)
    });
    let params = signature.params.iter().map(|p| parameter(signature, p));
    let requires = parsed.attribute.requires.iter().map(|condition| quote!(let _: bool = #condition;));
    let mut block = (*signature.function.block).clone();
    let optional = optional(signature.function);
    Rewrite { runtime, references: vec![], optional }.visit_block_mut(&mut block);
    let body = &block.stmts;
    let sig = &signature.function.sig;
    let function = &sig.fn_token;
    let params = in_parentheses(sig.paren_token.span, quote!(#(#params),*));
    let generics = quote!(#(#types,)* #(#consts,)* #(const #dims: ::core::primitive::usize,)*);
    let generics = match (&sig.generics.lt_token, &sig.generics.gt_token) {
        (Some(open), Some(close)) => quote!(#open #generics #close),
        _ => quote!(<#generics>),
    };
    let at = signature.function.block.brace_token.span.join();
    // The kernel's name is the struct's in an editor.
    let mut beside = (*name).clone();
    beside.set_span(before(name.span()));
    let own = calls(&signature.function.block, name).then(|| quote!(use #runtime::dsl::#beside;));
    let condition = shown.condition();
    let braced = quote_spanned! {at=> {
        #own
        #(#requires)*
        #(#body)*
    }};
    quote! {
        #[allow(unexpected_cfgs)]
        const _: () = {
            // Outside of the function, so that a parameter called `min` hides the function `min`, as it does in Rust.
            #[allow(unused_imports)]
            use #runtime::dsl::*;
            // Warnings whose cause is the form of the shadow, not the author's text.
            #[allow(
                dead_code, clippy::all, clippy::pedantic, clippy::nursery, non_camel_case_types, non_snake_case,
                non_upper_case_globals, unused_braces, unused_parens
            )]
            #(#levels)*
            #condition
            #function #beside #generics #params #braced
        };
    }
}

/// Whether a body calls what has the kernel's own name. A kernel does not call itself, so a kernel `exp` means the
/// language's `exp`.
fn calls(block: &syn::Block, name: &Ident) -> bool {
    struct Calls<'a>(&'a Ident, bool);
    impl<'a> Visit<'a> for Calls<'_> {
        fn visit_expr_call(&mut self, call: &'a ExprCall) {
            self.1 |= matches!(&*call.func, Expr::Path(path) if path.path.is_ident(self.0));
            visit::visit_expr_call(self, call);
        }
    }
    let mut calls = Calls(name, false);
    calls.visit_block(block);
    calls.1
}

pub(super) fn in_parentheses(span: proc_macro2::extra::DelimSpan, tokens: TokenStream) -> TokenStream {
    let mut group = Group::new(Delimiter::Parenthesis, tokens);
    group.set_span(span.join());
    group.into_token_stream()
}

/// The trait of the values a dtype parameter ranges over: what all of them can do.
pub(super) fn dtype_bound(parsed: &Parsed, name: &Ident) -> Ident {
    let declared = parsed.kernel.type_params.values().find(|p| name == &p.name);
    let allowed = declared.map_or(&[][..], |p| &p.allowed);
    let all = |holds: fn(Dtype) -> bool| !allowed.is_empty() && allowed.iter().all(|d| holds(*d));
    let bound = if all(Dtype::is_half) {
        "Half"
    } else if all(Dtype::is_float) {
        "Float"
    } else if all(Dtype::is_int) {
        "Integer"
    } else if allowed.iter().all(|d| d.has_arithmetic()) {
        "Number"
    } else {
        "Value"
    };
    format_ident!("{bound}")
}

pub(super) fn names(bound: &TypeParamBound, name: &Ident) -> bool {
    matches!(bound, TypeParamBound::Trait(t) if t.path.segments.last().is_some_and(|s| s.ident == *name))
}

/// A parameter: a tensor has its rank for its shape.
fn parameter(signature: &Signature<'_>, param: &Param<'_>) -> TokenStream {
    let (name, runtime) = (param.name, &signature.runtime);
    match param.kind {
        ParamKind::Scalar { ty } => quote!(#name: #ty),
        ParamKind::Tensor { element, rank, written, path, option, .. } => {
            let Type::Reference(reference) = written else { return quote!(#name: #written) };
            let (and, mutability) = (&reference.and_token, &reference.mutability);
            // The author's own `Tensor`, so that an editor shows the shadow's documentation on it; and from the first
            // to the last token the author's places, because rustc proposes changes to it.
            let at = Span::call_site().located_at(path.span());
            let (open, close) = brackets(reference);
            let module = respanned(quote!(#runtime::dsl::), before(at));
            let rank = quote_spanned!(at=> #rank);
            let tensor = quote_spanned!(at=> #and #mutability #module #path #open #element, #rank #close);
            match option {
                Some(_) => quote_spanned!(at=> #name: ::core::option::Option<#tensor>),
                None => quote_spanned!(at=> #name: #tensor),
            }
        }
    }
}

/// The `<` and `>` of `&Tensor<..>`.
fn brackets(reference: &syn::TypeReference) -> (TokenStream, TokenStream) {
    if let Type::Path(path) = &*reference.elem
        && let Some(segment) = path.path.segments.last()
        && let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
    {
        return (arguments.lt_token.to_token_stream(), arguments.gt_token.to_token_stream());
    }
    (quote!(<), quote!(>))
}

/// The path at another place.
pub(super) fn respanned(path: TokenStream, at: Span) -> TokenStream {
    let place = |mut token: proc_macro2::TokenTree| {
        token.set_span(at);
        token
    };
    path.into_iter().map(place).collect()
}

pub(super) struct Rewrite<'a> {
    pub(super) runtime: &'a TokenStream,
    /// The parameters that are references to what the body may write, where the body gives their names to nothing else.
    pub(super) references: Vec<Ident>,
    /// The parameters of type `Option<&mut ..>`.
    pub(super) optional: Vec<Ident>,
}

/// The parameters of a kernel or function of type `Option<&mut ..>`, without those whose names a `let` or a loop of the body takes.
pub(super) fn optional(function: &syn::ItemFn) -> Vec<Ident> {
    struct Taken(Vec<Ident>);
    impl<'a> Visit<'a> for Taken {
        fn visit_local(&mut self, local: &'a syn::Local) {
            self.0.extend(bound(&local.pat));
            visit::visit_local(self, local);
        }
        fn visit_expr_for_loop(&mut self, each: &'a syn::ExprForLoop) {
            self.0.extend(bound(&each.pat));
            visit::visit_expr_for_loop(self, each);
        }
    }
    let mut taken = Taken(vec![]);
    taken.visit_block(&function.block);
    let optional = |input: &syn::FnArg| {
        let syn::FnArg::Typed(syn::PatType { pat, ty, .. }) = input else { return None };
        let (syn::Pat::Ident(name), Type::Path(path)) = (&**pat, &**ty) else { return None };
        let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
        let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
        let syn::GenericArgument::Type(Type::Reference(inside)) = arguments.args.first()? else { return None };
        inside.mutability.is_some().then(|| name.ident.clone())
    };
    function.sig.inputs.iter().filter_map(optional).filter(|name| !taken.0.contains(name)).collect()
}

/// The names that patterns bind.
struct Names(Vec<Ident>);

impl<'a> Visit<'a> for Names {
    fn visit_pat_ident(&mut self, pattern: &'a syn::PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

/// The names that a pattern binds.
fn bound(pattern: &syn::Pat) -> Vec<Ident> {
    let mut names = Names(vec![]);
    names.visit_pat(pattern);
    names.0
}

/// A function's parameters of type `&mut`, without those whose names a `let`, a loop or a pattern of the body takes.
pub(super) fn references(function: &syn::ItemFn) -> Vec<Ident> {
    let mut taken = Names(vec![]);
    taken.visit_block(&function.block);
    let reference = |input: &syn::FnArg| match input {
        syn::FnArg::Typed(syn::PatType { pat, ty, .. }) => match (&**pat, &**ty) {
            (syn::Pat::Ident(name), Type::Reference(ty)) if ty.mutability.is_some() => Some(name.ident.clone()),
            _ => None,
        },
        syn::FnArg::Receiver(_) => None,
    };
    function.sig.inputs.iter().filter_map(reference).filter(|name| !taken.0.contains(name)).collect()
}

impl VisitMut for Rewrite<'_> {
    /// In the branch of `if let Some(sums) = sums` the name is the tensor's.
    fn visit_expr_if_mut(&mut self, branch: &mut syn::ExprIf) {
        let taken = match &*branch.cond {
            Expr::Let(condition) => bound(&condition.pat),
            _ => vec![],
        };
        self.visit_expr_mut(&mut branch.cond);
        let outside = self.optional.clone();
        self.optional.retain(|name| !taken.contains(name));
        self.visit_block_mut(&mut branch.then_branch);
        self.optional = outside;
        if let Some((_, otherwise)) = &mut branch.else_branch {
            self.visit_expr_mut(otherwise);
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if let Expr::Call(call) = expr {
            self.borrow_again(call);
        }
        if let Expr::Let(condition) = expr {
            self.lend(condition);
        }
        let rewritten = match expr {
            Expr::Binary(binary) if is_compound(&binary.op) => {
                let (lhs, op, rhs) = (&binary.left, &binary.op, &binary.right);
                let value = Ident::new("value", Span::mixed_site());
                quote!({ let #value = #rhs; #lhs #op #value; })
            }
            Expr::Call(call) if is_print(call) => self.print(call),
            Expr::Call(call) => match values_first(call) {
                Some(tokens) => tokens,
                None => return,
            },
            _ => return,
        };
        *expr = Expr::Verbatim(rewritten);
    }
}

impl Rewrite<'_> {
    /// Passes references of parameters, and optional tensors, on for the call alone.
    fn borrow_again(&self, call: &mut ExprCall) {
        for argument in &mut call.args {
            if let Some(lent) = self.lent(argument) {
                *argument = lent;
            }
            let name = match &*argument {
                Expr::Path(path) => self.references.iter().find(|name| path.path.is_ident(*name)),
                _ => None,
            };
            if let (Some(_), Expr::Path(path)) = (name, &*argument) {
                let at = path.path.get_ident().map_or_else(Span::call_site, Ident::span);
                let again: Expr = syn::parse_quote_spanned!(at=> &mut *#path);
                *argument = again;
            }
        }
    }

    /// `if let Some(x) = sums` borrows an optional tensor for its branch alone, so that it may stand in a loop.
    fn lend(&self, condition: &mut syn::ExprLet) {
        if let Some(lent) = self.lent(&condition.expr) {
            *condition.expr = lent;
        }
    }

    /// An optional tensor that is written, borrowed; none where the expression is something else.
    fn lent(&self, expr: &Expr) -> Option<Expr> {
        let Expr::Path(path) = expr else { return None };
        let name = self.optional.iter().find(|name| path.path.is_ident(*name))?;
        let at = Span::call_site().located_at(path.path.get_ident().unwrap_or(name).span());
        let runtime = respanned(self.runtime.clone(), at);
        Some(Expr::Verbatim(quote_spanned!(at=> #runtime::dsl::lend(&#path))))
    }

    /// Checks each argument by itself.
    fn print(&self, call: &ExprCall) -> TokenStream {
        let (function, runtime) = (&call.func, self.runtime);
        let format = call.args.first();
        let arguments = call.args.iter().skip(1);
        quote!(({ #function(#format); #(#runtime::dsl::printed(#arguments);)* }))
    }
}

/// The call with every value that follows a `&mut` argument computed before it; `None` where there is no such.
fn values_first(call: &ExprCall) -> Option<TokenStream> {
    let is_borrow = |a: &Expr| matches!(a, Expr::Reference(r) if r.mutability.is_some());
    let borrow = call.args.iter().position(is_borrow)?;
    let needs = |a: &Expr| !matches!(a, Expr::Reference(_) | Expr::Lit(_) | Expr::Path(_));
    if !call.args.iter().skip(borrow).any(needs) {
        return None;
    }
    let mut lets = TokenStream::new();
    let mut arguments = vec![];
    for (index, argument) in call.args.iter().enumerate() {
        if index > borrow && needs(argument) {
            let value = format_ident!("value_{index}", span = Span::mixed_site());
            lets.extend(quote!(let #value = #argument;));
            arguments.push(value.into_token_stream());
        } else {
            arguments.push(argument.into_token_stream());
        }
    }
    let function = &call.func;
    let arguments = in_parentheses(call.paren_token.span, quote!(#(#arguments),*));
    Some(quote!(({ #lets #function #arguments })))
}

fn is_print(call: &ExprCall) -> bool {
    matches!(&*call.func, Expr::Path(path) if path.path.is_ident("device_print")) && call.args.len() > 1
}

fn is_compound(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}
