//! Workspaces: tensors of a kernel that the launcher allocates.
//!
//! Each stream has its own, so that launches on several streams do not wait for each other. It is zeroed when it is allocated
//! and reused by the launches that follow with the same extents, in the stream's order. The arguments are checked before
//! anything is allocated: what they ask for may be as large as a wrong argument.

use super::argument::{Argument, TensorRef};
use super::prepared::Prepared;
use crate::allocation::Allocation;
use crate::device::DeviceState;
use crate::error::{Error, ShapeError};
use crate::launch_error::Problem;
use crate::lock::lock;
use std::sync::{Arc, Mutex};
use tile_ir::ir::Dtype;

/// The workspaces of an instance's launches.
#[derive(Default)]
pub(crate) struct Workspaces {
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    /// Which stream's.
    stream: usize,
    param: u8,
    allocation: Arc<Allocation>,
}

/// One workspace of a launch.
pub(super) struct Workspace {
    allocation: Arc<Allocation>,
    dtype: Dtype,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Workspace {
    pub(super) fn argument(&self) -> Argument<'_> {
        Argument::Tensor(TensorRef::over(&self.allocation, 0, self.dtype, &self.shape, &self.strides))
    }
}

impl Prepared {
    /// The workspaces of a launch with these arguments, on a stream that keeps them, or its own.
    pub(super) fn workspaces(
        &self,
        device: &'static DeviceState,
        stream: Option<usize>,
        args: &[Argument<'_>],
    ) -> Result<Vec<Workspace>, Box<Problem>> {
        let failed = |error| Box::new(Problem::Driver(error));
        let mut all = Vec::new();
        for (param, dtype, shape) in self.plan.workspaces(args) {
            let mut strides = vec![1i64; shape.len()];
            for axis in (1..shape.len()).rev() {
                strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
            }
            let elements = shape.iter().try_fold(1usize, |n, extent| n.checked_mul(usize::try_from(*extent).ok()?));
            let bytes = elements.and_then(|n| n.checked_mul(dtype.bytes() as usize));
            let kept = stream.zip(bytes).and_then(|(stream, bytes)| self.kept_workspace(stream, param, bytes));
            let allocation = match kept {
                Some(allocation) => allocation,
                None => {
                    self.plan.foresee(device, args)?;
                    let extents = || shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
                    let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize);
                    let bytes = bytes.ok_or_else(|| failed(ShapeError::Overflow { shape: extents() }.into()))?;
                    self.new_workspace(device, stream, param, bytes).map_err(failed)?
                }
            };
            all.push(Workspace { allocation, dtype, shape, strides });
        }
        Ok(all)
    }

    /// The workspace that this stream's last launch had, where it has this size.
    fn kept_workspace(&self, stream: usize, param: u8, bytes: usize) -> Option<Arc<Allocation>> {
        let kept = lock(&self.workspaces.kept);
        let found = kept.iter().find(|k| k.stream == stream && k.param == param && k.allocation.bytes == bytes);
        found.map(|kept| kept.allocation.clone())
    }

    /// A new one, which the stream keeps in place of its last.
    fn new_workspace(
        &self,
        device: &'static DeviceState,
        stream: Option<usize>,
        param: u8,
        bytes: usize,
    ) -> Result<Arc<Allocation>, Error> {
        let allocation = Arc::new(Allocation::new(device, bytes, true)?);
        if let Some(stream) = stream {
            let new = Kept { stream, param, allocation: allocation.clone() };
            let mut kept = lock(&self.workspaces.kept);
            // The old one is freed after the lock.
            let old = match kept.iter_mut().find(|k| k.stream == stream && k.param == param) {
                Some(place) => Some(std::mem::replace(place, new)),
                None => {
                    kept.push(new);
                    None
                }
            };
            drop(kept);
            drop(old);
        }
        Ok(allocation)
    }
}
