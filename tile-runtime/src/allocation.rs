//! A piece of device memory, real or simulated, and the copies into and out of it.

use crate::cuda::{CudaDevice, Handle, StreamSlot, Usage, Use, hold, hold_one, in_order};
use crate::device::{Backend, DeviceState};
use crate::error::Error;
use crate::layout::Rows;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use tile_ir::sim::Memory;

/// Device memory. Freed in stream order, after everything that uses it, when the last tensor and graph let go.
pub(crate) struct Allocation {
    pub device: &'static DeviceState,
    /// The address of byte 0. Of simulated memory: made up, aligned to 256 bytes and overlapping nothing.
    pub address: u64,
    pub bytes: usize,
    pub usage: Usage,
    storage: Storage,
    /// Whose memory it is, where it is borrowed.
    owner: Option<Owner>,
}

/// The stream of other code that owns borrowed memory. It must wait for each use, because the borrow may end, and the owner
/// free the memory, without our being told.
pub(crate) struct Owner {
    /// The stream's handle.
    pub stream: Handle,
    /// The thread that the handle means a stream of, where it means another one in every thread.
    pub thread: Option<ThreadId>,
    /// The event by which the owner's other streams know of the latest use; null where there is none. It lives as long as
    /// the borrow.
    pub event: Handle,
    /// Whether the memory is lent to be written.
    pub writable: bool,
    /// Keeps the stream.
    pub _keeps: Arc<dyn Any + Send + Sync>,
}

// SAFETY: stream and event handles may be used from any thread; of a stream that another thread would understand
// differently, `thread` says which one may.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

enum Storage {
    /// Of the device's pool.
    Owned,
    /// Somebody else's: used, never freed.
    Foreign,
    /// Simulated.
    Host(Arc<Memory>),
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} of {}", self.bytes, self.address, self.device.label())
    }
}

impl Allocation {
    /// `bytes` bytes: zeros, or uninitialised where `zeroed` is false and the device does not clear them.
    pub fn new(device: &'static DeviceState, bytes: usize, zeroed: bool) -> Result<Allocation, Error> {
        match &device.backend {
            Backend::Simulator { .. } => {
                static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
                let memory = Memory::try_zeros(bytes).map_err(|_| Error::host_out_of_memory(device.label(), bytes))?;
                // Addresses are taken only by memory that exists, so they never wrap.
                let room = (bytes as u64).next_multiple_of(256) + 256;
                let address = NEXT.fetch_add(room, Ordering::Relaxed);
                let storage = Storage::Host(Arc::new(memory));
                Ok(Allocation { device, address, bytes, usage: Usage::written_by(0), storage, owner: None })
            }
            Backend::Cuda(cuda) => {
                let stream = cuda.default_stream()?;
                let address = cuda.allocate(bytes, stream)?;
                let usage = Usage::written_by(stream.index);
                let allocation = Allocation { device, address, bytes, usage, storage: Storage::Owned, owner: None };
                if zeroed && bytes > 0 {
                    // SAFETY: the range was just allocated on this stream.
                    unsafe { cuda.fill(stream, address, bytes, 0) }?;
                }
                Ok(allocation)
            }
        }
    }

    /// Memory that somebody else owns, last used on the device's default stream. With an `owner` it is borrowed: the owner
    /// waits for each use.
    pub fn foreign(device: &'static DeviceState, address: u64, bytes: usize, owner: Option<Owner>) -> Allocation {
        Allocation { device, address, bytes, usage: Usage::written_by(0), storage: Storage::Foreign, owner }
    }

