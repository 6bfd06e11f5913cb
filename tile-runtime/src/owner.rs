//! Who else has a say over memory that is not, or not only, ours: whose order its uses have, and what keeps it.

use crate::cuda::{CudaDevice, ForeignStream, Handle, StreamId, StreamSlot};
use crate::error::Error;
use std::any::Any;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Memory of other code.
pub(crate) struct Owner {
    pub order: Order,
    /// The event of cudarc by which its other streams know of the latest use; null where there is none. It lives as long
    /// as the borrow.
    pub event: Handle,
    /// Whether the memory may be written.
    pub writable: bool,
    /// Whether the memory's life ends without our being told: then nothing may keep it beyond a launch.
    pub borrowed: bool,
}

/// In whose order the memory is used.
pub(crate) enum Order {
    /// In ours, on any of our streams; the owner's stream waits for each use. (Nobody but cudarc lends like this.)
    #[allow(dead_code)]
    Followed(Follower),
    /// In that of one borrowed stream, on which alone it may be used.
    On(OnStream),
    /// Host memory, which a simulator uses at once; or memory that is ordered by us alone.
    Ours,
}

/// The owner's stream, which must wait for each use, because the borrow may end, and the owner free the memory, without
/// our being told.
pub(crate) struct Follower {
    /// The stream's handle.
    pub stream: Handle,
    /// The thread that the handle means a stream of, where it means another one in every thread.
    pub thread: Option<ThreadId>,
    /// Keeps the stream.
    pub _keeps: Arc<dyn Any + Send + Sync>,
}

/// The borrowed stream that memory belongs to.
pub(crate) struct OnStream {
    pub id: StreamId,
    /// Keeps it; a workspace is kept by the stream, and not the other way round.
    pub keeps: Option<Arc<ForeignStream>>,
}

// SAFETY: stream and event handles may be used from any thread; of a stream that another thread would understand
// differently, `thread` or `id` says which one may.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// Memory of the host, which a simulator uses in place.
    pub fn host(writable: bool, borrowed: bool) -> Owner {
        Owner { order: Order::Ours, event: std::ptr::null_mut(), writable, borrowed }
    }

    /// Memory that is used on a borrowed stream alone.
    pub fn on(stream: &Arc<ForeignStream>, event: Handle, writable: bool, borrowed: bool) -> Owner {
        let order = Order::On(OnStream { id: stream.id(), keeps: Some(stream.clone()) });
        Owner { order, event, writable, borrowed }
    }

    /// The borrowed stream on which alone the memory may be used.
    #[inline]
    pub fn only_on(&self) -> Option<&OnStream> {
        match &self.order {
            Order::On(on) => Some(on),
            Order::Followed(_) | Order::Ours => None,
        }
    }

    /// Called after each use on `stream`.
    pub fn used(&self, cuda: &CudaDevice, stream: &StreamSlot) -> Result<(), Error> {
        match &self.order {
            Order::Followed(follower) => follower.follows(cuda, stream, self.event),
            Order::On(_) if !self.event.is_null() => cuda.record_again(self.event, stream.enter().stream()),
            Order::On(_) | Order::Ours => Ok(()),
        }
    }
}

impl Follower {
    /// Makes the owner's work from now on follow what is queued on `stream`. Where its stream cannot be made to wait, the
    /// host does; a stream that is being captured is not even asked, which would spoil the capture.
    pub fn follows(&self, cuda: &CudaDevice, stream: &StreamSlot, event: Handle) -> Result<(), Error> {
        let here = self.thread.is_none_or(|thread| thread == thread::current().id());
        let ordered = || {
            cuda.order_foreign(stream.enter().stream(), self.stream)?;
            if event.is_null() { Ok(()) } else { cuda.record_again(event, self.stream) }
        };
        if here && !cuda.is_capturing(self.stream)? && ordered().is_ok() { Ok(()) } else { cuda.synchronize(stream) }
    }
}
