//! Expressions: resolved and typed as they are read.

use super::range::Range;
use super::types::{Class, Slot, Ty};
use super::{Binding, Facts, Hoist, Parser};
use syn::{BinOp, Expr, Lit, UnOp};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    BinaryOp, ConstKind, Dtype, DtypeRef, ExprId, ExprKind, ParamKind, SpanId, SpecialValue, StmtId, StmtKind, Type,
    UnaryOp, VarKind,
};

/// Deepest nesting of expressions and blocks: what an unoptimised build of this crate reads on a 2 MB stack.
pub(super) const DEEPEST: u32 = 100;

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

    fn literal(&mut self, literal: &syn::ExprLit) -> Option<ExprId> {
        let span = self.mark(literal.lit.span());
        let (suffix, is_float) = match &literal.lit {
            Lit::Int(int) => (int.suffix(), matches!(int.suffix(), "f32" | "f64")),
            Lit::Float(float) => (float.suffix(), true),
            Lit::Bool(bool) => return Some(self.push(ExprKind::Bool(bool.value), Type::BOOL, Facts::CONSTANT, span)),
            _ => {
                let message = "text and characters are not values of a kernel";
                self.syntax(literal.lit.span(), message, "text stands in `device_print` and `device_assert` only");
                return None;
            }
        };
        let ty = match (suffix, is_float) {
            ("", true) => self.fresh(Slot::Float),
            ("", false) => self.fresh(Slot::Int { negated: false }),
            ("usize", false) => Ty::Is(Type::Index),
            ("i32", false) => Ty::Is(Type::from(Dtype::I32)),
            ("u32", false) => Ty::Is(Type::from(Dtype::U32)),
            ("f32", true) => Ty::Is(Type::F32),
            _ => {
                let message = format!("`{suffix}` is not a type of this version of the language");
                let diagnostic = Diagnostic::new(Code::DTYPE, span, message);
                self.unsupported(diagnostic.help("use usize, i32, u32 or f32"));
                return None;
            }
        };
        let kind = match &literal.lit {
            Lit::Int(int) if !is_float => int.base10_parse::<i64>().ok().map(ExprKind::Int),
            Lit::Int(int) => int.base10_digits().parse::<f32>().ok().map(|v| ExprKind::Float(f64::from(v))),
            // A float literal is an f32; `lit(..)` reads its own.
            Lit::Float(float) => float.base10_digits().parse::<f32>().ok().map(|v| ExprKind::Float(f64::from(v))),
            _ => None,
        };
        let Some(kind) = kind else {
            let diagnostic = Diagnostic::new(Code::SYNTAX, span, "this number is too large");
            self.unsupported(diagnostic);
            return None;
        };
        Some(self.push(kind, ty, Facts::CONSTANT, span))
    }

    fn path(&mut self, path: &syn::ExprPath) -> Option<ExprId> {
        let range = Range::from(&path.path);
        if path.qself.is_some() {
            self.syntax(range, "qualified paths are not in the language", "write `T::ZERO`");
            return None;
        }
        let segments = &path.path.segments;
        if segments.len() == 2 {
            return self.associated(&segments[0].ident.to_string(), &segments[1].ident.to_string(), range);
        }
        let Some(name) = path.path.get_ident().map(ToString::to_string) else {
            let message = "this path has no value in a kernel: what is declared outside is not visible to it";
            let span = self.mark(range);
            let diagnostic = Diagnostic::new(Code::UNKNOWN_NAME, span, message);
            self.unsupported(diagnostic.help("pass it as a const parameter or a scalar parameter"));
            return None;
        };
        let Some(binding) = self.lookup(&name) else {
            self.unknown_name(&name, range);
            return None;
        };
        if matches!(binding, Binding::Poison) {
            return None;
        }
        let span = self.mark(range);
        Some(match binding {
            Binding::Var(var) => self.var(var, span),
            Binding::Dim(dim) => self.push(ExprKind::Dim(dim), Type::Index, Facts::LAUNCH, span),
            Binding::Const(constant) => {
                let ty = match self.kernel.consts[constant].kind {
                    ConstKind::Usize => Type::Index,
                    ConstKind::Bool => Type::BOOL,
                };
                self.push(ExprKind::Const(constant), ty, Facts::CONSTANT, span)
            }
            Binding::Scalar(param) => {
                let ParamKind::Scalar { ty } = self.kernel.params[param].kind else { return None };
                self.push(ExprKind::Scalar(param), ty, Facts::LAUNCH, span)
            }
            Binding::Tensor(_) | Binding::Buffer(_) => {
                let (kind, index) = if matches!(binding, Binding::Tensor(_)) {
                    ("tensor", "an element of it, `copy`")
                } else {
                    ("array", "an element of it, `copy`, `fill`, `clear`")
                };
                let message = format!("{kind} `{name}` is not a value");
                self.unsupported(Diagnostic::new(Code::SYNTAX, span, message).help(format!("use {index}")));
                return None;
            }
            Binding::Poison => return None,
        })
    }

    /// A name that nothing in the kernel binds. rustc finds a typing error; it finds nothing wrong with a constant
    /// declared outside, which the kernel cannot see.
    fn unknown_name(&mut self, name: &str, range: Range) {
        let span = self.mark(range);
        if matches!(name, "Sum" | "Max" | "Min") {
            let message = format!("`{name}` is an operator, not a value");
            let help = format!("it is the first argument of a reduction: thread_allreduce({name}, v, tk)");
            return self.unsupported(Diagnostic::new(Code::CALL, span, message).help(help));
        }
        let constant = name.chars().any(char::is_alphabetic) && !name.chars().any(char::is_lowercase);
        let message = format!("`{name}` is no dim, const parameter or variable of `{}`", self.kernel.name);
        let diagnostic = Diagnostic::new(Code::UNKNOWN_NAME, span, message);
        if constant {
            let diagnostic = diagnostic.note("a constant declared outside is not visible to a kernel");
            self.unsupported(diagnostic.help(format!("declare it: `const {name}: usize` among the generics")));
        } else {
            self.rustc(diagnostic.help("declare it with `let`"));
        }
    }

    /// `T::ZERO`, `T::BITS`, `f32::INFINITY`, `u32::MAX`.
    fn associated(&mut self, ty: &str, name: &str, range: Range) -> Option<ExprId> {
        let span = self.mark(range);
        let dtype = match self.type_param(ty) {
            Some(param) => Some(DtypeRef::Param(param)),
            None => Dtype::from_name(ty).map(DtypeRef::Is),
        };
        let Some(dtype) = dtype else {
            let message =
                format!("`{ty}::{name}` has no value in a kernel: what is declared outside is not visible to it");
            let diagnostic = Diagnostic::new(Code::UNKNOWN_NAME, span, message);
            self.unsupported(diagnostic.help("pass it as a const parameter or a scalar parameter"));
            return None;
        };
        let special = match name {
            "BITS" => return Some(self.push(ExprKind::Bits(dtype), Type::Index, Facts::CONSTANT, span)),
            "ZERO" => SpecialValue::Zero,
            "ONE" => SpecialValue::One,
            "NEG_INFINITY" => SpecialValue::NegInfinity,
            "INFINITY" => SpecialValue::Infinity,
            _ => {
                let number = match (dtype, name) {
                    (DtypeRef::Is(Dtype::I32), "MAX") => Some(ExprKind::Int(i64::from(i32::MAX))),
                    (DtypeRef::Is(Dtype::I32), "MIN") => Some(ExprKind::Int(i64::from(i32::MIN))),
                    (DtypeRef::Is(Dtype::U32), "MAX") => Some(ExprKind::Int(i64::from(u32::MAX))),
                    (DtypeRef::Is(Dtype::U32), "MIN") => Some(ExprKind::Int(0)),
                    (DtypeRef::Is(Dtype::F32), "MAX") => Some(ExprKind::Float(f64::from(f32::MAX))),
                    (DtypeRef::Is(Dtype::F32), "MIN") => Some(ExprKind::Float(f64::from(f32::MIN))),
                    (DtypeRef::Is(Dtype::F32), "EPSILON") => Some(ExprKind::Float(f64::from(f32::EPSILON))),
                    _ => None,
                };
                let Some(number) = number else {
                    let diagnostic =
                        Diagnostic::new(Code::SYNTAX, span, format!("`{ty}::{name}` is not in the language"));
                    self.unsupported(diagnostic.help(format!("use {ty}::ZERO, ONE, INFINITY, NEG_INFINITY or BITS")));
                    return None;
                };
                return Some(self.push(number, Type::Value(dtype), Facts::CONSTANT, span));
            }
        };
        let infinite = matches!(special, SpecialValue::NegInfinity | SpecialValue::Infinity);
        if infinite && let Some(stray) = self.dtypes(dtype).into_iter().find(|d| !d.is_float()) {
            let message = format!("`{ty}::{name}` does not exist for {stray}");
            let help = "use a float dtype, or begin with the first element";
            self.unsupported(Diagnostic::new(Code::DTYPE, span, message).help(help));
            return None;
        }
        Some(self.push(ExprKind::Special(dtype, special), Type::Value(dtype), Facts::CONSTANT, span))
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
            UnaryOp::Not => {}
        }
        Some(self.push(ExprKind::Unary(op, operand), ty, self.facts(operand), span))
    }

    fn binary(&mut self, binary: &syn::ExprBinary) -> Option<ExprId> {
        let Some(op) = binary_op(&binary.op) else {
            self.syntax(Range::from(&*binary.left), "an assignment is not a value", "assign in a statement of its own");
            return None;
        };
        let (left, right) = if matches!(op, BinaryOp::And | BinaryOp::Or) {
            let left = self.expr(&binary.left);
            let right = self
                .in_place("the right side of `&&` or `||`, which is not always evaluated", |p| p.expr(&binary.right));
            (left?, right?)
        } else {
            let operands = self.operands(&[&binary.left, &binary.right])?;
            (operands[0], operands[1])
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
                self.same_type(self.ty(right), ty, self.kernel.exprs[right].span)?;
                // Either side may have told the class of the other.
                let class = self.class(ty);
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
        let numeric =
            |ty: Type| matches!(ty, Type::Index) || matches!(ty.dtype(), Some(Dtype::I32 | Dtype::U32 | Dtype::F32));
        let from = self.resolve(self.ty(value));
        let from_fits = match from {
            Ty::Is(ty) => numeric(ty) || (ty == Type::BOOL && to.dtype() != Some(Dtype::F32)),
            Ty::Slot(_) => true,
        };
        if !from_fits || !numeric(to) {
            let message = format!("cannot cast {} to {} with `as`", self.ty_name(from), self.ty_name(Ty::Is(to)));
            self.rustc(Diagnostic::new(Code::TYPE, span, message).help("convert with `.cast::<..>()`"));
            return None;
        }
        Some(self.push(ExprKind::Cast(to, value), to, self.facts(value), span))
    }

    /// `if c { a } else { b }` as a value: one expression where its arms are expressions, else a variable that each
    /// arm assigns.
    fn if_value(&mut self, branch: &syn::ExprIf) -> Option<ExprId> {
        if let Some((then, otherwise)) = plain_arms(branch) {
            let cond = self.condition(&branch.cond);
            let (then, otherwise) =
                self.in_place("an arm of `if`, which is not always evaluated", |p| (p.expr(then), p.expr(otherwise)));
            let (cond, then, otherwise) = (cond?, then?, otherwise?);
            self.same_type(self.ty(otherwise), self.ty(then), self.kernel.exprs[otherwise].span)?;
            let facts = self.facts(cond).and(self.facts(then)).and(self.facts(otherwise));
            let span = self.mark(branch.if_token.span);
            return Some(self.push(ExprKind::If(cond, then, otherwise), self.ty(then), facts, span));
        }
        if !self.may_hoist(branch.if_token.span, "an `if` with statements in its arms") {
            return None;
        }
        let span = self.mark(branch.if_token.span);
        let ty = self.fresh(Slot::Free);
        let var = self.temporary(ty, span);
        self.kernel.vars[var].kind = VarKind::Mut;
        self.vars[var.as_u32() as usize].facts = Facts::VARIES;
        self.emit(StmtKind::Let { var, value: None }, span);
        self.if_into(branch, var)?;
        Some(self.var(var, span))
    }

    /// The condition of an `if`.
    pub(super) fn condition(&mut self, cond: &Expr) -> Option<ExprId> {
        if let Expr::Let(binding) = cond {
            let help = "`if` takes a bool; an optional tensor is a `const HAS_BIAS: bool` in this version";
            self.syntax(binding.let_token.span, "`if let` is not in the language", help);
            return None;
        }
        let cond = self.expr(cond)?;
        self.demand(cond, Type::BOOL)
    }

    /// `{ statements; value }` as a value.
    fn block_value(&mut self, block: &syn::ExprBlock) -> Option<ExprId> {
        if let Some(label) = &block.label {
            self.syntax(label.name.ident.span(), "labels are not in the language", "remove it");
            return None;
        }
        if let [syn::Stmt::Expr(value, None)] = block.block.stmts.as_slice() {
            return self.expr(value);
        }
        if !self.may_hoist(block.block.brace_token.span, "a block with statements") {
            return None;
        }
        let names = self.scope.len();
        let value = self.statements_then_value(&block.block);
        self.scope.truncate(names);
        value
    }

    /// Reads a block's statements into the current list and its last expression as its value.
    pub(super) fn statements_then_value(&mut self, block: &syn::Block) -> Option<ExprId> {
        match block.stmts.split_last() {
            Some((syn::Stmt::Expr(value, None), statements)) => {
                statements.iter().for_each(|stmt| self.stmt(stmt));
                self.expr(value)
            }
            _ => {
                block.stmts.iter().for_each(|stmt| self.stmt(stmt));
                let span = self.mark(block.brace_token.span);
                self.rustc(Diagnostic::new(Code::TYPE, span, "this block gives no value"));
                None
            }
        }
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

/// The values of an `if` whose arms are single expressions, `else if` included.
pub(super) fn plain_arms(branch: &syn::ExprIf) -> Option<(&Expr, &Expr)> {
    let arm = |stmts: &'_ [syn::Stmt]| matches!(stmts, [syn::Stmt::Expr(value, None)] if is_plain(value));
    let [syn::Stmt::Expr(then, None)] = branch.then_branch.stmts.as_slice() else { return None };
    let (_, otherwise) = branch.else_branch.as_ref()?;
    if !is_plain(then) {
        return None;
    }
    match &**otherwise {
        Expr::If(nested) => plain_arms(nested).map(|_| (then, &**otherwise)),
        Expr::Block(block) if arm(&block.block.stmts) => Some((then, &**otherwise)),
        _ => None,
    }
}

fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::If(branch) => plain_arms(branch).is_some(),
        Expr::Block(block) => matches!(block.block.stmts.as_slice(), [syn::Stmt::Expr(value, None)] if is_plain(value)),
        Expr::Paren(inner) => is_plain(&inner.expr),
        Expr::Assign(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => false,
        Expr::Binary(binary) => binary_op(&binary.op).is_some(),
        _ => true,
    }
}

/// The operator of an expression; none for `+=` and its like.
fn binary_op(op: &BinOp) -> Option<BinaryOp> {
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
