//! Many processes on one cache, killed at random: no entry is ever torn, mixed or wrong, and no more bytes lie there than the
//! cap and one entry. `cargo xtask soak --part cache-kills` is the long form: 64 processes at once and 10,000 kills.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tile_runtime::cache::{Cache, Entry, Key, Origin};

const KEYS: u64 = 50;
const CAP: u64 = 3 << 20;

/// The one right entry for a key: long enough that writing it takes several system calls' worth of time.
fn right(key: u64) -> Entry {
    let word = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let code = (0..20_000 + key * 731).flat_map(|i| (word ^ i).to_le_bytes()).collect();
    Entry { code, log: format!("log of {key}") }
}

fn key(key: u64) -> Key {
    Key::new(&[("source", &format!("kernel {key}")), ("arch", "sm_90a")], Some("compiler".into()))
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

#[test]
fn killed_processes_leave_nothing_wrong_behind() {
    let (processes, kills) = (8, 60);
    let mut most = 0;
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-stress-{}", std::process::id()));
    std::fs::remove_dir_all(&root).ok();
    std::fs::create_dir_all(root.parent().unwrap()).unwrap();
    let spawn = |seed: u64| -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "child_uses_the_cache"]);
        command.env("STRESS_ROOT", &root).env("STRESS_SEED", seed.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let mut random = Random(7);
    let mut running: Vec<Child> = (0..processes).map(spawn).collect();
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(random.below(12)));
        let slot = random.below(processes) as usize;
        let mut child = std::mem::replace(&mut running[slot], spawn(1000 + kill));
        // One that has ended by itself found something wrong.
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
        }
        child.kill().ok();
        child.wait().unwrap();
        let files = std::fs::read_dir(&root).into_iter().flatten().flatten().filter_map(|e| e.metadata().ok());
        most = most.max(files.map(|m| m.len()).sum::<u64>());
    }
    assert!(most <= CAP + 500_000, "{most} bytes, finished and not");
    for mut child in running {
        child.kill().ok();
        child.wait().unwrap();
    }
    // The locks of the dead are free, and what they left is either right or noticed.
    let cache = Cache::open(&root, 1 << 30).unwrap();
    let start = Instant::now();
    let mut hits = 0;
    for k in 0..KEYS {
        let (entry, origin) = cache.get_or_build(&key(k), || Ok(right(k))).unwrap();
        assert!(entry == right(k), "key {k}");
        hits += usize::from(origin == Origin::Cache);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "a lock was left behind");
    assert!(hits > 0, "nothing was ever published");
    // Whole files only ever appear by renaming, so even kills leave no damage to be discarded.
    assert_eq!(cache.warnings(), Vec::<String>::new());
    std::fs::remove_dir_all(&root).ok();
}

#[test]
#[ignore = "run by killed_processes_leave_nothing_wrong_behind"]
fn child_uses_the_cache() {
    let seed: u64 = std::env::var("STRESS_SEED").unwrap().parse().unwrap();
    // Small enough that entries are evicted all the time.
    let cache = Cache::open(Path::new(&std::env::var_os("STRESS_ROOT").unwrap()), CAP).unwrap();
    let mut random = Random(seed);
    loop {
        let k = random.below(KEYS);
        let (entry, _) = cache.get_or_build(&key(k), || Ok(right(k))).unwrap();
        assert!(entry == right(k), "key {k} of seed {seed} is wrong");
        assert_eq!(cache.warnings(), Vec::<String>::new());
    }
}
