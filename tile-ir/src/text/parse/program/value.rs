//! Values: precedence climbing over the operators of Rust, by the table that the printer uses. A type that the text does not
//! name is what the printer takes for implied.

use super::{MOST_DEPTH, Parser, Scalar, value_type};
use crate::ir::*;
use crate::lowered::*;
use crate::text::Tightness;
use crate::text::parse::cursor::Parsed;
use crate::text::parse::lex::TokenKind;
use crate::text::parse::{CALLS, INFIX};
use crate::text::value::implied;

impl<'t> Parser<'t> {
    pub(super) fn value(&mut self) -> Parsed<ValueId> {
        self.value_at_least(Tightness::LOOSEST)
    }

    /// A value whose operators bind at least so tightly.
    fn value_at_least(&mut self, least: Tightness) -> Parsed<ValueId> {
        self.cursor.enter()?;
        let place = self.cursor.place();
        let mut left = self.unary()?;
        while let Some(op) = self.infix() {
            let tightness = Tightness::of(op);
            if tightness < least {
                break;
            }
            self.cursor.next();
            let right = self.value_at_least(tightness.next())?;
            if op.is_comparison() && self.infix().is_some_and(BinaryOp::is_comparison) {
                return Err(self.cursor.error("comparisons do not chain: put one in parentheses"));
            }
            left = self.made(place, ValueKind::Binary(op, left, right), &[left, right])?;
        }
        self.cursor.leave();
        Ok(left)
    }

    fn infix(&self) -> Option<BinaryOp> {
        let TokenKind::Mark(mark) = *self.cursor.peek() else { return None };
        INFIX.into_iter().find(|op| op.symbol() == mark)
    }

    /// A value of the type that its text implies.
    fn made(&mut self, place: usize, kind: ValueKind, operands: &[ValueId]) -> Parsed<ValueId> {
        match implied(&self.program, &kind) {
            Some(ty) => self.typed(place, kind, ty, operands),
            None => Err(self.cursor.error_at(place, "this has no type")),
        }
    }

    fn typed(&mut self, place: usize, kind: ValueKind, ty: ValueType, operands: &[ValueId]) -> Parsed<ValueId> {
        let deepest = operands.iter().map(|operand| self.depths[*operand]).max().unwrap_or(0);
        if deepest >= MOST_DEPTH {
            let message = format!("this is nested more than {MOST_DEPTH} levels deep");
            return Err(self.cursor.error_at(place, message));
        }
        let span = self.span(place);
        let value = self.program.values.push(Value { kind, ty, span });
        self.depths[value] = deepest + 1;
        Ok(value)
    }

    fn unary(&mut self) -> Parsed<ValueId> {
        let place = self.cursor.place();
        let op = match self.cursor.peek() {
            TokenKind::Mark("-") => UnaryOp::Neg,
            TokenKind::Mark("!") => UnaryOp::Not,
            _ => return self.atom(),
        };
        self.cursor.next();
        // A number with a sign.
        let number = matches!(self.cursor.peek(), TokenKind::Int(..) | TokenKind::Float(..))
            || self.cursor.is_at(1, "::") && self.cursor.is_word_at(2, "INFINITY");
        if op == UnaryOp::Neg && number {
            return self.number(place, true);
        }
        self.cursor.enter()?;
        let operand = self.unary()?;
        self.cursor.leave();
        self.made(place, ValueKind::Unary(op, operand), &[operand])
    }

    /// A number, its sign read: `5`, `5u32`, `0.5f32`, `f32::INFINITY`.
    fn number(&mut self, place: usize, negative: bool) -> Parsed<ValueId> {
        let (kind, suffix) = match *self.cursor.peek() {
            TokenKind::Int(value, suffix) => {
                let value = if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
                let value = value.ok_or_else(|| self.cursor.error("this number is out of range"))?;
                (ValueKind::Int(value), if suffix.is_empty() { "index" } else { suffix })
            }
            TokenKind::Float(value, suffix) => (ValueKind::Float(if negative { -value } else { value }), suffix),
            TokenKind::Name(name) => {
                self.cursor.next();
                self.cursor.expect("::")?;
                let value = self.one_of("a number", &[("INFINITY", f64::INFINITY), ("NAN", f64::NAN)])?;
                return self.of_type(place, ValueKind::Float(if negative { -value } else { value }), name);
            }
            _ => return Err(self.cursor.expected("a number")),
        };
        self.cursor.next();
        self.of_type(place, kind, suffix)
    }

