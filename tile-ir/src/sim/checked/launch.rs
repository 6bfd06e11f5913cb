//! Arguments bound to a program: views of memory, dims, scalars, the grid.

use super::bytecode::{Code, Preset};
use super::lanes;
use super::shadow::Clocks;
use crate::ir::{AccessMode, DimId, Dtype, EntityRef, ParamId};
use crate::lowered::visit::all_accesses;
use crate::lowered::{HostExpr, HostValues, ParameterKind, Program, Space, TensorInfo, ValueType};
use crate::sim::argument::{Declared, DeclaredKind};
use crate::sim::{Argument, Memory, ScalarValue, SimError, TensorArgument};
use std::sync::Arc;

/// A launch, ready to execute.
pub(super) struct Launch {
    pub grid: [u32; 3],
    /// Blocks in all.
    pub blocks: u32,
    pub threads: [u32; 3],
    /// By `ParamId` index; none for scalars.
    pub views: Vec<Option<View>>,
    /// Allocations behind the views.
    pub allocations: Vec<Allocation>,
    /// By position in `Program::tiles`: how many there are.
    pub tiles: Vec<i64>,
    /// By position in `Program::params`; 0 for pointers.
    pub params: Vec<i64>,
    /// Blocks of a cluster on x, y, z.
    pub cluster: [u32; 3],
    pub clocks: Clocks,
    /// A thread's registers at launch.
    pub registers: u32,
}

impl Launch {
    /// Threads a block.
    pub fn thread_count(&self) -> u32 {
        self.threads.iter().product()
    }

    /// Blocks of a cluster.
    pub fn cluster_size(&self) -> u32 {
        1 << self.clocks.shift
    }

    /// Where a block is in the grid. Blocks are numbered cluster by cluster, x fastest.
    pub fn block_at(&self, number: u32) -> [u32; 3] {
        let ([cx, cy, _], [gx, gy, _]) = (self.cluster, self.grid);
        let (cluster, rank) = (number / self.cluster_size(), number % self.cluster_size());
        let (wide, high) = ((gx / cx).max(1), (gy / cy).max(1));
        let first = [cluster % wide * cx, cluster / wide % high * cy, cluster / wide / high * self.cluster[2]];
        let inside = [rank % cx, rank / cx % cy, rank / cx / cy];
        std::array::from_fn(|axis| first[axis] + inside[axis])
    }
}

/// A tensor as the program addresses it: an element offset from its first element.
pub(super) struct View {
    pub name: String,
    pub dtype: Dtype,
    pub memory: Arc<Memory>,
    /// Byte offset of element 0.
    pub base: usize,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    /// The axes of more than one element, those of the longest strides first.
    pub by_stride: Vec<usize>,
    /// How many leading offsets are all inside: every element, where the view is contiguous.
    dense: i64,
    /// Which allocation.
    pub allocation: usize,
}

impl View {
    /// Whether the element at this offset belongs to the view.
    #[inline]
    pub fn contains(&self, offset: i64) -> bool {
        (0..self.dense).contains(&offset) || self.contains_strided(offset)
    }

    fn contains_strided(&self, offset: i64) -> bool {
        let mut rest = offset;
        if offset < 0 || self.shape.contains(&0) {
            return false;
        }
        // An axis of one element contributes nothing, whatever its stride is.
        for &axis in &self.by_stride {
            let index = rest / self.strides[axis];
            if index >= self.shape[axis] {
                return false;
            }
            rest -= index * self.strides[axis];
        }
        rest == 0
    }

    /// Byte offset in the memory of the element at an offset inside the view.
    #[inline]
    pub fn byte(&self, offset: i64) -> usize {
        self.base + offset as usize * self.dtype.bytes() as usize
    }
}

/// Memory that one or more views share.
pub(super) struct Allocation {
    /// Whether the program may write any of its views.
    pub written: bool,
    /// Bytes a shadow cell: the smallest element of its views.
    pub grain: u32,
}

