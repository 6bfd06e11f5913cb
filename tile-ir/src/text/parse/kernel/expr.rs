//! Expressions: precedence climbing over the operators of Rust, by the table that the printer uses.

use super::{Named, Parser};
use crate::ir::*;
use crate::text::Tightness;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;
use crate::text::parse::{CALLS, INFIX};

impl<'t> Parser<'t> {
    pub(super) fn expr(&mut self) -> Parsed<ExprId> {
        self.expr_at_least(Tightness::LOOSEST)
    }

    /// An expression whose operators bind at least so tightly.
    pub(super) fn expr_at_least(&mut self, least: Tightness) -> Parsed<ExprId> {
        self.cursor.enter()?;
        let lazy = least == Tightness::LOOSEST && self.cursor.is_word("if");
        let expr = if lazy { self.lazy_if()? } else { self.binary(least)? };
        self.cursor.leave();
        Ok(expr)
    }

    fn lazy_if(&mut self) -> Parsed<ExprId> {
        let place = self.cursor.place();
        self.cursor.expect_word("if")?;
        let cond = self.expr_of(Type::BOOL)?;
        self.cursor.expect("{")?;
        let a = self.expr()?;
        self.cursor.expect("}")?;
        self.cursor.expect_word("else")?;
        self.cursor.expect("{")?;
        let b = self.expr_of(self.ty_of(a))?;
        self.cursor.expect("}")?;
        Ok(self.push(place, ExprKind::If(cond, a, b), self.ty_of(a)))
    }

    fn infix(&self) -> Option<BinaryOp> {
        let TokenKind::Mark(mark) = *self.cursor.peek() else { return None };
        INFIX.into_iter().find(|op| op.symbol() == mark)
    }

    fn binary(&mut self, least: Tightness) -> Parsed<ExprId> {
        let place = self.cursor.place();
        let mut left = self.unary()?;
        while let Some(op) = self.infix() {
            let tightness = Tightness::of(op);
            if tightness < least {
                break;
            }
            let at = self.cursor.place();
            self.cursor.next();
            let right = self.expr_at_least(tightness.next())?;
            if op.is_comparison() && self.infix().is_some_and(BinaryOp::is_comparison) {
                return Err(self.cursor.error("comparisons do not chain: put one in parentheses"));
            }
            left = self.combined(place, at, op, left, right)?;
        }
        Ok(left)
    }

    /// `left op right`, where the operator stands at `at`.
    fn combined(&mut self, place: usize, at: usize, op: BinaryOp, left: ExprId, right: ExprId) -> Parsed<ExprId> {
        let (a, b) = (self.ty_of(left), self.ty_of(right));
        let logical = matches!(op, BinaryOp::And | BinaryOp::Or);
        if a != b || logical && a != Type::BOOL || op == BinaryOp::CeilDiv && a != Type::Index {
            let message = format!("`{}` does not take {} and {}", op.symbol(), self.shown(a), self.shown(b));
            return Err(self.cursor.error_at(at, message));
        }
        let ty = if op.is_comparison() { Type::BOOL } else { a };
        Ok(self.push(place, ExprKind::Binary(op, left, right), ty))
    }

    fn unary(&mut self) -> Parsed<ExprId> {
        let place = self.cursor.place();
        let op = match self.cursor.peek() {
            TokenKind::Mark("-") => UnaryOp::Neg,
            TokenKind::Mark("!") => UnaryOp::Not,
            _ => return self.postfix(),
        };
        self.cursor.enter()?;
        // A number with a sign, unless something is done with the number first.
        let number = matches!(self.cursor.peek_at(1), TokenKind::Int(..) | TokenKind::Float(..));
        if op == UnaryOp::Neg && number && !self.cursor.is_at(2, ".") {
            self.cursor.next();
            let literal = self.literal(place, true)?;
            self.cursor.leave();
            return Ok(literal);
        }
        self.cursor.next();
        let operand = self.unary()?;
        self.cursor.leave();
        Ok(self.push(place, ExprKind::Unary(op, operand), self.ty_of(operand)))
    }

