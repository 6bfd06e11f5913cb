//! Compiled kernels, kept between runs.
//!
//! The folder is `TILE_CACHE_DIR`, else `tile-kernels` in `XDG_CACHE_HOME` or `~/.cache`; `TILE_CACHE=off` keeps
//! nothing; `TILE_CACHE_SIZE` (`512M`, `4G`; 2 GiB if unset) is how large it may grow before the entries used longest ago
//! go.
//!
//! A fault of the cache (a full disk, a damaged file, a folder others can write to) is a miss and a warning, never a
//! failed launch. One process at a time compiles a kernel; the others wait and load what it made.

mod entry;
mod notes;
mod root;

pub use entry::Entry;

use crate::cuda::lock;
use crate::error::Error;
use root::FileLock;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// What a compilation depends on, whole: compared byte by byte, not by its hash alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Everything but the compiler.
    base: Vec<u8>,
    /// The compiler's identity; unknown where there is none.
    compiler: Option<String>,
}

impl Key {
    /// A key of named parts (source, symbol, options, architecture, ..) and the compiler's identity. Without a compiler,
    /// what any compiler made is accepted: a kernel compiled earlier runs on a machine without NVRTC.
    pub fn new(parts: &[(&str, &str)], compiler: Option<String>) -> Key {
        let mut base = Vec::new();
        for (name, value) in [("format", FORMAT)].iter().chain(parts) {
            // Lengths keep the parts apart, whatever they hold.
            base.extend(format!("{name} {}\n", value.len()).bytes());
            base.extend(value.bytes());
            base.push(b'\n');
        }
        Key { base, compiler }
    }

    fn prefix(&self) -> String {
        blake3::hash(&self.base).to_hex()[..40].to_string()
    }

    fn file_name(&self) -> Option<String> {
        let compiler = blake3::hash(self.compiler.as_ref()?.as_bytes()).to_hex();
        Some(format!("{}-{}{SUFFIX}", self.prefix(), &compiler[..16]))
    }

    fn preimage(&self) -> Vec<u8> {
        let compiler = self.compiler.as_deref().unwrap_or_default();
        [self.base.as_slice(), format!("compiler {}\n{compiler}\n", compiler.len()).as_bytes()].concat()
    }

    fn matches(&self, stored: &[u8]) -> bool {
        match &self.compiler {
            Some(_) => stored == self.preimage(),
            None => stored.strip_prefix(self.base.as_slice()).is_some_and(|rest| rest.starts_with(b"compiler ")),
        }
    }
}

