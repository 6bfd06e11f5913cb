//! Help texts that quote the author: what to write in place of a statement or an access, made from its own source text.
//!
//! Every function returns `None` where the text is not of the simple form that it knows; the caller then says what to do in words.

use crate::ir::{AtomicOp, Dtype, Source, Span};

/// The source text of a place that begins and ends on one line.
pub fn text(source: &Source, span: Span) -> Option<&str> {
    let line = source.line_of(span)?;
    if span.line != span.end_line {
        return None;
    }
    let (start, end) = (byte(line, span.column)?, byte(line, span.end_column)?);
    line.get(start..end).filter(|text| !text.is_empty())
}

/// The byte at a column, which counts characters from 1.
fn byte(line: &str, column: u32) -> Option<usize> {
    let skipped = column.checked_sub(1)? as usize;
    line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(skipped)
}

/// The statement around a place, without its semicolon, where it stands on one line.
fn statement(source: &Source, span: Span) -> Option<&str> {
    let line = source.line_of(span)?;
    let at = byte(line, span.column)?;
    let start = line[..at].rfind(['{', ';']).map_or(0, |found| found + 1);
    let end = at + line[at..].find(';')?;
    Some(line[start..end].trim())
}

/// `atomic_add(&mut h[v], 1)` where two accesses that race are those of the update `h[v] += 1` or `h[v] = h[v] + 1`; likewise for
/// `min` and `max`. An atomic cures no race with another element that the statement reads, such as `s[t + 64]` in `s[t] += s[t + 64]`.
pub fn atomic_update(source: &Source, dtype: Dtype, first: Span, second: Span) -> Option<String> {
    let statement = statement(source, first)?;
    let (place, value) = statement.split_once("+=").or_else(|| statement.split_once(" = "))?;
    let (place, value) = (place.trim(), value.trim());
    if first.line != second.line || [first, second].iter().any(|span| text(source, *span) != Some(place)) {
        return None;
    }
    if statement.contains("+=") {
        return atomic(AtomicOp::Add, dtype, place, value);
    }
    if let Some(rest) = value.strip_prefix(place) {
        return atomic(AtomicOp::Add, dtype, place, rest.trim_start().strip_prefix('+')?.trim());
    }
    for (op, word) in [(AtomicOp::Min, "min"), (AtomicOp::Max, "max")] {
        let inside = value.strip_prefix(word).and_then(|v| v.trim_start().strip_prefix('(')?.strip_suffix(')'));
        if let Some(rest) = inside.and_then(|inside| inside.strip_prefix(place)?.trim_start().strip_prefix(',')) {
            return atomic(op, dtype, place, rest.trim());
        }
    }
    None
}

fn atomic(op: AtomicOp, dtype: Dtype, place: &str, value: &str) -> Option<String> {
    let word = match op {
        AtomicOp::Add => "add",
        AtomicOp::Max => "max",
        AtomicOp::Min => "min",
    };
    let is_element = place.ends_with(']') && place.contains('[') && !place.contains(['{', '}', '=']);
    (op.supports(dtype) && is_element && !value.is_empty()).then(|| format!("atomic_{word}(&mut {place}, {value})"))
}

/// The name and the indices of the element `x[i]` or `x[[i, j]]` at a place: `("x", "i, j")`.
fn element(source: &Source, span: Span) -> Option<(&str, &str)> {
    let access = text(source, span)?;
    let (name, rest) = access.split_once('[')?;
    let inside = rest.strip_suffix(']')?;
    let indices = inside.strip_prefix('[').and_then(|i| i.strip_suffix(']')).unwrap_or(inside);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !indices.trim().is_empty()).then(|| (name, indices.trim()))
}

/// `x.masked([i, j])` for the element `x[[i, j]]` that is read at a place.
pub fn masked_load(source: &Source, span: Span) -> Option<String> {
    let (name, indices) = element(source, span)?;
    Some(format!("{name}.masked([{indices}])"))
}

/// `*y.masked_mut([i]) = v` for the assignment to the element `y[i]` at a place.
pub fn masked_store(source: &Source, span: Span) -> Option<String> {
    let (name, indices) = element(source, span)?;
    let (place, value) = statement(source, span)?.split_once('=')?;
    // Only a plain assignment to that very element.
    let is_plain = place.trim() == text(source, span)? && !value.starts_with('=');
    is_plain.then(|| format!("*{name}.masked_mut([{indices}]) = {}", value.trim()))
}

