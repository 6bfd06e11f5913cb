//! Expressions that are valid by construction.
//!
//! *Free* values may be anything: rounding, overflow, infinities and NaNs are defined by the language. *Exact* values are integers
//! within a bound that the expression carries along, so that sums of them have the same bits in any order. *Indices* are
//! never negative and carry the largest value that they reach.

use super::Draw;
use crate::programs::tree::*;

/// What expressions are made of.
#[derive(Clone, Default)]
pub struct Scope {
    /// Values of element types; the bound where they are integers.
    pub values: Vec<(Expr, Option<f64>)>,
    /// Indices and the largest values that they have.
    pub indices: Vec<(Expr, i64)>,
    /// Indices whose largest value is the launch's: the kernel does not say it.
    pub from_launch: Vec<Expr>,
}

impl Scope {
    /// Adds a value of any kind.
    pub fn free(&mut self, value: Expr) {
        self.values.push((value, None));
    }

    /// Adds an integer of at most this size.
    pub fn exact(&mut self, value: Expr, bound: f64) {
        self.values.push((value, Some(bound)));
    }

    /// Adds an index of at most `most`.
    pub fn index(&mut self, value: Expr, most: i64) {
        self.indices.push((value, most));
    }

    /// Adds an index that is at most `most` for the extents and scalars of this launch.
    pub fn launch_index(&mut self, value: Expr, most: i64) {
        self.from_launch.push(value.clone());
        self.index(value, most);
    }

    /// Whether the kernel itself says how large an index is at most.
    pub fn is_bounded(&self, index: &Expr) -> bool {
        let mut found = true;
        index.visit(&mut |e| found &= !self.from_launch.contains(e));
        found
    }

    fn of(&self, ty: Ty) -> Vec<Expr> {
        self.values.iter().filter(|(e, _)| e.ty() == ty).map(|(e, _)| e.clone()).collect()
    }
}

impl Draw {
    /// An index: never negative, at most the number beside it.
    pub fn index(&mut self, scope: &Scope, depth: u32) -> (Expr, i64) {
        const MOST: i64 = 1 << 20;
        if depth == 0 || scope.indices.is_empty() || self.percent(20) {
            return match scope.indices.is_empty() || self.percent(20) {
                true => {
                    let value = self.range(0, 9);
                    (Expr::Int(value), value)
                }
                false => self.pick(&scope.indices),
            };
        }
        let (a, x) = self.index(scope, depth - 1);
        let small = self.range(1, 9);
        let literal = |op, n: i64| Expr::bin(op, a.clone(), Expr::Int(n));
        let (expr, most) = match self.range(0, 11) {
            0 | 1 => {
                let (b, y) = self.index(scope, depth - 1);
                (Expr::bin(Op::Add, a.clone(), b), x + y)
            }
            2 => (literal(Op::Mul, small), x * small),
            3 => (literal(Op::Div, small), x / small),
            4 => (literal(Op::Rem, small), (small - 1).min(x)),
            5 => {
                let (b, y) = self.index(scope, depth - 1);
                (Expr::bin(Op::Min, a.clone(), b), x.min(y))
            }
            6 => {
                let (b, y) = self.index(scope, depth - 1);
                (Expr::bin(Op::Max, a.clone(), b), x.max(y))
            }
            7 => (literal(Op::Shr, small % 4), x >> (small % 4)),
            8 => (literal(Op::Shl, small % 4), x << (small % 4)),
            9 => (literal(Op::BitAnd, (1 << (small % 5)) - 1), x.min((1 << (small % 5)) - 1)),
            10 => {
                let (b, y) = self.index(scope, depth - 1);
                let c = self.condition(scope, depth - 1);
                let lazy = self.percent(50);
                (Expr::Choose { lazy, c: c.into(), a: a.clone().into(), b: b.into() }, x.max(y))
            }
            _ => (Expr::ceil_div(a.clone(), small), (x + small - 1) / small),
        };
        if most > MOST { (a, x) } else { (expr, most) }
    }

