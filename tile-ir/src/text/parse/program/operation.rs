//! Operations of one thread and of a block: registers, memory, control flow, barriers. `transfer` has the others.

use super::{Parser, Scalar};
use crate::ir::*;
use crate::lowered::*;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;

/// Lane exchanges, votes and atomic operations, which are written as calls.
const SHUFFLES: [ShuffleKind; 4] = [ShuffleKind::Xor, ShuffleKind::Down, ShuffleKind::Up, ShuffleKind::Lane];
const VOTES: [(&str, VoteKind); 3] = [("ballot", VoteKind::Ballot), ("any", VoteKind::Any), ("all", VoteKind::All)];
const ATOMICS: [(&str, AtomicOp); 3] =
    [("atomic_add", AtomicOp::Add), ("atomic_max", AtomicOp::Max), ("atomic_min", AtomicOp::Min)];

/// A part of a per-thread array, `l[start; count]`.
pub(super) struct Part {
    pub local: LocalId,
    pub start: ValueId,
    pub count: u32,
}

impl<'t> Parser<'t> {
    /// The operations to the end of the text.
    pub(super) fn body(&mut self) -> Parsed<Vec<Op>> {
        let mut all = Vec::new();
        while !self.cursor.is_end() {
            all.push(self.operation()?);
            self.end_of_line()?;
        }
        Ok(all)
    }

    /// `{`, operations, `}`. What begins before it, at `place`, is the operation's own place.
    fn block(&mut self, place: usize) -> Parsed<(SpanId, Vec<Op>)> {
        let span = self.span(place);
        self.cursor.enter()?;
        self.cursor.expect("{")?;
        self.end_of_line()?;
        let mut all = Vec::new();
        while !self.cursor.eat("}") {
            all.push(self.operation()?);
            self.end_of_line()?;
        }
        self.cursor.leave();
        Ok((span, all))
    }

    fn operation(&mut self) -> Parsed<Op> {
        let place = self.cursor.place();
        // `if = 1` assigns to a register of that name.
        let block = self.is_name(1) || self.starts_value(1);
        if block && self.cursor.eat_word("if") {
            return self.conditional(place);
        }
        if self.is_name(1) && self.cursor.eat_word("for") {
            return self.for_loop(place);
        }
        let kind = self.simple()?;
        Ok(Op { kind, span: self.span(place) })
    }

    /// Whether a token can begin a value but neither an assignment nor an element.
    fn starts_value(&self, ahead: usize) -> bool {
        match self.cursor.peek_at(ahead) {
            TokenKind::Int(..) | TokenKind::Float(..) => true,
            TokenKind::Mark(mark) => matches!(*mark, "(" | "!" | "-"),
            TokenKind::Name(_) | TokenKind::Text(_) | TokenKind::End => false,
        }
    }

    fn conditional(&mut self, place: usize) -> Parsed<Op> {
        let cond = self.value()?;
        let (span, then) = self.block(place)?;
        let mut otherwise = Vec::new();
        if self.cursor.is_word("else") && self.cursor.is_at(1, "{") {
            let place = self.cursor.place();
            self.cursor.next();
            otherwise = self.block(place)?.1;
            if otherwise.is_empty() {
                return Err(self.cursor.error_at(place, "an `else` without operations is left out"));
            }
        }
        Ok(Op { kind: OpKind::If { cond, then, otherwise }, span })
    }

    fn for_loop(&mut self, place: usize) -> Parsed<Op> {
        let reg = self.declared()?;
        self.cursor.expect_word("in")?;
        let start = self.value()?;
        self.cursor.expect("..")?;
        let end = self.value()?;
        self.cursor.expect_word("step")?;
        let step = self.value()?;
        let unroll = if self.cursor.eat_words(&["unroll", "by"]) {
            Unroll::By(self.cursor.integer_of()?)
        } else if self.cursor.eat_word("unroll") {
            Unroll::Full
        } else {
            Unroll::Auto
        };
        let (span, body) = self.block(place)?;
        Ok(Op { kind: OpKind::For { reg, start, end, step, unroll, body }, span })
    }

    /// `mut r: ty` of a register, behind `let` or `for`; `declarations` has put it into the table.
    fn declared(&mut self) -> Parsed<RegId> {
        if self.is_name(1) {
            self.cursor.expect_word("mut")?;
        }
        let reg = self.register()?;
        self.cursor.expect(":")?;
        self.value_type()?;
        Ok(reg)
    }

    fn register(&mut self) -> Parsed<RegId> {
        let place = self.cursor.place();
        match self.known("register", |names| &names.values)? {
            Scalar::Reg(reg) => Ok(reg),
            Scalar::Param(_) => Err(self.cursor.error_at(place, "this is no register")),
        }
    }

