//! The kernels of a crate as one file: what expansion writes for `cargo tile`, and what that reads.
//!
//! A file holds the kernels of one run of rustc: `tile-kernels 1 VERSION`, then a line and bytes each: `kernel LENGTH`, the encoded
//! IR ([`codec`](crate::codec)), a line break. `VERSION` is this crate's: another one reads the IR differently.

/// The version of this crate, which the versions of the others follow.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The beginning of a record's first line.
const HEAD: &str = "tile-kernels 1 ";

/// A record's first line.
pub fn head() -> String {
    format!("{HEAD}{VERSION}\n")
}

/// What a target of a package is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<'a> {
    /// A library.
    Library,
    /// A binary or an example of this name.
    Binary(&'a str),
    /// An integration test.
    Test,
}

/// What the names of a target's records begin with: a library, a binary and a test may have one crate name.
pub fn prefix(crate_name: &str, role: Role<'_>) -> String {
    match role {
        Role::Library => format!("{crate_name}.lib."),
        Role::Binary(name) => format!("{crate_name}.bin-{name}."),
        Role::Test => format!("{crate_name}.test."),
    }
}

/// A kernel as a record has it.
pub fn entry(bytes: &[u8]) -> Vec<u8> {
    [format!("kernel {}\n", bytes.len()).as_bytes(), bytes, b"\n"].concat()
}

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is no record, or is cut short.
    Damaged,
    /// Another version of this crate wrote it.
    Version(String),
}

/// The encoded kernels in a record, in the order of the source.
///
/// # Errors
/// The bytes are no record, or another version's.
pub fn read(bytes: &[u8]) -> Result<Vec<&[u8]>, Unreadable> {
    let (head, mut rest) = line(bytes).ok_or(Unreadable::Damaged)?;
    match head.strip_prefix(HEAD).ok_or(Unreadable::Damaged)? {
        VERSION => {}
        other => return Err(Unreadable::Version(other.into())),
    }
    let mut kernels = Vec::new();
    while !rest.is_empty() {
        let (head, body) = line(rest).ok_or(Unreadable::Damaged)?;
        let length = head.strip_prefix("kernel ").and_then(|n| n.parse().ok()).ok_or(Unreadable::Damaged)?;
        let (kernel, left) = body.split_at_checked(length).ok_or(Unreadable::Damaged)?;
        rest = left.strip_prefix(b"\n").ok_or(Unreadable::Damaged)?;
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// The first line, without its end, and the rest.
fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kernels: &[&[u8]]) -> Vec<u8> {
        let head = format!("{HEAD}{VERSION}\n").into_bytes();
        kernels.iter().fold(head, |text, kernel| [text, entry(kernel)].concat())
    }

    #[test]
    fn what_is_written_is_read() {
        let kernels: [&[u8]; 3] = [b"one", b"", b"kernel 3\ntwo\n"];
        assert_eq!(read(&record(&kernels)).unwrap(), kernels);
        assert_eq!(read(&record(&[])).unwrap(), [] as [&[u8]; 0]);
    }

    #[test]
    fn what_is_cut_short_or_of_another_version_is_refused() {
        let whole = record(&[b"one", b"two"]);
        // Whole up to the end of a kernel, a record is one of fewer kernels.
        let ends = [record(&[]).len(), record(&[b"one"]).len()];
        for length in (0..whole.len()).filter(|length| !ends.contains(length)) {
            assert_eq!(read(&whole[..length]), Err(Unreadable::Damaged), "{length}");
        }
        assert_eq!(read(b"tile-kernels 1 9.9.9\n"), Err(Unreadable::Version("9.9.9".into())));
        assert_eq!(read(b"\x7fELF"), Err(Unreadable::Damaged));
    }
}
