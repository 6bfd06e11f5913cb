//! The words of a launch that is refused: put together once a check has failed, off the path of those that hold.

use super::overlap::StrideProblem;
use super::{ExtentPlan, MOST_BLOCKS, ParamPlan, Plan, ScalarType, Values};
use crate::device::DeviceState;
use crate::kernel::argument::{Argument, TensorRef};
use crate::launch_error::Problem;
use tile_ir::ir::{BinaryOp, EntityRef, ParamId, SpanId};
use tile_ir::lowered::{Check, CheckKind, HostExpr, HostValues};

impl Plan {
    fn name(&self, param: ParamId) -> String {
        self.names.get(param.index()).cloned().unwrap_or_default()
    }

    fn text(&self, expr: &HostExpr) -> String {
        expr.display(&self.program.dims, &|param| self.name(param))
    }

    fn line(&self, span: SpanId) -> u32 {
        self.program.spans.get(span).map_or(0, |s| s.line)
    }

    /// The dims and scalars in `expr`, each once, with their values.
    fn values_in(&self, expr: &HostExpr, values: &Values<'_>) -> Vec<(String, i64)> {
        let mut found = Vec::new();
        expr.each_leaf(&mut |leaf| {
            if !matches!(leaf, HostExpr::Int(_)) {
                let named = (self.text(leaf), leaf.evaluate(values).unwrap_or(0));
                if !found.contains(&named) {
                    found.push(named);
                }
            }
        });
        found
    }

    /// The argument that an expression is about: where its first dim got its value, or its first scalar or tensor.
    fn argument_of(&self, expr: &HostExpr) -> Option<String> {
        let mut found = None;
        expr.each_leaf(&mut |leaf| {
            let name = match leaf {
                HostExpr::Dim(dim) => self.binder(dim.index()).map(|(param, _)| self.names[param].clone()),
                HostExpr::Scalar(p) | HostExpr::Stride(p, _) | HostExpr::Address(p) => Some(self.name(*p)),
                _ => None,
            };
            found = found.take().or(name);
        });
        found
    }

    /// Memory that other code has lent to be read, for a tensor that the kernel writes.
    #[cold]
    pub(super) fn read_only(&self, param: usize) -> Box<Problem> {
        let argument = self.names.get(param).cloned().unwrap_or_default();
        let (expected, found) = ("a tensor that may be written".into(), "memory borrowed to be read".into());
        Box::new(Problem::Kind { argument, expected, found })
    }

    /// The parameter and axis that give a dim its value.
    fn binder(&self, dim: usize) -> Option<(usize, usize)> {
        self.params.iter().enumerate().find_map(|(i, plan)| match plan {
            ParamPlan::Tensor { extents, rank, .. } => extents[..usize::from(*rank)]
                .iter()
                .position(|e| matches!(e, ExtentPlan::Bind(d) if usize::from(*d) == dim))
                .map(|axis| (i, axis)),
            ParamPlan::Scalar { .. } | ParamPlan::Absent => None,
        })
    }

    #[cold]
    pub(super) fn wrong_type(&self, i: usize, argument: &Argument<'_>) -> Box<Problem> {
        let name = self.names[i].clone();
        Box::new(match (&self.params[i], argument) {
            (ParamPlan::Tensor { rank, .. }, Argument::Tensor(t)) if t.shape().len() != usize::from(*rank) => {
                Problem::Rank { argument: name, expected: usize::from(*rank), found: t.shape().len() }
            }
            (ParamPlan::Tensor { dtype, .. }, Argument::Tensor(t)) => {
                Problem::Dtype { argument: name, expected: *dtype, found: t.dtype() }
            }
            (plan, argument) => {
                let expected = match plan {
                    ParamPlan::Tensor { dtype, rank, .. } => format!("a tensor of {dtype} with {rank} axes"),
                    ParamPlan::Absent => "nothing".into(),
                    ParamPlan::Scalar { ty: ScalarType::Index } => "a usize value".into(),
                    ParamPlan::Scalar { ty: ScalarType::Element(dtype) } => format!("a {dtype} value"),
                };
                Problem::Kind { argument: name, expected, found: argument.describe() }
            }
        })
    }

    #[cold]
    pub(super) fn extent_range(&self, i: usize, axis: usize, found: i64) -> Box<Problem> {
        let argument = self.names[i].clone();
        Box::new(match found {
            ..0 => Problem::NegativeExtent { argument, axis, found },
            _ => Problem::ExtentRange { argument, axis, found },
        })
    }

