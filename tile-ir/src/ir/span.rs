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
}

impl Source {
    /// The text of line `line`, if the kernel covers it.
    pub fn line(&self, line: u32) -> Option<&str> {
        let index = line.checked_sub(self.first_line)?;
        self.lines.get(index as usize).map(String::as_str)
    }
}
