//! C identifiers: of the kernel, and of everything the author or the lowering named.
//!
//! The printers never see an author's name. They see marks, and when the text is done every mark becomes an identifier
//! that differs from all words the printers wrote themselves, helpers, keywords and CUDA's functions among them. So
//! there is no list of helpers to keep, and a word is avoided only in the kernels whose text has it: `max` stays `max`
//! where no maximum is computed.

use super::{HELPERS, OWN, words};
use crate::lowered::{ParameterKind, Program};
use std::collections::{BTreeMap, BTreeSet};

const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// What the symbol of a kernel begins with, so that `double`, `exp` and `main` are names of kernels like any other.
pub const SYMBOL_PREFIX: &str = "tile_";

/// The symbol that a program is emitted, compiled and loaded by: its name behind [`SYMBOL_PREFIX`], in characters that C
/// has.
pub fn symbol(program: &Program) -> String {
    let mut symbol = format!("{SYMBOL_PREFIX}{}", ascii(&program.name));
    while OWN.contains(&symbol.as_str()) || HELPERS.contains(symbol.as_str()) {
        symbol.push('_');
    }
    symbol
}

/// The program with a mark in place of each name, and the names.
pub(super) fn marked(program: &Program) -> (Program, Vec<String>) {
    let mut marked = program.clone();
    let mut names = Vec::new();
    let mut tensors = BTreeMap::new();
    let mut mark = |name: &mut String| {
        let text = format!("{OPEN}{}{CLOSE}", names.len());
        names.push(std::mem::replace(name, text.clone()));
        text
    };
    for param in &mut marked.params {
        let text = mark(&mut param.name);
        if let ParameterKind::Pointer(tensor) = param.kind {
            tensors.insert(tensor, text);
        }
    }
    for tensor in &mut marked.tensors {
        match tensors.get(&tensor.param) {
            Some(text) => tensor.name.clone_from(text),
            None => drop(mark(&mut tensor.name)),
        }
    }
    let maps = marked.tensor_maps.values_mut().map(|m| &mut m.name);
    let shared = marked.shared.values_mut().map(|s| &mut s.name);
    let barriers = marked.barriers.values_mut().map(|b| &mut b.name);
    let locals = marked.locals.values_mut().map(|l| &mut l.name);
    let regs = marked.regs.values_mut().map(|r| &mut r.name);
    maps.chain(shared).chain(barriers).chain(locals).chain(regs).for_each(|name| drop(mark(name)));
    (marked, names)
}

/// The text with an identifier in place of each mark. What follows a mark without a break belongs to the name: `_end` of a
/// loop's bound makes it a name of its own.
pub(super) fn resolved(text: &str, names: &[String]) -> String {
    let parts = parts(text);
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for part in &parts {
        if let Part::Printed(printed) = part {
            // Every other piece between quotes is a string: assembly, or the path of a `#line`.
            let code = printed.split('"').step_by(2);
            // What follows a point is a member or a fraction, neither of which a variable can hide.
            let after_point =
                |piece: &str| piece.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
            let free_standing = code.flat_map(|code| {
                let pieces = code.split('.').enumerate();
                pieces.map(|(i, piece)| if i == 0 { piece } else { &piece[piece.len() - after_point(piece)..] })
            });
            taken.extend(free_standing.flat_map(words).map(str::to_owned));
        }
    }
    let mut given: BTreeMap<(usize, &str), String> = BTreeMap::new();
    let mut result = String::with_capacity(text.len());
    for part in &parts {
        match part {
            Part::Printed(printed) => result.push_str(printed),
            Part::Named(index, suffix) => {
                let identifier = given.entry((*index, suffix)).or_insert_with(|| {
                    let wanted = names.get(*index).map_or("", String::as_str);
                    free(&format!("{wanted}{suffix}"), &mut taken)
                });
                result.push_str(identifier);
            }
        }
    }
    result
}

enum Part<'a> {
    /// As the printers wrote it.
    Printed(&'a str),
    /// A mark's number and what follows it without a break.
    Named(usize, &'a str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for (i, piece) in text.split(OPEN).enumerate() {
        match piece.split_once(CLOSE) {
            Some((number, rest)) if i > 0 => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (suffix, printed) = rest.split_at(end);
                parts.extend([Part::Named(number.parse().unwrap_or(usize::MAX), suffix), Part::Printed(printed)]);
            }
            _ => parts.push(Part::Printed(piece)),
        }
    }
    parts
}

