//! Expressions: resolved and typed as they are read.

use super::conversion::is_cast_by_as;
use super::range::Range;
use super::types::{Class, Ty};
use super::{Facts, Hoist, Parser};
use syn::{BinOp, Expr, UnOp};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{BinaryOp, Dtype, ExprId, ExprKind, SpanId, StmtId, StmtKind, Type, UnaryOp};

/// Deepest nesting of expressions and blocks: what an unoptimised build of this crate reads on a 2 MB stack.
pub(super) const DEEPEST: u32 = 100;
/// Deepest nesting of expressions and blocks where every link of a chain on the way, an operator or an `else if`, counts as a level
/// too. Chains are read without recursion, so more of them fit on the stack; the IR holds so many.
pub(super) const LONGEST: u32 = 200;

impl Parser {
    /// Reads an expression. `None` is poison: reported, or rustc's to report.
    pub(super) fn expr(&mut self, expr: &Expr) -> Option<ExprId> {
        if self.depth >= DEEPEST {
            self.syntax(expr, "this expression is nested too deeply", "name parts of it with `let`");
            return None;
        }
        self.depth += 1;
        let value = match expr {
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Lit(literal) => self.literal(literal),
            Expr::Path(path) => self.path(path),
            Expr::Unary(unary) => self.unary(unary),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Cast(cast) => self.as_cast(cast),
            Expr::Index(index) => self.element_load(index),
            Expr::Call(call) => self.call_value(call),
            Expr::MethodCall(call) => self.method_value(call),
            Expr::If(branch) => self.if_value(branch),
            Expr::Block(block) => self.block_value(block),
            other => {
                self.outside(other);
                None
            }
        };
        self.depth -= 1;
        value
    }

