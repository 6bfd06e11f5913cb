//! What the launcher evaluates: grid extents and checks over dims, strides, scalars and addresses.

use crate::ir::{BinaryOp, DimId, Dtype, EntityRef, ExprId, ExprKind, Kernel, ParamId, Side, SpanId, Type, UnaryOp};
use serde::{Deserialize, Serialize};

/// An integer expression of launch-time values. Conditions are 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostExpr {
    /// A constant.
    Int(i64),
    /// A dim.
    Dim(DimId),
    /// A tensor's stride on an axis, in elements.
    Stride(ParamId, u8),
    /// A `usize` or integer scalar parameter.
    Scalar(ParamId),
    /// A tensor's address, in bytes.
    Address(ParamId),
    /// Blocks of this kernel that the device holds at once, in whole clusters.
    Capacity,
    /// Two operands.
    Binary(BinaryOp, Box<HostExpr>, Box<HostExpr>),
    /// `!x`.
    Not(Box<HostExpr>),
    /// `if c { a } else { b }`, of which one is evaluated.
    Choose(Box<[HostExpr; 3]>),
}

/// The launch-time values.
pub trait HostValues {
    /// A dim's value.
    fn dim(&self, dim: DimId) -> i64;
    /// A tensor's stride on an axis, in elements.
    fn stride(&self, tensor: ParamId, axis: u8) -> i64;
    /// An integer scalar's value.
    fn scalar(&self, param: ParamId) -> i64;
    /// A tensor's address.
    fn address(&self, tensor: ParamId) -> u64;
    /// Blocks of this kernel that the device holds at once, in whole clusters; at least 1.
    fn capacity(&self) -> i64;
}

impl HostExpr {
    /// A bound kernel's expression of dims, constants and scalars, of integers and conditions; `None` if it mentions anything else.
    pub fn of(kernel: &Kernel, id: ExprId) -> Option<HostExpr> {
        let is = |id: ExprId, what: fn(Dtype) -> bool| kernel.exprs[id].ty.dtype().is_some_and(what);
        Some(match &kernel.exprs.get(id)?.kind {
            ExprKind::Int(value) => HostExpr::Int(*value),
            ExprKind::Bool(value) => HostExpr::Int(i64::from(*value)),
            ExprKind::Dim(dim) => HostExpr::Dim(*dim),
            ExprKind::Scalar(param) if !is(id, Dtype::is_float) => HostExpr::Scalar(*param),
            ExprKind::Unary(UnaryOp::Not, x) if is(*x, |dtype| dtype == Dtype::Bool) => {
                HostExpr::Not(Box::new(HostExpr::of(kernel, *x)?))
            }
            ExprKind::Unary(UnaryOp::Neg, x) => {
                HostExpr::binary(BinaryOp::Sub, HostExpr::Int(0), HostExpr::of(kernel, *x)?)
            }
            ExprKind::Binary(op, a, b) => HostExpr::binary(*op, HostExpr::of(kernel, *a)?, HostExpr::of(kernel, *b)?),
            ExprKind::Cast(Type::Index, x) => HostExpr::of(kernel, *x)?,
            ExprKind::If(c, a, b) | ExprKind::Select(c, a, b) => HostExpr::Choose(Box::new([
                HostExpr::of(kernel, *c)?,
                HostExpr::of(kernel, *a)?,
                HostExpr::of(kernel, *b)?,
            ])),
            _ => return None,
        })
    }

    /// `op(a, b)`.
    pub fn binary(op: BinaryOp, a: HostExpr, b: HostExpr) -> HostExpr {
        HostExpr::Binary(op, Box::new(a), Box::new(b))
    }

    /// Calls `each` with everything in it that is no operation: literals, dims, scalars, strides, addresses.
    pub fn each_leaf(&self, each: &mut dyn FnMut(&HostExpr)) {
        match self {
            HostExpr::Binary(_, a, b) => {
                a.each_leaf(each);
                b.each_leaf(each);
            }
            HostExpr::Not(x) => x.each_leaf(each),
            HostExpr::Choose(parts) => parts.iter().for_each(|part| part.each_leaf(each)),
            leaf => each(leaf),
        }
    }

    /// The value; `None` on overflow or division by zero.
    pub fn evaluate(&self, values: &impl HostValues) -> Option<i64> {
        Some(match self {
            HostExpr::Int(value) => *value,
            HostExpr::Dim(dim) => values.dim(*dim),
            HostExpr::Stride(tensor, axis) => values.stride(*tensor, *axis),
            HostExpr::Scalar(param) => values.scalar(*param),
            HostExpr::Address(tensor) => values.address(*tensor) as i64,
            HostExpr::Capacity => values.capacity(),
            HostExpr::Not(x) => i64::from(x.evaluate(values)? == 0),
            HostExpr::Choose(parts) => {
                let [c, a, b] = &**parts;
                if c.evaluate(values)? != 0 { a } else { b }.evaluate(values)?
            }
            HostExpr::Binary(op, a, b) => {
                let a = a.evaluate(values)?;
                // Short-circuit, so that a guard protects what follows it.
                match op {
                    BinaryOp::And if a == 0 => return Some(0),
                    BinaryOp::Or if a != 0 => return Some(1),
                    _ => {}
                }
                let b = b.evaluate(values)?;
                fold(*op, a, b)?
            }
        })
    }

