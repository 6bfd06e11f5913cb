//! A folder of compiled kernels that is read and never written: one that an image was built with.

use super::{Entry, Key, candidates, warn};
use crate::settings;
use crate::trust::{self, Owner};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder that kernels are looked for in. It and its files belong to this user or to root and are writable by nobody else;
/// so are, but for sticky ones, the folders above it.
///
/// It is made by running a program with `TILE_CACHE_DIR` set to a folder of mode 755, whose entries then are readable to
/// all.
#[derive(Clone, Debug)]
pub struct ReadOnly {
    root: PathBuf,
}

impl ReadOnly {
    /// What `TILE_CACHE_READONLY_DIR` names; an error says why there is none, in words.
    pub fn process() -> Result<&'static ReadOnly, &'static str> {
        static FOLDER: OnceLock<Result<ReadOnly, String>> = OnceLock::new();
        let opened = FOLDER.get_or_init(|| {
            if !settings::is_on("TILE_CACHE", true) {
                return Err("TILE_CACHE=off".into());
            }
            let root = settings::path("TILE_CACHE_READONLY_DIR").ok_or("TILE_CACHE_READONLY_DIR is not set")?;
            ReadOnly::open(&root).inspect_err(|problem| {
                warn(&format!("TILE_CACHE_READONLY_DIR {} is not used: {problem}", root.display()));
            })
        });
        opened.as_ref().map_err(String::as_str)
    }

    /// The folder `root`.
    ///
    /// # Errors
    /// In words: it is missing, a link, another user's who is not root, or can be written or replaced by others.
    pub fn open(root: &Path) -> Result<ReadOnly, String> {
        Ok(ReadOnly { root: trust::existing(root, Owner::UsOrRoot)? })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry for `key`. What is damaged or not trusted is a warning and stays where it is.
    pub fn load(&self, key: &Key) -> Option<Entry> {
        candidates(&self.root, key).iter().find_map(|path| match read(path, key) {
            Ok(entry) => Some(entry),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                warn(&format!("kernel cache: {} is not used: {e}", path.display()));
                None
            }
        })
    }
}

fn read(path: &Path, key: &Key) -> io::Result<Entry> {
    let mut bytes = Vec::new();
    trust::open(path, Owner::UsOrRoot)?.read_to_end(&mut bytes)?;
    Entry::decode(&bytes, |stored| key.matches(stored)).map_err(io::Error::other)
}
