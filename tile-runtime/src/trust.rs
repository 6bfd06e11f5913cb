//! Whether a folder, or a file in it, can be trusted with code that will run: nobody but its owner, who is this user or
//! root, may have put anything there.
//!
//! | of | asked |
//! |---|---|
//! | the folder | a real folder, no symbolic link; its owner as asked for; not writable by group or others |
//! | the folders above it | not writable by everyone, unless sticky as `/tmp` is: who may rename a folder may replace it |
//! | a file | a plain file reached through no link; its owner as asked for; not writable by group or others |
//!
//! `xtask` includes this file too: it unpacks what the runtime will open.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Whose a folder or file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This process's user.
    Us,
    /// This process's user, or root: what an image was built with.
    UsOrRoot,
}

impl Owner {
    fn accepts(self, uid: u32, user: u32) -> bool {
        uid == user || (self == Owner::UsOrRoot && uid == 0)
    }
}

/// This process's user.
pub(crate) fn user() -> u32 {
    // SAFETY: no preconditions; cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes the folder, closed to others, if it is missing, and refuses it unless it is trusted. Returns it without a slash at
/// its end, behind which a symbolic link would look like the folder it points to.
pub(crate) fn prepare(folder: &Path) -> Result<PathBuf, String> {
    let folder = plain(folder)?;
    if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
        // Parents are made as the user's own settings say, as for any cache.
        fs::create_dir_all(parent).map_err(|e| format!("could not create {}: {e}", parent.display()))?;
    }
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("could not create it: {e}")),
    }
    existing(&folder, Owner::Us)
}

/// Refuses a folder that is not trusted. Returns it without a slash at its end.
pub(crate) fn existing(folder: &Path, owner: Owner) -> Result<PathBuf, String> {
    let folder = plain(folder)?;
    let metadata = fs::symlink_metadata(&folder).map_err(|e| e.to_string())?;
    judge(&metadata, owner, user())?;
    above(&folder)?;
    Ok(folder)
}

/// Refuses a folder, or a file, that is not trusted, and every folder from it up to `root`, which is.
pub(crate) fn inside(root: &Path, path: &Path, owner: Owner) -> Result<(), String> {
    for step in path.ancestors().take_while(|step| *step != root) {
        let metadata = fs::symlink_metadata(step).map_err(|e| format!("{}: {e}", step.display()))?;
        let judged =
            if metadata.is_file() { judge_file(&metadata, owner, user()) } else { judge(&metadata, owner, user()) };
        judged.map_err(|problem| format!("{}: {problem}", step.display()))?;
    }
    Ok(())
}

/// The path without a slash or `.` at its end; one that ends in `..` or names nothing is refused.
fn plain(folder: &Path) -> Result<PathBuf, String> {
    let plain: PathBuf = folder.components().collect();
    match plain.components().next_back() {
        Some(Component::Normal(_)) => Ok(plain),
        _ => Err("its path does not end in a folder's name".into()),
    }
}