    fn simple(&mut self) -> Parsed<OpKind> {
        if self.cursor.eat("(") {
            let (memory, _) = self.memory(false)?;
            self.cursor.expect(")")?;
            self.cursor.expect("=")?;
            return Ok(OpKind::Store { memory, value: self.value()? });
        }
        if self.is_name(0) && self.cursor.is_at(1, "=") {
            let reg = self.register()?;
            self.cursor.expect("=")?;
            return Ok(OpKind::Set { reg, value: self.value()? });
        }
        if self.is_name(0) && self.cursor.is_at(1, "[") {
            return self.elements_set();
        }
        let TokenKind::Name(word) = *self.cursor.peek() else {
            return Err(self.cursor.expected("an operation"));
        };
        if self.cursor.is_at(1, "(") {
            return self.called(word);
        }
        match word {
            "let" => self.binding(),
            "local" => {
                self.cursor.next();
                let local = self.local()?;
                self.cursor.expect(":")?;
                self.dtype()?;
                self.numbers::<u32>()?;
                Ok(OpKind::Local { local })
            }
            "shared" => {
                self.cursor.next();
                Ok(OpKind::Shared { shared: self.shared()? })
            }
            "store" => self.store(),
            "elements" => self.place_in_loop(),
            _ => match self.without_operands() {
                Some(kind) => Ok(kind),
                None => self.transfer(word),
            },
        }
    }

    fn without_operands(&mut self) -> Option<OpKind> {
        // `barrier` alone is not among them: a number may follow.
        let all = [
            OpKind::AsyncCommit,
            OpKind::WarpBarrier,
            OpKind::Wait,
            OpKind::LaunchDependents,
            OpKind::FenceBarrierInit,
            OpKind::BulkCommit,
            OpKind::FenceProxyAsync,
            OpKind::ClusterBarrier { relaxed: true },
            OpKind::ClusterBarrier { relaxed: false },
            OpKind::ClusterArrive,
            OpKind::ClusterWait,
            OpKind::WgmmaFence,
            OpKind::WgmmaCommit,
            OpKind::Order,
        ];
        all.into_iter().find(|kind| self.cursor.eat_words(&kind.name().split(' ').collect::<Vec<_>>()))
    }

    /// `let r: ty`, what it is set to, and what declares a register of its own: exchanges, votes, atomic operations.
    fn binding(&mut self) -> Parsed<OpKind> {
        self.cursor.expect_word("let")?;
        let reg = self.declared()?;
        if !self.cursor.eat("=") {
            return Ok(OpKind::Let { reg, value: None });
        }
        if let (TokenKind::Name(name), true) = (self.cursor.peek().clone(), self.cursor.is_at(1, "(")) {
            if let Some(kind) = SHUFFLES.into_iter().find(|kind| kind.name() == name) {
                self.cursor.next();
                let [value, lane] = self.arguments(name)?;
                return Ok(OpKind::Shuffle { reg, kind, value, lane });
            }
            if let Some((_, kind)) = VOTES.into_iter().find(|(vote, _)| *vote == name) {
                self.cursor.next();
                let [pred] = self.arguments(name)?;
                return Ok(OpKind::Vote { reg, kind, pred });
            }
            if name == "transpose_matrix" {
                self.cursor.next();
                let [value] = self.arguments(name)?;
                return Ok(OpKind::TransposeMatrix { reg, value });
            }
            if ATOMICS.into_iter().any(|(atomic, _)| atomic == name) {
                return self.atomic(Some(reg));
            }
        }
        Ok(OpKind::Let { reg, value: Some(self.value()?) })
    }

    fn atomic(&mut self, old: Option<RegId>) -> Parsed<OpKind> {
        let op = self.one_of("an atomic operation", &ATOMICS)?;
        self.cursor.expect("(")?;
        let (memory, _) = self.memory(false)?;
        self.cursor.expect(",")?;
        let value = self.value()?;
        self.cursor.expect(")")?;
        let ordered = self.cursor.eat_words(&["acquire", "release"]);
        Ok(OpKind::Atomic { op, memory, value, old, ordered })
    }

    /// An operation that is written as a call.
    fn called(&mut self, name: &str) -> Parsed<OpKind> {
        match name {
            "print" => {
                self.cursor.next();
                self.cursor.expect("(")?;
                let message = self.message()?;
                let mut args = Vec::new();
                while !self.cursor.eat(")") {
                    self.cursor.expect(",")?;
                    args.push(self.value()?);
                }
                Ok(OpKind::Print { message, args })
            }
            "assert" => {
                self.cursor.next();
                self.cursor.expect("(")?;
                let message = self.message()?;
                self.cursor.expect(",")?;
                let cond = self.value()?;
                self.cursor.expect(")")?;
                Ok(OpKind::Assert { cond, message })
            }
            name if ATOMICS.into_iter().any(|(atomic, _)| atomic == name) => self.atomic(None),
            name => Err(self.cursor.error(format!("there is no operation `{name}`"))),
        }
    }

