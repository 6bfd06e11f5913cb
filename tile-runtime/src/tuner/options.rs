//! What a caller may say about tuning.

use std::num::NonZeroUsize;
use std::time::Duration;

/// How to tune. `TuneOptions::default()` suits most callers.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOptions {
    /// Samples of each candidate that stays in the race; the result is their median. At least 1.
    pub rounds: usize,
    /// How long tuning may take in all, compilation included. When it is over, the best candidate so far is chosen. The
    /// first candidate that works is always tried.
    pub budget: Duration,
    /// How long one launch, or one sample of launches, may take before the candidate is taken to hang. Nothing can stop
    /// a kernel: tuning ends there, with the best candidate so far.
    pub patience: Duration,
    /// Tune again although the result is remembered, and try what hung or faulted before.
    pub force: bool,
    /// No progress, neither bar nor lines; warnings are still written.
    pub quiet: bool,
    /// The largest difference between two instances' floating-point results, relative to the largest magnitude of the
    /// result; `None` for the default of the dtype ([`crate::tuner::gate_bound`]).
    pub tolerance: Option<f64>,
    /// Threads that compile; `None` for as many as there are processors, at most 8.
    pub threads: Option<NonZeroUsize>,
}

impl Default for TuneOptions {
    fn default() -> Self {
        TuneOptions {
            rounds: 15,
            budget: Duration::from_secs(60),
            patience: Duration::from_secs(5),
            force: false,
            quiet: false,
            tolerance: None,
            threads: None,
        }
    }
}

impl TuneOptions {
    /// How many threads compile.
    pub(super) fn compilers(&self) -> usize {
        match self.threads {
            Some(threads) => threads.get(),
            None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(8),
        }
    }
}
