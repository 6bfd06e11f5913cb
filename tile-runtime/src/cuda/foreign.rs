//! Streams of other code, on which launches happen in that code's order.
//!
//! # The rule
//!
//! Memory that belongs to a borrowed stream ([`crate::owner::Order::On`]) is used on that stream and nowhere else, so the
//! stream itself is its order: nothing is looked up, locked, recorded or waited for. That is why such a launch is one call
//! of the driver.
//!
//! Any other memory has an order of ours ([`super::ordering`]), in which a borrowed stream has no number: it may end before
//! the memory does. A use there is made to look like one on the device's default stream: it is settled there, the borrowed
//! stream waits for the default stream before the use, and the default stream for the borrowed one after it
//! ([`Guests`]). Whatever follows the default stream then follows the use, and the borrowed stream may end.
//!
//! # Captures
//!
//! Whoever lends a stream may be capturing it. A graph of somebody else keeps no memory of ours, and a wait would join our
//! streams to the capture, so while it lasts, memory with an order of ours is refused, and the driver is asked nothing that
//! would spoil the capture. What belongs to the stream may be captured: it is its owner's. Workspaces are ours: one that a
//! captured launch uses was allocated before, and is never freed. Code that such a launch runs is never unloaded
//! (`Shared::pin`).

use super::ordering::{Streams, Use};
use super::{CudaDevice, Handle, StreamSlot};
use crate::allocation::Allocation;
use crate::error::Error;
use crate::kernel::Workspaces;
use crate::lock::lock;
use smallvec::SmallVec;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// `CU_STREAM_PER_THREAD`: in every thread another stream. Source: cuda.h of CUDA 13.0.
pub(crate) const PER_THREAD: usize = 2;

/// Which stream a handle means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamId {
    handle: usize,
    /// The thread that has borrowed it, where the handle means another stream in every thread.
    thread: Option<ThreadId>,
}

impl StreamId {
    /// What this handle means on this thread.
    pub fn here(handle: Handle) -> StreamId {
        let thread = (handle.addr() == PER_THREAD).then(this_thread);
        StreamId { handle: handle.addr(), thread }
    }

    /// Whether the handle means this stream on this thread.
    #[inline]
    fn is_here(&self) -> bool {
        self.thread.is_none_or(|thread| thread == this_thread())
    }
}

/// This thread's number. It is asked for several times a launch, and `thread::current` takes and gives back a share of the
/// thread each time.
#[inline]
fn this_thread() -> ThreadId {
    thread_local! {
        static NUMBER: ThreadId = thread::current().id();
    }
    NUMBER.with(|number| *number)
}

/// A stream that other code owns.
pub(crate) struct ForeignStream {
    pub slot: StreamSlot,
    /// The workspaces of launches on it, by the prepared kernel.
    pub workspaces: Workspaces,
    /// Held by a launch from when it looks for its workspaces until it is queued.
    pub with_workspaces: Mutex<()>,
    id: StreamId,
    device: &'static CudaDevice,
    owner: Arc<dyn Any + Send + Sync>,
}

impl ForeignStream {
    /// The stream with this handle, which `owner` keeps.
    ///
    /// # Errors
    /// It belongs to another context; the device has failed.
    pub fn new(
        device: &'static CudaDevice,
        stream: Handle,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<ForeignStream, Error> {
        device.bind()?;
        if !device.is_context(device.context_of(stream)?) {
            let problem = "it belongs to another context than the device's primary context".into();
            return Err(Error::ForeignStream { device: device.label.clone(), problem });
        }
        let id = StreamId::here(stream);
        let slot = device.foreign_stream(stream, id);
        Ok(ForeignStream {
            slot,
            workspaces: Workspaces::default(),
            with_workspaces: Mutex::new(()),
            id,
            device,
            owner,
        })
    }

    /// What keeps it.
    pub fn owner(&self) -> &(dyn Any + Send + Sync) {
        &*self.owner
    }

    /// Which stream it is.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The address of its handle.
    pub fn handle(&self) -> usize {
        self.id.handle
    }

    /// Lets go of workspaces, whose memory is freed on the default stream, after what this stream has under way. What
    /// cannot be put in that order is never freed.
    pub fn release(&self, workspaces: Vec<Arc<Allocation>>) {
        if workspaces.is_empty() {
            return;
        }
        let ordered = || -> Result<(), Error> {
            self.device.bind()?;
            let default = self.device.default_stream()?;
            if !self.id.is_here() {
                return self.device.synchronize_context();
            }
            self.device.refuse_capturing(&self.slot, "freeing a workspace")?;
            self.device.order_foreign(self.slot.enter().stream(), default.enter().stream())
        };
        if ordered().is_err() {
            std::mem::forget(workspaces);
        }
    }
}

impl Drop for ForeignStream {
    fn drop(&mut self) {
        let workspaces = self.workspaces.take();
        self.release(workspaces);
    }
}

impl CudaDevice {
    /// The error where a borrowed stream is being captured: `what` would spoil the capture, or be forgotten by it.
    #[cold]
    pub fn refuse_capturing(&self, stream: &StreamSlot, what: &str) -> Result<(), Error> {
        if stream.is_foreign() && self.is_capturing(stream.enter().stream())? {
            let problem = format!("{what} on a stream that other code is capturing");
            return Err(Error::Capture { device: self.label.clone(), problem });
        }
        Ok(())
    }