    /// Reads operands in order. What an operand reads from memory it reads before the statements that later operands
    /// are made into, so it is given a name first.
    pub(super) fn operands(&mut self, exprs: &[&Expr]) -> Option<Vec<ExprId>> {
        let mut values: Vec<Option<ExprId>> = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let from = self.block.len();
            let value = self.expr(expr);
            self.spill(&mut values, from);
            values.push(value);
        }
        values.into_iter().collect()
    }

    /// Names the values that the statements emitted since `from` might change.
    pub(super) fn spill(&mut self, values: &mut [Option<ExprId>], from: usize) {
        let later: Vec<StmtId> = self.block.get(from..).unwrap_or_default().to_vec();
        let kinds = || later.iter().map(|&stmt| &self.kernel.stmts[stmt].kind);
        let quiet = |kind: &StmtKind| {
            matches!(
                kind,
                StmtKind::Let { .. } | StmtKind::Shuffle { .. } | StmtKind::Vote { .. } | StmtKind::Alloc { .. }
            )
        };
        let memory = kinds().any(|kind| !quiet(kind));
        let variables =
            kinds().any(|kind| matches!(kind, StmtKind::Assign { .. } | StmtKind::If { .. } | StmtKind::For { .. }));
        let mut at = from;
        for slot in values {
            let Some(value) = *slot else { continue };
            let facts = self.facts(value);
            if (facts.loads && memory) || (facts.varies && variables) {
                let span = self.kernel.exprs[value].span;
                let var = self.temporary(self.ty(value), span);
                let stmt =
                    self.kernel.stmts.push(tile_ir::ir::Stmt { kind: StmtKind::Let { var, value: Some(value) }, span });
                self.block.insert(at, stmt);
                at += 1;
                *slot = Some(self.var(var, span));
            }
        }
    }

    /// Whether statements may be made from the expression being read; reports where they may not.
    pub(super) fn may_hoist(&mut self, range: impl Into<Range>, what: &str) -> bool {
        let Hoist::Forbidden(place) = self.hoist else { return true };
        let at = self.mark(range);
        let diagnostic = Diagnostic::new(Code::PLACEMENT, at, format!("{what} stands in {place}"));
        self.error(diagnostic.help("give its result a name with `let` before this statement"));
        false
    }

    fn unary(&mut self, unary: &syn::ExprUnary) -> Option<ExprId> {
        let op = match unary.op {
            UnOp::Neg(_) => UnaryOp::Neg,
            UnOp::Not(_) => UnaryOp::Not,
            _ => return self.masked_deref_load(unary),
        };
        let operand = self.expr(&unary.expr)?;
        let span = self.mark(Range { first: unary_first(&unary.op), last: Range::from(&*unary.expr).last });
        let ty = self.ty(operand);
        let class = self.class(ty);
        match op {
            UnaryOp::Neg => {
                self.computed(class, ty, "-", span)?;
                if !self.negate(ty) || class == Class::Bool {
                    let message = format!("cannot negate {}", self.ty_name(ty));
                    self.rustc(Diagnostic::new(Code::TYPE, span, message));
                    return None;
                }
                // A negative literal is a literal.
                let negated = match self.kernel.exprs[operand].kind {
                    ExprKind::Int(value) => Some(ExprKind::Int(value.wrapping_neg())),
                    ExprKind::Float(value) => Some(ExprKind::Float(-value)),
                    _ => None,
                };
                if let Some(kind) = negated {
                    return Some(self.push(kind, ty, Facts::CONSTANT, span));
                }
            }
            UnaryOp::Not if class == Class::Index => {
                let diagnostic =
                    Diagnostic::new(Code::TYPE, span, "`!` on a `usize`: it has no fixed width in a kernel");
                self.error(diagnostic.help("convert it first: `!(n as u32)`"));
                return None;
            }
            UnaryOp::Not if matches!(class, Class::Float | Class::Mixed) => {
                let message = format!("cannot apply `!` to {}", self.ty_name(ty));
                self.rustc(Diagnostic::new(Code::TYPE, span, message));
                return None;
            }
            UnaryOp::Not => self.computed(class, ty, "!", span)?,
        }
        Some(self.push(ExprKind::Unary(op, operand), ty, self.facts(operand), span))
    }

    /// Refuses to compute with numbers that are for storage, which rustc would not.
    pub(super) fn computed(&mut self, class: Class, ty: Ty, what: &str, span: SpanId) -> Option<()> {
        if class != Class::Storage {
            return Some(());
        }
        let stored = match self.resolve(ty) {
            Ty::Is(Type::Value(dtype)) => self.dtypes(dtype).into_iter().find(|d| d.is_number() && !d.has_arithmetic()),
            Ty::Is(Type::Index) | Ty::Slot(_) => None,
        };
        let stored = stored.map_or("it", Dtype::name);
        let message = format!("`{what}` of {}: {stored} is for storage and has no arithmetic", self.ty_name(ty));
        self.unsupported(Diagnostic::new(Code::DTYPE, span, message).help("cast to u32 or f32 first"));
        None
    }

    /// `a + b + c`: a chain is as deep as it is long, and is read from its innermost operand on, without recursion.
    fn binary(&mut self, binary: &syn::ExprBinary) -> Option<ExprId> {
        let (mut chain, mut innermost) = (vec![binary], &*binary.left);
        while let Expr::Binary(left) = innermost {
            chain.push(left);
            innermost = &left.left;
        }
        let links = chain.len() as u32 - 1;
        if self.depth + self.chained + links > LONGEST {
            self.syntax(innermost, "this chain of operators is too long", "name parts of it with `let`");
            return None;
        }
        self.chained += links;
        let mut value = self.expr(innermost);
        for binary in chain.iter().rev() {
            value = self.right_of(value, binary);
        }
        self.chained -= links;
        value
    }

    /// `left op right`, of which the left side is read.
    fn right_of(&mut self, left: Option<ExprId>, binary: &syn::ExprBinary) -> Option<ExprId> {
        let Some(op) = binary_op(&binary.op) else {
            self.syntax(Range::from(&*binary.left), "an assignment is not a value", "assign in a statement of its own");
            return None;
        };
        let (left, right) = if matches!(op, BinaryOp::And | BinaryOp::Or) {
            let right = self
                .in_place("the right side of `&&` or `||`, which is not always evaluated", |p| p.expr(&binary.right));
            (left?, right?)
        } else {
            let from = self.block.len();
            let right = self.expr(&binary.right);
            let mut left = [left];
            self.spill(&mut left, from);
            (left[0]?, right?)
        };
        let span = self.mark(Range { first: Range::from(&*binary.left).first, last: Range::from(&*binary.right).last });
        self.combine_values(op, left, right, span)
    }

    /// Types `left op right`.
    pub(super) fn combine_values(&mut self, op: BinaryOp, left: ExprId, right: ExprId, span: SpanId) -> Option<ExprId> {
        use BinaryOp::*;
        let facts = self.facts(left).and(self.facts(right));
        let (class, ty) = (self.class(self.ty(left)), self.ty(left));
        let (right, ty) = match op {
            And | Or => {
                self.demand(left, Type::BOOL)?;
                self.demand(right, Type::BOOL)?;
                (right, Ty::Is(Type::BOOL))
            }
            Shl | Shr => {
                self.computed(class, ty, op.symbol(), span)?;
                let shiftable = |class| matches!(class, Class::Int | Class::Index | Class::Unknown);
                let shift = self.ty(right);
                if !shiftable(class) || !shiftable(self.class(shift)) {
                    let message = format!("cannot shift {} by {}", self.ty_name(ty), self.ty_name(shift));
                    self.rustc(Diagnostic::new(Code::TYPE, span, message));
                    return None;
                }
                // The distance has a type of its own in Rust, and the operand's in the IR. A literal takes the
                // operand's; anything else is converted, to a type that `finish` writes down.
                let same = match (self.resolve(ty), self.resolve(shift)) {
                    (Ty::Slot(_), Ty::Is(_)) => false,
                    (a, b) => self.unify(a, b),
                };
                let right = if same {
                    right
                } else {
                    self.push(ExprKind::Cast(Type::Index, right), ty, self.facts(right), span)
                };
                (right, ty)
            }
            _ => {
                let ty = self.one_type(op, left, right)?;
                // Either side may have told the class of the other.
                let class = self.class(ty);
                if !op.is_comparison() {
                    self.computed(class, ty, op.symbol(), span)?;
                }
                let fits = match op {
                    Lt | Le | Gt | Ge | Eq | Ne => true,
                    BitAnd | BitOr | BitXor => !matches!(class, Class::Float | Class::Mixed),
                    CeilDiv => class == Class::Index,
                    _ => class != Class::Bool,
                };
                if !fits {
                    let message = format!("cannot apply `{}` to {}", op.symbol(), self.ty_name(ty));
                    self.rustc(Diagnostic::new(Code::TYPE, span, message));
                    return None;
                }
                if op == Rem && matches!(class, Class::Float | Class::Mixed) {
                    let message = format!("the remainder of {} is not in the language", self.ty_name(ty));
                    self.unsupported(Diagnostic::new(Code::DTYPE, span, message).help("`%` is for integers"));
                    return None;
                }
                (right, if op.is_comparison() { Ty::Is(Type::BOOL) } else { ty })
            }
        };
        Some(self.push(ExprKind::Binary(op, left, right), ty, facts, span))
    }

    /// `x as f32`.
    fn as_cast(&mut self, cast: &syn::ExprCast) -> Option<ExprId> {
        let value = self.expr(&cast.expr);
        let to = self.scalar_type(&cast.ty);
        let (value, to) = (value?, to?);
        let span = self.mark(Range { first: Range::from(&*cast.expr).first, last: Range::from(&*cast.ty).last });
        let numeric = |ty: Type| ty == Type::Index || ty.dtype().is_some_and(is_cast_by_as);
        let from = self.resolve(self.ty(value));
        let from_fits = match from {
            Ty::Is(ty) => numeric(ty) || (ty == Type::BOOL && !to.dtype().is_some_and(Dtype::is_float)),
            Ty::Slot(_) => true,
        };
        if !from_fits || !numeric(to) {
            let message = format!("cannot cast {} to {} with `as`", self.ty_name(from), self.ty_name(Ty::Is(to)));
            let help = match self.conversion_of(&cast.expr, Ty::Is(to)) {
                Some(converted) => format!("write `{converted}`"),
                None => "convert with `.cast::<..>()`".to_owned(),
            };
            self.rustc(Diagnostic::new(Code::TYPE, span, message).help(help));
            return None;
        }
        Some(self.push(ExprKind::Cast(to, value), to, self.facts(value), span))
    }
}

