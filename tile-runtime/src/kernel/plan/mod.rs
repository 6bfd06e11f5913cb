//! What a launch of one instance must check, and the checks.
//!
//! A plan is made once, from the lowered program. Checking takes no lock, makes no string and allocates nothing while
//! everything holds; a report is put together only once something does not.

mod overlap;
mod report;

use super::argument::{Argument, MAX_RANK, Scalar, TensorRef};
use super::formula::Formula;
use crate::device::DeviceState;
use crate::error::Error;
use crate::launch_error::Problem;
use overlap::{check_strides, share_elements};
use std::sync::atomic::{AtomicI64, Ordering};
use tile_ir::ir::{DimId, Dtype, DtypeRef, EntityRef, Kernel, ParamId, ParamKind, Side, Type};
use tile_ir::lowered::{Check, HostExpr, HostValues, Program};
use tile_ir::sim::ScalarValue;

/// Most parameters a kernel has: their numbers are bytes here.
const MAX_ARGUMENTS: usize = 255;
/// Most dims a kernel has: their values live on the stack during a launch.
const MAX_DIMS: usize = 32;
/// Most blocks on each axis. Source: CUDA C++ Programming Guide, compute capabilities.
const MOST_BLOCKS: [i64; 3] = [i32::MAX as i64, 65_535, 65_535];

/// The checks of one instance.
pub(crate) struct Plan {
    params: Vec<ParamPlan>,
    names: Vec<String>,
    /// What must hold, in the order of the program's checks.
    checks: Vec<Formula>,
    grid: [Formula; 3],
    /// The tensors that are written, if any: which must overlap no other.
    written: Vec<u8>,
    /// The tensors that the launcher allocates: the last parameters.
    workspaces: Vec<u8>,
    /// Blocks of it that the device holds at once, in whole clusters.
    pub capacity: AtomicI64,
    /// The tensors that are read before the previous kernel is done, if the kernel may start early.
    independent: Vec<u8>,
    /// The program: what is launched, and the words of a report.
    pub program: Program,
}

enum ParamPlan {
    Tensor {
        dtype: Dtype,
        rank: u8,
        mutable: bool,
        extents: [ExtentPlan; MAX_RANK],
    },
    Scalar {
        ty: ScalarType,
    },
    /// An optional tensor that these launches leave out.
    Absent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScalarType {
    Index,
    Element(Dtype),
}

#[derive(Clone, Copy)]
enum ExtentPlan {
    /// The first place of a dim: gives it its value.
    Bind(u8),
    /// A further place of a dim.
    Equal(u8),
    Fixed(i64),
}

/// Why a launch cannot be made in a class.
pub(crate) enum Refusal {
    /// It cannot be made at all.
    Problem(Box<Problem>),
    /// Copies on this side request what a check, by its number, says does not hold: a lesser class does without.
    Request(Side, usize),
}

impl From<Box<Problem>> for Refusal {
    fn from(problem: Box<Problem>) -> Self {
        Refusal::Problem(problem)
    }
}

/// The values a launch's expressions are made of.
pub(crate) struct Values<'a> {
    pub dims: [i64; MAX_DIMS],
    /// Blocks of the kernel that the device holds at once, in whole clusters.
    pub capacity: i64,
    pub args: &'a [Argument<'a>],
}

impl<'a> Values<'a> {
    #[inline]
    pub fn tensor(&self, param: ParamId) -> Option<&TensorRef<'a>> {
        match self.args.get(param.index()) {
            Some(Argument::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }
}

impl HostValues for Values<'_> {
    #[inline]
    fn dim(&self, dim: DimId) -> i64 {
        self.dims[dim.index() % MAX_DIMS]
    }

    #[inline]
    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        self.tensor(tensor).and_then(|t| t.strides().get(usize::from(axis)).copied()).unwrap_or(0)
    }

    #[inline]
    fn scalar(&self, param: ParamId) -> i64 {
        match self.args.get(param.index()) {
            Some(Argument::Scalar(Scalar { value })) => value.host_number(),
            _ => 0,
        }
    }

    #[inline]
    fn address(&self, tensor: ParamId) -> u64 {
        self.tensor(tensor).map_or(0, TensorRef::address)
    }

    #[inline]
    fn capacity(&self) -> i64 {
        self.capacity
    }
}

/// Where these arguments' tensors lie.
#[inline]
fn ranges<'a>(which: &'a [u8], args: &'a [Argument<'a>]) -> impl Iterator<Item = (u64, u64)> + 'a {
    which.iter().filter_map(move |i| match args.get(usize::from(*i)) {
        Some(Argument::Tensor(tensor)) => Some(tensor.range()),
        _ => None,
    })
}