/// Whether a folder may hold what user `user` runs.
fn judge(metadata: &Metadata, owner: Owner, user: u32) -> Result<(), String> {
    if metadata.file_type().is_symlink() {
        return Err("it is a symbolic link; name the folder itself".into());
    }
    if !metadata.is_dir() {
        return Err("it is not a folder".into());
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o1002 == 0o1002 {
        return Err(format!("all users share it (mode {mode:o}); name a folder of your own, inside it or elsewhere"));
    }
    if !owner.accepts(metadata.uid(), user) {
        let or_root = if owner == Owner::UsOrRoot { " or root's" } else { "" };
        return Err(format!("it belongs to user {}, and must be user {user}'s{or_root}", metadata.uid()));
    }
    if mode & 0o022 != 0 {
        // Whoever may change it is told how; what root made for others is not theirs to change.
        let advice = if metadata.uid() == user { "; run chmod go-w on it" } else { "" };
        return Err(format!("others may write to it (mode {mode:o}){advice}"));
    }
    Ok(())
}

/// Whether a file may be what user `user` runs.
fn judge_file(metadata: &Metadata, owner: Owner, user: u32) -> Result<(), String> {
    let closed = metadata.permissions().mode() & 0o022 == 0;
    match metadata.is_file() && owner.accepts(metadata.uid(), user) && closed {
        true => Ok(()),
        false => Err(match owner {
            Owner::Us => "it is not a plain file that only this user writes".into(),
            Owner::UsOrRoot => "it is not a plain file that only this user or root writes".into(),
        }),
    }
}

/// Refuses a folder where everyone may rename a folder on the way to it, and put another in its place.
fn above(folder: &Path) -> Result<(), String> {
    let whole = std::path::absolute(folder).map_err(|e| e.to_string())?;
    let Some(parent) = whole.parent() else { return Ok(()) };
    // Both ways, that of the links and that of what they point to, lead to it.
    let real = fs::canonicalize(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    for step in parent.ancestors().chain(real.ancestors()) {
        let metadata = fs::metadata(step).map_err(|e| format!("{}: {e}", step.display()))?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o1002 == 0o002 {
            return Err(format!(
                "everyone may replace it: {} above it is writable by all (mode {mode:o}); run chmod o-w on that, or name \
                 another folder",
                step.display()
            ));
        }
    }
    Ok(())
}

/// Opens a file for reading that is trusted: never through a link.
pub(crate) fn open(path: &Path, owner: Owner) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    judge_file(&file.metadata()?, owner, user())
        .map_err(|problem| io::Error::new(io::ErrorKind::PermissionDenied, problem))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("tile-trust-{name}-{}", std::process::id()));
            fs::remove_dir_all(&path).ok();
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn folder(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_new_folder_is_closed_to_others() {
        let scratch = Scratch::new("new");
        let folder = scratch.0.join("a/b");
        assert_eq!(prepare(&scratch.0.join("a/b/")).unwrap(), folder);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        prepare(&folder).unwrap();
    }

    #[test]
    fn folders_that_others_could_fill_are_refused() {
        let scratch = Scratch::new("shared");
        for mode in [0o770, 0o702, 0o777, 0o720, 0o2770] {
            let problem = prepare(&scratch.folder("shared", mode)).unwrap_err();
            assert!(problem.contains(&format!("{mode:o}")) && problem.contains("chmod go-w"), "{problem}");
        }
        prepare(&scratch.folder("shared", 0o755)).unwrap();
        prepare(&scratch.folder("shared", 0o500)).unwrap();
    }

    /// `chmod go-w /tmp` is no advice.
    #[test]
    fn a_folder_of_all_users_is_refused_without_advice_to_close_it() {
        let scratch = Scratch::new("sticky");
        for folder in [scratch.folder("all", 0o1777), PathBuf::from("/tmp"), PathBuf::from("/tmp/.")] {
            let problem = prepare(&folder).unwrap_err();
            assert!(problem.contains("a folder of your own") && !problem.contains("chmod"), "{problem}");
        }
        prepare(&scratch.folder("all/mine", 0o700)).unwrap();
    }

    #[test]
    fn a_link_is_refused_with_a_slash_behind_it_and_without() {
        let scratch = Scratch::new("link");
        let (folder, link) = (scratch.folder("folder", 0o700), scratch.0.join("link"));
        symlink(&folder, &link).unwrap();
        for end in ["link", "link/", "link//", "link/.", "link/./"] {
            let problem = prepare(&scratch.0.join(end)).unwrap_err();
            assert!(problem.contains("symbolic link"), "{end}: {problem}");
        }
        assert!(prepare(&scratch.0.join("link/..")).unwrap_err().contains("does not end in"));
        for odd in ["", "/", "."] {
            assert!(prepare(Path::new(odd)).is_err(), "{odd}");
        }
        // A link above is the user's own matter, as long as nobody else can turn it.
        prepare(&scratch.0.join("link/inside")).unwrap();
    }

    #[test]
    fn a_folder_above_that_everyone_may_write_is_refused() {
        let scratch = Scratch::new("above");
        let inner = scratch.folder("open/closed/inner", 0o700);
        prepare(&inner).unwrap();
        scratch.folder("open", 0o777);
        let problem = prepare(&inner).unwrap_err();
        assert!(problem.contains("open above it") && problem.contains("777"), "{problem}");
        // Also where the way to it is a link elsewhere.
        let link = scratch.0.join("link");
        symlink(scratch.0.join("open/closed"), &link).unwrap();
        assert!(prepare(&link.join("inner")).unwrap_err().contains("open above it"));
        symlink(scratch.folder("good", 0o700), scratch.0.join("open/link")).unwrap();
        assert!(prepare(&scratch.0.join("open/link/inner")).unwrap_err().contains("open above it"));
        scratch.folder("open", 0o1777);
        prepare(&inner).unwrap();
    }

    #[test]
    fn what_belongs_to_others_is_refused() {
        let scratch = Scratch::new("owner");
        let metadata = fs::symlink_metadata(scratch.folder("folder", 0o755)).unwrap();
        let (us, other) = (user(), user() + 1);
        assert_eq!(judge(&metadata, Owner::Us, us), Ok(()));
        assert!(judge(&metadata, Owner::Us, other).unwrap_err().contains("belongs to user"));
        // What root made, another user reads.
        assert_eq!(judge(&metadata, Owner::UsOrRoot, other).is_ok(), us == 0);
        let file = scratch.0.join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let metadata = fs::symlink_metadata(&file).unwrap();
        assert!(judge(&metadata, Owner::Us, us).unwrap_err().contains("not a folder"));
        assert_eq!(judge_file(&metadata, Owner::Us, us), Ok(()));
        assert!(judge_file(&metadata, Owner::Us, other).is_err());
        assert!(prepare(Path::new("/proc/tile-cache")).is_err());
    }

    #[test]
    fn everything_on_the_way_to_a_file_counts() {
        let scratch = Scratch::new("inside");
        let root = scratch.folder("root", 0o700);
        scratch.folder("root/a/b", 0o755);
        scratch.folder("root/a", 0o755);
        let file = root.join("a/b/lib");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        inside(&root, &file, Owner::Us).unwrap();
        scratch.folder("root/a", 0o777);
        assert!(inside(&root, &file, Owner::Us).unwrap_err().contains("root/a: others may write"));
        scratch.folder("root/a", 0o755);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(inside(&root, &file, Owner::Us).unwrap_err().contains("lib: it is not a plain file"));
        fs::remove_file(&file).unwrap();
        symlink("/bin/sh", &file).unwrap();
        assert!(inside(&root, &file, Owner::Us).is_err());
    }

    #[test]
    fn links_and_shared_files_are_not_opened() {
        let scratch = Scratch::new("open");
        let file = scratch.0.join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(open(&file, Owner::Us).is_ok());
        let link = scratch.0.join("link");
        symlink(&file, &link).unwrap();
        assert!(open(&link, Owner::Us).is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(open(&file, Owner::Us).is_err());
        assert!(open(&scratch.0, Owner::Us).is_err());
    }
}
