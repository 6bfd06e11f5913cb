//! What an address formula is written over: an integer of the host, or an expression of the program.

use std::fmt;
use std::rc::Rc;

/// A non-negative integer that a formula computes with. Every constant of a layout is known, so the right operand of
/// a shift, a product or a mask is a plain number.
///
/// Formulas use powers of two where they can: [`Index::times`], [`Index::over`] and [`Index::modulo`] become shifts
/// and masks then, and nothing where they change nothing.
pub trait Index: Clone + Sized {
    /// The constant `value`.
    fn constant(value: u32) -> Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self ^ other`.
    fn xor(self, other: Self) -> Self;
    /// `self & mask`.
    fn and(self, mask: u32) -> Self;
    /// `self << bits`.
    fn shl(self, bits: u32) -> Self;
    /// `self >> bits`.
    fn shr(self, bits: u32) -> Self;
    /// `self * factor`.
    fn mul(self, factor: u32) -> Self;
    /// `self / divisor`, rounded down; `divisor` is not 0.
    fn div(self, divisor: u32) -> Self;
    /// `self % divisor`; `divisor` is not 0.
    fn rem(self, divisor: u32) -> Self;

    /// `self + value`.
    fn plus(self, value: u32) -> Self {
        if value == 0 { self } else { self.add(Self::constant(value)) }
    }

    /// `self * factor`, as a shift where that is the same.
    fn times(self, factor: u32) -> Self {
        match factor {
            0 => Self::constant(0),
            1 => self,
            _ if factor.is_power_of_two() => self.shl(factor.trailing_zeros()),
            _ => self.mul(factor),
        }
    }

    /// `self / divisor`, as a shift where that is the same.
    fn over(self, divisor: u32) -> Self {
        match divisor {
            1 => self,
            _ if divisor.is_power_of_two() => self.shr(divisor.trailing_zeros()),
            _ => self.div(divisor),
        }
    }

    /// `self % divisor`, as a mask where that is the same.
    fn modulo(self, divisor: u32) -> Self {
        match divisor {
            1 => Self::constant(0),
            _ if divisor.is_power_of_two() => self.and(divisor - 1),
            _ => self.rem(divisor),
        }
    }
}

impl Index for u32 {
    fn constant(value: u32) -> u32 {
        value
    }
    fn add(self, other: u32) -> u32 {
        self + other
    }
    fn xor(self, other: u32) -> u32 {
        self ^ other
    }
    fn and(self, mask: u32) -> u32 {
        self & mask
    }
    fn shl(self, bits: u32) -> u32 {
        self << bits
    }
    fn shr(self, bits: u32) -> u32 {
        self >> bits
    }
    fn mul(self, factor: u32) -> u32 {
        self * factor
    }
    fn div(self, divisor: u32) -> u32 {
        self / divisor
    }
    fn rem(self, divisor: u32) -> u32 {
        self % divisor
    }
}

/// An operation of a [`Formula`]. All are on unsigned integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `a + b`
    Add,
    /// `a * b`
    Mul,
    /// `a / b`, rounded down
    Div,
    /// `a % b`
    Rem,
    /// `a ^ b`
    Xor,
    /// `a & b`
    And,
    /// `a << b`
    Shl,
    /// `a >> b`
    Shr,
}

impl Operation {
    /// As C writes it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Operation::Add => "+",
            Operation::Mul => "*",
            Operation::Div => "/",
            Operation::Rem => "%",
            Operation::Xor => "^",
            Operation::And => "&",
            Operation::Shl => "<<",
            Operation::Shr => ">>",
        }
    }

    /// The operation on numbers.
    fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            Operation::Add => a + b,
            Operation::Mul => a * b,
            Operation::Div => a / b,
            Operation::Rem => a % b,
            Operation::Xor => a ^ b,
            Operation::And => a & b,
            Operation::Shl => a << b,
            Operation::Shr => a >> b,
        }
    }

    /// Whether `b` on the right leaves the left operand as it is.
    fn is_neutral(self, b: u32) -> bool {
        match self {
            Operation::Add | Operation::Xor | Operation::Shl | Operation::Shr => b == 0,
            Operation::Mul | Operation::Div => b == 1,
            Operation::Rem => false,
            Operation::And => b == u32::MAX,
        }
    }
}

/// A formula as data: what the lowering turns into values of the program, one for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formula {
    /// A quantity that whoever asked for the formula named by this number.
    Symbol(u32),
    /// A number.
    Constant(u32),
    /// An operation on two formulas.
    Binary(Operation, Rc<Formula>, Rc<Formula>),
}

impl Formula {
    /// Its value, where `symbol` gives that of every symbol.
    pub fn evaluate(&self, symbol: &impl Fn(u32) -> u32) -> u32 {
        match self {
            Formula::Symbol(name) => symbol(*name),
            Formula::Constant(value) => *value,
            Formula::Binary(operation, a, b) => operation.apply(a.evaluate(symbol), b.evaluate(symbol)),
        }
    }

    /// `a operation b`, with what is known now computed now.
    fn binary(operation: Operation, a: Formula, b: Formula) -> Formula {
        use Formula::Constant;
        // A mask of a mask.
        if let (Formula::Binary(Operation::And, x, inner), Constant(outer)) = (&a, &b)
            && let (Operation::And, Constant(inner)) = (operation, &**inner)
        {
            return (**x).clone().and(inner & outer);
        }
        match (&a, &b) {
            (Constant(a), Constant(b)) => Constant(operation.apply(*a, *b)),
            (_, Constant(b)) if operation.is_neutral(*b) => a,
            (Constant(0), _) if matches!(operation, Operation::Add | Operation::Xor) => b,
            (Constant(0), _) => Constant(0),
            _ => Formula::Binary(operation, Rc::new(a), Rc::new(b)),
        }
    }
}

impl Index for Formula {
    fn constant(value: u32) -> Formula {
        Formula::Constant(value)
    }
    fn add(self, other: Formula) -> Formula {
        Formula::binary(Operation::Add, self, other)
    }
    fn xor(self, other: Formula) -> Formula {
        Formula::binary(Operation::Xor, self, other)
    }
    fn and(self, mask: u32) -> Formula {
        if mask == 0 { Formula::Constant(0) } else { Formula::binary(Operation::And, self, Formula::Constant(mask)) }
    }
    fn shl(self, bits: u32) -> Formula {
        Formula::binary(Operation::Shl, self, Formula::Constant(bits))
    }
    fn shr(self, bits: u32) -> Formula {
        Formula::binary(Operation::Shr, self, Formula::Constant(bits))
    }
    fn mul(self, factor: u32) -> Formula {
        if factor == 0 {
            Formula::Constant(0)
        } else {
            Formula::binary(Operation::Mul, self, Formula::Constant(factor))
        }
    }
    fn div(self, divisor: u32) -> Formula {
        Formula::binary(Operation::Div, self, Formula::Constant(divisor))
    }
    fn rem(self, divisor: u32) -> Formula {
        Formula::binary(Operation::Rem, self, Formula::Constant(divisor))
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Formula::Symbol(name) => write!(f, "x{name}"),
            Formula::Constant(value) => write!(f, "{value}"),
            Formula::Binary(operation, a, b) => write!(f, "({a} {} {b})", operation.symbol()),
        }
    }
}