impl Plan {
    /// The plan of a program lowered from `kernel`.
    pub fn new(kernel: &Kernel, program: Program) -> Result<Plan, Error> {
        if kernel.params.len() > MAX_ARGUMENTS {
            let (kernel, found) = (kernel.name.clone(), kernel.params.len());
            return Err(Error::TooMany { kernel, what: "parameters", found, most: MAX_ARGUMENTS });
        }
        if kernel.dims.len() > MAX_DIMS {
            let (kernel, found) = (kernel.name.clone(), kernel.dims.len());
            return Err(Error::TooMany { kernel, what: "dims", found, most: MAX_DIMS });
        }
        let mut bound = [false; MAX_DIMS];
        let mut params = Vec::new();
        for (id, param) in kernel.params.iter() {
            params.push(match &param.kind {
                ParamKind::Scalar { ty } => ParamPlan::Scalar { ty: scalar_type(*ty, &program) },
                ParamKind::Absent => ParamPlan::Absent,
                ParamKind::Tensor { shape, mutable, .. } => {
                    let malformed = || Error::Lower {
                        kernel: kernel.name.clone(),
                        report: format!("kernel `{}`: tensor `{}` is not as it was declared", kernel.name, param.name),
                    };
                    let info = program.tensors.iter().find(|t| t.param == id).ok_or_else(malformed)?;
                    if info.shape.len() != shape.len() || shape.len() > MAX_RANK {
                        return Err(malformed());
                    }
                    let mut extents = [ExtentPlan::Fixed(1); MAX_RANK];
                    for (plan, extent) in extents.iter_mut().zip(&info.shape) {
                        *plan = match extent {
                            HostExpr::Int(value) => ExtentPlan::Fixed(*value),
                            HostExpr::Dim(dim) if bound[dim.index()] => ExtentPlan::Equal(dim.index() as u8),
                            HostExpr::Dim(dim) => {
                                bound[dim.index()] = true;
                                ExtentPlan::Bind(dim.index() as u8)
                            }
                            _ => return Err(malformed()),
                        };
                    }
                    ParamPlan::Tensor { dtype: info.dtype, rank: shape.len() as u8, mutable: *mutable, extents }
                }
            });
        }
        let writes = |(i, plan): (usize, &ParamPlan)| match plan {
            ParamPlan::Tensor { mutable: true, .. } => u8::try_from(i).ok(),
            _ => None,
        };
        let independent = program.tensors.iter().filter(|t| t.independent).map(|t| t.param.index() as u8).collect();
        let workspaces = kernel.attributes.workspaces.iter().map(|p| p.index() as u8).collect();
        Ok(Plan {
            independent,
            workspaces,
            written: params.iter().enumerate().filter_map(writes).collect(),
            params,
            names: kernel.params.values().map(|p| p.name.clone()).collect(),
            checks: program.launch.checks.iter().map(|check| Formula::new(&check.holds)).collect(),
            grid: program.launch.grid.each_ref().map(Formula::new),
            // What the simulators hold; a device says so itself once the program is loaded.
            capacity: AtomicI64::new(i64::from(4 * program.launch.cluster_size().max(1))),
            program,
        })
    }

    /// Whether launches have workspaces.
    #[inline]
    pub fn has_workspaces(&self) -> bool {
        !self.workspaces.is_empty()
    }

