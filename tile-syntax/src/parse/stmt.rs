//! Statements.

use super::access::strip;
use super::arg::gives_two;
use super::call::{function_name, unchained};
use super::expr::assigning_op;
use super::range::Range;
use super::types::{Slot, Ty};
use super::{Binding, Facts, Hoist, Parser};
use syn::{Attribute, Block, Expr, ItemFn, Local, Pat, Stmt};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{AccessId, ExprId, ExprKind, SpanId, StmtKind, Type, VarId, VarKind};

/// A name in a pattern.
pub(super) struct Name {
    /// None for `_`.
    pub(super) name: Option<String>,
    pub(super) mutable: bool,
    pub(super) span: SpanId,
}

impl Parser {
    /// Reads the function's body and checks that it says how it is launched.
    pub(super) fn body(&mut self, function: &ItemFn) {
        self.outside_body = false;
        self.hoist = Hoist::Allowed;
        self.block_statements(&function.block);
        self.kernel.body = std::mem::take(&mut self.block);
        let name = &function.sig.ident;
        // A body that was not read to its end may hold them where they were not found.
        if self.diagnostics.iter().any(|d| d.code == Code::SYNTAX) {
            return;
        }
        for (missing, what, help) in [
            (
                self.blocks_at.is_none() && self.persistent_at.is_none(),
                "blocks",
                "let [bx] = blocks([ceil_div(N, 128)]);",
            ),
            (self.threads_at.is_none(), "threads", "let [tx] = threads([128]);"),
        ] {
            if missing {
                let at = self.mark(name.span());
                let message = format!("kernel `{name}` does not say how many {what} it has");
                let help = format!("begin with `{help}`");
                self.error(Diagnostic::new(Code::PLACEMENT, at, message).help(help));
            }
        }
    }

    /// Reads a block's statements in a scope of their own.
    pub(super) fn block_statements(&mut self, block: &Block) {
        let names = self.scope.len();
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
        self.scope.truncate(names);
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        if self.depth >= super::expr::DEEPEST {
            return self.syntax(stmt, "this block is nested too deeply", "use fewer nested loops and conditionals");
        }
        self.depth += 1;
        match stmt {
            Stmt::Local(local) => self.local(local),
            Stmt::Expr(expr, _) => {
                self.leading_attributes(expr);
                self.expr_stmt(expr, Range::from(stmt));
            }
            Stmt::Item(item) => self.outside_item(item),
            Stmt::Macro(mac) => self.outside_macro(&mac.mac),
        }
        self.depth -= 1;
    }

    fn expr_stmt(&mut self, expr: &Expr, range: Range) {
        match expr {
            Expr::Paren(inner) => self.expr_stmt(&inner.expr, range),
            Expr::Group(inner) => self.expr_stmt(&inner.expr, range),
            Expr::Assign(assign) => {
                self.assign(&assign.left, &assign.right, range);
            }
            Expr::Binary(binary) if assigning_op(&binary.op).is_some() => {
                self.compound_assign(binary, range);
            }
            Expr::If(branch) => {
                self.if_stmt(branch);
            }
            Expr::ForLoop(each) => {
                self.for_loop(each);
            }
            Expr::While(other) if !matches!(&*other.cond, Expr::Let(_)) => {
                self.label(other.label.as_ref());
                self.while_loop(Some(&other.cond), &other.body, other.while_token.span);
            }
            Expr::While(other) => {
                self.outside(expr);
                self.nested("a loop", |p| p.block_statements(&other.body));
            }
            Expr::Loop(other) => {
                self.label(other.label.as_ref());
                self.while_loop(None, &other.body, other.loop_token.span);
            }
            Expr::Break(exit) => self.misplaced_break(exit),
            Expr::Block(block) if block.label.is_none() => {
                self.block_statements(&block.block);
            }
            Expr::Unsafe(block) => {
                self.outside(expr);
                self.block_statements(&block.block);
            }
            Expr::Call(call) => {
                self.call_stmt(call, range);
            }
            Expr::MethodCall(call) => {
                self.method_stmt(call, range);
            }
            // Any other expression has no effect of its own; what statements it is made into stay.
            other => {
                self.expr(other);
            }
        }
    }

    /// Reports a loop's label.
    pub(super) fn label(&mut self, label: Option<&syn::Label>) {
        if let Some(label) = label {
            self.syntax(label.name.ident.span(), "labels are not in the language", "remove it");
        }
    }

