//! A launch: the arguments checked against the kernel's parameters, dims known, grid and threads evaluated.

use crate::ir::{
    BinaryOp, DimId, Dtype, EntityRef, ExprId, ExprKind, Extent, Kernel, ParamId, ParamKind, StmtKind, TileOp, Type,
    UnaryOp,
};
use crate::sim::{Argument, Memory, ScalarValue, SimError, TensorArgument, numeric};

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
    /// Whose tiles `cluster_reduce` combines; none where a block has its own for itself.
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
        for ((param, declared), argument) in kernel.params.iter().zip(args) {
            match (&declared.kind, argument) {
                (ParamKind::Tensor { .. }, Argument::Tensor(tensor)) => {
                    tensors.push(Some(view(kernel, param, tensor, &mut dims)?));
                    scalars.push(None);
                }
                (ParamKind::Scalar { ty }, Argument::Scalar(value)) => {
                    check_scalar(kernel, param, *ty, *value)?;
                    tensors.push(None);
                    scalars.push(Some(*value));
                }
                (ParamKind::Absent, Argument::Absent) => {
                    tensors.push(None);
                    scalars.push(None);
                }
                (ParamKind::Absent, _) => return Err(kind(kernel, param, "nothing", "an argument")),
                (_, Argument::Absent) => return Err(kind(kernel, param, "an argument", "nothing")),
                (ParamKind::Tensor { .. }, Argument::Scalar(_)) => {
                    return Err(kind(kernel, param, "a tensor", "a scalar"));
                }
                (ParamKind::Scalar { .. }, Argument::Tensor(_)) => {
                    return Err(kind(kernel, param, "a scalar", "a tensor"));
                }
            }
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
        if kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::Tile(TileOp::ClusterReduce { .. }))) {
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
        let node = kernel.exprs.get(expr).ok_or_else(|| SimError::Malformed("an expression is missing".into()))?;
        let malformed = |what: &str| Err(SimError::Malformed(format!("a grid extent {what}")));
        match &node.kind {
            ExprKind::Int(value) => Ok(*value),
            ExprKind::Bool(value) => Ok(i64::from(*value)),
            ExprKind::Dim(dim) => Ok(self.dims.get(dim.index()).copied().unwrap_or(0)),
            ExprKind::Scalar(param) => match self.scalars.get(param.index()).copied().flatten() {
                Some(ScalarValue::Index(value)) => Ok(value),
                Some(ScalarValue::Element(dtype, bits)) => Ok(numeric::cast_to_index(dtype, bits)),
                None => malformed("names a tensor as a scalar"),
            },
            ExprKind::Cast(_, inner) => self.evaluate(kernel, *inner),
            ExprKind::Unary(UnaryOp::Not, a) => Ok(i64::from(self.evaluate(kernel, *a)? == 0)),
            ExprKind::Unary(UnaryOp::Neg, a) => Ok(self.evaluate(kernel, *a)?.wrapping_neg()),
            ExprKind::If(c, a, b) | ExprKind::Select(c, a, b) => {
                self.evaluate(kernel, if self.evaluate(kernel, *c)? != 0 { *a } else { *b })
            }
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.evaluate(kernel, *a)?, self.evaluate(kernel, *b)?);
                match op {
                    BinaryOp::And => Ok(i64::from(a != 0 && b != 0)),
                    BinaryOp::Or => Ok(i64::from(a != 0 || b != 0)),
                    op if op.is_comparison() => Ok(i64::from(numeric::compare(*op, a, b))),
                    op => numeric::index_binary(*op, a, b)
                        .map_or_else(|| malformed(&format!("has no value: {a} {} {b}", op.symbol())), Ok),
                }
            }
            _ => malformed("depends on more than dims, constants and scalars"),
        }
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

fn name(kernel: &Kernel, param: ParamId) -> String {
    kernel.params[param].name.clone()
}

fn kind(kernel: &Kernel, param: ParamId, expected: &str, found: &str) -> SimError {
    SimError::ArgumentKind { argument: name(kernel, param), expected: expected.into(), found: found.into() }
}

fn check_scalar(kernel: &Kernel, param: ParamId, ty: Type, value: ScalarValue) -> Result<(), SimError> {
    match (ty.dtype(), value) {
        (None, ScalarValue::Index(_)) => Ok(()),
        (Some(expected), ScalarValue::Element(found, _)) if expected == found => Ok(()),
        (Some(expected), ScalarValue::Element(found, _)) => {
            Err(SimError::ArgumentDtype { argument: name(kernel, param), expected, found })
        }
        (Some(expected), ScalarValue::Index(_)) => Err(kind(kernel, param, expected.name(), "usize")),
        (None, ScalarValue::Element(found, _)) => Err(kind(kernel, param, "usize", found.name())),
    }
}

fn view<'a>(
    kernel: &Kernel,
    param: ParamId,
    tensor: &'a TensorArgument,
    dims: &mut [Option<i64>],
) -> Result<TensorView<'a>, SimError> {
    let ParamKind::Tensor { dtype, shape, .. } = &kernel.params[param].kind else {
        return Err(kind(kernel, param, "a scalar", "a tensor"));
    };
    let expected = Type::Value(*dtype).dtype().ok_or_else(|| SimError::Malformed("a dtype is not bound".into()))?;
    if expected != tensor.dtype {
        return Err(SimError::ArgumentDtype { argument: name(kernel, param), expected, found: tensor.dtype });
    }
    let rank = tensor.shape.len();
    if shape.len() != rank || tensor.strides.len() != rank {
        return Err(SimError::ArgumentRank { argument: name(kernel, param), expected: shape.len(), found: rank });
    }
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
        if expected != found || found < 0 {
            return Err(SimError::ArgumentExtent { argument: name(kernel, param), axis, extent, expected, found });
        }
    }
    // Every element's address must be inside the memory: loads check the indices only.
    let size = i128::from(expected.bytes());
    let reach = |strides: &[i64], far: fn(i128) -> bool| -> i128 {
        let steps = strides.iter().zip(&tensor.shape).map(|(s, n)| i128::from(*s) * i128::from((*n - 1).max(0)));
        steps.filter(|s| far(*s)).sum()
    };
    let (low, high) = (reach(&tensor.strides, |s| s < 0), reach(&tensor.strides, |s| s > 0));
    let empty = tensor.shape.contains(&0);
    let first = tensor.offset as i128 + low * size;
    let last = tensor.offset as i128 + (high + 1) * size;
    let inside = empty || (first >= 0 && last <= tensor.memory.len() as i128);
    if !inside || !tensor.offset.is_multiple_of(size as usize) {
        let bytes = u64::try_from((high - low + 1) * size).unwrap_or(u64::MAX);
        let (argument, offset, memory) = (name(kernel, param), tensor.offset, tensor.memory.len());
        return Err(SimError::ArgumentMemory { argument, offset, bytes, memory });
    }
    Ok(TensorView {
        memory: &tensor.memory,
        dtype: expected,
        offset: tensor.offset,
        shape: tensor.shape.clone(),
        strides: tensor.strides.clone(),
    })
}

fn dim_name(kernel: &Kernel, dim: DimId) -> String {
    kernel.dims.get(dim).map_or_else(String::new, |d| d.name.clone())
}
