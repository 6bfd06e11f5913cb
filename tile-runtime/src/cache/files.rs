//! Files of the cache's folder: made for this user, locked across processes. What is read passes [`trust`](crate::trust),
//! which lets no folder be a cache where there are no Unix permissions.

#[cfg(unix)]
use std::fs;
use std::fs::{File, OpenOptions};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a file that did not exist. Who may read the folder may read the file: a folder of mode 755, in an image, is a
/// cache for others too ([`ReadOnly`](super::ReadOnly)). Nobody else may write it.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    let file = closed(OpenOptions::new().write(true).create_new(true)).open(path)?;
    #[cfg(unix)]
    {
        let folder = path.parent().map(fs::metadata).transpose()?.map_or(0, |m| m.mode());
        if folder & 0o044 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600 | (folder & 0o044)))?;
        }
    }
    Ok(file)
}

/// Options to make and open a file closed to others, and never through a link.
fn closed(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

/// A lock on a file, held across processes until dropped; the system lets go of it when a process dies.
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Tries to lock `path` without waiting: `None` where another process has it.
    pub fn try_lock(path: &Path) -> io::Result<Option<FileLock>> {
        let file = closed(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(path)?;
        Ok(lock(&file)?.then_some(FileLock { _file: file }))
    }
}

/// Whether the file is now locked for this process alone. (`File::try_lock` is newer than the oldest Rust supported.)
#[cfg(unix)]
fn lock(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    // SAFETY: an open descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}

#[cfg(not(unix))]
fn lock(_: &File) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::cache::tests::Scratch;

    #[test]
    fn a_file_is_as_readable_as_its_folder_and_writable_by_its_owner() {
        let scratch = Scratch::new("files-mode");
        for (folder, file) in [(0o700, 0o600), (0o755, 0o644), (0o750, 0o640), (0o711, 0o600)] {
            fs::set_permissions(scratch.path(), fs::Permissions::from_mode(folder)).unwrap();
            let path = scratch.path().join(format!("{folder:o}"));
            drop(create_new(&path).unwrap());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, file);
            assert!(create_new(&path).is_err(), "it exists");
        }
    }

    #[test]
    fn a_lock_excludes_and_is_released() {
        let scratch = Scratch::new("root-lock");
        let path = scratch.path().join("lock");
        let held = FileLock::try_lock(&path).unwrap().unwrap();
        assert!(FileLock::try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(FileLock::try_lock(&path).unwrap().is_some());
    }
}
