//! The value of an expression, and the accesses that are met on the way.

use super::{Value, Walk};
use crate::analysis::guards::Use;
use crate::analysis::induction;
use crate::constraint::{Answer, Cond, Interval, Poly, Varies};
use crate::ir::{BinaryOp, Dtype, DtypeRef, ExprId, ExprKind, Type, UnaryOp};

impl<'k> Walk<'k> {
    /// An integer expression's value; `None` if it is not one.
    pub fn eval_int(&mut self, expr: ExprId) -> Option<Poly> {
        match self.eval(expr) {
            Value::Int(p) => Some(p),
            _ => None,
        }
    }

    /// Evaluates an expression, meeting the accesses in it.
    pub fn eval(&mut self, expr: ExprId) -> Value {
        let kernel = self.kernel;
        let e = &kernel.exprs[expr];
        match &e.kind {
            ExprKind::Int(value) => {
                let value = Poly::constant(*value);
                if e.ty == Type::Index {
                    self.hold_value(expr, &value);
                }
                Value::Int(value)
            }
            ExprKind::Float(_) | ExprKind::Special(..) => Value::Other,
            ExprKind::Bool(value) => Value::Bool(if *value { Cond::True } else { Cond::False }),
            ExprKind::Dim(dim) => Value::Int(self.dims[dim.as_u32() as usize].clone()),
            ExprKind::Const(_) | ExprKind::Bits(_) | ExprKind::Present(_) => self.unknown(e.ty, Varies::default()),
            ExprKind::Scalar(param) => match self.scalars.get(&param.as_u32()) {
                Some(value) => Value::Int(value.clone()),
                None => self.unknown(e.ty, Varies::default()),
            },
            ExprKind::Var(var) => match &self.vars[*var] {
                Value::Other => self.some_value(*var, self.uniform.var(*var)),
                value => value.clone(),
            },
            ExprKind::Unary(op, a) => {
                let a = self.eval(*a);
                match (op, a) {
                    (UnaryOp::Not, Value::Bool(cond)) => Value::Bool(cond.negated()),
                    (UnaryOp::Neg, Value::Int(p)) if e.ty == Type::Index => {
                        let zero = Poly::default();
                        let value = self.arithmetic(BinaryOp::Sub, &zero, &p, e.ty);
                        if let Value::Int(value) = &value {
                            self.hold(expr, BinaryOp::Sub, [&zero, &p], value);
                        }
                        value
                    }
                    (UnaryOp::Neg, Value::Int(p)) => {
                        self.fitted(e.ty, p.scaled(-1), BinaryOp::Sub, &Poly::default(), &p)
                    }
                    (_, Value::Int(p)) => self.unknown(e.ty, self.cx.varies(&p)),
                    _ => self.unknown(e.ty, self.uniform.expr(kernel, expr)),
                }
            }
            ExprKind::Binary(op, a, b) => self.binary(expr, *op, *a, *b),
            ExprKind::Math(function, args) => {
                args.iter().for_each(|a| {
                    self.eval(*a);
                });
                if function.counts_bits() {
                    return self.index_within(Interval::new(0, 32), self.uniform.expr(kernel, expr));
                }
                self.unknown(e.ty, self.uniform.expr(kernel, expr))
            }
            ExprKind::Select(c, a, b) => {
                let c = self.eval(*c);
                let [a, b] = [*a, *b].map(|e| {
                    let value = self.eval(e);
                    self.located(value)
                });
                self.choice(expr, c, a, b)
            }
            ExprKind::If(c, a, b) => {
                let c = self.eval(*c);
                let cond = if let Value::Bool(cond) = &c { cond.clone() } else { Cond::Unknown(Varies::ALL) };
                let a = self.under(&cond, *a);
                let b = self.under(&cond.negated(), *b);
                self.choice(expr, c, a, b)
            }
            ExprKind::Cast(ty, a) => {
                let from = kernel.exprs[*a].ty;
                let value = self.eval(*a);
                self.cast(from, *ty, value, expr)
            }
            ExprKind::Load(access) => {
                self.access(*access, Use::Load);
                let varies = self.uniform.load(kernel, *access);
                self.unknown(e.ty, varies)
            }
        }
    }

    /// The value of an expression that is evaluated where `cond` holds, and where it is.
    fn under(&mut self, cond: &Cond, expr: ExprId) -> (Value, Interval) {
        let mark = self.mark();
        self.cx.assume(cond);
        self.path.push(cond.clone());
        let value = self.eval(expr);
        let value = self.located(value);
        self.path.pop();
        self.reset(mark);
        value
    }

