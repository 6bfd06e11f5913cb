//! Runs a part's cases: in parallel, in batches of rising numbers, from where the last run stopped.

use crate::failure::FailureFile;
use crate::part::{Case, Outcome, Part, Verdict};
use crate::progress::Progress;
use crate::stamp::Stamp;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use std::cell::{Cell, RefCell};
use std::fs;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

/// How much of a part to run, and where its state is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// What cases are drawn from.
    pub seed: u64,
    /// Cases in all, earlier runs included; none for the part's own size.
    pub cases: Option<u64>,
    /// When to stop, whatever is left.
    pub seconds: Option<f64>,
    /// Threads.
    pub jobs: usize,
    /// The folder of progress and failures.
    pub out: PathBuf,
    /// Whether to begin anew where there is progress.
    pub fresh: bool,
}

impl Options {
    /// Seed 0 and the part's own size, on every core, kept in this folder.
    pub fn new(out: impl Into<PathBuf>) -> Options {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Options { seed: 0, cases: None, seconds: None, jobs, out: out.into(), fresh: false }
    }
}

/// How long a batch should take: a run that is killed loses no more.
const BATCH: Duration = Duration::from_secs(5);

/// Cases recurse over kernels that may be deeply nested.
const STACK: usize = 64 << 20;

/// Runs a part until it is done or its time is over.
///
/// # Errors
/// Progress or failures cannot be written. A case that fails is no error.
pub fn run(part: &dyn Part, options: &Options) -> Result<Progress> {
    let stamp = Stamp::now();
    fs::create_dir_all(&options.out).with_context(|| format!("could not make {}", options.out.display()))?;
    let path = options.out.join(format!("{}.json", part.name()));
    let known = Progress::load(&path, part.name(), &stamp, options.seed).filter(|_| !options.fresh);
    if known.is_none() {
        fs::remove_file(path.with_extension("tsv")).ok();
    }
    let mut progress = known.unwrap_or_else(|| Progress::new(part.name(), stamp, options.seed));
    let end = options.cases.unwrap_or(part.size());
    let bar = bar(part.name(), end, progress.cases);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(if part.is_parallel() { options.jobs.max(1) } else { 1 })
        .stack_size(STACK)
        .build()
        .context("could not start the threads")?;
    let (start, before) = (Instant::now(), progress.seconds);
    let mut batch = pool.current_num_threads() as u64;
    while progress.cases < end && options.seconds.is_none_or(|limit| start.elapsed().as_secs_f64() < limit) {
        let began = Instant::now();
        let numbers: Vec<u64> = (progress.cases..end.min(progress.cases + batch)).collect();
        let outcomes: Vec<(u64, Outcome, f64)> = pool
            .install(|| numbers.into_par_iter().with_max_len(1).map(|n| timed(part, n, options.seed, &bar)).collect());
        for (number, outcome, seconds) in &outcomes {
            progress.count(*number, outcome, *seconds);
            if let Verdict::Failed(failure) = &outcome.verdict {
                let case = Case { number: *number, seed: options.seed };
                let file = FailureFile::new(part, case, &outcome.class, failure, &progress.stamp.commit);
                let saved = file.save(&options.out.join("failures"))?;
                bar.suspend(|| eprintln!("{} {number}: {}\n  {}", part.name(), failure.message, saved.display()));
            }
        }
        progress.seconds = before + start.elapsed().as_secs_f64();
        log(&path.with_extension("tsv"), &outcomes)?;
        progress.save(&path)?;
        batch = match began.elapsed() {
            took if took < BATCH / 2 => batch.saturating_mul(2),
            took if took > BATCH * 2 => (batch / 2).max(1),
            _ => batch,
        };
    }
    bar.finish_and_clear();
    Ok(progress)
}

/// Adds a line for each case to a part's log: number, class, end, seconds. Cases of a batch that was cut off come twice.
fn log(path: &Path, outcomes: &[(u64, Outcome, f64)]) -> Result<()> {
    let line = |(number, outcome, seconds): &(u64, Outcome, f64)| {
        let end = match &outcome.verdict {
            Verdict::Passed(end) => end.as_ref(),
            Verdict::Failed(_) => "failed",
        };
        format!("{number}\t{}\t{end}\t{seconds:.2}\n", outcome.class)
    };
    let text: String = outcomes.iter().map(line).collect();
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("could not write {}", path.display()))
}

fn bar(name: &'static str, end: u64, done: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed} (left: {eta})");
    let bar = ProgressBar::new(end).with_prefix(name).with_style(style.unwrap_or(ProgressStyle::default_bar()));
    bar.set_position(done);
    bar.reset_eta();
    bar
}

fn timed(part: &dyn Part, number: u64, seed: u64, bar: &ProgressBar) -> (u64, Outcome, f64) {
    let start = Instant::now();
    let outcome = one(part, Case { number, seed });
    bar.inc(1);
    (number, outcome, start.elapsed().as_secs_f64())
}

