//! Launching.

use super::argument::{Argument, Scalar};
use super::class::serving;
use super::definition::{Definition, InstanceTable};
use super::plan::Values;
use super::prepared::{self, Build, Chosen, Code, Prepared};
use super::variants::{self, Shared, Specialized};
use super::waiting::Waiting;
use super::which::Variant;
use super::workspace::Whose;
use crate::allocation::Allocation;
use crate::cuda::{Kept, Maps, Use, hold, in_order};
use crate::device::{Backend, Device};
use crate::error::Error;
use crate::launch_error::{LaunchError, Problem};
use crate::lock::lock;
use crate::nvrtc::Resources;
use crate::settings;
use crate::stream::Stream;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tile_ir::ir::{EntityRef, Instance, ParamId};
use tile_ir::lowered::{HostExpr, HostValues, ParameterKind};
use tile_ir::sim::checked::CheckedOptions;
use tile_ir::sim::fast::FastOptions;
use tile_ir::sim::{self, SimError, Stop};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Device {}
    impl Sealed for super::Stream {}
    impl Sealed for super::Place<'_> {}
}

/// Where a kernel is launched: a [`Device`], for its default stream, or a [`Stream`].
pub trait LaunchOn: sealed::Sealed {
    /// The device.
    fn device(&self) -> &Device;
    /// The stream; `None` for the device's default stream.
    #[doc(hidden)]
    fn stream(&self) -> Option<&Stream>;
    /// Whether a kernel with `pdl(..)` may start before the previous kernel of the stream is done.
    #[doc(hidden)]
    fn may_start_early(&self) -> bool {
        true
    }
}

/// Where a kernel is launched, and whether it may start before the previous kernel of the stream is done, as one with `pdl(..)` does
/// elsewhere.
///
/// ```
/// # use tile_runtime::{Device, kernel::{LaunchOn, Place}};
/// let device = Device::simulator();
/// let in_order = Place::of(&device).in_order(); // for a launch that is slower as a dependent one
/// assert_eq!(in_order.device(), &device);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    device: &'a Device,
    stream: Option<&'a Stream>,
    early: bool,
}

impl<'a> Place<'a> {
    /// The place of a device or stream.
    pub fn of(on: &'a impl LaunchOn) -> Self {
        Place { device: on.device(), stream: on.stream(), early: on.may_start_early() }
    }

    /// This place for launches that start when the previous kernel of the stream is done.
    #[must_use]
    pub fn in_order(self) -> Self {
        Place { early: false, ..self }
    }
}

impl LaunchOn for Place<'_> {
    fn device(&self) -> &Device {
        self.device
    }

    fn stream(&self) -> Option<&Stream> {
        self.stream
    }

    fn may_start_early(&self) -> bool {
        self.early
    }
}

impl LaunchOn for Device {
    fn device(&self) -> &Device {
        self
    }

    fn stream(&self) -> Option<&Stream> {
        None
    }
}

impl LaunchOn for Stream {
    fn device(&self) -> &Device {
        Stream::device(self)
    }

    fn stream(&self) -> Option<&Stream> {
        Some(self)
    }
}

/// Launches instance number `instance` of a kernel. Everything is checked before anything is launched; a grid without
/// blocks launches nothing and is no error. The first launch of an instance on a device compiles it; of a specialised
/// kernel, the first with these values of its dims among those that are kept.
///
/// # Errors
/// See [`Problem`].
#[track_caller]
#[inline]
pub fn launch<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    instance: usize,
    on: &impl LaunchOn,
    args: &mut [Argument<'_>],
) -> Result<(), LaunchError> {
    let at = Location::caller();
    let prepared = launched(def, table, instance, on.device(), args)
        .map_err(|problem| LaunchError::new(def.name(), at, *problem))?;
    run(&prepared, Place::of(on), args, at)
}

/// What a launch with these arguments launches, compiled if it has to be.
#[inline]
pub(super) fn launched<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    instance: usize,
    device: &Device,
    args: &[Argument<'_>],
) -> Result<Shared, Box<Problem>> {
    let absent = args.iter().enumerate().fold(0, |bits: u64, (i, argument)| match argument {
        Argument::Absent => bits | 1u64.checked_shl(i as u32).unwrap_or(0),
        Argument::Tensor(_) | Argument::Scalar(_) => bits,
    });
    match table.specialization() {
        None => match table.find(instance, device.state.slot, absent) {
            Some(prepared) => Ok(Shared::Always(prepared)),
            None => prepared::prepared(def, table, instance, Chosen { dims: &[], absent }, device)
                .map_err(|error| Box::new(Problem::Prepare(error))),
        },
        Some(specialized) => variant(def, table, specialized, instance, absent, device, args),
    }
}

