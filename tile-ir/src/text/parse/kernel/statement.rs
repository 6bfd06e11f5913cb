//! Statements.

use super::{Named, Parser};
use crate::ir::*;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;

/// An `if` or `else if` that has been read: where it stands, its condition and what it guards.
struct Arm {
    span: SpanId,
    cond: ExprId,
    then: Vec<StmtId>,
}

impl<'t> Parser<'t> {
    /// The kernel's own statements, in braces.
    pub(super) fn body(&mut self) -> Parsed<Vec<StmtId>> {
        self.cursor.expect("{")?;
        let mut body = Vec::new();
        while !self.cursor.eat("}") {
            if !self.launch()? {
                body.push(self.statement()?);
            }
        }
        Ok(body)
    }

    /// What describes the launch: `let [..] = blocks([..]);`, `threads`, `cluster`, `use_swizzle`. Whether there is such a thing.
    fn launch(&mut self) -> Parsed<bool> {
        let place = self.cursor.place();
        if self.cursor.is_word("let") && self.cursor.is_at(1, "[") {
            self.cursor.next();
            let names = self.new_names()?;
            self.cursor.expect("=")?;
            let is_grid = self.one_of("the axes of a launch", &[("blocks", true), ("threads", false)])?;
            self.cursor.expect("(")?;
            let extents = self.indices()?;
            self.cursor.expect(")")?;
            if names.len() != extents.len() {
                let message = format!("{} names for {} extents", names.len(), extents.len());
                return Err(self.cursor.error_at(place, message));
            }
            for (at, ((place, name), extent)) in (0u8..).zip(names.into_iter().zip(extents)) {
                let kind = if is_grid { VarKind::Block(at) } else { VarKind::Thread(at) };
                let var = self.declare(place, name, Type::Index, kind);
                let axis = Axis { var, extent, span: self.kernel.exprs[extent].span };
                if is_grid { self.kernel.grid.push(axis) } else { self.kernel.threads.push(axis) }
            }
        } else if self.cursor.is_word("cluster") && self.cursor.is_at(1, "(") {
            self.cursor.next();
            self.cursor.expect("(")?;
            self.kernel.cluster = self.indices()?;
            self.cursor.expect(")")?;
        } else if self.cursor.is_word("use_swizzle") && self.cursor.is_at(1, "(") {
            self.cursor.next();
            self.kernel.swizzle = Some(self.one_index()?);
        } else {
            return Ok(false);
        }
        self.cursor.expect(";")?;
        Ok(true)
    }

    /// Statements in braces, with a scope of their own.
    fn block(&mut self) -> Parsed<Vec<StmtId>> {
        self.cursor.enter()?;
        self.cursor.expect("{")?;
        let scope = self.names.len();
        let mut body = Vec::new();
        while !self.cursor.eat("}") {
            body.push(self.statement()?);
        }
        self.names.truncate(scope);
        self.cursor.leave();
        Ok(body)
    }

    pub(super) fn stmt(&mut self, place: usize, kind: StmtKind) -> StmtId {
        let span = self.span(place);
        self.kernel.stmts.push(Stmt { kind, span })
    }

    fn statement(&mut self) -> Parsed<StmtId> {
        let place = self.cursor.place();
        let kind = match *self.cursor.peek() {
            TokenKind::Name("if") => return self.branches(),
            TokenKind::Name("for") => return self.for_loop(),
            TokenKind::Name("let") => self.let_statement()?,
            TokenKind::Name("break") if self.cursor.is_at(1, ";") => self.leave_loop()?,
            TokenKind::Mark("*") => {
                self.cursor.next();
                self.store("masked_mut")?
            }
            TokenKind::Name(name) => match *self.cursor.peek_at(1) {
                TokenKind::Mark("(") => self.call_statement(name)?,
                TokenKind::Mark("=") => self.assign(name)?,
                TokenKind::Mark("[") => self.store("")?,
                _ => return Err(self.cursor.error(format!("no statement begins with `{name}`"))),
            },
            _ => return Err(self.cursor.expected("a statement")),
        };
        self.cursor.expect(";")?;
        Ok(self.stmt(place, kind))
    }

