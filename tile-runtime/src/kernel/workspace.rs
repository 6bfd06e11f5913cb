//! Workspaces: tensors of a kernel that the launcher allocates.
//!
//! Each stream has its own, so that launches on several streams do not wait for each other. It is zeroed when it is allocated
//! and reused by the launches that follow with the same extents, in the stream's order.

use super::argument::{Argument, TensorRef};
use super::prepared::Prepared;
use crate::allocation::Allocation;
use crate::cuda::lock;
use crate::device::DeviceState;
use crate::error::Error;
use std::any::Any;
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
    /// What keeps its memory.
    pub(super) fn memory(&self) -> Arc<dyn Any + Send + Sync> {
        self.allocation.clone()
    }

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
    ) -> Result<Vec<Workspace>, Error> {
        let mut all = Vec::new();
        for (param, dtype, shape) in self.plan.workspaces(args) {
            let mut strides = vec![1i64; shape.len()];
            for axis in (1..shape.len()).rev() {
                strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
            }
            let elements = shape.iter().try_fold(1usize, |n, extent| n.checked_mul(usize::try_from(*extent).ok()?));
            let bytes = elements.unwrap_or(usize::MAX / 8).saturating_mul(dtype.bytes() as usize);
            let allocation = match stream {
                Some(stream) => self.kept_workspace(device, stream, param, bytes)?,
                None => Arc::new(Allocation::new(device, bytes, true)?),
            };
            all.push(Workspace { allocation, dtype, shape, strides });
        }
        Ok(all)
    }

    fn kept_workspace(
        &self,
        device: &'static DeviceState,
        stream: usize,
        param: u8,
        bytes: usize,
    ) -> Result<Arc<Allocation>, Error> {
        let mut kept = lock(&self.workspaces.kept);
        let found = kept.iter().position(|k| k.stream == stream && k.param == param);
        if let Some(found) = found {
            if kept[found].allocation.bytes == bytes {
                return Ok(kept[found].allocation.clone());
            }
            kept.swap_remove(found);
        }
        let allocation = Arc::new(Allocation::new(device, bytes, true)?);
        kept.push(Kept { stream, param, allocation: allocation.clone() });
        Ok(allocation)
    }
}