/// The variant for the dims of these arguments.
#[inline]
fn variant<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    specialized: &'static Specialized,
    instance: usize,
    absent: u64,
    device: &Device,
    args: &[Argument<'_>],
) -> Result<Shared, Box<Problem>> {
    let values = specialized.values(def, args)?;
    let known = table.variants_of(instance).and_then(|variants| variants.find(device.state.slot, absent, &values));
    if let Some(prepared) = known {
        return Ok(Shared::Counted(prepared));
    }
    let failed = |error| Box::new(Problem::Prepare(error));
    let kernel = def.kernel().map_err(failed)?;
    variants::agree(kernel, specialized, &values, args)?;
    let chosen = Chosen { dims: &variants::dims(kernel, &values), absent };
    prepared::prepared(def, table, instance, chosen, device).map_err(failed)
}

/// A kernel's instance on a device, compiled and loaded.
#[derive(Clone)]
pub struct Loaded {
    device: Device,
    prepared: Shared,
}

/// Compiles and loads an instance ahead of its first launch: `which` is its number, or a [`Variant`] that gives
/// specialised dims their values. It is made in the widest alignment class; launches choose theirs.
///
/// # Errors
/// It cannot be lowered, compiled or loaded for this device; a specialised dim has no value.
pub fn prepare<'a, const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    which: impl Into<Variant<'a>>,
    device: &Device,
) -> Result<Loaded, Error> {
    let which = which.into();
    let (_, instance) = which.instance(def)?;
    loaded(device, prepared::prepared(def, table, which.instance, chosen(&instance), device)?)
}

/// What a launch chooses of an instance.
fn chosen(instance: &Instance) -> Chosen<'_> {
    Chosen { dims: &instance.dims, absent: bits_of(&instance.absent) }
}

/// Compiles and loads what is prepared.
fn loaded(device: &Device, prepared: Shared) -> Result<Loaded, Error> {
    prepared.made(device.state)?;
    Ok(Loaded { device: device.clone(), prepared })
}

/// A bit for every parameter that is left out.
fn bits_of(absent: &[ParamId]) -> u64 {
    absent.iter().fold(0, |bits, id| bits | 1u64.checked_shl(id.as_u32()).unwrap_or(0))
}

/// As [`prepare`], without a table that keeps the instance: it is unloaded with the [`Loaded`].
pub(crate) fn unlisted(def: &'static Definition, which: Variant<'_>, device: &Device) -> Result<Loaded, Error> {
    let (_, instance) = which.instance(def)?;
    loaded(device, Shared::Counted(Arc::new(prepared::prepare(def, which.instance, chosen(&instance), device)?)))
}

