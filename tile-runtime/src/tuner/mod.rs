//! Which declared instance is the fastest for given arguments: measured once, remembered on disk.
//!
//! ```text
//! declared instances of the dtypes
//!    │ launch contract, shared memory, waves and sectors of the static model      (space)
//!    │ compiled in parallel; what does not compile is a record, not an error      (compile)
//!    │ checked: the first against the simulator, the others against the first     (compare, measure)
//!    │ sampled in random order, L2 cold, clearly slower ones dropped              (search, measure)
//!    ▼
//! the earliest declared one within the noise of the best ── report (JSON) in the cache's folder (remember)
//! ```
//!
//! Expansion gives every kernel `tuned(&device, args..)` and `tuned_with(&device, &options, args..)`, which return what
//! `instance(..)` returns. The caller's outputs are never written. Nothing here knows a kernel. A host function that chooses among kernels
//! is tuned by [`tune_ways`].
//!
//! What a library call cannot do is stop a kernel that hangs: tuning ends there, the report says which it was, and it is
//! left out the next time. The device stays busy until that kernel ends, if it does. With `TILE_LAUNCH_BLOCKING=1` a launch
//! waits for its kernel, for ever if need be.
//!
//! `TILE_TUNE_REPORT=1` prints the report of every tuned call, remembered or new, on standard error; any other value
//! is the path of a folder or file that the report is written to as JSON.

mod compare;
mod compile;
mod key;
mod measure;
mod options;
mod progress;
mod random;
mod remember;
mod report;
mod scratch;
mod search;
mod space;
mod ways;

#[cfg(test)]
mod tests;

pub use compare::gate_bound;
pub(crate) use compare::{is_exact, same_bits, value, within};
pub use options::TuneOptions;
pub use report::{Status, Trial, TuneReport};
pub use ways::{Launch, Tensors, Way, WaysOf, tune_ways};

use crate::cache::Cache;
use crate::check::Case;
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::kernel::{Argument, Definition, Dtype, InstanceTable, Loaded, Variant, prepare, unlisted};
use crate::launch_error::LaunchError;
use crate::lock::lock;
use crate::settings;
use measure::{Candidate, Rig};
use progress::Progress;
pub(crate) use random::Random;
use search::{Outcome, first_line, search};
use std::collections::HashMap;
use std::panic::Location;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;
use tile_ir::ir::ParamKind;

/// The fastest declared instance of a kernel with these dtypes for these arguments on a device, by its number, and the
/// report of how it was found. What expansion's `tuned` calls.
///
/// On a simulator nothing is timed: the first instance whose launch contract holds is chosen, and the report says so.
///
/// # Errors
/// No instance's launch contract holds (the error is that of the first), none can be compiled or none gives a right
/// result; the device has failed.
#[track_caller]
pub fn tune<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    dtypes: &[Dtype],
    device: &Device,
    options: &TuneOptions,
    args: &mut [Argument<'_>],
) -> Result<(usize, TuneReport), Error> {
    let at = Location::caller();
    let kernel = def.kernel()?;
    let values = space::specialized(kernel, args);
    let dims: Vec<(&str, i64)> = values.iter().map(|(dim, value)| (kernel.dims[*dim].name.as_str(), *value)).collect();
    let load =
        |instance: usize, on: &Device| prepare(def, table, Variant { instance, dims: &dims, ..Variant::default() }, on);
    let report = tune_call(&Call { def, dtypes, device, options, args, load: &load, at })?;
    publish(&report);
    Ok((report.chosen, report))
}

