//! The IR and the lowered program as readable text: what `--show tile` and `--show lowered` print.
//!
//! - [`Kernel`](crate::ir::Kernel)'s `Display` is close to what its author wrote, with types; constants and sugar are
//!   as the IR has them. A name is followed by a number only where another of the same name is in scope.
//! - [`Program`](crate::lowered::Program)'s `Display` holds everything that decides what code is generated and how it
//!   is launched: two programs with the same text compile to the same code. It holds nothing of spans, source text, arrivals
//!   or remarks. [`canonical`] is the same with numbers for the author's names: the cache key's part.
//!
//! The text is a function of the data alone. Ids that point nowhere are printed as `?` with the id: a printer is what
//! one looks at broken data with, so it does not fail.

mod expr;
pub mod filetest;
mod kernel;
mod names;
mod operation;
mod parse;
mod program;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use kernel::written;
pub use parse::{ParseError, parse_kernel, parse_program};
pub use program::canonical;

/// How tightly an operator binds, as in Rust; a looser operand needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tightness(u8);

impl Tightness {
    const LOOSEST: Tightness = Tightness(0);
    const PREFIX: Tightness = Tightness(11);
    const ATOM: Tightness = Tightness(12);

    fn of(op: crate::ir::BinaryOp) -> Tightness {
        use crate::ir::BinaryOp::*;
        Tightness(match op {
            Or => 1,
            And => 2,
            Lt | Le | Gt | Ge | Eq | Ne => 3,
            BitOr => 4,
            BitXor => 5,
            BitAnd => 6,
            Shl | Shr => 7,
            Add | Sub => 8,
            Mul | Div | Rem => 9,
            // Written as calls.
            CeilDiv | Min | Max => Tightness::ATOM.0,
        })
    }

    fn next(self) -> Tightness {
        Tightness(self.0 + 1)
    }
}

/// A piece of text and how tightly it holds together.
struct Piece {
    text: String,
    tightness: Tightness,
}

impl Piece {
    fn atom(text: impl Into<String>) -> Piece {
        Piece { text: text.into(), tightness: Tightness::ATOM }
    }

    fn prefix(operator: &str, operand: Piece) -> Piece {
        Piece { text: format!("{operator}{}", operand.at_least(Tightness::PREFIX)), tightness: Tightness::PREFIX }
    }

    /// `a op b`, or `op(a, b)` where the operator is written so.
    fn binary(op: crate::ir::BinaryOp, a: Piece, b: Piece) -> Piece {
        let tightness = Tightness::of(op);
        if tightness == Tightness::ATOM {
            return Piece::atom(format!("{}({}, {})", op.symbol(), a.text, b.text));
        }
        // Comparisons do not chain; everything else joins to the left.
        let left = if op.is_comparison() { tightness.next() } else { tightness };
        let text = format!("{} {} {}", a.at_least(left), op.symbol(), b.at_least(tightness.next()));
        Piece { text, tightness }
    }

    /// The text, in parentheses where it is looser than `needed`.
    fn at_least(self, needed: Tightness) -> String {
        if self.tightness < needed { format!("({})", self.text) } else { self.text }
    }
}

/// Lines with indentation.
#[derive(Default)]
struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if !text.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
            self.text += text;
        }
        self.text += "\n";
    }
}

/// Texts separated by commas.
fn commas(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

/// `(a, b)` with the comma that makes one element a tuple.
fn tuple(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    if items.len() == 1 { format!("({},)", items[0]) } else { format!("({})", items.join(", ")) }
}

/// A float literal of a dtype: shortest digits that give it back, or its name.
fn float(value: f64, suffix: &str) -> String {
    if value.is_nan() {
        format!("{suffix}::NAN")
    } else if value.is_infinite() {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{suffix}::INFINITY")
    } else {
        format!("{value:?}{suffix}")
    }
}
