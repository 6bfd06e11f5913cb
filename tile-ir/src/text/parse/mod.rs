//! Reading the text that this module's printers write.
//!
//! [`lex`] cuts a text into tokens, each with its line and column; [`cursor`] steps through them, and is where every
//! [`ParseError`] is made. Parsing is total: any bytes give a result or an error with its line and column, and nesting is bounded.

// The parsers that use all of it are being written.
#[allow(dead_code)]
pub(super) mod cursor;
mod kernel;
#[allow(dead_code)]
pub(super) mod lex;

pub use cursor::ParseError;
pub use kernel::parse_kernel;
