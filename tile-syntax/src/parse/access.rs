//! Accesses to one element: `x[i]`, `x[[i, j]]`, `x.masked([i, j])`, `*y.masked_mut([i])`.

use super::range::Range;
use super::{Binding, Facts, Parser};
use quote::ToTokens;
use syn::{Expr, UnOp};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{Access, AccessId, ExprId, ExprKind, ParamKind, Place, SpanId, Type};

impl Parser {
    /// `x[i]` as a value.
    pub(super) fn element_load(&mut self, index: &syn::ExprIndex) -> Option<ExprId> {
        let access = self.element(index)?;
        Some(self.load(access))
    }

    /// A load of an access.
    pub(super) fn load(&mut self, access: AccessId) -> ExprId {
        let (place, span) = (self.kernel.accesses[access].place, self.kernel.accesses[access].span);
        let dtype = self.kernel.place_dtype(place);
        self.push(ExprKind::Load(access), Type::Value(dtype), Facts { loads: true, ..Facts::FIXED }, span)
    }

    /// `*y.masked_mut([i])` as a value.
    pub(super) fn masked_deref_load(&mut self, unary: &syn::ExprUnary) -> Option<ExprId> {
        let access = self.masked_deref(unary)?;
        Some(self.load(access))
    }

    /// The element that an assignment, `+=` or an atomic names.
    pub(super) fn element_place(&mut self, expr: &Expr) -> Option<AccessId> {
        match expr {
            Expr::Index(index) => self.element(index),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.masked_deref(unary),
            Expr::Paren(inner) => self.element_place(&inner.expr),
            Expr::Group(inner) => self.element_place(&inner.expr),
            other => {
                let masked = matches!(other, Expr::MethodCall(call) if call.method == "masked_mut");
                let help = match masked {
                    true => format!("write `*{}`", self.written(other, || other.to_token_stream())),
                    false => "assign to a variable or to an element `y[i]`".to_owned(),
                };
                self.syntax(other, "this is not a place to store to", &help);
                None
            }
        }
    }

    fn masked_deref(&mut self, unary: &syn::ExprUnary) -> Option<AccessId> {
        let mut inner = &*unary.expr;
        while let Expr::Paren(paren) = inner {
            inner = &paren.expr;
        }
        match inner {
            Expr::MethodCall(call) if call.method == "masked_mut" || call.method == "masked" => {
                if call.method == "masked" {
                    let at = self.mark(call.method.span());
                    self.rustc(Diagnostic::new(Code::TYPE, at, "a masked load is a value").help("remove the `*`"));
                    return None;
                }
                self.masked(call)
            }
            other => {
                self.syntax(other, "references are not in the language", "`*` stands before `.masked_mut(..)` only");
                None
            }
        }
    }

    /// `x.masked([i, j])`.
    pub(super) fn masked(&mut self, call: &syn::ExprMethodCall) -> Option<AccessId> {
        let place = self.place(&call.receiver, "`.masked(..)`")?;
        if call.args.len() != 1 {
            let at = self.mark(call.paren_token.span);
            self.rustc(Diagnostic::new(Code::CALL, at, format!("`.{}` takes the indices", call.method)));
            return None;
        }
        let Expr::Array(array) = strip(&call.args[0]) else {
            // A plain index is rustc's to report; an array made elsewhere was reported where it was made.
            let value = self.expr(&call.args[0])?;
            let span = self.kernel.exprs[value].span;
            self.rustc(Diagnostic::new(Code::TYPE, span, "the indices are written `[i]` or `[i, j]`"));
            return None;
        };
        if call.method == "masked_mut" {
            self.check_writable(place, &call.receiver);
        }
        let span = self.mark(Range { first: Range::from(&*call.receiver).first, last: call.paren_token.span.close() });
        let indices: Vec<&Expr> = array.elems.iter().collect();
        self.access((place, &call.receiver), &indices, true, array.bracket_token.span.into(), span)
    }

