//! Expressions: every node becomes one operation on a register of its own. What does not differ between threads is
//! computed once a block, on a scalar.
//!
//! Operations without effects are done for all threads, active or not. Only what may fail (loads, integer division)
//! looks at the mask; a lazy operand that holds any of it is evaluated under a mask of its own.

use super::super::code::{Arith, Kind, Loc, MaskId, Repr, Step};
use super::{Compiler, Value, malformed};
use crate::ir::{BinaryOp, Dtype, DtypeClass, EntityRef, ExprId, ExprKind, MathFn, SpanId, Type, UnaryOp};
use crate::sim::{ScalarValue, SimError, numeric};

impl Compiler<'_, '_> {
    /// The value of an expression, for the threads of `mask`.
    pub(super) fn expr(&mut self, id: ExprId, mask: MaskId, out: &mut Vec<Step>) -> Result<Value, SimError> {
        let kernel = self.kernel;
        let Some(expr) = kernel.exprs.get(id) else { return malformed("an expression is missing") };
        let Some(repr) = Repr::of(expr.ty) else { return malformed("an expression's dtype is not bound") };
        match &expr.kind {
            ExprKind::Int(value) => self.literal(repr, *value as f64, *value),
            ExprKind::Float(value) => self.literal(repr, *value, *value as i64),
            ExprKind::Bool(value) => self.literal(repr, f64::from(u8::from(*value)), i64::from(*value)),
            ExprKind::Dim(dim) => {
                let value = self.launch.dims.get(dim.index()).copied().unwrap_or(0);
                Ok(self.constant_index(value))
            }
            ExprKind::Scalar(param) => match self.launch.scalars.get(param.index()).copied().flatten() {
                Some(ScalarValue::Index(value)) => Ok(self.constant_index(value)),
                Some(ScalarValue::Element(dtype, bits)) => Ok(self.element_constant(dtype, bits)),
                None => malformed("a tensor is used as a scalar"),
            },
            ExprKind::Const(_) | ExprKind::Bits(_) | ExprKind::Special(..) | ExprKind::Present(_) => {
                malformed("a constant is left unbound: bind an instance first")
            }
            ExprKind::Var(var) => Ok(Value { repr: self.var_repr(*var)?, loc: self.var(*var)?, temp: false }),
            ExprKind::Unary(op, a) => self.unary(*op, *a, mask, out),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.short_circuit(*op, *a, *b, mask, out),
            ExprKind::Binary(op, a, b) => {
                let a = self.expr(*a, mask, out)?;
                let b = self.expr(*b, mask, out)?;
                self.binary(*op, a, b, mask, expr.span, out)
            }
            ExprKind::Math(function, args) => self.math(*function, args, mask, out),
            ExprKind::Select(cond, a, b) => {
                let cond = self.condition(*cond, mask, out)?;
                let a = self.expr(*a, mask, out)?;
                let b = self.expr(*b, mask, out)?;
                self.select(cond, a, b, out)
            }
            ExprKind::If(cond, a, b) => self.lazy_if(*cond, *a, *b, mask, out),
            ExprKind::Cast(_, a) => {
                let a = self.expr(*a, mask, out)?;
                Ok(self.arith(repr, &[a], out, |dst| Arith::Cast { from: a.repr, to: repr, dst, a: a.loc }))
            }
            ExprKind::Load(access) => {
                let repr = self.access_repr(*access)?;
                let from = self.element(*access, mask, out)?;
                let dst = Loc::Lanes(self.pools.lanes(repr.kind()));
                self.free_element(&from);
                out.push(Step::Load { dst, from, mask });
                Ok(Value { repr, loc: dst, temp: true })
            }
        }
    }

    fn literal(&mut self, repr: Repr, float: f64, int: i64) -> Result<Value, SimError> {
        Ok(match repr {
            Repr::Index => self.constant_index(int),
            Repr::Element(dtype) => {
                let bits = match dtype.class() {
                    DtypeClass::Float(_) => numeric::encode(dtype, numeric::literal(dtype, float)),
                    DtypeClass::Int(format) => numeric::truncate(format, int),
                    DtypeClass::Bool => u32::from(int != 0),
                };
                self.element_constant(dtype, bits)
            }
        })
    }

    fn element_constant(&mut self, dtype: Dtype, bits: u32) -> Value {
        let loc = match Kind::of_dtype(dtype) {
            Kind::Float => self.pools.floats.constant(numeric::decode(dtype, bits), |a, b| a.to_bits() == b.to_bits()),
            Kind::Int | Kind::Index => self.pools.ints.constant(bits, |a, b| a == b),
            Kind::Bool => self.pools.bools.constant(bits != 0, |a, b| a == b),
        };
        Value { repr: Repr::Element(dtype), loc, temp: false }
    }

