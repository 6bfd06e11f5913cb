//! A launch as the runtime makes one, with the simulators at hand: bind, lower, check, run.

use super::problem::{Problem, Results, results};
use std::collections::HashMap;
use std::rc::Rc;
use tile_ir::diag::Diagnostic;
use tile_ir::emit::cuda::emit;
use tile_ir::ir::{BoundKernel, DimId, EntityRef, Instance, Kernel, ParamId, Target};
use tile_ir::lower;
use tile_ir::lowered::{self, Check, HostExpr, HostValues, Program};
use tile_ir::sim::checked::{CheckedOptions, CheckedReport, Copies, Schedule};
use tile_ir::sim::{Argument, SimError, checked, fast};

/// An instance, bound and lowered in the alignment class that serves a problem.
pub struct Launch {
    /// What the fast simulator runs.
    pub bound: BoundKernel,
    /// What the checked one does.
    pub program: Program,
    /// How many blocks there are along each axis of the author's grid whose extent is not a constant.
    pub extents: Vec<i64>,
    /// The extents of the dims that the grid says nothing of: what loops go over.
    pub depths: Vec<i64>,
    /// How many blocks are launched. None do nothing: what they leave unwritten is a finding like any other.
    pub blocks: i64,
}

/// Why there is no launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be bound or lowered: an error of the first launch.
    Lowering(String),
    /// A launch check does not hold.
    Check(String),
    /// It is more work than the soak has time for.
    Large,
}

/// Most blocks that are simulated.
const MOST_BLOCKS: i64 = 1 << 16;

/// The programs of a kernel, each lowered once: launches that differ in extents alone have one, unless a dim is specialised.
pub struct Programs<'k> {
    kernel: &'k Kernel,
    lowered: HashMap<(Instance, Target), Lowered>,
}

/// A bound kernel with its program, or what the compiler says against it.
type Lowered = Result<Rc<(BoundKernel, Program)>, String>;

/// Most programs that are kept: those of a kernel with specialised dims are as many as its launches.
const MOST_PROGRAMS: usize = 64;

impl<'k> Programs<'k> {
    /// None of this kernel's yet.
    pub fn of(kernel: &'k Kernel) -> Programs<'k> {
        Programs { kernel, lowered: HashMap::new() }
    }

    /// The kernel.
    pub fn kernel(&self) -> &'k Kernel {
        self.kernel
    }

    /// What serves the problem, as `tile_runtime` finds it.
    ///
    /// # Errors
    /// The launch is refused.
    pub fn launch(&mut self, instance: &Instance, target: Target, problem: &Problem) -> Result<Launch, Refusal> {
        let kernel = self.kernel;
        let specialized = kernel.specialized().iter().map(|dim| (*dim, problem.dim(&kernel.dims[*dim].name)));
        let mut instance = Instance { absent: problem.absent(kernel), ..instance.with_dims(specialized.collect()) };
        loop {
            // A tile that only the widest class can have is refused where rows are not aligned: that is the launch's matter.
            let failed = match instance.class.is_widest() {
                true => Refusal::Lowering,
                false => Refusal::Check,
            };
            let lowered = self.lowered(&instance, target).map_err(failed)?;
            let (bound, program) = &*lowered;
            let args = problem.shapes(bound);
            let values = Values { kernel: bound, problem, args: &args, program };
            let broken = |check: &&Check| !matches!(check.holds.evaluate(&values), Some(n) if n != 0);
            match program.launch.checks.iter().find(broken) {
                None => {
                    let (blocks, (extents, depths)) = (values.blocks()?, values.extents());
                    return Ok(Launch { bound: bound.clone(), program: program.clone(), extents, depths, blocks });
                }
                Some(check) => match check.request.and_then(|side| instance.class.lesser(side)) {
                    Some(class) => instance.class = class,
                    None => return Err(Refusal::Check(format!("{:?}", check.kind))),
                },
            }
        }
    }

    fn lowered(&mut self, instance: &Instance, target: Target) -> Lowered {
        let key = (instance.clone(), target);
        if let Some(lowered) = self.lowered.get(&key) {
            return lowered.clone();
        }
        let said = |all: Vec<Diagnostic>| first(&all);
        let lowered = lower::bind(self.kernel, instance).map_err(said).and_then(|bound| {
            let program = lower::lower_bound(&bound, target).map_err(said)?;
            Ok(Rc::new((bound, program)))
        });
        if self.lowered.len() == MOST_PROGRAMS {
            self.lowered.clear();
        }
        self.lowered.insert(key, lowered.clone());
        lowered
    }
}

impl Launch {
    /// [`Programs::launch`] of a kernel that is launched once.
    ///
    /// # Errors
    /// The launch is refused.
    pub fn new(kernel: &Kernel, instance: &Instance, target: Target, problem: &Problem) -> Result<Launch, Refusal> {
        Programs::of(kernel).launch(instance, target, problem)
    }