    /// A number, its sign read.
    fn literal(&mut self, place: usize, negative: bool) -> Parsed<ExprId> {
        let (kind, suffix) = match *self.cursor.peek() {
            TokenKind::Int(value, suffix) => {
                let value = if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
                let value = value.ok_or_else(|| self.cursor.error("this number is out of range"))?;
                (ExprKind::Int(value), suffix)
            }
            TokenKind::Float(value, suffix) => (ExprKind::Float(if negative { -value } else { value }), suffix),
            _ => return Err(self.cursor.expected("a number")),
        };
        let ty = match (&kind, suffix) {
            (ExprKind::Int(_), "") => Type::Index,
            (_, "") => return Err(self.cursor.error("a number with a point needs a dtype: `0.5f32`")),
            (_, suffix) => match self.dtype_named(suffix) {
                Some(dtype) => Type::Value(dtype),
                None => return Err(self.cursor.error(format!("`{suffix}` is no dtype"))),
            },
        };
        let float = matches!(ty, Type::Value(DtypeRef::Is(dtype)) if dtype.is_float());
        let whole = ty == Type::Index || matches!(ty, Type::Value(DtypeRef::Is(dtype)) if dtype.is_whole());
        if matches!(kind, ExprKind::Int(_)) && float || matches!(kind, ExprKind::Float(_)) && whole {
            return Err(self.cursor.error(format!("this is no number of type {}", self.shown(ty))));
        }
        self.cursor.next();
        Ok(self.push(place, kind, ty))
    }

    /// What stands alone, and the casts of it.
    fn postfix(&mut self) -> Parsed<ExprId> {
        let place = self.cursor.place();
        let mut expr = self.atom()?;
        while self.cursor.is(".") && self.cursor.is_word_at(1, "cast") {
            self.cursor.expect(".")?;
            self.cursor.expect_word("cast")?;
            self.cursor.expect("::")?;
            self.cursor.expect("<")?;
            let ty = self.ty()?;
            self.cursor.expect(">")?;
            self.cursor.expect("(")?;
            self.cursor.expect(")")?;
            expr = self.push(place, ExprKind::Cast(ty, expr), ty);
        }
        Ok(expr)
    }

    fn atom(&mut self) -> Parsed<ExprId> {
        let place = self.cursor.place();
        match *self.cursor.peek() {
            TokenKind::Int(..) | TokenKind::Float(..) => self.literal(place, false),
            TokenKind::Mark("(") => {
                self.cursor.next();
                let expr = self.expr()?;
                self.cursor.expect(")")?;
                Ok(expr)
            }
            TokenKind::Name(name) => match self.cursor.peek_at(1) {
                TokenKind::Mark("(") => self.call(name),
                TokenKind::Mark("::") => self.path(name),
                _ => self.name_alone(name),
            },
            _ => Err(self.cursor.expected("an expression")),
        }
    }

    /// What is written as a call.
    fn call(&mut self, name: &str) -> Parsed<ExprId> {
        let place = self.cursor.place();
        if let Some(op) = CALLS.into_iter().find(|op| op.symbol() == name) {
            self.cursor.next();
            let args = self.arguments(name, 2)?;
            return self.combined(place, place, op, args[0], args[1]);
        }
        if name == "select" {
            self.cursor.next();
            self.cursor.expect("(")?;
            let cond = self.expr_of(Type::BOOL)?;
            self.cursor.expect(",")?;
            let a = self.expr()?;
            self.cursor.expect(",")?;
            let b = self.expr_of(self.ty_of(a))?;
            self.cursor.expect(")")?;
            return Ok(self.push(place, ExprKind::Select(cond, a, b), self.ty_of(a)));
        }
        match MathFn::ALL.into_iter().find(|function| function.name() == name) {
            Some(function) => {
                self.cursor.next();
                self.math(place, function)
            }
            None => Err(self.cursor.error(format!("there is no function `{name}`"))),
        }
    }

