//! The device's side of the search: scratch memory, launches with a deadline, cold-L2 samples.
//!
//! The caller's outputs are never written: every launch writes scratch copies of them. A sample is one replay of a CUDA
//! graph that launches a candidate over enough copies of its tensors to find none of them in L2, between two events; where
//! memory does not allow that, L2 is flushed before each launch and launches are timed one by one.

use super::compare::{gate_bound, pattern, same_bits, within};
use super::options::TuneOptions;
use super::random::Random;
use super::report::Status;
use super::scratch::{Owned, Scratch};
use super::search::{Bench, Failure};
use super::ways::Way;
use crate::allocation::Allocation;
use crate::cuda::{Use, hold_one};
use crate::device::Device;
use crate::error::Error;
use crate::kernel::{Argument, Loaded};
use crate::launch_error::Problem;
use crate::stream::{Event, Graph, Stream};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The copies exceed L2 this many times.
const L2_TIMES: u64 = 3;
/// Most copies: tensors so small that more would be needed are cached by anything.
const MOST_COPIES: u64 = 512;
/// Fewest launches a sample is the mean of.
const LAUNCHES: usize = 8;

/// A device that candidates run on: a CUDA device; in tests, also a simulator.
pub(super) struct Rig<'a> {
    pub device: &'a Device,
    /// Size of L2.
    pub l2_bytes: u64,
    pub args: &'a [Argument<'a>],
    /// Which arguments the kernel writes.
    pub writes: Vec<bool>,
    /// The candidates.
    pub loaded: BTreeMap<usize, Candidate<'a>>,
    /// Makes an instance on the simulator.
    pub simulate: &'a dyn Fn(usize) -> Result<Loaded, Error>,
    /// Whether the simulator's result has the GPU's bits.
    pub exact: bool,
    pub options: &'a TuneOptions,
    pub start: Instant,
    pub state: State,
}

/// What is launched.
pub(super) enum Candidate<'a> {
    /// A compiled instance of a kernel.
    Instance(Loaded),
    /// A way to make a call of a host function.
    Way(&'a Way<'a>),
}

impl<'a> From<&'a Way<'a>> for Candidate<'a> {
    fn from(way: &'a Way<'a>) -> Self {
        Candidate::Way(way)
    }
}

impl Candidate<'_> {
    /// Launches with tensors in the places of some of a call's, those that are written among them.
    fn launch_on(&self, stream: &Stream, call: &[Argument<'_>], writes: &[bool], with: &Scratch) -> Result<(), Error> {
        let mut args = with.args(call);
        match self {
            Candidate::Instance(loaded) => Ok(loaded.launch_on(stream, &mut args)?),
            Candidate::Way(way) => way.launch_on(stream, args, writes),
        }
    }

    /// The instance of a kernel that it is.
    fn instance(&self) -> Option<&Loaded> {
        match self {
            Candidate::Instance(loaded) => Some(loaded),
            Candidate::Way(_) => None,
        }
    }
}

/// What is made on the way.
#[derive(Default)]
pub(super) struct State {
    stream: Option<Stream>,
    full: Option<Case>,
    small: Option<Case>,
    /// What could not be compared, in words.
    notes: Vec<String>,
    rotation: Option<Rotation>,
    graphs: BTreeMap<usize, Graph>,
    has_reference: bool,
}

/// Arguments that results are compared on.
struct Case {
    scratch: Scratch,
    /// What the outputs hold before a launch.
    initial: Vec<Option<Vec<u8>>>,
    /// What the reference left in them.
    reference: Vec<Vec<u8>>,
}

/// What samples are taken on.
struct Rotation {
    copies: Vec<Scratch>,
    /// Written before each launch, where there are not enough copies.
    flush: Option<Arc<Allocation>>,
}

impl<'a> Rig<'a> {
    /// How candidates are timed, in words.
    pub fn timing(&self) -> String {
        let Some(rotation) = &self.state.rotation else { return "nothing was timed".into() };
        let bytes: u64 = rotation.copies.iter().map(Scratch::bytes).sum();
        let (mb, l2) = (bytes as f64 / 1e6, self.l2_bytes as f64 / 1e6);
        let copies = rotation.copies.len();
        match &rotation.flush {
            Some(_) => {
                format!("each launch between two events, after flushing L2 ({l2:.0} MB): memory for copies is short")
            }
            None if bytes < self.l2_bytes => {
                format!(
                    "graph replays over {copies} copies ({mb:.1} MB in all): tensors this small stay in L2 ({l2:.0} MB)"
                )
            }
            None => {
                format!("graph replays over {copies} copies of the tensors ({mb:.0} MB, L2 has {l2:.0} MB): cold L2")
            }
        }
    }