    /// What decides a launch: the CUDA C, and what the host and the checked simulator are told beside it. Places in the
    /// source are no part of it.
    pub fn identity(&self) -> String {
        let Program { params, tensors, tensor_maps, tiles, launch, .. } = &self.program;
        let checks: Vec<_> = launch.checks.iter().map(|check| (&check.holds, check.request)).collect();
        let launch = lowered::Launch { checks: vec![], ..launch.clone() };
        let maps: Vec<_> = tensor_maps.values().collect();
        format!("{}{params:?}{tensors:?}{maps:?}{tiles:?}{launch:?}{checks:?}", emit(&self.program))
    }

    /// Runs it on the fast simulator, whose blocks are run on several threads, in an order that is not told.
    ///
    /// # Errors
    /// See [`fast::run`].
    pub fn fast(&self, problem: &Problem) -> Result<Results, SimError> {
        let args = problem.arguments(&self.bound);
        fast::run(&self.bound, &args)?;
        Ok(results(&self.bound, &args))
    }

    /// Runs it on the fast simulator, one block after another.
    ///
    /// # Errors
    /// See [`fast::run`]; or no thread could be started.
    pub fn fast_in_order(&self, problem: &Problem) -> Result<Results, String> {
        // The only thread of a pool takes what it has cut a range into from the front.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|error| error.to_string())?;
        pool.install(|| self.fast(problem)).map_err(|error| error.to_string())
    }

    /// Runs it on the checked simulator.
    ///
    /// # Errors
    /// See [`checked::run`].
    pub fn checked(&self, problem: &Problem, options: &CheckedOptions) -> Result<(CheckedReport, Results), SimError> {
        let args = problem.arguments(&self.bound);
        let report = checked::run(&self.program, &args, options)?;
        Ok((report, results(&self.bound, &args)))
    }
}

/// The schedules under which programs are run: warps in order with copies made at once, and others drawn from a seed with
/// copies made as late as may be, or either way.
pub fn schedules(seed: u64, step_limit: u64) -> [CheckedOptions; 3] {
    let seeded = |resident_blocks| Schedule::Seeded { resident_blocks };
    let each = [(Schedule::InOrder, Copies::Early), (seeded(3), Copies::Late), (seeded(2), Copies::Seeded)];
    each.map(|(schedule, copies)| CheckedOptions { seed, schedule, copies, step_limit, ..CheckedOptions::default() })
}

/// The code and the sentence of the first of some diagnostics.
pub fn first(all: &[Diagnostic]) -> String {
    all.first().map_or_else(String::new, |d| format!("[{}] {}", d.code, d.message))
}

fn mentions(expr: &HostExpr, dim: DimId) -> bool {
    match expr {
        HostExpr::Dim(one) => *one == dim,
        HostExpr::Binary(_, a, b) => mentions(a, dim) || mentions(b, dim),
        HostExpr::Not(x) => mentions(x, dim),
        HostExpr::Choose(parts) => parts.iter().any(|part| mentions(part, dim)),
        HostExpr::Int(_) | HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Address(_) | HostExpr::Capacity => {
            false
        }
    }
}

struct Values<'a> {
    kernel: &'a Kernel,
    problem: &'a Problem,
    args: &'a [Argument],
    program: &'a Program,
}

impl Values<'_> {
    /// The extents of the author's grid that are not constants, and those of the dims in none of them.
    fn extents(&self) -> (Vec<i64>, Vec<i64>) {
        let axes: Vec<&HostExpr> = match self.program.tiles.as_slice() {
            [] => self.program.launch.grid.iter().collect(),
            tiles => tiles.iter().map(|tile| &tile.extent).collect(),
        };
        let depths = self.kernel.dims.keys().filter(|dim| !axes.iter().any(|axis| mentions(axis, *dim)));
        let depths = depths.map(|dim| self.dim(dim)).collect();
        let variable = axes.into_iter().filter(|axis| !matches!(axis, HostExpr::Int(_)));
        (variable.filter_map(|axis| axis.evaluate(self)).collect(), depths)
    }

    fn blocks(&self) -> Result<i64, Refusal> {
        let mut blocks = 1i64;
        for (axis, most) in [i64::from(i32::MAX), 65_535, 65_535].into_iter().enumerate() {
            match self.program.launch.grid[axis].evaluate(self) {
                Some(extent) if (0..=most).contains(&extent) => blocks = blocks.saturating_mul(extent),
                other => return Err(Refusal::Check(format!("the grid's extent on axis {axis} is {other:?}"))),
            }
        }
        if blocks <= MOST_BLOCKS { Ok(blocks) } else { Err(Refusal::Large) }
    }
}

impl HostValues for Values<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        self.kernel.dims.get(dim).map_or(0, |d| self.problem.dim(&d.name))
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        match self.args.get(tensor.index()) {
            Some(Argument::Tensor(tensor)) => tensor.strides.get(usize::from(axis)).copied().unwrap_or(0),
            _ => 0,
        }
    }

    fn scalar(&self, param: ParamId) -> i64 {
        match self.args.get(param.index()) {
            Some(Argument::Scalar(value)) => value.host_number(),
            _ => 0,
        }
    }

    fn address(&self, _: ParamId) -> u64 {
        // Every tensor begins where a device allocation does.
        256
    }

    fn capacity(&self) -> i64 {
        i64::from(4 * self.program.launch.cluster_size().max(1))
    }
}
