//! Reductions that tell where the greatest or least value is: `let (best, at) = thread_argmax(v, i, tk);`.
//!
//! An arg-reduction is lowered to two reductions: the values are combined by `Max` or `Min`, and of the threads whose value equals
//! the result, the indices by `Min`. So every executor agrees on both, the least index wins a tie, and a NaN, which equals
//! nothing, never wins. A butterfly over pairs would exchange as many values.

use super::call::Function;
use super::range::Range;
use super::stmt::Name;
use super::{Binding, Facts, Parser};
use syn::{ExprCall, Pat};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{BinaryOp, Dtype, ExprId, ExprKind, ReduceOp, ReduceSource, SpanId, StmtKind, Type, VarId, VarKind};

/// The reduction that a function's name stands for: its operator, and whether it is over a thread axis.
fn operator(name: &str) -> Option<(ReduceOp, bool)> {
    Some(match name {
        "thread_argmax" => (ReduceOp::Max, true),
        "thread_argmin" => (ReduceOp::Min, true),
        "warp_argmax" => (ReduceOp::Max, false),
        "warp_argmin" => (ReduceOp::Min, false),
        _ => return None,
    })
}

/// Whether a function gives a value and its index.
pub(super) fn gives_two(name: &str) -> bool {
    operator(name).is_some()
}

impl Parser {
    /// `let (best, at) = thread_argmax(v, i, tk);`.
    pub(super) fn arg_reduction(&mut self, function: &Function<'_>, call: &ExprCall, pattern: &Pat, range: Range) {
        let names = match pattern {
            Pat::Tuple(tuple) if tuple.elems.len() == 2 => {
                [&tuple.elems[0], &tuple.elems[1]].map(|pattern| self.simple_name(pattern))
            }
            Pat::Tuple(_) => {
                let at = self.mark(call.paren_token.span);
                let message = format!("`{}` gives two values", function.name);
                self.rustc(Diagnostic::new(Code::TYPE, at, message));
                return self.poison_pattern(pattern);
            }
            _ => {
                self.two_values(function, range);
                return self.poison_pattern(pattern);
            }
        };
        let [Some(best_name), Some(at_name)] = names else { return self.poison_pattern(pattern) };
        let results = self.arg_values(function, call, range);
        let [best, at] = results.map_or([None, None], |results| results.map(Some));
        self.bind_result(best_name, best, range);
        self.bind_result(at_name, at, range);
    }

    /// A call that stands where one value is wanted.
    pub(super) fn two_values(&mut self, function: &Function<'_>, range: Range) {
        let at = self.mark(range);
        let message = format!("`{}` gives two values, the value and its index", function.name);
        let axis = if function.name.starts_with("thread") { ", tk" } else { "" };
        let help = format!("bind both by a `let` of their own: `let (best, at) = {}(v, i{axis});`", function.name);
        self.unsupported(Diagnostic::new(Code::PLACEMENT, at, message).help(help));
    }

    fn arg_values(&mut self, function: &Function<'_>, call: &ExprCall, range: Range) -> Option<[VarId; 2]> {
        let (op, by_axis) = operator(&function.name)?;
        if !self.arity(function, call, if by_axis { 3 } else { 2 }) {
            return None;
        }
        let operands = self.operands(&[&call.args[0], &call.args[1]]);
        let axis = if by_axis { self.thread_axis(function, &call.args[2]).map(Some) } else { Some(None) };
        let (operands, axis) = (operands?, axis?);
        self.numeric(operands[0], "a reduction")?;
        self.demand(operands[1], Type::from(Dtype::U32))?;
        let span = self.mark(range);
        // Both are read before the threads meet.
        let [value, index] = [operands[0], operands[1]].map(|operand| self.named(operand, span));
        let best = self.temporary(self.ty(value), span);
        self.emit(StmtKind::Reduce { op, src: ReduceSource::Value(value), dst: Some(best), axis }, span);
        let greatest = self.var(best, span);
        let wins = self.combine_values(BinaryOp::Eq, value, greatest, span)?;
        let none = self.push(ExprKind::Int(i64::from(u32::MAX)), Type::from(Dtype::U32), Facts::CONSTANT, span);
        let facts = self.facts(index);
        let candidate = self.push(ExprKind::Select(wins, index, none), Type::from(Dtype::U32), facts, span);
        let at = self.temporary(Type::from(Dtype::U32), span);
        let src = ReduceSource::Value(candidate);
        self.emit(StmtKind::Reduce { op: ReduceOp::Min, src, dst: Some(at), axis }, span);
        Some([best, at])
    }

    /// The value as a variable, unless it is one or a literal.
    fn named(&mut self, value: ExprId, span: SpanId) -> ExprId {
        if matches!(self.kernel.exprs[value].kind, ExprKind::Int(_) | ExprKind::Float(_)) {
            return value;
        }
        if let ExprKind::Var(var) = self.kernel.exprs[value].kind
            && self.kernel.vars[var].kind != VarKind::Mut
        {
            return value;
        }
        let var = self.temporary(self.ty(value), span);
        self.emit(StmtKind::Let { var, value: Some(value) }, span);
        self.var(var, span)
    }

    /// Gives a result the author's name.
    fn bind_result(&mut self, name: Name, result: Option<VarId>, range: Range) {
        let Some(text) = name.name else { return };
        let Some(result) = result else { return self.bind(text, Binding::Poison) };
        if !name.mutable {
            self.kernel.vars[result].name.clone_from(&text);
            self.kernel.vars[result].span = name.span;
            return self.bind(text, Binding::Var(result));
        }
        let span = self.mark(range);
        let value = self.var(result, span);
        let var = self.variable(&text, self.ty(value), VarKind::Mut, Facts::VARIES, name.span);
        self.vars[var.as_u32() as usize].assignable = true;
        self.emit(StmtKind::Let { var, value: Some(value) }, span);
        self.bind(text, Binding::Var(var));
    }
}