    fn place_in_loop(&mut self) -> Parsed<OpKind> {
        self.cursor.expect_word("elements")?;
        let simple = [("begin", Some(Elements::Begin)), ("next", Some(Elements::Next)), ("end", Some(Elements::End))];
        let which = self.one_of("a place in a loop", &[&simple[..], &[("at", None)]].concat())?;
        Ok(OpKind::Elements(match which {
            Some(elements) => elements,
            None => Elements::At(self.value()?),
        }))
    }

    /// `l[start; count]` of a per-thread array.
    pub(super) fn part(&mut self) -> Parsed<Part> {
        let local = self.local()?;
        self.cursor.expect("[")?;
        let start = self.value()?;
        self.cursor.expect(";")?;
        let count = self.cursor.integer_of()?;
        self.cursor.expect("]")?;
        Ok(Part { local, start, count })
    }

    /// A part of a known number of elements.
    pub(super) fn part_of(&mut self, count: u32) -> Parsed<(LocalId, ValueId)> {
        let place = self.cursor.place();
        let part = self.part()?;
        self.as_many(place, part.count, count)?;
        Ok((part.local, part.start))
    }

    /// The error that a part has another number of elements than the operation.
    pub(super) fn as_many(&self, place: usize, found: u32, count: u32) -> Parsed<()> {
        if found == count {
            return Ok(());
        }
        Err(self.cursor.error_at(place, format!("{found} elements, where the operation has {count}")))
    }

    /// A word that is not the name of an array: no bracket follows.
    pub(super) fn eat_flag(&mut self, word: &str) -> bool {
        !self.cursor.is_at(1, "[") && self.cursor.eat_word(word)
    }

    /// `store l[0; 4] to x[i; 4]`, `store matrices l[0; 4] to s[i]`.
    fn store(&mut self) -> Parsed<OpKind> {
        self.cursor.expect_word("store")?;
        if self.eat_flag("matrices") {
            let transposed = self.eat_flag("transposed");
            let Part { local, start, count } = self.part()?;
            self.cursor.expect_word("to")?;
            let (memory, _) = self.memory(false)?;
            return Ok(OpKind::StoreMatrix { memory, local, start, count, transposed });
        }
        let place = self.cursor.place();
        let Part { local, start, count } = self.part()?;
        self.cursor.expect_word("to")?;
        let (memory, width) = self.memory(true)?;
        self.as_many(place, count, width)?;
        Ok(OpKind::VectorStore { memory, local, start, width })
    }

    /// What begins with an element or with a part of an array.
    fn elements_set(&mut self) -> Parsed<OpKind> {
        let place = self.cursor.place();
        let space = self.known("tensor or array", |names| &names.spaces)?;
        self.cursor.expect("[")?;
        let offset = self.value()?;
        if self.cursor.is(";") {
            self.cursor.seek(place);
            let part = self.part()?;
            return self.part_set(place, part);
        }
        self.cursor.expect("]")?;
        let memory = Memory { space, offset, guard: None, span: self.span(place) };
        self.cursor.expect("=")?;
        let from_tensor = self.cursor.eat_words(&["tensor", "load"]);
        if !from_tensor && !self.cursor.eat_words(&["bulk", "load"]) {
            return Ok(OpKind::Store { memory, value: self.value()? });
        }
        let Space::Shared(shared) = space else {
            return Err(self.cursor.error_at(place, "this is no shared array"));
        };
        if from_tensor { self.tensor_load(shared, offset) } else { self.bulk_load(shared, offset) }
    }

    fn part_set(&mut self, place: usize, part: Part) -> Parsed<OpKind> {
        let Part { local, start, count } = part;
        if self.cursor.eat("+=") {
            return self.product(place, part);
        }
        self.cursor.expect("=")?;
        if self.cursor.eat_words(&["load", "matrices"]) {
            let transposed = self.eat_flag("transposed");
            let (memory, _) = self.memory(false)?;
            return Ok(OpKind::LoadMatrix { local, start, memory, count, transposed });
        }
        if self.cursor.eat_word("load") {
            let (memory, width) = self.memory(true)?;
            self.as_many(place, count, width)?;
            return Ok(OpKind::VectorLoad { local, start, memory, width });
        }
        self.warpgroup_product(place, part)
    }
}