    /// The error where a borrowed stream's handle means another stream on this thread.
    #[inline]
    pub fn refuse_elsewhere(&self, stream: &StreamSlot) -> Result<(), Error> {
        match &stream.foreign {
            Some(id) if !id.is_here() => self.elsewhere(),
            _ => Ok(()),
        }
    }

    #[cold]
    fn elsewhere(&self) -> Result<(), Error> {
        let problem = "it is the per-thread default stream of the thread that borrowed it, and another stream on this \
                       thread; borrow it on this thread";
        Err(Error::ForeignStream { device: self.label.clone(), problem: problem.into() })
    }

    /// The error of memory that belongs to another borrowed stream.
    #[cold]
    pub fn elsewhere_only(&self) -> Error {
        let problem = "the memory was borrowed to be used in the order of a borrowed stream; launch on that stream";
        Error::ForeignStream { device: self.label.clone(), problem: problem.into() }
    }
}

/// What is held while work is queued on a borrowed stream. The default stream is made to wait before the locks are given
/// back: fields are dropped in this order.
pub(crate) struct Guests<'a> {
    _back: Option<Back<'a>>,
    _locks: SmallVec<[MutexGuard<'a, Streams>; 2]>,
}

/// Makes the default stream wait for a borrowed one.
struct Back<'a> {
    device: &'a CudaDevice,
    stream: &'a StreamSlot,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        let ordered = || {
            let default = self.device.default_stream()?;
            self.device.order_foreign(self.stream.enter().stream(), default.enter().stream())
        };
        if ordered().is_err() {
            // An error here is a fault of the device, which every later call reports.
            self.device.synchronize(self.stream).ok();
        }
    }
}

/// Orders work on a borrowed stream, as [`super::ordering::hold`] does on one of ours.
#[inline]
pub(super) fn hold<'a>(
    device: &'a CudaDevice,
    stream: &'a StreamSlot,
    uses: impl Iterator<Item = (&'a Arc<Allocation>, Use)>,
) -> Result<Guests<'a>, Error> {
    device.refuse_elsewhere(stream)?;
    let mut guests = Guests { _back: None, _locks: SmallVec::new() };
    let mut asked = false;
    for (memory, how) in uses {
        let of_this_stream = match memory.only_on() {
            Some(on) if stream.foreign == Some(on.id) => true,
            Some(_) => return Err(device.elsewhere_only()),
            None => false,
        };
        if of_this_stream && !memory.has_event() {
            continue;
        }
        if !asked {
            let what = match of_this_stream {
                true => {
                    "a slice whose uses cudarc tracks by events (disable its event tracking before it is allocated)"
                }
                false => "memory of ours, which the graph would not keep,",
            };
            device.refuse_capturing(stream, what)?;
            asked = true;
        }
        if !of_this_stream {
            guests._locks.push(device.settle_on_default(memory, how)?);
        }
    }
    if !guests._locks.is_empty() {
        device.order_foreign(device.default_stream()?.enter().stream(), stream.enter().stream())?;
        guests._back = Some(Back { device, stream });
    }
    Ok(guests)
}

impl CudaDevice {
    /// Orders a use as one on the default stream.
    fn settle_on_default<'a>(&self, memory: &'a Allocation, how: Use) -> Result<MutexGuard<'a, Streams>, Error> {
        let default = self.default_stream()?;
        let mut streams = lock(memory.usage.streams());
        streams.settle_on(self, default, how)?;
        Ok(streams)
    }
}
