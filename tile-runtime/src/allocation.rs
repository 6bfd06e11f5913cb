//! A piece of device memory, real or simulated, and the copies into and out of it.

use crate::cuda::{CudaDevice, Handle, StreamSlot, Usage, Use, hold, hold_one, in_order};
use crate::device::{Backend, DeviceState};
use crate::error::Error;
use crate::layout::Rows;
use crate::owner::{OnStream, Owner};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

enum Storage {
    /// Of the device's pool.
    Owned,
    /// Somebody else's: used, never freed.
    Foreign,
    /// Somebody else's, given back when nothing uses it any more.
    Kept(Option<Keeper>),
    /// Simulated.
    Host(Arc<Memory>),
}

/// What is dropped to give memory back, and after what.
pub(crate) struct Keeper {
    pub _what: Box<dyn Any + Send + Sync>,
    /// The stream on which the memory is freed, in its order; `None`: it may be used by others at once, so the host waits.
    pub freed_on: Option<StreamHandle>,
}

/// The handle of a stream, which its keeper keeps.
pub(crate) struct StreamHandle(pub Handle);

// SAFETY: a stream's handle may be used from any thread.
unsafe impl Send for StreamHandle {}
// SAFETY: as above.
unsafe impl Sync for StreamHandle {}

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
                let memory = Memory::try_zeros(bytes).map_err(|_| Error::host_out_of_memory(device.label(), bytes))?;
                let address = simulated_address(bytes);
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

    /// Memory that somebody else owns, last used on the device's default stream, or on the stream that it belongs to. An
    /// `owner` has a say in its uses.
    pub fn foreign(device: &'static DeviceState, address: u64, bytes: usize, owner: Option<Owner>) -> Allocation {
        Allocation { device, address, bytes, usage: Usage::written_by(0), storage: Storage::Foreign, owner }
    }

    /// Host memory that a simulator uses in place.
    pub fn of_host(device: &'static DeviceState, memory: Memory, owner: Owner) -> Allocation {
        let bytes = memory.len();
        let storage = Storage::Host(Arc::new(memory));
        let usage = Usage::written_by(0);
        Allocation { device, address: simulated_address(bytes), bytes, usage, storage, owner: Some(owner) }
    }

    /// This memory of somebody else, given back by dropping `keeper`.
    pub fn kept_by(mut self, keeper: Keeper) -> Allocation {
        self.storage = Storage::Kept(Some(keeper));
        self
    }

    /// This memory, as what is used on a borrowed stream alone.
    pub fn only_used_on(mut self, owner: Owner) -> Allocation {
        self.owner = Some(owner);
        self
    }

    /// Makes this record of memory that was lent on a borrowed stream one of other memory that is lent there, whose uses need no
    /// event. (Nobody but cudarc lends like this.)
    #[allow(dead_code)]
    pub fn lend_again(&mut self, address: u64, bytes: usize, writable: bool) {
        debug_assert!(matches!(self.storage, Storage::Foreign) && self.only_on().is_some());
        (self.address, self.bytes) = (address, bytes);
        if let Some(owner) = &mut self.owner {
            (owner.event, owner.writable) = (std::ptr::null_mut(), writable);
        }
    }

    /// Gives the memory of the device's pool to other code: it will not be freed here. `false` where it is not of the pool.
    /// (Nobody but cudarc takes it.)
    #[allow(dead_code)]
    pub fn give_away(&mut self) -> bool {
        let is_owned = matches!(self.storage, Storage::Owned);
        if is_owned {
            self.storage = Storage::Foreign;
        }
        is_owned
    }

    /// Whether its life ends without our being told: then nothing may keep it beyond a launch.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.borrowed)
    }

    /// The borrowed stream on which alone it may be used, if there is one.
    #[inline]
    pub fn only_on(&self) -> Option<&OnStream> {
        self.owner.as_ref().and_then(Owner::only_on)
    }

    /// Whether an event of cudarc is recorded after each use.
    #[inline]
    pub fn has_event(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| !owner.event.is_null())
    }

    /// Refuses to write what may only be read.
    fn check_writable(&self) -> Result<(), Error> {
        if self.is_read_only() { Err(Error::ReadOnly { device: self.device.label().into() }) } else { Ok(()) }
    }

    /// Whether it may only be read.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| !owner.writable)
    }

    /// Called after each use on `stream`.
    #[inline]
    pub fn used(&self, cuda: &CudaDevice, stream: &StreamSlot) -> Result<(), Error> {
        match &self.owner {
            None => Ok(()),
            Some(owner) => owner.used(cuda, stream),
        }
    }

    /// The simulated memory.
    pub fn host(&self) -> Option<&Arc<Memory>> {
        match &self.storage {
            Storage::Host(memory) => Some(memory),
            _ => None,
        }
    }

    /// The stream that wrote it last: where a copy has the fewest to wait for. Of memory that belongs to a borrowed stream,
    /// that one.
    fn own_stream<'a>(&'a self, cuda: &'a CudaDevice) -> Result<&'a StreamSlot, Error> {
        if let Some(stream) = self.only_on().and_then(|on| on.keeps.as_ref()) {
            return Ok(&stream.slot);
        }
        match cuda.stream(self.usage.writer()) {
            Some(stream) => Ok(stream),
            None => cuda.default_stream(),
        }
    }

    /// Copies packed `bytes` into rows of elements of `size` bytes. Waits until `bytes` may be reused.
    pub fn upload(&self, bytes: &[u8], rows: &Rows, size: usize) -> Result<(), Error> {
        self.check_writable()?;
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
        target.check_writable()?;
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
                // A borrowed stream that either belongs to is the only one for both.
                let of = if target.only_on().is_none() && source.only_on().is_some() { source } else { target };
                let stream = of.own_stream(cuda)?;
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

/// An address for simulated memory: made up, aligned to 256 bytes and overlapping nothing.
fn simulated_address(bytes: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    // Addresses are taken only by memory that exists, so they never wrap.
    NEXT.fetch_add((bytes as u64).next_multiple_of(256) + 256, Ordering::Relaxed)
}

fn each_element(rows: &Rows) -> impl Iterator<Item = usize> + '_ {
    rows.each().flat_map(move |start| start..start + rows.width)
}

impl Allocation {
    /// Gives kept memory back, after everything that uses it. What cannot be put in that order is never given back.
    fn give_back(&mut self, keeper: Option<Keeper>) {
        let (Some(keeper), Backend::Cuda(cuda)) = (keeper, &self.device.backend) else { return };
        // What belongs to a borrowed stream is given back in its order, which is the owner's.
        if self.only_on().is_some() {
            return;
        }
        let usage = self.usage.last();
        let mut ordered = || -> Result<(), Error> {
            cuda.bind()?;
            let stream = cuda.default_stream()?;
            usage.settle_free(cuda, stream)?;
            match &keeper.freed_on {
                Some(freed_on) if !cuda.is_capturing(freed_on.0)? => {
                    cuda.order_foreign(stream.enter().stream(), freed_on.0)
                }
                _ => cuda.synchronize(stream),
            }
        };
        if ordered().is_err() {
            std::mem::forget(keeper);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Storage::Kept(keeper) = &mut self.storage {
            let keeper = keeper.take();
            self.give_back(keeper);
            return;
        }
        if let (Storage::Owned, Backend::Cuda(cuda)) = (&self.storage, &self.device.backend)
            && let Some(stream) = cuda.stream(self.usage.writer())
            && cuda.bind().is_ok()
            && self.usage.last().settle_free(cuda, stream).is_ok()
        {
            cuda.free(self.address, stream);
        }
    }
}
