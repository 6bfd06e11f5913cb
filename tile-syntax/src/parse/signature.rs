//! The signature: generics, parameters, dims.

use super::attribute::Entries;
use super::range::generic_types;
use super::types::{Class, Ty, peel};
use super::{Binding, Parser};
use proc_macro2::Span;
use quote::ToTokens;
use syn::{FnArg, GenericParam, ItemFn, Pat, ReturnType, TypeParamBound};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    BinaryOp, ConstKind, ConstParam, Dim, Dtype, ExprId, ExprKind, Extent, MOST_TENSOR_AXES, Param, ParamKind, Require,
    Target, Type, TypeParam,
};

const HALF: [Dtype; 2] = [Dtype::F16, Dtype::Bf16];
const FLOAT: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::F32];

impl Parser {
    /// Reads the signature into parameters, dims and names.
    pub(super) fn signature(&mut self, function: &ItemFn, entries: &Entries) {
        let signature = &function.sig;
        self.kernel.name = signature.ident.to_string();
        if self.kernel.targets.is_empty() {
            self.kernel.targets = Target::ALL.to_vec();
        }
        let words = [
            signature.constness.map(|t| (t.span, "const")),
            signature.asyncness.map(|t| (t.span, "async")),
            unsafe_word(&signature.safety),
            signature.abi.as_ref().map(|abi| (abi.extern_token.span, "extern")),
        ];
        for (span, word) in words.into_iter().flatten() {
            self.syntax(span, format!("a kernel cannot be `{word}`"), &format!("remove `{word}`"));
        }
        if let ReturnType::Type(_, ty) = &signature.output
            && !matches!(&**ty, syn::Type::Tuple(unit) if unit.elems.is_empty())
        {
            self.syntax(&**ty, "a kernel returns nothing", "write results into a `&mut Tensor` parameter");
        }
        for param in &signature.generics.params {
            self.generic(param, function, entries);
        }
        for (name, _) in &entries.dtypes {
            if self.type_param(&name.to_string()).is_none() {
                let at = self.mark(name.span());
                let message = format!("`{name}` is not a dtype parameter of `{}`", self.kernel.name);
                self.error(
                    Diagnostic::new(Code::ATTRIBUTE, at, message).help(format!("declare it: `<{name}: Float>`")),
                );
            }
        }
        for input in &signature.inputs {
            match input {
                FnArg::Typed(input) => self.parameter(input),
                FnArg::Receiver(receiver) => {
                    self.syntax(receiver.self_token.span, "a kernel has no `self`", "remove it")
                }
            }
        }
        if let Some(variadic) = &signature.variadic {
            self.syntax(variadic.dots.spans[0], "a kernel has a fixed list of parameters", "remove `...`");
        }
    }

