//! `cache-kills`: processes that share a cache are killed at any moment.

use super::{Scratch, bytes_in, key, right};
use crate::part::{Case, Outcome, Part};
use rand::Rng;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tile_runtime::cache::{Cache, Entry, Origin};

const PROCESSES: usize = 64;
const KEYS: u64 = 50;
/// Kills a case; 10,000 in all.
const KILLS: u64 = 20;
/// Small enough that entries are evicted all the time: those of 50 keys have 14 MiB.
const CAP: u64 = 3 << 20;

/// The folder that a child uses.
const FOLDER: &str = "SOAK_CACHE_FOLDER";
/// Where it leaves a file if a lock was not had in time.
const BUSY: &str = "SOAK_CACHE_BUSY";
/// What it draws from.
const SEED: &str = "SOAK_CACHE_SEED";

/// Twenty kills among 64 processes a case: no entry is torn, mixed or wrong, no lock stays, the cap holds.
pub struct Kills;

impl Part for Kills {
    fn name(&self) -> &'static str {
        "cache-kills"
    }

    fn about(&self) -> &'static str {
        "20 kills a case among 64 processes on one cache of 50 kernels; failure: a wrong entry, a lock that stays, more bytes than \
         the cap. A process that does not get a lock in time uses its kernel and does not keep it, which a loaded machine brings \
         about: an end of its own"
    }

    fn size(&self) -> u64 {
        500
    }

    fn sample(&self) -> u64 {
        1
    }

    fn is_parallel(&self) -> bool {
        false
    }

    fn run(&self, case: Case) -> Outcome {
        let class = "killed";
        let mut rng = case.rng();
        let scratch = Scratch::new("kills", case.number);
        let busy = Scratch::new("kills-busy", case.number);
        std::fs::create_dir(&busy.0).expect("a folder in the temporary one");
        let spawn = |seed| spawn(&scratch.0, &busy.0, seed);
        let mut running = Running(Vec::new());
        for _ in 0..PROCESSES {
            running.0.push(spawn(rng.random()));
        }
        let mut most = 0;
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(rng.random_range(0..12)));
            let slot = rng.random_range(0..PROCESSES);
            let mut child = std::mem::replace(&mut running.0[slot], spawn(rng.random()));
            // One that has ended by itself found something wrong.
            if let Ok(Some(status)) = child.try_wait() {
                return Outcome::failed(class, format!("a process ended by itself: {status}; its own words are above"));
            }
            child.kill().ok();
            child.wait().ok();
            most = most.max(bytes_in(&scratch.0));
        }
        for child in &mut running.0 {
            if let Ok(Some(status)) = child.try_wait() {
                return Outcome::failed(class, format!("a process ended by itself: {status}; its own words are above"));
            }
        }
        drop(running);
        most = most.max(bytes_in(&scratch.0));
        let largest = wanted(KEYS - 1).code.len() as u64 + 1024;
        if most > CAP + largest {
            return Outcome::failed(
                class,
                format!("{most} bytes in the folder, the cap is {CAP} and an entry {largest}"),
            );
        }
        // The locks of the dead are free, and what they left is right or is noticed.
        let cache = Cache::open(&scratch.0, 1 << 30).expect("the folder is a cache").quiet();
        let start = Instant::now();
        let mut hits = 0;
        for k in 0..KEYS {
            let (entry, origin) = cache.get_or_build(&key(k), || Ok(wanted(k))).expect("building does not fail");
            if entry != wanted(k) {
                return Outcome::failed(class, format!("the entry of key {k} is wrong"));
            }
            hits += u64::from(origin == Origin::Cache);
        }
        if start.elapsed() > Duration::from_secs(60) {
            return Outcome::failed(class, format!("{:?} for {KEYS} keys: a lock was left behind", start.elapsed()));
        }
        // Whole files only ever appear by renaming, so kills leave nothing damaged either.
        let unfinished = std::fs::read_dir(&scratch.0).into_iter().flatten().flatten();
        let unfinished = unfinished.filter(|e| e.path().extension().is_some_and(|x| x == "tmp")).count();
        let not_kept = std::fs::read_dir(&busy.0).into_iter().flatten().count();
        match (cache.warnings().as_slice(), unfinished) {
            ([], 0) if not_kept > 0 => Outcome::passed(class, "not kept, lock busy"),
            ([], 0) if hits > 0 => Outcome::passed(class, "nothing wrong"),
            // Nobody lived long enough to write: there was nothing to be seen.
            ([], 0) => Outcome::passed(class, "nothing written"),
            (warnings, unfinished) => Outcome::failed(class, format!("{unfinished} unfinished files; {warnings:?}")),
        }
    }
}

/// Processes that are killed at the end, whatever the end is.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
        }
        for child in &mut self.0 {
            child.wait().ok();
        }
    }
}

fn wanted(k: u64) -> Entry {
    right(k, 20_000 + k * 731)
}

/// This program again, as a user of the cache: `main` looks for the variables, and where this is a program of tests, its test
/// `cache_child` does.
fn spawn(folder: &Path, busy: &Path, seed: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--ignored", "--exact", "cache_child"]);
    command.env(FOLDER, folder).env(BUSY, busy).env(SEED, seed.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("this program can be started")
}

/// Uses the cache until it is killed, where the environment asks for that; a panic where something is wrong.
pub fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let mut state: u64 = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let busy = std::env::var_os(BUSY).map(PathBuf::from).expect("both variables are set");
    let cache = Cache::open(&folder, CAP).expect("the folder is a cache");
    loop {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let k = (state >> 33) % KEYS;
        let (entry, _) = cache.get_or_build(&key(k), || Ok(wanted(k))).expect("building does not fail");
        assert!(entry == wanted(k), "the entry of key {k} is wrong");
        assert_eq!(cache.faults(), Vec::<String>::new());
        if !cache.warnings().is_empty() {
            std::fs::write(busy.join(std::process::id().to_string()), "").expect("the folder can be written to");
        }
    }
}
