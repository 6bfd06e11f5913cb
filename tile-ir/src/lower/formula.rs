//! Formulas of `layout` as values of the program.

use super::*;
use crate::layout::{Formula, Operation};

impl Lowering<'_> {
    /// The value of a layout's formula of these values.
    pub(super) fn formula<const N: usize>(
        &mut self,
        of: [impl Into<Term>; N],
        formula: impl FnOnce([Formula; N]) -> Formula,
    ) -> ValueId {
        let [value] = self.formulas(of, |symbols| [formula(symbols)]);
        value
    }

    /// The values of several of a layout's formulas of these values.
    pub(super) fn formulas<const N: usize, const M: usize>(
        &mut self,
        of: [impl Into<Term>; N],
        formulas: impl FnOnce([Formula; N]) -> [Formula; M],
    ) -> [ValueId; M] {
        let of = of.map(|term| self.eval(term));
        let symbols = std::array::from_fn(|number| Formula::Symbol(number as u32));
        formulas(symbols).map(|formula| self.rebuilt(&formula, &of))
    }

    /// The value of a layout's formula; symbol `n` of it stands for `symbols[n]`.
    pub(super) fn rebuilt(&mut self, formula: &Formula, symbols: &[ValueId]) -> ValueId {
        let (operation, a, b) = match formula {
            // A formula is made of the symbols it is given.
            Formula::Symbol(number) => return symbols.get(*number as usize).copied().unwrap_or_else(|| self.int(0)),
            Formula::Constant(value) => return self.int(i64::from(*value)),
            Formula::Binary(operation, a, b) => (operation, a, b),
        };
        let (a, b) = (self.rebuilt(a, symbols), self.rebuilt(b, symbols));
        let op = match operation {
            Operation::Add => BinaryOp::Add,
            Operation::Mul => BinaryOp::Mul,
            Operation::Div => BinaryOp::Div,
            Operation::Rem => BinaryOp::Rem,
            Operation::Xor => BinaryOp::BitXor,
            Operation::And => BinaryOp::BitAnd,
            Operation::Shl => BinaryOp::Shl,
            Operation::Shr => BinaryOp::Shr,
        };
        self.binary(op, a, b)
    }
}
