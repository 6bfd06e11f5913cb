//! Loops that end early: `while c { .. }`, `loop { .. }`, `if c { break; }`.
//!
//! In the IR a loop is left by giving its index the last value of its range, after which nothing of the iteration follows. So
//! what stands behind `if c { break; }` is read into the other arm, and a `while` is a loop over the longest range, whose body is
//! an `if` of its condition.

use super::range::Range;
use super::{Facts, Parser};
use proc_macro2::Span;
use syn::{Block, Expr, ExprIf, Stmt};
use tile_ir::ir::{BinaryOp, ExprId, ExprKind, LoopKind, StmtKind, Type, VarId, VarKind};

/// A loop that may be left: its index, and the end of its range.
#[derive(Clone, Copy)]
pub(super) struct Leave {
    var: VarId,
    end: ExprId,
}

const HELP: &str =
    "it ends an arm of an `if` of the loop's own body, `if done { break; }`, of a `while`, a `loop` or a serial `for`";

impl Parser {
    /// `while c { .. }`, and `loop { .. }` without a condition: at most 2^31 - 1 iterations.
    pub(super) fn while_loop(&mut self, cond: Option<&Expr>, body: &Block, at: Span) {
        let span = self.mark(at);
        let most = self.push(ExprKind::Int(i64::from(i32::MAX)), Type::Index, Facts::CONSTANT, span);
        let [start, step] = [0, 1].map(|value| self.push(ExprKind::Int(value), Type::Index, Facts::CONSTANT, span));
        let var = self.variable("turn", Type::Index, VarKind::Loop, Facts::FIXED, span);
        let leave = Leave { var, end: most };
        let body = self.nested("a loop", |p| {
            let Some(cond) = cond else { return p.leaving(Some(leave), |p| p.leaving_block(body)) };
            let cond = p.condition(cond);
            let then = p.nested("a loop", |p| p.leaving(Some(leave), |p| p.leaving_block(body)));
            let otherwise = p.nested("a loop", |p| p.leave_loop(leave, at));
            if let Some(cond) = cond {
                p.emit(StmtKind::If { cond, then, otherwise }, span);
            }
        });
        let kind = LoopKind::Serial { unroll: None };
        self.emit(StmtKind::For { var, start, end: most, step, kind, body }, span);
    }

    /// The end of a loop's range, kept in a variable where it may change before the loop is left.
    pub(super) fn kept_end(&mut self, end: ExprId) -> ExprId {
        let facts = self.facts(end);
        if !facts.loads && !facts.varies {
            return end;
        }
        let span = self.kernel.exprs[end].span;
        let var = self.temporary(self.ty(end), span);
        self.emit(StmtKind::Let { var, value: Some(end) }, span);
        self.var(var, span)
    }

    /// A loop that is left by `break`.
    pub(super) fn left_at(var: VarId, end: ExprId) -> Leave {
        Leave { var, end }
    }

    /// Reads a loop's body: `leave` where `break` leaves it.
    pub(super) fn leaving<R>(&mut self, leave: Option<Leave>, read: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.leave, leave);
        let result = read(self);
        self.leave = outer;
        result
    }

    /// The statements of a loop's body, with their `break`s.
    pub(super) fn leaving_block(&mut self, block: &Block) {
        let names = self.scope.len();
        self.leaving_statements(&block.stmts.iter().collect::<Vec<_>>());
        self.scope.truncate(names);
    }

    fn leaving_statements(&mut self, stmts: &[&Stmt]) {
        for (at, stmt) in stmts.iter().enumerate() {
            match stmt {
                Stmt::Expr(Expr::If(branch), _) if self.leave.is_some() && ends_in_break(branch) => {
                    return self.leaving_if(branch, &stmts[at + 1..]);
                }
                Stmt::Expr(Expr::Break(exit), _) if at + 1 == stmts.len() && is_plain(exit) => {
                    match self.leave {
                        Some(leave) => self.leave_loop(leave, exit.break_token.span),
                        None => self.misplaced_break(exit),
                    }
                    return;
                }
                stmt => self.stmt(stmt),
            }
        }
    }

    /// `if c { ..; break; } rest`: the rest stands in the arm that does not leave.
    fn leaving_if(&mut self, branch: &ExprIf, rest: &[&Stmt]) {
        if self.depth >= super::expr::DEEPEST {
            return self.syntax(branch.if_token.span, "this block is nested too deeply", "split it up");
        }
        self.depth += 1;
        let cond = self.condition(&branch.cond);
        let arm = |p: &mut Self, block: &Block| {
            let own: Vec<&Stmt> = block.stmts.iter().collect();
            p.nested("an `if`", |p| {
                if breaks(block) {
                    p.leaving_statements(&own);
                } else {
                    p.leaving(None, |p| p.block_statements(block));
                    p.leaving_statements(rest);
                }
            })
        };
        let then = arm(self, &branch.then_branch);
        let otherwise = match branch.else_branch.as_ref().map(|(_, otherwise)| &**otherwise) {
            Some(Expr::Block(block)) => arm(self, &block.block),
            Some(next @ Expr::If(_)) => {
                let next = Stmt::Expr(next.clone(), None);
                let all: Vec<&Stmt> = std::iter::once(&next).chain(rest.iter().copied()).collect();
                self.nested("an `if`", |p| p.leaving_statements(&all))
            }
            _ => self.nested("an `if`", |p| p.leaving_statements(rest)),
        };
        self.depth -= 1;
        if let Some(cond) = cond {
            let span = self.mark(branch.if_token.span);
            self.emit(StmtKind::If { cond, then, otherwise }, span);
        }
    }

    fn leave_loop(&mut self, leave: Leave, at: Span) {
        let span = self.mark(at);
        let one = self.push(ExprKind::Int(1), Type::Index, Facts::CONSTANT, span);
        let facts = self.facts(leave.end);
        let value = self.push(ExprKind::Binary(BinaryOp::Sub, leave.end, one), Type::Index, facts, span);
        self.emit(StmtKind::Assign { var: leave.var, value }, span);
    }

    /// A `break` that stands somewhere else.
    pub(super) fn misplaced_break(&mut self, exit: &syn::ExprBreak) {
        let range = Range::from(exit.break_token.span);
        let message = if is_plain(exit) {
            "`break` stands where it leaves no loop of the language"
        } else {
            "`break` with a label or a value is not in the language"
        };
        self.syntax(range, message, HELP);
    }
}

fn is_plain(exit: &syn::ExprBreak) -> bool {
    exit.label.is_none() && exit.expr.is_none()
}

/// Whether a block's last statement is `break`.
fn breaks(block: &Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(Expr::Break(exit), _)) if is_plain(exit))
}

/// Whether an arm of an `if`, or of an `else if` of it, ends in `break`.
fn ends_in_break(branch: &ExprIf) -> bool {
    let mut branch = branch;
    loop {
        if matches!(&*branch.cond, Expr::Let(_)) {
            return false;
        }
        if breaks(&branch.then_branch) {
            return true;
        }
        match branch.else_branch.as_ref().map(|(_, otherwise)| &**otherwise) {
            Some(Expr::If(next)) => branch = next,
            Some(Expr::Block(block)) => return breaks(&block.block),
            _ => return false,
        }
    }
}

/// Whether a loop's body has a `break` of this loop among its own statements.
pub(super) fn is_left(body: &Block) -> bool {
    body.stmts.iter().any(|stmt| match stmt {
        Stmt::Expr(Expr::If(branch), _) => ends_in_break(branch),
        Stmt::Expr(Expr::Break(_), _) => true,
        _ => false,
    })
}
