//! When each mistake is found: the codes of `tile_ir::diag`, by the earliest moment at which one may appear.

use crate::canvas::Canvas;
use tile_ir::diag::Code;

/// A code with its meaning.
type Entry = &'static (Code, &'static str);

/// What the first digits of a code stand for.
const FAMILIES: [(u16, &str); 8] = [
    (1, "shapes, dtypes"),
    (2, "alignment"),
    (3, "bounds"),
    (4, "barriers, races"),
    (5, "resources"),
    (6, "lints"),
    (7, "launch"),
    (8, "syntax"),
];

fn codes(at: impl Fn(Code) -> bool) -> Vec<Entry> {
    Code::ALL.iter().filter(|(code, _)| at(*code)).collect()
}

/// The drawing.
pub fn draw() -> Canvas {
    let is_launch = |code: Code| code.0 / 100 == 7;
    let typing = codes(Code::appears_while_typing);
    let launch = codes(|code| is_launch(code) && !code.appears_while_typing());
    let simulated = codes(|code| !is_launch(code) && !code.appears_while_typing() && !code.is_lint());
    let listed = |entries: &[Entry]| {
        entries
            .iter()
            .map(|(code, text)| format!("{code}{}", text.trim_end_matches('.')))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let description = format!(
        "While you type: {}. At the launch, besides: {}. On the checked simulator, besides: {}.",
        listed(&typing),
        listed(&launch),
        listed(&simulated)
    );
    let mut c = Canvas::new(436.0, "When each mistake is found", &description);

    head(
        &mut c,
        [16.0, 412.0],
        16.0,
        "a",
        "While you type",
        "the declared instances, in the editor and in cargo check",
    );
    for (row, (family, name)) in FAMILIES.iter().enumerate() {
        let y = 84.0 + row as f64 * 32.0;
        c.left(24.0, y + 15.0, "small", name);
        for (place, (code, _)) in typing.iter().filter(|(code, _)| code.0 / 100 == *family).enumerate() {
            c.label([130.0 + place as f64 * 37.0, y, 34.0, 21.0], "a", "cell", &format!("{:04}", code.0));
        }
    }
    for (line, text) in [
        "Codes without their `TK`. Of more than 40 instances and targets the",
        "first 40 are checked, and those with a new constant. What cannot be",
        "decided while typing is asked for as a `require`, guarded, or left",
        "to the launch and the simulator, which use the same code.",
    ]
    .iter()
    .enumerate()
    {
        c.left(24.0, 366.0 + 18.0 * line as f64, "small", text);
    }

    head(&mut c, [442.0, 262.0], 16.0, "e", "At the launch", "shapes, strides, addresses; nothing runs");
    let end = entries(&mut c, 442.0, 84.0, "e", &launch);
    head(&mut c, [442.0, 262.0], end + 12.0, "c", "On the checked simulator", "what depends on data; needs no GPU");
    entries(&mut c, 442.0, end + 80.0, "c", &simulated);
    c
}

fn head(c: &mut Canvas, [x, w]: [f64; 2], y: f64, class: &str, title: &str, text: &str) {
    c.rect(x, y, w, 54.0, class);
    c.left(x + 12.0, y + 23.0, "strong", title);
    c.left(x + 12.0, y + 42.0, "small", text);
}

/// Codes with their meanings, one below the other; where they end.
fn entries(c: &mut Canvas, x: f64, y: f64, class: &str, entries: &[Entry]) -> f64 {
    let mut y = y;
    for (code, meaning) in entries {
        c.label([x + 8.0, y, 34.0, 21.0], class, "cell", &format!("{:04}", code.0));
        let (first, second) = lines(meaning.trim().trim_end_matches('.'));
        let is_one = second.is_empty();
        c.left(x + 50.0, y + if is_one { 14.5 } else { 8.5 }, "cell", first);
        if !is_one {
            c.left(x + 50.0, y + 20.5, "cell", second);
        }
        y += 29.0;
    }
    y
}

/// A text in at most two lines.
fn lines(text: &str) -> (&str, &str) {
    let fits = 38;
    if text.len() <= fits {
        return (text, "");
    }
    let space = text.char_indices().filter(|(i, ch)| *ch == ' ' && *i <= fits).map(|(i, _)| i).next_back();
    space.map_or((text, ""), |space| (&text[..space], &text[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_appears_while_typing_has_a_family() {
        for (code, _) in codes(Code::appears_while_typing) {
            assert!(FAMILIES.iter().any(|(family, _)| code.0 / 100 == *family), "{code}");
        }
    }
}