    pub(super) fn generic(&mut self, param: &GenericParam, function: &ItemFn, entries: &Entries) {
        match param {
            GenericParam::Lifetime(lifetime) => {
                self.syntax(lifetime.lifetime.ident.span(), "a kernel has no lifetimes", "remove it");
            }
            GenericParam::Const(constant) => {
                let span = self.mark(constant.ident.span());
                let name = constant.ident.to_string();
                let mut fit = true;
                let kind = match peel(&constant.ty) {
                    syn::Type::Path(path) if path.path.is_ident("usize") => ConstKind::Usize,
                    syn::Type::Path(path) if path.path.is_ident("bool") => ConstKind::Bool,
                    other => {
                        let at = self.mark(other);
                        let message = format!("const parameter `{name}` is neither `usize` nor `bool`");
                        let help = format!("const {name}: usize");
                        self.unsupported(Diagnostic::new(Code::DTYPE, at, message).help(help));
                        fit = false;
                        ConstKind::Usize
                    }
                };
                let id = self.kernel.consts.push(ConstParam { name: name.clone(), kind, span });
                if !fit {
                    self.unfit_consts.push(id);
                }
                self.bind(name, if fit { Binding::Const(id) } else { Binding::Poison });
            }
            GenericParam::Type(ty) => {
                let span = self.mark(ty.ident.span());
                let name = ty.ident.to_string();
                let listed = entries.dtypes.iter().find(|(n, _)| *n == ty.ident).map(|(_, dtypes)| dtypes.clone());
                let mut bounds: Vec<&TypeParamBound> = ty.bounds.iter().collect();
                if let Some(clause) = &function.sig.generics.where_clause {
                    for predicate in &clause.predicates {
                        if let syn::WherePredicate::Type(predicate) = predicate
                            && matches!(peel(&predicate.bounded_ty), syn::Type::Path(p) if p.path.is_ident(&ty.ident))
                        {
                            bounds.extend(&predicate.bounds);
                        }
                    }
                }
                let bound = bounds.iter().find_map(|b| bound_dtypes(b));
                let allowed = match (listed, bound) {
                    (Some(listed), Some((bound, dtypes))) => {
                        if let Some(stray) = listed.iter().find(|d| !dtypes.contains(d)) {
                            let message = format!("`{stray}` is listed for `{name}` but is not a `{bound}`");
                            let help = format!("remove `{stray}` from `dtypes(..)`, or the bound");
                            self.error(Diagnostic::new(Code::DTYPE, span, message).help(help));
                        }
                        listed
                    }
                    (Some(listed), None) => listed,
                    (None, Some((_, dtypes))) => dtypes.to_vec(),
                    (None, None) => {
                        let message = format!("the dtypes of `{name}` are not known");
                        let help = format!(
                            "bound it by `Half` (f16, bf16) or `Float` (those and f32), or add `dtypes({name} in [f32, i32])`"
                        );
                        self.unsupported(Diagnostic::new(Code::DTYPE, span, message).help(help));
                        vec![]
                    }
                };
                self.kernel.type_params.push(TypeParam { name, allowed, span });
            }
        }
    }

    /// `&mut Workspace<T, (S, N)>`: a tensor that the launcher allocates.
    fn workspace(&mut self, name: &str, ty: &syn::Type, mutable: bool) -> Option<ParamKind> {
        if !mutable {
            let help = format!("write `{name}: &mut Workspace<..>`");
            self.syntax(ty, format!("workspace `{name}` is only read: nothing is in it"), &help);
            return None;
        }
        let known = self.kernel.dims.len();
        let kind = self.tensor(name, ty, true)?;
        // Nobody gives it: its extents must be known.
        if let Some(dim) = self.kernel.dims.keys().nth(known) {
            let (dim, span) = (self.kernel.dims[dim].name.clone(), self.kernel.dims[dim].span);
            let message = format!("dim `{dim}` of workspace `{name}` is no other tensor's");
            let help = "use the dims of tensors before it, const parameters or `Fixed<..>`";
            self.unsupported(Diagnostic::new(Code::DIM, span, message).help(help));
            return None;
        }
        let next = tile_ir::ir::ParamId::from_u32(self.kernel.params.len() as u32);
        self.kernel.attributes.workspaces.push(next);
        Some(kind)
    }

