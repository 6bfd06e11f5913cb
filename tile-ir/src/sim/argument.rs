//! Arguments beside what a kernel declares of its parameters: the one check of both simulators.

use super::{Argument, ScalarValue, SimError, TensorArgument};
use crate::ir::Dtype;

/// A parameter, as the kernel or its program declares it.
pub(super) struct Declared<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub kind: DeclaredKind,
}

/// What a parameter is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeclaredKind {
    /// A tensor of this element type and rank.
    Tensor(Dtype, usize),
    /// A scalar; none: a `usize`.
    Scalar(Option<Dtype>),
    /// An optional tensor that the kernel was bound without.
    Absent,
}

impl Declared<'_> {
    fn kind(&self, expected: &str, found: &str) -> SimError {
        SimError::ArgumentKind { argument: self.name.into(), expected: expected.into(), found: found.into() }
    }

    /// Refuses an argument of another kind, type or rank.
    ///
    /// # Errors
    /// What is expected and what was found.
    pub fn takes(&self, argument: &Argument) -> Result<(), SimError> {
        match (self.kind, argument) {
            (DeclaredKind::Tensor(dtype, rank), Argument::Tensor(tensor)) => self.tensor(dtype, rank, tensor),
            (DeclaredKind::Scalar(dtype), Argument::Scalar(value)) => self.scalar(dtype, *value),
            (DeclaredKind::Absent, Argument::Absent) => Ok(()),
            (DeclaredKind::Absent, _) => Err(self.kind("nothing", "an argument")),
            (_, Argument::Absent) => Err(self.kind("an argument", "nothing")),
            (DeclaredKind::Tensor(..), Argument::Scalar(_)) => Err(self.kind("a tensor", "a scalar")),
            (DeclaredKind::Scalar(_), Argument::Tensor(_)) => Err(self.kind("a scalar", "a tensor")),
        }
    }

    fn tensor(&self, expected: Dtype, rank: usize, tensor: &TensorArgument) -> Result<(), SimError> {
        if tensor.dtype != expected {
            return Err(SimError::ArgumentDtype { argument: self.name.into(), expected, found: tensor.dtype });
        }
        let found = tensor.shape.len();
        if found != rank || tensor.strides.len() != rank {
            return Err(SimError::ArgumentRank { argument: self.name.into(), expected: rank, found });
        }
        Ok(())
    }

    fn scalar(&self, expected: Option<Dtype>, value: ScalarValue) -> Result<(), SimError> {
        match (expected, value) {
            (None, ScalarValue::Index(_)) => Ok(()),
            (Some(expected), ScalarValue::Element(found, _)) if expected == found => Ok(()),
            (Some(expected), ScalarValue::Element(found, _)) => {
                Err(SimError::ArgumentDtype { argument: self.name.into(), expected, found })
            }
            (Some(expected), ScalarValue::Index(_)) => Err(self.kind(expected.name(), "usize")),
            (None, ScalarValue::Element(found, _)) => Err(self.kind("usize", found.name())),
        }
    }

    /// Refuses an extent other than the one expected, whose formula is `extent`.
    ///
    /// # Errors
    /// Both numbers.
    pub fn extent(&self, axis: usize, extent: String, expected: Option<i64>, found: i64) -> Result<(), SimError> {
        if expected == Some(found) && found >= 0 {
            return Ok(());
        }
        let (argument, expected) = (self.name.into(), expected.unwrap_or(0));
        Err(SimError::ArgumentExtent { argument, axis, extent, expected, found })
    }

    /// Refuses a tensor of which an element lies outside of its memory, or is not aligned to its size: accesses check their indices only.
    ///
    /// # Errors
    /// The bytes that the tensor spans, and those that there are.
    pub fn lies_inside(&self, tensor: &TensorArgument) -> Result<(), SimError> {
        let size = i128::from(tensor.dtype.bytes());
        let reach = |is_far: fn(i128) -> bool| -> i128 {
            let axes = tensor.strides.iter().zip(&tensor.shape);
            axes.map(|(s, n)| i128::from(*s) * i128::from((*n - 1).max(0))).filter(|s| is_far(*s)).sum()
        };
        let (low, high) = (reach(|s| s < 0), reach(|s| s > 0));
        let (first, last) = (tensor.offset as i128 + low * size, tensor.offset as i128 + (high + 1) * size);
        let is_inside = tensor.shape.contains(&0) || first >= 0 && last <= tensor.memory.len() as i128;
        if is_inside && tensor.offset.is_multiple_of(size as usize) {
            return Ok(());
        }
        let bytes = u64::try_from((high - low + 1) * size).unwrap_or(u64::MAX);
        let (argument, offset, memory) = (self.name.into(), tensor.offset, tensor.memory.len());
        Err(SimError::ArgumentMemory { argument, offset, bytes, memory })
    }
}