/// Version of what the other parts of a key mean.
const FORMAT: &str = "1";
const SUFFIX: &str = ".tkc";
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
        let shard = usize::from(blake3::hash(&key.base).as_bytes()[0]) % LOCKS;
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A folder of its own, removed at the end.
    pub struct Scratch(PathBuf);

    impl Scratch {
        pub fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("tile-cache-{name}-{}", std::process::id()));
            fs::remove_dir_all(&path).ok();
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        pub fn path(&self) -> &Path {
            &self.0
        }

        fn cache(&self) -> Cache {
            Cache::open(&self.0.join("cache"), 1 << 20).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn key(source: &str) -> Key {
        Key::new(&[("source", source), ("arch", "sm_90a")], Some("13.0 build a".into()))
    }

    fn entry(text: &str) -> Entry {
        Entry { code: format!("code of {text}").into_bytes(), log: "log".into() }
    }

    fn get(cache: &Cache, source: &str) -> Origin {
        let (found, origin) = cache.get_or_build(&key(source), || Ok(entry(source))).unwrap();
        assert_eq!(found, entry(source));
        origin
    }

    fn only_file(cache: &Cache) -> PathBuf {
        let mut files = cache.files();
        assert_eq!(files.len(), 1);
        files.remove(0).path
    }

    #[test]
    fn the_second_time_is_a_hit() {
        let scratch = Scratch::new("hit");
        let cache = scratch.cache();
        assert_eq!(
            [get(&cache, "a"), get(&cache, "a"), get(&cache, "b")],
            [Origin::Compiled, Origin::Cache, Origin::Compiled]
        );
        assert_eq!(get(&scratch.cache(), "b"), Origin::Cache);
        assert_eq!(cache.usage().entries, 2);
        assert_eq!(cache.warnings(), Vec::<String>::new());
        assert_eq!(cache.clear().unwrap(), 2);
        assert_eq!(get(&cache, "a"), Origin::Compiled);
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let base = [("source", "s"), ("symbol", "f"), ("options", "-a -b"), ("arch", "sm_80")];
        let compiler = || Some("13.0".to_string());
        let mut all = vec![Key::new(&base, compiler()), Key::new(&base, Some("13.1".into())), Key::new(&base, None)];
        for i in 0..base.len() {
            let mut changed = base;
            changed[i].1 = "other";
            all.push(Key::new(&changed, compiler()));
        }
        // Text that moves from one part to the next is another key.
        all.push(Key::new(&[("source", "sf"), ("symbol", ""), base[2], base[3]], compiler()));
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(a, b);
                assert!(a.file_name() != b.file_name());
            }
        }
    }

    #[test]
    fn without_a_compiler_what_any_compiler_made_is_used() {
        let scratch = Scratch::new("no-compiler");
        let cache = scratch.cache();
        get(&cache, "a");
        let none = Key { compiler: None, ..key("a") };
        let refuse = || Err(Error::Tool { tool: "NVRTC".into(), problem: "absent".into() });
        assert_eq!(cache.get_or_build(&none, refuse).unwrap(), (entry("a"), Origin::Cache));
        assert!(cache.get_or_build(&Key { compiler: None, ..key("b") }, refuse).is_err());
        assert_eq!(cache.usage().entries, 1);
    }

    #[test]
    fn damaged_and_swapped_files_are_rebuilt_once() {
        let scratch = Scratch::new("damage");
        let cache = scratch.cache();
        get(&cache, "a");
        let path = only_file(&cache);
        let good = fs::read(&path).unwrap();
        let damages: Vec<Vec<u8>> = vec![
            vec![],
            good[..good.len() / 2].to_vec(),
            [good.as_slice(), b"x"].concat(),
            good.iter().enumerate().map(|(i, b)| if i == good.len() - 9 { b ^ 1 } else { *b }).collect(),
            b"TILEBIN0".iter().chain(&good[8..]).copied().collect(),
            entry("b").encode(&key("b").preimage()),
        ];
        for (i, bytes) in damages.iter().enumerate() {
            fs::write(&path, bytes).unwrap();
            assert_eq!(get(&cache, "a"), Origin::Compiled, "damage {i}");
            assert_eq!(get(&cache, "a"), Origin::Cache, "damage {i}");
            assert_eq!(cache.warnings().len(), i + 1, "{:?}", cache.warnings());
        }
        assert!(cache.warnings().last().unwrap().contains("another kernel"));
    }

    #[test]
    fn random_damage_is_always_noticed() {
        let scratch = Scratch::new("fuzz");
        let cache = scratch.cache();
        get(&cache, "a");
        let path = only_file(&cache);
        let good = fs::read(&path).unwrap();
        let mut seed = 7u64;
        let mut random = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        for _ in 0..300 {
            let mut bytes = good.clone();
            match random(3) {
                0 => bytes.truncate(random(good.len())),
                1 => bytes[random(good.len())] ^= 1 << random(8),
                _ => {
                    let (at, len) = (random(good.len()), random(16));
                    let end = (at + len).min(good.len());
                    bytes[at..end].iter_mut().for_each(|b| *b = b.wrapping_add(1));
                }
            }
            fs::write(&path, &bytes).unwrap();
            let expected = if bytes == good { Origin::Cache } else { Origin::Compiled };
            assert_eq!(get(&cache, "a"), expected);
        }
    }

    #[test]
    fn a_fault_while_writing_is_a_warning() {
        let scratch = Scratch::new("fault");
        for (code, words) in [(libc::ENOSPC, "No space"), (libc::EROFS, "Read-only"), (libc::EACCES, "Permission")] {
            let cache = Cache { fault: Some(code), ..scratch.cache() };
            assert_eq!(get(&cache, "a"), Origin::Compiled);
            assert!(cache.warnings()[0].contains(words), "{:?}", cache.warnings());
            let left = fs::read_dir(cache.root()).unwrap().flatten().filter(|e| e.path().extension().is_some()).count();
            assert_eq!(left, 0, "no temporary file stays");
        }
    }

    #[test]
    fn a_folder_that_vanishes_is_a_warning() {
        let scratch = Scratch::new("vanish");
        let cache = scratch.cache();
        fs::remove_dir_all(cache.root()).unwrap();
        assert_eq!(get(&cache, "a"), Origin::Compiled);
        assert!(!cache.warnings().is_empty());
        fs::write(cache.root(), "a file").unwrap();
        assert_eq!(get(&cache, "a"), Origin::Compiled);
    }

    #[test]
    fn links_and_folders_in_the_place_of_an_entry_are_misses() {
        let scratch = Scratch::new("places");
        let cache = scratch.cache();
        get(&cache, "a");
        let path = only_file(&cache);
        let elsewhere = scratch.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert_eq!(get(&cache, "a"), Origin::Compiled);
        assert!(elsewhere.exists(), "what the link points to is left alone");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(get(&cache, "a"), Origin::Compiled);
    }

    #[test]
    fn the_entries_used_longest_ago_go_first() {
        let scratch = Scratch::new("lru");
        let size = entry("0").encode(&key("0").preimage()).len() as u64;
        let cache = Cache::open(&scratch.path().join("cache"), 3 * size).unwrap();
        for name in ["0", "1", "2"] {
            get(&cache, name);
            std::thread::sleep(Duration::from_millis(15));
        }
        assert_eq!(get(&cache, "0"), Origin::Cache);
        std::thread::sleep(Duration::from_millis(15));
        get(&cache, "3");
        assert!(cache.usage().bytes <= cache.cap);
        assert_eq!(get(&cache, "0"), Origin::Cache);
        assert_eq!(get(&cache, "1"), Origin::Compiled);
    }

    #[test]
    fn one_thread_compiles_and_the_others_wait() {
        let scratch = Scratch::new("flight");
        let (one, two) = (scratch.cache(), scratch.cache());
        let built = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for i in 0..16 {
                // Two caches on one folder lock each other out only through the file.
                let (cache, built) = (if i % 2 == 0 { &one } else { &two }, &built);
                scope.spawn(move || {
                    let build = || {
                        built.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(30));
                        Ok(entry("a"))
                    };
                    assert_eq!(cache.get_or_build(&key("a"), build).unwrap().0, entry("a"));
                });
            }
        });
        assert_eq!(built.into_inner(), 1);
    }

    #[test]
    fn a_failed_build_is_not_kept() {
        let scratch = Scratch::new("failed");
        let cache = scratch.cache();
        let fail = || Err(Error::Compile { kernel: "k".into(), log: "no".into() });
        assert!(cache.get_or_build(&key("a"), fail).is_err());
        assert_eq!(get(&cache, "a"), Origin::Compiled);
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("512M"), Some(512 << 20));
        assert_eq!(parse_size(" 4g "), Some(4 << 30));
        assert_eq!(parse_size("1000"), Some(1000));
        for wrong in ["", "G", "-1", "1.5G", "1T1"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