    /// One operation of these operands, which it frees.
    fn arith(&mut self, repr: Repr, args: &[Value], out: &mut Vec<Step>, make: impl FnOnce(Loc) -> Arith) -> Value {
        let dst = self.result(repr, args);
        out.push(Step::Arith(make(dst.loc)));
        dst
    }

    /// A temporary for a result of these operands, which are freed after: never the register of one of them.
    fn result(&mut self, repr: Repr, args: &[Value]) -> Value {
        let varies = args.iter().any(|a| matches!(a.loc, Loc::Lanes(_)));
        let kind = repr.kind();
        let loc = if varies { Loc::Lanes(self.pools.lanes(kind)) } else { self.pools.scalar(kind) };
        args.iter().for_each(|a| self.free(*a));
        Value { repr, loc, temp: true }
    }

    fn unary(&mut self, op: UnaryOp, a: ExprId, mask: MaskId, out: &mut Vec<Step>) -> Result<Value, SimError> {
        let a = self.expr(a, mask, out)?;
        let repr = a.repr;
        let make = |dst| match (op, repr.kind()) {
            (_, Kind::Int) if !repr.has_arithmetic() => None,
            (UnaryOp::Neg, Kind::Float) => Some(Arith::FloatNegate { dst, a: a.loc }),
            (UnaryOp::Neg, Kind::Int) => Some(Arith::IntNegate { dst, a: a.loc }),
            (UnaryOp::Neg, Kind::Index) => Some(Arith::IndexNegate { dst, a: a.loc }),
            (UnaryOp::Not, Kind::Int) => Some(Arith::IntNot { dst, a: a.loc }),
            (UnaryOp::Not, Kind::Bool) => Some(Arith::BoolNot { dst, a: a.loc }),
            _ => None,
        };
        let dst = self.result(repr, &[a]);
        match make(dst.loc) {
            Some(inst) => out.push(Step::Arith(inst)),
            None => return malformed(format!("{op:?} of {repr:?}")),
        }
        Ok(dst)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        a: Value,
        b: Value,
        mask: MaskId,
        span: SpanId,
        out: &mut Vec<Step>,
    ) -> Result<Value, SimError> {
        use BinaryOp::*;
        let repr = a.repr;
        if a.repr.kind() != b.repr.kind() {
            return malformed(format!("{} of {:?} and {:?}", op.symbol(), a.repr, b.repr));
        }
        let (x, y) = (a.loc, b.loc);
        if op.is_comparison() {
            return Ok(self.arith(Repr::Element(Dtype::Bool), &[a, b], out, |dst| match repr {
                Repr::Index => Arith::IndexCompare { op, dst, a: x, b: y },
                Repr::Element(dtype) => match dtype.class() {
                    DtypeClass::Bool => Arith::Bool { op, dst, a: x, b: y },
                    DtypeClass::Int(_) => Arith::IntCompare { op, dtype, dst, a: x, b: y },
                    DtypeClass::Float(_) => Arith::FloatCompare { op, dst, a: x, b: y },
                },
            }));
        }
        let supported = match repr.kind() {
            Kind::Float => matches!(op, Add | Sub | Mul | Div | Rem | Min | Max),
            Kind::Int => repr.has_arithmetic() && !matches!(op, CeilDiv),
            Kind::Index => true,
            Kind::Bool => matches!(op, BitAnd | BitOr | BitXor | Min | Max),
        };
        if !supported {
            return malformed(format!("{} of {repr:?}", op.symbol()));
        }
        if is_partial(op, repr) {
            let dst = self.result(repr, &[a, b]);
            out.push(Step::Partial { repr, op, dst: dst.loc, a: x, b: y, mask, span });
            return Ok(dst);
        }
        Ok(self.arith(repr, &[a, b], out, |dst| match repr {
            Repr::Index => Arith::Index { op, dst, a: x, b: y },
            Repr::Element(dtype) => match dtype.class() {
                DtypeClass::Bool => Arith::Bool { op, dst, a: x, b: y },
                DtypeClass::Int(_) => Arith::Int { op, dtype, dst, a: x, b: y },
                DtypeClass::Float(_) => Arith::Float { op, dtype, dst, a: x, b: y },
            },
        }))
    }

    fn math(
        &mut self,
        function: MathFn,
        args: &[ExprId],
        mask: MaskId,
        out: &mut Vec<Step>,
    ) -> Result<Value, SimError> {
        if args.len() != function.arity() {
            return malformed(format!("{} of {} operands", function.name(), args.len()));
        }
        let values = args.iter().map(|a| self.expr(*a, mask, out)).collect::<Result<Vec<_>, _>>()?;
        let repr = values[0].repr;
        let first = values[0].loc;
        let mut locs = [first; 3];
        for (loc, value) in locs.iter_mut().zip(&values) {
            if value.repr != repr {
                return malformed(format!("{} of {repr:?} and {:?}", function.name(), value.repr));
            }
            *loc = value.loc;
        }
        match repr {
            Repr::Element(Dtype::F32) if function == MathFn::ToBits => {
                let bits = Repr::Element(Dtype::U32);
                Ok(self.arith(bits, &values, out, |dst| Arith::FloatBits { dst, a: first }))
            }
            Repr::Element(dtype) if dtype.is_float() => {
                Ok(self.arith(repr, &values, out, |dst| Arith::FloatMath { function, dtype, dst, args: locs }))
            }
            Repr::Element(dtype) if dtype.is_int() => {
                Ok(self.arith(repr, &values, out, |dst| Arith::IntMath { function, dtype, dst, args: locs }))
            }
            Repr::Index => Ok(self.arith(repr, &values, out, |dst| Arith::IndexMath { function, dst, args: locs })),
            Repr::Element(_) => malformed(format!("{} of {repr:?}", function.name())),
        }
    }