    #[cold]
    pub(super) fn wrong_extent(&self, i: usize, axis: usize, values: &Values<'_>) -> Box<Problem> {
        let argument = self.names[i].clone();
        let found = match &values.args[i] {
            Argument::Tensor(tensor) => tensor.shape()[axis],
            Argument::Scalar(_) | Argument::Absent => 0,
        };
        let ParamPlan::Tensor { extents, .. } = &self.params[i] else {
            return self.wrong_type(i, &values.args[i]);
        };
        Box::new(match extents[axis] {
            ExtentPlan::Fixed(expected) => Problem::FixedExtent { argument, axis, expected, found },
            ExtentPlan::Bind(dim) | ExtentPlan::Equal(dim) => {
                let dim = usize::from(dim);
                let (first, first_axis) = self.binder(dim).unwrap_or((i, axis));
                Problem::NamedExtent {
                    dim: self.program.dims.get(dim).cloned().unwrap_or_default(),
                    first: self.names[first].clone(),
                    first_axis,
                    expected: values.dims[dim],
                    argument,
                    axis,
                    found,
                }
            }
        })
    }

    #[cold]
    pub(super) fn wrong_stride(&self, i: usize, tensor: &TensorRef<'_>, problem: StrideProblem) -> Box<Problem> {
        let argument = self.names[i].clone();
        Box::new(match problem {
            StrideProblem::Range { axis } => Problem::StrideRange { argument, axis, found: tensor.strides()[axis] },
            StrideProblem::Inner => {
                Problem::InnerStride { argument, found: tensor.strides().last().copied().unwrap_or(0) }
            }
            StrideProblem::Overlap { axis, least } => {
                Problem::StrideOverlap { argument, axis, least, found: tensor.strides()[axis] }
            }
        })
    }

    #[cold]
    pub(super) fn wrong_place(&self, i: usize, tensor: &TensorRef<'_>, device: &DeviceState) -> Box<Problem> {
        let argument = self.names[i].clone();
        let memory = tensor.allocation();
        Box::new(if std::ptr::eq(memory.device, device) {
            let before = tensor.address().wrapping_sub(memory.address);
            let found = (memory.bytes as u64).saturating_sub(before);
            Problem::Coverage { argument, needed: tensor.bytes(), found }
        } else {
            Problem::Device { argument, expected: device.label().into(), found: memory.device.label().into() }
        })
    }

    #[cold]
    pub(super) fn broken(&self, check: &Check, values: &Values<'_>) -> Box<Problem> {
        let line = self.line(check.span);
        if let Some(problem) = self.wrong_derived_extent(check, values) {
            return Box::new(problem);
        }
        Box::new(match &check.kind {
            CheckKind::Specialized { dim, value } => Problem::Specialized {
                argument: self.argument_of(&check.holds).unwrap_or_default(),
                dim: self.program.dims.get(dim.index()).cloned().unwrap_or_default(),
                expected: *value,
                found: values.dim(*dim),
            },
            CheckKind::Require { text } => Problem::Require {
                argument: self.argument_of(&check.holds),
                text: text.clone(),
                line,
                values: self.values_in(&check.holds, values),
            },
            CheckKind::Alignment { tensor, bytes } => Problem::Alignment {
                argument: self.name(*tensor),
                bytes: *bytes,
                address: values.address(*tensor),
                line,
            },
            CheckKind::StrideMultiple { tensor, axis, multiple } => Problem::StrideMultiple {
                argument: self.name(*tensor),
                axis: usize::from(*axis),
                multiple: *multiple,
                found: values.stride(*tensor, *axis),
                line,
            },
            CheckKind::Operand { kind, value } => Problem::Operand {
                rule: kind.must_be(),
                expression: self.text(value),
                value: value.evaluate(values),
                line,
                values: self.values_in(value, values),
            },
            CheckKind::IndexRange { bound } => Problem::IndexRange {
                expression: self.text(bound),
                value: bound.evaluate(values),
                line,
                values: self.values_in(bound, values),
            },
        })
    }

    /// The contract that `Extent<{ 2 * K }>` is: of a dim whose name is no name but the expression.
    fn wrong_derived_extent(&self, check: &Check, values: &Values<'_>) -> Option<Problem> {
        let (CheckKind::Require { .. }, HostExpr::Binary(BinaryOp::Eq, dim, expected)) = (&check.kind, &check.holds)
        else {
            return None;
        };
        let HostExpr::Dim(dim) = **dim else { return None };
        let extent = self.program.dims.get(dim.index())?;
        if extent.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let (first, axis) = self.binder(dim.index())?;
        let (argument, found) = (self.names.get(first)?.clone(), values.dim(dim));
        let expected_value = expected.evaluate(values)?;
        let values = self.values_in(expected, values);
        Some(Problem::DerivedExtent { argument, axis, extent: extent.clone(), expected: expected_value, found, values })
    }

    #[cold]
    pub(super) fn wrong_grid(&self, axis: usize, blocks: Option<i64>) -> Box<Problem> {
        let expression = self.text(&self.program.launch.grid[axis]);
        Box::new(Problem::Grid { axis: ['x', 'y', 'z'][axis], blocks, most: MOST_BLOCKS[axis], expression })
    }
}
