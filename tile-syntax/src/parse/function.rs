//! `#[tile_fn]`s: functions whose bodies are written out where a kernel calls them.
//!
//! A function is read twice: where it is defined, with arguments made up from its signature, so that its mistakes are
//! reported once and while it is being written; and in every kernel that calls it, with the kernel's own.

use super::attribute::Entries;
use super::inline::Argument;
use super::range::generic_types;
use super::signature::unsafe_word;
use super::types::peel;
use super::{AttributeInfo, Binding, Facts, Hoist, Parsed, Parser, source};
use proc_macro2::TokenStream;
use std::cell::Cell;
use std::rc::Rc;
use syn::{FnArg, ItemFn, Pat, ReturnType};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    Buffer, ConstId, ConstKind, ConstParam, Dtype, DtypeRef, ExprId, ExprKind, Param, ParamKind, Scope, Source,
    SwizzleRequest, Type, TypeParamId, VarKind,
};

/// A `#[tile_fn]` that a kernel or another function may call.
pub struct TileFunction {
    /// Its name as its caller writes it: `scale`, `epilogue::scale`.
    pub path: String,
    /// None where it has mistakes, which are reported where it is defined.
    pub definition: Option<Rc<Definition>>,
    pub origin: Origin,
}

/// Whose a `#[tile_fn]` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    ThisPackage,
    /// A dependency's, whose lines the author of the kernel may not have before them.
    AnotherPackage,
    /// A dependency's, which was compiled by other macros: its tokens cannot be read.
    AnotherVersion,
}

/// A `#[tile_fn]` without mistakes.
pub struct Definition {
    pub(super) item: ItemFn,
    pub(super) generics: Vec<Generic>,
    pub(super) params: Vec<Parameter>,
    /// The functions that it calls.
    uses: Rc<[Rc<TileFunction>]>,
    source: Source,
    pub(super) origin: Origin,
    /// Where the kernel being read keeps its text, as `Span::text` counts; 0 until it is called.
    text: Cell<u32>,
}

/// A generic parameter.
pub(super) enum Generic {
    Type { name: String, allowed: Vec<Dtype> },
    Const { name: String },
}

/// A parameter.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: ParameterKind,
}

/// What a parameter is. Dims are names or `Fixed<..>`.
pub(super) enum ParameterKind {
    /// A value.
    Scalar(syn::Type),
    /// `&Tensor<T, (M, N)>`, or `Option` of it.
    Tensor { element: syn::Type, dims: Vec<syn::Type>, optional: bool },
    /// `&mut Fragment<T, (M, N)>` and its like.
    Array { scope: Scope, element: syn::Type, dims: Vec<syn::Type>, mutable: bool },
}

/// What a `#[tile_fn]`'s tokens say.
pub struct ParsedFunction {
    /// Its mistakes, and what its expansion needs of the attribute. The kernel in it is made up.
    pub parsed: Parsed,
    /// Whether kernels may call it.
    pub sound: bool,
}

/// The array types of a `#[tile_fn]`'s signature.
const ARRAYS: [(&str, Scope); 3] =
    [("Fragment", Scope::Fragment), ("SharedArray", Scope::Shared), ("LocalArray", Scope::Local)];

/// What a parameter may be, for messages.
const PARAMETERS: &str = "a parameter is a value, `&Tensor<T, (M, N)>`, `Option<&Tensor<T, (N,)>>`, or by `&` or `&mut` a \
                          `Fragment<T, (M, N)>`, `SharedArray<T, (M, N)>` or `LocalArray<T, (N,)>`";

/// Reads a `#[tile_fn]` where it is defined. Takes any tokens.
pub fn function(attribute: TokenStream, item: TokenStream, uses: Rc<[Rc<TileFunction>]>) -> ParsedFunction {
    let mut parser = Parser { functions: uses.clone(), ..Parser::default() };
    parser.kernel.source = source::source(&[&item]);
    let function = parser.function(item);
    let entries = parser.attribute(attribute);
    let mut sound = false;
    if let Some(function) = &function
        && let Some(definition) = parser.definition(function, &entries, uses)
        && parser.diagnostics.is_empty()
    {
        sound = true;
        // Its own text is the kernel's.
        parser.check_definition(Rc::new(definition));
    }
    let sound = sound && parser.diagnostics.is_empty();
    let info = AttributeInfo { crate_path: entries.info.crate_path, requires: vec![] };
    ParsedFunction { parsed: parser.finish(function, info), sound }
}

