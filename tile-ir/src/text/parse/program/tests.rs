//! Arbitrary texts give errors with a place, never a panic, and neither does whoever is given what they parse to. That what is printed
//! reads back is tested where programs are: in `tests/text.rs` for those of every kernel of the repository, and for each that
//! the checked simulator's tests execute.

use super::parse_program;
use crate::emit::cuda::emit;
use crate::testing::text::program_round_trip;
use crate::verify::program::structure;

/// Texts that have every form between them.
const TEXTS: [&str; 4] = [
    include_str!("../../../../tests/ir/lower/gemm_ping_pong.tile"),
    include_str!("../../../../tests/ir/lower/ring_of_rows.tile"),
    include_str!("../../../../tests/ir/lower/gemm_tensor_cores.tile"),
    include_str!("../../../../tests/ir/lower/fill_and_parallel.tile"),
];

/// The programs below the kernels.
fn programs() -> Vec<&'static str> {
    TEXTS.iter().map(|text| text.split_once("\n---\n").unwrap().1).collect()
}

/// What a word is, roughly.
fn class(word: &str) -> (bool, bool, bool) {
    let first = word.chars().next();
    (first.is_some_and(|c| c.is_ascii_digit()), first.is_some_and(char::is_alphabetic), word.contains('\n'))
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

#[test]
fn every_form_reads_back() {
    for text in programs() {
        let program = parse_program(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        program_round_trip(&program).unwrap();
        structure(&program).unwrap();
    }
}

#[test]
fn errors_say_what_and_where() {
    let text = programs()[3];
    let error = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}\n{text}");
        parse_program(&text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert_eq!(error("for sm_80", "for sm_70"), "1:22: expected a target: `sm_80` or `sm_90a`, found `sm_70`");
    assert_eq!(error("threads [", "threads ("), "12:13: expected `[`, found `(`");
    assert_eq!(error("thread.x", "thread.w"), "17:27: there is no `thread.w`");
}

#[test]
fn tokens_that_are_dropped_moved_or_replaced_never_panic() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut accepted, mut refused) = (0, 0);
    for text in programs() {
        let tokens = super::super::lex::tokens(text).unwrap();
        // Each with what follows it: lines stay lines.
        let starts: Vec<usize> = tokens.iter().map(|token| token.bytes.0).chain([text.len()]).collect();
        let words: Vec<&str> = starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        for round in 0..600 {
            let mut changed = words.clone();
            for _ in 0..1 + round % 3 {
                let (at, from) = (random.below(changed.len()), random.below(words.len()));
                let alike: Vec<&str> = words.iter().copied().filter(|word| class(word) == class(changed[at])).collect();
                match random.below(8) {
                    0 => _ = changed.remove(at),
                    1 => changed.insert(at, words[from]),
                    2 => changed[at] = words[from],
                    // A name for a name, a number for a number, which is more often a program.
                    _ => changed[at] = alike[random.below(alike.len())],
                }
            }
            match parse_program(&changed.concat()) {
                Ok(program) => {
                    accepted += 1;
                    // What it is may be wrong, and is then refused.
                    if structure(&program).is_ok() {
                        emit(&program);
                    }
                    program.to_string();
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.line > 0 && error.column > 0 && !error.message.is_empty(), "{error:?}");
                }
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}