    fn element(&mut self, index: &syn::ExprIndex) -> Option<AccessId> {
        if matches!(strip(&index.expr), Expr::Index(_)) {
            return self.element_of_element(index);
        }
        let place = self.place(&index.expr, "`[..]`")?;
        let range: Range = index.bracket_token.span.into();
        let indices: Vec<&Expr> = match strip(&index.index) {
            Expr::Array(array) => array.elems.iter().collect(),
            Expr::Tuple(tuple) => {
                self.syntax(tuple.paren_token.span, "an index is not a tuple", "write `x[[i, j]]`");
                return None;
            }
            range @ Expr::Range(_) => {
                let help = "a part of a tensor is `x.tile([0..4])`, an operand of `copy`";
                self.syntax(range, "an index is not a range", help);
                return None;
            }
            single => vec![single],
        };
        let span = self.mark(Range { first: Range::from(&*index.expr).first, last: index.bracket_token.span.close() });
        self.access((place, &index.expr), &indices, false, range, span)
    }

    /// `x[i][j]`: rustc reports it for a tensor.
    fn element_of_element(&mut self, index: &syn::ExprIndex) -> Option<AccessId> {
        let mut base = &*index.expr;
        while let Expr::Index(inner) = strip(base) {
            base = &inner.expr;
        }
        let place = self.place(base, "`[..]`")?;
        let at = self.mark(index.bracket_token.span);
        let name = self.kernel.place_name(place).to_owned();
        let diagnostic = Diagnostic::new(Code::SHAPE, at, format!("an element of `{name}` has no elements"));
        let diagnostic = diagnostic.help(format!("indices stand in one bracket: `{name}[[i, j]]`"));
        match place {
            Place::Tensor(_) => self.rustc(diagnostic),
            Place::Buffer(_) => self.unsupported(diagnostic),
        }
        None
    }

    /// What is accessed: a tensor or array by name.
    pub(super) fn place(&mut self, expr: &Expr, what: &str) -> Option<Place> {
        let name = match strip(expr) {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        };
        let binding = name.as_ref().and_then(|name| self.lookup(name));
        match (binding, name) {
            (Some(Binding::Tensor(param)), _) => Some(Place::Tensor(param)),
            (Some(Binding::Row(row)), _) => self.rows.get(row as usize).map(|(param, _)| Place::Tensor(*param)),
            (Some(Binding::Buffer(buffer) | Binding::Borrowed(buffer, _)), _) => Some(Place::Buffer(buffer)),
            (Some(Binding::Poison), _) => None,
            (Some(Binding::Optional(param)), Some(name)) => {
                let declared = self.kernel.params[param].span;
                let at = self.mark(expr);
                let message = format!("`{name}` is optional: {what} does not apply to it as it is");
                let diagnostic = Diagnostic::new(Code::TYPE, at, message).label(declared, "declared here");
                self.rustc(diagnostic.help(format!("take it out: `if let Some(t) = {name} {{ .. }}`")));
                None
            }
            (_, Some(name)) => {
                let at = self.mark(expr);
                let message = format!("`{name}` is neither a tensor nor an array, {what} does not apply");
                self.rustc(Diagnostic::new(Code::TYPE, at, message));
                None
            }
            (_, None) if what == "`copy`" && matches!(strip(expr), Expr::MethodCall(_)) => {
                self.syntax(expr, "a part of a tensor is no reference", "remove the `&` or `&mut` before it");
                None
            }
            (_, None) => {
                let message = format!("{what} applies to a tensor or array by name");
                self.syntax(expr, message, "arrays are made by `alloc_shared` and `alloc_local`");
                None
            }
        }
    }

    /// The indices that come before those that are written: of what is a row of a tensor of the caller's.
    pub(super) fn leading(&self, expr: &Expr) -> Vec<ExprId> {
        let Expr::Path(path) = strip(expr) else { return vec![] };
        match path.path.get_ident().and_then(|name| self.lookup(&name.to_string())) {
            Some(Binding::Row(row)) => self.rows.get(row as usize).map_or(vec![], |(_, indices)| indices.clone()),
            _ => vec![],
        }
    }

    /// Indices behind those of the row that they are of.
    pub(super) fn behind(&mut self, leading: &[ExprId], indices: Vec<ExprId>, span: SpanId) -> Vec<ExprId> {
        let before: Vec<ExprId> = leading.iter().map(|index| self.again(*index, span)).collect();
        before.into_iter().chain(indices).collect()
    }