    /// Whether the owner must wait for each use: then nothing may keep the memory beyond a launch.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether it is borrowed to be read only.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| !owner.writable)
    }

    /// Called after each use on `stream`.
    #[inline]
    pub fn used(&self, cuda: &CudaDevice, stream: &StreamSlot) -> Result<(), Error> {
        match &self.owner {
            None => Ok(()),
            Some(owner) => owner.follows(cuda, stream),
        }
    }

    /// The simulated memory.
    pub fn host(&self) -> Option<&Arc<Memory>> {
        match &self.storage {
            Storage::Host(memory) => Some(memory),
            _ => None,
        }
    }

    /// The stream that wrote it last: where a copy has the fewest to wait for.
    fn own_stream<'a>(&self, cuda: &'a CudaDevice) -> Result<&'a StreamSlot, Error> {
        match cuda.stream(self.usage.writer()) {
            Some(stream) => Ok(stream),
            None => cuda.default_stream(),
        }
    }

    /// Copies packed `bytes` into rows of elements of `size` bytes. Waits until `bytes` may be reused.
    pub fn upload(&self, bytes: &[u8], rows: &Rows, size: usize) -> Result<(), Error> {
        let width = rows.width * size;
        if bytes.is_empty() || width == 0 {
            return Ok(());
        }
        match (&self.device.backend, &self.storage) {
            (_, Storage::Host(memory)) => {
                let starts = rows.each().map(|start| start * size);
                starts.zip(bytes.chunks_exact(width)).try_for_each(|(start, row)| Ok(memory.write(start, row)?))
            }
            (Backend::Cuda(cuda), _) => {
                cuda.bind()?;
                let stream = self.own_stream(cuda)?;
                let _held = hold_one(cuda, stream, self, Use::Write)?;
                // SAFETY: the rows lie inside the allocation: layouts are checked when they are made.
                unsafe { cuda.upload(stream, self.address, bytes, rows, size) }?;
                self.used(cuda, stream)
            }
            (Backend::Simulator { .. }, _) => Ok(()),
        }
    }

    /// Copies rows of elements of `size` bytes into packed `bytes`, after everything queued that writes them.
    pub fn download(&self, bytes: &mut [u8], rows: &Rows, size: usize) -> Result<(), Error> {
        let width = rows.width * size;
        if bytes.is_empty() || width == 0 {
            return Ok(());
        }
        match (&self.device.backend, &self.storage) {
            (_, Storage::Host(memory)) => {
                let starts = rows.each().map(|start| start * size);
                starts.zip(bytes.chunks_exact_mut(width)).try_for_each(|(start, row)| Ok(memory.read(start, row)?))
            }
            (Backend::Cuda(cuda), _) => {
                cuda.bind()?;
                let stream = self.own_stream(cuda)?;
                let held = hold_one(cuda, stream, self, Use::Read)?;
                // SAFETY: the rows lie inside the allocation; `bytes` is borrowed until the stream is synchronised below.
                unsafe { cuda.download(stream, bytes, self.address, rows, size) }?;
                // The copies are queued: while they are made, others may go on with the memory.
                drop(held);
                cuda.synchronize(stream)
            }
            (Backend::Simulator { .. }, _) => Ok(()),
        }
    }

    /// Copies rows of `source` into rows of the same width and number of `target`; both on one device.
    pub fn copy(
        target: &Arc<Allocation>,
        to: &Rows,
        source: &Arc<Allocation>,
        from: &Rows,
        size: usize,
    ) -> Result<(), Error> {
        match (&target.device.backend, &target.storage, source.host()) {
            (_, Storage::Host(memory), Some(source)) => {
                // Row boundaries may differ where one side is contiguous, so element by element.
                let mut element = [0u8; 4];
                for (to, from) in each_element(to).zip(each_element(from)) {
                    source.read(from * size, &mut element[..size])?;
                    memory.write(to * size, &element[..size])?;
                }
                Ok(())
            }
            (Backend::Cuda(cuda), ..) => {
                cuda.bind()?;
                let stream = target.own_stream(cuda)?;
                let uses = in_order([(target, Use::Write), (source, Use::Read)].into_iter());
                let _held = hold(cuda, stream, uses.into_iter())?;
                // SAFETY: both sides' rows lie inside their allocations.
                unsafe { cuda.copy(stream, (target.address, to), (source.address, from), size) }?;
                target.used(cuda, stream)?;
                source.used(cuda, stream)
            }
            (Backend::Simulator { .. }, ..) => Ok(()),
        }
    }
}

impl Owner {
    /// Makes the owner's work from now on follow what is queued on `stream`. Where its stream cannot be made to wait, the
    /// host does.
    fn follows(&self, cuda: &CudaDevice, stream: &StreamSlot) -> Result<(), Error> {
        let here = self.thread.is_none_or(|thread| thread == thread::current().id());
        let ordered = || {
            cuda.order_foreign(stream.enter().stream(), self.stream)?;
            if self.event.is_null() { Ok(()) } else { cuda.record_again(self.event, self.stream) }
        };
        if here && ordered().is_ok() { Ok(()) } else { cuda.synchronize(stream) }
    }
}

fn each_element(rows: &Rows) -> impl Iterator<Item = usize> + '_ {
    rows.each().flat_map(move |start| start..start + rows.width)
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let (Storage::Owned, Backend::Cuda(cuda)) = (&self.storage, &self.device.backend)
            && let Ok(stream) = self.own_stream(cuda)
            && cuda.bind().is_ok()
            && self.usage.last().settle_free(cuda, stream).is_ok()
        {
            cuda.free(self.address, stream);
        }
    }
}