/// Binds arguments.
pub(super) fn bind(program: &Program, code: &Code, args: &[Argument], clusters: u32) -> Result<Launch, SimError> {
    let scalars = program.params.iter().filter_map(|p| match p.kind {
        ParameterKind::Scalar(param) => Some(param.index() + 1),
        _ => None,
    });
    let expected = program.tensors.iter().map(|t| t.param.index() + 1).chain(scalars).max().unwrap_or(0);
    if args.len() < expected {
        return Err(SimError::ArgumentCount { kernel: program.name.clone(), expected, found: args.len() });
    }
    let mut launch = Launch {
        grid: [0; 3],
        blocks: 0,
        threads: program.launch.threads,
        views: args.iter().map(|_| None).collect(),
        allocations: Vec::new(),
        tiles: Vec::new(),
        params: Vec::new(),
        cluster: program.launch.cluster,
        clocks: Clocks::default(),
        registers: 0,
    };
    let threads = launch.threads.iter().map(|&t| u64::from(t)).try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
    if threads == 0 || threads > 1024 {
        return Err(SimError::Threads { threads });
    }
    let barriers = program.barriers.values().map(|b| b.len).sum();
    launch.clocks = Clocks::new(program.launch.cluster_size(), (threads as u32).div_ceil(32), barriers, code.agents);
    // What the assembler gives: the register file among the threads, in steps of 8.
    let even = (65_536 / threads as u32 / 8 * 8).min(255);
    launch.registers = program.launch.registers.map_or(even, |r| r.launch);

    let capacity = i64::from(clusters.max(1)) * i64::from(program.launch.cluster_size().max(1));
    let mut values = Values { dims: vec![None; program.dims.len()], capacity, args };
    for info in &program.tensors {
        bind_dims(&mut values, info, args)?;
    }
    for info in &program.tensors {
        check_extents(&values, program, info, args)?;
        let view = view(&mut launch.allocations, info, args)?;
        launch.allocations[view.allocation].written |= is_written(program, info.param);
        launch.views[info.param.index()] = Some(view);
    }
    for preset in &code.presets {
        if let Preset::Param(index, ty) = *preset
            && let Some(parameter) = program.params.get(index as usize)
            && let ParameterKind::Scalar(param) = parameter.kind
        {
            check_scalar(&parameter.name, args.get(param.index()), ty)?;
        }
    }
    launch.params = program.params.iter().map(|p| parameter(&values, program, p)).collect::<Result<_, _>>()?;
    let tiles = program.tiles.iter().map(|tile| tile.extent.evaluate(&values));
    let tiles: Option<_> = tiles.collect();
    launch.tiles = tiles.ok_or_else(|| SimError::Malformed("the author's grid has no value".into()))?;
    for (axis, expr) in program.launch.grid.iter().enumerate() {
        let extent = expr.evaluate(&values).ok_or_else(|| SimError::Malformed("the grid has no value".into()))?;
        launch.grid[axis] =
            u32::try_from(extent).ok().filter(|&e| e <= i32::MAX as u32).ok_or(SimError::Grid { axis, extent })?;
    }
    if !launch.grid.contains(&0) {
        let blocks = launch.grid.iter().try_fold(1u32, |n, &e| n.checked_mul(e)).filter(|&n| n < u32::MAX);
        // No host executes that many.
        blocks.map(|n| launch.blocks = n).ok_or(SimError::Grid { axis: 0, extent: i64::from(launch.grid[0]) })?;
    }
    for axis in 0..3 {
        let (extent, cluster) = (launch.grid[axis], launch.cluster[axis]);
        if !extent.is_multiple_of(cluster) {
            return Err(SimError::Malformed(format!(
                "{extent} blocks on axis {axis} are no whole clusters of {cluster}"
            )));
        }
    }
    Ok(launch)
}

fn declared(info: &TensorInfo) -> Declared<'_> {
    Declared { name: &info.name, kind: DeclaredKind::Tensor(info.dtype, info.shape.len()) }
}

fn tensor<'a>(info: &TensorInfo, args: &'a [Argument]) -> Result<&'a TensorArgument, SimError> {
    let argument = &args[info.param.index()];
    declared(info).takes(argument)?;
    match argument {
        Argument::Tensor(tensor) => Ok(tensor),
        Argument::Scalar(_) | Argument::Absent => Err(SimError::Malformed(format!("`{}` is no tensor", info.name))),
    }
}

fn bind_dims(values: &mut Values<'_>, info: &TensorInfo, args: &[Argument]) -> Result<(), SimError> {
    let tensor = tensor(info, args)?;
    for (extent, &found) in info.shape.iter().zip(&tensor.shape) {
        if let HostExpr::Dim(dim) = extent {
            let slot = values.dims.get_mut(dim.index());
            let slot = slot.ok_or_else(|| SimError::Malformed(format!("`{}` has an unknown dim", info.name)))?;
            slot.get_or_insert(found);
        }
    }
    Ok(())
}

fn check_extents(values: &Values<'_>, program: &Program, info: &TensorInfo, args: &[Argument]) -> Result<(), SimError> {
    for (axis, (extent, &found)) in info.shape.iter().zip(&tensor(info, args)?.shape).enumerate() {
        let names = |param: ParamId| param.to_string();
        declared(info).extent(axis, extent.display(&program.dims, &names), extent.evaluate(values), found)?;
    }
    Ok(())
}