    fn of_type(&mut self, place: usize, kind: ValueKind, name: &str) -> Parsed<ValueId> {
        match value_type(name) {
            Some(ty) => self.typed(place, kind, ty, &[]),
            None if name.is_empty() => Err(self.cursor.error_at(place, "a number with a point needs a type: `0.5f32`")),
            None => Err(self.cursor.error_at(place, format!("`{name}` is no type"))),
        }
    }

    fn atom(&mut self) -> Parsed<ValueId> {
        let place = self.cursor.place();
        match *self.cursor.peek() {
            TokenKind::Int(..) | TokenKind::Float(..) => self.number(place, false),
            TokenKind::Mark("(") => self.bracketed(),
            TokenKind::Name(name) => match self.cursor.peek_at(1) {
                TokenKind::Mark("(") => self.call(name),
                TokenKind::Mark("::") if name == "fast" => {
                    self.cursor.next();
                    self.cursor.next();
                    let at = self.cursor.place();
                    let member = self.cursor.name()?;
                    let called = |function: &MathFn| function.name().strip_prefix("fast::") == Some(member);
                    match MathFn::ALL.into_iter().find(called) {
                        Some(function) => self.math(place, function),
                        None => Err(self.cursor.error_at(at, format!("there is no function `fast::{member}`"))),
                    }
                }
                TokenKind::Mark("::") => self.number(place, false),
                TokenKind::Mark(".") => self.special(),
                _ => self.named(),
            },
            TokenKind::Text(_) => self.named(),
            _ => Err(self.cursor.expected("a value")),
        }
    }

    /// A parameter, a register, or an element.
    fn named(&mut self) -> Parsed<ValueId> {
        let place = self.cursor.place();
        if self.cursor.is_at(1, "[") {
            let (memory, _) = self.memory_without_guard(false)?;
            return self.made(place, ValueKind::Load(memory), &[memory.offset]);
        }
        let kind = match self.known("parameter or register", |names| &names.values)? {
            Scalar::Param(position) => ValueKind::Param(position),
            Scalar::Reg(reg) => ValueKind::Reg(reg),
        };
        self.made(place, kind, &[])
    }

    /// `(x)`, `(x: wide)`, `(x[i] if c)`, `(x[i] guarded by c)`.
    fn bracketed(&mut self) -> Parsed<ValueId> {
        self.cursor.expect("(")?;
        let at = self.cursor.place();
        let inner = self.value()?;
        if self.cursor.eat(":") {
            let ty = self.value_type()?;
            self.cursor.expect(")")?;
            self.program.values[inner].ty = ty;
            return Ok(inner);
        }
        if let Some(guard) = self.guard()? {
            let span = self.span(at);
            let ValueKind::Load(memory @ Memory { guard: None, .. }) = &mut self.program.values[inner].kind else {
                return Err(self.cursor.error_at(at, "only a load has a guard, and only one"));
            };
            (memory.guard, memory.span) = (Some(guard), span);
            self.program.values[inner].span = span;
            self.depths[inner] = self.depths[inner].max(self.depths[guard.cond].saturating_add(1));
            self.cursor.expect(")")?;
            return Ok(inner);
        }
        self.cursor.expect(")")?;
        Ok(inner)
    }

    /// `if c`, `guarded by c`, or nothing.
    fn guard(&mut self) -> Parsed<Option<Guard>> {
        let reason = if self.cursor.eat_word("if") {
            GuardReason::Masked
        } else if self.cursor.eat_words(&["guarded", "by"]) {
            GuardReason::Unproven
        } else {
            return Ok(None);
        };
        Ok(Some(Guard { cond: self.value()?, reason }))
    }

    /// `x[offset]`, or `x[offset; width]` of a vector, with the width; 1 where there is none. A guard may follow.
    pub(super) fn memory(&mut self, vector: bool) -> Parsed<(Memory, u32)> {
        let place = self.cursor.place();
        let (mut memory, width) = self.memory_without_guard(vector)?;
        memory.guard = self.guard()?;
        if memory.guard.is_some() {
            memory.span = self.span(place);
        }
        Ok((memory, width))
    }

    fn memory_without_guard(&mut self, vector: bool) -> Parsed<(Memory, u32)> {
        let place = self.cursor.place();
        let space = self.known("tensor or array", |names| &names.spaces)?;
        self.cursor.expect("[")?;
        let offset = self.value()?;
        let mut width = 1;
        if vector {
            self.cursor.expect(";")?;
            width = self.cursor.integer_of()?;
        }
        self.cursor.expect("]")?;
        Ok((Memory { space, offset, guard: None, span: self.span(place) }, width))
    }

