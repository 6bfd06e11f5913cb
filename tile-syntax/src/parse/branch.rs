//! `if`, as a statement and as a value, and blocks as values.

use super::access::strip;
use super::expr::{DEEPEST, binary_op};
use super::range::Range;
use super::types::Slot;
use super::{Binding, Facts, Parser};
use syn::{Block, Expr, Pat, Stmt};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{ExprId, ExprKind, ParamId, StmtKind, Type, VarId, VarKind};

impl Parser {
    pub(super) fn if_stmt(&mut self, branch: &syn::ExprIf) {
        let cond = self.condition(&branch.cond);
        let names = self.scope.len();
        if let Expr::Let(binding) = &*branch.cond {
            self.bind_present(binding);
        }
        let then = self.nested("an `if`", |p| p.block_statements(&branch.then_branch));
        self.scope.truncate(names);
        let otherwise = match &branch.else_branch {
            None => vec![],
            Some((_, otherwise)) => self.nested("an `if`", |p| match &**otherwise {
                Expr::If(nested) => {
                    p.depth += 1;
                    if p.depth >= DEEPEST {
                        p.syntax(nested.if_token.span, "too many `else if`s", "split them up");
                    } else {
                        p.if_stmt(nested);
                    }
                    p.depth -= 1;
                }
                Expr::Block(block) => p.block_statements(&block.block),
                _ => {}
            }),
        };
        if let Some(cond) = cond {
            let span = self.mark(branch.if_token.span);
            self.emit(StmtKind::If { cond, then, otherwise }, span);
        }
    }

    /// `if c { a } else { b }` as a value: one expression where its arms are expressions, else a variable that each
    /// arm assigns.
    pub(super) fn if_value(&mut self, branch: &syn::ExprIf) -> Option<ExprId> {
        if let Some((then, otherwise)) = self.plain_arms(branch) {
            let cond = self.condition(&branch.cond);
            let (then, otherwise) = self.in_place("an arm of `if`, which is not always evaluated", |p| {
                let names = p.scope.len();
                if let Expr::Let(binding) = &*branch.cond {
                    p.bind_present(binding);
                }
                let then = p.expr(then);
                p.scope.truncate(names);
                (then, p.expr(otherwise))
            });
            let (cond, then, otherwise) = (cond?, then?, otherwise?);
            self.same_type(self.ty(otherwise), self.ty(then), self.kernel.exprs[otherwise].span)?;
            let facts = self.facts(cond).and(self.facts(then)).and(self.facts(otherwise));
            let span = self.mark(branch.if_token.span);
            return Some(self.push(ExprKind::If(cond, then, otherwise), self.ty(then), facts, span));
        }
        if !self.may_hoist(branch.if_token.span, "an `if` with statements in its arms") {
            return None;
        }
        let span = self.mark(branch.if_token.span);
        let ty = self.fresh(Slot::Free);
        let var = self.temporary(ty, span);
        self.kernel.vars[var].kind = VarKind::Mut;
        self.vars[var.as_u32() as usize].facts = Facts::VARIES;
        self.emit(StmtKind::Let { var, value: None }, span);
        self.if_into(branch, var)?;
        Some(self.var(var, span))
    }

    /// `var = if .. { statements; value } else { .. }`.
    pub(super) fn if_into(&mut self, branch: &syn::ExprIf, var: VarId) -> Option<()> {
        let cond = self.condition(&branch.cond);
        let mut read = cond.map(|_| ());
        let then = self.nested("an `if`", |p| {
            if let Expr::Let(binding) = &*branch.cond {
                p.bind_present(binding);
            }
            let value = p.arm_into(&branch.then_branch, var);
            read = read.and(value);
        });
        let otherwise = self.nested("an `if`", |p| {
            p.depth += 1;
            let value = match branch.else_branch.as_ref().map(|(_, otherwise)| &**otherwise) {
                _ if p.depth >= DEEPEST => {
                    p.syntax(branch.if_token.span, "too many `else if`s", "split them up");
                    None
                }
                Some(Expr::If(nested)) => p.if_into(nested, var),
                Some(Expr::Block(block)) => p.arm_into(&block.block, var),
                _ => {
                    let at = p.mark(branch.if_token.span);
                    p.rustc(Diagnostic::new(Code::TYPE, at, "this `if` gives no value where it does not hold"));
                    None
                }
            };
            p.depth -= 1;
            read = read.and(value);
        });
        let span = self.mark(branch.if_token.span);
        self.emit(StmtKind::If { cond: cond?, then, otherwise }, span);
        read
    }

    fn arm_into(&mut self, block: &Block, var: VarId) -> Option<()> {
        if let Some((Stmt::Expr(Expr::If(nested), None), statements)) = block.stmts.split_last()
            && self.plain_arms(nested).is_none()
        {
            statements.iter().for_each(|stmt| self.stmt(stmt));
            return self.if_into(nested, var);
        }
        let value = self.statements_then_value(block)?;
        let span = self.kernel.exprs[value].span;
        let ty = self.vars[var.as_u32() as usize].ty;
        self.demand(value, ty)?;
        self.emit(StmtKind::Assign { var, value }, span);
        Some(())
    }

