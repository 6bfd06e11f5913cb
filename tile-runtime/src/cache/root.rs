//! The cache's folder: a cached kernel is code that will run, so nobody else may be able to put one there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// This process's user.
pub(super) fn user() -> u32 {
    // SAFETY: no preconditions; cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes the folder if it is missing and refuses it unless it is a real folder, ours, and closed to others.
pub(super) fn prepare(root: &Path) -> Result<(), String> {
    if let Some(parent) = root.parent() {
        // Parents are made as the user's own settings say, as for any cache.
        fs::create_dir_all(parent).map_err(|e| format!("could not create {}: {e}", parent.display()))?;
    }
    match fs::DirBuilder::new().mode(0o700).create(root) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("could not create it: {e}")),
    }
    let metadata = fs::symlink_metadata(root).map_err(|e| e.to_string())?;
    judge(&metadata, user())
}

/// Whether a folder may hold the cache of user `user`.
fn judge(metadata: &Metadata, user: u32) -> Result<(), String> {
    if metadata.file_type().is_symlink() {
        return Err("it is a symbolic link; name the folder itself in TILE_CACHE_DIR".into());
    }
    if !metadata.is_dir() {
        return Err("it is not a folder".into());
    }
    if metadata.uid() != user {
        return Err(format!("it belongs to user {}, this is user {user}", metadata.uid()));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(format!("others may write to it (mode {mode:o}); run chmod 700 on it"));
    }
    Ok(())
}

/// Opens an entry for reading: a plain file of ours, never through a link.
pub(super) fn open_entry(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != user() || metadata.permissions().mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a plain file that only this user writes",
        ));
    }
    Ok(file)
}

/// Creates a file that did not exist, for this user only.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// A lock on a file, held across processes until dropped; the system lets go of it when a process dies.
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Tries to lock `path` without waiting: `None` where another process has it.
    pub fn try_lock(path: &Path) -> io::Result<Option<FileLock>> {
        use std::os::fd::AsRawFd;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
        // SAFETY: an open descriptor.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(Some(FileLock { _file: file })),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::Scratch;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_new_folder_is_closed_to_others() {
        let scratch = Scratch::new("root-new");
        let root = scratch.path().join("a/b");
        prepare(&root).unwrap();
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        prepare(&root).unwrap();
    }

    #[test]
    fn folders_that_others_could_fill_are_refused() {
        let scratch = Scratch::new("root-bad");
        let root = scratch.path().join("shared");
        prepare(&root).unwrap();
        for mode in [0o770, 0o702, 0o777, 0o720] {
            fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
            let problem = prepare(&root).unwrap_err();
            assert!(problem.contains(&format!("{mode:o}")) && problem.contains("chmod 700"), "{problem}");
        }
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        prepare(&root).unwrap();
        let link = scratch.path().join("link");
        symlink(&root, &link).unwrap();
        assert!(prepare(&link).unwrap_err().contains("symbolic link"));
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&file).unwrap_err().contains("not a folder"));
        let metadata = fs::symlink_metadata(&root).unwrap();
        assert!(judge(&metadata, user() + 1).unwrap_err().contains("belongs to user"));
        assert!(prepare(Path::new("/proc/tile-cache")).is_err());
    }

    #[test]
    fn links_and_shared_files_are_not_entries() {
        let scratch = Scratch::new("root-entry");
        let file = scratch.path().join("file");
        drop(create_new(&file).unwrap());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(open_entry(&file).is_ok());
        let link = scratch.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(open_entry(&link).is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(open_entry(&file).is_err());
        assert!(open_entry(scratch.path()).is_err());
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
