//! A launch: the arguments checked against the kernel's parameters, dims known, grid and threads evaluated.

use crate::ir::{
    DimId, Dtype, DtypeRef, EntityRef, ExprId, ExprKind, Extent, Kernel, Param, ParamId, ParamKind, StmtKind,
};
use crate::lowered::{HostExpr, HostValues};
use crate::sim::argument::{Declared, DeclaredKind};
use crate::sim::{Argument, Memory, ScalarValue, SimError, TensorArgument};

/// What a launch knows before any block runs.
pub(super) struct Launch<'a> {
    /// By `DimId`.
    pub(super) dims: Vec<i64>,
    /// By `ParamId`; none for scalars.
    pub(super) tensors: Vec<Option<TensorView<'a>>>,
    /// By `ParamId`; none for tensors.
    pub(super) scalars: Vec<Option<ScalarValue>>,
    pub(super) grid: [u32; 3],
    pub(super) threads: [u32; 3],
    /// Who combines tiles or exchanges arrays; none where a block has its own for itself.
    pub(super) cluster: Option<Cluster>,
}

/// The blocks of a cluster that combine tiles: neighbours along one axis of the grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) axis: usize,
    pub(super) size: u32,
}

/// A tensor whose elements all lie in its memory.
#[derive(Clone, Debug)]
pub(super) struct TensorView<'a> {
    pub(super) memory: &'a Memory,
    pub(super) dtype: Dtype,
    /// Byte offset of element 0.
    pub(super) offset: usize,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
}

impl<'a> Launch<'a> {
    pub(super) fn new(kernel: &Kernel, args: &'a [Argument]) -> Result<Launch<'a>, SimError> {
        if !kernel.type_params.is_empty() || !kernel.consts.is_empty() {
            return Err(SimError::Malformed(format!("`{}` is generic: bind an instance first", kernel.name)));
        }
        if kernel.params.len() != args.len() {
            let (expected, found) = (kernel.params.len(), args.len());
            return Err(SimError::ArgumentCount { kernel: kernel.name.clone(), expected, found });
        }
        let mut dims = vec![None; kernel.dims.len()];
        let (mut tensors, mut scalars) = (Vec::new(), Vec::new());
        for ((param, parameter), argument) in kernel.params.iter().zip(args) {
            let declared = declared(parameter)?;
            declared.takes(argument)?;
            let (tensor, scalar) = match argument {
                Argument::Tensor(tensor) => (Some(view(kernel, param, &declared, tensor, &mut dims)?), None),
                Argument::Scalar(value) => (None, Some(*value)),
                Argument::Absent => (None, None),
            };
            tensors.push(tensor);
            scalars.push(scalar);
        }
        let dims = dims.into_iter().map(|d| d.unwrap_or(0)).collect();
        let threads = threads(kernel)?;
        let mut launch = Launch { dims, tensors, scalars, grid: [1; 3], threads, cluster: None };
        // A `persistent` loop stands for the grid: here a block executes one tile.
        let grid = || kernel.grid.iter().map(|axis| axis.extent).collect();
        let extents = kernel.persistent().map_or_else(grid, |tiles| tiles.extents.to_vec());
        for (axis, extent) in extents.into_iter().enumerate().take(3) {
            let extent = launch.evaluate(kernel, extent)?;
            launch.grid[axis] =
                u32::try_from(extent).ok().filter(|e| *e <= i32::MAX as u32).ok_or(SimError::Grid { axis, extent })?;
        }
        if kernel.stmts.values().any(|s| matches!(&s.kind, StmtKind::Tile(op) if op.joins_cluster())) {
            launch.cluster = launch.combined(kernel)?;
        }
        Ok(launch)
    }

    /// The cluster of a kernel whose blocks combine tiles.
    fn combined(&self, kernel: &Kernel) -> Result<Option<Cluster>, SimError> {
        let extents = kernel.cluster.iter().map(|e| self.evaluate(kernel, *e)).collect::<Result<Vec<i64>, _>>()?;
        let mut long = extents.iter().enumerate().filter(|(_, extent)| **extent != 1);
        let (Some((axis, extent)), None) = (long.next(), long.next()) else {
            return match extents.iter().all(|extent| *extent == 1) {
                true => Ok(None),
                false => Err(SimError::Malformed("the blocks of a cluster differ along more than one axis".into())),
            };
        };
        let blocks = self.grid.get(axis).copied().unwrap_or(1);
        match u32::try_from(*extent).ok().filter(|size| (2..=8).contains(size) && blocks % size == 0) {
            Some(size) => Ok(Some(Cluster { axis, size })),
            None => Err(SimError::Malformed(format!("a cluster of {extent} blocks along an axis of {blocks}"))),
        }
    }

    /// The value of an integer expression of dims, constants and scalar parameters.
    fn evaluate(&self, kernel: &Kernel, expr: ExprId) -> Result<i64, SimError> {
        let malformed = |what: &str| SimError::Malformed(format!("a grid extent {what}"));
        let formula = HostExpr::of(kernel, expr);
        let formula = formula.ok_or_else(|| malformed("depends on more than dims, constants and scalars"))?;
        formula.evaluate(self).ok_or_else(|| malformed("has no value"))
    }

    /// Threads a block.
    pub(super) fn lanes(&self) -> usize {
        self.threads.iter().map(|t| *t as usize).product()
    }

    /// Blocks of the grid.
    pub(super) fn blocks(&self) -> u64 {
        self.grid.iter().fold(1u64, |n, g| n.saturating_mul(u64::from(*g)))
    }
}

fn threads(kernel: &Kernel) -> Result<[u32; 3], SimError> {
    let mut extents = [1u32; 3];
    for (slot, axis) in extents.iter_mut().zip(&kernel.threads) {
        let extent = kernel.exprs.get(axis.extent).map(|e| &e.kind);
        *slot = match extent {
            Some(ExprKind::Int(value)) => u32::try_from(*value).unwrap_or(u32::MAX),
            _ => return Err(SimError::Malformed("a thread extent is not a literal: bind an instance first".into())),
        };
    }
    let threads = extents.iter().fold(1u64, |product, e| product.saturating_mul(u64::from(*e)));
    if (1..=1024).contains(&threads) { Ok(extents) } else { Err(SimError::Threads { threads }) }
}

fn declared(parameter: &Param) -> Result<Declared<'_>, SimError> {
    let bound = |dtype: DtypeRef| match dtype {
        DtypeRef::Is(dtype) => Ok(dtype),
        DtypeRef::Param(_) => Err(SimError::Malformed("a dtype is not bound".into())),
    };
    let kind = match &parameter.kind {
        ParamKind::Tensor { dtype, shape, .. } => DeclaredKind::Tensor(bound(*dtype)?, shape.len()),
        ParamKind::Scalar { ty } => DeclaredKind::Scalar(ty.dtype()),
        ParamKind::Absent => DeclaredKind::Absent,
    };
    Ok(Declared { name: &parameter.name, kind })
}

