//! Long text on the standard output.

use std::io::{ErrorKind, Result, Write, stdout};

/// Prints a line or many. A reader that has seen enough, as in `--show cuda | head`, is no error.
///
/// # Errors
/// The output cannot be written for another reason.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
