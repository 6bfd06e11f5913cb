//! One edit of a kernel's text, and the classes that edits are drawn from in fixed shares.

use std::ops::Range;

/// What kind of mistake an edit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Class {
    Barriers,
    Guards,
    Indices,
    Stores,
    Arrays,
    Grid,
    Loops,
    Statements,
    Forms,
    Attributes,
    Benign,
}

impl Class {
    /// Every class, its name in tables, and its share: the counts of the audit of 2026-11-22, of 2,194.
    pub const ALL: [(Class, &'static str, usize); 11] = [
        (Class::Barriers, "barriers: drop, dup, move, weaken, into a thread's if", 168),
        (Class::Guards, "guards and masks", 166),
        (Class::Indices, "indices: offset, swap, tile coordinate", 394),
        (Class::Stores, "stores that are not injective, atomic to plain", 115),
        (Class::Arrays, "extents of arrays and tiles, memory space", 314),
        (Class::Grid, "extents of grid, threads and clusters, their order", 323),
        (Class::Loops, "loop bounds", 137),
        (Class::Statements, "drop, dup, swap a statement", 240),
        (Class::Forms, "forms of gemm, copy, reduce, shuffle, vectors", 120),
        (Class::Attributes, "attributes, constants, &mut, pdl, arrivers", 173),
        (Class::Benign, "benign: stages, plain loops, unrolling", 44),
    ];

    /// The class's name in tables.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(class, ..)| *class == self).map_or("", |(_, name, _)| name)
    }
}

/// One edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What kind of mistake it is.
    pub class: Class,
    /// What it does, for a reader.
    pub what: &'static str,
    /// Byte ranges of the text and what takes their place; they do not overlap.
    pub replaced: Vec<(Range<usize>, String)>,
}

impl Edit {
    /// The text after the edit.
    pub fn apply(&self, text: &str) -> String {
        let mut replaced = self.replaced.clone();
        replaced.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
        let mut text = text.to_owned();
        for (range, new) in replaced {
            text.replace_range(range, &new);
        }
        text
    }
}

/// The lines that differ between two texts, old ones with `-` and new ones with `+`.
pub fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let lines = |mark: char, lines: &[&str]| lines.iter().map(|l| format!("{mark} {l}\n")).collect::<String>();
    lines('-', &old[head..old.len() - tail]) + &lines('+', &new[head..new.len() - tail])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_do_not_move_each_other() {
        let edit = Edit { class: Class::Indices, what: "", replaced: vec![(0..1, "bb".into()), (4..5, String::new())] };
        assert_eq!(edit.apply("a + c"), "bb + ");
        assert_eq!(difference("a\nb\nc", "a\nd\ne\nc"), "- b\n+ d\n+ e\n");
    }

    #[test]
    fn shares_are_those_of_the_audit() {
        assert_eq!(Class::ALL.iter().map(|(.., share)| share).sum::<usize>(), 2194);
    }
}
