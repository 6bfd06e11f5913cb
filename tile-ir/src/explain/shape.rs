//! The launch a report is about: dims, strides, scalars and addresses, without tensors.

use crate::ir::{BinaryOp, DimId, EntityRef, ParamId};
use crate::lowered::{HostExpr, HostValues, ParameterKind, Program};
use std::collections::BTreeMap;

/// Why a program cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// A dim got no value.
    #[error("kernel `{kernel}` needs a value for the dim {dim}; its dims are {dims}")]
    MissingDim {
        /// The kernel.
        kernel: String,
        /// The dim.
        dim: String,
        /// All of them.
        dims: String,
    },
    /// A name is neither a dim nor a scalar of the kernel.
    #[error("kernel `{kernel}` has no dim and no scalar `{name}`; it has {declared}")]
    UnknownName {
        /// The kernel.
        kernel: String,
        /// What was given.
        name: String,
        /// What there is.
        declared: String,
    },
    /// The grid has no value for this shape, or one that is no number of blocks.
    #[error("the grid of kernel `{kernel}` has {found} blocks on axis {axis}")]
    Grid {
        /// The kernel.
        kernel: String,
        /// 0 to 2.
        axis: usize,
        /// What it evaluates to, in words.
        found: String,
    },
    /// The program is not one that the lowering makes.
    #[error("the program `{kernel}` is malformed: {problem}")]
    Malformed {
        /// The program.
        kernel: String,
        /// What is wrong.
        problem: String,
    },
}

/// The value of the next dim, where a contract gives it by the dims before it: `require(D == 2 * K)`.
fn derived(program: &Program, before: &Shape) -> Option<i64> {
    let next = DimId::from_u32(before.dims.len() as u32);
    program.launch.checks.iter().find_map(|check| match &check.holds {
        HostExpr::Binary(BinaryOp::Eq, a, b) => {
            let sides = [(a, b), (b, a)].into_iter().find(|(dim, _)| ***dim == HostExpr::Dim(next));
            sides.filter(|(_, value)| is_of_dims_before(value, next)).and_then(|(_, value)| value.evaluate(before))
        }
        _ => None,
    })
}

fn is_of_dims_before(value: &HostExpr, dim: DimId) -> bool {
    match value {
        HostExpr::Int(_) => true,
        HostExpr::Dim(other) => *other < dim,
        HostExpr::Binary(_, a, b) => is_of_dims_before(a, dim) && is_of_dims_before(b, dim),
        _ => false,
    }
}

/// Launch values by name. Tensors are dense and aligned to 256 bytes unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    dims: Vec<i64>,
    strides: BTreeMap<(ParamId, u8), i64>,
    scalars: BTreeMap<ParamId, f64>,
    addresses: BTreeMap<ParamId, u64>,
    capacity: Option<i64>,
}

impl Shape {
    /// The launch of `program` with these values of its dims, and of those scalars that matter, on dense tensors.
    ///
    /// # Errors
    /// A dim without a value; a name that the program does not have.
    pub fn dense(program: &Program, values: &[(&str, f64)]) -> Result<Shape, ExplainError> {
        let mut shape = Shape::default();
        for name in &program.dims {
            let given = values.iter().find(|(given, _)| given == name).map(|(_, value)| *value as i64);
            let value = given.or_else(|| derived(program, &shape)).ok_or_else(|| ExplainError::MissingDim {
                kernel: program.name.clone(),
                dim: name.clone(),
                dims: program.dims.join(", "),
            })?;
            shape.dims.push(value);
        }
        let scalars = || program.params.iter().filter(|p| matches!(p.kind, ParameterKind::Scalar(_)));
        for (name, value) in values {
            match scalars().find(|p| p.name == *name).map(|p| p.kind) {
                Some(ParameterKind::Scalar(param)) => {
                    shape.scalars.insert(param, *value);
                }
                _ if program.dims.iter().any(|dim| dim == name) => {}
                _ => {
                    let declared = program.dims.iter().chain(scalars().map(|p| &p.name)).cloned();
                    return Err(ExplainError::UnknownName {
                        kernel: program.name.clone(),
                        name: (*name).into(),
                        declared: declared.collect::<Vec<_>>().join(", "),
                    });
                }
            }
        }
        for tensor in &program.tensors {
            let mut inside = 1i64;
            for (axis, extent) in tensor.shape.iter().enumerate().rev() {
                shape.strides.insert((tensor.param, axis as u8), inside);
                inside = inside.saturating_mul(extent.evaluate(&shape).unwrap_or(1).max(1));
            }
        }
        Ok(shape)
    }

    /// This shape with another stride, in elements: a view with a row pitch.
    pub fn with_stride(mut self, tensor: ParamId, axis: u8, stride: i64) -> Shape {
        self.strides.insert((tensor, axis), stride);
        self
    }

    /// This shape with another address of a tensor, in bytes: only its remainder by 256 matters.
    pub fn with_address(mut self, tensor: ParamId, address: u64) -> Shape {
        self.addresses.insert(tensor, address);
        self
    }

    /// This shape on a device that holds this many blocks at once, in whole clusters.
    pub fn with_capacity(mut self, blocks: i64) -> Shape {
        self.capacity = Some(blocks);
        self
    }

    /// Whether the number of blocks at once was given.
    pub(super) fn has_capacity(&self) -> bool {
        self.capacity.is_some()
    }

    /// A scalar's value, where it was given.
    pub(super) fn given_scalar(&self, param: ParamId) -> Option<f64> {
        self.scalars.get(&param).copied()
    }
}

impl HostValues for Shape {
    fn dim(&self, dim: DimId) -> i64 {
        self.dims.get(dim.index()).copied().unwrap_or(0)
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        self.strides.get(&(tensor, axis)).copied().unwrap_or(1)
    }

    fn scalar(&self, param: ParamId) -> i64 {
        self.scalars.get(&param).map_or(0, |value| *value as i64)
    }

    fn address(&self, tensor: ParamId) -> u64 {
        self.addresses.get(&tensor).copied().unwrap_or(0)
    }

    fn capacity(&self) -> i64 {
        self.capacity.unwrap_or(1).max(1)
    }
}