    /// The attributes of a statement, which Rust gives to the expression it begins with.
    fn leading_attributes(&mut self, expr: &Expr) {
        let (attributes, first) = match expr {
            Expr::Assign(e) => (&e.attrs, Some(&e.left)),
            Expr::Binary(e) => (&e.attrs, Some(&e.left)),
            Expr::Index(e) => (&e.attrs, Some(&e.expr)),
            Expr::Call(e) => (&e.attrs, Some(&e.func)),
            Expr::MethodCall(e) => (&e.attrs, Some(&e.receiver)),
            Expr::Path(e) => (&e.attrs, None),
            Expr::Unary(e) => (&e.attrs, None),
            Expr::If(e) => (&e.attrs, None),
            Expr::ForLoop(e) => (&e.attrs, None),
            Expr::Block(e) => (&e.attrs, None),
            _ => return,
        };
        self.attributes(attributes);
        if let Some(first) = first {
            self.leading_attributes(first);
        }
    }

    /// Attributes would be obeyed by rustc and not by the kernel.
    fn attributes(&mut self, attributes: &[Attribute]) {
        for attribute in attributes {
            let lints = ["allow", "expect", "warn", "deny", "doc", "rustfmt"];
            let first = attribute.path().segments.first().map(|s| s.ident.to_string()).unwrap_or_default();
            if !lints.contains(&first.as_str()) {
                let range = Range { first: attribute.pound_token.span, last: attribute.bracket_token.span.close() };
                let help = "use a bool const parameter and `if`";
                self.syntax(range, format!("attribute `{first}` is not in the language"), help);
            }
        }
    }

    fn local(&mut self, local: &Local) {
        self.attributes(&local.attrs);
        let (pattern, annotation) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let init = match &local.init {
            Some(init) if init.diverge.is_some() => {
                self.syntax(local.let_token.span, "`let .. else` is not in the language", "use `if`");
                return self.poison_pattern(pattern);
            }
            init => init.as_ref().map(|init| strip(&init.expr)),
        };
        let range = Range { first: local.let_token.span, last: local.semi_token.span };
        if let Some(Expr::Call(call)) = init
            && let Some(function) = function_name(&call.func)
        {
            match function.name.as_str() {
                "blocks" => return self.blocks(call, Some(pattern)),
                "threads" => return self.threads(call, Some(pattern)),
                name if gives_two(name) && self.lookup(name).is_none() => {
                    return self.arg_reduction(&function, call, pattern, range);
                }
                "alloc_shared" | "alloc_local" | "alloc_fragment" => {
                    return self.alloc(call, &function, pattern, &[], range);
                }
                _ => {}
            }
        }
        if let Some(Expr::MethodCall(method)) = init {
            let (base, methods) = unchained(method);
            if let Expr::Call(call) = base
                && let Some(function) = function_name(&call.func)
                && matches!(function.name.as_str(), "alloc_shared" | "alloc_local" | "alloc_fragment")
            {
                return self.alloc(call, &function, pattern, &methods, range);
            }
        }
        if let (Pat::Tuple(names), Some(Expr::Tuple(values)), None) = (pattern, init, annotation)
            && names.elems.len() == values.elems.len()
            && !names.elems.iter().any(|name| matches!(name, Pat::Rest(_)))
        {
            return self.let_values(names, values, range);
        }
        let Some(name) = self.simple_name(pattern) else {
            // What is taken apart is the same mistake as taking it apart.
            if let Some(init) = init.filter(|init| !matches!(init, Expr::Tuple(_) | Expr::Array(_) | Expr::Struct(_))) {
                self.expr(init);
            }
            return self.poison_pattern(pattern);
        };
        let ty = annotation.map(|ty| self.scalar_type(ty));
        if matches!(ty, Some(None)) {
            if let Some(init) = init {
                self.expr(init);
            }
            return self.poison_pattern(pattern);
        }
        let ty = ty.flatten().map(Ty::Is);
        self.let_value(name, ty, init, range);
    }

    /// `let (i, j) = (e, f);`: a `let` for each, whose names are bound when all values have been read.
    fn let_values(&mut self, names: &syn::PatTuple, values: &syn::ExprTuple, range: Range) {
        let outer = self.scope.len();
        let mut bound = Vec::new();
        for (pattern, value) in names.elems.iter().zip(&values.elems) {
            match self.simple_name(pattern) {
                Some(name) => self.let_value(name, None, Some(strip(value)), range),
                None => self.poison_pattern(pattern),
            }
            bound.extend(self.scope.drain(outer..));
        }
        self.scope.extend(bound);
    }

