//! One instance of a kernel, ready to be launched on one device: lowered, compiled (or found in the cache), loaded.

use super::class::Lesser;
use super::definition::{Definition, InstanceTable, instance_text};
use super::plan::Plan;
use super::variants::{self, Shared};
use super::workspace::Workspaces;
use crate::cache::{Cache, Entry, Key, Origin};
use crate::cuda::{CudaDevice, Function};
use crate::device::{Backend, Device, DeviceState};
use crate::error::Error;
use crate::launch_error::Problem;
use crate::nvrtc::{self, Nvrtc, Output, Resources};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use tile_ir::diag::Diagnostic;
use tile_ir::emit::cuda::symbol;
use tile_ir::ir::{Class, DimId, Instance, Kernel, ParamKind, Side, Target, Width};
use tile_ir::lowered::Program;

/// A record of an [`InstanceTable`].
pub(crate) struct Prepared {
    /// The device's slot.
    pub slot: u32,
    /// The parameters that its launches leave out, a bit each.
    pub absent: u64,
    /// The same instance on another device.
    pub next: AtomicPtr<Prepared>,
    pub definition: &'static Definition,
    /// The instance, as it is bound.
    pub instance: Instance,
    pub plan: Plan,
    runs: Runs,
    /// The same instance in lesser alignment classes.
    pub lesser: Lesser,
    /// Why a wider class does not serve the launches of this one; empty for the widest.
    why: String,
    pub workspaces: Workspaces,
    /// Whether it stays loaded for the life of the process (`Shared::pin`).
    pub pinned: AtomicBool,
}

/// What runs, by where it runs.
enum Runs {
    /// On a simulator: there from the start.
    Simulated(Made),
    /// On a GPU, once a launch needs it: the contract of a class is known before it is compiled.
    Compiled { cuda: &'static CudaDevice, made: OnceLock<Made> },
}

/// What runs, and how it was made.
pub(crate) struct Made {
    pub code: Code,
    pub build: Build,
}

/// What runs.
pub(crate) enum Code {
    Cuda { function: Function },
    Fast { bound: Box<Kernel> },
    Checked,
}

/// How it was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Build {
    /// The instance, as an author writes it.
    pub instance: String,
    /// NVRTC's architecture.
    pub architecture: String,
    /// What the assembler reported; `None` on a simulator.
    pub resources: Option<Resources>,
    /// Whether the cache had it; `None` on a simulator.
    pub origin: Option<Origin>,
}

/// What a launch chooses of an instance beyond its number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chosen<'a> {
    /// The values of its `specialize(..)`.
    pub dims: &'a [(DimId, i64)],
    /// A bit for every parameter that is left out.
    pub absent: u64,
}

/// The record of an instance on a device; made if it is not in the table.
pub(crate) fn prepared<const N: usize>(
    definition: &'static Definition,
    table: &'static InstanceTable<N>,
    instance: usize,
    chosen: Chosen<'_>,
    device: &Device,
) -> Result<Shared, Error> {
    let slot = device.state.slot;
    let missing = || Error::Instance {
        kernel: definition.name().into(),
        asked: format!("number {instance}"),
        declared: format!("{N} instances"),
    };
    if let Some(specialized) = table.specialization() {
        let variants = table.variants_of(instance).ok_or_else(missing)?;
        let values = variants::key(definition.kernel()?, chosen.dims);
        return Ok(Shared::Counted(match variants.find(slot, chosen.absent, &values) {
            Some(prepared) => prepared,
            None => {
                let prepared = prepare(definition, instance, chosen, device)?;
                // What cannot be compiled takes nobody's place.
                prepared.made(device.state)?;
                variants.insert(&values, prepared, specialized.max)
            }
        }));
    }
    if let Some(prepared) = table.find(instance, slot, chosen.absent) {
        return Ok(Shared::Always(prepared));
    }
    let prepared = prepare(definition, instance, chosen, device)?;
    table.insert(instance, prepared).map(Shared::Always).ok_or_else(missing)
}