    fn condition(&mut self, cond: ExprId, mask: MaskId, out: &mut Vec<Step>) -> Result<Value, SimError> {
        let cond = self.expr(cond, mask, out)?;
        if cond.repr == Repr::of(Type::BOOL).unwrap_or(Repr::Index) {
            Ok(cond)
        } else {
            malformed("a condition that is not bool")
        }
    }

    fn select(&mut self, cond: Value, a: Value, b: Value, out: &mut Vec<Step>) -> Result<Value, SimError> {
        if a.repr != b.repr {
            return malformed(format!("a choice between {:?} and {:?}", a.repr, b.repr));
        }
        let kind = a.repr.kind();
        let (cond_loc, x, y) = (cond.loc, a.loc, b.loc);
        Ok(self.arith(a.repr, &[cond, a, b], out, |dst| Arith::Select { kind, dst, cond: cond_loc, a: x, b: y }))
    }

    /// `a && b`, `a || b`: `b` is evaluated only where `a` does not decide.
    fn short_circuit(
        &mut self,
        op: BinaryOp,
        a: ExprId,
        b: ExprId,
        mask: MaskId,
        out: &mut Vec<Step>,
    ) -> Result<Value, SimError> {
        let a = self.condition(a, mask, out)?;
        let b = if self.may_fail(b) {
            self.masked(a, op == BinaryOp::Or, mask, out, |c, inner, out| c.condition(b, inner, out))?
        } else {
            self.condition(b, mask, out)?
        };
        let (x, y) = (a.loc, b.loc);
        Ok(self.arith(a.repr, &[a, b], out, |dst| Arith::Bool { op, dst, a: x, b: y }))
    }

    fn lazy_if(
        &mut self,
        cond: ExprId,
        a: ExprId,
        b: ExprId,
        mask: MaskId,
        out: &mut Vec<Step>,
    ) -> Result<Value, SimError> {
        let cond = self.condition(cond, mask, out)?;
        let mut arm = |c: &mut Self, expr: ExprId, negate: bool| {
            if c.may_fail(expr) {
                c.masked(cond, negate, mask, out, |c, inner, out| c.expr(expr, inner, out))
            } else {
                c.expr(expr, mask, out)
            }
        };
        let (a, b) = (arm(self, a, false)?, arm(self, b, true)?);
        self.select(cond, a, b, out)
    }

    /// Evaluates something under the threads of `mask` where `cond` is not `negate`.
    fn masked(
        &mut self,
        cond: Value,
        negate: bool,
        mask: MaskId,
        out: &mut Vec<Step>,
        evaluate: impl FnOnce(&mut Self, MaskId, &mut Vec<Step>) -> Result<Value, SimError>,
    ) -> Result<Value, SimError> {
        let inner = self.pools.mask();
        out.push(Step::Mask { dst: inner, parent: mask, cond: cond.loc, negate });
        let value = evaluate(self, inner, out)?;
        self.pools.free_mask(inner);
        Ok(value)
    }

    /// Whether evaluating an expression for a thread that does not need it could fault.
    fn may_fail(&self, id: ExprId) -> bool {
        let Some(expr) = self.kernel.exprs.get(id) else { return true };
        match &expr.kind {
            ExprKind::Load(_) => true,
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.may_fail(*a),
            ExprKind::Binary(op, a, b) => {
                let partial = self.kernel.exprs.get(*a).and_then(|a| Repr::of(a.ty)).is_none_or(|r| is_partial(*op, r));
                partial || self.may_fail(*a) || self.may_fail(*b)
            }
            ExprKind::Math(_, args) => args.iter().any(|a| self.may_fail(*a)),
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => [c, a, b].into_iter().any(|e| self.may_fail(*e)),
            _ => false,
        }
    }
}

/// Whether an operator has no value for some operands.
fn is_partial(op: BinaryOp, repr: Repr) -> bool {
    use BinaryOp::*;
    match repr.kind() {
        Kind::Int => matches!(op, Div | Rem),
        Kind::Index => matches!(op, Div | Rem | CeilDiv | Shl | Shr),
        Kind::Float | Kind::Bool => false,
    }
}
