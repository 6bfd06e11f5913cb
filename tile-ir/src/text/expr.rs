//! Expressions of the tile IR.

use super::kernel::Printer;
use super::{Piece, Tightness, commas, float};
use crate::ir::{AccessId, DimId, Dtype, DtypeRef, ExprId, ExprKind, Place, SpecialValue, Type, UnaryOp};

impl Printer<'_> {
    /// An expression's text.
    pub(super) fn expr(&self, id: ExprId) -> String {
        self.piece(id).text
    }

    /// An expression's text, in parentheses where it binds less tightly than `needed`.
    pub(super) fn expr_at_least(&self, id: ExprId, needed: Tightness) -> String {
        self.piece(id).at_least(needed)
    }

    fn is_number(&self, id: ExprId) -> bool {
        matches!(self.kernel.exprs.get(id).map(|e| &e.kind), Some(ExprKind::Int(_) | ExprKind::Float(_)))
    }

    fn piece(&self, id: ExprId) -> Piece {
        let Some(expr) = self.kernel.exprs.get(id) else { return Piece::atom(format!("?{id}")) };
        match &expr.kind {
            ExprKind::Int(value) => match expr.ty {
                Type::Index => signed(value.to_string()),
                ty => signed(format!("{value}{}", self.ty(ty))),
            },
            ExprKind::Float(value) => match expr.ty {
                Type::Value(DtypeRef::Is(dtype)) if value.is_finite() => signed(float(*value, dtype.name())),
                ty => Piece::atom(format!("lit::<{}>({value:?})", self.ty(ty))),
            },
            ExprKind::Bool(value) => Piece::atom(value.to_string()),
            ExprKind::Dim(dim) => Piece::atom(self.dim(*dim)),
            ExprKind::Const(id) => self.named(self.kernel.consts.get(*id).map(|c| &c.name), id),
            ExprKind::Scalar(param) => self.named(self.kernel.params.get(*param).map(|p| &p.name), param),
            ExprKind::Bits(dtype) => Piece::atom(format!("{}::BITS", self.dtype(*dtype))),
            ExprKind::Special(dtype, value) => {
                let name = match value {
                    SpecialValue::Zero => "ZERO",
                    SpecialValue::One => "ONE",
                    SpecialValue::NegInfinity => "NEG_INFINITY",
                    SpecialValue::Infinity => "INFINITY",
                };
                Piece::atom(format!("{}::{name}", self.dtype(*dtype)))
            }
            ExprKind::Var(var) => Piece::atom(self.var(*var)),
            // `-5` is a number with a sign.
            ExprKind::Unary(UnaryOp::Neg, a) if self.is_number(*a) => {
                Piece { text: format!("-({})", self.expr(*a)), tightness: Tightness::PREFIX }
            }
            ExprKind::Unary(op, a) => Piece::prefix(if *op == UnaryOp::Neg { "-" } else { "!" }, self.piece(*a)),
            ExprKind::Binary(op, a, b) => Piece::binary(*op, self.piece(*a), self.piece(*b)),
            ExprKind::Math(function, args) => {
                Piece::atom(format!("{}({})", function.name(), commas(args.iter().map(|a| self.expr(*a)))))
            }
            ExprKind::Select(c, a, b) => {
                Piece::atom(format!("select({}, {}, {})", self.expr(*c), self.expr(*a), self.expr(*b)))
            }
            ExprKind::If(c, a, b) => {
                let text = format!("if {} {{ {} }} else {{ {} }}", self.expr(*c), self.expr(*a), self.expr(*b));
                Piece { text, tightness: Tightness::LOOSEST }
            }
            ExprKind::Cast(ty, a) => {
                let operand = self.piece(*a).at_least(Tightness::ATOM);
                Piece::atom(format!("{operand}.cast::<{}>()", self.ty(*ty)))
            }
            ExprKind::Load(access) => Piece::atom(self.access(*access, false)),
            ExprKind::Present(param) => {
                let name = self.named(self.kernel.params.get(*param).map(|p| &p.name), param).text;
                Piece::atom(format!("{name}.is_some()"))
            }
        }
    }

    fn named(&self, name: Option<&String>, id: &dyn std::fmt::Display) -> Piece {
        Piece::atom(name.cloned().unwrap_or_else(|| format!("?{id}")))
    }

    /// A dim's name; of one that is an expression of others, the extent as its author wrote it.
    pub(super) fn dim(&self, id: DimId) -> String {
        let Some(dim) = self.kernel.dims.get(id) else { return format!("?{id}") };
        let is_name = dim.name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '#');
        if is_name { dim.name.clone() } else { format!("Extent<{{ {} }}>", dim.name) }
    }

    pub(super) fn exprs(&self, ids: &[ExprId]) -> String {
        commas(ids.iter().map(|e| self.expr(*e)))
    }

    /// `x[i]`, `x[[i, j]]`, `x.masked([i])`; the place of a masked store is `*x.masked_mut([i])`.
    pub(super) fn access(&self, id: AccessId, store: bool) -> String {
        let Some(access) = self.kernel.accesses.get(id) else { return format!("?{id}") };
        let (place, indices) = (self.place(access.place), self.exprs(&access.indices));
        match (access.masked, store) {
            (true, true) => format!("*{place}.masked_mut([{indices}])"),
            (true, false) => format!("{place}.masked([{indices}])"),
            _ if access.indices.len() == 1 => format!("{place}[{indices}]"),
            _ => format!("{place}[[{indices}]]"),
        }
    }

    pub(super) fn place(&self, place: Place) -> String {
        match place {
            Place::Tensor(param) => self.named(self.kernel.params.get(param).map(|p| &p.name), &param).text,
            Place::Buffer(buffer) => self.names.buffer(buffer).map_or_else(|| format!("?{buffer}"), str::to_owned),
        }
    }

    pub(super) fn dtype(&self, dtype: DtypeRef) -> String {
        match dtype {
            DtypeRef::Is(dtype) => dtype.name().to_owned(),
            DtypeRef::Param(param) => self.named(self.kernel.type_params.get(param).map(|t| &t.name), &param).text,
        }
    }

    pub(super) fn ty(&self, ty: Type) -> String {
        match ty {
            Type::Index => "usize".to_owned(),
            Type::Value(dtype) => self.dtype(dtype),
        }
    }
}

/// A literal, which may have a sign.
fn signed(text: String) -> Piece {
    let tightness = if text.starts_with('-') { Tightness::PREFIX } else { Tightness::ATOM };
    Piece { text, tightness }
}

/// The dtypes, as `A | B`.
pub(super) fn alternatives(dtypes: &[Dtype]) -> String {
    dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join(" | ")
}