/// An identifier like `wanted` that nothing has yet.
fn free(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut base = ascii(wanted);
    // No number behind a name changes what it begins with.
    if base.starts_with(|c: char| c.is_ascii_digit()) || base.is_empty() || begins_as_reserved(&base) {
        base.insert(0, 'v');
    }
    let mut name = base.clone();
    let mut suffix = 1;
    while is_reserved(&name) || taken.contains(&name) {
        name = format!("{base}_{suffix}");
        suffix += 1;
    }
    taken.insert(name.clone());
    name
}

/// The name in letters, digits and underscores; what C has no letter for, by its number.
fn ascii(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => text.push(c),
            c if c.is_ascii() => text.push('_'),
            c => text.push_str(&format!("_u{:x}", u32::from(c))),
        }
    }
    text
}

/// C++ leaves these to the compiler: `__shared__`, `_Complex`.
fn is_the_implementations(name: &str) -> bool {
    name.starts_with("__") || matches!(name.as_bytes(), [b'_', second, ..] if second.is_ascii_uppercase())
}

/// Whether no variable can have this name, whatever the text: C++ has it as a keyword or NVRTC defines it as a macro.
pub fn is_reserved(name: &str) -> bool {
    KEYWORDS.contains(&name) || MACROS.contains(&name) || begins_as_reserved(name)
}

/// Whether every name that begins like this one is reserved.
fn begins_as_reserved(name: &str) -> bool {
    MACRO_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || is_the_implementations(name)
}

/// What NVRTC's macros begin with where they do not begin with two underscores. `tests/nvrtc/names.rs` compares these
/// with the macros that the compiler has.
const MACRO_PREFIXES: [&str; 4] = ["CUDA", "CU_", "NV_", "cuda"];
const MACROS: [&str; 7] = ["NULL", "TILE_INLINE", "assert", "va_arg", "va_copy", "va_end", "va_start"];

/// The keywords of C++ and its alternative tokens. Source: ISO C++23, `[lex.key]` and `[lex.digraph]`.
#[rustfmt::skip]
pub const KEYWORDS: [&str; 92] = [
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const",
    "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
    "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator",
    "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return", "short",
    "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
    "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        resolved(text, &names)
    }

    #[test]
    fn a_mark_becomes_a_name_that_nothing_else_has() {
        assert_eq!(named("\u{1}0\u{2} = max(\u{1}1\u{2}, 1);", &["max", "x"]), "max_1 = max(x, 1);");
        assert_eq!(named("\u{1}0\u{2} = \u{1}1\u{2};", &["max", "x"]), "max = x;");
        assert_eq!(named("\u{1}0\u{2} \u{1}1\u{2} \u{1}0\u{2}", &["a", "a"]), "a a_1 a");
        assert_eq!(named("\u{1}0\u{2} \u{1}1\u{2}", &["a_1", "a"]), "a_1 a");
        assert_eq!(named("\u{1}0\u{2} \u{1}1\u{2} \u{1}2\u{2}", &["double", "__shared__", "größe"]), {
            "double_1 v__shared__ gr_uf6_udfe"
        });
    }

    #[test]
    fn a_name_that_begins_as_a_macro_of_nvrtc_does_begins_otherwise() {
        let text: String = (0..4).map(|i| format!("\u{1}{i}\u{2} ")).collect();
        assert_eq!(named(&text, &["cuda", "cuda_index", "CU_x", "cuda"]), "vcuda vcuda_index vCU_x vcuda_1 ");
    }

    #[test]
    fn what_follows_a_mark_makes_another_name() {
        let text = "\u{1}0\u{2}; \u{1}1\u{2}_end = 3; \u{1}1\u{2} < \u{1}1\u{2}_end";
        assert_eq!(named(text, &["i_end", "i"]), "i_end; i_end_1 = 3; i < i_end_1");
    }

    #[test]
    fn strings_and_members_take_no_names() {
        let line = "#line 3 \"src/x.rs\"\n";
        assert_eq!(named(&format!("{line}\u{1}0\u{2} = threadIdx.x;"), &["x"]), format!("{line}x = threadIdx.x;"));
        assert_eq!(named("\u{1}0\u{2} = f(1.0f, x);", &["x"]), "x_1 = f(1.0f, x);");
    }
}