/// Runs one case; a panic is a failure of class `panic`.
pub fn one(part: &dyn Part, case: Case) -> Outcome {
    guarded(|| part.run(case)).unwrap_or_else(|panic| Outcome::failed("panic", panic))
}

/// The first cases of a part in this thread's pool, for tests: every failure's text, or nothing.
///
/// # Errors
/// The failures.
pub fn sample(part: &dyn Part, cases: u64, out: &Path) -> Result<Progress> {
    let options = Options { cases: Some(cases), fresh: true, ..Options::new(out) };
    let progress = run(part, &options)?;
    let failures: Vec<String> =
        progress.failures.iter().map(|f| format!("case {} ({}): {}", f.case, f.class, f.message)).collect();
    anyhow::ensure!(failures.is_empty(), "{} failed, see {}:\n{}", part.name(), out.display(), failures.join("\n"));
    Ok(progress)
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs something that may panic; a panic in this thread is its message and place, and prints nothing.
///
/// # Errors
/// The panic's message.
pub fn guarded<T>(run: impl FnOnce() -> T) -> std::result::Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let other = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if GUARDED.get() {
                PANIC.with_borrow_mut(|message| *message = Some(info.to_string()));
            } else {
                other(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(outer);
    result.map_err(|payload| {
        let text = || payload.downcast_ref::<String>().cloned().or(payload.downcast_ref::<&str>().map(|&s| s.into()));
        let message = PANIC.take().or_else(text).unwrap_or_default();
        format!("panic: {}", message.replace('\n', " "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Every tenth case fails, and case 33 panics.
    struct Tenth {
        runs: AtomicU64,
    }

    impl Part for Tenth {
        fn name(&self) -> &'static str {
            "tenth"
        }

        fn about(&self) -> &'static str {
            ""
        }

        fn size(&self) -> u64 {
            40
        }

        fn sample(&self) -> u64 {
            5
        }

        fn run(&self, case: Case) -> Outcome {
            self.runs.fetch_add(1, Ordering::Relaxed);
            assert_ne!(case.number, 33, "no such case");
            match case.number % 10 {
                9 => Outcome::failed("nine", "it ends in 9").with_input("999"),
                _ => Outcome::passed(if case.number.is_multiple_of(2) { "even" } else { "odd" }, "fine"),
            }
        }

        fn shrink(&self, _: Case, failed: &Failure) -> Shrunk {
            let input = failed.input.as_ref().map(|text| text[..1].to_owned());
            Shrunk { input, tile: Some("kernel k() {}".into()) }
        }
    }

    use crate::part::{Failure, Shrunk};

    fn folder(name: &str) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/soak-tests").join(name);
        fs::remove_dir_all(&folder).ok();
        folder
    }

    #[test]
    fn a_run_goes_on_where_it_stopped() {
        let part = Tenth { runs: AtomicU64::new(0) };
        let options = Options { cases: Some(15), ..Options::new(folder("resumed")) };
        let first = run(&part, &options).unwrap();
        assert_eq!((first.cases, first.failed), (15, 1));
        let whole = run(&part, &Options { cases: None, ..options.clone() }).unwrap();
        assert_eq!(part.runs.load(Ordering::Relaxed), 40, "no case ran twice");
        assert_eq!((whole.cases, whole.failed), (40, 5));
        let straight = run(&part, &Options { fresh: true, cases: None, ..options }).unwrap();
        assert_eq!(straight.classes, whole.classes, "a killed run counts as one that was not");
    }

    #[test]
    fn failures_and_panics_are_files() {
        let part = Tenth { runs: AtomicU64::new(0) };
        let out = folder("failures");
        let progress = run(&part, &Options::new(&out)).unwrap();
        assert_eq!(progress.ends(), [("failed", 5), ("fine", 35)].into());
        let panic = FailureFile::load(&out.join("failures/tenth-33.json")).unwrap();
        assert!(panic.message[0].contains("no such case") && panic.class == "panic", "{panic:?}");
        let failed = FailureFile::load(&out.join("failures/tenth-9.json")).unwrap();
        assert_eq!(failed.input, Some(vec!["9".into()]), "shrunk");
        assert_eq!(std::fs::read_to_string(out.join("failures/tenth-9.tile")).unwrap(), "kernel k() {}");
    }

    #[test]
    fn a_sample_with_a_failure_is_an_error() {
        let part = Tenth { runs: AtomicU64::new(0) };
        assert!(sample(&part, 5, &folder("sample")).is_ok());
        let error = sample(&part, 15, &folder("sample")).unwrap_err().to_string();
        assert!(error.contains("case 9 (nine): it ends in 9"), "{error}");
    }
}