fn view<'a>(
    kernel: &Kernel,
    param: ParamId,
    declared: &Declared<'_>,
    tensor: &'a TensorArgument,
    dims: &mut [Option<i64>],
) -> Result<TensorView<'a>, SimError> {
    let shape = match &kernel.params[param].kind {
        ParamKind::Tensor { shape, .. } => &shape[..],
        ParamKind::Scalar { .. } | ParamKind::Absent => &[],
    };
    for (axis, (extent, &found)) in shape.iter().zip(&tensor.shape).enumerate() {
        let (extent, expected) = match extent {
            Extent::Dim(dim) => {
                let slot = dims.get_mut(dim.index());
                let slot = slot.ok_or_else(|| SimError::Malformed("a dim is missing".into()))?;
                let value = kernel.dims.get(*dim).and_then(|d| d.value).unwrap_or(found);
                (dim_name(kernel, *dim), *slot.get_or_insert(value))
            }
            Extent::Fixed(expr) => match kernel.exprs.get(*expr).map(|e| &e.kind) {
                Some(ExprKind::Int(value)) => ("Fixed".to_owned(), *value),
                _ => return Err(SimError::Malformed("a fixed extent is not a literal: bind an instance first".into())),
            },
        };
        declared.extent(axis, extent, Some(expected), found)?;
    }
    declared.lies_inside(tensor)?;
    Ok(TensorView {
        memory: &tensor.memory,
        dtype: tensor.dtype,
        offset: tensor.offset,
        shape: tensor.shape.clone(),
        strides: tensor.strides.clone(),
    })
}

fn dim_name(kernel: &Kernel, dim: DimId) -> String {
    kernel.dims.get(dim).map_or_else(String::new, |d| d.name.clone())
}

impl HostValues for Launch<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        self.dims.get(dim.index()).copied().unwrap_or(0)
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        let tensor = self.tensors.get(tensor.index()).and_then(Option::as_ref);
        tensor.and_then(|t| t.strides.get(usize::from(axis)).copied()).unwrap_or(0)
    }

    fn scalar(&self, param: ParamId) -> i64 {
        self.scalars.get(param.index()).copied().flatten().map_or(0, ScalarValue::host_number)
    }

    // No kernel's own formula names an address or what a device holds.
    fn address(&self, _: ParamId) -> u64 {
        0
    }

    fn capacity(&self) -> i64 {
        1
    }
}