    fn math(&mut self, place: usize, function: MathFn) -> Parsed<ExprId> {
        let args = self.arguments(function.name(), function.arity())?;
        let ty = self.ty_of(args[0]);
        for arg in &args {
            self.typed(place, *arg, ty)?;
        }
        let number = |dtype: Dtype| match function.operands() {
            MathOperands::Floats => dtype.is_float(),
            MathOperands::Numbers => dtype.is_float() || dtype.is_int(),
            MathOperands::Integers => dtype.is_int(),
            MathOperands::F32 => dtype == Dtype::F32,
        };
        let allowed = match ty {
            Type::Index => false,
            Type::Value(DtypeRef::Is(dtype)) => number(dtype),
            Type::Value(DtypeRef::Param(_)) => true,
        };
        if !allowed {
            let message = format!("`{}` does not take {}", function.name(), self.shown(ty));
            return Err(self.cursor.error_at(place, message));
        }
        let ty = if function == MathFn::ToBits { Dtype::U32.into() } else { ty };
        Ok(self.push(place, ExprKind::Math(function, args), ty))
    }

    /// `(a, b)`, so many.
    fn arguments(&mut self, name: &str, arity: usize) -> Parsed<Vec<ExprId>> {
        let place = self.cursor.place();
        self.cursor.expect("(")?;
        let mut all = Vec::new();
        while !self.cursor.eat(")") {
            all.push(self.expr()?);
            self.cursor.separator(")")?;
        }
        if all.len() != arity {
            return Err(self.cursor.error_at(place, format!("`{name}` takes {arity}, not {}", all.len())));
        }
        Ok(all)
    }

    /// `T::ZERO`, `lit::<T>(0.5)`, `fast::exp(x)`.
    fn path(&mut self, name: &str) -> Parsed<ExprId> {
        let place = self.cursor.place();
        if name == "lit" {
            return self.float_of_type();
        }
        self.cursor.next();
        self.cursor.expect("::")?;
        let at = self.cursor.place();
        let member = self.cursor.name()?;
        if name == "fast" {
            let called = |function: &MathFn| function.name().strip_prefix("fast::") == Some(member);
            return match MathFn::ALL.into_iter().find(called) {
                Some(function) => self.math(place, function),
                None => Err(self.cursor.error_at(at, format!("there is no function `fast::{member}`"))),
            };
        }
        let Some(dtype) = self.dtype_named(name) else {
            return Err(self.cursor.error_at(place, format!("`{name}` is no dtype")));
        };
        let special = match member {
            "BITS" => return Ok(self.push(place, ExprKind::Bits(dtype), Type::Index)),
            "ZERO" => SpecialValue::Zero,
            "ONE" => SpecialValue::One,
            "NEG_INFINITY" => SpecialValue::NegInfinity,
            "INFINITY" => SpecialValue::Infinity,
            _ => return Err(self.cursor.error_at(at, format!("dtypes have no `{member}`"))),
        };
        Ok(self.push(place, ExprKind::Special(dtype, special), Type::Value(dtype)))
    }

    /// `lit::<T>(-0.5)`, also `inf` and `NaN`.
    fn float_of_type(&mut self) -> Parsed<ExprId> {
        let place = self.cursor.place();
        self.cursor.expect_word("lit")?;
        self.cursor.expect("::")?;
        self.cursor.expect("<")?;
        let ty = self.ty()?;
        self.cursor.expect(">")?;
        self.cursor.expect("(")?;
        let negative = self.cursor.eat("-");
        let value = match *self.cursor.peek() {
            TokenKind::Float(value, "") => value,
            TokenKind::Name("inf") => f64::INFINITY,
            TokenKind::Name("NaN") => f64::NAN,
            _ => return Err(self.cursor.expected("a number with a point")),
        };
        self.cursor.next();
        self.cursor.expect(")")?;
        if ty == Type::Index || matches!(ty, Type::Value(DtypeRef::Is(dtype)) if !dtype.is_float()) {
            return Err(self.cursor.error_at(place, format!("this is no number of type {}", self.shown(ty))));
        }
        Ok(self.push(place, ExprKind::Float(if negative { -value } else { value }), ty))
    }