    /// What was not compared, in words.
    pub fn notes(&self) -> &[String] {
        &self.state.notes
    }

    fn stream(&mut self) -> Result<Stream, Error> {
        match &self.state.stream {
            Some(stream) => Ok(stream.clone()),
            None => Ok(self.state.stream.insert(self.device.stream()?).clone()),
        }
    }

    /// Waits for `event`, no longer than a candidate may take.
    fn wait(&self, stream: &Stream, event: &Event) -> Result<(), Failure> {
        let start = Instant::now();
        while !event.is_done().map_err(failed)? {
            if start.elapsed() > self.options.patience {
                // The stream is never given back: whoever got it next would wait for the hung kernel.
                std::mem::forget(stream.clone());
                let detail = format!("not done after {:.1} s", self.options.patience.as_secs_f64());
                return Err(Failure { status: Status::Hung, detail });
            }
            // Samples take microseconds to milliseconds: first without, then with a pause.
            if start.elapsed() > Duration::from_millis(2) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    /// Launches `instance` once on `case` and reads what it left in its outputs.
    fn run(&mut self, instance: usize, case: &Case) -> Result<Vec<Vec<u8>>, Failure> {
        let stream = self.stream().map_err(failed)?;
        let loaded = self.loaded.get(&instance).ok_or_else(|| missing(instance))?;
        case.scratch.restore(&case.initial).map_err(failed)?;
        loaded.launch_on(&stream, self.args, &self.writes, &case.scratch).map_err(failed)?;
        let event = stream.record().map_err(failed)?;
        self.wait(&stream, &event)?;
        case.scratch.read(&self.writes).map_err(failed)
    }

    /// Compares with the reference, or makes this the reference.
    fn check(&mut self, instance: usize, case: &mut Case) -> Result<(), Failure> {
        let found = self.run(instance, case)?;
        if !self.state.has_reference {
            case.reference = found;
            return Ok(());
        }
        let dtypes = output_dtypes(self.args, &self.writes);
        for ((dtype, found), expected) in dtypes.zip(&found).zip(&case.reference) {
            let bound = self.options.tolerance.unwrap_or(gate_bound(dtype));
            within(dtype, found, expected, bound).map_err(|detail| Failure {
                status: Status::Wrong,
                detail: format!("against the reference: {detail}"),
            })?;
        }
        Ok(())
    }

    /// The whole call on scratch outputs.
    fn full_case(&self) -> Result<Case, Error> {
        let scratch = Scratch::copy(self.device, self.args, |i| self.writes[i])?;
        let initial = self.initial(&scratch)?;
        Ok(Case { scratch, initial, reference: Vec::new() })
    }

    fn initial(&self, scratch: &Scratch) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut random = Random(17);
        let of = |(owned, writes): (&Option<Owned>, &bool)| match owned {
            Some(owned) if *writes => match pattern(owned.dtype, owned.elements(), &mut random) {
                Some(bytes) => Ok(Some(bytes)),
                // Integers may be indices, which must stay what the caller gave.
                None => owned.read_memory().map(Some),
            },
            _ => Ok(None),
        };
        scratch.tensors.iter().zip(&self.writes).map(of).collect()
    }

    /// A smaller call with the first elements of the caller's tensors, on which the simulator has run `instance`; `Err` in
    /// words where there is none. An error of the simulator's is the candidate's only where the call is the caller's own.
    fn small_case(&self, instance: usize) -> Result<Case, String> {
        let loaded = self.loaded.get(&instance).ok_or("it is not loaded")?;
        let loaded = loaded.instance().ok_or("it is no single kernel")?;
        let simulated = (self.simulate)(instance).map_err(|e| e.to_string())?;
        let mut why = String::from("no small shape satisfies its launch contract");
        for modulus in [1024, 512, 256, 128, 64] {
            let shapes = small_shapes(loaded, self.args, modulus);
            let scratch = match shapes {
                Some(shapes) => Scratch::corner(self.device, self.args, &shapes).map_err(|e| e.to_string())?,
                None => continue,
            };
            if let Err(problem) = loaded.check(&scratch.args(self.args)) {
                why = problem.to_string();
                continue;
            }
            let initial = self.initial(&scratch).map_err(|e| e.to_string())?;
            scratch.restore(&initial).map_err(|e| e.to_string())?;
            let host = scratch.to_device(&Device::simulator()).map_err(|e| e.to_string())?;
            simulated.launch(&mut host.args(self.args)).map_err(|e| e.to_string())?;
            let reference = host.read(&self.writes).map_err(|e| e.to_string())?;
            return Ok(Case { scratch, initial, reference });
        }
        Err(why)
    }

    /// Checks the first candidate against the simulator on a small shape.
    fn check_reference(&mut self, instance: usize) -> Result<Option<Case>, Failure> {
        let mut case = match self.small_case(instance) {
            Ok(case) => case,
            Err(why) => {
                self.state.notes.push(format!("the reference was not compared with the simulator: {why}"));
                return Ok(None);
            }
        };
        let found = self.run(instance, &case)?;
        let dtypes = output_dtypes(self.args, &self.writes);
        for ((dtype, found), expected) in dtypes.zip(&found).zip(&case.reference) {
            let compared = match self.exact {
                true => same_bits(dtype, found, expected),
                false => within(dtype, found, expected, self.options.tolerance.unwrap_or(gate_bound(dtype))),
            };
            compared.map_err(|detail| Failure {
                status: Status::Wrong,
                detail: format!("against the simulator: {detail}"),
            })?;
        }
        case.reference = found;
        Ok(Some(case))
    }

    fn rotation(&mut self) -> Result<(), Error> {
        if self.state.rotation.is_some() {
            return Ok(());
        }
        let bytes = Scratch::bytes_of(self.args).max(1);
        let wanted = (L2_TIMES * self.l2_bytes / bytes + 1).clamp(2, MOST_COPIES);
        let free = self.device.memory()?.map_or(u64::MAX, |(free, _)| free);
        // Half of what is free stays free for others.
        let affordable = (free / 2) / bytes;
        let count = if affordable >= wanted { wanted } else { 1 };
        let flush = match count {
            1 => {
                let memory = Allocation::new(self.device.state, (2 * self.l2_bytes).max(1 << 20) as usize, true)?;
                Some(Arc::new(memory))
            }
            _ => None,
        };
        let mut copies = Vec::new();
        for number in 0..count {
            // The first may use the caller's inputs themselves, unless other code owns them: a graph cannot keep those.
            let copied = |i: usize| number > 0 || self.writes[i] || is_borrowed(&self.args[i]);
            copies.push(Scratch::copy(self.device, self.args, copied)?);
        }
        self.state.rotation = Some(Rotation { copies, flush });
        Ok(())
    }

    fn replay(&mut self, instance: usize) -> Result<f64, Failure> {
        self.rotation().map_err(failed)?;
        let stream = self.stream().map_err(failed)?;
        let loaded = self.loaded.get(&instance).ok_or_else(|| missing(instance))?;
        let rotation = self.state.rotation.as_ref().ok_or_else(|| missing(instance))?;
        if let Some(memory) = &rotation.flush {
            return self.flushed(&stream, loaded, &rotation.copies[0], memory);
        }
        let launches = rotation.copies.len() * LAUNCHES.div_ceil(rotation.copies.len());
        if !self.state.graphs.contains_key(&instance) {
            let capture = |stream: &Stream| {
                for copy in rotation.copies.iter().cycle().take(launches) {
                    loaded.launch_on(stream, self.args, &self.writes, copy)?;
                }
                Ok(())
            };
            let graph = self.device.capture(capture).map_err(failed)?;
            // The first replay of a graph uploads it, which is no part of a sample.
            self.timed(&stream, || graph.launch_on(&stream))?;
            self.state.graphs.insert(instance, graph);
        }
        let graph = self.state.graphs.get(&instance).ok_or_else(|| missing(instance))?;
        let time = self.timed(&stream, || graph.launch_on(&stream))?;
        Ok(time / launches as f64)
    }

    /// Seconds the device takes for `work`.
    fn timed(&self, stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Failure> {
        let begin = stream.record().map_err(failed)?;
        work().map_err(failed)?;
        let end = stream.record().map_err(failed)?;
        self.wait(stream, &end)?;
        Ok(end.since(&begin).map_err(failed)?.as_secs_f64())
    }

    /// The mean of a few launches, each with L2 full of something else.
    fn flushed(
        &self,
        stream: &Stream,
        loaded: &Candidate<'_>,
        copy: &Scratch,
        memory: &Arc<Allocation>,
    ) -> Result<f64, Failure> {
        let mut sum = 0.0;
        for round in 0..LAUNCHES {
            if let Some((cuda, slot)) = stream.cuda() {
                let _held = hold_one(cuda, slot, memory, Use::Write).map_err(failed)?;
                // SAFETY: the range is an allocation that is kept alive, ordered on this stream by `hold_one`.
                unsafe { cuda.fill(slot, memory.address, memory.bytes, round as u8) }.map_err(failed)?;
            }
            let launch = || loaded.launch_on(stream, self.args, &self.writes, copy);
            sum += self.timed(stream, launch)?;
        }
        Ok(sum / LAUNCHES as f64)
    }
}

impl Bench for Rig<'_> {
    fn gate(&mut self, instance: usize) -> Result<(), Failure> {
        if !self.state.has_reference {
            let small = self.check_reference(instance)?;
            let mut full = self.full_case().map_err(failed)?;
            self.check(instance, &mut full)?;
            (self.state.small, self.state.full, self.state.has_reference) = (small, Some(full), true);
            return Ok(());
        }
        let (mut small, mut full) = (self.state.small.take(), self.state.full.take());
        let mut result = Ok(());
        // An instance whose contract does not hold for the small shape is compared on the caller's only.
        let fits = |case: &&mut Case| {
            let loaded = self.loaded.get(&instance).and_then(Candidate::instance);
            loaded.is_some_and(|loaded| loaded.check(&case.scratch.args(self.args)).is_ok())
        };
        if let Some(case) = small.as_mut().filter(fits) {
            result = self.check(instance, case);
        }
        if let (Some(case), Ok(())) = (full.as_mut(), &result) {
            result = self.check(instance, case);
        }
        (self.state.small, self.state.full) = (small, full);
        result
    }

    fn sample(&mut self, instance: usize) -> Result<f64, Failure> {
        self.replay(instance)
    }

    fn elapsed(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

/// The smaller shapes of the tensors, where that is worth while: every dim keeps its remainder by `modulus`, so that what
/// the launch contract says of divisibility still holds. `None` where the result would be too much for a simulator.
fn small_shapes(loaded: &Loaded, args: &[Argument<'_>], modulus: i64) -> Option<Vec<Vec<i64>>> {
    const MOST: i64 = 1 << 22;
    let small = |extent: i64| if extent < 2 * modulus { extent } else { modulus + extent % modulus };
    let dims = loaded.program().dims.len();
    let fixed = |param: usize, axis: usize| {
        let tensor = loaded.program().tensors.iter().find(|t| tile_ir::ir::EntityRef::index(t.param) == param);
        let extent = tensor.and_then(|t| t.shape.get(axis));
        !matches!(extent, Some(tile_ir::lowered::HostExpr::Dim(_)))
    };
    let mut work = 1i64;
    let mut seen: Vec<i64> = Vec::new();
    let mut shapes = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let Argument::Tensor(tensor) = arg else {
            shapes.push(Vec::new());
            continue;
        };
        let shape: Vec<i64> = tensor
            .shape()
            .iter()
            .enumerate()
            .map(|(axis, extent)| if fixed(i, axis) { *extent } else { small(*extent) })
            .collect();
        if shape.iter().product::<i64>() > MOST {
            return None;
        }
        for (extent, new) in tensor.shape().iter().zip(&shape) {
            // Extents stand for dims: two dims of one extent count once, and the product is a bound of the work.
            if !seen.contains(extent) && seen.len() < dims {
                seen.push(*extent);
                work = work.saturating_mul((*new).max(1));
            }
        }
        shapes.push(shape);
    }
    (work <= MOST).then_some(shapes)
}

fn output_dtypes<'a>(
    args: &'a [Argument<'a>],
    writes: &'a [bool],
) -> impl Iterator<Item = tile_ir::ir::Dtype> + use<'a> {
    args.iter().zip(writes).filter_map(|(arg, writes)| match arg {
        Argument::Tensor(tensor) if *writes => Some(tensor.dtype()),
        _ => None,
    })
}

fn is_borrowed(arg: &Argument<'_>) -> bool {
    matches!(arg, Argument::Tensor(tensor) if tensor.allocation().is_borrowed())
}

fn missing(instance: usize) -> Failure {
    Failure { status: Status::Failed, detail: format!("instance {instance} is not loaded") }
}

/// What an error means for the candidate that met it.
fn failed(error: Error) -> Failure {
    let fatal = match &error {
        Error::Fault(_) => true,
        Error::Launch(launch) => matches!(launch.problem(), Problem::Driver(Error::Fault(_))),
        _ => false,
    };
    Failure { status: if fatal { Status::Fault } else { Status::Failed }, detail: error.to_string() }
}
