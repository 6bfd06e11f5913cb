//! Values of the wrong numeric type: which conversion to write.
//!
//! rustc would say that no implementation of `Mul<T>` for `f32` exists, or mark another index than the one at fault. Where both types
//! are numbers this module reports the mistake itself, with the conversion as text to paste; any other mismatch stays rustc's.

use super::Parser;
use super::call::Called;
use super::range::Range;
use super::types::Ty;
use quote::ToTokens;
use tile_ir::advice;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{BinaryOp, Dtype, DtypeClass, DtypeRef, ExprId, ExprKind, FloatFormat, SpanId, Type};

impl Parser {
    /// Demands that an expression has a type.
    pub(super) fn demand(&mut self, expr: ExprId, ty: impl Into<Ty>) -> Option<ExprId> {
        let (found, wanted) = (self.ty(expr), ty.into());
        let span = self.kernel.exprs[expr].span;
        if let (Ty::Is(from), Ty::Is(to)) = (self.resolve(found), self.resolve(wanted))
            && from != to
            && let Some(help) = self.conversion(span, from, to)
        {
            let message = format!("mismatched types: expected {}, found {}", self.ty_name(wanted), self.ty_name(found));
            self.unsupported(Diagnostic::new(Code::TYPE, span, message).help(help));
            return None;
        }
        self.same_type(found, wanted, span)?;
        Some(expr)
    }

    /// Demands that the operands of an arithmetic operator or a comparison have one type, which is returned.
    pub(super) fn one_type(&mut self, op: BinaryOp, left: ExprId, right: ExprId) -> Option<Ty> {
        let (a, b) = (self.ty(left), self.ty(right));
        if let (Ty::Is(x), Ty::Is(y)) = (self.resolve(a), self.resolve(b))
            && x != y
        {
            // The side with fewer values is converted to the other's type.
            let (value, from, to) = if self.rank(x) < self.rank(y) { (left, x, y) } else { (right, y, x) };
            let at = self.kernel.exprs[value].span;
            if let Some(help) = self.conversion(at, from, to) {
                let message =
                    format!("the operands of `{}` differ: {} and {}", op.symbol(), self.ty_name(a), self.ty_name(b));
                self.unsupported(Diagnostic::new(Code::TYPE, at, message).help(help));
                return None;
            }
        }
        self.same_type(b, a, self.kernel.exprs[right].span)?;
        Some(a)
    }

    /// The conversion of the value at a place, as text to paste; none between types that are not numbers.
    fn conversion(&self, span: SpanId, from: Type, to: Type) -> Option<String> {
        let text = advice::text(&self.kernel.source, *self.kernel.spans.get(span)?)?;
        let is_number = |ty| matches!(ty, Type::Index) || self.dtypes_of(ty).into_iter().all(Dtype::is_number);
        if !is_number(from) || !is_number(to) {
            return None;
        }
        let name = |ty| match ty {
            Type::Index => "usize".to_owned(),
            Type::Value(dtype) => self.dtype_name(dtype),
        };
        let operand = if is_postfix(text) { text.to_owned() } else { format!("({text})") };
        // `as` is for `usize`; between element types, generic ones among them, there is `cast`.
        let converted = match (from, to) {
            (Type::Index, Type::Value(DtypeRef::Is(dtype))) | (Type::Value(DtypeRef::Is(dtype)), Type::Index)
                if is_cast_by_as(dtype) =>
            {
                format!("{operand} as {}", name(to))
            }
            (Type::Index | Type::Value(_), Type::Index | Type::Value(_)) => format!("{operand}.cast::<{}>()", name(to)),
        };
        Some(format!("convert it: `{converted}`"))
    }

    /// The conversion of an expression by `cast`, as text to paste.
    pub(super) fn conversion_of(&mut self, expr: &syn::Expr, to: Ty) -> Option<String> {
        let text = self.written(expr, || expr.to_token_stream());
        let operand = if is_postfix(&text) { text } else { format!("({text})") };
        let Ty::Is(Type::Value(dtype)) = to else { return None };
        Some(format!("{operand}.cast::<{}>()", self.dtype_name(dtype)))
    }

    /// `f32::from(x)` and `f16::from_f32(x)`: conversions by associated functions of Rust and of the crate half. rustc, which advises the
    /// first where `as` converts no `f16`, says which types have them.
    pub(super) fn converting(&mut self, call: &syn::ExprCall) -> Option<Called> {
        let syn::Expr::Path(path) = super::access::strip(&call.func) else { return None };
        let mut segments = path.path.segments.iter();
        let (Some(ty), Some(function), None) = (segments.next(), segments.next(), segments.next()) else { return None };
        let name = ty.ident.to_string();
        let is_type = name == "usize" || Dtype::from_name(&name).is_some() || self.dtype_param(&name).is_some();
        let takes_f32 = function.ident == "from_f32";
        if path.qself.is_some() || !is_type || !(takes_f32 || function.ident == "from") || call.args.len() != 1 {
            return None;
        }
        let value = self.expr(&call.args[0]);
        let to = self.scalar_type(&syn::parse_quote!(#ty));
        let (Some(mut value), Some(to)) = (value, to) else { return Some(Called::Poison) };
        if takes_f32 {
            value = match self.demand(value, Type::Value(DtypeRef::Is(Dtype::F32))) {
                Some(value) => value,
                None => return Some(Called::Poison),
            };
        }
        let span = self.mark(Range { first: Range::from(&path.path).first, last: call.paren_token.span.close() });
        Some(Called::Value(self.push(ExprKind::Cast(to, value), to, self.facts(value), span)))
    }

    /// `x.to_f32()`, as the crate half has it.
    pub(super) fn method_to_f32(&mut self, call: &syn::ExprMethodCall) -> Option<ExprId> {
        let value = self.expr(&call.receiver)?;
        let to = Type::Value(DtypeRef::Is(Dtype::F32));
        let span = self.mark(Range { first: Range::from(&*call.receiver).first, last: call.paren_token.span.close() });
        Some(self.push(ExprKind::Cast(to, value), to, self.facts(value), span))
    }

    /// The order in which operands give way: of two types the one of lower rank is converted.
    fn rank(&self, ty: Type) -> u32 {
        match ty {
            Type::Value(DtypeRef::Is(Dtype::F32)) => 4,
            Type::Value(dtype) if self.dtypes(dtype).iter().all(|d| d.is_float()) => 3,
            Type::Index => 2,
            Type::Value(_) => 1,
        }
    }

    fn dtypes_of(&self, ty: Type) -> Vec<Dtype> {
        match ty {
            Type::Index => Vec::new(),
            Type::Value(dtype) => self.dtypes(dtype),
        }
    }
}

/// Whether `as` converts to and from a dtype: whether it is a number of Rust's own.
pub(super) fn is_cast_by_as(dtype: Dtype) -> bool {
    match dtype.class() {
        DtypeClass::Int(_) | DtypeClass::Float(FloatFormat::Binary32) => true,
        DtypeClass::Bool | DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => false,
    }
}

/// Whether a method may be called on an expression as it is written: a name, an element, a call, without an operator around them.
fn is_postfix(text: &str) -> bool {
    let mut depth = 0;
    text.chars().all(|c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            // Of numbers, `<` and `>` stand in `.cast::<T>()` only.
            _ => return depth > 0 || c.is_alphanumeric() || "_.:<>".contains(c),
        }
        true
    })
}