    /// Reads the indices of an access to what an expression names, and checks their number.
    fn access(
        &mut self,
        (place, of): (Place, &Expr),
        indices: &[&Expr],
        masked: bool,
        bracket: Range,
        span: SpanId,
    ) -> Option<AccessId> {
        let leading = self.leading(of);
        let rank = self.check_rank(place, leading.len(), indices.len(), bracket);
        let indices = self.indices(indices)?;
        rank?;
        let indices = self.behind(&leading, indices, span);
        Some(self.kernel.accesses.push(Access { place, indices, masked, span }))
    }

    /// Reads indices: each is a `usize`.
    pub(super) fn indices(&mut self, indices: &[&Expr]) -> Option<Vec<ExprId>> {
        let indices = self.operands(indices)?;
        for &index in &indices {
            self.demand(index, Type::Index)?;
        }
        Some(indices)
    }

    /// The number of indices is the number of axes behind the `leading` ones. rustc reports it for a tensor, whose rank is in its type.
    pub(super) fn check_rank(&mut self, place: Place, leading: usize, found: usize, range: Range) -> Option<()> {
        let (rank, declared) = match place {
            Place::Tensor(param) => match &self.kernel.params[param].kind {
                ParamKind::Tensor { shape, .. } => (shape.len(), self.kernel.params[param].span),
                ParamKind::Scalar { .. } | ParamKind::Absent => return None,
            },
            Place::Buffer(buffer) => (self.kernel.buffers[buffer].extents.len(), self.kernel.buffers[buffer].span),
        };
        let rank = rank.saturating_sub(leading);
        if rank == found {
            return Some(());
        }
        let at = self.mark(range);
        let name = self.kernel.place_name(place).to_owned();
        let axes = |n: usize| format!("{n} {}", if n == 1 { "axis" } else { "axes" });
        let message = format!(
            "`{name}` has {}, {found} {} given",
            axes(rank),
            if found == 1 { "index is" } else { "indices are" }
        );
        let example = match rank {
            1 => format!("{name}[i]"),
            2 => format!("{name}[[i, j]]"),
            _ => format!("{name}[[i, j, k]]"),
        };
        let diagnostic =
            Diagnostic::new(Code::SHAPE, at, message).label(declared, format!("{} declared here", axes(rank)));
        let diagnostic = diagnostic.help(format!("write `{example}`"));
        match place {
            Place::Tensor(_) => self.rustc(diagnostic),
            Place::Buffer(_) => self.unsupported(diagnostic),
        }
        None
    }

    /// What an operand that is a reference to an array refers to, and whether it may be written: `&s`, `&mut s`, or the
    /// parameter of a `#[tile_fn]`.
    pub(super) fn borrowed<'e>(&self, expr: &'e Expr) -> Option<(&'e Expr, bool)> {
        match strip(expr) {
            Expr::Reference(reference) => Some((&*reference.expr, reference.mutability.is_some())),
            Expr::Path(path) => match self.lookup(&path.path.get_ident()?.to_string()) {
                Some(Binding::Borrowed(_, mutable)) => Some((expr, mutable)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a place may be written is rustc's to report.
    pub(super) fn check_writable(&mut self, place: Place, expr: &Expr) {
        let writable = match place {
            Place::Tensor(param) => matches!(self.kernel.params[param].kind, ParamKind::Tensor { mutable: true, .. }),
            // What a `#[tile_fn]` may write is what its parameters say.
            Place::Buffer(buffer) => self.mutable_buffers.contains(&buffer) || !self.frames.is_empty(),
        };
        if !writable {
            let at = self.mark(expr);
            let name = self.kernel.place_name(place).to_owned();
            self.rustc(Diagnostic::new(Code::TYPE, at, format!("`{name}` is not mutable")));
        }
    }
}

/// An expression without the parentheses and invisible groups around it.
pub(super) fn strip(mut expr: &Expr) -> &Expr {
    loop {
        match expr {
            Expr::Paren(paren) => expr = &paren.expr,
            Expr::Group(group) => expr = &group.expr,
            _ => return expr,
        }
    }
}
