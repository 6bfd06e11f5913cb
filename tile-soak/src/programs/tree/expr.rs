//! Values: their types, operators and functions.

use super::Array;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// `usize`: a mathematical integer.
    Index,
    /// `bool`.
    Bool,
    /// `i32`, wrapping.
    I32,
    /// `u32`, wrapping.
    U32,
    /// binary16, computed in f32 and rounded.
    F16,
    /// bfloat16, computed in f32 and rounded.
    Bf16,
    /// binary32.
    F32,
}

impl Ty {
    /// The name an author writes.
    pub const fn name(self) -> &'static str {
        match self {
            Ty::Index => "usize",
            Ty::Bool => "bool",
            Ty::I32 => "i32",
            Ty::U32 => "u32",
            Ty::F16 => "f16",
            Ty::Bf16 => "bf16",
            Ty::F32 => "f32",
        }
    }

    /// Bytes of an element in memory.
    pub const fn bytes(self) -> usize {
        match self {
            Ty::Bool => 1,
            Ty::F16 | Ty::Bf16 => 2,
            Ty::Index | Ty::I32 | Ty::U32 | Ty::F32 => 4,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16 | Ty::F32)
    }

    /// Whether it is f16 or bf16.
    pub const fn is_half(self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16)
    }

    /// The largest integer up to which all integers are exact in it.
    pub const fn exact(self) -> f64 {
        match self {
            Ty::F16 => 2048.0,
            Ty::Bf16 => 256.0,
            Ty::F32 => 16_777_216.0,
            Ty::Index | Ty::Bool | Ty::I32 | Ty::U32 => 1_000_000_000.0,
        }
    }
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
    Min,
    Max,
    CeilDiv,
}

impl Op {
    /// As written between its operands, or before them for the last three.
    pub const fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Rem => "%",
            Op::BitAnd => "&",
            Op::BitOr => "|",
            Op::BitXor => "^",
            Op::Shl => "<<",
            Op::Shr => ">>",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::Eq => "==",
            Op::Ne => "!=",
            Op::And => "&&",
            Op::Or => "||",
            Op::Min => "min",
            Op::Max => "max",
            Op::CeilDiv => "ceil_div",
        }
    }

    /// Whether its result is a bool.
    pub const fn is_condition(self) -> bool {
        matches!(self, Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::And | Op::Or)
    }
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fun {
    Abs,
    Sqrt,
    Fma,
    Exp,
    Exp2,
    Log,
    Rsqrt,
    Tanh,
    FastExp,
    FastExp2,
    FastTanh,
    FastRecip,
    Sin,
    Cos,
    Floor,
    Ceil,
    Trunc,
    Round,
    RoundTiesEven,
    MulHi,
    CountOnes,
    LeadingZeros,
    TrailingZeros,
}

impl Fun {
    /// As written.
    pub const fn name(self) -> &'static str {
        match self {
            Fun::Abs => "abs",
            Fun::Sqrt => "sqrt",
            Fun::Fma => "fma",
            Fun::Exp => "exp",
            Fun::Exp2 => "exp2",
            Fun::Log => "log",
            Fun::Rsqrt => "rsqrt",
            Fun::Tanh => "tanh",
            Fun::FastExp => "fast::exp",
            Fun::FastExp2 => "fast::exp2",
            Fun::FastTanh => "fast::tanh",
            Fun::FastRecip => "fast::recip",
            Fun::Sin => "sin",
            Fun::Cos => "cos",
            Fun::Floor => "floor",
            Fun::Ceil => "ceil",
            Fun::Trunc => "trunc",
            Fun::Round => "round",
            Fun::RoundTiesEven => "round_ties_even",
            Fun::MulHi => "mul_hi",
            Fun::CountOnes => "count_ones",
            Fun::LeadingZeros => "leading_zeros",
            Fun::TrailingZeros => "trailing_zeros",
        }
    }
}

/// A value without effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A `usize` literal.
    Int(i64),
    /// A literal of an element type; of `bool`, whether it is not 0.
    Lit(Ty, f64),
    /// A variable, an index, a dim, a constant parameter or a scalar parameter.
    Name(String, Ty),
    /// An element.
    Load { array: String, ty: Ty, at: Vec<Expr>, masked: bool },
    /// Two operands of one type.
    Bin(Op, Box<Expr>, Box<Expr>),
    /// `-x`.
    Neg(Box<Expr>),
    /// `!x`.
    Not(Box<Expr>),
    /// A function.
    Call(Fun, Vec<Expr>),
    /// `if c { a } else { b }` where `lazy`, else `select(c, a, b)`.
    Choose { lazy: bool, c: Box<Expr>, a: Box<Expr>, b: Box<Expr> },
    /// `x.cast::<T>()`.
    Cast(Ty, Box<Expr>),
    /// `f0(a, b)`: a function of the program, by name.
    Apply { function: String, ty: Ty, args: Vec<Expr> },
}

