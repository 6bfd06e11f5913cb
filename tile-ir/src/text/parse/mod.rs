//! Reading the text that this module's printers write.
//!
//! [`lex`] cuts a text into tokens, each with its line and column; [`cursor`] steps through them, and is where every
//! [`ParseError`] is made. Parsing is total: any bytes give a result or an error with its line and column, and nesting is bounded.

pub(super) mod cursor;
mod kernel;
pub(super) mod lex;
mod program;

pub use cursor::ParseError;
pub use kernel::parse_kernel;
pub use program::parse_program;

use crate::ir::BinaryOp;

/// The operators that are written between their operands.
const INFIX: [BinaryOp; 18] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::And,
    BinaryOp::Or,
];

/// The operators that are written as calls.
const CALLS: [BinaryOp; 3] = [BinaryOp::CeilDiv, BinaryOp::Min, BinaryOp::Max];
