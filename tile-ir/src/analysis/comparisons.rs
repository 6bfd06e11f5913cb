//! Comparisons that hold where an index is assigned: those of the conditionals and of the `while`s around it, as long as
//! nothing has changed what they compare since.

use crate::ir::parts::{mentions, set_within};
use crate::ir::{BinaryOp, BoundKernel, ExprId, ExprKind, StmtId, UnaryOp};

/// Comparisons kept for one place; a chain of more `else if`s than that loses the outermost.
const KEPT: usize = 16;

/// `left op right`, which holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub op: BinaryOp,
    pub left: ExprId,
    pub right: ExprId,
}

/// The comparisons that hold at a place of the kernel.
#[derive(Clone, Default)]
pub(super) struct Comparisons(Vec<Comparison>);

impl Comparisons {
    /// All of them, the outermost first.
    pub fn all(&self) -> &[Comparison] {
        &self.0
    }

    /// What holds in an arm of a conditional.
    pub fn within(&self, kernel: &BoundKernel, cond: ExprId, holds: bool) -> Comparisons {
        let mut inner = self.clone();
        inner.add(kernel, cond, holds);
        let surplus = inner.0.len().saturating_sub(KEPT);
        inner.0.drain(..surplus);
        inner
    }

    fn add(&mut self, kernel: &BoundKernel, cond: ExprId, holds: bool) {
        use BinaryOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        match kernel.exprs[cond].kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.add(kernel, inner, !holds),
            ExprKind::Binary(And, a, b) if holds => [a, b].into_iter().for_each(|c| self.add(kernel, c, true)),
            ExprKind::Binary(Or, a, b) if !holds => [a, b].into_iter().for_each(|c| self.add(kernel, c, false)),
            ExprKind::Binary(op, left, right) => {
                let op = match (op, holds) {
                    (Lt, true) | (Ge, false) => Lt,
                    (Le, true) | (Gt, false) => Le,
                    (Gt, true) | (Le, false) => Gt,
                    (Ge, true) | (Lt, false) => Ge,
                    (Eq, true) | (Ne, false) => Eq,
                    _ => return,
                };
                self.0.push(Comparison { op, left, right });
            }
            _ => {}
        }
    }

    /// Drops what a statement makes untrue, by giving variables other values. Nothing that holds mentions what it declares.
    pub fn after(&mut self, kernel: &BoundKernel, stmt: StmtId) {
        let set = set_within(kernel, stmt);
        if !set.is_empty() {
            self.0.retain(|c| ![c.left, c.right].into_iter().any(|side| mentions(kernel, side, &set)));
        }
    }
}