    /// `thread.x`, `block.y`, `grid.z`, `thread.lane` and what else a thread knows of its place.
    fn special(&mut self) -> Parsed<ValueId> {
        let place = self.cursor.place();
        let of = self.cursor.name()?;
        self.cursor.expect(".")?;
        let member = self.cursor.name()?;
        let axis = ["x", "y", "z"].into_iter().zip(0u8..).find(|(axis, _)| *axis == member).map(|(_, number)| number);
        let kind = match (of, member, axis) {
            ("thread", _, Some(axis)) => ValueKind::Thread(axis),
            ("block", _, Some(axis)) => ValueKind::Block(axis),
            ("grid", _, Some(axis)) => ValueKind::Special(Special::Grid(axis)),
            ("thread", "warp", _) => ValueKind::Special(Special::Warp),
            ("thread", "lane", _) => ValueKind::Special(Special::Lane),
            ("thread", "elected", _) => ValueKind::Special(Special::Elected),
            ("cluster", "rank", _) => ValueKind::Special(Special::ClusterRank),
            _ => return Err(self.cursor.error_at(place, format!("there is no `{of}.{member}`"))),
        };
        self.made(place, kind, &[])
    }

    /// What is written as a call.
    fn call(&mut self, name: &str) -> Parsed<ValueId> {
        let place = self.cursor.place();
        self.cursor.next();
        if let Some(op) = CALLS.into_iter().find(|op| op.symbol() == name) {
            let [a, b] = self.arguments(name)?;
            return self.made(place, ValueKind::Binary(op, a, b), &[a, b]);
        }
        if let Some(ty) = value_type(name) {
            let [a] = self.arguments(name)?;
            return self.typed(place, ValueKind::Cast(a), ty, &[a]);
        }
        let dtype = |text: &str| Dtype::from_name(text);
        if let Some(dtype) = name.strip_prefix("pack_").and_then(dtype) {
            let [low, high] = self.arguments(name)?;
            return self.made(place, ValueKind::Pack(dtype, low, high), &[low, high]);
        }
        let half = name.strip_prefix("unpack_").and_then(|rest| rest.split_once('_'));
        if let Some((Some(dtype), half @ ("low" | "high"))) = half.map(|(text, half)| (dtype(text), half)) {
            let [word] = self.arguments(name)?;
            return self.made(place, ValueKind::Unpack(dtype, word, half == "high"), &[word]);
        }
        match name {
            "select" | "choose" => {
                let all @ [c, a, b] = self.arguments(name)?;
                let kind = if name == "select" { ValueKind::Select(c, a, b) } else { ValueKind::Choose(c, a, b) };
                self.made(place, kind, &all)
            }
            "quotient" => {
                let all @ [x, d, r] = self.arguments(name)?;
                self.made(place, ValueKind::Quotient(x, d, r), &all)
            }
            "divisor" => {
                let [a] = self.arguments(name)?;
                self.made(place, ValueKind::Divisor(a), &[a])
            }
            "descriptor" => {
                self.cursor.expect("(")?;
                let shared = self.shared()?;
                self.cursor.expect(",")?;
                let TokenKind::Int(bits, "") = *self.cursor.peek() else {
                    return Err(self.cursor.expected("the bits of the descriptor"));
                };
                self.cursor.next();
                self.cursor.expect(")")?;
                self.made(place, ValueKind::Descriptor { shared, bits }, &[])
            }
            _ => match MathFn::ALL.into_iter().find(|function| function.name() == name) {
                Some(function) => self.math(place, function),
                None => Err(self.cursor.error_at(place, format!("there is no function `{name}`"))),
            },
        }
    }

    fn math(&mut self, place: usize, function: MathFn) -> Parsed<ValueId> {
        let args = match function.arity() {
            1 => self.arguments::<1>(function.name())?.to_vec(),
            2 => self.arguments::<2>(function.name())?.to_vec(),
            _ => self.arguments::<3>(function.name())?.to_vec(),
        };
        let operands = args.clone();
        self.made(place, ValueKind::Math(function, args), &operands)
    }

    /// `(a, b)`, so many.
    pub(super) fn arguments<const N: usize>(&mut self, name: &str) -> Parsed<[ValueId; N]> {
        let place = self.cursor.place();
        let all = self.values_in("(", ")")?;
        let count = all.len();
        let wrong = |_| self.cursor.error_at(place, format!("`{name}` takes {N}, not {count}"));
        <[ValueId; N]>::try_from(all).map_err(wrong)
    }

    /// `(a, b)` or `[a, b]`.
    pub(super) fn values_in(&mut self, open: &'static str, close: &'static str) -> Parsed<Vec<ValueId>> {
        self.cursor.expect(open)?;
        let mut all = Vec::new();
        while !self.cursor.eat(close) {
            all.push(self.value()?);
            self.cursor.separator(close)?;
        }
        Ok(all)
    }
}
