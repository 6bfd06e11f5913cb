//! A launch that is checked once and made many times.

use super::argument::Argument;
use super::class::serving;
use super::definition::{Definition, InstanceTable};
use super::launch::{LaunchOn, Recorded, bits, launched, uses};
use super::prepared::Code;
use super::variants::Shared;
use super::workspace::Whose;
use crate::allocation::Allocation;
use crate::cuda::{EncodedMap, Maps, Range, Use, hold, in_order};
use crate::device::Device;
use crate::error::Error;
use crate::launch_error::{LaunchError, Problem};
use crate::stream::{Graph, Stream};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use tile_ir::ir::Class;
use tile_ir::sim;

/// A launch with its arguments, checked, ready to be made again and again: `gemv::<..>::prepare(&device, &w, &x, &mut y,
/// ..)`. It keeps the memory of every tensor it uses, so it may outlive them, and the variant of a kernel with
/// `specialize(..)`, which may be dropped from those that are kept; each launch is ordered after everything
/// it must follow, as any launch is.
pub struct PreparedLaunch {
    device: Device,
    stream: Option<Stream>,
    /// Whether it may start before the previous kernel of the stream is done.
    early: bool,
    prepared: Shared,
    at: &'static Location<'static>,
    /// `None`: it has no blocks, and launches nothing.
    grid: Option<[u32; 3]>,
    /// The values of the C parameters.
    parameters: Vec<u64>,
    /// The tensor maps among them.
    maps: Vec<EncodedMap>,
    /// In the order in which locks are taken.
    memory: Vec<(Arc<Allocation>, Use)>,
    written: Vec<Range>,
    independent: Vec<Range>,
    /// The arguments, on a simulator.
    simulated: Vec<sim::Argument>,
}

/// Checks a launch of instance number `instance`, and keeps it. The first use of an instance on a device compiles it.
///
/// # Errors
/// See [`Problem`]; memory that is borrowed from other code, which nothing may keep.
#[track_caller]
pub fn prepare_launch<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    instance: usize,
    on: &impl LaunchOn,
    args: &mut [Argument<'_>],
) -> Result<PreparedLaunch, LaunchError> {
    let at = Location::caller();
    let failed = |problem| LaunchError::new(def.name(), at, problem);
    let device = on.device();
    let args: &[Argument<'_>] = args;
    let prepared = launched(def, table, instance, device, args).map_err(|problem| failed(*problem))?;
    // It keeps its own.
    let held = match prepared.plan.has_workspaces() {
        true => prepared.workspaces(device.state, Whose::Launch, args).map_err(|problem| failed(*problem))?,
        false => Vec::new(),
    };
    let all: Vec<Argument<'_>> = args.iter().copied().chain(held.iter().map(|w| w.argument())).collect();
    let args: &[Argument<'_>] = &all;
    let (lesser, values, grid) = serving(&prepared, device.state, args).map_err(|problem| failed(*problem))?;
    let prepared = lesser.unwrap_or(prepared);
    let made = prepared.made(device.state).map_err(|error| failed(Problem::Prepare(error)))?;
    let (parameters, maps) = match &made.code {
        Code::Cuda { function } => {
            let maps =
                Maps::new(function.device, &function.maps, &values).map_err(|error| failed(Problem::Driver(error)))?;
            let bits = function.parameters.iter().map(|kind| bits(&values, &function.computed, *kind));
            (bits.collect(), maps.as_slice().to_vec())
        }
        Code::Fast { .. } | Code::Checked => (Vec::new(), Vec::new()),
    };
    let uses = in_order(uses(&prepared, args));
    if uses.iter().any(|(memory, _)| memory.is_borrowed()) {
        let problem = "a prepared launch cannot keep memory that is borrowed from other code".into();
        return Err(failed(Problem::Driver(Error::Capture { device: device.label().into(), problem })));
    }
    let memory = uses.into_iter().map(|(memory, how)| (memory.clone(), how)).collect();
    Ok(PreparedLaunch {
        device: device.clone(),
        stream: on.stream().cloned(),
        early: on.may_start_early(),
        at,
        grid,
        parameters,
        maps,
        memory,
        written: prepared.plan.written(args).collect(),
        independent: prepared.plan.independent(args).collect(),
        prepared,
        simulated: args.iter().filter_map(|a| a.to_simulator()).collect(),
    })
}

impl PreparedLaunch {
    /// Launches it where it was prepared for: on the device's default stream or on a stream.
    ///
    /// # Errors
    /// The device has failed; on a simulator, what the kernel did wrong.
    #[track_caller]
    pub fn launch(&self) -> Result<(), LaunchError> {
        self.run(&self.device, self.stream.as_ref(), Location::caller())
    }

    /// Launches it on another stream of its device.
    ///
    /// # Errors
    /// As [`PreparedLaunch::launch`]; `on` is another device.
    #[track_caller]
    pub fn launch_on(&self, on: &impl LaunchOn) -> Result<(), LaunchError> {
        let at = Location::caller();
        if *on.device() != self.device {
            let (expected, found) = (on.device().label().into(), self.device.label().into());
            let argument = self.prepared.definition.name().into();
            return Err(self.error(at, Problem::Device { argument, expected, found }));
        }
        self.run(on.device(), on.stream(), at)
    }

    /// The launch as a graph of one kernel, whose launch costs the host less still.
    ///
    /// # Errors
    /// The driver refuses to capture.
    pub fn graph(&self) -> Result<Graph, Error> {
        self.device.capture(|stream| Ok(self.run(&self.device, Some(stream), self.at)?))
    }

    /// The alignment class that serves it.
    pub fn class(&self) -> Class {
        self.prepared.instance.class
    }

    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        self.prepared.definition.name()
    }

    fn error(&self, at: &'static Location<'static>, problem: Problem) -> LaunchError {
        LaunchError::new(self.prepared.definition.name(), at, problem)
    }

    #[inline]
    fn run(&self, device: &Device, stream: Option<&Stream>, at: &'static Location<'static>) -> Result<(), LaunchError> {
        let Some(Code::Cuda { function }) = self.prepared.code() else {
            return Recorded::new(self.prepared.clone(), self.simulated.clone(), at).make(device, stream);
        };
        let Some(grid) = self.grid else { return Ok(()) };
        let cuda = function.device;
        let failed = |error| self.error(at, Problem::Driver(error));
        let slot = match stream {
            Some(stream) => stream.cuda().map(|(_, slot)| slot),
            None => cuda.stream(0),
        };
        let over = || self.error(at, Problem::StreamOver);
        let slot = slot.ok_or_else(over)?;
        cuda.bind().map_err(failed)?;
        if slot.is_foreign() {
            self.prepared.pin();
        }
        let uses = self.memory.iter().map(|(memory, how)| (memory, *how));
        let mut held = hold(cuda, slot, uses).map_err(failed)?.ok_or_else(over)?;
        held.keep(|| self.prepared.share());
        cuda.stream(0).filter(|_| slot.is_foreign()).unwrap_or(slot).remember(self.prepared.definition, at);
        let parameters = (self.parameters.iter().copied(), self.maps.as_slice());
        let written = self.written.iter().copied();
        let independent = self.independent.iter().copied();
        function.launch(slot, grid, parameters, written, self.early.then_some(independent)).map_err(failed)?;
        for (memory, _) in &self.memory {
            memory.used(cuda, slot).map_err(failed)?;
        }
        drop(held);
        cuda.finish(slot).map_err(failed)
    }
}

impl fmt::Debug for PreparedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name(), self.device.label())
    }
}
