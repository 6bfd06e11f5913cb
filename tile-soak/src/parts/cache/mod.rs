//! The kernel cache under faults: processes killed while they use it, and files damaged behind its back.

mod damage;
mod kills;

pub use damage::Damage;
pub use kills::{Kills, child};

use std::path::{Path, PathBuf};
use tile_runtime::cache::{Entry, Key};

/// The one right entry for a key: long enough that writing it takes several system calls' worth of time.
fn right(key: u64, words: u64) -> Entry {
    let word = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Entry { code: (0..words).flat_map(|i| (word ^ i).to_le_bytes()).collect(), log: format!("log of {key}") }
}

fn key(key: u64) -> Key {
    Key::new(&[("source", &format!("kernel {key}")), ("arch", "sm_90a")], Some("compiler".into()))
}

/// A folder of a case's own, removed at its end, also where it panics.
struct Scratch(PathBuf);

impl Scratch {
    fn new(part: &str, case: u64) -> Scratch {
        let path = std::env::temp_dir().join(format!("tile-soak-{part}-{}-{case}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// All bytes of a folder's files, finished or not.
fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}