impl TileFunction {
    /// A function as its definition handed it on.
    pub fn new(
        path: String,
        origin: Origin,
        sound: bool,
        attribute: TokenStream,
        item: TokenStream,
        uses: Rc<[Rc<TileFunction>]>,
    ) -> TileFunction {
        let definition = sound.then(|| {
            let mut parser = Parser::default();
            let source = source::source(&[&item]);
            let function = parser.function(item)?;
            let entries = parser.attribute(attribute);
            Some(Definition { source, origin, ..parser.definition(&function, &entries, uses)? })
        });
        TileFunction { path, definition: definition.flatten().map(Rc::new), origin }
    }

    /// A function whose tokens other macros handed on.
    pub fn of_another_version(path: String) -> TileFunction {
        TileFunction { path, definition: None, origin: Origin::AnotherVersion }
    }
}

impl Definition {
    pub(super) fn name(&self) -> String {
        self.item.sig.ident.to_string()
    }

    /// Whether the body is a single expression.
    pub(super) fn is_expression(&self) -> bool {
        matches!(self.item.block.stmts.as_slice(), [syn::Stmt::Expr(_, None)])
    }

    pub(super) fn uses(&self) -> Rc<[Rc<TileFunction>]> {
        self.uses.clone()
    }
}

impl Parser {
    /// The text of a function's tokens, as `Span::text` counts.
    pub(super) fn text_of(&mut self, definition: &Definition) -> u32 {
        if definition.text.get() == 0 && !definition.source.lines.is_empty() {
            self.kernel.source.functions.push(definition.source.clone());
            definition.text.set(self.kernel.source.functions.len() as u32);
        }
        definition.text.get()
    }

    /// Reads a function's signature.
    fn definition(&mut self, function: &ItemFn, entries: &Entries, uses: Rc<[Rc<TileFunction>]>) -> Option<Definition> {
        let signature = &function.sig;
        self.kernel.name = signature.ident.to_string();
        let kernels = ["instances", "targets", "min_blocks", "stream", "partial", "specialize", "pdl", "lints"];
        let stray = entries.seen.iter().find(|word| kernels.contains(&word.as_str())).map(String::as_str);
        if let Some(word) = stray.or((!entries.requires.is_empty()).then_some("require")) {
            let message = format!("`{word}` belongs to #[tile_kernel]");
            let help = "a function has `dtypes(T in [f16, f32])` and `uses(other)`";
            self.attribute_error(signature.ident.span(), message, help);
        }
        let words = [
            signature.constness.map(|t| (t.span, "const")),
            signature.asyncness.map(|t| (t.span, "async")),
            unsafe_word(&signature.safety),
            signature.abi.as_ref().map(|abi| (abi.extern_token.span, "extern")),
        ];
        for (span, word) in words.into_iter().flatten() {
            self.syntax(span, format!("a function of a kernel cannot be `{word}`"), &format!("remove `{word}`"));
        }
        for param in &signature.generics.params {
            self.generic(param, function, entries);
        }
        let generics = signature.generics.params.iter().map(|param| match param {
            syn::GenericParam::Type(ty) => {
                let name = ty.ident.to_string();
                let allowed = self.kernel.type_params.values().find(|p| p.name == name).map(|p| p.allowed.clone());
                Generic::Type { name, allowed: allowed.unwrap_or_default() }
            }
            syn::GenericParam::Const(constant) => Generic::Const { name: constant.ident.to_string() },
            syn::GenericParam::Lifetime(lifetime) => Generic::Const { name: lifetime.lifetime.ident.to_string() },
        });
        let generics = generics.collect();
        let params: Vec<Option<Parameter>> =
            signature.inputs.iter().map(|input| self.function_parameter(input)).collect();
        if let ReturnType::Type(_, ty) = &signature.output
            && !matches!(&**ty, syn::Type::Tuple(unit) if unit.elems.is_empty())
            && matches!(peel(ty), syn::Type::Tuple(_) | syn::Type::Reference(_) | syn::Type::Array(_))
        {
            self.syntax(&**ty, "a `#[tile_fn]` returns one value", "write further results into an array by `&mut`");
        }
        Some(Definition {
            item: function.clone(),
            generics,
            params: params.into_iter().collect::<Option<_>>()?,
            uses,
            source: Source::default(),
            origin: Origin::ThisPackage,
            text: Cell::new(0),
        })
    }