    fn store(&mut self, masked: &str) -> Parsed<StmtKind> {
        let place = self.cursor.place();
        let access = self.access(place, masked)?;
        self.cursor.expect("=")?;
        let ty = Type::Value(self.kernel.place_dtype(self.kernel.accesses[access].place));
        let value = self.expr_of(ty)?;
        Ok(StmtKind::Store { access, value })
    }

    fn assign(&mut self, name: &str) -> Parsed<StmtKind> {
        let place = self.cursor.place();
        let (_, named) = self.known()?;
        let Named::Var(var) = named else {
            return Err(self.cursor.error_at(place, format!("`{name}` is no variable")));
        };
        self.cursor.expect("=")?;
        let ty = self.kernel.vars[var].ty;
        let at = self.cursor.place();
        if let Some(collective) = self.collective()? {
            if collective.ty() != ty {
                let message = format!("this gives {}, and `{name}` is {}", self.shown(collective.ty()), self.shown(ty));
                return Err(self.cursor.error_at(at, message));
            }
            return self.with_result(at, collective, Some(var));
        }
        Ok(StmtKind::Assign { var, value: self.expr_of(ty)? })
    }

    fn let_statement(&mut self) -> Parsed<StmtKind> {
        self.cursor.expect_word("let")?;
        let kind = if self.cursor.eat_word("mut") { VarKind::Mut } else { VarKind::Let };
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        let alloc = match *self.cursor.peek_at(1) {
            TokenKind::Name("alloc_shared") => Some(Scope::Shared),
            TokenKind::Name("alloc_local") => Some(Scope::Local),
            TokenKind::Name("alloc_fragment") => Some(Scope::Fragment),
            _ => None,
        };
        if let Some(scope) = alloc.filter(|_| self.cursor.is("=") && self.cursor.is_at(2, "::")) {
            return self.alloc(place, name, scope);
        }
        let written = if self.cursor.eat(":") { Some(self.ty()?) } else { None };
        let given = self.cursor.eat("=");
        let at = self.cursor.place();
        let collective = if given { self.collective()? } else { None };
        let value = match (given, &collective) {
            (true, None) => Some(self.expr()?),
            _ => None,
        };
        let found = collective.as_ref().map(super::tile::Collective::ty).or(value.map(|value| self.ty_of(value)));
        let ty = match (written, found) {
            (Some(written), Some(found)) if written != found => {
                let message = format!("this is of type {}, where {} is needed", self.shown(found), self.shown(written));
                return Err(self.cursor.error_at(at, message));
            }
            (Some(ty), _) | (None, Some(ty)) => ty,
            (None, None) => return Err(self.cursor.error_at(place, format!("`{name}` needs a type or a value"))),
        };
        let var = self.declare(place, name, ty, kind);
        match collective {
            Some(collective) => self.with_result(at, collective, Some(var)),
            None => Ok(StmtKind::Let { var, value }),
        }
    }

    /// ` = alloc_shared::<f32>([4, 16]).swizzle(B128)`
    fn alloc(&mut self, place: usize, name: &'t str, scope: Scope) -> Parsed<StmtKind> {
        self.cursor.expect("=")?;
        self.cursor.next();
        self.cursor.expect("::")?;
        self.cursor.expect("<")?;
        let dtype = self.dtype()?;
        self.cursor.expect(">")?;
        self.cursor.expect("(")?;
        let extents = self.indices()?;
        self.cursor.expect(")")?;
        let mut swizzle = SwizzleRequest::Auto;
        if self.cursor.eat(".") {
            self.cursor.expect_word("swizzle")?;
            self.cursor.expect("(")?;
            let asked = self.one_of("a swizzle", &Swizzle::ALL.map(|swizzle| (swizzle.name(), swizzle)))?;
            swizzle = SwizzleRequest::Exactly(asked);
            self.cursor.expect(")")?;
        }
        let span = self.span(place);
        let buffer = Buffer { name: name.to_owned(), scope, dtype, extents, swizzle, span };
        let buffer = self.kernel.buffers.push(buffer);
        self.names.push((name, Named::Buffer(buffer)));
        Ok(StmtKind::Alloc { buffer })
    }