/// `let value = s[63 - t]; sync_threads(); s[t] = value;` for a statement `s[t] = s[63 - t]` or `s[t] += s[63 - t]` that has both places,
/// so that all threads have read before one writes.
pub fn split(source: &Source, first: Span, second: Span, sync: &str) -> Option<String> {
    let (statement, other) = (statement(source, first)?, statement(source, second)?);
    let (update, place, value) = match (statement.split_once("+="), statement.split_once(" = ")) {
        (Some((place, value)), _) => (true, place.trim(), value.trim()),
        (None, Some((place, value))) => (false, place.trim(), value.trim()),
        (None, None) => return None,
    };
    let is_place = [first, second].iter().any(|span| text(source, *span) == Some(place));
    if first.line != second.line || statement != other || !is_place || place.starts_with("let ") {
        return None;
    }
    let is_used = |name: &str| source.lines.iter().any(|line| line.contains(name));
    let name = ["value", "before", "read_first"].into_iter().find(|name| !is_used(name))?;
    let value = if update { format!("{place} + {value}") } else { value.to_owned() };
    Some(format!("let {name} = {value}; {sync} {place} = {name};"))
}

/// The line in which an array is allocated, if there is one such line.
pub fn allocation(source: &Source, name: &str) -> Option<u32> {
    let is_there =
        |line: &&String| line.contains(&format!("let mut {name} = alloc_")) && line.trim_end().ends_with(';');
    let mut found = source.lines.iter().enumerate().filter(|(_, line)| is_there(line));
    let (number, _) = found.next()?;
    found.next().is_none().then_some(source.first_line + number as u32)
}

/// Where a barrier may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Before this line.
    Before(u32),
    /// At the end of the loop that begins in this line.
    LoopEnd(u32),
    /// Within the one statement that makes both accesses.
    Within,
    /// Outside of the `if` around both.
    Outside,
}

/// Where a barrier between two accesses may stand, as far as the text says: not within an `if`, which some threads may skip. Where the accesses meet `again`, in
/// the next iteration of a loop around both, it stands at that loop's end.
pub fn barrier(source: &Source, first: Span, second: Span, again: bool) -> Option<Gap> {
    if first.text != second.text {
        return None;
    }
    let (first, second) = if second.line < first.line { (second, first) } else { (first, second) };
    let (above, around) = (blocks(source, first)?, blocks(source, second)?);
    let common = above.iter().zip(&around).take_while(|(a, b)| a == b).count();
    let is_if = |block: &Block| !block.is_loop;
    if again {
        let inner = around[..common].iter().rposition(|block| block.is_loop)?;
        let is_everywhere = !around[..inner].iter().any(is_if);
        return Some(if is_everywhere { Gap::LoopEnd(around[inner].line) } else { Gap::Outside });
    }
    Some(match around.get(common) {
        _ if around[..common].iter().any(is_if) => Gap::Outside,
        Some(block) if block.line > first.line => Gap::Before(block.line),
        Some(_) => return None,
        None if first.line < second.line => Gap::Before(second.line),
        None => Gap::Within,
    })
}

/// A block of statements within a kernel's body.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Block {
    /// The line in which its statement begins.
    line: u32,
    /// Whether it is a loop that all threads run alike, as far as its words say.
    is_loop: bool,
}