/// The fastest declared instance of a kernel with these dtypes, for dense tensors of random values with these dims: what
/// `cargo tile tune` does. `values` are all of the kernel's dims by name, and scalars; a `usize` scalar without a value is 1, another
/// one random.
///
/// # Errors
/// As [`tune`]; a dim has no value, or a name is no dim and no scalar ([`Error::Tune`]).
#[track_caller]
pub fn tune_at(
    def: &'static Definition,
    dtypes: &[Dtype],
    device: &Device,
    options: &TuneOptions,
    values: &[(String, f64)],
) -> Result<TuneReport, Error> {
    let at = Location::caller();
    let kernel = def.kernel()?;
    let wrong = |problem: String| Error::Tune { kernel: def.name().into(), problem };
    let scalars = kernel.params.values().filter(|p| matches!(p.kind, ParamKind::Scalar { .. })).map(|p| &p.name);
    let names: Vec<&String> = kernel.dims.values().map(|dim| &dim.name).chain(scalars).collect();
    if let Some((asked, _)) = values.iter().find(|(asked, _)| !names.contains(&asked)) {
        let there = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(wrong(format!("it has no dim and no scalar `{asked}`; it has {there}")));
    }
    let dims = kernel.dims.values().map(|dim| {
        let value =
            values.iter().find(|(name, _)| *name == dim.name).map(|(name, value)| (name.clone(), *value as i64));
        value.ok_or_else(|| wrong(format!("the dim `{0}` has no value: give {0}=4096, say", dim.name)))
    });
    let dims = dims.collect::<Result<Vec<_>, Error>>()?;
    let declared = kernel.instances.iter().position(|instance| instance.dtypes == dtypes);
    let declared = declared.ok_or_else(|| wrong("no instance is declared for these dtypes".into()))?;
    let of = |name: &str| dims.iter().find(|(dim, _)| dim == name).map_or(0, |(_, value)| *value);
    let specialized: Vec<(&str, i64)> =
        kernel.specialized().iter().map(|dim| (kernel.dims[*dim].name.as_str(), of(&kernel.dims[*dim].name))).collect();
    let variant = |instance: usize| Variant { instance, dims: &specialized, ..Variant::default() };
    let mut random = Random(1);
    let case = Case::new(kernel, &variant(declared).instance(def)?.1, &dims, values, &mut || random.unit());
    let case = case.ok_or_else(|| wrong("the extents of its tensors are not known before a launch".into()))?;
    let tensors = case.tensors(device)?;
    let args = tensors.arguments(&case);
    let load = |instance: usize, on: &Device| unlisted(def, variant(instance), on);
    let report = tune_call(&Call { def, dtypes, device, options, args: &args, load: &load, at })?;
    publish(&report);
    Ok(report)
}

/// One call to tune.
struct Call<'a> {
    def: &'static Definition,
    dtypes: &'a [Dtype],
    device: &'a Device,
    options: &'a TuneOptions,
    args: &'a [Argument<'a>],
    load: &'a (dyn Fn(usize, &Device) -> Result<Loaded, Error> + Sync),
    at: &'static Location<'static>,
}

/// Results of this process, for calls that come again and for where there is no cache.
static KNOWN: Mutex<Option<HashMap<String, TuneReport>>> = Mutex::new(None);
/// Two tunings at once would time each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn tune_call(call: &Call<'_>) -> Result<TuneReport, Error> {
    let Call { def, device, options, args, .. } = call;
    let key = key::of(def, call.dtypes, device, args)?;
    let name = remember::file_name(def.name(), &key);
    let _alone = lock(&ONE_AT_A_TIME);
    let earlier = match device.is_simulator() {
        true => None,
        false => lock(&KNOWN).as_ref().and_then(|known| known.get(&key).cloned()).or_else(|| recall(&name, &key)),
    };
    if let Some(report) = &earlier
        && !options.force
        && is_usable(call, report)
    {
        lock(&KNOWN).get_or_insert_default().insert(key, report.clone());
        return Ok(report.clone());
    }
    let start = Instant::now();
    let mut report = TuneReport::new(def.name(), key.clone(), device);
    report.dtypes = call.dtypes.iter().map(|d| d.name().to_string()).collect();
    let space = space::candidates(def, call.dtypes, device, args, options.compilers())?;
    (report.trials, report.dims) = (space.trials, space.dims);
    exclude_known(&mut report.trials, earlier.as_ref().filter(|_| !options.force));
    let Some(first) = report.trials.iter().find(|t| t.status == Status::Untried).map(|t| t.instance) else {
        return Err(match space.refusal {
            Some(problem) => LaunchError::new(def.name(), call.at, *problem).into(),
            None => nothing_left(&report),
        });
    };
    report.chosen = first;
    let result = match &device.state.backend {
        Backend::Simulator { .. } => {
            report.timing = "none: a simulator has no clock; the first instance that may be launched is taken".into();
            if !options.quiet {
                eprintln!("tile: no tuning of `{}` on {device}; timing: {}", def.name(), report.timing);
            }
            return Ok(report);
        }
        Backend::Cuda(cuda) => measured(call, cuda.l2_bytes, &mut report, start),
    };
    report.seconds = start.elapsed().as_secs_f64();
    // A failed tuning is kept too: it says which candidate must be left out.
    keep(&name, &report);
    result?;
    lock(&KNOWN).get_or_insert_default().insert(key, TuneReport { remembered: true, ..report.clone() });
    Ok(report)
}