    fn parameter(&mut self, input: &syn::PatType) {
        let (name, ident) = match &*input.pat {
            Pat::Ident(pat) if pat.subpat.is_none() && pat.by_ref.is_none() => {
                if let Some(token) = pat.mutability {
                    let help = format!("copy it in the body: `let mut v = {};`", pat.ident);
                    self.syntax(token.span, "a kernel's parameter is not a variable", &help);
                }
                (pat.ident.to_string(), pat.ident.span())
            }
            other => {
                use syn::spanned::Spanned;
                self.syntax(other.span(), "a kernel's parameter is a name", "write `name: type`");
                return;
            }
        };
        if let Some(attribute) = input.attrs.first() {
            self.syntax(attribute.pound_token.span, "a kernel's parameter has no attributes", "remove it");
        }
        let span = self.mark(ident);
        let taken = match self.lookup(&name) {
            Some(Binding::Dim(_)) => "dim",
            Some(Binding::Const(_)) => "const parameter",
            _ => "",
        };
        if !taken.is_empty() {
            let message = format!("`{name}` is a {taken} already");
            self.unsupported(Diagnostic::new(Code::DIM, span, message).help("rename the parameter"));
        }
        let workspaces = self.kernel.attributes.workspaces.len();
        let kind = self.parameter_kind(&name, &input.ty);
        if workspaces > 0 && workspaces == self.kernel.attributes.workspaces.len() {
            let message = format!("parameter `{name}` stands after a workspace");
            let help = "workspaces come last: they are no arguments of a launch";
            self.error(Diagnostic::new(Code::PLACEMENT, span, message).help(help));
        }
        let binding = match kind {
            None => Binding::Poison,
            Some(kind) => {
                let tensor = matches!(kind, ParamKind::Tensor { .. });
                let optional = matches!(kind, ParamKind::Tensor { optional: true, .. });
                let param = self.kernel.params.push(Param { name: name.clone(), kind, span });
                match (tensor, optional) {
                    (true, true) => Binding::Optional(param),
                    (true, false) => Binding::Tensor(param),
                    (false, _) => Binding::Scalar(param),
                }
            }
        };
        self.bind(name, binding);
    }

    fn parameter_kind(&mut self, name: &str, ty: &syn::Type) -> Option<ParamKind> {
        let ty = peel(ty);
        let syn::Type::Reference(reference) = ty else {
            return match type_name(ty).as_deref() {
                Some("Tensor") => {
                    let message = format!("tensor `{name}` is taken by value");
                    let text = self.written(ty, || ty.to_token_stream());
                    self.syntax(ty, message, &format!("borrow it: `&{text}`, or `&mut` to write it"));
                    None
                }
                Some("Option") => self.optional(name, ty),
                _ => self.scalar_type(ty).map(|ty| ParamKind::Scalar { ty }),
            };
        };
        if let Some(lifetime) = &reference.lifetime {
            self.syntax(lifetime.ident.span(), "a kernel has no lifetimes", "remove it");
        }
        let mutable = reference.mutability.is_some();
        let element = peel(&reference.elem);
        match type_name(element).as_deref() {
            Some("Tensor") => self.tensor(name, element, mutable),
            Some("Workspace") => self.workspace(name, element, mutable),
            _ => {
                let message = format!("parameter `{name}` is neither a tensor nor a scalar");
                self.syntax(
                    ty,
                    message,
                    "tensors are `&Tensor<T, (M, N)>` or `&mut Tensor<..>`; scalars are taken by value",
                );
                None
            }
        }
    }

    /// `Option<&Tensor<T, (N,)>>`, `Option<&mut Tensor<T, (N,)>>`: a tensor that a launch may leave out.
    fn optional(&mut self, name: &str, ty: &syn::Type) -> Option<ParamKind> {
        let help = format!("write `{name}: Option<&Tensor<T, (N,)>>`");
        let syn::Type::Path(path) = ty else { return None };
        let inner = path.path.segments.last().map(|s| generic_types(&s.arguments)).unwrap_or_default();
        let tensor = match inner.as_slice() {
            [syn::Type::Reference(reference)] if type_name(peel(&reference.elem)).as_deref() == Some("Tensor") => {
                reference
            }
            _ => {
                self.syntax(ty, format!("parameter `{name}` is no optional tensor"), &help);
                return None;
            }
        };
        let known = self.kernel.dims.len();
        let kind = self.tensor(name, peel(&tensor.elem), tensor.mutability.is_some())?;
        // A dim must be known whether the tensor is there or not.
        if let Some(dim) = self.kernel.dims.keys().nth(known) {
            let (dim, span) = (self.kernel.dims[dim].name.clone(), self.kernel.dims[dim].span);
            let message = format!("dim `{dim}` is known only where `{name}` is given");
            let help = format!("declare `{name}` after a tensor that has `{dim}`, or pass the extent as a `usize`");
            self.unsupported(Diagnostic::new(Code::DIM, span, message).help(help));
            return None;
        }
        match kind {
            ParamKind::Tensor { dtype, shape, mutable, .. } => {
                Some(ParamKind::Tensor { dtype, shape, mutable, optional: true })
            }
            _ => None,
        }
    }

