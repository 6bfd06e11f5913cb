//! One instance of a kernel, ready to be launched on one device: lowered, compiled (or found in the cache), loaded.

use super::class::Lesser;
use super::definition::{Definition, InstanceTable, instance_text};
use super::plan::Plan;
use super::variants::{self, Shared};
use super::which::Variant;
use super::workspace::Workspaces;
use crate::cache::{Cache, Entry, Key, Origin};
use crate::cuda::{CudaDevice, Function};
use crate::device::{Backend, Device, DeviceState};
use crate::embedded::{self, Found, Why};
use crate::error::{Error, NotEmbedded};
use crate::launch_error::Problem;
use crate::nvrtc::{self, Nvrtc, Output, Resources};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use tile_ir::diag::Diagnostic;
use tile_ir::emit::cuda::symbol;
use tile_ir::ir::{BoundKernel, Class, DimId, Instance, Kernel, ParamKind, Side, Target, Width};
use tile_ir::lowered::Program;
use tile_ir::verify::program::{self as verify, Effort};

/// A record of an [`InstanceTable`].
pub(crate) struct Prepared {
    /// The device's slot.
    pub slot: u32,
    /// The parameters that its launches leave out, a bit each.
    pub absent: u64,
    /// The record of this instance on another device.
    pub next: AtomicPtr<Prepared>,
    pub definition: &'static Definition,
    /// The instance, as it is bound.
    pub instance: Instance,
    pub plan: Plan,
    runs: Runs,
    /// The records of this instance in lesser alignment classes.
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
    Fast { bound: Box<BoundKernel> },
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
pub(super) fn prepare(
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

    /// An instance in a lesser class than `wider`, because of what does not hold on one side.
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
        let (entry, origin) = code_for_launch(kernel, &self.instance, program, &build.architecture)?;
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
pub(crate) fn lowered(kernel: &Kernel, instance: &Instance, target: Target) -> Result<(BoundKernel, Program), Error> {
    lowered_for(kernel, instance, target, false)
}

/// As [`lowered`]. `fast`: for the fast simulator, which executes the bound kernel, a block a tile.
fn lowered_for(
    kernel: &Kernel,
    instance: &Instance,
    target: Target,
    fast: bool,
) -> Result<(BoundKernel, Program), Error> {
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

/// An instance as it is named in a bundle of embedded kernels: as its author writes it, with the tensors it leaves out.
pub(crate) fn slot(kernel: &Kernel, instance: &Instance) -> String {
    let absent = instance.absent.iter().filter_map(|id| kernel.params.get(*id));
    absent.fold(instance_text(kernel, instance), |text, param| format!("{text} without {}", param.name))
}

/// A compilation: what it takes, and what its result is found by.
#[derive(Clone)]
struct Compilation<'p> {
    program: &'p Program,
    source: String,
    options: Vec<String>,
}

impl<'p> Compilation<'p> {
    fn new(program: &'p Program, architecture: &str, line_info: bool) -> Self {
        let source = tile_ir::emit::cuda::emit_with(program, line_info);
        Compilation { program, source, options: nvrtc::options(architecture, line_info) }
    }

    fn key(&self, architecture: &str, compiler: Option<String>) -> Key {
        let (symbol, options) = (symbol(self.program), self.options.join(" "));
        let parts =
            [("symbol", &*symbol), ("arch", architecture), ("options", &options), ("source", self.source.as_str())];
        Key::new(&parts, compiler)
    }

    /// The cubin and the compiler's log, from the cache or from NVRTC.
    fn get(&self, architecture: &str) -> Result<(Key, Entry, Origin), Error> {
        let key = self.key(architecture, Nvrtc::get().ok().map(Nvrtc::identity));
        let (entry, origin) = Cache::get(&key, || {
            verified(self.program)?;
            let compiled = Nvrtc::get()?.compile(&self.program.name, &self.source, &self.options, Output::Cubin)?;
            Ok(Entry { code: compiled.code, log: compiled.log })
        })?;
        Ok((key, entry, origin))
    }
}

/// A program that breaks a rule of the compiler is not compiled.
fn verified(program: &Program) -> Result<(), Error> {
    let checked = verify::program(program, Effort::Compilation);
    checked.map(|_| ()).map_err(|bug| Error::Lower {
        kernel: program.name.clone(),
        report: bug.diagnostic().render(&program.source, &program.spans),
    })
}

/// The cubin of a program, from the cache or from NVRTC, with the compiler's log.
pub(crate) fn machine_code(program: &Program, architecture: &str) -> Result<Entry, Error> {
    Compilation::new(program, architecture, nvrtc::line_info_wanted()).get(architecture).map(|(_, entry, _)| entry)
}

/// The cubin of an instance without line information, from the cache or from NVRTC, and the key that a bundle of embedded kernels
/// stores it under.
pub(crate) fn code_for_bundle(
    def: &'static Definition,
    which: Variant<'_>,
    target: Target,
    architecture: &str,
) -> Result<(Key, Entry), Error> {
    let (kernel, instance) = which.instance(def)?;
    let (_, program) = lowered(kernel, &instance, target)?;
    Compilation::new(&program, architecture, false).get(architecture).map(|(key, entry, _)| (key, entry))
}

/// What an instance is found by in a bundle, whatever its compiler. Nothing is compiled.
pub(crate) fn key_for_bundle(
    def: &'static Definition,
    which: Variant<'_>,
    target: Target,
    architecture: &str,
) -> Result<Key, Error> {
    let (kernel, instance) = which.instance(def)?;
    let (_, program) = lowered(kernel, &instance, target)?;
    Ok(Compilation::new(&program, architecture, false).key(architecture, None))
}

/// What a launch of an instance runs: embedded in the program, from the cache or from NVRTC, in this order.
fn code_for_launch(
    kernel: &Kernel,
    instance: &Instance,
    program: &Program,
    architecture: &str,
) -> Result<(Entry, Origin), Error> {
    let (kernel, instance) = (&kernel.name, slot(kernel, instance));
    let line_info = nvrtc::line_info_wanted();
    let compilation = Compilation::new(program, architecture, line_info);
    let found = match line_info {
        true => Found::NoBundles,
        false => {
            let of = |code: String| {
                let key = Compilation { options: nvrtc::options(&code, false), ..compilation.clone() }.key(&code, None);
                (code, key)
            };
            embedded::find(kernel, &instance, || runnable(program.target, architecture).into_iter().map(of).collect())
        }
    };
    let why = match found {
        Found::Code(entry) => return Ok((entry, Origin::Embedded)),
        Found::NoBundles => None,
        Found::Not(why) => Some(why),
    };
    // An instance that nobody embedded may be meant to be compiled; what was embedded and is not used is an oversight.
    if let Some(why @ (Why::Version { .. } | Why::Damaged)) = &why {
        eprintln!("tile: warning: the embedded kernel `{kernel}` {instance} for {architecture} is not used: {why}");
    }
    compilation.get(architecture).map(|(_, entry, origin)| (entry, origin)).map_err(|error| match (error, why) {
        (Error::Library(problem), Some(why)) => Error::NotEmbedded(Box::new(NotEmbedded {
            kernel: kernel.clone(),
            instance,
            architecture: architecture.into(),
            why: why.to_string(),
            problem,
        })),
        (error, _) => error,
    })
}

/// The architectures whose code runs where a kernel would be compiled for `architecture`, best first.
///
/// Source: CUDA C++ Programming Guide, binary compatibility: code runs on later minor revisions of its generation, but for Tegra
/// (`sm_87`).
fn runnable(target: Target, architecture: &str) -> Vec<String> {
    const AMPERE: [&str; 3] = ["sm_89", "sm_86", "sm_80"];
    match AMPERE.iter().position(|known| *known == architecture) {
        Some(at) if !target.info().exact => AMPERE[at..].iter().map(|known| (*known).to_owned()).collect(),
        _ => vec![architecture.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_on_later_devices_of_its_generation() {
        assert_eq!(runnable(Target::Sm80, "sm_89"), ["sm_89", "sm_86", "sm_80"]);
        assert_eq!(runnable(Target::Sm80, "sm_86"), ["sm_86", "sm_80"]);
        assert_eq!(runnable(Target::Sm80, "sm_80"), ["sm_80"]);
        for (target, only) in
            [(Target::Sm80, "sm_87"), (Target::Sm80, "sm_90"), (Target::Sm80, "sm_120"), (Target::Sm90a, "sm_90a")]
        {
            assert_eq!(runnable(target, only), [only]);
        }
    }
}