#[cold]
fn prepare(
    definition: &'static Definition,
    index: usize,
    chosen: Chosen<'_>,
    device: &Device,
) -> Result<Prepared, Error> {
    let Chosen { dims, absent } = chosen;
    let (kernel, declared) = definition.instance(index)?;
    // A tensor that is not optional stays: the launch's check reports that it is missing.
    let left_out = kernel.params.iter().filter(|(id, param)| {
        let bit = id.as_u32() < 64 && absent >> id.as_u32() & 1 == 1;
        bit && matches!(param.kind, ParamKind::Tensor { optional: true, .. })
    });
    let instance = &Instance { absent: left_out.map(|(id, _)| id).collect(), ..declared.with_dims(dims.to_vec()) };
    let target = target_for(kernel, device)?;
    Prepared::new(definition, instance.clone(), absent, target, device.state)
}

impl Prepared {
    /// A record, lowered; code for a device is made when it is asked for.
    fn new(
        definition: &'static Definition,
        instance: Instance,
        absent: u64,
        target: Target,
        device: &'static DeviceState,
    ) -> Result<Prepared, Error> {
        let kernel = definition.kernel()?;
        let fast = matches!(device.backend, Backend::Simulator { checked: false });
        let (bound, mut program) = lowered_for(kernel, &instance, target, fast)?;
        if fast {
            // It runs every class alike.
            program.launch.checks.retain(|check| check.request.is_none());
        }
        let plan = Plan::new(&bound, program)?;
        let simulated = |code| {
            let build = Build { instance: instance_text(kernel, &instance), ..Build::default() };
            Runs::Simulated(Made { code, build })
        };
        let runs = match &device.backend {
            Backend::Simulator { checked: false } => simulated(Code::Fast { bound: Box::new(bound) }),
            Backend::Simulator { checked: true } => simulated(Code::Checked),
            Backend::Cuda(cuda) => Runs::Compiled { cuda, made: OnceLock::new() },
        };
        Ok(Prepared {
            slot: device.slot,
            absent,
            next: AtomicPtr::new(null_mut()),
            definition,
            instance,
            plan,
            runs,
            lesser: Lesser::default(),
            why: String::new(),
            workspaces: Workspaces::default(),
            pinned: AtomicBool::new(false),
        })
    }

    /// The same instance in a lesser class, because of what does not hold on one side.
    pub fn of_class(
        wider: &Prepared,
        class: Class,
        (side, problem): (Side, &Problem),
        device: &'static DeviceState,
    ) -> Result<Prepared, Error> {
        let instance = Instance { class, ..wider.instance.clone() };
        let made = Prepared::new(wider.definition, instance, wider.absent, wider.plan.program.target, device)?;
        let first = match side {
            Side::Reads => wider.instance.class.reads == Width::Sixteen,
            Side::Writes => wider.instance.class.writes == Width::Sixteen,
        };
        let why = match (wider.why.as_str(), first) {
            ("", _) => problem.to_string(),
            (why, true) => format!("{why}; {problem}"),
            (why, false) => why.to_owned(),
        };
        Ok(Prepared { why, ..made })
    }

    /// What runs; compiled and loaded if it is not.
    #[inline]
    pub fn made(&self, device: &'static DeviceState) -> Result<&Made, Error> {
        match &self.runs {
            Runs::Simulated(made) => Ok(made),
            Runs::Compiled { cuda, made } => match made.get() {
                Some(made) => Ok(made),
                None => {
                    let compiled = self.compile(cuda, device)?;
                    Ok(made.get_or_init(|| compiled))
                }
            },
        }
    }

    /// What runs, if it is made.
    pub fn code(&self) -> Option<&Code> {
        match &self.runs {
            Runs::Simulated(made) => Some(&made.code),
            Runs::Compiled { made, .. } => made.get().map(|made| &made.code),
        }
    }

