//! Which of several ways to make one call is the fastest: what a host function is tuned by that chooses among kernels, and not only
//! among one kernel's instances.

use super::measure::Rig;
use super::progress::Progress;
use super::report::{Status, Trial, TuneReport};
use super::scratch::Scratch;
use super::search::{first_line, search};
use super::{KNOWN, ONE_AT_A_TIME, TuneOptions, conclude, exclude_known, is_cut_short, keep, key, publish, recall};
use super::{gate_bound, nothing_left, remember, seed};
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::Error;
use crate::kernel::{Argument, Definition, Dtype, Place};
use crate::launch_error::LaunchError;
use crate::lock::lock;
use crate::stream::Stream;
use crate::tensor::{TensorView, TensorViewMut};
use std::time::Instant;

/// A call as the tuner sees it.
pub struct WaysOf<'a> {
    /// The host function, such as `gemm`.
    pub name: &'a str,
    /// What the ways may launch: a remembered result is forgotten when one of them changes.
    pub kernels: &'a [&'static Definition],
    /// The tensors of the call, and whatever else decides which way is the fastest.
    pub args: &'a [Argument<'a>],
    /// Which of `args` the call writes: it gets copies of these. Those that are not listed are only read.
    pub writes: &'a [bool],
    /// What decides beside `args`, in words: options that are no argument.
    pub options: &'a str,
}

/// One way to make a call.
pub struct Way<'a> {
    /// What tells it from the others, in words. A remembered result names it.
    pub name: String,
    /// Whether its kernels may start before the previous kernel of the stream is done, for the report: `launch` sees to it, by
    /// [`Place::in_order`] where they may not.
    pub early: bool,
    /// Makes the call.
    pub launch: Box<Launch<'a>>,
}

/// Makes a call at a place, with tensors in the places of its arguments.
pub type Launch<'a> = dyn Fn(&Place<'_>, &mut Tensors<'_>) -> Result<(), LaunchError> + 'a;

/// The tensors that a way is to work with: those of the call or copies of them, in order.
pub struct Tensors<'a> {
    args: Vec<Argument<'a>>,
    writes: &'a [bool],
}

impl<'a> Tensors<'a> {
    /// The tensor at a place that the call reads; none where it is of another type, or written.
    pub fn input<T: Element, const R: usize>(&self, place: usize) -> Option<TensorView<'a, T, R>> {
        match (self.args.get(place)?, self.writes.get(place) == Some(&true)) {
            (Argument::Tensor(tensor), false) => tensor.typed(),
            _ => None,
        }
    }

    /// The tensor at a place that the call writes, which is given once; none where it is of another type, or only read.
    pub fn output<T: Element, const R: usize>(&mut self, place: usize) -> Option<TensorViewMut<'a, T, R>> {
        match (self.args.get(place)?, self.writes.get(place) == Some(&true)) {
            (Argument::Tensor(tensor), true) => {
                let view = TensorViewMut::over(tensor)?;
                self.args[place] = Argument::Absent;
                Some(view)
            }
            _ => None,
        }
    }
}

impl Way<'_> {
    /// Makes the call on a stream with these tensors, those that are written being the tuner's own.
    pub(super) fn launch_on<'s>(
        &self,
        stream: &Stream,
        args: Vec<Argument<'s>>,
        writes: &'s [bool],
    ) -> Result<(), Error> {
        Ok((self.launch)(&Place::of(stream), &mut Tensors { args, writes })?)
    }
}

