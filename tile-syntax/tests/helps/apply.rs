//! A help, read as its reader does: which text goes where.

use super::run::Said;

/// One change of a kernel's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Lines before the one of this number.
    Before(usize, String),
    /// Lines after it.
    After(usize, String),
    /// A line before the end of the loop that begins in it.
    LoopEnd(usize, String),
    /// A condition around the statement of this line, or of the marked place.
    Around(Option<usize>, String),
    /// Something else in the marked place.
    Replace(String),
    /// Another statement in place of the one that has the marked place.
    Statement(String),
    /// One more item among those of `#[tile_kernel(..)]`, or in place of the one of the same name.
    Attribute(String),
    /// Lines at the beginning of the body.
    Begin(String),
    /// Text of the marked line that goes.
    Drop(String),
    /// Text of the marked line, and what stands there instead.
    Instead(String, String),
}

/// Words before the code, and what they ask for.
const REPLACES: [&str; 8] = [
    "write ",
    "convert it: ",
    "or read ",
    "read ",
    "borrow it: ",
    "one dim is written ",
    "a constant extent is written ",
    "is always",
];

/// The changes that a help offers; several where its reader may choose.
pub fn edits(help: &str) -> Vec<Edit> {
    let parts: Vec<&str> = help.split('`').collect();
    let mut edits = vec![];
    for at in (1..parts.len()).step_by(2) {
        let (before, code, after) = (parts[at - 1], parts[at], parts.get(at + 1).copied().unwrap_or_default());
        let line = |words: &str| -> Option<usize> {
            let digits: String = after.strip_prefix(words)?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let condition = code.strip_prefix("if ").and_then(|rest| rest.strip_suffix(" { .. }"));
        let is_item = ["require(", "instances(", "targets(", "partial(", "dtypes(", "uses("]
            .iter()
            .any(|item| code.starts_with(item) && !code.contains(".."));
        if before.ends_with("if it is, put ") {
            // What follows is for a reader whose indices are in order.
            return edits;
        }
        // `r..r + 64` of one's own names, not what stands for code.
        let is_range = code.split_once("..").is_some_and(|(from, to)| {
            let is_part = |text: &str| !text.is_empty() && text.trim() == text && !text.contains(['[', ']', '.', '{']);
            before.ends_with("write ") && is_part(from) && is_part(to)
        });
        let is_example =
            code.contains("..") && !is_range && condition.is_none() || code.contains('{') && condition.is_none();
        if is_example {
            continue;
        }
        if let Some(number) = line(" before line ").or(line(" before the loop of line ")) {
            edits.push(Edit::Before(number, code.into()));
        } else if let Some(number) = line(" after line ") {
            edits.push(Edit::After(number, code.into()));
        } else if let Some(number) = line(" at the end of the loop of line ") {
            edits.push(Edit::LoopEnd(number, code.into()));
        } else if let Some(condition) = condition.filter(|_| before.ends_with("put ")) {
            edits.push(Edit::Around(line(" around line "), condition.into()));
        } else if is_item {
            edits.push(Edit::Attribute(code.into()));
        } else if before.ends_with("begin with ")
            || before.contains("begin the body with ")
            || [before, after].iter().any(|text| text.contains("at the beginning of the body"))
        {
            edits.push(Edit::Begin(code.into()));
        } else if before.ends_with("make the update atomic: ") || before.ends_with("in place of the statement ") {
            edits.push(Edit::Statement(format!("{code};")));
        } else if before.ends_with("store to ") || after.starts_with(" is always inside") {
            edits.push(Edit::Replace(code.into()));
        } else if before.ends_with("drop ") || before.ends_with("remove ") || before.ends_with("remove the ") {
            edits.push(Edit::Drop(code.into()));
        } else if let Some(new) = after.strip_prefix(" by ").filter(|_| before.ends_with("replace ")) {
            assert!(new.is_empty(), "one code by another");
            edits.push(Edit::Instead(code.into(), parts.get(at + 2).copied().unwrap_or_default().into()));
        } else if before == " or " && matches!(edits.last(), Some(Edit::Replace(_))) {
            edits.push(Edit::Replace(code.into()));
        } else if REPLACES.iter().any(|words| before.ends_with(words)) {
            let is_statement = code.ends_with(';') || code.contains(" = ");
            edits.push(match is_statement {
                true => Edit::Statement(format!("{};", code.trim_end_matches(';'))),
                false => Edit::Replace(code.into()),
            });
        }
    }
    edits
}

/// The text with the change made.
pub fn apply(text: &str, said: &Said, edit: &Edit) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (line, start, end) = said.place;
    let marked = line - 1;
    let byte = |column: usize| text.lines().nth(marked).unwrap().char_indices().nth(column).map(|(at, _)| at);
    match edit {
        Edit::Before(number, code) => lines.insert(number - 1, code.clone()),
        Edit::After(number, code) => lines.insert(*number, code.clone()),
        Edit::LoopEnd(number, code) => {
            let end = block_end(&lines, number - 1);
            lines.insert(end, code.clone());
        }
        Edit::Around(number, condition) => {
            let first = number.map_or(marked, |number| number - 1);
            let last = block_end(&lines, first);
            lines[first].insert_str(0, &format!("if {condition} {{ "));
            lines[last].push_str(" }");
        }
        Edit::Replace(code) => {
            let (from, to) = (byte(start).unwrap(), byte(end).unwrap_or(lines[marked].len()));
            lines[marked].replace_range(from..to, code);
        }
        Edit::Statement(code) => {
            let from = lines[marked][..byte(start).unwrap()].rfind(['{', ';']).map_or(0, |at| at + 1);
            let to = from + lines[marked][from..].find(';').expect("a statement on one line") + 1;
            lines[marked].replace_range(from..to, code);
        }
        Edit::Attribute(item) => {
            let last = lines.iter().position(|line| line.ends_with(']')).expect("an attribute");
            let mut text: String = lines.drain(..=last).collect::<Vec<_>>().join("\n");
            attribute(&mut text, item);
            lines.insert(0, text);
        }
        Edit::Begin(code) => {
            let body = lines.iter().position(|line| line.ends_with('{')).expect("a body");
            lines.insert(body + 1, format!("{};", code.trim_end_matches(';')));
        }
        Edit::Drop(code) => lines[marked] = lines[marked].replacen(code.as_str(), "", 1),
        Edit::Instead(old, new) => lines[marked] = lines[marked].replacen(old.as_str(), new, 1),
    }
    lines.join("\n") + "\n"
}

/// The last line of the statement that begins in a line.
fn block_end(lines: &[String], first: usize) -> usize {
    let mut depth = 0;
    for (number, line) in lines.iter().enumerate().skip(first) {
        depth += line.matches('{').count();
        depth -= line.matches('}').count().min(depth);
        if depth == 0 {
            return number;
        }
    }
    first
}

/// Puts an item into `#[tile_kernel]` or `#[tile_kernel(..)]`, in place of one of its name if there is one.
fn attribute(line: &mut String, item: &str) {
    let name = item.split('(').next().unwrap_or_default();
    if let Some(at) = line.find(&format!("{name}(")) {
        let end = at + line[at..].find(')').unwrap() + 1;
        line.replace_range(at..end, item);
    } else if let Some(at) = line.rfind(")]") {
        let comma = if line[..at].trim_end().ends_with([',', '(']) { "" } else { ", " };
        line.insert_str(at, &format!("{comma}{item}"));
    } else {
        *line = line.replacen("#[tile_kernel]", &format!("#[tile_kernel({item})]"), 1);
    }
}
