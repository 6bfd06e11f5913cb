//! Arbitrary texts give errors with a place, never a panic. That what is printed reads back is tested where kernels are: in
//! `tests/text.rs` for every kernel of the repository, in `tile-soak` for random programs; and `tests/ir/parse` has errors.

use super::parse_kernel;
use crate::ir::{Dtype, Instance};
use crate::testing::{gemv, text::round_trip};

/// Texts that have every form between them.
const TEXTS: [&str; 3] = [
    include_str!("../../../../tests/ir/parse/every_statement.tile"),
    include_str!("../../../../tests/ir/parse/every_tile_operation.tile"),
    include_str!("../../../../tests/ir/bind/first_instance.tile"),
];

fn inputs() -> Vec<&'static str> {
    let all = TEXTS.map(|text| text.split_once("\n---\n").map_or(text, |(input, _)| input));
    all.iter().for_each(|input| {
        parse_kernel(input).unwrap_or_else(|error| panic!("{error}\n{input}"));
    });
    all.to_vec()
}

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// What a token is, roughly.
fn class(word: &str) -> (bool, bool) {
    let first = word.chars().next();
    (first.is_some_and(|c| c.is_ascii_digit()), first.is_some_and(char::is_alphabetic))
}

#[test]
fn every_form_reads_back() {
    for input in inputs() {
        let kernel = parse_kernel(input).unwrap();
        round_trip(&kernel, &kernel.instances).unwrap();
    }
    round_trip(&gemv(Dtype::Bf16, 4), &[Instance::default()]).unwrap();
}

#[test]
fn tokens_that_are_dropped_moved_or_replaced_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for input in inputs() {
        let words = super::super::lex::tokens(input).unwrap();
        let words: Vec<&str> = words.iter().map(|token| &input[token.bytes.0..token.bytes.1]).collect();
        for round in 0..2500 {
            let mut changed = words.clone();
            for _ in 0..1 + round % 3 {
                let (at, from) = (random.below(changed.len()), random.below(words.len()));
                let alike: Vec<&str> = words.iter().copied().filter(|word| class(word) == class(changed[at])).collect();
                match random.below(8) {
                    0 => drop(changed.remove(at)),
                    1 => changed.insert(at, words[from]),
                    2 => changed[at] = words[from],
                    3 => changed.truncate(at.max(1)),
                    // A name for a name, a number for a number, which is more often a kernel.
                    _ => changed[at] = alike[random.below(alike.len())],
                }
            }
            let text = changed.join(" ");
            if let Ok(kernel) = parse_kernel(&text) {
                accepted += 1;
                let printed = kernel.to_string();
                assert_eq!(parse_kernel(&printed).map(|k| k.to_string()), Ok(printed), "{text}");
                // What is read is what every pass may be given.
                crate::analysis::check(&kernel);
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn characters_that_are_replaced_never_panic() {
    let mut random = Random(7);
    for input in inputs() {
        for _ in 0..1500 {
            let mut bytes = input.as_bytes().to_vec();
            for _ in 0..3 {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            let _ = parse_kernel(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let kernel = |expr: &str| format!("kernel k() {{ let [t] = threads([32]); let a = {expr}; }}");
    for open in ["(", "-", "if true { ", "min(1, ", "select(true, 1, "] {
        let error = parse_kernel(&kernel(&open.repeat(100_000))).unwrap_err();
        assert!(error.message.contains("levels deep"), "{error}");
    }
    let sum = parse_kernel(&kernel(&"1 + ".repeat(100_000))).unwrap_err();
    assert!(sum.message.starts_with("expected an expression"), "{sum}");
    let sum = parse_kernel(&kernel(&format!("{}1", "1 + ".repeat(1000)))).unwrap_err();
    assert!(sum.message.contains("too deep"), "{sum}");
    let blocks = format!("kernel k() {{ {}", "if true { ".repeat(100_000));
    assert!(parse_kernel(&blocks).unwrap_err().message.contains("levels deep"));
}