    pub(super) fn tensor(&mut self, name: &str, ty: &syn::Type, mutable: bool) -> Option<ParamKind> {
        let syn::Type::Path(path) = ty else { return None };
        let segment = path.path.segments.last()?;
        let arguments = generic_types(&segment.arguments);
        let [element, dims] = arguments.as_slice() else {
            let at = self.mark(&path.path);
            let message = format!("tensor `{name}` needs an element type and dims");
            self.unsupported(Diagnostic::new(Code::DIM, at, message).help("Tensor<f32, (M, N)>"));
            return None;
        };
        let dtype = self.dtype_type(element);
        let dims: Vec<&syn::Type> = match dims {
            syn::Type::Tuple(tuple) => tuple.elems.iter().collect(),
            syn::Type::Paren(paren) => {
                let text = match &*paren.elem {
                    syn::Type::Path(path) if path.path.get_ident().is_some() => type_name(&paren.elem),
                    _ => None,
                };
                let at = self.mark(paren.paren_token.span);
                let text = text.unwrap_or_else(|| "K".to_owned());
                let message = format!("the dims of `{name}` are not a tuple: `({text})` is `{text}` in parentheses");
                self.unsupported(
                    Diagnostic::new(Code::DIM, at, message).help(format!("one dim is written `({text},)`")),
                );
                vec![&*paren.elem]
            }
            other => {
                let at = self.mark(*other);
                let text = type_name(other).unwrap_or_else(|| "K".to_owned());
                let message = format!("the dims of `{name}` are not a tuple");
                self.unsupported(
                    Diagnostic::new(Code::DIM, at, message).help(format!("one dim is written `({text},)`")),
                );
                return None;
            }
        };
        if dims.is_empty() || dims.len() > MOST_TENSOR_AXES {
            let at = self.mark(arguments[1]);
            let message = format!("tensor `{name}` has {} dims; a tensor has 1 to {MOST_TENSOR_AXES}", dims.len());
            let help = if dims.is_empty() { "one dim is written `(K,)`" } else { "flatten the outer axes on the host" };
            self.unsupported(Diagnostic::new(Code::DIM, at, message).help(help));
            return None;
        }
        let shape: Vec<Option<Extent>> = dims.into_iter().map(|dim| self.tensor_extent(dim)).collect();
        Some(ParamKind::Tensor {
            dtype: dtype?,
            shape: shape.into_iter().collect::<Option<_>>()?,
            mutable,
            optional: false,
        })
    }

    /// One dim of a tensor: any [`Parser::extent`], or `Extent<{ 2 * K }>` of dims before it.
    fn tensor_extent(&mut self, ty: &syn::Type) -> Option<Extent> {
        match peel(ty) {
            syn::Type::Path(path) if path.qself.is_none() => {
                let segment = path.path.segments.last()?;
                if segment.ident != "Extent" || segment.arguments.is_none() {
                    return self.extent(ty);
                }
                self.derived(&path.path)
            }
            _ => self.extent(ty),
        }
    }