/// The blocks of the body around a place, outermost first.
fn blocks(source: &Source, span: Span) -> Option<Vec<Block>> {
    let source = source.text_of(span);
    let (mut open, mut closed): (Vec<Block>, Option<Block>) = (vec![], None);
    for (number, line) in source.lines.iter().enumerate() {
        let number = source.first_line + number as u32;
        let end = if number == span.line { byte(line, span.column)? } else { line.len() };
        // Braces in a text are none of a block.
        let mut in_text = false;
        for (at, c) in line[..end].char_indices() {
            match c {
                '"' => in_text = !in_text,
                '/' if !in_text && line[at..].starts_with("//") => break,
                '{' if !in_text => {
                    let head = line[..at].rsplit(['{', '}', ';']).next().unwrap_or_default().trim_start();
                    let begins = |words: &[&str]| words.iter().any(|word| head.starts_with(word));
                    let is_loop = begins(&["for ", "while ", "loop"])
                        && !["vectorized(", "parallel("].iter().any(|word| head.contains(word));
                    // The arms of an `if` are parts of one statement.
                    let line = if begins(&["else"]) { closed?.line } else { number };
                    // Of a condition of several lines it is not known where it begins.
                    if !open.is_empty() && !is_loop && !begins(&["if ", "else", "for "]) {
                        return None;
                    }
                    open.push(Block { line, is_loop });
                }
                '}' if !in_text => {
                    closed = Some(open.pop()?);
                }
                _ => {}
            }
        }
        if number == span.line {
            // The body itself is no block of it.
            return (!open.is_empty()).then(|| open.split_off(1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A one-line source, and the place of `part` in it.
    fn at(line: &str, part: &str) -> (Source, Span) {
        let column = line[..line.find(part).unwrap()].chars().count() as u32 + 1;
        let end_column = column + part.chars().count() as u32;
        let source = Source { first_line: 7, lines: vec![line.into()], ..Source::default() };
        (source, Span { line: 7, column, end_line: 7, end_column, text: 0 })
    }

    fn update(line: &str, part: &str) -> Option<String> {
        let (source, span) = at(line, part);
        atomic_update(&source, Dtype::U32, span, span)
    }

    #[test]
    fn an_update_in_place_becomes_an_atomic() {
        assert_eq!(update("    h[v] += 1;", "h[v]").as_deref(), Some("atomic_add(&mut h[v], 1)"));
        assert_eq!(
            update("if i < N { h[[v, 0]] += w * 2; }", "h[[v, 0]]").as_deref(),
            Some("atomic_add(&mut h[[v, 0]], w * 2)")
        );
        assert_eq!(
            update("counts[value] = counts[value] + 1;", "counts[value]").as_deref(),
            Some("atomic_add(&mut counts[value], 1)")
        );
        assert_eq!(update("m[0] = max(m[0], v);", "m[0]").as_deref(), Some("atomic_max(&mut m[0], v)"));
    }

    #[test]
    fn other_statements_do_not() {
        assert_eq!(update("h[v] = x[i] + h[v];", "h[v]"), None);
        assert_eq!(update("h[v] = h[v] * 2;", "h[v]"), None);
        assert_eq!(update("acc += h[v];", "h[v]"), None);
        assert_eq!(update("h[v] -= 1;", "h[v]"), None);
        let (source, span) = at("m[0] = max(m[0], v);", "m[0]");
        assert_eq!(atomic_update(&source, Dtype::F32, span, span), None, "f32 has no atomic maximum");
        // The race is with another element.
        let ((source, place), (_, other)) = (at("s[t] += s[t + 64];", "s[t]"), at("s[t] += s[t + 64];", "s[t + 64]"));
        assert_eq!(atomic_update(&source, Dtype::F32, place, other), None);
    }

    #[test]
    fn elements_are_masked() {
        let (source, span) = at("let v = é + x[[i, row]];", "x[[i, row]]");
        assert_eq!(masked_load(&source, span).as_deref(), Some("x.masked([i, row])"));
        let (source, span) = at("if t < 3 { y[i] = v * 2.0; }", "y[i]");
        assert_eq!(masked_store(&source, span).as_deref(), Some("*y.masked_mut([i]) = v * 2.0"));
        let (source, span) = at("y[i] += v;", "y[i]");
        assert_eq!(masked_store(&source, span), None);
    }

    /// The place of `part` in the only line that has it.
    fn in_lines(source: &Source, part: &str) -> Span {
        let (number, line) = source.lines.iter().enumerate().find(|(_, line)| line.contains(part)).unwrap();
        let column = line.find(part).unwrap() as u32 + 1;
        let line = source.first_line + number as u32;
        Span { line, column, end_line: line, end_column: column + part.len() as u32, text: 0 }
    }

    fn between(text: &str, again: bool) -> Option<Gap> {
        let lines = text.lines().map(str::to_owned).collect();
        let source = Source { first_line: 1, lines, ..Source::default() };
        barrier(&source, in_lines(&source, "s[t]"), in_lines(&source, "s[u]"), again)
    }

    #[test]
    fn a_barrier_stands_where_all_threads_pass() {
        assert_eq!(between("fn k() {\ns[t] = 1;\nv = s[u];\n}", false), Some(Gap::Before(3)));
        assert_eq!(between("fn k() {\nif a {\ns[t] = 1;\n}\nif b {\nv = s[u];\n}\n}", false), Some(Gap::Before(5)));
        assert_eq!(between("fn k() {\nif a {\ns[t] = 1;\nv = s[u];\n}\n}", false), Some(Gap::Outside));
        assert_eq!(between("fn k() {\nif a {\ns[t] = 1;\n} else {\nv = s[u];\n}\n}", false), Some(Gap::Outside));
        assert_eq!(
            between("fn k() {\nfor k in 0..n {\ns[t] = 1;\nif a { v = s[u]; }\n}\n}", true),
            Some(Gap::LoopEnd(2))
        );
        assert_eq!(
            between("fn k() {\nif a {\nfor k in 0..n {\ns[t] = 1;\nv = s[u];\n}\n}\n}", true),
            Some(Gap::Outside)
        );
        assert_eq!(between("fn k() {\ns[t] = s[u];\n}", false), Some(Gap::Within));
        assert_eq!(
            between("fn k() {\ndevice_print(\"{}\", t); // {\ns[t] = 1;\nv = s[u];\n}", false),
            Some(Gap::Before(4))
        );
    }

    #[test]
    fn a_statement_is_split_between_its_read_and_its_write() {
        let (source, place) = at("    s[t] += s[t + 64];", "s[t]");
        let (_, other) = at("    s[t] += s[t + 64];", "s[t + 64]");
        assert_eq!(
            split(&source, place, other, "sync_threads();").as_deref(),
            Some("let value = s[t] + s[t + 64]; sync_threads(); s[t] = value;")
        );
        let (source, place) = at("s[t] *= s[u];", "s[t]");
        assert_eq!(split(&source, place, place, "sync_threads();"), None);
    }
}
