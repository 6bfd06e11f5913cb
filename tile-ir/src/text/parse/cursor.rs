//! A step through the tokens of a text, with the errors that any parser makes of what it does not expect.

use super::lex::{Token, TokenKind, tokens};
use crate::ir::Span;
use std::fmt;

/// Why a text is not what it was read as, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line of the text, from 1.
    pub line: u32,
    /// Column of that line, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ParseError {
    /// `line:column: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// What a parser's step gives.
pub(in crate::text) type Parsed<T> = Result<T, ParseError>;

/// Most levels of brackets, operands and statements that a text nests.
const MOST_NESTING: u32 = 256;

/// Where a parser is in a text.
pub(in crate::text) struct Cursor<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    at: usize,
    nesting: u32,
}

impl<'t> Cursor<'t> {
    /// The beginning of a text.
    pub(in crate::text) fn new(text: &'t str) -> Parsed<Cursor<'t>> {
        Ok(Cursor { text, tokens: tokens(text)?, at: 0, nesting: 0 })
    }

    /// The next token, which stays the next one.
    pub(in crate::text) fn peek(&self) -> &TokenKind<'t> {
        self.peek_at(0)
    }

    /// The token `ahead` tokens after the next one.
    pub(in crate::text) fn peek_at(&self, ahead: usize) -> &TokenKind<'t> {
        &self.token(self.at.saturating_add(ahead)).kind
    }

    /// A token by its position; beyond the last one, the last one, which is the end of the text.
    fn token(&self, position: usize) -> &Token<'t> {
        &self.tokens[position.min(self.tokens.len() - 1)]
    }

    /// Whether the next token is this punctuation.
    pub(in crate::text) fn is(&self, mark: &str) -> bool {
        self.is_at(0, mark)
    }

    /// Whether the token `ahead` tokens after the next one is this punctuation.
    pub(in crate::text) fn is_at(&self, ahead: usize, mark: &str) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Mark(m) if *m == mark)
    }

    /// Whether the next token is this name.
    pub(in crate::text) fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    /// Whether the token `ahead` tokens after the next one is this name.
    pub(in crate::text) fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Name(name) if *name == word)
    }

    /// Whether the text has ended.
    pub(in crate::text) fn is_end(&self) -> bool {
        *self.peek() == TokenKind::End
    }

    /// Whether the next token is the first one of its line; also where the text ends.
    pub(in crate::text) fn starts_line(&self) -> bool {
        match self.at.checked_sub(1) {
            Some(before) => self.is_end() || self.token(before).end_line < self.token(self.at).line,
            None => true,
        }
    }

    /// The column of the next token: where a line begins, its indentation and one.
    pub(in crate::text) fn column(&self) -> u32 {
        self.token(self.at).column
    }

    /// Steps over the next token and gives it.
    pub(in crate::text) fn next(&mut self) -> TokenKind<'t> {
        let kind = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    /// Steps over this punctuation, if it is next.
    pub(in crate::text) fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.next();
        }
        found
    }

    /// Steps over this name, if it is next.
    pub(in crate::text) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    /// Steps over these names, if they are next, one after the other.
    pub(in crate::text) fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(ahead, word)| self.is_word_at(ahead, word));
        if found {
            words.iter().for_each(|_| {
                self.next();
            });
        }
        found
    }

    /// Steps over this punctuation, or says that it is missing. A `>` may be the first half of `>>` or of `>=`.
    pub(in crate::text) fn expect(&mut self, mark: &'static str) -> Parsed<()> {
        if self.eat(mark) {
            return Ok(());
        }
        let at = self.at;
        if let (">", TokenKind::Mark(double @ (">>" | ">="))) = (mark, self.peek().clone()) {
            let token = &mut self.tokens[at];
            token.kind = TokenKind::Mark(if double == ">>" { ">" } else { "=" });
            token.column = token.column.saturating_add(1);
            token.bytes.0 += 1;
            return Ok(());
        }
        Err(self.expected(&format!("`{mark}`")))
    }

    /// Steps over this name, or says that it is missing.
    pub(in crate::text) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// Steps over these names, or says which is missing.
    pub(in crate::text) fn expect_words(&mut self, words: &[&str]) -> Parsed<()> {
        words.iter().try_for_each(|word| self.expect_word(word))
    }

    /// The name that is next.
    pub(in crate::text) fn name(&mut self) -> Parsed<&'t str> {
        match *self.peek() {
            TokenKind::Name(name) => {
                self.next();
                Ok(name)
            }
            _ => Err(self.expected("a name")),
        }
    }

    /// The string that is next.
    pub(in crate::text) fn text(&mut self) -> Parsed<String> {
        match self.peek() {
            TokenKind::Text(_) => match self.next() {
                TokenKind::Text(text) => Ok(text),
                other => Err(self.error(format!("expected a string, found {}", other.describe()))),
            },
            _ => Err(self.expected("a string")),
        }
    }

    /// The whole number without a suffix that is next, with its sign.
    pub(in crate::text) fn integer(&mut self) -> Parsed<i64> {
        let ahead = usize::from(self.is("-"));
        let value = match *self.peek_at(ahead) {
            TokenKind::Int(value, "") => value,
            _ => return Err(self.expected("a whole number")),
        };
        let signed = if ahead == 1 { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
        let signed = signed.ok_or_else(|| self.error("this number is out of range"))?;
        (0..=ahead).for_each(|_| {
            self.next();
        });
        Ok(signed)
    }

    /// The whole number without a suffix that is next, of a type that does not hold all of them.
    pub(in crate::text) fn integer_of<T: TryFrom<i64>>(&mut self) -> Parsed<T> {
        let place = self.place();
        let value = self.integer()?;
        T::try_from(value).map_err(|_| self.error_at(place, format!("{value} is out of range")))
    }

    /// What stands between the items of a list: a comma, or nothing before `close`, which is next then.
    pub(in crate::text) fn separator(&mut self, close: &str) -> Parsed<()> {
        if self.eat(",") || self.is(close) { Ok(()) } else { Err(self.expected(&format!("`,` or `{close}`"))) }
    }

    /// One level deeper into what is nested, or the error that it is too deep. [`Cursor::leave`] comes back.
    pub(in crate::text) fn enter(&mut self) -> Parsed<()> {
        if self.nesting >= MOST_NESTING {
            return Err(self.error(format!("this is nested more than {MOST_NESTING} levels deep")));
        }
        self.nesting += 1;
        Ok(())
    }

    /// Back from a level of what is nested. After an error it need not be called: nothing is read any more.
    pub(in crate::text) fn leave(&mut self) {
        self.nesting = self.nesting.saturating_sub(1);
    }

    /// The position of the next token, for [`Cursor::since`] and [`Cursor::error_at`].
    pub(in crate::text) fn place(&self) -> usize {
        self.at
    }

    /// The range from the token at `place` to the last one that was stepped over.
    pub(in crate::text) fn since(&self, place: usize) -> Span {
        let (first, last) = (self.token(place), self.token(self.at.saturating_sub(1).max(place)));
        Span { line: first.line, column: first.column, end_line: last.end_line, end_column: last.end_column, text: 0 }
    }

    /// The text between the token at `place` and the one at `end`, without the blanks around it.
    pub(in crate::text) fn slice(&self, place: usize, end: usize) -> &'t str {
        let (first, end) = (self.token(place).bytes.0, self.token(end).bytes.0);
        self.text.get(first..end).map_or("", str::trim)
    }

    /// Whether the tokens at two positions are alike.
    pub(in crate::text) fn same(&self, a: usize, b: usize) -> bool {
        self.token(a).kind == self.token(b).kind
    }

    /// Back or forth to a token, by its position.
    pub(in crate::text) fn seek(&mut self, place: usize) {
        self.at = place.min(self.tokens.len() - 1);
    }

    /// The position of the token that closes the bracket which is next; `None` if that is no bracket, or nothing closes it.
    pub(in crate::text) fn closing(&self) -> Option<usize> {
        let mut open = Vec::new();
        for position in self.at..self.tokens.len() {
            let TokenKind::Mark(mark) = self.token(position).kind else {
                if open.is_empty() {
                    return None;
                }
                continue;
            };
            match mark {
                "(" => open.push(")"),
                "[" => open.push("]"),
                "{" => open.push("}"),
                ")" | "]" | "}" if open.pop() != Some(mark) => return None,
                _ => {}
            }
            if open.is_empty() {
                return matches!(mark, ")" | "]" | "}").then_some(position);
            }
        }
        None
    }

    /// An error at the next token.
    pub(in crate::text) fn error(&self, message: impl Into<String>) -> ParseError {
        self.error_at(self.at, message)
    }

    /// An error at the token at `place`.
    pub(in crate::text) fn error_at(&self, place: usize, message: impl Into<String>) -> ParseError {
        let token = self.token(place);
        ParseError { line: token.line, column: token.column, message: message.into() }
    }

    /// The error that something else is next than what is needed.
    pub(in crate::text) fn expected(&self, what: &str) -> ParseError {
        self.error(format!("expected {what}, found {}", self.peek().describe()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_mark_closes_twice() {
        let mut cursor = Cursor::new("a<b<c>> = 1").unwrap();
        let mut steps = Vec::new();
        for mark in ["<", "<"] {
            steps.push(cursor.name().unwrap());
            cursor.expect(mark).unwrap();
        }
        steps.push(cursor.name().unwrap());
        cursor.expect(">").unwrap();
        assert_eq!(cursor.column(), 7);
        cursor.expect(">").unwrap();
        cursor.expect("=").unwrap();
        assert_eq!((steps, cursor.integer()), (vec!["a", "b", "c"], Ok(1)));
        assert!(cursor.is_end() && cursor.starts_line());
    }

    #[test]
    fn errors_say_what_and_where() {
        let mut cursor = Cursor::new("x\n  = -9223372036854775808 300").unwrap();
        assert!(cursor.starts_line());
        let place = cursor.place();
        cursor.name().unwrap();
        assert!(cursor.starts_line());
        assert_eq!(cursor.expect(";").unwrap_err().to_string(), "2:3: expected `;`, found `=`");
        cursor.expect("=").unwrap();
        assert_eq!(cursor.integer(), Ok(i64::MIN));
        assert_eq!(cursor.integer_of::<u8>().unwrap_err().to_string(), "2:26: 300 is out of range");
        assert_eq!(
            cursor.expect_word("end").unwrap_err().to_string(),
            "2:29: expected `end`, found the end of the text"
        );
        assert_eq!((cursor.since(place).line, cursor.since(place).end_column), (1, 29));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut cursor = Cursor::new("").unwrap();
        let levels = (0..1000).take_while(|_| cursor.enter().is_ok()).count();
        assert_eq!(levels, MOST_NESTING as usize);
        cursor.leave();
        assert!(cursor.enter().is_ok());
    }
}
