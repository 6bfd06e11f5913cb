//! `cache-damage`: a file of the cache is changed by somebody else.

use super::{Scratch, key, right};
use crate::part::{Case, Outcome, Part};
use rand::Rng;
use std::fs;
use tile_runtime::cache::{Cache, Origin};

/// One damage a case: noticed, said and rebuilt once, never used.
pub struct Damage;

impl Part for Damage {
    fn name(&self) -> &'static str {
        "cache-damage"
    }

    fn about(&self) -> &'static str {
        "a cached kernel is cut, flipped, overwritten, appended to or swapped; failure: it is used, or not rebuilt exactly once"
    }

    fn size(&self) -> u64 {
        100_000
    }

    fn sample(&self) -> u64 {
        200
    }

    fn run(&self, case: Case) -> Outcome {
        let mut rng = case.rng();
        let scratch = Scratch::new("damage", case.number);
        let cache = Cache::open(&scratch.0, 1 << 20).expect("a new folder is a cache").quiet();
        let words = rng.random_range(0..200);
        let (wanted, other) = (right(case.number, words), right(case.number + 1, words));
        let get = || cache.get_or_build(&key(case.number), || Ok(wanted.clone())).expect("building does not fail");
        get();
        let file = |except: Option<&std::path::Path>| {
            let files = fs::read_dir(&scratch.0).expect("the folder is there").flatten().map(|e| e.path());
            let mut entries =
                files.filter(|p| p.extension().is_some_and(|e| e == "tkc") && Some(p.as_path()) != except);
            entries.next().expect("the entry is there")
        };
        let path = file(None);
        let good = fs::read(&path).expect("the entry can be read");
        let mut bytes = good.clone();
        let at = rng.random_range(0..good.len());
        let class = match rng.random_range(0..7) {
            0 => {
                bytes.truncate(at);
                "cut"
            }
            1 => {
                bytes[at] ^= 1 << rng.random_range(0..8);
                "bit flipped"
            }
            2 => {
                let end = good.len().min(at + rng.random_range(1..64));
                bytes[at..end].iter_mut().for_each(|b| *b = rng.random());
                "overwritten"
            }
            3 => {
                bytes.extend((0..rng.random_range(1..64)).map(|_| rng.random::<u8>()));
                "appended to"
            }
            4 => {
                bytes[at..].fill(0);
                "zeros from a place on"
            }
            5 => {
                let to = rng.random_range(0..good.len());
                bytes.swap(at, to);
                "bytes swapped"
            }
            _ => {
                cache.get_or_build(&key(case.number + 1), || Ok(other.clone())).expect("building does not fail");
                bytes = fs::read(file(Some(&path))).expect("the entry can be read");
                "another kernel's"
            }
        };
        fs::write(&path, &bytes).expect("the entry can be written");
        let unchanged = bytes == good;
        let expected = if unchanged { Origin::Cache } else { Origin::Compiled };
        let first = get();
        let second = get();
        let warnings = cache.warnings().len();
        if first != (wanted.clone(), expected) || second != (wanted.clone(), Origin::Cache) {
            let [right_first, right_second] = [&first, &second].map(|got| got.0 == wanted);
            let message = format!(
                "{class} at {at} of {}: first {:?}, right: {right_first}; then {:?}, right: {right_second}",
                good.len(),
                first.1,
                second.1
            );
            return Outcome::failed(class, message);
        }
        if warnings != usize::from(!unchanged) {
            return Outcome::failed(class, format!("{class} at {at}: {warnings} warnings"));
        }
        Outcome::passed(class, if unchanged { "no change" } else { "noticed" })
    }
}
