//! First and last tokens of syntax.
//!
//! `Span::join` needs a nightly compiler, and asking `syn` for an expression's last token makes it print the whole
//! expression. So the ends are found by walking down one edge of the tree.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Expr, GenericArgument, Path, PathArguments, Stmt, Type};

/// The first and the last token of something.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) first: Span,
    pub(super) last: Span,
}

impl From<Span> for Range {
    fn from(span: Span) -> Self {
        Range { first: span, last: span }
    }
}

impl From<proc_macro2::extra::DelimSpan> for Range {
    fn from(span: proc_macro2::extra::DelimSpan) -> Self {
        Range { first: span.open(), last: span.close() }
    }
}

impl From<&Expr> for Range {
    fn from(expr: &Expr) -> Self {
        Range { first: first(expr), last: last(expr) }
    }
}

impl From<&Path> for Range {
    fn from(path: &Path) -> Self {
        let first = match (&path.leading_colon, path.segments.first()) {
            (Some(colon), _) => colon.spans[0],
            (None, Some(segment)) => segment.ident.span(),
            (None, None) => Span::call_site(),
        };
        Range { first, last: path_end(path) }
    }
}

impl From<&Type> for Range {
    fn from(ty: &Type) -> Self {
        let last = match ty {
            Type::Path(path) => path_end(&path.path),
            Type::Reference(reference) => Range::from(&*reference.elem).last,
            Type::Tuple(tuple) => tuple.paren_token.span.close(),
            Type::Paren(paren) => paren.paren_token.span.close(),
            Type::Array(array) => array.bracket_token.span.close(),
            Type::Slice(slice) => slice.bracket_token.span.close(),
            _ => ty.span(),
        };
        Range { first: ty.span(), last }
    }
}

impl From<&Stmt> for Range {
    fn from(stmt: &Stmt) -> Self {
        match stmt {
            Stmt::Local(local) => Range { first: local.let_token.span, last: local.semi_token.span },
            Stmt::Expr(expr, semi) => {
                let range = Range::from(expr);
                Range { last: semi.map_or(range.last, |s| s.span), ..range }
            }
            _ => Range::from(stmt.span()),
        }
    }
}

fn path_end(path: &Path) -> Span {
    match path.segments.last() {
        Some(segment) => match &segment.arguments {
            PathArguments::None => segment.ident.span(),
            PathArguments::AngleBracketed(arguments) => arguments.gt_token.span,
            PathArguments::Parenthesized(arguments) => arguments.paren_token.span.close(),
        },
        None => Span::call_site(),
    }
}

fn first(expr: &Expr) -> Span {
    match expr {
        Expr::Binary(e) => first(&e.left),
        Expr::Assign(e) => first(&e.left),
        Expr::Call(e) => first(&e.func),
        Expr::MethodCall(e) => first(&e.receiver),
        Expr::Index(e) => first(&e.expr),
        Expr::Cast(e) => first(&e.expr),
        Expr::Field(e) => first(&e.base),
        Expr::Try(e) => first(&e.expr),
        Expr::Range(e) => e.start.as_ref().map_or_else(|| expr.span(), |start| first(start)),
        Expr::Paren(e) => e.paren_token.span.open(),
        Expr::Tuple(e) => e.paren_token.span.open(),
        Expr::Array(e) => e.bracket_token.span.open(),
        Expr::Lit(e) => e.lit.span(),
        Expr::Path(e) if e.qself.is_none() => Range::from(&e.path).first,
        Expr::Group(e) => first(&e.expr),
        _ => expr.span(),
    }
}

fn last(expr: &Expr) -> Span {
    match expr {
        Expr::Binary(e) => last(&e.right),
        Expr::Assign(e) => last(&e.right),
        Expr::Unary(e) => last(&e.expr),
        Expr::Reference(e) => last(&e.expr),
        Expr::Call(e) => e.paren_token.span.close(),
        Expr::MethodCall(e) => e.paren_token.span.close(),
        Expr::Index(e) => e.bracket_token.span.close(),
        Expr::Paren(e) => e.paren_token.span.close(),
        Expr::Tuple(e) => e.paren_token.span.close(),
        Expr::Array(e) => e.bracket_token.span.close(),
        Expr::Cast(e) => Range::from(&*e.ty).last,
        Expr::Range(e) => e.end.as_ref().map_or_else(|| e.limits.span(), |end| last(end)),
        Expr::Lit(e) => e.lit.span(),
        Expr::Path(e) => path_end(&e.path),
        Expr::Group(e) => last(&e.expr),
        Expr::If(e) => match &e.else_branch {
            Some((_, branch)) => last(branch),
            None => e.then_branch.brace_token.span.close(),
        },
        Expr::ForLoop(e) => e.body.brace_token.span.close(),
        Expr::While(e) => e.body.brace_token.span.close(),
        Expr::Loop(e) => e.body.brace_token.span.close(),
        Expr::Block(e) => e.block.brace_token.span.close(),
        Expr::Unsafe(e) => e.block.brace_token.span.close(),
        Expr::Match(e) => e.brace_token.span.close(),
        Expr::Try(e) => e.question_token.span,
        _ => expr.span(),
    }
}

/// The one type among a path's generic arguments.
pub(super) fn generic_types(arguments: &PathArguments) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return vec![] };
    let types = arguments.args.iter().filter_map(|a| if let GenericArgument::Type(ty) = a { Some(ty) } else { None });
    types.collect()
}
