//! Expressions: constants become literals, literals what their dtype holds, and f32 `a * b + c` one `fma`.

use super::Binder;
use crate::diag::{Code, Diagnostic};
use crate::ir::*;
use crate::lowered;
use half::{bf16, f16};

/// The value of an operator of two constants, where it has one that a constant may be.
fn fold(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    lowered::fold(op, a, b).filter(|value| (-LARGEST_LITERAL..=LARGEST_LITERAL).contains(value))
}

impl Binder<'_> {
    pub(super) fn push(&mut self, kind: ExprKind, ty: Type, span: SpanId) -> ExprId {
        self.to.exprs.push(Expr { kind, ty, span })
    }

    pub(super) fn expr(&mut self, id: ExprId) -> ExprId {
        let Expr { kind, ty, span } = &self.from.exprs[id];
        let (ty, span) = (self.ty(*ty), *span);
        let kind = match kind {
            ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Scalar(_) => kind.clone(),
            ExprKind::Dim(dim) => self.instance.dim(*dim).map_or(ExprKind::Dim(*dim), ExprKind::Int),
            ExprKind::Float(value) => ExprKind::Float(round(*value, ty)),
            ExprKind::Const(id) => {
                let value = self.instance.consts.get(id.index()).copied().unwrap_or(0);
                match self.from.consts[*id].kind {
                    ConstKind::Usize => ExprKind::Int(value),
                    ConstKind::Bool => ExprKind::Bool(value != 0),
                }
            }
            ExprKind::Bits(dtype) => ExprKind::Int(i64::from(self.concrete(*dtype).bits())),
            ExprKind::Special(dtype, value) => special(self.concrete(*dtype), *value),
            ExprKind::Var(var) => return self.variable(*var, ty, span),
            ExprKind::Unary(op, x) => {
                let x = self.expr(*x);
                match (op, &self.to.exprs[x].kind) {
                    (UnaryOp::Not, ExprKind::Bool(value)) => ExprKind::Bool(!value),
                    (UnaryOp::Neg, ExprKind::Int(value))
                        if ty == Type::Index || ty.dtype().is_some_and(Dtype::is_signed) =>
                    {
                        ExprKind::Int(value.wrapping_neg())
                    }
                    (UnaryOp::Neg, ExprKind::Float(value)) => ExprKind::Float(-value),
                    _ => ExprKind::Unary(*op, x),
                }
            }
            ExprKind::Binary(op, a, b) => return self.binary(*op, *a, *b, ty, span),
            ExprKind::Math(function, args) => {
                let args = args.iter().map(|&a| self.expr(a)).collect();
                ExprKind::Math(*function, args)
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                let c = self.expr(*c);
                match self.to.exprs[c].kind {
                    ExprKind::Bool(true) => return self.expr(*a),
                    ExprKind::Bool(false) => return self.expr(*b),
                    _ => {}
                }
                let lazy = matches!(kind, ExprKind::If(..));
                let (a, b) = (self.expr(*a), self.expr(*b));
                if lazy { ExprKind::If(c, a, b) } else { ExprKind::Select(c, a, b) }
            }
            ExprKind::Cast(_, x) => {
                let x = self.expr(*x);
                let source = &self.to.exprs[x];
                match source.kind {
                    _ if source.ty == ty => return x,
                    ExprKind::Int(value) if ty == Type::Index => ExprKind::Int(value),
                    ExprKind::Int(value) if ty.dtype().is_some_and(Dtype::is_float) => {
                        ExprKind::Float(round(value as f64, ty))
                    }
                    ExprKind::Float(value) if ty.dtype().is_some_and(Dtype::is_float) => {
                        ExprKind::Float(round(value, ty))
                    }
                    _ => ExprKind::Cast(ty, x),
                }
            }
            ExprKind::Load(access) => ExprKind::Load(self.access(*access)),
            ExprKind::Present(param) => ExprKind::Bool(!self.instance.absent.contains(param)),
        };
        self.push(kind, ty, span)
    }

    /// A constant variable becomes its value; in extents, every immutable one does.
    fn variable(&mut self, var: VarId, ty: Type, span: SpanId) -> ExprId {
        if let Some(value) = self.values[var]
            && matches!(self.to.vars[var].ty, Type::Index | Type::BOOL)
        {
            if self.inlining {
                return self.expr(value);
            }
            if let Some(number) = self.literal(value) {
                let kind = if ty == Type::BOOL { ExprKind::Bool(number != 0) } else { ExprKind::Int(number) };
                return self.push(kind, ty, span);
            }
        }
        self.push(ExprKind::Var(var), ty, span)
    }

    /// The value of a constant expression of type `usize` or `bool`, without building anything.
    pub(super) fn literal(&self, expr: ExprId) -> Option<i64> {
        Some(match &self.from.exprs[expr].kind {
            ExprKind::Int(value) => *value,
            ExprKind::Bool(value) => i64::from(*value),
            ExprKind::Const(id) => self.instance.consts.get(id.index()).copied()?,
            ExprKind::Dim(dim) => self.instance.dim(*dim)?,
            ExprKind::Bits(dtype) => i64::from(self.concrete(*dtype).bits()),
            ExprKind::Present(param) => i64::from(!self.instance.absent.contains(param)),
            ExprKind::Var(var) => {
                let value = self.values[*var]?;
                // Looked at once: a variable that is used twice by the next one would be looked at twice as often at each step.
                let known = self.literals.borrow()[*var];
                match known {
                    Some(literal) => literal?,
                    None => {
                        let literal = self.literal(value);
                        self.literals.borrow_mut()[*var] = Some(literal);
                        literal?
                    }
                }
            }
            ExprKind::Unary(UnaryOp::Not, x) => i64::from(self.literal(*x)? == 0),
            ExprKind::Unary(UnaryOp::Neg, x) => self.literal(*x)?.checked_neg()?,
            // As `binary` folds it: whatever the other operand is.
            ExprKind::Binary(BinaryOp::Mul, a, b) => match (self.literal(*a), self.literal(*b)) {
                (Some(0), _) | (_, Some(0)) => 0,
                (a, b) => fold(BinaryOp::Mul, a?, b?)?,
            },
            ExprKind::Binary(op, a, b) => {
                let a = self.literal(*a)?;
                match op {
                    BinaryOp::And if a == 0 => 0,
                    BinaryOp::Or if a != 0 => 1,
                    _ => fold(*op, a, self.literal(*b)?)?,
                }
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                if self.literal(*c)? != 0 {
                    self.literal(*a)?
                } else {
                    self.literal(*b)?
                }
            }
            ExprKind::Cast(Type::Index, x) => self.literal(*x)?,
            _ => return None,
        })
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, ty: Type, span: SpanId) -> ExprId {
        let a = self.expr(a);
        // A constant left side of `&&` and `||` decides whether the right side exists.
        match (op, &self.to.exprs[a].kind) {
            (BinaryOp::And, ExprKind::Bool(false)) | (BinaryOp::Or, ExprKind::Bool(true)) => return a,
            (BinaryOp::And | BinaryOp::Or, ExprKind::Bool(_)) => return self.expr(b),
            _ => {}
        }
        let b = self.expr(b);
        let (left, right) = (self.to.exprs[a].clone(), self.to.exprs[b].clone());
        let kind = match (op, &left.kind, &right.kind) {
            (_, ExprKind::Int(x), ExprKind::Int(y)) if left.ty == Type::Index => match fold(op, *x, *y) {
                Some(value) if op.is_comparison() => ExprKind::Bool(value != 0),
                Some(value) => ExprKind::Int(value),
                None => {
                    let is_large = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul)
                        || op == BinaryOp::Shl && (0..32).contains(y);
                    let what = if is_large { "is too large for a constant" } else { "has no value" };
                    let message = format!("{x} {} {y} {what}", op.symbol());
                    let diagnostic = Diagnostic::new(Code::NOT_CONSTANT, span, message);
                    self.diagnostics.push(match is_large {
                        true => diagnostic.at(format!("the largest is 2^53, {LARGEST_LITERAL}")),
                        false => diagnostic,
                    });
                    ExprKind::Int(1)
                }
            },
            (_, ExprKind::Bool(x), ExprKind::Bool(y)) => match fold(op, i64::from(*x), i64::from(*y)) {
                Some(value) => ExprKind::Bool(value != 0),
                None => ExprKind::Binary(op, a, b),
            },
            (BinaryOp::And, _, ExprKind::Bool(true)) | (BinaryOp::Or, _, ExprKind::Bool(false)) => return a,
            (BinaryOp::Add, ExprKind::Int(0), _) | (BinaryOp::Mul, ExprKind::Int(1), _) => return b,
            (BinaryOp::Add | BinaryOp::Sub, _, ExprKind::Int(0)) => return a,
            (BinaryOp::Mul | BinaryOp::Div | BinaryOp::CeilDiv, _, ExprKind::Int(1)) => return a,
            (BinaryOp::Mul, ExprKind::Int(0), _) | (BinaryOp::Mul, _, ExprKind::Int(0)) if ty == Type::Index => {
                ExprKind::Int(0)
            }
            _ if ty == Type::F32 => self.contract(op, a, b, span),
            _ => ExprKind::Binary(op, a, b),
        };
        self.push(kind, ty, span)
    }

    /// f32 `a * b + c`, `c + a * b`, `a * b - c`, `c - a * b` are one `fma`: the contraction a CUDA compiler would
    /// do by itself, made part of the language so that every executor rounds alike.
    fn contract(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: SpanId) -> ExprKind {
        let product = |kernel: &Kernel, e: ExprId| match kernel.exprs[e].kind {
            ExprKind::Binary(BinaryOp::Mul, x, y) => Some((x, y)),
            _ => None,
        };
        match (op, product(&self.to, a), product(&self.to, b)) {
            (BinaryOp::Add, Some((x, y)), _) => ExprKind::Math(MathFn::Fma, vec![x, y, b]),
            (BinaryOp::Add, None, Some((x, y))) => ExprKind::Math(MathFn::Fma, vec![x, y, a]),
            (BinaryOp::Sub, Some((x, y)), _) => {
                let minus = self.push(ExprKind::Unary(UnaryOp::Neg, b), Type::F32, span);
                ExprKind::Math(MathFn::Fma, vec![x, y, minus])
            }
            (BinaryOp::Sub, None, Some((x, y))) => {
                let minus = self.push(ExprKind::Unary(UnaryOp::Neg, x), Type::F32, span);
                ExprKind::Math(MathFn::Fma, vec![minus, y, a])
            }
            _ => ExprKind::Binary(op, a, b),
        }
    }
}

fn special(dtype: Dtype, value: SpecialValue) -> ExprKind {
    let number = match value {
        SpecialValue::Zero => 0.0,
        SpecialValue::One => 1.0,
        SpecialValue::NegInfinity => f64::NEG_INFINITY,
        SpecialValue::Infinity => f64::INFINITY,
    };
    match dtype.class() {
        DtypeClass::Bool => ExprKind::Bool(number != 0.0),
        DtypeClass::Int(_) => ExprKind::Int(number as i64),
        DtypeClass::Float(_) => ExprKind::Float(number),
    }
}

/// A literal as its dtype holds it.
fn round(value: f64, ty: Type) -> f64 {
    match ty.dtype().map(Dtype::class) {
        Some(DtypeClass::Float(FloatFormat::Binary16)) => f16::from_f64(value).to_f64(),
        Some(DtypeClass::Float(FloatFormat::Bfloat16)) => bf16::from_f64(value).to_f64(),
        Some(DtypeClass::Float(FloatFormat::Binary32)) => f64::from(value as f32),
        Some(DtypeClass::Bool | DtypeClass::Int(_)) | None => value,
    }
}