    fn let_value(&mut self, name: Name, ty: Option<Ty>, init: Option<&Expr>, range: Range) {
        let text = name.name.clone().unwrap_or_else(|| "_".to_owned());
        // Assigned later: `let x;`, and `let x = if ..` whose arms have statements.
        let later = match init {
            None => Some(None),
            Some(Expr::If(branch)) if self.plain_arms(branch).is_none() => Some(Some(branch)),
            Some(_) => None,
        };
        if let Some(branch) = later {
            let ty = ty.unwrap_or_else(|| self.fresh(Slot::Free));
            let var = self.variable(&text, ty, VarKind::Mut, Facts::VARIES, name.span);
            self.vars[var.as_u32() as usize].assignable = true;
            let span = self.mark(range);
            self.emit(StmtKind::Let { var, value: None }, span);
            let read = branch.is_none_or(|branch| self.if_into(branch, var).is_some());
            return self.bind_name(name, read.then_some(var));
        }
        let known = self.vars.len();
        let value = init.and_then(|init| self.expr(init));
        let value = value.filter(|&value| ty.is_none_or(|ty| self.demand(value, ty).is_some()));
        let Some(value) = value else { return self.bind_name(name, None) };
        let Some(text) = name.name.clone() else { return };
        // The result of a collective is the variable itself.
        if let ExprKind::Var(var) = self.kernel.exprs[value].kind
            && var.as_u32() as usize >= known
            && !name.mutable
            && self.kernel.vars[var].kind == VarKind::Let
        {
            self.kernel.vars[var].name = text;
            self.kernel.vars[var].span = name.span;
            return self.bind_name(name, Some(var));
        }
        let value_facts = self.facts(value);
        let (kind, facts) = match (name.mutable, value_facts) {
            (true, _) => (VarKind::Mut, Facts::VARIES),
            (false, facts) => (VarKind::Let, Facts { loads: false, varies: false, ..facts }),
        };
        let var = self.variable(&text, self.ty(value), kind, facts, name.span);
        let state = &mut self.vars[var.as_u32() as usize];
        state.assignable = name.mutable;
        state.value = (!name.mutable && value_facts.launch).then_some(value);
        let span = self.mark(range);
        self.emit(StmtKind::Let { var, value: Some(value) }, span);
        self.bind_name(name, Some(var));
    }

    fn bind_name(&mut self, name: Name, var: Option<VarId>) {
        if let Some(text) = name.name {
            self.bind(text, var.map_or(Binding::Poison, Binding::Var));
        }
    }

