//! Which alignment class of an instance serves a launch.
//!
//! A launch evaluates the contract of the widest class. Where only a check fails that copies request, the class that asks less
//! of that side is lowered, and so on: the widest one whose contract holds is compiled, kept with the instance, and said on
//! stderr where it runs on a GPU. What an author demands fails the launch in any class.

use super::argument::Argument;
use super::definition::{Definition, InstanceTable};
use super::launch::{LaunchOn, launched};
use super::plan::{Plan, Refusal, Values};
use super::prepared::{Prepared, lowered};
use super::variants::Shared;
use super::workspace::Whose;
use crate::device::DeviceState;
use crate::launch_error::{LaunchError, Problem};
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use tile_ir::ir::{Class, Instance, Kernel, Side, Target};

/// The records of the classes that ask less of one side, made when a launch needs them.
#[derive(Default)]
pub(crate) struct Lesser {
    reads: OnceLock<Arc<Prepared>>,
    writes: OnceLock<Arc<Prepared>>,
}

/// What serves a launch: the record itself or one of a lesser class, and the launch's values and grid.
pub(crate) type Serving<'a> = (Option<Shared>, Values<'a>, Option<[u32; 3]>);

/// Checks a launch, and finds the record of the widest class that serves it, compiled.
#[inline]
pub(crate) fn serving<'a>(
    prepared: &Prepared,
    device: &'static DeviceState,
    args: &'a [Argument<'a>],
) -> Result<Serving<'a>, Box<Problem>> {
    let failed = |error| Box::new(Problem::Prepare(error));
    // How many blocks a device holds is known once there is code.
    prepared
        .plan
        .examine_before(device, args, || prepared.made(device).map(drop).map_err(failed))
        .map_or_else(|refusal| lesser(prepared, device, args, refusal), |(values, grid)| Ok((None, values, grid)))
}

/// What serves a launch where the contract of the widest class does not hold: the next lesser one that does.
#[cold]
fn lesser<'a>(
    prepared: &Prepared,
    device: &'static DeviceState,
    args: &'a [Argument<'a>],
    refusal: Refusal,
) -> Result<Serving<'a>, Box<Problem>> {
    let (side, check) = match refusal {
        Refusal::Problem(problem) => return Err(problem),
        Refusal::Request(side, check) => (side, check),
    };
    let problem = prepared.plan.unheld(check, args);
    let Some(class) = prepared.instance.class.lesser(side) else { return Err(problem) };
    let place = match side {
        Side::Reads => &prepared.lesser.reads,
        Side::Writes => &prepared.lesser.writes,
    };
    let next = match place.get() {
        Some(next) => next,
        None => {
            let made = Prepared::of_class(prepared, class, (side, &problem), device);
            let made = made.map_err(|error| Box::new(Problem::Prepare(error)))?;
            place.get_or_init(|| Arc::new(made))
        }
    };
    let (further, values, grid) = serving(next, device, args)?;
    Ok((Some(further.unwrap_or_else(|| Shared::Counted(Arc::clone(next)))), values, grid))
}

/// The plan of the widest class of an instance whose contract holds for these arguments, which are checked.
///
/// # Errors
/// What a launch would fail with; the instance cannot be lowered.
pub(crate) fn plan_for(
    kernel: &Kernel,
    instance: &Instance,
    target: Target,
    device: &'static DeviceState,
    args: &[Argument<'_>],
) -> Result<Plan, Box<Problem>> {
    let failed = |error| Box::new(Problem::Prepare(error));
    let mut instance = instance.clone();
    loop {
        let (bound, program) = lowered(kernel, &instance, target).map_err(failed)?;
        let plan = Plan::new(&bound, program).map_err(failed)?;
        match plan.examine(device, args) {
            Ok(_) => return Ok(plan),
            Err(Refusal::Problem(problem)) => return Err(problem),
            Err(Refusal::Request(side, check)) => match instance.class.lesser(side) {
                Some(class) => instance.class = class,
                None => return Err(plan.unheld(check, args)),
            },
        }
    }
}

/// The alignment class that a launch of instance number `instance` with these arguments takes: the widest whose contract holds.
/// Nothing is compiled. The fast simulator runs every class alike; of it, this is the class of the device it stands for.
///
/// # Errors
/// What the launch would fail with before it runs.
#[track_caller]
pub fn class<const N: usize>(
    def: &'static Definition,
    table: &'static InstanceTable<N>,
    instance: usize,
    on: &impl LaunchOn,
    args: &mut [Argument<'_>],
) -> Result<Class, LaunchError> {
    let at = Location::caller();
    let state = on.device().state;
    let find = || {
        let failed = |error| Box::new(Problem::Prepare(error));
        let widest = launched(def, table, instance, on.device(), args)?;
        let held = match widest.plan.has_workspaces() {
            true => widest.workspaces(state, Whose::Launch, args)?,
            false => Vec::new(),
        };
        let all: Vec<Argument<'_>> = args.iter().copied().chain(held.iter().map(|w| w.argument())).collect();
        let target = widest.plan.program.target;
        let plan = plan_for(def.kernel().map_err(failed)?, &widest.instance, target, state, &all)?;
        Ok(plan.program.launch.class)
    };
    find().map_err(|problem: Box<Problem>| LaunchError::new(def.name(), at, *problem))
}