    fn located(&self, value: Value) -> (Value, Interval) {
        let interval = if let Value::Int(value) = &value { self.interval(value) } else { Interval::ALL };
        (value, interval)
    }

    /// One of two values. What is known of each holds where it is chosen.
    fn choice(&mut self, expr: ExprId, cond: Value, a: (Value, Interval), b: (Value, Interval)) -> Value {
        let ty = self.kernel.exprs[expr].ty;
        let Value::Bool(cond) = cond else { return self.unknown(ty, Varies::ALL) };
        let decided = self.cx.decide(&cond);
        let varies = cond.varies(&self.cx);
        let (value, interval) = match (decided, a, b) {
            (Answer::Proven, a, _) => a,
            (Answer::Refuted, _, b) => b,
            (Answer::Unknown, (Value::Int(a), x), (Value::Int(b), y)) if a == b => (Value::Int(a), x.join(y)),
            (Answer::Unknown, (Value::Int(a), x), (Value::Int(b), y)) => {
                (Value::Int(Poly::sym(self.cx.one_of(vec![a, b], varies))), x.join(y))
            }
            (Answer::Unknown, (Value::Bool(a), _), (Value::Bool(b), _)) => {
                return Value::Bool(cond.clone().and(a).or(cond.negated().and(b)));
            }
            _ => return Value::Other,
        };
        if let Value::Int(value) = &value {
            self.learn(value, interval);
            if ty == Type::Index {
                self.hold_value(expr, value);
            }
        }
        value
    }

    fn cast(&mut self, from: Type, to: Type, value: Value, expr: ExprId) -> Value {
        let varies = self.uniform.expr(self.kernel, expr);
        if to == Type::Index {
            let value = match value {
                Value::Int(p) => Value::Int(p),
                Value::Bool(_) => self.index_within(Interval::new(0, 1), varies),
                Value::Other => {
                    let range = from.dtype().and_then(Dtype::range);
                    // Floats saturate.
                    let interval = range.map_or(induction::FROM_FLOAT, |(lo, hi)| Interval::new(lo.into(), hi.into()));
                    self.index_within(interval, varies)
                }
            };
            if let (Value::Int(p), true) = (&value, from != Type::Index) {
                self.hold_value(expr, p);
            }
            return value;
        }
        let Value::Int(p) = value else { return self.unknown(to, varies) };
        match to {
            Type::Value(DtypeRef::Is(dtype)) if dtype.is_whole() => match dtype.range() {
                Some(all) if self.stays(&p, all) => Value::Int(p),
                _ => self.unknown(to, varies),
            },
            _ => self.unknown(to, varies),
        }
    }

    fn binary(&mut self, expr: ExprId, op: BinaryOp, a: ExprId, b: ExprId) -> Value {
        let (kernel, ty) = (self.kernel, self.kernel.exprs[expr].ty);
        let left = self.eval(a);
        let right = match (op, &left) {
            (BinaryOp::And, Value::Bool(cond)) => self.under(&cond.clone(), b).0,
            (BinaryOp::Or, Value::Bool(cond)) => self.under(&cond.negated(), b).0,
            _ => self.eval(b),
        };
        match (left, right) {
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(match op {
                BinaryOp::And | BinaryOp::BitAnd => a.and(b),
                BinaryOp::Or | BinaryOp::BitOr => a.or(b),
                BinaryOp::Eq => a.clone().and(b.clone()).or(a.negated().and(b.negated())),
                BinaryOp::Ne | BinaryOp::BitXor => a.clone().and(b.negated()).or(a.negated().and(b)),
                _ => Cond::Unknown(self.uniform.expr(kernel, expr)),
            }),
            (Value::Int(a), Value::Int(b)) if op.is_comparison() => Value::Bool(match op {
                BinaryOp::Lt => Cond::less(&a, &b),
                BinaryOp::Ge => Cond::less(&a, &b).negated(),
                BinaryOp::Gt => Cond::less(&b, &a),
                BinaryOp::Le => Cond::less(&b, &a).negated(),
                BinaryOp::Eq => Cond::equal(&a, &b),
                _ => Cond::equal(&a, &b).negated(),
            }),
            (Value::Int(x), Value::Int(y)) => {
                self.check_divisor(op, b, &y);
                match ty {
                    Type::Index => self.index_operation(expr, op, &x, (b, &y)),
                    _ => self.arithmetic(op, &x, &y, ty),
                }
            }
            _ => self.unknown(ty, self.uniform.expr(kernel, expr)),
        }
    }
}
