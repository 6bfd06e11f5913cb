//! Files beside the compiled kernels: small results of measurements, with the same care about who may write them.

use super::Cache;
use crate::trust::{self, Owner};
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

/// Most bytes of a note.
const MOST: u64 = 16 << 20;

impl Cache {
    /// Where the note called `name` is.
    pub(crate) fn note_path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The note called `name`; `None` where there is none. What is in it is for the caller to verify.
    pub(crate) fn note(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.note_path(name);
        let read = trust::open(&path, Owner::Us).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(MOST).read_to_end(&mut bytes).map(|_| bytes)
        });
        match read {
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                self.discard_note(name, &e.to_string());
                None
            }
        }
    }

    /// Removes a note that cannot be used, with a warning that says why.
    pub(crate) fn discard_note(&self, name: &str, problem: &str) {
        let path = self.note_path(name);
        self.warn(&format!("{} is discarded: {problem}", path.display()));
        fs::remove_file(path).ok();
    }

    /// Writes a note, whole or not at all; a failure is a warning.
    pub(crate) fn keep_note(&self, name: &str, bytes: &[u8]) {
        if let Err(problem) = self.write(name, bytes, 0) {
            self.not_written(problem, "it is not kept");
        }
    }
}
