//! Compiled kernels, kept between runs.
//!
//! The folder is `TILE_CACHE_DIR`, else `tile-kernels` in `XDG_CACHE_HOME` or `~/.cache`; `TILE_CACHE=off` keeps
//! nothing; `TILE_CACHE_SIZE` (`512M`, `4G`; 2 GiB if unset) is how large it may grow before the entries used longest ago
//! go.
//!
//! A fault of the cache (a full disk, a damaged file, a folder others can write to) is a miss and a warning, never a
//! failed launch. One process at a time compiles a kernel; the others wait and load what it made.

mod entry;
mod key;
mod notes;
mod root;
#[cfg(test)]
pub(crate) mod tests;

pub use entry::Entry;
pub use key::Key;

use crate::cuda::lock;
use crate::error::Error;
use key::SUFFIX;
use root::FileLock;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

const DEFAULT_CAP: u64 = 2 << 30;
/// Kernels that may be compiled at once across processes, by hash; two that share a lock wait for each other.
const LOCKS: usize = 64;
/// How long to wait for another process before compiling the same kernel too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where an entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cache.
    Cache,
    /// It was compiled now.
    Compiled,
}

/// A folder of compiled kernels.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    cap: u64,
    shards: [Mutex<()>; LOCKS],
    warnings: Mutex<Vec<String>>,
    quiet: bool,
    /// What publishing fails with, in tests.
    #[cfg(test)]
    fault: Option<i32>,
}

/// What the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries.
    pub entries: usize,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes it may grow to.
    pub cap: u64,
}

impl Cache {
    /// The process's cache, as the environment says; an error says why there is none, in words.
    pub fn process() -> Result<&'static Cache, &'static str> {
        static CACHE: OnceLock<Result<Cache, String>> = OnceLock::new();
        let opened = CACHE.get_or_init(|| {
            if std::env::var_os("TILE_CACHE").is_some_and(|v| v == "off" || v == "0") {
                return Err("TILE_CACHE=off".into());
            }
            let root = default_root().ok_or("neither TILE_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set")?;
            let cap = match std::env::var("TILE_CACHE_SIZE") {
                Err(_) => DEFAULT_CAP,
                Ok(text) => parse_size(&text).unwrap_or_else(|| {
                    warn(&format!("TILE_CACHE_SIZE is `{text}`, not a size such as 512M or 4G; using 2G"));
                    DEFAULT_CAP
                }),
            };
            Cache::open(&root, cap).inspect_err(|problem| {
                warn(&format!("the kernel cache {} is not used: {problem}", root.display()));
            })
        });
        opened.as_ref().map_err(String::as_str)
    }

    /// The cache in folder `root`, which is made if it is missing, up to `cap` bytes.
    ///
    /// # Errors
    /// In words: the folder is a link, belongs to another user, can be written by others, or cannot be made.
    pub fn open(root: &Path, cap: u64) -> Result<Cache, String> {
        root::prepare(root)?;
        Ok(Cache {
            root: root.to_path_buf(),
            cap,
            shards: [const { Mutex::new(()) }; LOCKS],
            warnings: Mutex::new(Vec::new()),
            quiet: cfg!(test),
            #[cfg(test)]
            fault: None,
        })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry for `key`, from the cache or from `build`.
    ///
    /// # Errors
    /// What `build` returns; the cache has none of its own.
    pub fn get_or_build(
        &self,
        key: &Key,
        build: impl FnOnce() -> Result<Entry, Error>,
    ) -> Result<(Entry, Origin), Error> {
        if let Some(entry) = self.load(key) {
            return Ok((entry, Origin::Cache));
        }
        let shard = usize::from(key.hash().as_bytes()[0]) % LOCKS;
        let _within = lock(&self.shards[shard]);
        let _across = self.lock_across(shard);
        if let Some(entry) = self.load(key) {
            return Ok((entry, Origin::Cache));
        }
        let entry = build()?;
        self.publish(key, &entry);
        Ok((entry, Origin::Compiled))
    }

    /// How many entries and bytes there are.
    pub fn usage(&self) -> Usage {
        let files = self.files();
        Usage { entries: files.len(), bytes: files.iter().map(|f| f.bytes).sum(), cap: self.cap }
    }

    /// What went wrong so far; the latest 32.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    /// Removes every entry. Returns how many.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> Result<usize, Error> {
        let files = self.files();
        for file in &files {
            fs::remove_file(&file.path).or_else(ignore_missing).map_err(|e| Error::File {
                action: "remove",
                path: file.path.clone(),
                problem: e.to_string(),
            })?;
        }
        Ok(files.len())
    }

