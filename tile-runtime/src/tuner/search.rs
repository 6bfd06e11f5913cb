//! The search itself, which knows no device: candidates are checked, sampled in random order, dropped, chosen.
//!
//! ```text
//! reference: the first candidate that is right ── entered twice: their difference is the noise
//! round 1:   each other candidate in random order: check its result, one sample
//! round 2..: one sample each, in a new random order; clearly slower candidates leave
//! choice:    the earliest declared one within the noise of the best median
//! ```

use super::options::TuneOptions;
use super::progress::Progress;
use super::random::Random;
use super::report::{Status, Trial};

/// What the search asks of a device. Instances are numbers in order of declaration.
pub(super) trait Bench {
    /// Runs an instance once and checks its result; the first that is right becomes the reference for the others.
    fn gate(&mut self, instance: usize) -> Result<(), Failure>;
    /// Seconds a launch, with a cold L2.
    fn sample(&mut self, instance: usize) -> Result<f64, Failure>;
    /// Seconds since tuning began.
    fn elapsed(&self) -> f64;
}

/// Why an instance is out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    /// What became of it.
    pub status: Status,
    /// Why.
    pub detail: String,
}

impl Failure {
    /// Whether nothing more can be launched.
    fn stops(&self) -> bool {
        matches!(self.status, Status::Hung | Status::Fault)
    }
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The place of the chosen one among the trials; `None` where none works.
    pub chosen: Option<usize>,
    /// The relative difference of the baseline's two entries.
    pub noise: f64,
    /// Rounds that were run.
    pub rounds: usize,
    /// Why it stopped before its last round.
    pub stopped: Option<String>,
}

/// A candidate is dropped once its best sample is this much above the best of all, after [`EARLY`] rounds.
const CLEARLY_SLOWER: f64 = 1.3;
/// Rounds before the first are dropped.
const EARLY: usize = 2;
/// Half way, a candidate is dropped whose median is this much above the best one's.
const SLOWER: f64 = 1.1;
/// The band within which the earlier declared instance wins: at least, and at most.
const BAND: [f64; 2] = [0.002, 0.01];

/// Searches among the trials that are still untried.
pub(super) fn search(
    bench: &mut dyn Bench,
    trials: &mut [Trial],
    options: &TuneOptions,
    progress: &Progress,
    mut random: Random,
) -> Outcome {
    let mut race = Race { bench, trials, second: Vec::new(), reference: None, stopped: None, progress };
    let mut live: Vec<usize> = (0..race.trials.len()).filter(|i| race.trials[*i].status == Status::Untried).collect();
    let budget = options.budget.as_secs_f64();
    let rounds = options.rounds.max(1);
    // A noisy device gets more samples, as long as the budget lasts.
    let most = rounds * 3;

    while race.reference.is_none() && race.stopped.is_none() && !live.is_empty() {
        let first = live[0];
        if race.enter(first) {
            race.reference = Some(first);
        } else {
            live.remove(0);
        }
    }
    let mut done = 0;
    while race.stopped.is_none() && race.reference.is_some() && done < most {
        if done >= rounds && race.noise() <= BAND[1] {
            break;
        }
        let mut order = live.clone();
        order.extend(race.reference);
        random.shuffle(&mut order);
        let mut seen_reference = false;
        for i in order {
            if race.bench.elapsed() > budget {
                race.stopped = Some(format!("the budget of {budget:.0} s is spent"));
                break;
            }
            let second = race.reference == Some(i) && std::mem::replace(&mut seen_reference, true);
            let kept = match done {
                // The reference was checked and sampled when it was found.
                0 if race.reference == Some(i) && !second => true,
                0 if race.reference != Some(i) => race.enter(i),
                _ => race.sample(i, second),
            };
            if !kept {
                live.retain(|other| *other != i);
            }
            if race.stopped.is_some() {
                break;
            }
        }
        if race.stopped.is_none() {
            done += 1;
        }
        match done {
            EARLY => race.drop_slower(&mut live, least, CLEARLY_SLOWER),
            n if n == rounds.div_ceil(2).max(EARLY + 1) => race.drop_slower(&mut live, median, SLOWER),
            _ => {}
        }
    }
    let noise = race.noise();
    let (stopped, second) = (race.stopped.take(), std::mem::take(&mut race.second));
    let reference = race.reference;
    for (i, trial) in trials.iter_mut().enumerate() {
        let mut all = trial.times.clone();
        if reference == Some(i) {
            all.extend(&second);
        }
        trial.median = (!all.is_empty()).then(|| median(&all));
        trial.times = all;
        if trial.status == Status::Untried && trial.median.is_some() {
            trial.status = Status::Timed;
        }
    }
    Outcome { chosen: choose(trials, noise), noise, rounds: done, stopped }
}

