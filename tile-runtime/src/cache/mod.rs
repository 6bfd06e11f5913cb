//! Compiled kernels, kept between runs.
//!
//! The folder is `TILE_CACHE_DIR`, else `tile-kernels` in `XDG_CACHE_HOME` or `~/.cache`; `TILE_CACHE=off` keeps
//! nothing and looks nowhere; `TILE_CACHE_SIZE` (`512M`, `4G`; 2 GiB if unset) is how large it may grow before the entries
//! used longest ago go. `TILE_CACHE_READONLY_DIR` is a second folder that is only read: kernels that were compiled into an
//! image, by root, for whoever runs it.
//!
//! A cached kernel is code that will run, so nobody else may be able to put one there: what is asked of both folders, of
//! the folders above them and of their files is the table in `trust.rs`. The first must be this user's own, the second may
//! also be root's. Entries are as readable to others as the folder that they are in: 755 makes a cache that others can use.
//!
//! One process writes at a time, under a lock that dies with it. Whatever unfinished file the next one finds is nobody's
//! and is removed, and room is made before an entry is written: the folder never holds more than the cap.
//!
//! A fault of the cache (a full disk, a damaged file, a folder others can write to) is a miss and a warning, never a
//! failed launch. One process at a time compiles a kernel; the others wait and load what it made.

mod entry;
mod files;
mod key;
mod notes;
mod readonly;
#[cfg(all(test, unix))]
pub(crate) mod tests;

pub use entry::Entry;
pub use key::Key;
pub use readonly::ReadOnly;

use crate::error::Error;
use crate::lock::lock;
use crate::settings;
use crate::trust::{self, Owner};
use files::FileLock;
use key::SUFFIX;
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
/// How long to wait for others that write before doing without: writing takes milliseconds.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// Where an entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cache.
    Cache,
    /// It was compiled now.
    Compiled,
    /// It was built into the program: [`embedded`](crate::embedded).
    Embedded,
}

