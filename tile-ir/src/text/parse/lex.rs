//! Tokens: names, numbers, strings and punctuation, each with its line and column. Comments run from `//` to the end of the line.

use super::ParseError;

/// A piece of the text and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::text) struct Token<'t> {
    /// What it is.
    pub kind: TokenKind<'t>,
    /// Line of its first character, from 1.
    pub line: u32,
    /// Column of its first character, from 1, in characters.
    pub column: u32,
    /// Line of its last character: a string may hold line breaks.
    pub end_line: u32,
    /// Column after its last character.
    pub end_column: u32,
    /// The bytes of the text that it is.
    pub bytes: (usize, usize),
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::text) enum TokenKind<'t> {
    /// A name or keyword, also `r#name`.
    Name(&'t str),
    /// Digits without a point or an exponent, or `0x` and hexadecimal digits, and the name that follows them without a
    /// space: `5`, `5u32`, `0x1f`. There are no negative ones: the sign is punctuation.
    Int(u64, &'t str),
    /// Digits with a point or an exponent, and the name that follows them without a space: `0.5f32`, `1e-7`.
    Float(f64, &'t str),
    /// A string in quotation marks, its escapes resolved.
    Text(String),
    /// Punctuation, one of [`PUNCTUATION`].
    Mark(&'static str),
    /// The end of the text.
    End,
}

impl TokenKind<'_> {
    /// The token as an error message names it.
    pub(in crate::text) fn describe(&self) -> String {
        match self {
            TokenKind::Name(name) => format!("`{name}`"),
            TokenKind::Int(value, suffix) => format!("`{value}{suffix}`"),
            TokenKind::Float(value, suffix) => format!("`{value:?}{suffix}`"),
            TokenKind::Text(_) => "a string".to_owned(),
            TokenKind::Mark(mark) => format!("`{mark}`"),
            TokenKind::End => "the end of the text".to_owned(),
        }
    }
}

/// All punctuation; where several match, the longest is read.
pub(in crate::text) const PUNCTUATION: [&str; 36] = [
    "::", "..", "->", "=>", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "+=", "+", "-", "*", "/", "%", "&", "|",
    "^", "!", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "#",
];

/// The tokens of a text; the last one is [`TokenKind::End`], and no other is.
pub(in crate::text) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut lexer = Lexer { rest: text, line: 1, column: 1 };
    let at = |lexer: &Lexer<'_>| text.len() - lexer.rest.len();
    let mut all = Vec::new();
    loop {
        lexer.skip_blank();
        let (line, column, start) = (lexer.line, lexer.column, at(&lexer));
        let kind = lexer.token()?;
        let last = kind == TokenKind::End;
        let bytes = (start, at(&lexer));
        all.push(Token { kind, line, column, end_line: lexer.line, end_column: lexer.column, bytes });
        if last {
            return Ok(all);
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    line: u32,
    column: u32,
}

impl<'t> Lexer<'t> {
    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.line, column: self.column, message: message.into() }
    }

    /// Steps over what is `bytes` long, which ends at a character's boundary.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        for c in taken.chars() {
            if c == '\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else {
                self.column = self.column.saturating_add(1);
            }
        }
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'t str {
        let bytes = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        self.take(bytes)
    }

    fn skip_blank(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest.starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn token(&mut self) -> Result<TokenKind<'t>, ParseError> {
        let Some(first) = self.rest.chars().next() else { return Ok(TokenKind::End) };
        if starts_name(first) {
            return Ok(TokenKind::Name(self.name()));
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first == '"' {
            return self.string();
        }
        match PUNCTUATION.iter().find(|mark| self.rest.starts_with(**mark)) {
            Some(mark) => {
                self.take(mark.len());
                Ok(TokenKind::Mark(mark))
            }
            None => Err(self.error(format!("the character {first:?} means nothing here"))),
        }
    }

    fn name(&mut self) -> &'t str {
        let raw = self.rest.strip_prefix("r#").is_some_and(|rest| rest.starts_with(starts_name));
        let prefix = if raw { 2 } else { 0 };
        let after = &self.rest[prefix..];
        let bytes = after.find(|c| !continues_name(c)).unwrap_or(after.len());
        self.take(prefix + bytes)
    }

    fn number(&mut self) -> Result<TokenKind<'t>, ParseError> {
        if let Some(digits) = self.rest.strip_prefix("0x") {
            let bytes = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let value = u64::from_str_radix(&digits[..bytes], 16);
            let value = value.map_err(|_| self.error("this is no hexadecimal number of 64 bits"))?;
            self.take(2 + bytes);
            return Ok(TokenKind::Int(value, self.take_while(continues_name)));
        }
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let text = self.rest;
        let mut end = digits(text);
        let mut whole = true;
        // `0..8` is a range.
        if let Some(fraction) = text[end..].strip_prefix('.')
            && fraction.starts_with(|c: char| c.is_ascii_digit())
        {
            end += 1 + digits(fraction);
            whole = false;
        }
        if let Some(exponent) = text[end..].strip_prefix('e') {
            let sign = usize::from(exponent.starts_with(['-', '+']));
            let length = digits(&exponent[sign..]);
            if length > 0 {
                end += 1 + sign + length;
                whole = false;
            }
        }
        let number = &text[..end];
        if whole {
            let value = number.parse().map_err(|_| self.error(format!("`{number}` is larger than 64 bits hold")))?;
            self.take(end);
            return Ok(TokenKind::Int(value, self.take_while(continues_name)));
        }
        let value = number.parse().map_err(|_| self.error(format!("`{number}` is no number")))?;
        self.take(end);
        Ok(TokenKind::Float(value, self.take_while(continues_name)))
    }

    /// A string with the escapes that Rust's `{:?}` writes.
    fn string(&mut self) -> Result<TokenKind<'t>, ParseError> {
        let start = self.error("this string has no end");
        self.take(1);
        let mut text = String::new();
        loop {
            let Some(c) = self.rest.chars().next() else { return Err(start) };
            match c {
                '"' => {
                    self.take(1);
                    return Ok(TokenKind::Text(text));
                }
                '\\' => text.push(self.escape()?),
                c => {
                    self.take(c.len_utf8());
                    text.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let unknown = self.error("there is no such escape: write \\n, \\r, \\t, \\0, \\\\, \\\", \\' or \\u{..}");
        let mut chars = self.rest.chars().skip(1);
        let c = match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('0') => '\0',
            Some(c @ ('\\' | '"' | '\'')) => c,
            Some('u') => {
                let digits = self.rest[2..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let number = digits.and_then(|(digits, _)| Some((digits, u32::from_str_radix(digits, 16).ok()?)));
                let Some((digits, Some(c))) = number.map(|(digits, n)| (digits, char::from_u32(n))) else {
                    return Err(unknown);
                };
                self.take(4 + digits.len());
                return Ok(c);
            }
            _ => return Err(unknown),
        };
        self.take(2);
        Ok(c)
    }
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind<'_>> {
        let mut all: Vec<_> = tokens(text).unwrap().into_iter().map(|t| t.kind).collect();
        assert_eq!(all.pop(), Some(TokenKind::End));
        all
    }

    #[test]
    fn every_kind_of_token() {
        use TokenKind::*;
        let found = kinds("x_1 r#in 0..8 5u32 0x1f 0.5bf16 1e-7 2e3f32 a>>b \"q\\\"\\n\\u{e9}\" // the rest");
        let expected = [
            Name("x_1"),
            Name("r#in"),
            Int(0, ""),
            Mark(".."),
            Int(8, ""),
            Int(5, "u32"),
            Int(31, ""),
            Float(0.5, "bf16"),
            Float(1e-7, ""),
            Float(2000.0, "f32"),
            Name("a"),
            Mark(">>"),
            Name("b"),
            Text("q\"\né".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn tokens_have_places() {
        let all = tokens("é = 1;\n  // nothing\n  ab").unwrap();
        let places: Vec<_> = all.iter().map(|t| (t.line, t.column, t.end_line, t.end_column)).collect();
        assert_eq!(places, [(1, 1, 1, 2), (1, 3, 1, 4), (1, 5, 1, 6), (1, 6, 1, 7), (3, 3, 3, 5), (3, 5, 3, 5)]);
    }

    #[test]
    fn what_is_no_token_has_a_place() {
        let errors = ["a\n  ?", "\"open", "\"\\q\"", "\"\\u{d800}\"", "99999999999999999999", "0x", "0xg"];
        let found = errors.map(|text| tokens(text).unwrap_err().to_string());
        expect_test::expect![[r#"
            [
                "2:3: the character '?' means nothing here",
                "1:1: this string has no end",
                "1:2: there is no such escape: write \\n, \\r, \\t, \\0, \\\\, \\\", \\' or \\u{..}",
                "1:2: there is no such escape: write \\n, \\r, \\t, \\0, \\\\, \\\", \\' or \\u{..}",
                "1:1: `99999999999999999999` is larger than 64 bits hold",
                "1:1: this is no hexadecimal number of 64 bits",
                "1:1: this is no hexadecimal number of 64 bits",
            ]
        "#]]
        .assert_debug_eq(&found);
    }
}