    /// `Extent<{ 2 * K }>`: a dim of its own, and the contract that it is `2 * K`.
    fn derived(&mut self, path: &syn::Path) -> Option<Extent> {
        let Some(expr) = constant_argument(path) else {
            let at = self.mark(path);
            let diagnostic = Diagnostic::new(Code::DIM, at, "`Extent` takes one expression of dims");
            self.unsupported(diagnostic.help("Extent<{ 2 * K }>"));
            return None;
        };
        if let Some(name) = unknown_name(self, &expr) {
            let at = self.mark(name.span());
            let message = format!("`{name}` is no dim that is known before this extent");
            let help = format!("let a tensor before it have `{name}` as a dim of its own: `Tensor<T, ({name},)>`");
            self.unsupported(Diagnostic::new(Code::DIM, at, message).help(help));
            return None;
        }
        let value = self.in_place("the signature", |p| p.expr(&expr))?;
        let span = self.mark(path);
        if !self.unify(self.ty(value), Ty::Is(Type::Index)) {
            let found = self.ty_name(self.ty(value));
            self.unsupported(Diagnostic::new(Code::DIM, span, format!("an extent is a `usize`, this is {found}")));
            return None;
        }
        let facts = self.facts(value);
        if facts.constant {
            return Some(Extent::Fixed(value));
        }
        if !facts.launch {
            let message = "an extent is made of dims and constants only";
            self.unsupported(Diagnostic::new(Code::DIM, span, message).help("Extent<{ 2 * K }>"));
            return None;
        }
        let text = super::source::text(&quote::ToTokens::to_token_stream(&expr));
        // Extents that are written alike, such as `2 * K` in two tensors, share one dim.
        if let Some((dim, _)) = self.kernel.dims.iter().find(|(_, dim)| dim.name == text) {
            return Some(Extent::Dim(dim));
        }
        let dim = self.kernel.dims.push(Dim { name: text.clone(), span, value: None });
        let left = self.push(ExprKind::Dim(dim), Type::Index, super::Facts::LAUNCH, span);
        let cond = self.push(ExprKind::Binary(BinaryOp::Eq, left, value), Type::BOOL, super::Facts::LAUNCH, span);
        self.kernel.requires.push(Require { cond, text: format!("extent == {text}"), span });
        Some(Extent::Dim(dim))
    }

    /// One dim: a new or known dynamic dim, a const parameter, or `Fixed<..>`.
    pub(super) fn extent(&mut self, ty: &syn::Type) -> Option<Extent> {
        const HELP: &str =
            "a dim is a name, a const parameter or `Fixed<128>`; a kernel's tensor may also have `Extent<{ 2 * K }>`";
        let ty = peel(ty);
        let path = match ty {
            syn::Type::Path(path) if path.qself.is_none() => &path.path,
            _ => {
                let at = self.mark(ty);
                self.unsupported(Diagnostic::new(Code::DIM, at, "this is not a dim").help(HELP));
                return None;
            }
        };
        let segment = path.segments.last()?;
        let name = segment.ident.to_string();
        if name == "Fixed" && !segment.arguments.is_none() {
            return self.fixed(path).map(Extent::Fixed);
        }
        let span = self.mark(path);
        if path.get_ident().is_none() || name == "Fixed" {
            self.unsupported(Diagnostic::new(Code::DIM, span, "this is not a dim").help(HELP));
            return None;
        }
        if self.type_param(&name).is_some() || Dtype::from_name(&name).is_some() || name == "usize" {
            let message = format!("`{name}` is a type, not a dim");
            self.unsupported(Diagnostic::new(Code::DIM, span, message).help(HELP));
            return None;
        }
        match self.lookup(&name) {
            None => {
                let dim = self.kernel.dims.push(Dim { name: name.clone(), span, value: None });
                self.bind(name, Binding::Dim(dim));
                Some(Extent::Dim(dim))
            }
            Some(Binding::Dim(dim)) => Some(Extent::Dim(dim)),
            Some(Binding::Const(constant)) => {
                let declared = &self.kernel.consts[constant];
                if declared.kind == ConstKind::Bool {
                    let (message, at) = (format!("dim `{name}` is a bool const parameter"), declared.span);
                    let diagnostic = Diagnostic::new(Code::DIM, span, message).label(at, "declared here");
                    self.unsupported(diagnostic.help(format!("declare it as `const {name}: usize`")));
                    return None;
                }
                Some(Extent::Fixed(self.push(ExprKind::Const(constant), Type::Index, super::Facts::CONSTANT, span)))
            }
            Some(Binding::Poison) => None,
            Some(
                Binding::Tensor(_)
                | Binding::Row(_)
                | Binding::Optional(_)
                | Binding::Scalar(_)
                | Binding::Var(_)
                | Binding::Buffer(_)
                | Binding::Value(_)
                | Binding::Borrowed(..),
            ) => {
                let message = format!("`{name}` is a parameter, not a dim");
                let help = "dims are dynamic already: use a new name, and `require(..)` that it equals the parameter";
                self.unsupported(Diagnostic::new(Code::DIM, span, message).help(help));
                None
            }
        }
    }

