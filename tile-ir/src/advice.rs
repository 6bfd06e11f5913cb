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
}