/// The fastest of the ways to make a call, by its number, and the report of how it was found. The first way is what the call does by
/// itself: another one is chosen only where it is faster by more than the noise of the measurement, so a tuned call is never the slower one.
/// The first way's results are what the others' are compared with. Results are remembered as those of [`tune`](super::tune) are.
///
/// On a simulator nothing is timed, and the first way is chosen; it is run once.
///
/// # Errors
/// There is no way, or none works; the device has failed.
pub fn tune_ways(
    device: &Device,
    call: &WaysOf<'_>,
    ways: &[Way<'_>],
    options: &TuneOptions,
) -> Result<(usize, TuneReport), Error> {
    let start = Instant::now();
    if ways.is_empty() {
        return Err(Error::Tune { kernel: call.name.into(), problem: "there is no way to make the call".into() });
    }
    let key = key::of_call(call, device)?;
    let name = remember::file_name(call.name, &key);
    let _alone = lock(&ONE_AT_A_TIME);
    let trials = trials(ways);
    let earlier = match device.is_simulator() {
        true => None,
        false => lock(&KNOWN).as_ref().and_then(|known| known.get(&key).cloned()).or_else(|| recall(&name, &key)),
    };
    // Shapes of one bucket may have other ways: the earlier choice is found by its name.
    let known = earlier.as_ref().filter(|report| !options.force && !report.trials.iter().any(is_cut_short));
    let known = known.and_then(|report| {
        let chosen = report.choice().filter(|chosen| chosen.median.is_some())?;
        let number = trials.iter().position(|trial| trial.parameters == chosen.parameters)?;
        Some((number, report.clone()))
    });
    if let Some((number, report)) = known {
        lock(&KNOWN).get_or_insert_default().insert(key, report.clone());
        publish(&report);
        return Ok((number, report));
    }
    let mut report = TuneReport { trials, ..TuneReport::new(call.name, key.clone(), device) };
    report.dims = call.dims();
    exclude_known(&mut report.trials, earlier.as_ref().filter(|_| !options.force));
    if !report.trials.iter().any(|trial| trial.status == Status::Untried) {
        return Err(nothing_left(&report));
    }
    let is_new = report.trials.first().is_some_and(|trial| trial.status == Status::Untried);
    if let Some(first) = ways.first().filter(|_| is_new) {
        // What the call would be refused for is its own error, and not a way's.
        let scratch = Scratch::copy(device, call.args, |at| call.writes.get(at) == Some(&true))?;
        first.launch_on(&device.stream()?, scratch.args(call.args), call.writes)?;
    }
    let result = match &device.state.backend {
        Backend::Simulator { .. } => {
            report.timing = "none: a simulator has no clock; what the call does by itself is taken".into();
            if !options.quiet {
                eprintln!("tile: no tuning of `{}` on {device}; timing: {}", call.name, report.timing);
            }
            return Ok((0, report));
        }
        Backend::Cuda(cuda) => {
            let result = measured(device, call, ways, options, cuda.l2_bytes, &mut report, start);
            // After a fault nothing runs in this process any more, and every call says so.
            cuda.bind().and(result)
        }
    };
    report.seconds = start.elapsed().as_secs_f64();
    // A failed tuning is kept too: it says which way must be left out.
    keep(&name, &report);
    result?;
    lock(&KNOWN).get_or_insert_default().insert(key, TuneReport { remembered: true, ..report.clone() });
    publish(&report);
    Ok((report.chosen, report))
}

/// A record each of the ways, which are still to be tried.
pub(super) fn trials(ways: &[Way<'_>]) -> Vec<Trial> {
    let trial = |(number, way): (usize, &Way<'_>)| {
        let how = if way.early { "dependent launch" } else { "plain launch" };
        Trial { instance: number, parameters: format!("{}, {how}", way.name), ..Trial::default() }
    };
    ways.iter().enumerate().map(trial).collect()
}

/// Checks and times the ways.
pub(super) fn measured(
    device: &Device,
    call: &WaysOf<'_>,
    ways: &[Way<'_>],
    options: &TuneOptions,
    l2_bytes: u64,
    report: &mut TuneReport,
    start: Instant,
) -> Result<(), Error> {
    let steps = report.trials.iter().filter(|t| t.status == Status::Untried).count() * (1 + options.rounds.max(1));
    let progress = Progress::new(&format!("tuning `{}`", call.name), steps, options.quiet);
    let no_instance = |_: usize| Err(Error::Tune { kernel: call.name.into(), problem: "it has no instances".into() });
    let mut rig = Rig {
        device,
        l2_bytes,
        args: call.args,
        writes: (0..call.args.len()).map(|at| call.writes.get(at) == Some(&true)).collect(),
        loaded: ways.iter().enumerate().map(|(number, way)| (number, way.into())).collect(),
        simulate: &no_instance,
        exact: false,
        options,
        start,
        state: Default::default(),
    };
    let outcome = search(&mut rig, &mut report.trials, options, &progress, seed(start));
    report.timing = rig.timing();
    let bound = options.tolerance.unwrap_or(gate_bound(Dtype::F32));
    report.gate = format!(
        "the others are within {bound:.1e} of the largest magnitude, or two last places, of what the call does by itself"
    );
    let result = conclude(report, outcome);
    progress.finish(&match &result {
        Ok(()) => format!("tuned `{}`: {}", call.name, report.choice().map_or("", |t| t.parameters.as_str())),
        Err(error) => first_line(&error.to_string()).to_string(),
    });
    result
}

impl WaysOf<'_> {
    /// The extents of the tensors, for the report.
    fn dims(&self) -> Vec<(String, i64)> {
        let tensors = self.args.iter().enumerate().filter_map(|(at, arg)| match arg {
            Argument::Tensor(tensor) => Some((at, tensor.shape())),
            Argument::Scalar(_) | Argument::Absent => None,
        });
        tensors
            .flat_map(|(at, shape)| shape.iter().enumerate().map(move |(axis, e)| (format!("{at}.{axis}"), *e)))
            .collect()
    }
}