    fn function_parameter(&mut self, input: &FnArg) -> Option<Parameter> {
        let input = match input {
            FnArg::Typed(input) => input,
            FnArg::Receiver(receiver) => {
                self.syntax(receiver.self_token.span, "a `#[tile_fn]` has no `self`", "remove it");
                return None;
            }
        };
        let name = match &*input.pat {
            Pat::Ident(pat) if pat.subpat.is_none() && pat.by_ref.is_none() => {
                if let Some(token) = pat.mutability {
                    let help = format!("copy it in the body: `let mut v = {};`", pat.ident);
                    self.syntax(token.span, "a parameter is not a variable", &help);
                }
                pat.ident.to_string()
            }
            other => {
                use syn::spanned::Spanned;
                self.syntax(other.span(), "a parameter is a name", "write `name: type`");
                return None;
            }
        };
        Some(Parameter { name, kind: self.function_parameter_kind(&input.ty)? })
    }

    fn function_parameter_kind(&mut self, ty: &syn::Type) -> Option<ParameterKind> {
        let (inner, optional) = match peel(ty) {
            syn::Type::Path(path) => match path.path.segments.last() {
                Some(segment) if segment.ident == "Option" => match generic_types(&segment.arguments).as_slice() {
                    [inner] => (peel(inner), true),
                    _ => (ty, true),
                },
                Some(segment) if segment.arguments.is_none() => {
                    return Some(ParameterKind::Scalar(ty.clone()));
                }
                _ => (ty, false),
            },
            other => (other, false),
        };
        let found = match inner {
            syn::Type::Reference(reference) => match peel(&reference.elem) {
                syn::Type::Path(path) => path.path.segments.last().map(|s| (s, reference.mutability.is_some())),
                _ => None,
            },
            _ => None,
        };
        let Some((segment, mutable)) = found else {
            self.syntax(ty, "a `#[tile_fn]` cannot take this", PARAMETERS);
            return None;
        };
        let name = segment.ident.to_string();
        let scope = ARRAYS.iter().find(|(array, _)| *array == name).map(|(_, scope)| *scope);
        if scope.is_none() && name != "Tensor" || optional && scope.is_some() {
            self.syntax(ty, "a `#[tile_fn]` cannot take this", PARAMETERS);
            return None;
        }
        let (element, dims) = match generic_types(&segment.arguments).as_slice() {
            [element, dims] => match peel(dims) {
                syn::Type::Tuple(dims) if !dims.elems.is_empty() => {
                    ((*element).clone(), dims.elems.iter().cloned().collect())
                }
                _ => {
                    let at = self.mark(*dims);
                    let diagnostic =
                        Diagnostic::new(Code::DIM, at, format!("the dims of this `{name}` are not a tuple"));
                    self.unsupported(diagnostic.help("two dims are written `(M, N)`, one is written `(N,)`"));
                    return None;
                }
            },
            _ => {
                let at = self.mark(ty);
                let diagnostic =
                    Diagnostic::new(Code::DIM, at, format!("this `{name}` needs an element type and dims"));
                self.unsupported(diagnostic.help(format!("{name}<f32, (M, N)>")));
                return None;
            }
        };
        Some(match scope {
            Some(scope) => ParameterKind::Array { scope, element, dims, mutable },
            None => ParameterKind::Tensor { element, dims, optional },
        })
    }