    /// The expression with dims' and parameters' names, as an author would write it.
    pub fn display(&self, dims: &[String], params: &dyn Fn(ParamId) -> String) -> String {
        match self {
            HostExpr::Int(value) => value.to_string(),
            HostExpr::Dim(dim) => dims.get(dim.index()).cloned().unwrap_or_default(),
            HostExpr::Stride(tensor, axis) => format!("{}.stride({axis})", params(*tensor)),
            HostExpr::Scalar(param) => params(*param),
            HostExpr::Address(tensor) => format!("address of {}", params(*tensor)),
            HostExpr::Capacity => "blocks at once".into(),
            HostExpr::Not(x) => format!("!({})", x.display(dims, params)),
            HostExpr::Choose(parts) => {
                let [c, a, b] = [0, 1, 2].map(|part| parts[part].display(dims, params));
                format!("if {c} {{ {a} }} else {{ {b} }}")
            }
            HostExpr::Binary(op @ (BinaryOp::CeilDiv | BinaryOp::Min | BinaryOp::Max), a, b) => {
                format!("{}({}, {})", op.symbol(), a.display(dims, params), b.display(dims, params))
            }
            HostExpr::Binary(op, a, b) => {
                let side = |x: &HostExpr| match x {
                    HostExpr::Binary(..) | HostExpr::Choose(_) => format!("({})", x.display(dims, params)),
                    _ => x.display(dims, params),
                };
                format!("{} {} {}", side(a), op.symbol(), side(b))
            }
        }
    }
}

/// `op(a, b)` on mathematical integers; `None` on overflow or division by zero. Conditions are 0 or 1.
pub fn fold(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    use BinaryOp::*;
    Some(match op {
        Add => a.checked_add(b)?,
        Sub => a.checked_sub(b)?,
        Mul => a.checked_mul(b)?,
        Div => a.checked_div(b)?,
        Rem => a.checked_rem(b)?,
        CeilDiv => {
            let quotient = a.checked_div(b)?;
            quotient.checked_add(i64::from(a % b != 0 && (a < 0) == (b < 0)))?
        }
        Min => a.min(b),
        Max => a.max(b),
        BitAnd => a & b,
        BitOr => a | b,
        BitXor => a ^ b,
        // Indices have 32 bits: a shift by more is as wrong as an overflow.
        Shl => u32::try_from(b).ok().filter(|b| *b < 32).and_then(|b| a.checked_mul(1 << b))?,
        Shr => a >> u32::try_from(b).ok().filter(|b| *b < 32)?,
        Lt => i64::from(a < b),
        Le => i64::from(a <= b),
        Gt => i64::from(a > b),
        Ge => i64::from(a >= b),
        Eq => i64::from(a == b),
        Ne => i64::from(a != b),
        And => i64::from(a != 0 && b != 0),
        Or => i64::from(a != 0 || b != 0),
    })
}

/// One launch check beyond those every launch has (rank, dtype, extents, strides that do not overlap, aliasing, device).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What must hold: nonzero.
    pub holds: HostExpr,
    /// What it is about.
    pub kind: CheckKind,
    /// Where copies only request what must hold: the side of them that a lesser class asks less of. `None` where it must
    /// hold whatever the class.
    pub request: Option<Side>,
    /// The line that makes it necessary.
    pub span: SpanId,
}

/// What a check is about; it decides the words of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CheckKind {
    /// The program was compiled for this value of the dim (`specialize`).
    Specialized {
        /// The dim.
        dim: DimId,
        /// The value.
        value: i64,
    },
    /// A `require(..)`, with its text.
    Require {
        /// As written.
        text: String,
    },
    /// The tensor's address must be a multiple of this many bytes.
    Alignment {
        /// The tensor.
        tensor: ParamId,
        /// Bytes.
        bytes: u32,
    },
    /// The tensor's stride on this axis must be a multiple of this many elements.
    StrideMultiple {
        /// The tensor.
        tensor: ParamId,
        /// The axis.
        axis: u8,
        /// Elements.
        multiple: u32,
    },
    /// An index expression must stay below 2^31; `bound` is its largest value.
    IndexRange {
        /// Its largest value.
        bound: HostExpr,
    },
    /// An operand must be in its range.
    Operand {
        /// Which.
        kind: OperandKind,
        /// Its value.
        value: HostExpr,
    },
}

/// An operand that has a range of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperandKind {
    /// The step of a loop: at least 1.
    Step,
    /// The number of a shift of an index: 0 to 31.
    Shift,
}

impl OperandKind {
    /// What it must be, in words.
    pub const fn must_be(self) -> &'static str {
        match self {
            OperandKind::Step => "a loop's step must be at least 1",
            OperandKind::Shift => "an index is shifted by 0 to 31",
        }
    }

    /// The condition on its value.
    pub fn holds(self, value: HostExpr) -> HostExpr {
        let least = if self == OperandKind::Step { 1 } else { 0 };
        let above = HostExpr::binary(BinaryOp::Ge, value.clone(), HostExpr::Int(least));
        match self {
            OperandKind::Step => above,
            OperandKind::Shift => {
                let below = HostExpr::binary(BinaryOp::Lt, value, HostExpr::Int(32));
                HostExpr::binary(BinaryOp::And, above, below)
            }
        }
    }
}