    /// A condition.
    pub fn condition(&mut self, scope: &Scope, depth: u32) -> Expr {
        let compare = [Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne];
        let known = scope.of(Ty::Bool);
        if depth == 0 && !known.is_empty() && self.percent(50) {
            return self.pick(&known);
        }
        match self.range(0, if depth == 0 { 1 } else { 4 }) {
            0 => {
                let (a, most) = self.index(scope, depth.saturating_sub(1).min(1));
                let op = self.pick(&compare);
                let n = self.range(0, most + 1);
                Expr::bin(op, a, Expr::Int(n))
            }
            1 => {
                let types: Vec<Ty> = scope.values.iter().map(|(e, _)| e.ty()).filter(|t| *t != Ty::Bool).collect();
                if types.is_empty() {
                    return Expr::Lit(Ty::Bool, f64::from(u8::from(self.percent(50))));
                }
                let ty = self.pick(&types);
                let op = self.pick(&compare);
                let (a, b) = (self.free(scope, ty, depth.saturating_sub(1).min(1)), self.free(scope, ty, 0));
                Expr::bin(op, a, b)
            }
            2 => Expr::Not(self.condition(scope, depth - 1).into()),
            n => {
                let (a, b) = (self.condition(scope, depth - 1), self.condition(scope, depth - 1));
                Expr::bin(if n == 3 { Op::And } else { Op::Or }, a, b)
            }
        }
    }

    /// A literal of a type.
    pub fn literal(&mut self, ty: Ty) -> Expr {
        match ty {
            Ty::Index => Expr::Int(self.range(0, 9)),
            Ty::Bool => Expr::Lit(ty, self.range(0, 1) as f64),
            Ty::U32 => Expr::Lit(ty, self.range(0, 9) as f64),
            Ty::I32 => Expr::Lit(ty, self.range(0, 9) as f64),
            _ => Expr::Lit(ty, self.range(0, 32) as f64 / 4.0),
        }
    }

    /// A value of any kind.
    pub fn free(&mut self, scope: &Scope, ty: Ty, depth: u32) -> Expr {
        if ty == Ty::Bool {
            return self.condition(scope, depth);
        }
        if ty == Ty::Index {
            return self.index(scope, depth).0;
        }
        let known = scope.of(ty);
        if depth == 0 || self.percent(15) {
            return match self.range(0, 9) {
                0..=6 if !known.is_empty() => self.pick(&known),
                7 | 8 if !scope.indices.is_empty() => {
                    let (index, _) = self.pick(&scope.indices);
                    self.from_index(index, ty)
                }
                _ => self.literal(ty),
            };
        }
        let next = depth - 1;
        if self.percent(12) {
            let (c, a, b) = (self.condition(scope, next), self.free(scope, ty, next), self.free(scope, ty, next));
            let lazy = self.percent(50);
            return Expr::Choose { lazy, c: c.into(), a: a.into(), b: b.into() };
        }
        if self.percent(10) {
            let from = self.pick(&[Ty::I32, Ty::U32, Ty::F16, Ty::Bf16, Ty::F32]);
            let inner = self.free(scope, from, next);
            // A literal is written with its type, and so has methods; an `if` has none.
            return inner.cast(ty);
        }
        let a = self.free(scope, ty, next);
        if ty.is_float() {
            return match self.range(0, 12) {
                12 => {
                    let all = [Fun::Floor, Fun::Ceil, Fun::Trunc, Fun::Round, Fun::RoundTiesEven];
                    Expr::Call(self.pick(&all), vec![a])
                }
                0 | 1 => Expr::bin(Op::Add, a, self.free(scope, ty, next)),
                2 => Expr::bin(Op::Sub, a, self.free(scope, ty, next)),
                3 | 4 => Expr::bin(Op::Mul, a, self.free(scope, ty, next)),
                5 => Expr::bin(Op::Div, a, self.free(scope, ty, next)),
                6 => Expr::bin(Op::Min, a, self.free(scope, ty, next)),
                7 => Expr::bin(Op::Max, a, self.free(scope, ty, next)),
                8 => Expr::Neg(a.into()),
                9 => Expr::Call(Fun::Abs, vec![a]),
                10 => Expr::Call(Fun::Sqrt, vec![a]),
                _ => {
                    let (b, c) = (self.free(scope, ty, next), self.free(scope, ty, next));
                    Expr::Call(Fun::Fma, vec![a, b, c])
                }
            };
        }
        let literal = |n: i64| Expr::Lit(ty, n as f64);
        match self.range(0, 14) {
            13 => Expr::Call(Fun::MulHi, vec![a, self.free(scope, ty, next)]),
            14 => {
                let all = [Fun::CountOnes, Fun::LeadingZeros, Fun::TrailingZeros];
                Expr::Call(self.pick(&all), vec![a])
            }
            0 | 1 => Expr::bin(Op::Add, a, self.free(scope, ty, next)),
            2 => Expr::bin(Op::Sub, a, self.free(scope, ty, next)),
            3 => Expr::bin(Op::Mul, a, self.free(scope, ty, next)),
            4 => Expr::bin(Op::Div, a, literal(self.range(1, 9))),
            5 => Expr::bin(Op::Rem, a, literal(self.range(1, 9))),
            6 => Expr::bin(Op::BitAnd, a, self.free(scope, ty, next)),
            7 => Expr::bin(Op::BitOr, a, self.free(scope, ty, next)),
            8 => Expr::bin(Op::BitXor, a, self.free(scope, ty, next)),
            9 => Expr::bin(Op::Shl, a, literal(self.range(0, 31))),
            10 => Expr::bin(Op::Shr, a, literal(self.range(0, 31))),
            11 => Expr::bin(Op::Min, a, self.free(scope, ty, next)),
            _ => Expr::bin(Op::Max, a, self.free(scope, ty, next)),
        }
    }