    /// Parameter, dtype and shape of each workspace, for the other arguments.
    pub fn workspaces(&self, args: &[Argument<'_>]) -> Vec<(u8, Dtype, Vec<i64>)> {
        let dims = self.dims(args);
        let shape = |extents: &[ExtentPlan]| {
            let value = |extent: &ExtentPlan| match *extent {
                ExtentPlan::Bind(dim) | ExtentPlan::Equal(dim) => dims[usize::from(dim) % MAX_DIMS],
                ExtentPlan::Fixed(value) => value,
            };
            extents.iter().map(value).collect()
        };
        let workspace = |param: &u8| match self.params.get(usize::from(*param)) {
            Some(ParamPlan::Tensor { dtype, rank, extents, .. }) => {
                Some((*param, *dtype, shape(&extents[..usize::from(*rank)])))
            }
            _ => None,
        };
        self.workspaces.iter().filter_map(workspace).collect()
    }

    /// The values that these arguments give the dims; 0 beyond.
    pub fn dims(&self, args: &[Argument<'_>]) -> [i64; MAX_DIMS] {
        let mut dims = [0; MAX_DIMS];
        for (plan, argument) in self.params.iter().zip(args) {
            if let (ParamPlan::Tensor { extents, .. }, Argument::Tensor(tensor)) = (plan, argument) {
                for (extent, plan) in tensor.shape().iter().zip(extents) {
                    if let ExtentPlan::Bind(dim) = plan {
                        dims[usize::from(*dim) % MAX_DIMS] = *extent;
                    }
                }
            }
        }
        dims
    }

    /// Whether the kernel may write this argument.
    #[inline]
    pub fn writes(&self, param: usize) -> bool {
        matches!(self.params.get(param), Some(ParamPlan::Tensor { mutable: true, .. }))
    }

    /// The bytes that the kernel may write.
    #[inline]
    pub fn written<'a>(&'a self, args: &'a [Argument<'a>]) -> impl Iterator<Item = (u64, u64)> + 'a {
        ranges(&self.written, args)
    }

    /// The bytes that the kernel may read before the previous kernel is done.
    #[inline]
    pub fn independent<'a>(&'a self, args: &'a [Argument<'a>]) -> impl Iterator<Item = (u64, u64)> + 'a {
        ranges(&self.independent, args)
    }

    /// Checks everything, whatever lesser classes there are. The values for the kernel's parameters, and the grid; `None`
    /// where it is empty.
    #[cfg(test)]
    pub fn check<'a>(
        &self,
        device: &DeviceState,
        args: &'a [Argument<'a>],
    ) -> Result<(Values<'a>, Option<[u32; 3]>), Box<Problem>> {
        self.examine(device, args).map_err(|refusal| match refusal {
            Refusal::Problem(problem) => problem,
            Refusal::Request(_, check) => self.unheld(check, args),
        })
    }

    /// Checks everything. The values for the kernel's parameters, and the grid; `None` where it is empty.
    #[inline]
    pub fn examine<'a>(
        &self,
        device: &DeviceState,
        args: &'a [Argument<'a>],
    ) -> Result<(Values<'a>, Option<[u32; 3]>), Refusal> {
        self.examine_before(device, args, || Ok(()))
    }

    /// [`Plan::examine`]; `ready` is called once the contract holds, before what it changes is asked: the blocks that the device
    /// holds at once.
    #[inline]
    pub fn examine_before<'a>(
        &self,
        device: &DeviceState,
        args: &'a [Argument<'a>],
        ready: impl FnOnce() -> Result<(), Box<Problem>>,
    ) -> Result<(Values<'a>, Option<[u32; 3]>), Refusal> {
        let mut values = self.values(device, args, self.workspaces.len())?;
        for (i, check) in self.checks.iter().enumerate() {
            if !matches!(check.evaluate(&values), Some(n) if n != 0) {
                let check = &self.program.launch.checks[i];
                return Err(match check.request {
                    Some(side) => Refusal::Request(side, i),
                    None => Refusal::Problem(self.broken(check, &values)),
                });
            }
        }
        ready()?;
        values.capacity = self.capacity.load(Ordering::Relaxed);
        let mut grid = [1u32; 3];
        let mut empty = false;
        for (axis, (blocks, extent)) in grid.iter_mut().zip(&self.grid).enumerate() {
            match extent.evaluate(&values) {
                Some(n) if (0..=MOST_BLOCKS[axis]).contains(&n) => (*blocks, empty) = (n as u32, empty || n == 0),
                other => return Err(self.wrong_grid(axis, other).into()),
            }
        }
        Ok((values, (!empty).then_some(grid)))
    }

    /// Checks what can be checked before the workspaces of a launch are made: these are the author's arguments alone. Of
    /// the checks that read a workspace's address or strides those count as 0, which is a multiple of everything.
    pub fn foresee(&self, device: &DeviceState, args: &[Argument<'_>]) -> Result<(), Box<Problem>> {
        let values = self.values(device, args, 0)?;
        let broken = |(check, program): (&Formula, &Check)| {
            program.request.is_none() && !matches!(check.evaluate(&values), Some(n) if n != 0)
        };
        let mut checks = self.checks.iter().zip(&self.program.launch.checks);
        match checks.position(broken) {
            None => Ok(()),
            Some(check) => Err(self.broken(&self.program.launch.checks[check], &values)),
        }
    }

    /// What check number `check` says that these arguments, which are otherwise right, do not hold.
    #[cold]
    pub fn unheld(&self, check: usize, args: &[Argument<'_>]) -> Box<Problem> {
        let values = Values { dims: self.dims(args), capacity: self.capacity.load(Ordering::Relaxed), args };
        self.broken(&self.program.launch.checks[check], &values)
    }

    /// The values for the kernel's parameters, once these arguments, the last of them `workspaces` workspaces, are found to
    /// be what it takes.
    #[inline]
    fn values<'a>(
        &self,
        device: &DeviceState,
        args: &'a [Argument<'a>],
        workspaces: usize,
    ) -> Result<Values<'a>, Box<Problem>> {
        let mut values = Values { dims: [0; MAX_DIMS], capacity: self.capacity.load(Ordering::Relaxed), args };
        // The last parameters are the workspaces, which are not the author's to give.
        let expected = self.params.len() - self.workspaces.len();
        if args.len() != expected + workspaces {
            let found = args.len().saturating_sub(workspaces);
            return Err(Box::new(Problem::ArgumentCount { expected, found }));
        }
        for (i, (plan, argument)) in self.params.iter().zip(args).enumerate() {
            match (plan, argument) {
                (ParamPlan::Tensor { dtype, rank, extents, mutable }, Argument::Tensor(tensor)) => {
                    if tensor.dtype() != *dtype || tensor.shape().len() != usize::from(*rank) {
                        return Err(self.wrong_type(i, argument));
                    }
                    for (axis, (extent, plan)) in tensor.shape().iter().zip(extents).enumerate() {
                        // One unsigned comparison for both ends of the range.
                        if *extent as u64 > i32::MAX as u64 {
                            return Err(self.extent_range(i, axis, *extent));
                        }
                        match *plan {
                            ExtentPlan::Bind(dim) => values.dims[usize::from(dim) % MAX_DIMS] = *extent,
                            ExtentPlan::Equal(dim) if values.dims[usize::from(dim) % MAX_DIMS] == *extent => {}
                            ExtentPlan::Fixed(value) if value == *extent => {}
                            _ => return Err(self.wrong_extent(i, axis, &values)),
                        }
                    }
                    check_strides(tensor).map_err(|problem| self.wrong_stride(i, tensor, problem))?;
                    if !std::ptr::eq(tensor.allocation().device, device) || !tensor.is_covered() {
                        return Err(self.wrong_place(i, tensor, device));
                    }
                    if *mutable && tensor.allocation().is_read_only() {
                        return Err(self.read_only(i));
                    }
                }
                (
                    ParamPlan::Scalar { ty: ScalarType::Index },
                    Argument::Scalar(Scalar { value: ScalarValue::Index(n) }),
                ) => {
                    if *n as u64 > i32::MAX as u64 {
                        let (argument, found) = (self.names[i].clone(), *n as u64);
                        return Err(Box::new(Problem::ScalarRange { argument, found }));
                    }
                }
                (
                    ParamPlan::Scalar { ty: ScalarType::Element(dtype) },
                    Argument::Scalar(Scalar { value: ScalarValue::Element(found, _) }),
                ) if dtype == found => {}
                (ParamPlan::Absent, Argument::Absent) => {}
                _ => return Err(self.wrong_type(i, argument)),
            }
        }
        self.check_overlap(args)?;
        Ok(values)
    }

    /// Refuses a written tensor that shares an element with another argument.
    #[inline]
    fn check_overlap(&self, args: &[Argument<'_>]) -> Result<(), Box<Problem>> {
        for i in self.written.iter().map(|i| usize::from(*i)) {
            let Some(Argument::Tensor(written)) = args.get(i) else { continue };
            let (start, end) = written.range();
            for (j, other) in args.iter().enumerate() {
                let Argument::Tensor(other) = other else { continue };
                let (other_start, other_end) = other.range();
                // Two written tensors are compared once.
                let compare = j != i && !(j < i && self.writes(j));
                if compare && start < other_end && other_start < end && share_elements(written, other) {
                    let (written, other) = (self.names[i].clone(), self.names[j].clone());
                    return Err(Box::new(Problem::Overlap { written, other }));
                }
            }
        }
        Ok(())
    }
}

fn scalar_type(ty: Type, program: &Program) -> ScalarType {
    match ty {
        Type::Index => ScalarType::Index,
        Type::Value(DtypeRef::Is(dtype)) => ScalarType::Element(dtype),
        // Bound kernels have no dtype parameters; the caller passes a bound one.
        Type::Value(DtypeRef::Param(_)) => {
            debug_assert!(false, "{} is not bound", program.name);
            ScalarType::Index
        }
    }
}