    /// The constant in `Fixed<..>`.
    fn fixed(&mut self, path: &syn::Path) -> Option<ExprId> {
        let Some(expr) = &constant_argument(path) else {
            let at = self.mark(path);
            let diagnostic = Diagnostic::new(Code::DIM, at, "`Fixed` takes one constant");
            self.unsupported(diagnostic.help("Fixed<128>, or Fixed<{ 2 * ROWS }>"));
            return None;
        };
        let value = self.in_place("the signature", |p| p.expr(expr))?;
        if self.class(self.ty(value)) == Class::Bool || !self.unify(self.ty(value), Ty::Is(Type::Index)) {
            let (at, found) = (self.mark(expr), self.ty_name(self.ty(value)));
            self.unsupported(Diagnostic::new(Code::DIM, at, format!("`Fixed` takes a `usize`, this is {found}")));
            return None;
        }
        self.constant(value, "the extent in `Fixed<..>`", "use literals, const parameters and `T::BITS`")
    }
}

/// The one argument of `Fixed<..>` or `Extent<..>`, without the braces around it.
fn constant_argument(path: &syn::Path) -> Option<syn::Expr> {
    let syn::PathArguments::AngleBracketed(arguments) = &path.segments.last()?.arguments else { return None };
    if arguments.args.len() != 1 {
        return None;
    }
    let expr = match arguments.args.first()? {
        syn::GenericArgument::Const(expr) => expr.clone(),
        syn::GenericArgument::Type(syn::Type::Path(path)) if path.qself.is_none() => {
            syn::Expr::Path(syn::ExprPath { attrs: vec![], qself: None, path: path.path.clone() })
        }
        _ => return None,
    };
    Some(match expr {
        syn::Expr::Block(block) => match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(expr, None)] => expr.clone(),
            _ => syn::Expr::Block(block),
        },
        expr => expr,
    })
}

/// The first name in an expression of operators that nothing binds.
fn unknown_name(parser: &Parser, expr: &syn::Expr) -> Option<syn::Ident> {
    match expr {
        syn::Expr::Path(path) => {
            path.path.get_ident().filter(|name| parser.lookup(&name.to_string()).is_none()).cloned()
        }
        syn::Expr::Binary(binary) => unknown_name(parser, &binary.left).or_else(|| unknown_name(parser, &binary.right)),
        syn::Expr::Paren(inner) => unknown_name(parser, &inner.expr),
        syn::Expr::Group(inner) => unknown_name(parser, &inner.expr),
        syn::Expr::Call(call) => call.args.iter().find_map(|argument| unknown_name(parser, argument)),
        _ => None,
    }
}

/// The dtypes a bound stands for, by its last path segment.
fn bound_dtypes(bound: &TypeParamBound) -> Option<(&'static str, &'static [Dtype])> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    let segment = bound.path.segments.last()?;
    if segment.ident == "Half" {
        Some(("Half", &HALF))
    } else if segment.ident == "Float" {
        Some(("Float", &FLOAT))
    } else {
        None
    }
}

/// The last segment of a type that is a path.
fn type_name(ty: &syn::Type) -> Option<String> {
    match ty {
        syn::Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|s| s.ident.to_string()),
        _ => None,
    }
}

/// Where a function is called `unsafe`, or `safe`.
pub(super) fn unsafe_word(safety: &syn::Safety) -> Option<(Span, &'static str)> {
    match safety {
        syn::Safety::Unsafe(word) => Some((word.span, "unsafe")),
        syn::Safety::Safe(word) => Some((word.span, "safe")),
        syn::Safety::Default => None,
    }
}
