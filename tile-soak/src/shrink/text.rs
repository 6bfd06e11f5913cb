//! A kernel's source, statement by statement and number by number.
//!
//! The text is as rustfmt leaves it: a statement begins a line, and a line that opens a bracket ends where it is closed.
//! Nothing is parsed, so that whatever a mutant looks like it can be made smaller, and what remains reads as its author
//! wrote it.

/// The smallest text found that `fails`, within this many tries.
pub fn shrink(source: &str, tries: usize, mut fails: impl FnMut(&str) -> bool) -> String {
    let mut text = source.to_owned();
    let mut left = tries;
    loop {
        let before = text.clone();
        for edits in [deletions, unwrappings, simpler_numbers, shorter_expressions] {
            let mut at = 0;
            while let Some(smaller) = edits(&text).into_iter().nth(at) {
                if left == 0 {
                    return text;
                }
                left -= 1;
                match fails(&smaller) {
                    // The text is shorter, so the edit at this number is another one: try it next.
                    true => text = smaller,
                    false => at += 1,
                }
            }
        }
        if text == before {
            return text;
        }
    }
}

/// The lines of each statement: from its first line to the one that closes all it opens.
fn statements(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('}') {
            continue;
        }
        let mut depth = 0i64;
        for (last, line) in lines.iter().enumerate().skip(first) {
            depth += line.chars().map(|c| i64::from("([{".contains(c)) - i64::from(")]}".contains(c))).sum::<i64>();
            // An `else` goes with its `if`.
            let goes_on = lines.get(last + 1).is_some_and(|next| next.trim_start().starts_with("} else"));
            if depth <= 0 && !goes_on {
                if depth == 0 {
                    all.push((first, last));
                }
                break;
            }
        }
    }
    all
}

fn without(lines: &[&str], gone: impl Fn(usize) -> bool) -> String {
    let kept = lines.iter().enumerate().filter(|(i, _)| !gone(*i)).map(|(_, line)| *line);
    kept.collect::<Vec<_>>().join("\n") + "\n"
}

/// The text without one of its statements, the longest first.
fn deletions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = statements(&lines);
    all.sort_by_key(|(first, last)| std::cmp::Reverse(last - first));
    // The function itself stays.
    let is_inside = |(first, _): &(usize, usize)| lines[*first].starts_with([' ', '\t']);
    all.into_iter().filter(is_inside).map(|(first, last)| without(&lines, |i| (first..=last).contains(&i))).collect()
}

/// The text with a block in place of the `if` or `for` around it.
fn unwrappings(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_block = |(first, last): &(usize, usize)| {
        last > first && lines[*first].starts_with(' ') && lines[*first].ends_with('{') && lines[*last].trim() == "}"
    };
    let blocks = statements(&lines).into_iter().filter(is_block);
    // An `else` stands as deep as its `if`.
    let depth = |i: usize| lines[i].len() - lines[i].trim_start().len();
    let all = blocks.flat_map(|(first, last)| {
        let is_else = |i: &usize| lines[*i].trim_start().starts_with("} else") && depth(*i) == depth(first);
        match (first..last).find(is_else) {
            None => vec![without(&lines, |i| i == first || i == last)],
            Some(at) => {
                vec![without(&lines, |i| i == first || i >= at && i <= last), without(&lines, |i| i >= at && i < last)]
            }
        }
    });
    all.collect()
}

/// The text with one number halved, less by one, 1 or 0.
fn simpler_numbers(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let begins = bytes[at].is_ascii_digit();
        let is_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || b"_.".contains(&bytes[at - 1]));
        if !begins || is_word {
            at += 1;
            continue;
        }
        let end = (at..bytes.len()).find(|i| !bytes[*i].is_ascii_digit()).unwrap_or(bytes.len());
        if let Ok(number) = text[at..end].parse::<u64>() {
            let mut smaller = vec![0, 1, number / 2, number.saturating_sub(1)];
            smaller.retain(|n| *n < number);
            smaller.dedup();
            all.extend(smaller.iter().map(|n| format!("{}{n}{}", &text[..at], &text[end..])));
        }
        at = end;
    }
    all
}

/// The text with one side of an operation in place of both, and without one method call of a statement (`.width(8)`).
fn shorter_expressions(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for operator in [" + ", " - ", " * ", " / ", " % ", " && ", " || "] {
        for (at, _) in text.match_indices(operator) {
            let left = operand_before(text, at);
            let right = operand_after(text, at + operator.len());
            all.push(format!("{}{}", &text[..left], &text[at + operator.len()..]));
            all.push(format!("{}{}", &text[..at], &text[right..]));
        }
    }
    for (at, _) in text.match_indices(").") {
        let end = operand_after(text, at + 2);
        if text[end..].starts_with(';') {
            all.push(format!("{}{}", &text[..=at], &text[end..]));
        }
    }
    all
}

/// Where the operand begins that ends here.
fn operand_before(text: &str, end: usize) -> usize {
    let mut depth = 0i64;
    for (at, c) in text[..end].char_indices().rev() {
        depth += i64::from(")]}".contains(c)) - i64::from("([{".contains(c));
        if depth < 0 || depth == 0 && " ,;\n".contains(c) {
            return at + c.len_utf8();
        }
    }
    0
}

/// Where the operand ends that begins here.
fn operand_after(text: &str, start: usize) -> usize {
    let mut depth = 0i64;
    for (at, c) in text[start..].char_indices() {
        depth += i64::from("([{".contains(c)) - i64::from(")]}".contains(c));
        if depth < 0 || depth == 0 && " ,;\n".contains(c) {
            return start + at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "pub fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    let i = b * 128 + t;
    for k in 0..4 {
        if i < N {
            s[t] = x[i] + 1.0;
        } else {
            s[t] = 0.0;
        }
        sync_threads();
    }
    copy(&s, y.at_mut([b * 128])).width(4);
}
";

    #[test]
    fn what_does_not_matter_goes() {
        // What fails is any kernel that still stores to `s` and has a balanced body.
        let fails = |text: &str| {
            let is_balanced = text.parse::<proc_macro2::TokenStream>().is_ok();
            text.contains("s[t] = x[i]") && text.contains("for k in") && is_balanced
        };
        let small = shrink(KERNEL, 10_000, fails);
        assert!(fails(&small), "{small}");
        assert!(small.lines().count() <= 6, "{small}");
        assert!(!small.contains("sync_threads") && !small.contains("else") && !small.contains("1.0"), "{small}");
    }

    #[test]
    fn statements_end_where_their_brackets_close() {
        let lines: Vec<&str> = KERNEL.lines().collect();
        let all = statements(&lines);
        assert!(all.contains(&(5, 12)) && all.contains(&(6, 10)) && all.contains(&(1, 1)), "{all:?}");
    }

    #[test]
    fn an_operand_is_a_term_with_its_brackets() {
        let text = "a = f(x, y) + (b * 2);";
        assert_eq!(&text[operand_before(text, 11)..11], "f(x, y)");
        assert_eq!(&text[14..operand_after(text, 14)], "(b * 2)");
    }

    #[test]
    fn tries_are_counted() {
        let mut tries = 0;
        shrink(KERNEL, 7, |_| {
            tries += 1;
            false
        });
        assert_eq!(tries, 7);
    }
}