/// Compiles, checks and times.
fn measured(call: &Call<'_>, l2_bytes: u64, report: &mut TuneReport, start: Instant) -> Result<(), Error> {
    let Call { def, device, options, args, load, .. } = call;
    let kernel = def.kernel()?;
    let steps = report.trials.iter().filter(|t| t.status == Status::Untried).count() * (2 + options.rounds.max(1));
    let progress = Progress::new(&format!("tuning `{}`", def.name()), steps, options.quiet);
    let writes = kernel.params.values().map(|p| matches!(p.kind, ParamKind::Tensor { mutable: true, .. })).collect();
    let simulate = |instance: usize| load(instance, &Device::simulator());
    let exact = compare::is_exact(kernel);
    let mut rig = Rig {
        device,
        l2_bytes,
        args,
        writes,
        loaded: Default::default(),
        simulate: &simulate,
        exact,
        options,
        start,
        state: Default::default(),
    };
    for (instance, loaded) in build(&mut report.trials, options, start, &progress, &|i| load(i, device)) {
        rig.loaded.insert(instance, Candidate::Instance(loaded));
    }
    let outcome = search(&mut rig, &mut report.trials, options, &progress, seed(start));
    report.timing = rig.timing();
    report.gate = gate_words(exact, call, rig.notes());
    let result = conclude(report, outcome);
    progress.finish(&match &result {
        Ok(()) => format!("tuned `{}`: {}", def.name(), report.choice().map_or("", |t| t.parameters.as_str())),
        Err(error) => first_line(&error.to_string()).to_string(),
    });
    match &device.state.backend {
        // After a fault nothing runs in this process any more, and every call says so.
        Backend::Cuda(cuda) => cuda.bind().and(result),
        Backend::Simulator { .. } => result,
    }
}

/// Compiles the candidates; those that do not compile get their status.
fn build<L: Built + Send>(
    trials: &mut [Trial],
    options: &TuneOptions,
    start: Instant,
    progress: &Progress,
    load: &(dyn Fn(usize) -> Result<L, Error> + Sync),
) -> Vec<(usize, L)> {
    let open: Vec<usize> = (0..trials.len()).filter(|i| trials[*i].status == Status::Untried).collect();
    let instances: Vec<usize> = open.iter().map(|i| trials[*i].instance).collect();
    let over = || start.elapsed() > options.budget;
    let built = compile::in_parallel(&instances, options.compilers(), over, |instance| {
        progress.step("compiling");
        load(*instance)
    });
    let mut all = Vec::new();
    for (i, built) in open.into_iter().zip(built) {
        let trial = &mut trials[i];
        match built {
            Some(Ok(loaded)) => {
                loaded.describe(trial);
                all.push((trial.instance, loaded));
            }
            Some(Err(error)) => {
                trial.status = match &error {
                    Error::Resource { .. } => Status::OverBudget,
                    Error::Fault(_) => Status::Fault,
                    _ => Status::NotCompiled,
                };
                trial.detail = error.to_string();
                progress.say(&format!("{}: {}", trial.parameters, first_line(&trial.detail)));
            }
            None => {
                (trial.status, trial.detail) = (Status::Failed, "the budget was spent before it was compiled".into())
            }
        }
    }
    all
}

/// What a compiled candidate says of itself.
trait Built {
    fn describe(&self, trial: &mut Trial);
}

impl Built for Loaded {
    fn describe(&self, trial: &mut Trial) {
        if let Some(resources) = self.resources() {
            trial.registers = Some(resources.registers);
            trial.spill_bytes = Some(resources.spill_stores + resources.spill_loads);
        }
    }
}