impl Loaded {
    /// Checks the arguments of a call, which have no workspaces, as a launch does.
    pub(crate) fn check_call(&self, args: &[Argument<'_>]) -> Result<(), Box<Problem>> {
        let held = match self.prepared.plan.has_workspaces() {
            true => self.prepared.workspaces(self.device.state, Whose::Launch, args)?,
            false => Vec::new(),
        };
        let all: Vec<Argument<'_>> = args.iter().copied().chain(held.iter().map(|w| w.argument())).collect();
        self.check(&all)
    }

    /// Checks these arguments as a launch does.
    pub(crate) fn check(&self, args: &[Argument<'_>]) -> Result<(), Box<Problem>> {
        serving(&self.prepared, self.device.state, args).map(|_| ())
    }

    /// Launches it on its device's default stream.
    ///
    /// # Errors
    /// See [`Problem`].
    #[track_caller]
    pub fn launch(&self, args: &mut [Argument<'_>]) -> Result<(), LaunchError> {
        run(&self.prepared, Place::of(&self.device), args, Location::caller())
    }

    /// Launches it on its device or one of its streams.
    ///
    /// # Errors
    /// See [`Problem`]; `on` is another device.
    #[track_caller]
    pub fn launch_on(&self, on: &impl LaunchOn, args: &mut [Argument<'_>]) -> Result<(), LaunchError> {
        let at = Location::caller();
        if *on.device() != self.device {
            let (expected, found) = (on.device().label().into(), self.device.label().into());
            let argument = self.prepared.definition.name().into();
            return Err(self.prepared.error(at, Problem::Device { argument, expected, found }));
        }
        run(&self.prepared, Place::of(on), args, at)
    }

    /// The device it is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        self.prepared.definition.name()
    }

    /// The instance, as an author writes it: `<f16> ROWS = 8`.
    pub fn instance(&self) -> &str {
        self.build().map_or("", |build| &build.instance)
    }

    /// Registers, spills and shared memory, as the assembler reported them; `None` on a simulator.
    pub fn resources(&self) -> Option<Resources> {
        self.build()?.resources
    }

    /// Whether the cache had it; `None` on a simulator.
    pub fn was_cached(&self) -> Option<bool> {
        self.build()?.origin.map(|origin| origin == crate::cache::Origin::Cache)
    }

    /// Whether its code was built into the program ([`embedded`](crate::embedded)); `None` on a simulator.
    pub fn was_embedded(&self) -> Option<bool> {
        self.build()?.origin.map(|origin| origin == crate::cache::Origin::Embedded)
    }

    /// How it was made, which it is.
    fn build(&self) -> Option<&Build> {
        self.prepared.made(self.device.state).ok().map(|made| &made.build)
    }

    /// The lowered program.
    pub fn program(&self) -> &tile_ir::lowered::Program {
        &self.prepared.plan.program
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instance, architecture) = self.build().map_or(("", ""), |b| (&b.instance, &b.architecture));
        write!(f, "{} {instance} on {} {architecture}", self.name(), self.device.label())
    }
}

impl Prepared {
    #[cold]
    fn error(&self, at: &'static Location<'static>, problem: Problem) -> LaunchError {
        LaunchError::new(self.definition.name(), at, problem)
    }
}

/// Checks and launches, with the workspaces that the kernel has.
fn run(
    prepared: &Shared,
    place: Place<'_>,
    args: &[Argument<'_>],
    at: &'static Location<'static>,
) -> Result<(), LaunchError> {
    let Place { device, stream, .. } = place;
    let foreign = stream.and_then(Stream::foreign);
    if foreign.is_some() {
        prepared.pin();
    }
    if !prepared.plan.has_workspaces() {
        return run_with(prepared, place, args, at);
    }
    let whose = match (&device.state.backend, stream, foreign) {
        (Backend::Cuda(_), _, Some(foreign)) => Whose::Foreign(foreign),
        (Backend::Cuda(_), Some(stream), None) => stream.cuda().map_or(Whose::Launch, |(_, slot)| Whose::stream(slot)),
        (Backend::Cuda(device), None, None) => device.stream(0).map_or(Whose::Launch, Whose::stream),
        (Backend::Simulator { .. }, ..) => Whose::Launch,
    };
    // A workspace that takes another's place is given back once nobody else can be about to use the other.
    let _alone = foreign.map(|foreign| lock(&foreign.with_workspaces));
    let held = prepared.workspaces(device.state, whose, args).map_err(|problem| prepared.error(at, *problem))?;
    let args: Vec<Argument<'_>> = args.iter().copied().chain(held.iter().map(|w| w.argument())).collect();
    run_with(prepared, place, &args, at)
}

/// Checks and launches.
fn run_with(
    prepared: &Shared,
    Place { device: on, stream, early }: Place<'_>,
    args: &[Argument<'_>],
    at: &'static Location<'static>,
) -> Result<(), LaunchError> {
    let device = on.state;
    let (lesser, values, grid) = serving(prepared, device, args).map_err(|problem| prepared.error(at, *problem))?;
    let prepared = lesser.as_ref().unwrap_or(prepared);
    let made = prepared.made(device).map_err(|error| prepared.error(at, Problem::Prepare(error)))?;
    match (&made.code, &device.backend) {
        (Code::Cuda { function }, _) => {
            let Some(grid) = grid else { return Ok(()) };
            let cuda = function.device;
            let failed = |error| prepared.error(at, Problem::Driver(error));
            let slot = match stream {
                Some(stream) => stream.cuda().map(|(_, slot)| slot),
                None => cuda.stream(0),
            };
            let over = || prepared.error(at, Problem::StreamOver);
            let slot = slot.ok_or_else(over)?;
            cuda.bind().map_err(failed)?;
            let maps = Maps::new(cuda, &function.maps, &values).map_err(failed)?;
            let uses = in_order(uses(prepared, args));
            let mut held = hold(cuda, slot, uses.into_iter()).map_err(failed)?.ok_or_else(over)?;
            held.keep(|| prepared.share());
            // A report of a fault looks at the streams of the table.
            cuda.stream(0).filter(|_| slot.is_foreign()).unwrap_or(slot).remember(prepared.definition, at);
            let bits = function.parameters.iter().map(|kind| bits(&values, &function.computed, *kind));
            let (written, independent) = (prepared.plan.written(args), prepared.plan.independent(args));
            function
                .launch(slot, grid, (bits, maps.as_slice()), written, early.then_some(independent))
                .map_err(failed)?;
            for argument in args {
                if let Argument::Tensor(tensor) = argument {
                    tensor.allocation().used(cuda, slot).map_err(failed)?;
                }
            }
            drop(held);
            cuda.finish(slot).map_err(failed)
        }
        (_, Backend::Cuda(_)) => Ok(()),
        (_, Backend::Simulator { .. }) => {
            if let Some(error) = stream.and_then(Stream::recording).and_then(|_| not_kept(on, args)) {
                return Err(prepared.error(at, Problem::Driver(error)));
            }
            // The check has made sure that every tensor is on this simulator. An empty grid is run too: what it leaves
            // unwritten is the checked simulator's to say.
            let args: Vec<sim::Argument> = args.iter().filter_map(|a| a.to_simulator()).collect();
            Recorded::new(prepared.clone(), args, at).make(on, stream)
        }
    }
}

/// The error of a graph that would keep borrowed memory.
fn not_kept(device: &Device, args: &[Argument<'_>]) -> Option<Error> {
    let borrowed = |a: &Argument<'_>| matches!(a, Argument::Tensor(tensor) if tensor.allocation().is_borrowed());
    let problem = "a graph cannot keep memory that is borrowed from other code".into();
    args.iter().any(borrowed).then(|| Error::Capture { device: device.label().into(), problem })
}

/// The memory that a launch with these arguments uses.
#[inline]
pub(super) fn uses<'a>(
    prepared: &'a Prepared,
    args: &'a [Argument<'a>],
) -> impl Iterator<Item = (&'a Arc<Allocation>, Use)> {
    args.iter().enumerate().filter_map(|(i, argument)| match argument {
        Argument::Tensor(tensor) => {
            let how = if prepared.plan.writes(i) { Use::Write } else { Use::Read };
            Some((tensor.allocation(), how))
        }
        Argument::Scalar(_) | Argument::Absent => None,
    })
}

impl Shared {
    /// Keeps a variant loaded for the life of the process: it is launched on a stream of other code, which may be capturing a
    /// graph that we never hear of again.
    #[inline]
    pub(super) fn pin(&self) {
        if let Shared::Counted(variant) = self
            && !variant.pinned.swap(true, Ordering::Relaxed)
        {
            std::mem::forget(Arc::clone(variant));
        }
    }

    /// A share of a variant, for a graph that launches it after it may have been dropped here; `None` of what is never
    /// dropped.
    pub(super) fn share(&self) -> Option<Kept> {
        match self {
            Shared::Counted(variant) => Some(Arc::clone(variant) as Kept),
            Shared::Always(_) => None,
        }
    }
}

/// A parameter as the driver takes it: as many bytes as it has, from the low end (the host is little-endian).
#[inline]
pub(super) fn bits(values: &Values<'_>, computed: &[HostExpr], kind: ParameterKind) -> u64 {
    match kind {
        ParameterKind::Pointer(param) => values.address(param),
        ParameterKind::Dim(dim) => values.dim(dim) as u64,
        // It has a value where the checks of the launch hold, which come before.
        ParameterKind::Computed(place) => {
            computed.get(place as usize).and_then(|number| number.evaluate(values)).unwrap_or(0) as u64
        }
        ParameterKind::Stride(param, axis) => values.stride(param, axis) as u64,
        ParameterKind::Scalar(param) => match values.args.get(param.index()) {
            Some(Argument::Scalar(Scalar { value: sim::ScalarValue::Index(value) })) => *value as u64,
            Some(Argument::Scalar(Scalar { value: sim::ScalarValue::Element(_, bits) })) => u64::from(*bits),
            _ => 0,
        },
        // A map is passed as a whole, by its own address; whether a launch begins early is known when it is submitted, and the
        // function knows its log.
        ParameterKind::TensorMap(_) | ParameterKind::Ahead(_) | ParameterKind::Log | ParameterKind::LogFunction => 0,
    }
}

/// A checked launch on a simulator.
#[derive(Clone)]
pub(crate) struct Recorded {
    prepared: Shared,
    args: Vec<sim::Argument>,
    at: &'static Location<'static>,
}

impl Recorded {
    pub fn new(prepared: Shared, args: Vec<sim::Argument>, at: &'static Location<'static>) -> Recorded {
        Recorded { prepared, args, at }
    }

    /// Runs it, or records it where the stream is being captured.
    pub fn make(self, device: &Device, stream: Option<&Stream>) -> Result<(), LaunchError> {
        match stream.and_then(Stream::recording) {
            Some(recording) => match &mut *lock(recording) {
                Some(recorded) => {
                    recorded.push(self);
                    Ok(())
                }
                None => Err(self.prepared.error(self.at, Problem::StreamOver)),
            },
            None => self.run(device),
        }
    }

    /// Runs it, no longer than this simulator's launches may.
    pub fn run(&self, device: &Device) -> Result<(), LaunchError> {
        let wrong = |problem: Problem| self.prepared.error(self.at, problem);
        let failed = |report: String| wrong(Problem::Simulator(report));
        let program = &self.prepared.plan.program;
        let (step_limit, cancel) = (device.step_limit(), device.cancel());
        match self.prepared.code() {
            Some(Code::Fast { bound }) => {
                let waiting = Waiting::new(&program.name, "fast");
                let options = FastOptions { step_limit, cancel };
                let report = sim::fast::run_with(bound, &self.args, &options).map_err(|error| match error {
                    SimError::Fault(fault) => failed(format!("the kernel went wrong\n{}", fault.render(bound))),
                    SimError::StepLimit { steps, at } => {
                        let report = at.map(|fault| fault.render(bound)).unwrap_or_default();
                        wrong(Problem::StepLimit { steps, report })
                    }
                    SimError::Cancelled => wrong(Problem::Cancelled),
                    other => failed(other.to_string()),
                })?;
                drop(waiting);
                print(report.printed.iter().map(|line| line.text.as_str()), report.unprinted);
                Ok(())
            }
            Some(Code::Checked) => {
                let waiting = Waiting::new(&program.name, "checked");
                let options = CheckedOptions { seed: checked_seed(), step_limit, cancel, ..CheckedOptions::default() };
                let report =
                    sim::checked::run(program, &self.args, &options).map_err(|error| failed(error.to_string()))?;
                drop(waiting);
                print(report.prints.iter().map(|line| line.text.as_str()), report.prints_dropped);
                if report.stopped == Some(Stop::Cancelled) {
                    return Err(wrong(Problem::Cancelled));
                }
                if report.is_clean() {
                    return Ok(());
                }
                let more = match report.suppressed {
                    0 => String::new(),
                    n => format!("\n{n} further reports are not shown"),
                };
                let seed = report.seed;
                let text = format!("{}{more}\nreplay: TILE_SEED={seed}", report.render(program));
                Err(match report.stopped {
                    Some(Stop::StepLimit(steps)) => wrong(Problem::StepLimit { steps, report: text }),
                    _ => failed(format!("the kernel is wrong\n{text}")),
                })
            }
            Some(Code::Cuda { .. }) | None => Ok(()),
        }
    }
}

/// The seed of the checked simulator's schedule: `TILE_SEED`, else 0.
fn checked_seed() -> u64 {
    settings::number_of("TILE_SEED").unwrap_or(0)
}

/// Shows what `device_print` printed, in one piece.
fn print<'a>(lines: impl Iterator<Item = &'a str>, dropped: u64) {
    let mut text: String = lines.flat_map(|line| [line, "\n"]).collect();
    if dropped > 0 {
        text += &format!("({dropped} further lines of device_print are not shown)\n");
    }
    if !text.is_empty() {
        print!("{text}");
    }
}
