//! Workspaces: tensors of a kernel that the launcher allocates.
//!
//! Each stream has its own (a borrowed one keeps those of its launches itself), so that launches on several streams do not wait
//! for each other. It is zeroed when it is allocated and reused by the launches that follow with the same extents, in the
//! stream's order. The arguments are checked before anything is allocated: what they ask for may be as large as a wrong
//! argument.

use super::argument::{Argument, TensorRef};
use super::prepared::Prepared;
use crate::allocation::Allocation;
use crate::cuda::{ForeignStream, StreamSlot};
use crate::device::{Backend, DeviceState};
use crate::error::{Error, ShapeError};
use crate::launch_error::Problem;
use crate::lock::lock;
use crate::owner::{OnStream, Order, Owner};
use std::sync::{Arc, Mutex};
use tile_ir::ir::Dtype;

/// Memory that launches have taken, for those that follow: the workspaces of an instance, or the scratch memory of a stream.
#[derive(Default)]
pub(crate) struct Workspaces {
    kept: Mutex<Vec<Kept>>,
}

/// Who keeps the workspaces of a launch, for the launches that follow on the same stream.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    /// Nobody: the launch has its own.
    Launch,
    /// A stream of ours, by its place in memory.
    Stream(usize),
    /// A borrowed stream.
    Foreign(&'a Arc<ForeignStream>),
}

impl Whose<'_> {
    pub(super) fn stream(slot: &StreamSlot) -> Whose<'static> {
        Whose::Stream(std::ptr::from_ref(slot).addr())
    }
}

pub(super) struct Kept {
    /// Which stream's; where a stream keeps it, which kernel's or which [`Scratch`](super::Scratch)'s.
    pub key: usize,
    pub param: u8,
    pub allocation: Arc<Allocation>,
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
        whose: Whose<'_>,
        args: &[Argument<'_>],
    ) -> Result<Vec<Workspace>, Box<Problem>> {
        let failed = |error| Box::new(Problem::Driver(error));
        let capturing = whose.is_capturing(device).map_err(failed)?;
        let place = match whose {
            Whose::Launch => None,
            Whose::Stream(stream) => Some((&self.workspaces, stream)),
            // The stream's launches keep this record in its place.
            Whose::Foreign(stream) => Some((&stream.workspaces, std::ptr::from_ref(self).addr())),
        };
        let mut all = Vec::new();
        for (param, dtype, shape) in self.plan.workspaces(args) {
            let mut strides = vec![1i64; shape.len()];
            for axis in (1..shape.len()).rev() {
                strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
            }
            let elements = shape.iter().try_fold(1usize, |n, extent| n.checked_mul(usize::try_from(*extent).ok()?));
            let bytes = elements.and_then(|n| n.checked_mul(dtype.bytes() as usize));
            let kept = place.zip(bytes).and_then(|((place, key), bytes)| place.kept(key, param, bytes));
            let allocation = match kept {
                Some(allocation) => allocation,
                None => {
                    self.plan.foresee(device, args)?;
                    let extents = || shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
                    let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize);
                    let bytes = bytes.ok_or_else(|| failed(ShapeError::Overflow { shape: extents() }.into()))?;
                    if capturing {
                        return Err(failed(allocated_before(device, "workspace", bytes)));
                    }
                    let new = Arc::new(whose.allocate(device, bytes, true).map_err(failed)?);
                    if let Some((place, key)) = place {
                        let old = place.keep(Kept { key, param, allocation: new.clone() });
                        if let Whose::Foreign(stream) = whose {
                            stream.release(old.into_iter().collect());
                        }
                    }
                    new
                }
            };
            if capturing {
                // The graph is somebody else's, who does not say when it ends.
                std::mem::forget(allocation.clone());
            }
            all.push(Workspace { allocation, dtype, shape, strides });
        }
        Ok(all)
    }
}

/// The error of a launch in a capture that would have to allocate.
pub(super) fn allocated_before(device: &DeviceState, what: &str, bytes: usize) -> Error {
    let problem = format!(
        "it needs a {what} of {bytes} bytes, which cannot be allocated on a stream that other code is \
         capturing; launch it once with these extents on this stream before the capture"
    );
    Error::Capture { device: device.label().into(), problem }
}

impl Whose<'_> {
    /// Whether other code is capturing the stream.
    pub(super) fn is_capturing(&self, device: &DeviceState) -> Result<bool, Error> {
        match (self, &device.backend) {
            (Whose::Foreign(stream), Backend::Cuda(cuda)) => {
                cuda.bind()?;
                cuda.refuse_elsewhere(&stream.slot)?;
                cuda.is_capturing(stream.slot.enter().stream())
            }
            _ => Ok(false),
        }
    }

    /// A new one, of zeros where it is to be.
    pub(super) fn allocate(
        &self,
        device: &'static DeviceState,
        bytes: usize,
        zeroed: bool,
    ) -> Result<Allocation, Error> {
        let allocation = Allocation::new(device, bytes, zeroed)?;
        let (Whose::Foreign(stream), Backend::Cuda(cuda)) = (self, &device.backend) else { return Ok(allocation) };
        // From here on it belongs to the borrowed stream, which follows its clearing.
        cuda.order_foreign(cuda.default_stream()?.enter().stream(), stream.slot.enter().stream())?;
        let order = Order::On(OnStream { id: stream.id(), keeps: None });
        let owner = Owner { order, event: std::ptr::null_mut(), writable: true, borrowed: false };
        Ok(allocation.only_used_on(owner))
    }
}

impl Workspaces {
    /// The workspace that the last launch with this key had, where it has this size.
    fn kept(&self, key: usize, param: u8, bytes: usize) -> Option<Arc<Allocation>> {
        let kept = lock(&self.kept);
        let found = kept.iter().find(|k| k.key == key && k.param == param && k.allocation.bytes == bytes);
        found.map(|kept| kept.allocation.clone())
    }

    /// Keeps one in place of the last with its key, which is returned: it is dropped after the lock.
    pub(super) fn keep(&self, new: Kept) -> Option<Arc<Allocation>> {
        let mut kept = lock(&self.kept);
        match kept.iter_mut().find(|k| k.key == new.key && k.param == new.param) {
            Some(place) => Some(std::mem::replace(place, new).allocation),
            None => {
                kept.push(new);
                None
            }
        }
    }

    /// What is kept with this key, which is kept no longer: where it is `bytes` long at least, or `any`.
    pub(super) fn take_one(&self, key: usize, bytes: usize, any: bool) -> Option<Arc<Allocation>> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|k| k.key == key && (any || k.allocation.bytes >= bytes))?;
        Some(kept.swap_remove(at).allocation)
    }

    /// All that are kept, which are kept no longer.
    pub(crate) fn take(&self) -> Vec<Arc<Allocation>> {
        lock(&self.kept).drain(..).map(|kept| kept.allocation).collect()
    }
}
