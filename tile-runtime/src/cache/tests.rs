//! The cache: hits, damage, faults, eviction, and who compiles.

use super::*;
use std::os::unix::fs::PermissionsExt;
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
    key_by(Some("13.0 build a"), source)
}

fn key_by(compiler: Option<&str>, source: &str) -> Key {
    Key::new(&[("source", source), ("arch", "sm_90a")], compiler.map(str::to_owned))
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
    let none = key_by(None, "a");
    let refuse = || Err(Error::Tool { tool: "NVRTC".into(), problem: "absent".into() });
    assert_eq!(cache.get_or_build(&none, refuse).unwrap(), (entry("a"), Origin::Cache));
    assert!(cache.get_or_build(&key_by(None, "b"), refuse).is_err());
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

/// All bytes of the folder's files, finished or not.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

#[test]
fn what_killed_writers_leave_is_removed_and_counts() {
    let scratch = Scratch::new("orphans");
    let size = entry("00").encode(&key("00").preimage()).len() as u64;
    let cache = Cache::open(&scratch.path().join("cache"), 3 * size).unwrap();
    for i in 10..30 {
        // A writer that is killed leaves its file, however new it is.
        for orphan in 0..9 {
            fs::write(cache.root().join(format!("x.{i}.{orphan}.tmp")), vec![0; size as usize]).unwrap();
        }
        get(&cache, &i.to_string());
        assert!(bytes_in(cache.root()) <= cache.cap, "{}", bytes_in(cache.root()));
        assert_eq!(cache.usage().entries, 3.min(i - 9));
    }
    cache.keep_note("note", b"text");
    fs::write(cache.root().join("note.1.0.tmp"), b"half").unwrap();
    cache.keep_note("note", b"text");
    let left =
        fs::read_dir(cache.root()).unwrap().flatten().filter(|e| e.path().extension().is_some_and(|x| x == "tmp"));
    assert_eq!(left.count(), 0);
    assert_eq!(cache.warnings(), Vec::<String>::new());
}

#[test]
fn eight_writers_stay_below_the_cap() {
    let scratch = Scratch::new("cap");
    let size = entry("000").encode(&key("000").preimage()).len() as u64;
    let root = scratch.path().join("cache");
    let over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (root, over) = (&root, &over);
            scope.spawn(move || {
                let cache = Cache::open(root, 5 * size).unwrap();
                for i in 0..40 {
                    get(&cache, &format!("{}", 100 + writer * 40 + i));
                    over.fetch_max(bytes_in(root) as usize, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(over.into_inner() as u64 <= 5 * size);
}

#[test]
fn an_entry_larger_than_the_cap_is_not_kept_and_drives_nothing_out() {
    let scratch = Scratch::new("large");
    let size = entry("0").encode(&key("0").preimage()).len() as u64;
    let cache = Cache::open(&scratch.path().join("cache"), 2 * size).unwrap();
    get(&cache, "0");
    let large = Entry { code: vec![1; 3 * size as usize], log: String::new() };
    assert_eq!(cache.get_or_build(&key("1"), || Ok(large.clone())).unwrap(), (large, Origin::Compiled));
    assert!(cache.warnings()[0].contains("more than the cache may hold"), "{:?}", cache.warnings());
    assert_eq!(get(&cache, "0"), Origin::Cache);
}

#[test]
fn while_another_writes_nothing_is_written_twice() {
    let scratch = Scratch::new("writing");
    let cache = scratch.cache();
    let held = FileLock::try_lock(&cache.root().join("lock-write")).unwrap().unwrap();
    std::thread::scope(|scope| {
        let getting = scope.spawn(|| get(&cache, "a"));
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(cache.usage().entries, 0);
        drop(held);
        assert_eq!(getting.join().unwrap(), Origin::Compiled);
    });
    assert_eq!(cache.usage().entries, 1);
}

#[test]
fn a_lock_that_another_has_is_a_warning_and_no_fault() {
    let scratch = Scratch::new("busy");
    let cache = Cache { write_patience: Duration::from_millis(30), ..scratch.cache() };
    let held = FileLock::try_lock(&cache.root().join("lock-write")).unwrap().unwrap();
    assert_eq!(get(&cache, "a"), Origin::Compiled);
    let warnings = cache.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("another process has held") && warnings[1].contains("used but not kept"),
        "{warnings:?}"
    );
    assert_eq!(cache.faults(), Vec::<String>::new());
    drop(held);
    assert_eq!((get(&cache, "a"), get(&cache, "a")), (Origin::Compiled, Origin::Cache));
    // A lock that cannot be had at all is a fault.
    fs::remove_file(cache.root().join("lock-write")).unwrap();
    fs::create_dir(cache.root().join("lock-write")).unwrap();
    get(&cache, "b");
    assert!(cache.faults()[0].contains("could not lock"), "{:?}", cache.faults());
}

#[test]
fn a_folder_that_is_only_read_is_the_second_choice() {
    let scratch = Scratch::new("readonly");
    let image = scratch.path().join("image");
    fs::create_dir(&image).unwrap();
    fs::set_permissions(&image, fs::Permissions::from_mode(0o755)).unwrap();
    let warm = Cache::open(&image, 1 << 20).unwrap();
    get(&warm, "a");
    let path = only_file(&warm);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644, "others can read it");

    let only = ReadOnly::open(&image).unwrap();
    assert_eq!((only.load(&key("a")), only.load(&key("b"))), (Some(entry("a")), None));
    assert_eq!(only.load(&key_by(None, "a")), Some(entry("a")));
    let cache = Cache { also: Some(only.clone()), ..scratch.cache() };
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(
        [get(&cache, "a"), get(&cache, "b"), get(&cache, "b")],
        [Origin::Cache, Origin::Compiled, Origin::Cache]
    );
    assert_eq!((cache.usage().entries, warm.usage().entries), (1, 1), "nothing is copied and nothing written");
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);

    // Damage and files that others could have written are misses, and stay for their owner to see.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(only.load(&key("a")), None);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert_eq!(only.load(&key("a")), None);
    assert!(path.exists());
    assert_eq!(get(&cache, "a"), Origin::Compiled);
}

/// Only root can make a file that is another user's.
#[test]
fn another_users_folder_is_refused_and_roots_is_read() {
    let scratch = Scratch::new("owners");
    let image = scratch.path().join("image");
    fs::create_dir(&image).unwrap();
    fs::set_permissions(&image, fs::Permissions::from_mode(0o755)).unwrap();
    get(&Cache::open(&image, 1 << 20).unwrap(), "a");
    for mode in [0o775, 0o757, 0o1777] {
        fs::set_permissions(&image, fs::Permissions::from_mode(mode)).unwrap();
        assert!(ReadOnly::open(&image).is_err(), "{mode:o}");
    }
    fs::set_permissions(&image, fs::Permissions::from_mode(0o755)).unwrap();
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&image, &link).unwrap();
    for link in ["link", "link/"] {
        assert!(ReadOnly::open(&scratch.path().join(link)).unwrap_err().contains("symbolic link"));
    }
    assert!(ReadOnly::open(&scratch.path().join("missing")).is_err());
    if trust::user() != 0 {
        return eprintln!("cache: not run: only root can give a folder to another user");
    }
    std::os::unix::fs::chown(&image, Some(4242), None).unwrap();
    assert!(ReadOnly::open(&image).unwrap_err().contains("belongs to user 4242"));
    assert!(Cache::open(&image, 1 << 20).unwrap_err().contains("belongs to user 4242"));
    std::os::unix::fs::chown(&image, Some(0), None).unwrap();
    let path = files_in(&image).remove(0).path;
    std::os::unix::fs::chown(&path, Some(4242), None).unwrap();
    assert_eq!(ReadOnly::open(&image).unwrap().load(&key("a")), None);
}
