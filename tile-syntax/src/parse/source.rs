//! Positions of tokens, and the kernel's own text rebuilt from them.

use super::range::Range;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use tile_ir::ir;

/// The lines and columns of a range.
pub(super) fn position(range: Range) -> ir::Span {
    let (start, end) = (range.first.start(), range.last.end());
    ir::Span {
        line: start.line as u32,
        column: start.column as u32 + 1,
        end_line: end.line as u32,
        end_column: end.column as u32 + 1,
        text: 0,
    }
}

/// The text of some token streams, in order, with the file of the last.
pub(super) fn source(streams: &[&TokenStream]) -> ir::Source {
    let mut page = Page::default();
    for stream in streams {
        page.stream(stream);
    }
    let file = streams.iter().rev().find_map(|s| (*s).clone().into_iter().next()).map(|t| file(t.span()));
    ir::Source {
        file: file.unwrap_or_default(),
        first_line: page.first_line as u32,
        lines: page.lines,
        functions: vec![],
    }
}

fn file(span: proc_macro2::Span) -> String {
    // Where the compiler does not know a file it answers with something in angle brackets.
    let name = span.file();
    if name.starts_with('<') { String::new() } else { name }
}

fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(ident)) if ident == "doc")
}

/// A page that tokens are put on, each at its own line and column.
#[derive(Default)]
struct Page {
    first_line: usize,
    lines: Vec<String>,
    /// The column after the last character of the last line.
    column: usize,
}

/// A page longer than this has positions that cannot be trusted.
const MOST_LINES: usize = 4_000;

impl Page {
    fn stream(&mut self, stream: &TokenStream) {
        let mut tokens = stream.clone().into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                // A doc comment: the tokens it is made into all have its own place.
                TokenTree::Punct(hash) if hash.as_char() == '#' && tokens.next_if(is_doc).is_some() => {}
                TokenTree::Group(group) => self.group(&group),
                token => self.put(token.span(), || token.to_string()),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        // One call gives the text of a whole body, comments included; a group that a macro made has none.
        let whole = group.span();
        let spread = whole.start().line < whole.end().line;
        if spread && let Some(text) = whole.source_text() {
            return self.put(whole, || text);
        }
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => return self.stream(&group.stream()),
        };
        self.put(group.span_open(), || open.to_owned());
        self.stream(&group.stream());
        self.put(group.span_close(), || close.to_owned());
    }

    /// Tokens that lie before what is already written (a doc comment's made-up tokens, a macro's) are left out.
    fn put(&mut self, span: proc_macro2::Span, text: impl FnOnce() -> String) {
        let start = span.start();
        if start.line == 0 {
            return;
        }
        if self.lines.is_empty() {
            self.first_line = start.line;
            self.lines.push(String::new());
        }
        let last = self.first_line + self.lines.len() - 1;
        if start.line < last || start.line - self.first_line >= MOST_LINES {
            return;
        }
        if start.line > last {
            self.lines.resize(start.line - self.first_line + 1, String::new());
            self.column = 0;
        }
        if start.column < self.column || start.column > 4096 {
            return;
        }
        for (index, line) in text().lines().enumerate() {
            if index == 0 {
                let Some(current) = self.lines.last_mut() else { return };
                current.extend(std::iter::repeat_n(' ', start.column - self.column));
                current.push_str(line);
                self.column = start.column + line.chars().count();
            } else {
                self.lines.push(line.to_owned());
                self.column = line.chars().count();
            }
        }
    }
}

/// Tokens as one line of text, spaced as the author spaced them.
pub(super) fn text(tokens: &TokenStream) -> String {
    let mut line = Line::default();
    line.stream(tokens);
    if line.placed { line.text } else { tokens.to_string() }
}

#[derive(Default)]
struct Line {
    text: String,
    /// Line and column after the last token.
    end: Option<(usize, usize)>,
    /// Whether tokens have positions of their own.
    placed: bool,
}

impl Line {
    fn stream(&mut self, tokens: &TokenStream) {
        for token in tokens.clone() {
            let TokenTree::Group(group) = token else {
                self.put(token.span(), &token.to_string());
                continue;
            };
            let (open, close) = match group.delimiter() {
                Delimiter::Parenthesis => ("(", ")"),
                Delimiter::Brace => ("{", "}"),
                Delimiter::Bracket => ("[", "]"),
                Delimiter::None => ("", ""),
            };
            self.put(group.span_open(), open);
            self.stream(&group.stream());
            self.put(group.span_close(), close);
        }
    }

    fn put(&mut self, span: proc_macro2::Span, text: &str) {
        let (start, end) = (span.start(), span.end());
        if self.end.is_some_and(|end| end != (start.line, start.column)) {
            self.text.push(' ');
            self.placed |= self.end.is_some_and(|end| end < (start.line, start.column));
        } else if self.end.is_some() {
            self.placed = true;
        } else {
            self.placed = start != end;
        }
        self.text.push_str(text);
        self.end = Some((end.line, end.column));
    }
}
