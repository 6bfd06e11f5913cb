//! Formulas of `layout` as values of the program.

use super::*;
use crate::layout::index::Build;
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
        formula.rebuild(&mut Values { lowering: self, symbols })
    }
}

struct Values<'l, 'a, 's> {
    lowering: &'l mut Lowering<'a>,
    symbols: &'s [ValueId],
}

impl Build for Values<'_, '_, '_> {
    type Value = ValueId;

    fn symbol(&mut self, name: u32) -> ValueId {
        match self.symbols.get(name as usize) {
            Some(&value) => value,
            // A formula is made of the symbols it is given.
            None => self.lowering.int(0),
        }
    }

    fn constant(&mut self, value: u32) -> ValueId {
        self.lowering.int(i64::from(value))
    }

    fn binary(&mut self, operation: Operation, a: ValueId, b: ValueId) -> ValueId {
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
        self.lowering.binary(op, a, b)
    }
}