    /// Compiles the program, or takes it from the cache, and loads it.
    #[cold]
    fn compile(&self, cuda: &'static CudaDevice, device: &DeviceState) -> Result<Made, Error> {
        let (kernel, program) = (self.definition.kernel()?, &self.plan.program);
        let mut build = Build { instance: instance_text(kernel, &self.instance), ..Build::default() };
        Function::accepts(&kernel.name, program)?;
        build.architecture = device.architecture(program.target);
        let (entry, origin) = machine_code(program, &build.architecture)?;
        build.resources = Resources::of(program, &entry.log);
        build.origin = Some(origin);
        let (function, capacity) = Function::load(cuda, &kernel.name, &entry.code, program)?;
        self.plan.capacity.store(capacity, Ordering::Relaxed);
        self.say();
        Ok(Made { code: Code::Cuda { function }, build })
    }

    /// Says that a GPU does less than it could, once for each class of an instance.
    fn say(&self) {
        let class = self.instance.class;
        if !class.is_widest() {
            let widest = Instance { class: Class::WIDEST, ..self.instance.clone() };
            let instance = self.definition.kernel().map_or_else(|_| String::new(), |k| instance_text(k, &widest));
            eprintln!("tile: {} {instance}: {class}, not 16 bytes: {} (said once)", self.definition.name(), self.why);
        }
    }
}

/// What a kernel is compiled for on a device.
pub(crate) fn target_for(kernel: &Kernel, device: &Device) -> Result<Target, Error> {
    device.target(&kernel.targets).ok_or_else(|| Error::NoTarget {
        kernel: kernel.name.clone(),
        device: device.to_string(),
        declared: kernel.targets.iter().map(|t| t.name()).collect::<Vec<_>>().join(", "),
    })
}

/// The bound kernel and the lowered program of an instance.
pub(crate) fn lowered(kernel: &Kernel, instance: &Instance, target: Target) -> Result<(Kernel, Program), Error> {
    lowered_for(kernel, instance, target, false)
}

/// As [`lowered`]. `fast`: for the fast simulator, which executes the bound kernel, a block a tile.
fn lowered_for(kernel: &Kernel, instance: &Instance, target: Target, fast: bool) -> Result<(Kernel, Program), Error> {
    let report = |diagnostics: Vec<Diagnostic>| {
        let mut report: String = diagnostics.iter().map(|d| d.render(&kernel.source, &kernel.spans) + "\n").collect();
        report += &format!("in kernel `{}`, instance {}, for {target}", kernel.name, instance_text(kernel, instance));
        Error::Lower { kernel: kernel.name.clone(), report }
    };
    let bound = tile_ir::lower::bind(kernel, instance).map_err(report)?;
    let program = match fast && tile_ir::lower::chooses_grid(&bound) {
        true => tile_ir::lower::interface(&bound, target).map_err(report)?,
        false => tile_ir::lower::lower_bound(&bound, target).map_err(report)?,
    };
    Ok((bound, program))
}

/// The cubin of a program, from the cache or from NVRTC, with the compiler's log.
pub(crate) fn machine_code(program: &Program, architecture: &str) -> Result<(Entry, Origin), Error> {
    let line_info = nvrtc::line_info_wanted();
    let source = tile_ir::emit::cuda::emit_with(program, line_info);
    let arguments = nvrtc::options(architecture, line_info);
    let compile = || {
        let compiled = Nvrtc::get()?.compile(&program.name, &source, &arguments, Output::Cubin)?;
        Ok(Entry { code: compiled.code, log: compiled.log })
    };
    let (symbol, options) = (symbol(program), arguments.join(" "));
    let parts = [("symbol", &*symbol), ("arch", architecture), ("options", &options), ("source", &source)];
    let compiler = Nvrtc::get().ok().map(Nvrtc::identity);
    Cache::get(&Key::new(&parts, compiler), compile)
}
