//! Expressions: pure, except that they may load. Anything with a further effect is a statement.

use super::{AccessId, BufferId, ConstId, DimId, DtypeRef, ExprId, ParamId, SpanId, Type, VarId};
use serde::{Deserialize, Serialize};

/// The largest integer that a literal or a constant may be, and its negative the least: what an f64 holds exactly.
pub const LARGEST_LITERAL: i64 = 1 << 53;

/// An expression, its type and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Where it stands.
    pub span: SpanId,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprKind {
    /// An integer literal, of type `usize`, `i32` or `u32`: at most [`LARGEST_LITERAL`] from 0.
    Int(i64),
    /// A floating-point literal; rounded to the expression's dtype when used.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A dynamic dimension's value.
    Dim(DimId),
    /// A const parameter's value. Absent once bound.
    Const(ConstId),
    /// `T::BITS`. Absent once bound.
    Bits(DtypeRef),
    /// `T::ZERO` and its like.
    Special(DtypeRef, SpecialValue),
    /// A scalar parameter.
    Scalar(ParamId),
    /// A variable.
    Var(VarId),
    /// One operand.
    Unary(UnaryOp, ExprId),
    /// Two operands. `And` and `Or` short-circuit.
    Binary(BinaryOp, ExprId, ExprId),
    /// A function of the language, elementwise; arity is [`MathFn::arity`].
    Math(MathFn, Vec<ExprId>),
    /// `select(c, a, b)`: both operands are evaluated.
    Select(ExprId, ExprId, ExprId),
    /// `if c { a } else { b }`: one operand is evaluated.
    If(ExprId, ExprId, ExprId),
    /// `x.cast::<U>()`, also from and to `usize` (`as` in the author's text).
    Cast(Type, ExprId),
    /// A load of one element.
    Load(AccessId),
    /// Whether this launch has the optional tensor: `if let Some(b) = bias`. Absent once bound.
    Present(ParamId),
}

/// Values every dtype (or every float dtype) has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SpecialValue {
    /// `T::ZERO`
    Zero,
    /// `T::ONE`
    One,
    /// `T::NEG_INFINITY`, floats only.
    NegInfinity,
    /// `T::INFINITY`, floats only.
    Infinity,
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `!x`, on bool or integers.
    Not,
}

/// Operators of two operands of one type. On `usize`: mathematical; on `i32`/`u32`: wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    /// Integers truncate.
    Div,
    Rem,
    /// `ceil_div(a, b)`, `usize` only.
    CeilDiv,
    /// As PTX `min`: the operand that is not NaN; -0 < +0.
    Min,
    /// As PTX `max`.
    Max,
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
    /// Short-circuits; a guard for what follows.
    And,
    /// Short-circuits.
    Or,
}

impl BinaryOp {
    /// Whether the result is a bool whatever the operands are.
    pub const fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Lt | Le | Gt | Ge | Eq | Ne)
    }

    /// The operator as written; `min`, `max` and `ceil_div` are written as calls.
    pub const fn symbol(self) -> &'static str {
        use BinaryOp::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Rem => "%",
            CeilDiv => "ceil_div",
            Min => "min",
            Max => "max",
            BitAnd => "&",
            BitOr => "|",
            BitXor => "^",
            Shl => "<<",
            Shr => ">>",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            Eq => "==",
            Ne => "!=",
            And => "&&",
            Or => "||",
        }
    }
}

/// Elementwise functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum MathFn {
    Exp,
    Exp2,
    Log,
    Sqrt,
    Rsqrt,
    Tanh,
    Abs,
    /// `fma(a, b, c)`: rounded once for f32; for 16-bit types computed in f32 and rounded to the type.
    Fma,
    /// `fast::exp`: `ex2.approx` of a scaled argument.
    FastExp,
    FastExp2,
    FastLog,
    FastTanh,
    /// `fast::recip`: `1 / x` by `rcp.approx`.
    FastRecip,
    Sin,
    Cos,
    /// `pow(x, y)`, C's `pow`: 1 where `y` is 0 or `x` is 1, whatever the other is.
    Pow,
    FastSin,
    FastCos,
    /// The greatest whole number that is not greater. Exact, as are the next four.
    Floor,
    Ceil,
    Trunc,
    /// To the nearest whole number, halves away from zero.
    Round,
    /// To the nearest whole number, halves to the even one.
    RoundTiesEven,
    /// The upper 32 bits of the product of two integers.
    MulHi,
    CountOnes,
    /// 32 of 0.
    LeadingZeros,
    /// 32 of 0.
    TrailingZeros,
    /// The bits of an `f32`, as a `u32`.
    ToBits,
}

/// What an elementwise function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathOperands {
    /// Floats.
    Floats,
    /// Floats and integers.
    Numbers,
    /// `i32` and `u32`.
    Integers,
    /// `f32`.
    F32,
}

impl MathFn {
    /// Number of operands.
    pub const fn arity(self) -> usize {
        match self {
            MathFn::Fma => 3,
            MathFn::Pow | MathFn::MulHi => 2,
            _ => 1,
        }
    }

    /// What its operands are; they and the result have one type, but for `to_bits`, which gives a `u32`.
    pub const fn operands(self) -> MathOperands {
        match self {
            MathFn::Abs => MathOperands::Numbers,
            MathFn::MulHi | MathFn::CountOnes | MathFn::LeadingZeros | MathFn::TrailingZeros => MathOperands::Integers,
            MathFn::ToBits => MathOperands::F32,
            _ => MathOperands::Floats,
        }
    }