    /// A name that is neither called nor a path: a value, or what is read of a tensor or an array.
    fn name_alone(&mut self, name: &'t str) -> Parsed<ExprId> {
        let place = self.cursor.place();
        if matches!(name, "true" | "false") {
            self.cursor.next();
            return Ok(self.push(place, ExprKind::Bool(name == "true"), Type::BOOL));
        }
        if name == "Extent" && self.cursor.is_at(1, "<") && self.cursor.is_at(2, "{") {
            let dim = self.derived_dim()?;
            return Ok(self.push(place, ExprKind::Dim(dim), Type::Index));
        }
        let (kind, ty) = match self.known()?.1 {
            Named::Dim(dim) => (ExprKind::Dim(dim), Type::Index),
            Named::Const(id) => match self.kernel.consts[id].kind {
                ConstKind::Usize => (ExprKind::Const(id), Type::Index),
                ConstKind::Bool => (ExprKind::Const(id), Type::BOOL),
            },
            Named::Var(var) => (ExprKind::Var(var), self.kernel.vars[var].ty),
            Named::Buffer(_) => return self.load(place),
            Named::Param(param) => match self.kernel.params[param].kind {
                ParamKind::Scalar { ty } => (ExprKind::Scalar(param), ty),
                ParamKind::Tensor { .. } if self.cursor.is(".") && self.cursor.is_word_at(1, "is_some") => {
                    self.cursor.next();
                    self.cursor.next();
                    self.cursor.expect("(")?;
                    self.cursor.expect(")")?;
                    (ExprKind::Present(param), Type::BOOL)
                }
                ParamKind::Tensor { .. } => return self.load(place),
                ParamKind::Absent => {
                    return Err(self.cursor.error_at(place, format!("`{name}` is absent: nothing reads it")));
                }
            },
        };
        Ok(self.push(place, kind, ty))
    }

    /// The load of an element of what is named at `place`.
    fn load(&mut self, place: usize) -> Parsed<ExprId> {
        self.cursor.seek(place);
        let access = self.access(place, "masked")?;
        let ty = Type::Value(self.kernel.place_dtype(self.kernel.accesses[access].place));
        Ok(self.push(place, ExprKind::Load(access), ty))
    }

    /// `x[i]`, `x[[i, j]]`, `x.masked([i])`; `masked` is the method that masks, none where the element is named as
    /// it is.
    pub(super) fn access(&mut self, place: usize, masked: &str) -> Parsed<AccessId> {
        let accessed = self.place()?;
        let (indices, is_masked) = if !masked.is_empty() && self.cursor.eat(".") {
            self.cursor.expect_word(masked)?;
            self.cursor.expect("(")?;
            let indices = self.indices()?;
            self.cursor.expect(")")?;
            (indices, true)
        } else if self.cursor.is("[") && self.cursor.is_at(1, "[") {
            self.cursor.expect("[")?;
            let indices = self.indices()?;
            self.cursor.expect("]")?;
            (indices, false)
        } else {
            self.cursor.expect("[")?;
            let index = self.index()?;
            self.cursor.expect("]")?;
            (vec![index], false)
        };
        let axes = match accessed {
            Place::Buffer(buffer) => self.kernel.buffers[buffer].extents.len(),
            Place::Tensor(param) => match &self.kernel.params[param].kind {
                ParamKind::Tensor { shape, .. } => shape.len(),
                ParamKind::Scalar { .. } | ParamKind::Absent => 0,
            },
        };
        if indices.len() != axes {
            let name = self.kernel.place_name(accessed);
            let message = format!("`{name}` has {axes} axes, and {} are given an index", indices.len());
            return Err(self.cursor.error_at(place, message));
        }
        let span = self.span(place);
        Ok(self.kernel.accesses.push(Access { place: accessed, indices, masked: is_masked, span }))
    }
}
