//! Scratch memory of host functions: what one launch leaves for the next one of the same call.
//!
//! A [`Workspace`](crate::dsl::Workspace) belongs to one launch of one kernel. A host function that launches several kernels, such as one that
//! transposes an operand and then multiplies it, keeps what lies between them in a [`Scratch`].

use super::launch::LaunchOn;
use super::workspace::{Kept, Whose, Workspaces, allocated_before};
use crate::allocation::Allocation;
use crate::cuda::ForeignStream;
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::Error;
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::fmt;
use std::mem;
use std::sync::Arc;

/// Scratch memory of a host function: a `static` of it, one for each tensor that the function needs at the same time.
///
/// Each stream has its own piece of memory for each `Scratch`, which is as large as the largest tensor that it was lent for, and is lent
/// again by later calls. A stream's memory is freed when the stream ends; that of a device's default stream lives as long as the process.
///
/// While a tensor is [lent](Lent) nobody else has its memory: another thread that launches on the same stream meanwhile gets memory of
/// its own, so that what is launched between [`Scratch::lend`] and the end of the [`Lent`] sees only its own values.
///
/// # Captures
///
/// What is launched in [`Device::capture`] has memory that nothing outside of that capture uses; the graph keeps it. On a borrowed stream
/// that other code is capturing nothing can be allocated: memory that was lent before is lent, and is never freed, since nobody says when the
/// graph ends. Such a graph is to be launched on that stream, or in its order, as its other launches on that stream are.
///
/// ```
/// # use tile_runtime::{Device, Error, kernel::{LaunchOn, Scratch}};
/// # fn launch_first(_: impl Sized) {}
/// # fn launch_second(_: impl Sized) {}
/// /// Two launches, the second one of what the first one has made.
/// fn two_steps(on: &impl LaunchOn) -> Result<(), Error> {
///     static BETWEEN: Scratch = Scratch::new();
///     let mut between = BETWEEN.lend::<f32, 2>(on, [128, 64])?;
///     launch_first(between.view_mut());
///     launch_second(between.view());
///     Ok(())
/// }
/// two_steps(&Device::simulator()).unwrap();
/// ```
pub struct Scratch {
    /// Values without bytes might share an address, by which one is told from another.
    _place: u8,
}

impl Scratch {
    /// One that has no memory yet.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Scratch {
        Scratch { _place: 0 }
    }

    /// A row-major tensor of this shape for launches on a device or stream, until the [`Lent`] is dropped. Its elements may have any values.
    ///
    /// # Errors
    /// The shape has more elements than memory can; the device has failed or has too little memory. [`Error::Capture`] on a stream that
    /// other code is capturing, where no call before the capture has had as much.
    pub fn lend<T: Element, const R: usize>(
        &'static self,
        on: &impl LaunchOn,
        shape: [usize; R],
    ) -> Result<Lent<T, R>, Error> {
        let layout = Layout::packed(shape)?;
        let bytes = layout.len() * size_of::<T>();
        let home =
            Home { device: on.device().clone(), stream: on.stream().cloned(), key: std::ptr::from_ref(self).addr() };
        let allocation = home.take(bytes)?;
        Ok(Lent { tensor: Tensor::from_parts(allocation, layout), home })
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}

/// A tensor in the memory of a [`Scratch`], for launches on one stream. Dropping it gives the memory to later calls, whose launches
/// follow in the stream's order.
pub struct Lent<T: Element, const R: usize> {
    tensor: Tensor<T, R>,
    home: Home,
}

impl<T: Element, const R: usize> Lent<T, R> {
    /// The whole tensor, to be read.
    pub fn view(&self) -> TensorView<'_, T, R> {
        self.tensor.view()
    }

    /// The whole tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T, R> {
        self.tensor.view_mut()
    }
}

impl<T: Element, const R: usize> fmt::Debug for Lent<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({:?})", self.tensor)
    }
}

impl<T: Element, const R: usize> Drop for Lent<T, R> {
    fn drop(&mut self) {
        self.home.give_back(self.tensor.allocation().clone());
    }
}

/// Whose memory is lent.
struct Home {
    device: Device,
    stream: Option<Stream>,
    /// Which [`Scratch`] it is of.
    key: usize,
}

impl Home {
    /// Where memory that is not lent is kept; nowhere on a simulator, whose launches take no time that an allocation would be felt in.
    fn kept(&self) -> Option<&Workspaces> {
        if let Some(foreign) = self.foreign() {
            return Some(&foreign.workspaces);
        }
        match (&self.device.state.backend, &self.stream) {
            (Backend::Cuda(_), Some(stream)) => stream.cuda().map(|(_, slot)| &slot.scratch),
            (Backend::Cuda(cuda), None) => cuda.stream(0).map(|slot| &slot.scratch),
            (Backend::Simulator { .. }, _) => None,
        }
    }

    fn foreign(&self) -> Option<&Arc<ForeignStream>> {
        self.stream.as_ref().and_then(Stream::foreign)
    }

    /// Memory of so many bytes at least, which nobody else has.
    fn take(&self, bytes: usize) -> Result<Arc<Allocation>, Error> {
        let device = self.device.state;
        let whose = self.foreign().map_or(Whose::Launch, Whose::Foreign);
        let capturing = whose.is_capturing(device)?;
        if let Some(allocation) = self.kept().and_then(|kept| kept.take_one(self.key, bytes, false)) {
            if capturing {
                // The graph is somebody else's, who does not say when it ends.
                mem::forget(allocation.clone());
            }
            return Ok(allocation);
        }
        if capturing {
            return Err(allocated_before(device, "scratch tensor", bytes));
        }
        // What is too small goes first: there may be no room for both.
        let small = self.kept().and_then(|kept| kept.take_one(self.key, bytes, true));
        self.release(small);
        Ok(Arc::new(whose.allocate(device, bytes, false)?))
    }

    /// Keeps memory for later calls; where another thread has given some back meanwhile, the larger of the two.
    fn give_back(&self, allocation: Arc<Allocation>) {
        let Some(kept) = self.kept() else { return };
        let larger = kept.take_one(self.key, allocation.bytes + 1, false);
        let (kept_on, small) = match larger {
            Some(larger) => (larger, Some(allocation)),
            None => (allocation, None),
        };
        self.release(kept.keep(Kept { key: self.key, param: 0, allocation: kept_on }));
        self.release(small);
    }

    /// Lets go of memory whose last use on the stream is queued.
    fn release(&self, allocation: Option<Arc<Allocation>>) {
        if let Some(foreign) = self.foreign() {
            foreign.release(allocation.into_iter().collect());
        }
    }
}