    /// Whether the result counts bits: 0 to 32, whatever the operand.
    pub const fn counts_bits(self) -> bool {
        matches!(self, MathFn::CountOnes | MathFn::LeadingZeros | MathFn::TrailingZeros)
    }

    /// Whether executors may differ in the last places of the result: a stated error, and no promise of equal bits.
    pub const fn is_approximate(self) -> bool {
        match self {
            MathFn::Exp
            | MathFn::Exp2
            | MathFn::Log
            | MathFn::Rsqrt
            | MathFn::Tanh
            | MathFn::Sin
            | MathFn::Cos
            | MathFn::Pow
            | MathFn::FastExp
            | MathFn::FastExp2
            | MathFn::FastLog
            | MathFn::FastTanh
            | MathFn::FastRecip
            | MathFn::FastSin
            | MathFn::FastCos => true,
            MathFn::Sqrt
            | MathFn::Abs
            | MathFn::Fma
            | MathFn::Floor
            | MathFn::Ceil
            | MathFn::Trunc
            | MathFn::Round
            | MathFn::RoundTiesEven
            | MathFn::MulHi
            | MathFn::CountOnes
            | MathFn::LeadingZeros
            | MathFn::TrailingZeros
            | MathFn::ToBits => false,
        }
    }

    /// The name an author writes (`fast::` forms with their module).
    pub const fn name(self) -> &'static str {
        match self {
            MathFn::Exp => "exp",
            MathFn::Exp2 => "exp2",
            MathFn::Log => "log",
            MathFn::Sqrt => "sqrt",
            MathFn::Rsqrt => "rsqrt",
            MathFn::Tanh => "tanh",
            MathFn::Abs => "abs",
            MathFn::Fma => "fma",
            MathFn::FastExp => "fast::exp",
            MathFn::FastExp2 => "fast::exp2",
            MathFn::FastLog => "fast::log",
            MathFn::FastTanh => "fast::tanh",
            MathFn::FastRecip => "fast::recip",
            MathFn::Sin => "sin",
            MathFn::Cos => "cos",
            MathFn::Pow => "pow",
            MathFn::FastSin => "fast::sin",
            MathFn::FastCos => "fast::cos",
            MathFn::Floor => "floor",
            MathFn::Ceil => "ceil",
            MathFn::Trunc => "trunc",
            MathFn::Round => "round",
            MathFn::RoundTiesEven => "round_ties_even",
            MathFn::MulHi => "mul_hi",
            MathFn::CountOnes => "count_ones",
            MathFn::LeadingZeros => "leading_zeros",
            MathFn::TrailingZeros => "trailing_zeros",
            MathFn::ToBits => "to_bits",
        }
    }

    /// Every function.
    pub const ALL: [MathFn; 28] = [
        MathFn::Exp,
        MathFn::Exp2,
        MathFn::Log,
        MathFn::Sqrt,
        MathFn::Rsqrt,
        MathFn::Tanh,
        MathFn::Abs,
        MathFn::Fma,
        MathFn::FastExp,
        MathFn::FastExp2,
        MathFn::FastLog,
        MathFn::FastTanh,
        MathFn::FastRecip,
        MathFn::Sin,
        MathFn::Cos,
        MathFn::Pow,
        MathFn::FastSin,
        MathFn::FastCos,
        MathFn::Floor,
        MathFn::Ceil,
        MathFn::Trunc,
        MathFn::Round,
        MathFn::RoundTiesEven,
        MathFn::MulHi,
        MathFn::CountOnes,
        MathFn::LeadingZeros,
        MathFn::TrailingZeros,
        MathFn::ToBits,
    ];
}

/// What an access or tile operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// A global tensor parameter.
    Tensor(ParamId),
    /// An array of the kernel.
    Buffer(BufferId),
}

impl ExprKind {
    /// The variable, of one that is read.
    pub const fn variable(&self) -> Option<VarId> {
        if let ExprKind::Var(var) = self { Some(*var) } else { None }
    }
}

impl Place {
    /// The array, if it is one.
    pub const fn buffer(self) -> Option<BufferId> {
        if let Place::Buffer(buffer) = self { Some(buffer) } else { None }
    }
}

/// One element of a tensor or buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// What is accessed.
    pub place: Place,
    /// One index an axis.
    pub indices: Vec<ExprId>,
    /// `masked`: out of bounds reads 0 and drops writes.
    pub masked: bool,
    /// The whole access as written.
    pub span: SpanId,
}

/// An operand of `gemm`: a whole array, as it is or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixRef {
    /// The array, of rank 2.
    pub buffer: BufferId,
    /// `.t()`: the array holds the transpose of the operand.
    pub transposed: bool,
    /// The operand as written.
    pub span: SpanId,
}

/// A rectangular part of a tensor or a whole buffer, an operand of `copy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileRef {
    /// What it is part of.
    pub place: Place,
    /// The tile's first element, one index an axis; empty for the whole of the place.
    pub start: Vec<ExprId>,
    /// The tile's extents (`.tile([r0..r1, ..])`); empty where the other operand gives them (`.at`).
    pub extents: Vec<ExprId>,
    /// Whether it is the transpose of the place: `acc.t()`, of a fragment that is stored.
    pub transposed: bool,
    /// The operand as written.
    pub span: SpanId,
}
