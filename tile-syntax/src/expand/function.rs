//! A `#[tile_fn]`: a function that rustc checks and nothing calls, and a macro of the same name that hands its tokens to
//! the kernels that do (`crate::link`).

use super::place::before;
use super::shadow::{Rewrite, dtype_bound, in_parentheses, names, optional, references, respanned};
use super::{errors, not_a_function};
use crate::link;
use crate::parse::{self, ParsedFunction, TileFunction};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use syn::visit_mut::VisitMut;
use syn::{FnArg, GenericArgument, GenericParam, ItemFn, PathArguments, ReturnType, Type, Visibility};

/// The expansion of `#[tile_fn(attribute)] item`. `uses`: the functions that it calls, `found` their tokens.
pub fn function(
    attribute: TokenStream,
    item: TokenStream,
    uses: Rc<[Rc<TileFunction>]>,
    found: &TokenStream,
) -> TokenStream {
    let ParsedFunction { parsed, sound } = parse::function(attribute.clone(), item.clone(), uses);
    let errors = errors::emit(&parsed, &parsed.diagnostics).tokens;
    let Some(function) = &parsed.item else { return not_a_function(errors, item) };
    let runtime = link::runtime(&attribute);
    // What was not understood and is reported would only be reported again.
    let shown = parsed.body_resolved || parsed.diagnostics.is_empty();
    let shadow = shadow(&parsed, function, &runtime, shown);
    let carrier = carrier(function, &link::content(&attribute, &item, found, sound));
    quote!(#shadow #errors #carrier)
}

/// The macro that hands the function's tokens on, and its name beside the function's.
///
/// A `pub` function's is exported, which puts it at the root of its crate under a name of its own; the `use` finds it by the
/// order of the text, not by that path, and lies where the function does.
fn carrier(function: &ItemFn, content: &TokenStream) -> TokenStream {
    let name = &function.sig.ident;
    // Before the name, so that rustc shows it to one who may not use it, and an editor the function alone.
    let at = before(name.span());
    let (carrier, export) = match &function.vis {
        Visibility::Public(_) => (
            format_ident!("__tile_fn_{name}_{}", place_in_crate(function), span = at),
            // In a function's body the lint calls for a module, where the author may not want one.
            quote!(#[macro_export] #[allow(non_local_definitions)]),
        ),
        _ => (format_ident!("tile_fn_{name}", span = at), quote!(#[allow(unused_macros)])),
    };
    let visibility = &function.vis;
    let conditions = function.attrs.iter().filter(|a| a.path().is_ident("cfg"));
    let conditions: Vec<_> = conditions.collect();
    let not_a_macro = format!("`{name}` is a function of kernels: name it in `#[tile_kernel(uses({name}))]`");
    let mut beside = name.clone();
    beside.set_span(at);
    let alias = quote_spanned!(at=> #visibility use #carrier as #beside;);
    quote! {
        #(#conditions)*
        #[doc(hidden)]
        #export
        macro_rules! #carrier {
            ({$($runtime:tt)*} $($state:tt)*) => {
                $($runtime)*::link_step! { {$($runtime)*} $($state)* #content }
            };
            ($($other:tt)*) => { ::core::compile_error! { #not_a_macro } };
        }
        #(#conditions)*
        #[doc(hidden)]
        #[allow(unused_imports, unreachable_pub)]
        #alias
    }
}

/// What tells a function from any other of the crate: its place and its tokens as a number, the same on every machine. Where
/// a macro of the author's makes functions that have both in common, also which of them it is.
fn place_in_crate(function: &ItemFn) -> String {
    static TAKEN: Mutex<BTreeMap<u64, u32>> = Mutex::new(BTreeMap::new());
    let span = function.sig.ident.span();
    let (file, start) = (span.file(), span.start());
    // A dependency's files are named from the machine's root.
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let file = file.strip_prefix(&package).unwrap_or(&file);
    let text = format!("{file}:{}:{} {}", start.line, start.column, function.to_token_stream());
    // FNV-1a.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let others = taken.entry(hash).and_modify(|others| *others += 1).or_insert(0);
    match *others {
        0 => format!("{hash:016x}"),
        others => format!("{hash:016x}_{others}"),
    }
}

/// The function as rustc and an editor see it.
fn shadow(parsed: &parse::Parsed, function: &ItemFn, runtime: &TokenStream, shown: bool) -> TokenStream {
    let (sig, visibility) = (&function.sig, &function.vis);
    let name = &sig.ident;
    let attributes = &function.attrs;
    let generics: Vec<TokenStream> = sig
        .generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(ty) => {
                let (ident, bounds, bound) = (&ty.ident, &ty.bounds, dtype_bound(parsed, &ty.ident));
                Some(match ty.bounds.iter().any(|b| names(b, &bound)) {
                    true => quote!(#ident: #bounds),
                    false if bounds.is_empty() => quote!(#ident: #runtime::dsl::#bound),
                    false => quote!(#ident: #bounds + #runtime::dsl::#bound),
                })
            }
            GenericParam::Const(constant) => Some(constant.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    let mut dims: Vec<syn::Ident> = vec![];
    let inputs = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => {
            let (pattern, ty) = (&input.pat, parameter(&input.ty, runtime, &mut dims));
            Some(quote!(#pattern: #ty))
        }
        FnArg::Receiver(_) => None,
    });
    let inputs: Vec<TokenStream> = inputs.collect();
    // The language's functions are in scope in the body and would hide parameters of their names.
    let hidden = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => match &*input.pat {
            syn::Pat::Ident(pattern) if parse::is_function(&pattern.ident.to_string()) => Some(&pattern.ident),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    let hidden: Vec<&Ident> = hidden.collect();
    let kept: Vec<Ident> =
        (0..hidden.len()).map(|i| format_ident!("parameter_{i}", span = Span::mixed_site())).collect();
    let generic_names: Vec<String> = sig.generics.const_params().map(|c| c.ident.to_string()).collect();
    dims.retain(|dim| !generic_names.contains(&dim.to_string()));
    let output = &sig.output;
    let fn_token = &sig.fn_token;
    let params = in_parentheses(sig.paren_token.span, quote!(#(#inputs),*));
    let generics = match (&sig.generics.lt_token, &sig.generics.gt_token) {
        (Some(open), Some(close)) => quote!(#open #(#generics),* #close),
        _ => quote!(),
    };
    let clause = &sig.generics.where_clause;
    let mut block = (*function.block).clone();
    Rewrite { runtime, references: references(function), optional: optional(function) }.visit_block_mut(&mut block);
    let body = &block.stmts;
    let result = match output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    let body = match shown {
        true => quote!(#(#body)*),
        // An editor completes what is being typed, which is a mistake until it is finished.
        false => quote! {
            #[cfg(any(rust_analyzer, any()))]
            let _: #result = { #(#body)* };
            ::core::panic!("the function has mistakes")
        },
    };
    let at = function.block.brace_token.span.join();
    let scope = quote! {
        #[allow(unused_imports)]
        use #runtime::dsl::*;
        // What is passed has extents; to rustc they are some number.
        #(#[allow(dead_code)] const #dims: ::core::primitive::usize = 1 << 20;)*
    };
    // A parameter whose extents are read is read, to rustc too.
    let named = idents(function.block.to_token_stream());
    let read = sig.inputs.iter().filter_map(|input| {
        let FnArg::Typed(input) = input else { return None };
        let syn::Pat::Ident(pattern) = &*input.pat else { return None };
        let own = idents(input.ty.to_token_stream());
        let mut parameter = pattern.ident.clone();
        parameter.set_span(before(parameter.span()));
        dims.iter().map(Ident::to_string).any(|dim| own.contains(&dim) && named.contains(&dim)).then_some(parameter)
    });
    let read: Vec<Ident> = read.collect();
    let braced = match hidden.is_empty() {
        true => quote_spanned!(at=> { #(let _ = &#read;)* #scope #body }),
        false => quote_spanned!(at=> {
            #(let _ = &#read;)*
            #(let #kept = #hidden;)*
            { #scope #(let #hidden = #kept;)* #body }
        }),
    };
    let unread = (!shown).then(|| quote!(#[allow(unused_variables, dead_code, unexpected_cfgs)]));
    quote! {
        #(#attributes)*
        #unread
        // Warnings whose cause is the form of the shadow, not the author's text.
        #[allow(
            clippy::all, clippy::pedantic, clippy::nursery, non_snake_case, non_upper_case_globals, unused_braces,
            unused_parens, arithmetic_overflow, unconditional_panic
        )]
        #visibility #fn_token #name #generics #params #output #clause #braced
    }
}

/// The identifiers among tokens, those inside of groups too.
fn idents(tokens: TokenStream) -> BTreeSet<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) => BTreeSet::from([ident.to_string()]),
            TokenTree::Group(group) => idents(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => BTreeSet::new(),
        })
        .collect()
}

/// A parameter's type: a tensor has its rank for its shape, an array nothing.
fn parameter(ty: &Type, runtime: &TokenStream, dims: &mut Vec<syn::Ident>) -> TokenStream {
    match ty {
        Type::Reference(reference) => {
            let (and, mutability) = (&reference.and_token, &reference.mutability);
            let Type::Path(path) = &*reference.elem else { return ty.to_token_stream() };
            let Some(segment) = path.path.segments.last() else { return ty.to_token_stream() };
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return ty.to_token_stream() };
            let (Some(GenericArgument::Type(element)), Some(GenericArgument::Type(Type::Tuple(shape)))) =
                (arguments.args.first(), arguments.args.iter().nth(1))
            else {
                return ty.to_token_stream();
            };
            for dim in &shape.elems {
                if let Type::Path(path) = dim
                    && let Some(dim) = path.path.get_ident()
                    && !dims.contains(dim)
                {
                    dims.push(dim.clone());
                }
            }
            let (open, close, ident, rank) =
                (&arguments.lt_token, &arguments.gt_token, &segment.ident, shape.elems.len());
            let at = Span::call_site().located_at(ident.span());
            let module = respanned(quote!(#runtime::dsl::), before(at));
            let rank = if segment.ident == "Tensor" { quote_spanned!(at=> , #rank) } else { TokenStream::new() };
            quote_spanned!(at=> #and #mutability #module #ident #open #element #rank #close)
        }
        Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "Option") => {
            let segment = path.path.segments.last().map(|s| &s.arguments);
            match segment {
                Some(PathArguments::AngleBracketed(arguments)) => match arguments.args.first() {
                    Some(GenericArgument::Type(inner)) => {
                        let inner = parameter(inner, runtime, dims);
                        quote!(::core::option::Option<#inner>)
                    }
                    _ => ty.to_token_stream(),
                },
                _ => ty.to_token_stream(),
            }
        }
        other => other.to_token_stream(),
    }
}