impl Expr {
    /// The type.
    pub fn ty(&self) -> Ty {
        match self {
            Expr::Int(_) => Ty::Index,
            Expr::Lit(ty, _)
            | Expr::Name(_, ty)
            | Expr::Load { ty, .. }
            | Expr::Cast(ty, _)
            | Expr::Apply { ty, .. } => *ty,
            Expr::Bin(op, ..) if op.is_condition() => Ty::Bool,
            Expr::Bin(_, a, _) | Expr::Neg(a) | Expr::Not(a) | Expr::Choose { a, .. } => a.ty(),
            Expr::Call(_, args) => args.first().map_or(Ty::F32, Expr::ty),
        }
    }

    /// A `usize` variable or constant.
    pub fn index(name: &str) -> Expr {
        Expr::Name(name.into(), Ty::Index)
    }

    /// `op(a, b)`.
    pub fn bin(op: Op, a: Expr, b: Expr) -> Expr {
        Expr::Bin(op, Box::new(a), Box::new(b))
    }

    /// `a + b`; `a` where `b` is 0.
    pub fn plus(self, b: Expr) -> Expr {
        if b == Expr::Int(0) { self } else { Expr::bin(Op::Add, self, b) }
    }

    /// `a * n`.
    pub fn times(self, n: i64) -> Expr {
        if n == 1 { self } else { Expr::bin(Op::Mul, self, Expr::Int(n)) }
    }

    /// `a < b`.
    pub fn below(self, b: Expr) -> Expr {
        Expr::bin(Op::Lt, self, b)
    }

    /// `a && b`.
    pub fn and(self, b: Expr) -> Expr {
        Expr::bin(Op::And, self, b)
    }

    /// `a.cast::<ty>()`; `a` where it has this type.
    pub fn cast(self, ty: Ty) -> Expr {
        if self.ty() == ty { self } else { Expr::Cast(ty, Box::new(self)) }
    }

    /// `array[at]`.
    pub fn load(array: &Array, at: Vec<Expr>) -> Expr {
        Expr::Load { array: array.name.clone(), ty: array.ty, at, masked: false }
    }

    /// `array.masked(at)`.
    pub fn masked(array: &Array, at: Vec<Expr>) -> Expr {
        Expr::Load { array: array.name.clone(), ty: array.ty, at, masked: true }
    }

    /// Visits it and every expression in it, outer ones first.
    pub fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        match self {
            Expr::Load { at: all, .. } | Expr::Call(_, all) | Expr::Apply { args: all, .. } => {
                all.iter().for_each(|e| e.visit(f));
            }
            Expr::Bin(_, a, b) => [a, b].into_iter().for_each(|e| e.visit(f)),
            Expr::Neg(x) | Expr::Not(x) | Expr::Cast(_, x) => x.visit(f),
            Expr::Choose { c, a, b, .. } => [c, a, b].into_iter().for_each(|e| e.visit(f)),
            Expr::Int(_) | Expr::Lit(..) | Expr::Name(..) => {}
        }
    }

    /// Visits it and every expression in it, outer ones first, which may become others.
    pub fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        f(self);
        match self {
            Expr::Load { at: all, .. } | Expr::Call(_, all) | Expr::Apply { args: all, .. } => {
                all.iter_mut().for_each(|e| e.visit_mut(f));
            }
            Expr::Bin(_, a, b) => [a, b].into_iter().for_each(|e| e.visit_mut(f)),
            Expr::Neg(x) | Expr::Not(x) | Expr::Cast(_, x) => x.visit_mut(f),
            Expr::Choose { c, a, b, .. } => [c, a, b].into_iter().for_each(|e| e.visit_mut(f)),
            Expr::Int(_) | Expr::Lit(..) | Expr::Name(..) => {}
        }
    }

    /// `ceil_div(a, n)`.
    pub fn ceil_div(a: Expr, n: i64) -> Expr {
        Expr::bin(Op::CeilDiv, a, Expr::Int(n))
    }
}
