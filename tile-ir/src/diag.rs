//! Diagnostics: one mistake, in the author's words, with the numbers and the fix.

use crate::ir::{Kernel, Source, Span, SpanId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A stable diagnostic code, `TK####`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Code(pub u16);

macro_rules! codes {
    (while typing: $code:expr) => {
        $code
    };
    ($(#[doc = $doc:literal] $name:ident = $number:literal $(while $moment:ident)?;)*) => {
        impl Code {
            $(#[doc = $doc] pub const $name: Code = Code($number);)*
            /// Every code, with its meaning.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code($number), $doc),)*];
            /// The codes that a kernel's author may meet in the editor, launch or no launch.
            const WHILE_TYPING: &'static [Code] = &[$($(codes!(while $moment: Code($number)),)?)*];
        }
    };
}

codes! {
    // 01: shapes and dtypes
    #[doc = " A shape, rank or extent does not fit."]
    SHAPE = 101 while typing;
    #[doc = " Tiles of a tile operation differ in shape."]
    TILE_SHAPE = 102 while typing;
    #[doc = " A dtype is not allowed here."]
    DTYPE = 103 while typing;
    #[doc = " A dimension is declared or used wrongly."]
    DIM = 104 while typing;
    // 02: alignment, vectors, hardware legality
    #[doc = " A global vector access is not provably aligned."]
    VECTOR_ALIGNMENT = 201 while typing;
    #[doc = " A shared vector access is misaligned."]
    SHARED_ALIGNMENT = 202 while typing;
    #[doc = " An access in a vectorised loop is not one transaction."]
    VECTOR_SHAPE = 203 while typing;
    #[doc = " A masked vector access may straddle the edge of its tensor."]
    VECTOR_STRADDLE = 204 while typing;
    #[doc = " The hardware has no such operation."]
    ILLEGAL_OPERATION = 205 while typing;
    // 03: bounds
    #[doc = " Proven out of bounds."]
    OUT_OF_BOUNDS = 301 while typing;
    #[doc = " A guard the compiler added has fired."]
    GUARD_FIRED = 302;
    #[doc = " An index is negative or overflows."]
    INDEX_OVERFLOW = 303 while typing;
    #[doc = " An uninitialised element is read."]
    UNINITIALISED = 304 while typing;
    #[doc = " An index may not fit 64 bits."]
    INDEX_WIDTH = 305 while typing;
    #[doc = " A loop's step or the number of a shift may be out of its range."]
    OPERAND_RANGE = 306 while typing;
    #[doc = " An element of an output that no thread wrote."]
    UNWRITTEN = 307;
    // 04: synchronisation and races
    #[doc = " Two threads race."]
    RACE = 401 while typing;
    #[doc = " A barrier or collective is not reached by every thread."]
    DIVERGENT_BARRIER = 402 while typing;
    #[doc = " Shared memory is used while an asynchronous copy into it is in flight."]
    IN_FLIGHT = 403;
    #[doc = " Threads wait for each other for ever."]
    DEADLOCK = 404;
    #[doc = " Blocks race in global memory."]
    GLOBAL_RACE = 405 while typing;
    #[doc = " The compiled program has an effect outside of the kernel's grid."]
    OUTSIDE_THE_GRID = 406;
    #[doc = " What a `parallel` loop does depends on the thread that does it."]
    THREAD_DEPENDENT = 407 while typing;
    #[doc = " The count of a `last_arriver` is not the number of blocks that come."]
    ARRIVALS = 408 while typing;
    // 05: resources
    #[doc = " Too much shared memory."]
    SHARED_BUDGET = 501 while typing;
    #[doc = " Too many threads, or a thread extent of zero."]
    THREAD_COUNT = 502 while typing;
    #[doc = " Too many registers."]
    REGISTER_BUDGET = 503 while typing;
    #[doc = " A declared target allows no instance."]
    TARGET_REFUSED = 504 while typing;
    // 06: performance lints
    #[doc = " Shared-memory bank conflicts."]
    BANK_CONFLICT = 601 while typing;
    #[doc = " Uncoalesced global access."]
    UNCOALESCED = 602;
    #[doc = " A request was met by a lesser form."]
    FALLBACK = 603 while typing;
    #[doc = " A plain access that nothing keeps in bounds."]
    UNGUARDED = 604 while typing;
    #[doc = " A plain index that may be negative."]
    SIGN = 605 while typing;
    #[doc = " A tensor that may be written and is not, or an array that is written and not read."]
    UNUSED = 608 while typing;
    // 07: launch
    #[doc = " An argument's rank, dtype or extent is wrong."]
    LAUNCH_ARGUMENT = 701;
    #[doc = " A `require` is broken."]
    LAUNCH_REQUIRE = 702 while typing;
    #[doc = " An argument's strides or alignment are wrong."]
    LAUNCH_ALIGNMENT = 703;
    #[doc = " Arguments overlap or live elsewhere."]
    LAUNCH_ALIAS = 704;
    #[doc = " The launch exceeds a limit of the device or of 32-bit indices."]
    LAUNCH_LIMIT = 705 while typing;
    #[doc = " No such instance."]
    INSTANCE = 706 while typing;
    // 08: syntax outside the language
    #[doc = " Syntax outside the language."]
    SYNTAX = 801 while typing;
    #[doc = " A name is unknown."]
    UNKNOWN_NAME = 802 while typing;
    #[doc = " A call has the wrong arguments."]
    CALL = 803 while typing;
    #[doc = " A construct stands where it may not."]
    PLACEMENT = 804 while typing;
    #[doc = " The attribute is wrong."]
    ATTRIBUTE = 805 while typing;
    #[doc = " A constant is required."]
    NOT_CONSTANT = 806 while typing;
    #[doc = " Operand types differ or do not fit."]
    TYPE = 807 while typing;
    #[doc = " Called functions are too much to be written out."]
    WRITTEN_SIZE = 808 while typing;
    #[doc = " `device_assert` failed."]
    ASSERT = 901;
    #[doc = " The compiler made a program that breaks a rule of its own."]
    COMPILER = 902;
}

impl Code {
    /// Whether it is reported while a kernel is typed, and not by launches and simulators alone.
    pub fn appears_while_typing(self) -> bool {
        Code::WHILE_TYPING.contains(&self)
    }

    /// Whether `lints(..)` says how it is reported; any other is an error.
    pub fn is_lint(self) -> bool {
        self.0 / 100 == 6 || self == Code::TARGET_REFUSED
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TK{:04}", self.0)
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Its family and kind.
    pub code: Code,
    /// What is wrong, in one sentence, with numbers.
    pub message: String,
    /// The exact place.
    pub primary: SpanId,
    /// What to say at the exact place; may be empty.
    pub at: String,
    /// Other places, each with what it shows.
    pub labels: Vec<(SpanId, String)>,
    /// Evidence.
    pub notes: Vec<String>,
    /// What to do: text that can be pasted.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic with a message at a place.
    pub fn new(code: Code, primary: SpanId, message: impl Into<String>) -> Self {
        let (labels, notes) = (Vec::new(), Vec::new());
        Diagnostic { code, message: message.into(), primary, at: String::new(), labels, notes, help: None }
    }

    /// Says something at the primary place.
    pub fn at(mut self, text: impl Into<String>) -> Self {
        self.at = text.into();
        self
    }

    /// Points to another place.
    pub fn label(mut self, span: SpanId, text: impl Into<String>) -> Self {
        self.labels.push((span, text.into()));
        self
    }

    /// Adds evidence.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// The text rustc shows after `error: ` when the diagnostic is raised at its primary place: message, labelled
    /// lines, notes and help.
    pub fn compiler_text(&self, kernel: &Kernel) -> String {
        let mut text = format!("[{}] {}", self.code, self.message);
        if !self.at.is_empty() {
            text += &format!("\n       {}", self.at);
        }
        for (span, label) in &self.labels {
            text += &labelled_line(&kernel.source, kernel.spans.get(self.primary), kernel.spans.get(*span), label);
        }
        for note in &self.notes {
            text += &format!("\n= note: {note}");
        }
        if let Some(help) = &self.help {
            text += &format!("\n= help: {help}");
        }
        text
    }

    /// The whole report in rustc's layout, source lines included, for reports made at run time.
    pub fn render(&self, source: &Source, spans: &crate::ir::PrimaryMap<SpanId, Span>) -> String {
        render::render(self, source, spans)
    }
}

/// A mistake of the compiler: something that cannot be, or a program that breaks a rule of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The statement that it was made of.
    pub span: SpanId,
    /// What is wrong with the program.
    pub text: String,
}

impl Bug {
    /// At a statement.
    pub fn new(span: SpanId, text: impl Into<String>) -> Bug {
        Bug { span, text: text.into() }
    }

    /// What its author is told.
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::new(Code::COMPILER, self.span, "this is a mistake of the compiler, not of the kernel")
            .at(self.text.clone())
            .help("please report it with what `cargo tile show` prints for this kernel with `--format lowered`")
    }
}

/// A line and what it shows; with its file where that is not the one rustc shows the primary place in.
fn labelled_line(source: &Source, primary: Option<&Span>, span: Option<&Span>, label: &str) -> String {
    match span.and_then(|s| source.line_of(*s).map(|text| (s, text.trim()))) {
        Some((span, text)) => {
            let file = &source.text_of(*span).file;
            let shown = primary.map_or(&source.file, |primary| &source.text_of(*primary).file);
            let elsewhere = if file == shown { String::new() } else { format!(" of {file}") };
            // Of what a macro has made there is no text.
            let quoted = if text.is_empty() { String::new() } else { format!(": `{text}`") };
            format!("\n  line {}{elsewhere}{quoted}\n       {label}", span.line)
        }
        None => format!("\n       {label}"),
    }
}

mod render {
    use super::*;

    pub(super) fn render(d: &Diagnostic, source: &Source, spans: &crate::ir::PrimaryMap<SpanId, Span>) -> String {
        let mut text = format!("error: [{}] {}", d.code, d.message);
        let mut places = vec![(spans.get(d.primary).copied().unwrap_or_default(), d.at.as_str(), '^')];
        places.extend(d.labels.iter().map(|(s, t)| (spans.get(*s).copied().unwrap_or_default(), t.as_str(), '-')));
        let width = places.iter().map(|p| p.0.line.to_string().len()).max().unwrap_or(1);
        let mut file = &source.text_of(places[0].0).file;
        if !file.is_empty() {
            let first = places[0].0;
            text += &format!("\n{:width$}--> {file}:{}:{}", "", first.line, first.column);
        }
        text += &format!("\n{:width$} |", "");
        let primary = places[0].0.text;
        places[..].sort_by_key(|p| (p.0.text != primary, p.0.text, p.0.line, p.0.column));
        for (span, label, mark) in places {
            let Some(line) = source.line_of(span) else { continue };
            let other = &source.text_of(span).file;
            if other != file {
                file = other;
                text += &format!("\n{:width$}::: {file}:{}:{}", "", span.line, span.column);
            }
            text += &format!("\n{:>width$} | {line}", span.line);
            let start = span.column.saturating_sub(1) as usize;
            let end = if span.end_line == span.line { span.end_column } else { line.chars().count() as u32 + 1 };
            let length = (end.saturating_sub(span.column) as usize).max(1);
            text += &format!("\n{:width$} | {:start$}{} {label}", "", "", mark.to_string().repeat(length));
            text.truncate(text.trim_end().len());
        }
        for note in &d.notes {
            text += &format!("\n{:width$} = note: {note}", "");
        }
        if let Some(help) = &d.help {
            text += &format!("\n{:width$} = help: {help}", "");
        }
        text
    }
}