fn unary_first(op: &UnOp) -> proc_macro2::Span {
    match op {
        UnOp::Neg(token) => token.span,
        UnOp::Not(token) => token.span,
        UnOp::Deref(token) => token.span,
        _ => proc_macro2::Span::call_site(),
    }
}

/// The operator of an expression; none for `+=` and its like.
pub(super) fn binary_op(op: &BinOp) -> Option<BinaryOp> {
    Some(match op {
        BinOp::Add(_) => BinaryOp::Add,
        BinOp::Sub(_) => BinaryOp::Sub,
        BinOp::Mul(_) => BinaryOp::Mul,
        BinOp::Div(_) => BinaryOp::Div,
        BinOp::Rem(_) => BinaryOp::Rem,
        BinOp::And(_) => BinaryOp::And,
        BinOp::Or(_) => BinaryOp::Or,
        BinOp::BitXor(_) => BinaryOp::BitXor,
        BinOp::BitAnd(_) => BinaryOp::BitAnd,
        BinOp::BitOr(_) => BinaryOp::BitOr,
        BinOp::Shl(_) => BinaryOp::Shl,
        BinOp::Shr(_) => BinaryOp::Shr,
        BinOp::Eq(_) => BinaryOp::Eq,
        BinOp::Lt(_) => BinaryOp::Lt,
        BinOp::Le(_) => BinaryOp::Le,
        BinOp::Ne(_) => BinaryOp::Ne,
        BinOp::Ge(_) => BinaryOp::Ge,
        BinOp::Gt(_) => BinaryOp::Gt,
        _ => return None,
    })
}

/// The operator of `+=` and its like.
pub(super) fn assigning_op(op: &BinOp) -> Option<BinaryOp> {
    Some(match op {
        BinOp::AddAssign(_) => BinaryOp::Add,
        BinOp::SubAssign(_) => BinaryOp::Sub,
        BinOp::MulAssign(_) => BinaryOp::Mul,
        BinOp::DivAssign(_) => BinaryOp::Div,
        BinOp::RemAssign(_) => BinaryOp::Rem,
        BinOp::BitXorAssign(_) => BinaryOp::BitXor,
        BinOp::BitAndAssign(_) => BinaryOp::BitAnd,
        BinOp::BitOrAssign(_) => BinaryOp::BitOr,
        BinOp::ShlAssign(_) => BinaryOp::Shl,
        BinOp::ShrAssign(_) => BinaryOp::Shr,
        _ => return None,
    })
}