    /// The index of the loop is given the last value of its range.
    fn leave_loop(&mut self) -> Parsed<StmtKind> {
        let place = self.cursor.place();
        let Some(Some((var, end))) = self.loops.last().copied() else {
            return Err(self.cursor.error("there is no loop here that can be left"));
        };
        self.cursor.next();
        let value = match self.kernel.const_index(end).and_then(|end| end.checked_sub(1)) {
            Some(last) => self.push(place, ExprKind::Int(last), Type::Index),
            None => {
                let one = self.push(place, ExprKind::Int(1), Type::Index);
                self.push(place, ExprKind::Binary(BinaryOp::Sub, end, one), Type::Index)
            }
        };
        Ok(StmtKind::Assign { var, value })
    }

    /// `if a { .. } else if b { .. } else { .. }`
    fn branches(&mut self) -> Parsed<StmtId> {
        let mut arms = Vec::new();
        let mut otherwise = loop {
            let place = self.cursor.place();
            self.cursor.expect_word("if")?;
            let cond = self.expr_of(Type::BOOL)?;
            let span = self.span(place);
            let then = self.block()?;
            arms.push(Arm { span, cond, then });
            if !self.cursor.eat_word("else") {
                break Vec::new();
            }
            if !self.cursor.is_word("if") {
                break self.block()?;
            }
        };
        let mut last = None;
        while let Some(Arm { span, cond, then }) = arms.pop() {
            let kind = StmtKind::If { cond, then, otherwise };
            let stmt = self.kernel.stmts.push(Stmt { kind, span });
            otherwise = vec![stmt];
            last = Some(stmt);
        }
        last.ok_or_else(|| self.cursor.expected("`if`"))
    }

    fn for_loop(&mut self) -> Parsed<StmtId> {
        let place = self.cursor.place();
        self.cursor.expect_word("for")?;
        if self.cursor.is("[") {
            return self.for_tuples(place);
        }
        let (at, name) = (self.cursor.place(), self.cursor.name()?);
        self.cursor.expect_word("in")?;
        let ((start, end), mut kind) = self.range_of_loop()?;
        let mut step = None;
        while self.cursor.is(".") {
            self.cursor.next();
            match self.cursor.name()? {
                "step_by" if step.is_none() => step = Some(self.one_index()?),
                "unroll" if kind == (LoopKind::Serial { unroll: None }) => {
                    kind = LoopKind::Serial { unroll: Some(self.one_index()?) };
                }
                method => return Err(self.cursor.error(format!("this loop has no `.{method}` here"))),
            }
        }
        let step = match step {
            Some(step) => step,
            None => self.push(place, ExprKind::Int(1), Type::Index),
        };
        let span = self.span(place);
        let scope = self.names.len();
        let var = self.declare(at, name, Type::Index, VarKind::Loop);
        let serial = matches!(kind, LoopKind::Serial { .. });
        self.loops.push(serial.then_some((var, end)));
        let body = self.block()?;
        self.loops.pop();
        self.names.truncate(scope);
        Ok(self.kernel.stmts.push(Stmt { kind: StmtKind::For { var, start, end, step, kind, body }, span }))
    }