/// A folder of compiled kernels.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    cap: u64,
    also: Option<ReadOnly>,
    shards: [Mutex<()>; LOCKS],
    warnings: Mutex<Vec<Warning>>,
    quiet: bool,
    /// How long to wait for the lock for writing: [`WRITE_PATIENCE`], less in tests.
    write_patience: Duration,
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
            if !settings::is_on("TILE_CACHE", true) {
                return Err("TILE_CACHE=off".into());
            }
            let root = default_root().ok_or("neither TILE_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set")?;
            let cap = settings::size_of("TILE_CACHE_SIZE").unwrap_or(DEFAULT_CAP);
            let cache = Cache::open(&root, cap).inspect_err(|problem| {
                warn(&format!("the kernel cache {} is not used: {problem}", root.display()));
            })?;
            Ok(Cache { also: ReadOnly::process().ok().cloned(), ..cache })
        });
        opened.as_ref().map_err(String::as_str)
    }

    /// The entry for `key` as a program gets it: from the process's cache, else from the folder that is only read, else from
    /// `build`.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn get(key: &Key, build: impl FnOnce() -> Result<Entry, Error>) -> Result<(Entry, Origin), Error> {
        match (Cache::process(), ReadOnly::process()) {
            (Ok(cache), _) => cache.get_or_build(key, build),
            (Err(_), Ok(only)) => match only.load(key) {
                Some(entry) => Ok((entry, Origin::Cache)),
                None => Ok((build()?, Origin::Compiled)),
            },
            (Err(_), Err(_)) => Ok((build()?, Origin::Compiled)),
        }
    }

    /// The cache in folder `root`, which is made if it is missing, up to `cap` bytes.
    ///
    /// # Errors
    /// In words: the folder is a link, belongs to another user, can be written or replaced by others, or cannot be made.
    pub fn open(root: &Path, cap: u64) -> Result<Cache, String> {
        let root = trust::prepare(root)?;
        Ok(Cache {
            root,
            cap,
            also: None,
            shards: [const { Mutex::new(()) }; LOCKS],
            warnings: Mutex::new(Vec::new()),
            quiet: cfg!(test),
            write_patience: WRITE_PATIENCE,
            #[cfg(test)]
            fault: None,
        })
    }

    /// The cache, saying nothing on standard error: its faults are in [`Cache::warnings`] alone.
    pub fn quiet(self) -> Cache {
        Cache { quiet: true, ..self }
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
        if let Some(entry) = self.load(key).or_else(|| self.also.as_ref()?.load(key)) {
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
        lock(&self.warnings).iter().map(|warning| warning.text.clone()).collect()
    }

    /// The [`warnings`](Cache::warnings) without those of a lock that another process held for so long that this one did not wait
    /// for it any longer. A busy machine alone brings those about: a kernel is used and not kept, or compiled twice.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.warnings).iter().filter(|warning| !warning.busy).map(|warning| warning.text.clone()).collect()
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
        candidates(&self.root, key).iter().find_map(|path| self.load_file(key, path))
    }

    fn load_file(&self, key: &Key, path: &Path) -> Option<Entry> {
        let mut file = match trust::open(path, Owner::Us) {
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
        self.lock_file(&format!("lock-{shard:02}"), PATIENCE)
    }

    fn lock_file(&self, name: &str, patience: Duration) -> Option<FileLock> {
        let path = self.root.join(name);
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match FileLock::try_lock(&path) {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) if start.elapsed() < patience => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Ok(None) => {
                    self.warn_busy(&format!("another process has held {} for {patience:?}", path.display()));
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
        let Some(name) = key.file_name() else { return };
        let bytes = entry.encode(&key.preimage());
        if bytes.len() as u64 > self.cap {
            let (bytes, cap) = (bytes.len(), self.cap);
            return self
                .warn(&format!("{name} has {bytes} bytes, more than the cache may hold ({cap}); it is not kept"));
        }
        if let Err(problem) = self.write(&name, &bytes, bytes.len() as u64) {
            self.not_written(problem, "the kernel is used but not kept");
        }
    }

    /// Writes a file, whole or not at all, once `room` bytes are free below the cap.
    fn write(&self, name: &str, bytes: &[u8], room: u64) -> Result<(), NotWritten> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Without the lock nothing is written: nobody could tell the unfinished file from one that a killed process left.
        let Some(_writing) = self.lock_file("lock-write", self.write_patience) else { return Err(NotWritten::NoLock) };
        self.remove_unfinished();
        self.evict(room);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join(format!("{name}.{}.{unique}.tmp", std::process::id()));
        let written = files::create_new(&temporary).and_then(|mut file| {
            self.injected_fault()?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, self.root.join(name))
        });
        written.map_err(|e| {
            fs::remove_file(&temporary).ok();
            NotWritten::Failed(e)
        })
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

    /// Removes what processes that were killed while they wrote have left. Whoever calls it holds the lock for writing.
    fn remove_unfinished(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "tmp") {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// Removes the entries used longest ago until `room` bytes are free below the cap.
    fn evict(&self, room: u64) {
        let mut files = self.files();
        let mut bytes: u64 = files.iter().map(|f| f.bytes).sum();
        files.sort_by_key(|f| f.used);
        for file in files {
            if bytes.saturating_add(room) <= self.cap {
                break;
            }
            if fs::remove_file(&file.path).or_else(ignore_missing).is_ok() {
                bytes -= file.bytes;
            }
        }
    }

    fn files(&self) -> Vec<StoredFile> {
        files_in(&self.root)
    }

    /// Says that a file was not written, and what follows. Why a lock was not had is said already.
    fn not_written(&self, problem: NotWritten, follows: &str) {
        let root = self.root.display();
        match problem {
            NotWritten::NoLock => self.remember(&format!("{root} could not be locked for writing; {follows}"), true),
            NotWritten::Failed(e) => self.remember(&format!("could not write to {root}: {e}; {follows}"), false),
        }
    }

    fn warn(&self, problem: &str) {
        self.remember(problem, false);
    }

    /// A warning of a lock that another process has.
    fn warn_busy(&self, problem: &str) {
        self.remember(problem, true);
    }

    fn remember(&self, problem: &str, busy: bool) {
        let mut warnings = lock(&self.warnings);
        if warnings.len() >= 32 {
            warnings.remove(0);
        }
        if !self.quiet && !warnings.iter().any(|w| w.text == problem) {
            warn(&format!("kernel cache: {problem}"));
        }
        warnings.push(Warning { text: problem.to_string(), busy });
    }
}

#[derive(Debug)]
struct Warning {
    text: String,
    /// Whether another process that holds a lock is all there is to it.
    busy: bool,
}

/// Why a file was not written.
enum NotWritten {
    /// The lock for writing was not had; `lock_file` has said why.
    NoLock,
    /// The file system's own reason.
    Failed(io::Error),
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

/// The files that may be the entry for `key`, best first. Where no compiler is named that is whatever compiled this kernel,
/// latest first.
fn candidates(root: &Path, key: &Key) -> Vec<PathBuf> {
    if let Some(name) = key.file_name() {
        return vec![root.join(name)];
    }
    let prefix = key.prefix();
    let named = |f: &StoredFile| f.path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&prefix));
    let mut files: Vec<StoredFile> = files_in(root).into_iter().filter(named).collect();
    files.sort_by_key(|f| std::cmp::Reverse(f.used));
    files.into_iter().map(|f| f.path).collect()
}

fn files_in(root: &Path) -> Vec<StoredFile> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
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

fn default_root() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    settings::path("TILE_CACHE_DIR")
        .or_else(|| folder("XDG_CACHE_HOME").map(|d| d.join("tile-kernels")))
        .or_else(|| folder("HOME").map(|d| d.join(".cache/tile-kernels")))
}