    /// An index as a value. A literal index has no type of its own, so it becomes a literal of the type.
    pub fn from_index(&mut self, index: Expr, ty: Ty) -> Expr {
        match index {
            Expr::Int(value) => Expr::Lit(ty, value as f64),
            index if ty.is_half() => index.cast(Ty::F32).cast(ty),
            index => index.cast(ty),
        }
    }

    /// An integer of a type, of at most `limit`; with its own bound.
    pub fn exact(&mut self, scope: &Scope, ty: Ty, limit: f64, depth: u32) -> (Expr, f64) {
        let limit = limit.min(ty.exact());
        let fits = |(e, bound): &&(Expr, Option<f64>)| e.ty() == ty && bound.is_some_and(|b| b <= limit);
        let known: Vec<(Expr, Option<f64>)> = scope.values.iter().filter(fits).cloned().collect();
        if depth == 0 || self.percent(15) {
            return match known.is_empty() || self.percent(10) {
                true => {
                    let value = self.range(0, (limit as i64).min(3)) as f64;
                    (Expr::Lit(ty, value), value)
                }
                false => {
                    let (expr, bound) = self.pick(&known);
                    (expr, bound.unwrap_or(limit))
                }
            };
        }
        let (a, x) = self.exact(scope, ty, limit, depth - 1);
        let signed = ty != Ty::U32;
        match self.range(0, 6) {
            0 | 1 if x < limit => {
                let (b, y) = self.exact(scope, ty, limit - x, depth - 1);
                let op = if signed && self.percent(40) { Op::Sub } else { Op::Add };
                (Expr::bin(op, a, b), x + y)
            }
            2 if x >= 1.0 && limit / x >= 1.0 => {
                let (b, y) = self.exact(scope, ty, (limit / x).floor(), depth - 1);
                (Expr::bin(Op::Mul, a, b), x * y)
            }
            3 => {
                let (b, y) = self.exact(scope, ty, limit, depth - 1);
                let op = self.pick(&[Op::Min, Op::Max]);
                (Expr::bin(op, a, b), x.max(y))
            }
            4 if signed => (Expr::Neg(a.into()), x),
            5 if signed => (Expr::Call(Fun::Abs, vec![a]), x),
            _ => {
                let (b, y) = self.exact(scope, ty, limit, depth - 1);
                let c = self.condition(scope, depth - 1);
                (Expr::Choose { lazy: self.percent(50), c: c.into(), a: a.into(), b: b.into() }, x.max(y))
            }
        }
    }
}