    /// Reads a function's body with arguments made up from its signature.
    fn check_definition(&mut self, definition: Rc<Definition>) {
        let arguments: Option<Vec<Argument>> =
            definition.item.sig.inputs.iter().zip(&definition.params).map(|(i, p)| self.made_up(i, &p.kind)).collect();
        let (Some(arguments), true) = (arguments, self.diagnostics.is_empty()) else { return };
        let dtypes: Vec<(String, DtypeRef)> = self.kernel.type_params.iter().map(named_dtype).collect();
        let ids: Vec<(ConstId, String, ConstKind)> =
            self.kernel.consts.iter().map(|(id, c)| (id, c.name.clone(), c.kind)).collect();
        let span = self.mark(definition.item.sig.ident.span());
        let consts = ids.into_iter().map(|(id, name, kind)| {
            let ty = if kind == ConstKind::Bool { Type::BOOL } else { Type::Index };
            (name, self.push(ExprKind::Const(id), ty, Facts::CONSTANT, span))
        });
        let consts: Vec<(String, ExprId)> = consts.collect();
        self.outside_body = false;
        self.hoist = Hoist::Allowed;
        self.write_out(&definition, arguments, dtypes, consts, span);
    }

    fn made_up(&mut self, input: &FnArg, kind: &ParameterKind) -> Option<Argument> {
        let FnArg::Typed(input) = input else { return None };
        let span = self.mark(&*input.ty);
        let name = String::new();
        Some(match kind {
            ParameterKind::Scalar(ty) => {
                let ty = self.scalar_type(ty)?;
                if ty == Type::Index {
                    // It may be a thread's index, of which more may be asked than of any other value.
                    let var = self.variable("_", ty, VarKind::Thread(0), Facts::FIXED, span);
                    return Some(Argument::Value(self.var(var, span)));
                }
                let param = self.kernel.params.push(Param { name, kind: ParamKind::Scalar { ty }, span });
                Argument::Value(self.push(ExprKind::Scalar(param), ty, Facts::FIXED, span))
            }
            ParameterKind::Tensor { optional, .. } => {
                let inner = match peel(&input.ty) {
                    syn::Type::Path(path) => path.path.segments.last().map(|s| generic_types(&s.arguments))?[0],
                    other => other,
                };
                let syn::Type::Reference(reference) = peel(inner) else { return None };
                let kind = self.tensor("", peel(&reference.elem), reference.mutability.is_some())?;
                let param = self.kernel.params.push(Param { name, kind, span });
                if *optional { Argument::Optional(param) } else { Argument::Tensor(param) }
            }
            ParameterKind::Array { scope, element, dims, mutable } => {
                let dtype = self.dtype_type(element)?;
                let extents = dims.iter().map(|dim| self.made_up_extent(dim)).collect::<Option<Vec<_>>>()?;
                let swizzle = SwizzleRequest::Auto;
                let buffer = self.kernel.buffers.push(Buffer { name, scope: *scope, dtype, extents, swizzle, span });
                Argument::Array(buffer, *mutable)
            }
        })
    }

    /// An extent of an array: a constant, whatever it is called.
    fn made_up_extent(&mut self, dim: &syn::Type) -> Option<ExprId> {
        let span = self.mark(dim);
        if let syn::Type::Path(path) = peel(dim)
            && let Some(name) = path.path.get_ident().map(ToString::to_string)
            && self.lookup(&name).is_none()
        {
            let id = self.kernel.consts.push(ConstParam { name: name.clone(), kind: ConstKind::Usize, span });
            self.bind(name, Binding::Const(id));
        }
        let extent = self.extent(dim)?;
        Some(self.extent_value(extent, span))
    }
}

fn named_dtype((id, param): (TypeParamId, &tile_ir::ir::TypeParam)) -> (String, DtypeRef) {
    (param.name.clone(), DtypeRef::Param(id))
}
