//! What the host needs of the author's signature. Read from the syntax, so that it is there for a kernel with
//! mistakes in its body too.

use super::place::before;
use crate::parse::Parsed;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{
    Attribute, FnArg, GenericArgument, GenericParam, ItemFn, Pat, PathArguments, Type, TypeParam, TypePath, Visibility,
};

/// A kernel's signature.
pub(super) struct Signature<'a> {
    pub(super) function: &'a ItemFn,
    pub(super) name: &'a Ident,
    pub(super) visibility: &'a Visibility,
    /// Dtype parameters.
    pub(super) types: Vec<&'a TypeParam>,
    /// Const parameters.
    pub(super) consts: Vec<Const<'a>>,
    /// Parameters, those that are no arguments of a launch included.
    pub(super) params: Vec<Param<'a>>,
    /// Dims, in order of first appearance.
    pub(super) dims: Vec<&'a Ident>,
    /// `::tile_runtime`, or what `crate = path` says.
    pub(super) runtime: TokenStream,
    /// Where what is generated stands: before the kernel's name, which is what rustc shows where a launch is wrong.
    pub(super) at: Span,
}

/// A const parameter.
pub(super) struct Const<'a> {
    pub(super) name: &'a Ident,
    pub(super) is_bool: bool,
}

/// A parameter.
pub(super) struct Param<'a> {
    pub(super) name: &'a Ident,
    pub(super) kind: ParamKind<'a>,
}

/// What a parameter is.
pub(super) enum ParamKind<'a> {
    /// `option`: the `Option` of `Option<&Tensor<..>>`, of which `written` is the inside.
    Tensor {
        element: &'a Type,
        rank: Rank,
        mutable: bool,
        written: &'a Type,
        path: &'a Ident,
        option: Option<&'a Ident>,
    },
    Scalar {
        ty: &'a Type,
    },
}

/// A tensor's rank as a literal without its type, as documentation shows it.
#[derive(Clone, Copy)]
pub(super) struct Rank(usize);

impl ToTokens for Rank {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        Literal::usize_unsuffixed(self.0).to_tokens(tokens);
    }
}

impl<'a> Signature<'a> {
    /// The signature of `function`; `None` where it holds something that is no kernel's parameter, which is an error
    /// already reported.
    pub(super) fn new(parsed: &'a Parsed, function: &'a ItemFn) -> Option<Self> {
        let sig = &function.sig;
        let mut types = vec![];
        let mut consts = vec![];
        for parameter in &sig.generics.params {
            match parameter {
                GenericParam::Type(ty) => types.push(ty),
                GenericParam::Const(c) => {
                    let is_bool = matches!(&c.ty, Type::Path(path) if path.path.is_ident("bool"));
                    consts.push(Const { name: &c.ident, is_bool });
                }
                GenericParam::Lifetime(_) => return None,
            }
        }
        let params: Vec<Param<'_>> = sig.inputs.iter().map(param).collect::<Option<_>>()?;
        let mut dims: Vec<&Ident> = vec![];
        for param in &params {
            let ParamKind::Tensor { written, .. } = param.kind else { continue };
            for dim in shape_of(written).into_iter().flat_map(|shape| shape.elems.iter()) {
                let Type::Path(TypePath { qself: None, path, .. }) = dim else { continue };
                let Some(dim) = path.get_ident() else { continue };
                if !dims.contains(&dim) && consts.iter().all(|c| c.name != dim) {
                    dims.push(dim);
                }
            }
        }
        let (name, visibility) = (&sig.ident, &function.vis);
        let at = Span::call_site().located_at(before(name.span()));
        let runtime = match &parsed.attribute.crate_path {
            Some(path) => path.to_token_stream(),
            None => quote_spanned!(at=> ::tile_runtime),
        };
        Some(Signature { function, name, visibility, types, consts, params, dims, runtime, at })
    }

    /// `GemvParams` for `gemv` and `"Params"`.
    pub(super) fn derived(&self, suffix: &str) -> Ident {
        Ident::new(&format!("{}{suffix}", camel_case(self.name)), self.at)
    }

    /// A local variable that is none of the author's.
    pub(super) fn local(&self, name: &str) -> Ident {
        Ident::new(name, Span::mixed_site().located_at(self.name.span()))
    }

    /// The parameters that a launch has arguments for: all but workspaces.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Param<'a>> {
        self.params.iter().filter(|p| !matches!(p.kind, ParamKind::Tensor { path, .. } if path == "Workspace"))
    }

    /// The dtype parameters' names.
    pub(super) fn type_names(&self) -> Vec<&'a Ident> {
        self.types.iter().map(|t| &t.ident).collect()
    }

    /// The attributes that a derived item carries: documentation, conditions, lint levels.
    pub(super) fn attributes(&self, names: &[&str]) -> Vec<&'a Attribute> {
        let wanted = |a: &&Attribute| names.iter().any(|name| a.path().is_ident(name));
        self.function.attrs.iter().filter(wanted).collect()
    }
}

/// `SplitGemv` for `split_gemv`.
pub(super) fn camel_case(name: &Ident) -> String {
    let words = name.to_string();
    let mut camel = String::new();
    for word in words.trim_start_matches("r#").split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel.extend(letters);
    }
    camel
}

fn param(argument: &FnArg) -> Option<Param<'_>> {
    let FnArg::Typed(argument) = argument else { return None };
    let Pat::Ident(pattern) = &*argument.pat else { return None };
    let (ty, option) = match inside_option(&argument.ty) {
        Some((ty, option)) => (ty, Some(option)),
        None => (&*argument.ty, None),
    };
    let kind = match ty {
        Type::Reference(reference) => {
            let Type::Path(path) = &*reference.elem else { return None };
            let segment = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
            let Some(GenericArgument::Type(element)) = arguments.args.first() else { return None };
            let rank = Rank(shape_of(ty)?.elems.len());
            let (written, path) = (ty, &segment.ident);
            ParamKind::Tensor { element, rank, mutable: reference.mutability.is_some(), written, path, option }
        }
        ty @ Type::Path(path) if path.path.get_ident().is_some() => ParamKind::Scalar { ty },
        _ => return None,
    };
    Some(Param { name: &pattern.ident, kind })
}

/// What is in `Option<..>`, and the `Option`.
fn inside_option(ty: &Type) -> Option<(&Type, &Ident)> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|s| s.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => Some((inner, &segment.ident)),
        _ => None,
    }
}

/// The shape `(N, K)` of `&Tensor<T, (N, K)>`.
fn shape_of(ty: &Type) -> Option<&syn::TypeTuple> {
    let Type::Reference(reference) = ty else { return None };
    let Type::Path(path) = &*reference.elem else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    match arguments.args.iter().nth(1) {
        Some(GenericArgument::Type(Type::Tuple(shape))) => Some(shape),
        _ => None,
    }
}
