//! Terms: what passes write values as. `thread * 4 + i` is one, of values, registers and numbers.

use super::builder::Builder;
use crate::ir::BinaryOp;
use crate::lowered::{RegId, Special, ValueId, ValueKind, ValueType};

/// A formula of values and registers of a program, of what the hardware says, and of numbers, which are indices. [`Builder::eval`] makes it a value.
#[derive(Clone, Debug)]
pub enum Term {
    Value(ValueId),
    Reg(RegId),
    Int(i64),
    Special(Special),
    Binary(BinaryOp, Box<[Term; 2]>),
}

impl Term {
    pub(super) fn binary(op: BinaryOp, a: impl Into<Term>, b: impl Into<Term>) -> Term {
        Term::Binary(op, Box::new([a.into(), b.into()]))
    }
}

/// Comparisons of what a term can be.
pub(super) trait Compare: Into<Term> {
    fn equals(self, other: impl Into<Term>) -> Term {
        Term::binary(BinaryOp::Eq, self, other)
    }
    fn below(self, other: impl Into<Term>) -> Term {
        Term::binary(BinaryOp::Lt, self, other)
    }
    fn at_most(self, other: impl Into<Term>) -> Term {
        Term::binary(BinaryOp::Le, self, other)
    }
    fn above(self, other: impl Into<Term>) -> Term {
        Term::binary(BinaryOp::Gt, self, other)
    }
    fn at_least(self, other: impl Into<Term>) -> Term {
        Term::binary(BinaryOp::Ge, self, other)
    }
    /// `self && other`
    fn and(self, other: impl Into<Term>) -> Term {
        Term::binary(BinaryOp::And, self, other)
    }
}

macro_rules! terms {
    ($($variant:ident($from:ty)),*) => {
        $(impl From<$from> for Term {
            fn from(it: $from) -> Term {
                Term::$variant(it.into())
            }
        })*
    };
}
terms!(Value(ValueId), Reg(RegId), Int(i32), Int(u32), Int(i64), Special(Special));

macro_rules! operators {
    ($left:ty: $($trait:ident $method:ident $op:ident),*) => {
        impl Compare for $left {}
        $(impl<T: Into<Term>> std::ops::$trait<T> for $left {
            type Output = Term;
            fn $method(self, other: T) -> Term {
                Term::binary(BinaryOp::$op, self, other)
            }
        })*
    };
    ($($left:ty),*) => {
        $(operators!($left: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitXor bitxor BitXor, BitAnd bitand BitAnd);)*
    };
}
operators!(Term, ValueId, RegId);

impl Builder {
    /// The value of a term.
    pub(super) fn eval(&mut self, term: impl Into<Term>) -> ValueId {
        match term.into() {
            Term::Value(value) => value,
            Term::Reg(reg) => self.read(reg),
            Term::Int(number) => self.int(number),
            Term::Special(Special::Elected) => self.push(ValueKind::Special(Special::Elected), ValueType::BOOL),
            Term::Special(special) => self.push(ValueKind::Special(special), ValueType::Index),
            Term::Binary(op, operands) => {
                let [a, b] = *operands;
                self.binary(op, a, b)
            }
        }
    }
}
