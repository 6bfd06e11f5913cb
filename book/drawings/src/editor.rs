//! An error in the editor: the source of a case of `tests/ui` and the message that `tests/ui.rs` compares with the compiler's.

use crate::canvas::{Canvas, WIDTH};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// The case that is shown.
const CASE: &str = "vector_unaligned";
/// The lines of its source that are shown, counted from 1.
const LINES: std::ops::RangeInclusive<usize> = 5..=12;

/// What a `.stderr` file says.
struct Message {
    /// The code and the sentence.
    head: String,
    /// The text at the place itself.
    at: String,
    /// The line that a note is about, and the note.
    note: (usize, String),
    help: String,
    line: usize,
    column: usize,
    width: usize,
}

fn read(text: &str) -> Result<Message> {
    let mut lines = text.lines();
    let head = lines.next().and_then(|line| line.strip_prefix("error: ")).context("no line `error: ..`")?;
    let at = lines.next().context("no text at the place")?.trim();
    let about = lines.next().and_then(|line| line.trim().strip_prefix("line ")).context("no note")?;
    let about = about.split(':').next().unwrap_or_default().parse().context("the note names no line")?;
    let note = lines.next().context("the note is empty")?.trim();
    let help = lines.next().and_then(|line| line.trim().strip_prefix("= help: ")).context("no help")?;
    let place = lines.next().and_then(|line| line.trim().strip_prefix("--> ")).context("no place")?;
    let numbers: Vec<usize> = place.rsplit(':').take(2).filter_map(|n| n.parse().ok()).collect();
    ensure!(numbers.len() == 2, "`{place}` has no line and column");
    let width = lines.last().map_or(0, |line| line.matches('^').count());
    ensure!(width > 0, "nothing is marked");
    let (at, help, head) = (at.to_owned(), help.to_owned(), head.to_owned());
    Ok(Message { head, at, note: (about, note.to_owned()), help, line: numbers[1], column: numbers[0], width })
}

/// Width of a character of the monospaced font at 12.5 pixels. Readers' fonts differ by a percent or two.
const ADVANCE: f64 = 7.53;

/// The drawing.
///
/// # Errors
/// The case is missing, or its message has another form.
pub fn draw(root: &Path) -> Result<Canvas> {
    let folder = root.join("tests/ui");
    let open = |ending: &str| {
        let path = folder.join(format!("{CASE}.{ending}"));
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
    };
    let (source, message) = (open("rs")?, open("stderr")?);
    let message = read(&message).with_context(|| format!("{CASE}.stderr"))?;
    ensure!(LINES.contains(&message.line), "the marked line is not shown");

    let line = source.lines().nth(message.line - 1).unwrap_or_default();
    let marked =
        line.get(message.column - 1..message.column - 1 + message.width).context("the mark is not in its line")?;
    let description = format!(
        "An editor shows a kernel. Below the expression `{}` there is a red wavy line, and a box says: {}. {}. {}. Help: {}.",
        marked, message.head, message.at, message.note.1, message.help
    );
    let mut c = Canvas::new(336.0, "A mistake in a kernel, shown while it is typed", &description);
    let (left, mut y) = (60.0, 34.0);
    c.left(16.0, y, "small faint", "first_rows.rs");
    c.line([0.0, y + 10.0], [WIDTH, y + 10.0], "thin");
    y += 32.0;
    for (number, line) in source.lines().enumerate().map(|(i, line)| (i + 1, line)) {
        if !LINES.contains(&number) {
            continue;
        }
        c.left(20.0, y, "mono faint", &format!("{number:>2}"));
        // The marker of the test is no part of what an author wrote.
        spans(&mut c, left, y, line.trim_end_matches("//~").trim_end());
        if number == message.line {
            let x = left + (message.column - 1) as f64 * ADVANCE;
            c.squiggle(x, y + 4.0, message.width as f64 * ADVANCE);
            y = popup(&mut c, left + 8.0 * ADVANCE, y + 12.0, &message);
        } else {
            y += 19.0;
        }
    }
    Ok(c)
}

/// The box with the message; the baseline of the line that follows it.
fn popup(c: &mut Canvas, x: f64, y: f64, message: &Message) -> f64 {
    let (w, h) = (WIDTH - x - 16.0, 108.0);
    c.rect(x, y, w, h, "panel");
    c.rect(x, y, 4.0, h, "warn");
    let (x, mut y) = (x + 14.0, y + 20.0);
    c.left(x, y, "strong bad", &message.head);
    let (evidence, rest) = message.at.split_once("; ").unwrap_or((&message.at, ""));
    for (class, line) in [
        ("", format!("{evidence};")),
        ("", rest.to_owned()),
        ("faint", format!("line {}: {}", message.note.0, message.note.1)),
        ("strong", format!("help: {}", message.help)),
    ] {
        y += 20.0;
        c.left(x, y, class, &line);
    }
    y + 30.0
}

/// A line of Rust with its keywords and types coloured: enough for these few lines.
fn spans(c: &mut Canvas, x: f64, y: f64, line: &str) {
    let is_word = |ch: char| ch.is_alphanumeric() || ch == '_';
    let mut column = 0;
    while column < line.len() {
        let rest = &line[column..];
        let end = match rest.starts_with(is_word) {
            true => rest.find(|ch| !is_word(ch)),
            false => rest.find(is_word),
        };
        let part = &rest[..end.unwrap_or(rest.len())];
        let class = match part {
            "pub" | "fn" | "let" | "mut" | "for" | "in" => "mono keyword",
            "Tensor" | "f16" | "f32" | "tile_kernel" | "Fixed" | "usize" => "mono name",
            _ => "mono",
        };
        let text = part.trim_start();
        let skipped = part.len() - text.len();
        if !text.trim().is_empty() {
            c.left(x + (column + skipped) as f64 * ADVANCE, y, class, text.trim_end());
        }
        column += part.len();
    }
}