    /// `let Some(b) = bias` as a condition: whether the launch has the tensor.
    fn present(&mut self, binding: &syn::ExprLet) -> Option<ExprId> {
        let help = "the only `if let` is `if let Some(b) = bias`, of an optional tensor parameter";
        let Some(param) = self.optional_of(&binding.expr) else {
            let known = matches!(strip(&binding.expr), Expr::Path(path)
                if path.path.get_ident().is_some_and(|n| matches!(self.lookup(&n.to_string()), Some(Binding::Poison))));
            if !known {
                self.syntax(binding.let_token.span, "`if let` of this is not in the language", help);
            }
            return None;
        };
        if some_pattern(&binding.pat).is_none() {
            self.syntax(binding.let_token.span, "this `if let` is not in the language", help);
            return None;
        }
        let span = self.mark(Range { first: binding.let_token.span, last: Range::from(&*binding.expr).last });
        Some(self.push(ExprKind::Present(param), Type::BOOL, Facts::LAUNCH, span))
    }

    /// Binds what an `if let` names.
    fn bind_present(&mut self, binding: &syn::ExprLet) {
        match (self.optional_of(&binding.expr), some_pattern(&binding.pat)) {
            (Some(param), Some(Pat::Ident(name))) if name.mutability.is_none() => {
                self.bind(name.ident.to_string(), Binding::Tensor(param));
            }
            (Some(_), Some(Pat::Wild(_))) => {}
            _ => self.poison_pattern(&binding.pat),
        }
    }

    fn optional_of(&self, expr: &Expr) -> Option<ParamId> {
        let Expr::Path(path) = strip(expr) else { return None };
        match self.lookup(&path.path.get_ident()?.to_string()) {
            Some(Binding::Optional(param)) => Some(param),
            _ => None,
        }
    }

    /// The condition of an `if`.
    pub(super) fn condition(&mut self, cond: &Expr) -> Option<ExprId> {
        if let Expr::Let(binding) = cond {
            return self.present(binding);
        }
        let cond = self.expr(cond)?;
        self.demand(cond, Type::BOOL)
    }

    /// `{ statements; value }` as a value.
    pub(super) fn block_value(&mut self, block: &syn::ExprBlock) -> Option<ExprId> {
        if let Some(label) = &block.label {
            self.syntax(label.name.ident.span(), "labels are not in the language", "remove it");
            return None;
        }
        if let [syn::Stmt::Expr(value, None)] = block.block.stmts.as_slice() {
            return self.expr(value);
        }
        if !self.may_hoist(block.block.brace_token.span, "a block with statements") {
            return None;
        }
        let names = self.scope.len();
        let value = self.statements_then_value(&block.block);
        self.scope.truncate(names);
        value
    }

    /// Reads a block's statements into the current list and its last expression as its value.
    pub(super) fn statements_then_value(&mut self, block: &syn::Block) -> Option<ExprId> {
        match block.stmts.split_last() {
            Some((syn::Stmt::Expr(value, None), statements)) => {
                statements.iter().for_each(|stmt| self.stmt(stmt));
                self.expr(value)
            }
            _ => {
                block.stmts.iter().for_each(|stmt| self.stmt(stmt));
                let span = self.mark(block.brace_token.span);
                self.rustc(Diagnostic::new(Code::TYPE, span, "this block gives no value"));
                None
            }
        }
    }
}

/// The name in `Some(name)`.
fn some_pattern(pattern: &Pat) -> Option<&Pat> {
    match pattern {
        Pat::TupleStruct(tuple) if tuple.path.is_ident("Some") && tuple.elems.len() == 1 => {
            tuple.elems.first().filter(|inner| matches!(inner, Pat::Ident(_) | Pat::Wild(_)))
        }
        _ => None,
    }
}

impl Parser {
    /// The values of an `if` whose arms are single expressions, `else if` included.
    pub(super) fn plain_arms<'a>(&self, branch: &'a syn::ExprIf) -> Option<(&'a Expr, &'a Expr)> {
        let arm = |stmts: &'_ [syn::Stmt]| matches!(stmts, [syn::Stmt::Expr(value, None)] if self.is_plain(value));
        let [syn::Stmt::Expr(then, None)] = branch.then_branch.stmts.as_slice() else { return None };
        let (_, otherwise) = branch.else_branch.as_ref()?;
        if !self.is_plain(then) {
            return None;
        }
        match &**otherwise {
            Expr::If(nested) => self.plain_arms(nested).map(|_| (then, &**otherwise)),
            Expr::Block(block) if arm(&block.block.stmts) => Some((then, &**otherwise)),
            _ => None,
        }
    }

    fn is_plain(&self, expr: &Expr) -> bool {
        match expr {
            Expr::If(branch) => self.plain_arms(branch).is_some(),
            Expr::Block(block) => {
                matches!(block.block.stmts.as_slice(), [syn::Stmt::Expr(value, None)] if self.is_plain(value))
            }
            Expr::Paren(inner) => self.is_plain(&inner.expr),
            Expr::Assign(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => false,
            Expr::Binary(binary) => binary_op(&binary.op).is_some(),
            // Its statements are the arm's.
            Expr::Call(call) => !self.has_statements(call),
            _ => true,
        }
    }
}
