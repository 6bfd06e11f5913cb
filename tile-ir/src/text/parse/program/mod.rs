//! The parser of a lowered program's text, which reads exactly what `Display` prints: `head` up to the body, `operation` and
//! `transfer` the body, `value` what it computes.
//!
//! A line is an item of the head or an operation. Names are looked up in the whole program: lowering gives no two things the
//! same one, and a register that is declared on several lines is declared the same way on each. Whether a register is
//! declared where it is read, and whether types agree, is not asked here: a text may hold a program that is wrong.

mod head;
mod operation;
mod transfer;
mod value;

#[cfg(test)]
mod tests;

use super::cursor::{Cursor, Parsed};
use super::lex::TokenKind;
use crate::ir::*;
use crate::lowered::*;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Reads a lowered program, as its `Display` prints one. The program's source is the text, and its spans are places in it, so
/// what the checked simulator finds names lines of the text. It has no remarks and no arrivals: these are not printed.
///
/// # Errors
/// What is not as expected, with its line and column.
pub fn parse_program(text: &str) -> Parsed<Program> {
    let mut parser = Parser {
        cursor: Cursor::new(text)?,
        program: Program::empty("", Target::Sm80),
        names: Names::default(),
        margin: 1,
        depths: SecondaryMap::new(),
    };
    parser.whole()?;
    let mut program = parser.program;
    let lines = text.lines().map(str::to_owned).collect();
    program.source = Source { first_line: 1, lines, ..Source::default() };
    Ok(program)
}

/// What names stand for, by what they are used for.
#[derive(Default)]
struct Names<'t> {
    dims: BTreeMap<Cow<'t, str>, DimId>,
    /// Values: parameters and registers.
    values: BTreeMap<Cow<'t, str>, Scalar>,
    /// What has elements: tensors, shared and per-thread arrays.
    spaces: BTreeMap<Cow<'t, str>, Space>,
    barriers: BTreeMap<Cow<'t, str>, BarrierId>,
    maps: BTreeMap<Cow<'t, str>, MapId>,
}

/// A value with a name.
#[derive(Clone, Copy)]
enum Scalar {
    Param(u32),
    Reg(RegId),
}

/// Most levels that a value nests, as sums do without brackets.
const MOST_DEPTH: u16 = 400;

struct Parser<'t> {
    cursor: Cursor<'t>,
    program: Program,
    names: Names<'t>,
    /// The column of the text's first word, where sections begin too.
    margin: u32,
    /// How deeply each value is nested.
    depths: SecondaryMap<ValueId, u16>,
}

impl<'t> Parser<'t> {
    fn span(&mut self, place: usize) -> SpanId {
        let span = self.cursor.since(place);
        self.program.spans.push(span)
    }

    /// The error that a line goes on where it should have ended.
    fn end_of_line(&self) -> Parsed<()> {
        if self.cursor.starts_line() { Ok(()) } else { Err(self.cursor.expected("the end of the line")) }
    }

    /// Whether the next token begins an item of the section, not another section.
    fn has_item(&self) -> bool {
        !self.cursor.is_end() && self.cursor.column() > self.margin
    }

    fn dtype(&mut self) -> Parsed<Dtype> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        Dtype::from_name(name).ok_or_else(|| self.cursor.error_at(place, format!("`{name}` is no dtype")))
    }

    fn value_type(&mut self) -> Parsed<ValueType> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        value_type(name).ok_or_else(|| self.cursor.error_at(place, format!("`{name}` is no type")))
    }

    /// A name, in quotation marks where it is not one word: that of a dim may be a formula.
    fn identifier(&mut self) -> Parsed<Cow<'t, str>> {
        match self.cursor.peek() {
            TokenKind::Text(_) => self.cursor.text().map(Cow::Owned),
            _ => self.cursor.name().map(Cow::Borrowed),
        }
    }

    /// What the name that is next stands for, in one of the tables.
    fn known<T: Copy>(
        &mut self,
        what: &str,
        table: impl for<'n> Fn(&'n Names<'t>) -> &'n BTreeMap<Cow<'t, str>, T>,
    ) -> Parsed<T> {
        let place = self.cursor.place();
        let name = self.identifier()?;
        let found = table(&self.names).get(&name).copied();
        found.ok_or_else(|| self.cursor.error_at(place, format!("there is no {what} `{name}`")))
    }

    fn tensor(&mut self) -> Parsed<ParamId> {
        let place = self.cursor.place();
        match self.known("tensor", |names| &names.spaces)? {
            Space::Global(tensor) => Ok(tensor),
            Space::Shared(_) | Space::Local(_) => Err(self.cursor.error_at(place, "this is no tensor")),
        }
    }

    fn shared(&mut self) -> Parsed<SharedId> {
        let place = self.cursor.place();
        match self.known("shared array", |names| &names.spaces)? {
            Space::Shared(shared) => Ok(shared),
            Space::Global(_) | Space::Local(_) => Err(self.cursor.error_at(place, "this is no shared array")),
        }
    }

    fn local(&mut self) -> Parsed<LocalId> {
        let place = self.cursor.place();
        match self.known("array of a thread", |names| &names.spaces)? {
            Space::Local(local) => Ok(local),
            Space::Global(_) | Space::Shared(_) => Err(self.cursor.error_at(place, "this is no array of a thread")),
        }
    }

    fn map(&mut self) -> Parsed<MapId> {
        self.known("tensor map", |names| &names.maps)
    }

    /// `[1, 2, 3]`, of numbers.
    fn numbers<T: TryFrom<i64>>(&mut self) -> Parsed<Vec<T>> {
        self.cursor.expect("[")?;
        let mut all = Vec::new();
        while !self.cursor.eat("]") {
            all.push(self.cursor.integer_of()?);
            self.cursor.separator("]")?;
        }
        Ok(all)
    }

    /// One of the words that a `match` of the printer writes.
    fn one_of<T: Copy>(&mut self, what: &str, words: &[(&str, T)]) -> Parsed<T> {
        match words.iter().find(|(word, _)| self.cursor.is_word(word)) {
            Some((_, value)) => {
                self.cursor.next();
                Ok(*value)
            }
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                Err(self.cursor.expected(&format!("{what}: {}", words.join(" or "))))
            }
        }
    }

    /// `msg0`, an id of the section `messages`.
    fn message(&mut self) -> Parsed<MessageId> {
        let place = self.cursor.place();
        let name = self.cursor.name()?;
        let number = name.strip_prefix("msg").and_then(|number| number.parse::<usize>().ok());
        let found = number.filter(|number| *number < self.program.messages.len()).map(MessageId::new);
        found.ok_or_else(|| self.cursor.error_at(place, format!("there is no message `{name}`")))
    }

    /// Whether a token is a name.
    fn is_name(&self, ahead: usize) -> bool {
        matches!(self.cursor.peek_at(ahead), TokenKind::Name(_) | TokenKind::Text(_))
    }
}

/// The type of a name.
fn value_type(name: &str) -> Option<ValueType> {
    match name {
        "index" => Some(ValueType::Index),
        "wide" => Some(ValueType::Wide),
        name => Dtype::from_name(name).map(ValueType::Element),
    }
}
