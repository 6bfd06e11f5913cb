//! What a run has counted so far, and the file that it is kept in.

use crate::part::{Outcome, Verdict};
use crate::stamp::Stamp;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Failing cases that are kept by name; more are counted.
const KEPT: usize = 200;

/// The state of a part: cases `0..cases` are done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The part's name.
    pub part: String,
    /// The commit and the day on which the run began.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// What the cases are drawn from.
    pub seed: u64,
    /// Cases done, from number 0.
    pub cases: u64,
    /// Seconds it took, over all runs.
    pub seconds: f64,
    /// Cases by class and end.
    pub classes: BTreeMap<String, BTreeMap<String, u64>>,
    /// Cases that failed.
    pub failed: u64,
    /// The first of them, with the first line of each one's message.
    pub failures: Vec<Failed>,
    /// The slowest case.
    pub slowest: Slowest,
}

/// A failing case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its number.
    pub case: u64,
    /// Its class.
    pub class: String,
    /// What went wrong, in a line.
    pub message: String,
}

/// The case that took longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// Its number.
    pub case: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Progress {
    /// Nothing done yet.
    pub fn new(part: &str, stamp: Stamp, seed: u64) -> Progress {
        Progress { part: part.into(), stamp, seed, ..Progress::default() }
    }

    /// The progress in a file, if it is of this part, commit and seed: another one's cases are other cases.
    pub fn load(path: &Path, part: &str, stamp: &Stamp, seed: u64) -> Option<Progress> {
        let progress: Progress = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
        let same = progress.part == part && progress.seed == seed && progress.stamp.commit == stamp.commit;
        same.then_some(progress)
    }

    /// Writes it, so that a reader sees the old or the new state, never a torn one.
    pub fn save(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, format!("{}\n", serde_json::to_string_pretty(self)?))
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| format!("could not write {}", path.display()))
    }

    /// Counts a case.
    pub fn count(&mut self, case: u64, outcome: &Outcome, seconds: f64) {
        let end = match &outcome.verdict {
            Verdict::Passed(end) => end.as_ref(),
            Verdict::Failed(failure) => {
                self.failed += 1;
                if self.failures.len() < KEPT {
                    let message = failure.message.lines().next().unwrap_or_default().to_owned();
                    self.failures.push(Failed { case, class: outcome.class.to_string(), message });
                }
                "failed"
            }
        };
        *self.classes.entry(outcome.class.to_string()).or_default().entry(end.to_owned()).or_default() += 1;
        if seconds > self.slowest.seconds {
            self.slowest = Slowest { case, seconds };
        }
        self.cases += 1;
    }

    /// Cases by end, over all classes.
    pub fn ends(&self) -> BTreeMap<&str, u64> {
        let mut ends = BTreeMap::new();
        for (end, count) in self.classes.values().flatten() {
            *ends.entry(end.as_str()).or_default() += count;
        }
        ends
    }
}