    /// A pattern that is a name or `_`; reports any other.
    pub(super) fn simple_name(&mut self, pattern: &Pat) -> Option<Name> {
        match pattern {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                let span = self.mark(pat.ident.span());
                Some(Name { name: Some(pat.ident.to_string()), mutable: pat.mutability.is_some(), span })
            }
            Pat::Wild(wild) => {
                let span = self.mark(wild.underscore_token.span);
                Some(Name { name: None, mutable: false, span })
            }
            Pat::Paren(inner) => self.simple_name(&inner.pat),
            Pat::Type(typed) => self.simple_name(&typed.pat),
            other => {
                use syn::spanned::Spanned;
                let help = "bind names: `let x = ..;`, `let (x, y) = (.., ..);`; arrays are taken apart for `blocks`, `threads` \
                            and `parallel` only";
                self.syntax(other.span(), "this pattern is not in the language", help);
                None
            }
        }
    }

    /// Binds every name of a pattern to poison.
    pub(super) fn poison_pattern(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Ident(pat) => {
                self.bind(pat.ident.to_string(), Binding::Poison);
                if let Some((_, inner)) = &pat.subpat {
                    self.poison_pattern(inner);
                }
            }
            Pat::Type(typed) => self.poison_pattern(&typed.pat),
            Pat::Paren(inner) => self.poison_pattern(&inner.pat),
            Pat::Reference(inner) => self.poison_pattern(&inner.pat),
            Pat::Slice(slice) => slice.elems.iter().for_each(|p| self.poison_pattern(p)),
            Pat::Tuple(tuple) => tuple.elems.iter().for_each(|p| self.poison_pattern(p)),
            Pat::TupleStruct(tuple) => tuple.elems.iter().for_each(|p| self.poison_pattern(p)),
            Pat::Struct(fields) => fields.fields.iter().for_each(|f| self.poison_pattern(&f.pat)),
            _ => {}
        }
    }

    fn assign(&mut self, left: &Expr, right: &Expr, range: Range) {
        if matches!(left, Expr::Infer(_)) {
            self.expr(right);
            return;
        }
        let Some(name) = variable_name(left) else {
            let value = self.expr(right);
            let (access, value) = self.place_after(left, value);
            if let (Some(access), Some(value)) = (access, value) {
                self.check_writable_access(access, left);
                let dtype = self.kernel.place_dtype(self.kernel.accesses[access].place);
                if self.demand(value, Type::Value(dtype)).is_some() {
                    let span = self.mark(range);
                    self.emit(StmtKind::Store { access, value }, span);
                }
            }
            return;
        };
        if let (Expr::If(branch), Some(Binding::Var(var))) = (strip(right), self.lookup(&name))
            && self.plain_arms(branch).is_none()
        {
            if self.assignable(&name, left).is_some() {
                self.if_into(branch, var);
            }
            return;
        }
        let value = self.expr(right);
        let var = self.assignable(&name, left);
        if let (Some(value), Some(var)) = (value, var) {
            self.assign_value(var, value, range);
        }
    }

    /// Reads the place of a store whose value is already read: in Rust the value comes first.
    pub(super) fn place_after(&mut self, place: &Expr, value: Option<ExprId>) -> (Option<AccessId>, Option<ExprId>) {
        let from = self.block.len();
        let access = self.element_place(place);
        let mut value = [value];
        self.spill(&mut value, from);
        (access, value[0])
    }

    fn check_writable_access(&mut self, access: AccessId, expr: &Expr) {
        // `masked_mut` has checked its own.
        if !self.kernel.accesses[access].masked {
            self.check_writable(self.kernel.accesses[access].place, expr);
        }
    }

    fn assign_value(&mut self, var: VarId, value: ExprId, range: Range) -> Option<()> {
        let ty = self.vars[var.as_u32() as usize].ty;
        self.demand(value, ty)?;
        let span = self.mark(range);
        self.emit(StmtKind::Assign { var, value }, span);
        Some(())
    }

    /// The variable of this name, if it may be assigned: rustc reports where it may not.
    fn assignable(&mut self, name: &str, expr: &Expr) -> Option<VarId> {
        let message = match self.lookup(name) {
            Some(Binding::Var(var)) if self.vars[var.as_u32() as usize].assignable => return Some(var),
            Some(Binding::Poison) => return None,
            Some(
                Binding::Tensor(_)
                | Binding::Row(_)
                | Binding::Optional(_)
                | Binding::Buffer(_)
                | Binding::Borrowed(..),
            ) => {
                let message = format!("`{name}` as a whole cannot be assigned");
                self.syntax(expr, message, "assign elements, or use `copy`, `fill`, `clear`");
                return None;
            }
            Some(_) => format!("`{name}` cannot be assigned: it is not `let mut`"),
            None => format!("`{name}` is no variable of `{}`", self.kernel.name),
        };
        let at = self.mark(expr);
        self.rustc(Diagnostic::new(Code::TYPE, at, message).help(format!("declare it `let mut {name} = ..;`")));
        None
    }

    /// `lhs op= rhs`: the right side is read first, as the shadow does.
    fn compound_assign(&mut self, binary: &syn::ExprBinary, range: Range) {
        let Some(op) = assigning_op(&binary.op) else { return };
        let value = self.expr(&binary.right);
        let span = self.mark(range);
        if let Some(name) = variable_name(&binary.left) {
            if let (Some(var), Some(value)) = (self.assignable(&name, &binary.left), value) {
                let current = self.mark(&*binary.left);
                let current = self.var(var, current);
                if let Some(sum) = self.combine_values(op, current, value, span) {
                    self.assign_value(var, sum, range);
                }
            }
            return;
        }
        let (Some(access), Some(value)) = self.place_after(&binary.left, value) else { return };
        self.check_writable_access(access, &binary.left);
        // The load is an access of its own, so that what is known of one is not taken for the other.
        let own = self.kernel.accesses[access].clone();
        let own = self.kernel.accesses.push(own);
        let current = self.load(own);
        if let Some(value) = self.combine_values(op, current, value, span) {
            self.emit(StmtKind::Store { access, value }, span);
        }
    }

    fn call_stmt(&mut self, call: &syn::ExprCall, range: Range) {
        if let Some(function) = function_name(&call.func) {
            match function.name.as_str() {
                "blocks" => return self.blocks(call, None),
                "threads" => return self.threads(call, None),
                "cluster" => return self.cluster(call),
                "use_swizzle" => return self.use_swizzle(call),
                _ => {}
            }
        }
        self.call(call, false, range);
    }
}

/// The name on the left of an assignment to a variable.
fn variable_name(expr: &Expr) -> Option<String> {
    match strip(expr) {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}
