//! Whether a folder can be trusted with code that will run, where there are no Unix permissions to tell: no folder is. So there
//! is no cache of kernels on such a system, and no library is taken from the user's own folder.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

const REFUSED: &str = "who may write to it is not known on this system";

/// Whose a folder or file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This process's user.
    Us,
    /// This process's user, or the system.
    UsOrRoot,
}

/// Refuses the folder.
pub(crate) fn prepare(_: &Path) -> Result<PathBuf, String> {
    Err(REFUSED.into())
}

/// Refuses the folder.
pub(crate) fn existing(_: &Path, _: Owner) -> Result<PathBuf, String> {
    Err(REFUSED.into())
}

/// Refuses what is inside a folder.
pub(crate) fn inside(_: &Path, _: &Path, _: Owner) -> Result<(), String> {
    Err(REFUSED.into())
}

/// Refuses the file.
pub(crate) fn open(_: &Path, _: Owner) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, REFUSED))
}