/// The earliest of those within the noise of the best.
fn choose(trials: &[Trial], noise: f64) -> Option<usize> {
    let time = |t: &Trial| t.median.filter(|_| matches!(t.status, Status::Timed | Status::Slower));
    let best = trials.iter().filter_map(time).min_by(f64::total_cmp)?;
    let band = noise.clamp(BAND[0], BAND[1]);
    trials.iter().position(|t| time(t).is_some_and(|m| m <= best * (1.0 + band)))
}

struct Race<'a> {
    bench: &'a mut dyn Bench,
    trials: &'a mut [Trial],
    /// The samples of the reference's second entry.
    second: Vec<f64>,
    reference: Option<usize>,
    stopped: Option<String>,
    progress: &'a Progress,
}

impl Race<'_> {
    /// Checks a candidate and takes its first sample. Whether it stays.
    fn enter(&mut self, i: usize) -> bool {
        self.progress.step(&self.trials[i].parameters);
        match self.bench.gate(self.trials[i].instance) {
            Ok(()) => self.sample(i, false),
            Err(failure) => self.fail(i, failure),
        }
    }

    /// Takes a sample. Whether the candidate stays.
    fn sample(&mut self, i: usize, second: bool) -> bool {
        self.progress.step(&self.trials[i].parameters);
        match self.bench.sample(self.trials[i].instance) {
            Ok(time) if second => self.second.push(time),
            Ok(time) => self.trials[i].times.push(time),
            Err(failure) => return self.fail(i, failure),
        }
        true
    }

    fn fail(&mut self, i: usize, failure: Failure) -> bool {
        let trial = &mut self.trials[i];
        if failure.stops() {
            self.stopped = Some(format!("{} {}: {}", trial.parameters, failure.status.name(), failure.detail));
        }
        (trial.status, trial.detail) = (failure.status, failure.detail);
        self.progress.say(&format!("{}: {}: {}", trial.parameters, trial.status.name(), first_line(&trial.detail)));
        if self.reference == Some(i) && self.stopped.is_none() {
            // Without its baseline a measurement means nothing.
            self.stopped = Some(format!("the reference {} failed", trial.parameters));
        }
        false
    }

    /// The relative difference of the reference's two entries.
    fn noise(&self) -> f64 {
        let Some(first) = self.reference.map(|i| &self.trials[i].times) else { return 0.0 };
        if first.is_empty() || self.second.is_empty() {
            return 0.0;
        }
        let (a, b) = (median(first), median(&self.second));
        (a - b).abs() / a.min(b).max(f64::MIN_POSITIVE)
    }

    /// Drops what is more than `factor` above the best; the reference stays, as the baseline.
    fn drop_slower(&mut self, live: &mut Vec<usize>, statistic: fn(&[f64]) -> f64, factor: f64) {
        let of = |i: &usize| (!self.trials[*i].times.is_empty()).then(|| statistic(&self.trials[*i].times));
        let Some(best) = live.iter().filter_map(of).min_by(f64::total_cmp) else { return };
        let slower = |i: &usize| Some(*i) != self.reference && of(i).is_some_and(|t| t > best * factor);
        let dropped: Vec<usize> = live.iter().copied().filter(slower).collect();
        live.retain(|i| !dropped.contains(i));
        for i in dropped {
            self.trials[i].status = Status::Slower;
            self.trials[i].detail = format!("over {factor} times the best after {} rounds", self.trials[i].times.len());
        }
    }
}

pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::MAX, f64::min)
}

/// The median; 0 of none.
pub(super) fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}