/// Puts a search's outcome into the report; an error where nothing works.
fn conclude(report: &mut TuneReport, outcome: Outcome) -> Result<(), Error> {
    (report.noise, report.rounds, report.stopped) = (outcome.noise, outcome.rounds, outcome.stopped);
    match outcome.chosen.and_then(|i| report.trials.get(i)) {
        Some(trial) => {
            report.chosen = trial.instance;
            Ok(())
        }
        None => Err(nothing_left(report)),
    }
}

fn nothing_left(report: &TuneReport) -> Error {
    let line = |t: &Trial| format!("\n  {}: {}: {}", t.parameters, t.status.name(), first_line(&t.detail));
    let each: String = report.trials.iter().map(line).collect();
    Error::Tune { kernel: report.kernel.clone(), problem: format!("no instance can be used:{each}") }
}

/// Leaves out what hung or put the device out of order the last time.
fn exclude_known(trials: &mut [Trial], earlier: Option<&TuneReport>) {
    for bad in earlier.iter().flat_map(|r| &r.trials).filter(|t| matches!(t.status, Status::Hung | Status::Fault)) {
        if let Some(trial) = trials.iter_mut().find(|t| t.parameters == bad.parameters && t.status == Status::Untried) {
            trial.status = bad.status;
            let detail = bad.detail.trim_start_matches(EARLIER);
            trial.detail = format!("{EARLIER}{detail}");
        }
    }
}

const EARLIER: &str = "in an earlier tuning: ";

/// Whether an earlier result can be used for this call: its choice can be launched, and it was not cut short by a
/// candidate that is now known.
fn is_usable(call: &Call<'_>, report: &TuneReport) -> bool {
    let timed = report.choice().is_some_and(|t| t.median.is_some());
    if !timed || report.trials.iter().any(is_cut_short) {
        return false;
    }
    (call.load)(report.chosen, call.device).is_ok_and(|loaded| loaded.check(call.args).is_ok())
}

/// Whether a tuning ended at this candidate, and none has left it out since.
fn is_cut_short(trial: &Trial) -> bool {
    matches!(trial.status, Status::Hung | Status::Fault) && !trial.detail.starts_with(EARLIER)
}

fn recall(name: &str, key: &str) -> Option<TuneReport> {
    recall_from(Cache::process().ok()?, name, key)
}

fn recall_from(cache: &Cache, name: &str, key: &str) -> Option<TuneReport> {
    match remember::decode(&cache.note(name)?, key) {
        Ok(report) => Some(report),
        Err(problem) => {
            cache.discard_note(name, &problem);
            None
        }
    }
}

fn keep(name: &str, report: &TuneReport) {
    if let Ok(cache) = Cache::process() {
        keep_in(cache, name, report);
    }
}

fn keep_in(cache: &Cache, name: &str, report: &TuneReport) {
    if let Ok(bytes) = remember::encode(report) {
        cache.keep_note(name, &bytes);
    }
}

/// What `TILE_TUNE_REPORT` asks for.
fn publish(report: &TuneReport) {
    let Some(value) = settings::path("TILE_TUNE_REPORT").filter(|v| v != Path::new("0")) else { return };
    if value == Path::new("1") {
        eprint!("{report}");
        return;
    }
    let path = value.as_path();
    let path = match path.is_dir() {
        true => path.join(remember::file_name(&report.kernel, &report.key)),
        false => path.to_path_buf(),
    };
    let written = remember::encode(report).and_then(|b| std::fs::write(&path, b).map_err(|e| e.to_string()));
    if let Err(problem) = written {
        eprintln!("tile: warning: TILE_TUNE_REPORT: could not write {}: {problem}", path.display());
    }
}

fn gate_words(exact: bool, call: &Call<'_>, notes: &[String]) -> String {
    let mut words = match exact {
        true => "the reference equals the simulator bit by bit on a small shape; ".to_string(),
        false => "the reference is within the bound of the simulator on a small shape; ".to_string(),
    };
    if !notes.is_empty() {
        words = notes.iter().map(|n| format!("{}; ", first_line(n))).collect();
    }
    let bound = match call.options.tolerance {
        Some(bound) => bound,
        None => gate_bound(Dtype::F32),
    };
    words + &format!("the others are within {bound:.1e} of the largest magnitude, or two last places, of the reference")
}

/// Another order each time: a fixed one favours a place.
fn seed(start: Instant) -> Random {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    Random(time ^ start.elapsed().as_nanos() as u64)
}
