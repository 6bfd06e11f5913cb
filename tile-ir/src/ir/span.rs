//! Where in the author's source something is.

use serde::{Deserialize, Serialize};

/// A range of the author's source. Lines count from 1, columns from 1 (in characters); the end is exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// Column after the last character.
    pub end_column: u32,
    /// Which text: 0 is the kernel's own, `n` is `Source::functions[n - 1]`.
    pub text: u32,
}

/// The kernel's own source text, so that a report made long after expansion can show the line it is about.
///
/// Columns are exact; the text is rebuilt from tokens where the compiler has none, and comments are then absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Path of the file as the compiler saw it; empty where it is unknown.
    pub file: String,
    /// Line number of `lines[0]`.
    pub first_line: u32,
    /// The kernel's lines.
    pub lines: Vec<String>,
    /// The texts of the `#[tile_fn]`s that the kernel calls, each with its own file; none has functions itself.
    pub functions: Vec<Source>,
}

impl Source {
    /// The text a place is in.
    pub fn text_of(&self, span: Span) -> &Source {
        let function = (span.text as usize).checked_sub(1).and_then(|index| self.functions.get(index));
        function.unwrap_or(self)
    }

    /// The first line of a place, if its text covers it.
    pub fn line_of(&self, span: Span) -> Option<&str> {
        self.text_of(span).line(span.line)
    }

    /// The text of a place, its lines joined by spaces, if the text covers all of it.
    pub fn text_at(&self, span: Span) -> Option<String> {
        let text = self.text_of(span);
        let part = |line: u32| {
            let from = if line == span.line { span.column.saturating_sub(1) } else { 0 };
            let to = if line == span.end_line { span.end_column.saturating_sub(1) } else { u32::MAX };
            let part: String = text.line(line)?.chars().take(to as usize).skip(from as usize).collect();
            Some(part.trim().to_owned())
        };
        let parts: Option<Vec<String>> = (span.line..=span.end_line).map(part).collect();
        parts.map(|parts| parts.join(" ")).filter(|text| !text.is_empty())
    }

    /// The text of line `line`, if the kernel covers it.
    pub fn line(&self, line: u32) -> Option<&str> {
        let index = line.checked_sub(self.first_line)?;
        self.lines.get(index as usize).map(String::as_str)
    }
}