    fn load(&self, key: &Key) -> Option<Entry> {
        match key.file_name() {
            Some(name) => self.load_file(key, &self.root.join(name)),
            // No compiler to name: whatever compiled this kernel here, latest first.
            None => {
                let prefix = key.prefix();
                let named = |f: &StoredFile| {
                    f.path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&prefix))
                };
                let mut files: Vec<StoredFile> = self.files().into_iter().filter(named).collect();
                files.sort_by_key(|f| std::cmp::Reverse(f.used));
                files.iter().find_map(|f| self.load_file(key, &f.path))
            }
        }
    }

    fn load_file(&self, key: &Key, path: &Path) -> Option<Entry> {
        let mut file = match root::open_entry(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => return self.discard(path, &e.to_string()),
        };
        let mut bytes = Vec::new();
        if let Err(e) = file.read_to_end(&mut bytes) {
            self.warn(&format!("could not read {}: {e}", path.display()));
            return None;
        }
        match Entry::decode(&bytes, |stored| key.matches(stored)) {
            Ok(entry) => {
                // Marks it as used now; an entry of a read-only folder just stays old.
                file.set_modified(SystemTime::now()).ok();
                Some(entry)
            }
            Err(damage) => self.discard(path, &damage.to_string()),
        }
    }

    fn discard(&self, path: &Path, problem: &str) -> Option<Entry> {
        self.warn(&format!("{} is discarded: {problem}", path.display()));
        fs::remove_file(path).ok();
        None
    }

    fn lock_across(&self, shard: usize) -> Option<FileLock> {
        let path = self.root.join(format!("lock-{shard:02}"));
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match FileLock::try_lock(&path) {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Ok(None) => {
                    self.warn(&format!("another process has held {} for {PATIENCE:?}", path.display()));
                    return None;
                }
                Err(e) => {
                    self.warn(&format!("could not lock {}: {e}", path.display()));
                    return None;
                }
            }
        }
    }

    fn publish(&self, key: &Key, entry: &Entry) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = key.file_name() else { return };
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join(format!("{name}.{}.{unique}.tmp", std::process::id()));
        let bytes = entry.encode(&key.preimage());
        let written = root::create_new(&temporary).and_then(|mut file| {
            self.injected_fault()?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, self.root.join(&name))
        });
        if let Err(e) = written {
            fs::remove_file(&temporary).ok();
            self.warn(&format!("could not write to {}: {e}; the kernel is used but not kept", self.root.display()));
        }
        self.evict();
    }

    #[cfg(test)]
    fn injected_fault(&self) -> io::Result<()> {
        self.fault.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    fn injected_fault(&self) -> io::Result<()> {
        Ok(())
    }

    /// Removes the entries used longest ago until the cap holds, and temporary files that nobody will finish.
    fn evict(&self) {
        let mut files = self.files();
        let mut bytes: u64 = files.iter().map(|f| f.bytes).sum();
        files.sort_by_key(|f| f.used);
        for file in files {
            if bytes <= self.cap {
                break;
            }
            if fs::remove_file(&file.path).or_else(ignore_missing).is_ok() {
                bytes -= file.bytes;
            }
        }
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let temporary = entry.path().extension().is_some_and(|e| e == "tmp");
            let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if temporary && age.is_some_and(|age| age > Duration::from_secs(3600)) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    fn files(&self) -> Vec<StoredFile> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let path = entry.path();
                let metadata = entry.metadata().ok().filter(|m| m.is_file())?;
                let named = path.file_name()?.to_str()?.ends_with(SUFFIX);
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                named.then_some(StoredFile { path, bytes: metadata.len(), used })
            })
            .collect()
    }

    fn warn(&self, problem: &str) {
        let mut warnings = lock(&self.warnings);
        if warnings.len() >= 32 {
            warnings.remove(0);
        }
        if !self.quiet && !warnings.iter().any(|w| w == problem) {
            warn(&format!("kernel cache: {problem}"));
        }
        warnings.push(problem.to_string());
    }
}

struct StoredFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn warn(text: &str) {
    eprintln!("tile: warning: {text}");
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn default_root() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    folder("TILE_CACHE_DIR")
        .or_else(|| folder("XDG_CACHE_HOME").map(|d| d.join("tile-kernels")))
        .or_else(|| folder("HOME").map(|d| d.join(".cache/tile-kernels")))
}

/// A size such as `512M`, `4G` or `1000000`, in bytes.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.to_ascii_uppercase().chars().last()? {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}