    /// `0..8`, `(0..8)`, `unroll(0..8)`, `vectorized(0..8)`, `pipelined(0..8, 3).schedule(PingPong)`.
    fn range_of_loop(&mut self) -> Parsed<((ExprId, ExprId), LoopKind)> {
        let serial = LoopKind::Serial { unroll: None };
        if self.cursor.is("(") && self.is_range_in_parentheses() {
            self.cursor.expect("(")?;
            let range = self.range()?;
            self.cursor.expect(")")?;
            return Ok((range, serial));
        }
        let form = match *self.cursor.peek() {
            TokenKind::Name(name @ ("unroll" | "vectorized" | "pipelined")) if self.cursor.is_at(1, "(") => name,
            _ => return Ok((self.range()?, serial)),
        };
        self.cursor.next();
        self.cursor.expect("(")?;
        let range = self.range()?;
        let kind = match form {
            "unroll" => LoopKind::Unroll,
            "vectorized" => LoopKind::Vectorized,
            _ => {
                self.cursor.expect(",")?;
                LoopKind::Pipelined { stages: self.index()?, schedule: Schedule::Auto }
            }
        };
        self.cursor.expect(")")?;
        if let LoopKind::Pipelined { stages, .. } = kind
            && self.cursor.is(".")
            && self.cursor.is_word_at(1, "schedule")
        {
            self.cursor.next();
            self.cursor.next();
            self.cursor.expect("(")?;
            let schedules = [
                ("Cooperative", Schedule::Cooperative),
                ("PingPong", Schedule::PingPong),
                ("Rolled", Schedule::Rolled),
            ];
            let schedule = self.one_of("a schedule", &schedules)?;
            self.cursor.expect(")")?;
            return Ok((range, LoopKind::Pipelined { stages, schedule }));
        }
        Ok((range, kind))
    }

    /// Whether the parenthesis that is next holds a range: `(0..8)`, and not `(a + b)..8`.
    fn is_range_in_parentheses(&self) -> bool {
        let Some(end) = self.cursor.closing() else { return false };
        !self.cursor.is_at(end + 1 - self.cursor.place(), "..")
            && (0..end - self.cursor.place()).any(|ahead| self.cursor.is_at(ahead, ".."))
    }

    fn range(&mut self) -> Parsed<(ExprId, ExprId)> {
        let start = self.index()?;
        self.cursor.expect("..")?;
        Ok((start, self.index()?))
    }

    /// `[i, j] in parallel([m, n]) { .. }` and `[x, y] in persistent([m, n]).per_sm(2).counter(&mut next[0]) { .. }`
    fn for_tuples(&mut self, place: usize) -> Parsed<StmtId> {
        let names = self.new_names()?;
        self.cursor.expect_word("in")?;
        let persistent = self.one_of("a loop over tuples", &[("parallel", false), ("persistent", true)])?;
        self.cursor.expect("(")?;
        let extents = self.indices()?;
        self.cursor.expect(")")?;
        let (mut per_sm, mut contiguous, mut counter) = (None, false, None);
        while persistent && self.cursor.eat(".") {
            match self.cursor.name()? {
                "per_sm" if per_sm.is_none() => per_sm = Some(self.one_index()?),
                "contiguous" if !contiguous => {
                    self.cursor.expect("(")?;
                    self.cursor.expect(")")?;
                    contiguous = true;
                }
                "counter" if counter.is_none() => {
                    self.cursor.expect("(")?;
                    counter = Some(self.element()?);
                    self.cursor.expect(")")?;
                }
                method => return Err(self.cursor.error(format!("this loop has no `.{method}` here"))),
            }
        }
        let span = self.span(place);
        let scope = self.names.len();
        let declared = names.into_iter().map(|(place, name)| self.declare(place, name, Type::Index, VarKind::Loop));
        let vars: Vec<VarId> = declared.collect();
        self.loops.push(None);
        let body = self.block()?;
        self.loops.pop();
        self.names.truncate(scope);
        let kind = if persistent {
            StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body }
        } else {
            StmtKind::Parallel { vars, extents, body }
        };
        Ok(self.kernel.stmts.push(Stmt { kind, span }))
    }
}