fn view(allocations: &mut Vec<Allocation>, info: &TensorInfo, args: &[Argument]) -> Result<View, SimError> {
    let tensor = tensor(info, args)?;
    let element = u64::from(tensor.dtype.bytes());
    let empty = tensor.shape.contains(&0);
    let outside = |bytes: u64| SimError::ArgumentMemory {
        argument: info.name.clone(),
        offset: tensor.offset,
        bytes,
        memory: tensor.memory.len(),
    };
    // Each axis must step over what lies inside it, the axes of shorter strides, or an offset would name several elements.
    let mut inside = 1i64;
    let mut by_stride: Vec<usize> = (0..tensor.shape.len()).filter(|axis| tensor.shape[*axis] > 1).collect();
    by_stride.sort_by_key(|axis| std::cmp::Reverse(tensor.strides[*axis]));
    for &axis in by_stride.iter().rev() {
        let (stride, extent) = (tensor.strides[axis], tensor.shape[axis]);
        if !empty {
            if stride < inside {
                let strides = &tensor.strides;
                return Err(SimError::Malformed(format!("the strides {strides:?} of `{}` overlap", info.name)));
            }
            let span = (extent - 1).checked_mul(stride).and_then(|s| s.checked_add(inside));
            inside = span.ok_or_else(|| outside(u64::MAX))?;
        }
    }
    declared(info).lies_inside(tensor)?;

    let count = tensor.shape.iter().try_fold(1i64, |n, &e| n.checked_mul(e)).unwrap_or(i64::MAX);
    let same = |a: &TensorArgument| Arc::ptr_eq(&a.memory, &tensor.memory);
    // The first argument on the same memory names the allocation.
    let first = args.iter().position(|a| matches!(a, Argument::Tensor(a) if same(a))).unwrap_or(0);
    while allocations.len() <= first {
        allocations.push(Allocation { written: false, grain: 4 });
    }
    allocations[first].grain = allocations[first].grain.min(element as u32);
    Ok(View {
        name: info.name.clone(),
        dtype: tensor.dtype,
        memory: tensor.memory.clone(),
        base: tensor.offset,
        shape: tensor.shape.clone(),
        strides: tensor.strides.clone(),
        by_stride,
        dense: if empty {
            0
        } else if count == inside {
            count
        } else if tensor.strides.last() == Some(&1) {
            tensor.shape.last().copied().unwrap_or(1)
        } else {
            0
        },
        allocation: first,
    })
}

fn is_written(program: &Program, param: ParamId) -> bool {
    let mut accesses = all_accesses(program, &program.body).into_iter();
    accesses.any(|(space, access)| space == Space::Global(param) && access != AccessMode::Read)
}

fn parameter(values: &Values<'_>, program: &Program, parameter: &crate::lowered::Parameter) -> Result<i64, SimError> {
    let missing = || SimError::Malformed(format!("parameter `{}` has no value", parameter.name));
    Ok(match parameter.kind {
        // Allocations are aligned to 256 bytes; only the remainder of an address can matter.
        ParameterKind::Pointer(param) => match values.args.get(param.index()) {
            Some(Argument::Tensor(t)) => t.offset as i64,
            _ => 0,
        },
        ParameterKind::TensorMap(_) => 0,
        // Messages go to the report.
        ParameterKind::Log | ParameterKind::LogFunction => 0,
        // Early: what is wrong before the wait is wrong then.
        ParameterKind::Ahead(slots) => i64::from(slots),
        ParameterKind::Computed(place) => {
            let number = program.launch.computed.get(place as usize).and_then(|number| number.evaluate(values));
            number.filter(|number| i32::try_from(*number).is_ok()).ok_or_else(missing)?
        }
        ParameterKind::Dim(dim) => values.dims.get(dim.index()).copied().flatten().ok_or_else(missing)?,
        ParameterKind::Stride(param, axis) => match values.args.get(param.index()) {
            Some(Argument::Tensor(t)) => *t.strides.get(axis as usize).ok_or_else(missing)?,
            _ => return Err(missing()),
        },
        ParameterKind::Scalar(param) => match values.args.get(param.index()) {
            Some(Argument::Scalar(ScalarValue::Index(value))) => *value,
            Some(Argument::Scalar(ScalarValue::Element(dtype, bits))) => lanes::from_bits(*dtype, *bits),
            _ => {
                return Err(SimError::ArgumentKind {
                    argument: parameter.name.clone(),
                    expected: "a scalar".into(),
                    found: "a tensor".into(),
                });
            }
        },
    })
}

/// Checks that a scalar argument has the type that the program uses it at.
fn check_scalar(name: &str, argument: Option<&Argument>, ty: ValueType) -> Result<(), SimError> {
    let dtype = match ty {
        ValueType::Element(dtype) => Some(dtype),
        ValueType::Index | ValueType::Wide => None,
    };
    let declared = Declared { name, kind: DeclaredKind::Scalar(dtype) };
    argument.map_or(Ok(()), |argument| declared.takes(argument))
}

struct Values<'a> {
    dims: Vec<Option<i64>>,
    /// Blocks that the simulated device holds at once.
    capacity: i64,
    args: &'a [Argument],
}

impl HostValues for Values<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        self.dims.get(dim.index()).copied().flatten().unwrap_or(0)
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        match self.args.get(tensor.index()) {
            Some(Argument::Tensor(t)) => t.strides.get(axis as usize).copied().unwrap_or(0),
            _ => 0,
        }
    }

    fn scalar(&self, param: ParamId) -> i64 {
        match self.args.get(param.index()) {
            Some(Argument::Scalar(value)) => value.host_number(),
            _ => 0,
        }
    }

    fn address(&self, tensor: ParamId) -> u64 {
        // Allocations are aligned to 256 bytes; only the remainder of an address can matter.
        match self.args.get(tensor.index()) {
            Some(Argument::Tensor(t)) => t.offset as u64,
            _ => 0,
        }
    }

    fn capacity(&self) -> i64 {
        self.capacity
    }
}
