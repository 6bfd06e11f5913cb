//! `if`, as a statement and as a value, and blocks as values.

use super::access::strip;
use super::expr::{LONGEST, binary_op};
use super::range::Range;
use super::types::Slot;
use super::{Binding, Facts, Parser};
use syn::{Block, Expr, Pat, Stmt};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{ExprId, ExprKind, ParamId, StmtKind, Type, VarId, VarKind};

impl Parser {
    /// `if .. {} else if .. {} else {}`: every `else if` stands in the `else` of the one before. Read without recursion,
    /// since a chain is as deep as it is long.
    pub(super) fn if_stmt(&mut self, branch: &syn::ExprIf) {
        let mut open = vec![];
        let mut branch = branch;
        loop {
            let cond = self.condition(&branch.cond);
            let names = self.scope.len();
            if let Expr::Let(binding) = &*branch.cond {
                self.bind_present(binding);
            }
            let then = self.nested("an `if`", |p| p.block_statements(&branch.then_branch));
            self.scope.truncate(names);
            let outer = self.enter("an `if`");
            open.push((cond, then, branch.if_token.span, outer));
            match branch.else_branch.as_ref().map(|(_, otherwise)| &**otherwise) {
                Some(Expr::If(nested)) if self.chain(nested) => {
                    branch = nested;
                    continue;
                }
                Some(Expr::Block(block)) => self.block_statements(&block.block),
                _ => {}
            }
            break;
        }
        self.chained -= open.len() as u32 - 1;
        while let Some((cond, then, at, outer)) = open.pop() {
            let otherwise = self.leave(outer);
            if let Some(cond) = cond {
                let span = self.mark(at);
                self.emit(StmtKind::If { cond, then, otherwise }, span);
            }
        }
    }

    /// `if c { a } else { b }` as a value: one expression where its arms are expressions, else a variable that each
    /// arm assigns.
    pub(super) fn if_value(&mut self, branch: &syn::ExprIf) -> Option<ExprId> {
        if self.plain_arms(branch).is_some() {
            return self.plain_if(branch);
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

    /// One link more of a chain of `else if`s; reports one too many.
    fn chain(&mut self, next: &syn::ExprIf) -> bool {
        let fits = self.depth + self.chained < LONGEST;
        if fits {
            self.chained += 1;
        } else {
            self.syntax(next.if_token.span, "too many `else if`s", "split them up");
        }
        fits
    }

    /// An `if` whose arms are expressions, with its `else if`s.
    fn plain_if(&mut self, branch: &syn::ExprIf) -> Option<ExprId> {
        const PLACE: &str = "an arm of `if`, which is not always evaluated";
        let mut open = vec![];
        let mut branch = branch;
        let last = loop {
            let (then, otherwise) = self.plain_arms(branch)?;
            let read = |p: &mut Self| p.condition(&branch.cond);
            let cond = if open.is_empty() { read(self) } else { self.in_place(PLACE, read) };
            let then = self.in_place(PLACE, |p| {
                let names = p.scope.len();
                if let Expr::Let(binding) = &*branch.cond {
                    p.bind_present(binding);
                }
                let then = p.expr(then);
                p.scope.truncate(names);
                then
            });
            open.push((cond, then, branch.if_token.span));
            match otherwise {
                Expr::If(nested) => match self.chain(nested) {
                    true => branch = nested,
                    false => break None,
                },
                last => break Some(last),
            }
        };
        let mut value = last.and_then(|last| self.in_place(PLACE, |p| p.expr(last)));
        self.chained -= open.len() as u32 - 1;
        for (cond, then, at) in open.into_iter().rev() {
            let (Some(cond), Some(then), Some(otherwise)) = (cond, then, value) else {
                value = None;
                continue;
            };
            value = self.same_type(self.ty(otherwise), self.ty(then), self.kernel.exprs[otherwise].span).map(|()| {
                let facts = self.facts(cond).and(self.facts(then)).and(self.facts(otherwise));
                let span = self.mark(at);
                self.push(ExprKind::If(cond, then, otherwise), self.ty(then), facts, span)
            });
        }
        value
    }

    /// `var = if .. { statements; value } else { .. }`.
    pub(super) fn if_into(&mut self, branch: &syn::ExprIf, var: VarId) -> Option<()> {
        let mut open = vec![];
        let mut branch = branch;
        let mut read = Some(());
        loop {
            let cond = self.condition(&branch.cond);
            read = read.and(cond.map(|_| ()));
            let then = self.nested("an `if`", |p| {
                if let Expr::Let(binding) = &*branch.cond {
                    p.bind_present(binding);
                }
                let value = p.arm_into(&branch.then_branch, var);
                read = read.and(value);
            });
            let outer = self.enter("an `if`");
            open.push((cond, then, branch.if_token.span, outer));
            let value = match branch.else_branch.as_ref().map(|(_, otherwise)| &**otherwise) {
                Some(Expr::If(nested)) => {
                    if self.chain(nested) {
                        branch = nested;
                        continue;
                    }
                    None
                }
                Some(Expr::Block(block)) => self.arm_into(&block.block, var),
                _ => {
                    let at = self.mark(branch.if_token.span);
                    self.rustc(Diagnostic::new(Code::TYPE, at, "this `if` gives no value where it does not hold"));
                    None
                }
            };
            read = read.and(value);
            break;
        }
        self.chained -= open.len() as u32 - 1;
        while let Some((cond, then, at, outer)) = open.pop() {
            let otherwise = self.leave(outer);
            let span = self.mark(at);
            if let Some(cond) = cond {
                self.emit(StmtKind::If { cond, then, otherwise }, span);
            }
        }
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
        let mut rest = &**otherwise;
        while let Expr::If(nested) = rest {
            if !arm(&nested.then_branch.stmts) {
                return None;
            }
            rest = &nested.else_branch.as_ref()?.1;
        }
        match rest {
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
