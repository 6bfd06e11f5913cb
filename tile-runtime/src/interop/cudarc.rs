//! Streams and memory of cudarc.

use super::lent::{Lent, LentMut, Owned, foreign, on_stream};
use super::{Placement, cuda, order_after};
use crate::allocation::{Allocation, Keeper, StreamHandle};
use crate::cuda::{CudaDevice, ForeignStream, Handle, PER_THREAD};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::kernel::argument::sealed::Sealed;
use crate::kernel::{Argument, TensorInput, TensorOutput};
use crate::layout::Layout;
use crate::owner::{Follower, Order, Owner};
use crate::stream::Stream;
use crate::tensor::{Tensor, TensorViewMut};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop};
use std::ops::Deref;
use std::sync::Arc;

/// A tensor over memory that a [`CudaSlice`] owns. It cannot be captured in a graph, nor kept by a prepared launch.
///
/// After each launch or copy that uses it, the slice's stream waits for that use, and the event by which cudarc orders the
/// slice's uses on other streams is recorded again, behind it. So the slice may be used on any stream, or freed, at any
/// time after the borrow, whether this value was dropped or forgotten.
pub struct Borrowed<T, const R: usize, S> {
    tensor: Tensor<T, R>,
    /// Keeps the borrow of the slice, shared or exclusive, and so the event.
    _slice: S,
}

/// The elements of a cudarc slice as a tensor of this shape, to be read.
///
/// # Errors
/// The slice is of another device or length; the device has failed. [`Error::ForeignStream`] for a slice of the per-thread
/// default stream, which is another stream in every thread, unless its context orders streams by events
/// ([`CudaContext::is_managing_stream_synchronization`](cudarc::driver::CudaContext::is_managing_stream_synchronization)).
pub fn from_cudarc<'a, T: Element, const R: usize>(
    device: &Device,
    slice: &'a CudaSlice<T>,
    shape: [usize; R],
) -> Result<Borrowed<T, R, &'a CudaSlice<T>>, Error> {
    let stream = slice.stream();
    check(device, stream, slice.len(), shape)?;
    // The slice's stream waits for who wrote it; the guard would record its event when dropped, before our use.
    let (address, guard) = slice.device_ptr(stream);
    let tensor =
        over(device, stream, (address, slice.len()), shape, Terms { event: event_of(guard), writable: false })?;
    Ok(Borrowed { tensor, _slice: slice })
}

/// The elements of a cudarc slice as a tensor of this shape, to be read and written.
///
/// # Errors
/// As [`from_cudarc`].
pub fn from_cudarc_mut<'a, T: Element, const R: usize>(
    device: &Device,
    slice: &'a mut CudaSlice<T>,
    shape: [usize; R],
) -> Result<Borrowed<T, R, &'a mut CudaSlice<T>>, Error> {
    let (stream, len) = (slice.stream().clone(), slice.len());
    check(device, &stream, len, shape)?;
    let (address, guard) = slice.device_ptr_mut(&stream);
    let tensor = over(device, &stream, (address, len), shape, Terms { event: event_of(guard), writable: true })?;
    Ok(Borrowed { tensor, _slice: slice })
}

/// How a slice is lent.
struct Terms {
    /// What cudarc records after each use, by which its other streams know of it; null where it does not.
    event: Handle,
    writable: bool,
}

/// The event that a guard of cudarc would record.
pub(super) fn event_of(guard: SyncOnDrop<'_>) -> Handle {
    let event = match &guard {
        SyncOnDrop::Record(Some((event, _))) => event.cu_event().cast(),
        SyncOnDrop::Record(None) | SyncOnDrop::Sync(_) => std::ptr::null_mut(),
    };
    std::mem::forget(guard);
    event
}

/// Borrows a stream of cudarc, which the returned stream keeps: see [`borrow_stream`](super::borrow_stream). Memory is lent
/// on it by [`lend_cudarc`] and [`lend_cudarc_mut`].
///
/// The per-thread default stream is borrowed for this thread alone; elsewhere launches on it are refused.
///
/// cudarc lets a capture of the stream be begun and ended, and its graph be launched, whatever memory the graph uses and
/// whoever uses the stream meanwhile ([`CudaStream::begin_capture`]). That what is captured is still there when the graph is
/// launched, and that no capture begins or ends during a launch on another thread, is up to whoever captures.
///
/// # Errors
/// [`Error::DifferentDevices`]: a stream of another context; `device` is a simulator; the device has failed.
pub fn borrow_cudarc_stream(device: &Device, stream: &Arc<CudaStream>) -> Result<Stream, Error> {
    let cuda = cuda(device)?;
    check_context(device, stream)?;
    Ok(Stream::borrowed(device, ForeignStream::new(cuda, stream.cu_stream().cast(), Arc::new(stream.clone()))?))
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for cudarc::driver::CudaSlice<T> {}
    impl<T> Sealed for cudarc::driver::CudaView<'_, T> {}
    impl<T> Sealed for cudarc::driver::CudaViewMut<'_, T> {}
}

/// Memory of cudarc that can be lent to be read: [`CudaSlice`], [`CudaView`], [`CudaViewMut`].
pub trait CudaMemory<T>: sealed::Sealed + DevicePtr<T> {}
impl<T> CudaMemory<T> for CudaSlice<T> {}
impl<T> CudaMemory<T> for CudaView<'_, T> {}
impl<T> CudaMemory<T> for CudaViewMut<'_, T> {}

/// Memory of cudarc that can be lent to be written: [`CudaSlice`], [`CudaViewMut`].
pub trait CudaMemoryMut<T>: sealed::Sealed + DevicePtrMut<T> {}
impl<T> CudaMemoryMut<T> for CudaSlice<T> {}
impl<T> CudaMemoryMut<T> for CudaViewMut<'_, T> {}

/// A slice or view of cudarc, to be read by launches on a stream that was borrowed from cudarc, in that stream's order.
///
/// Where cudarc tracks the slice's uses by events, so that its other streams and its destructor follow them, the stream
/// waits for the slice's writer now, and the slice's event is recorded after each launch: two calls of the driver, which
/// cannot be captured. Where it does not ([`CudaContext::is_managing_stream_synchronization`]), nothing is asked of the
/// driver, and the slice must be of this very stream.
///
/// [`CudaContext::is_managing_stream_synchronization`]: cudarc::driver::CudaContext::is_managing_stream_synchronization
///
/// # Errors
/// The placement leaves the slice. [`Error::ForeignStream`]: `stream` was not borrowed; a slice of another stream that no
/// events order. [`Error::Capture`]: a tracked slice on a stream that is being captured. Another device.
pub fn lend_cudarc<'a, T: Element, const R: usize>(
    stream: &Stream,
    memory: &'a impl CudaMemory<T>,
    placement: impl Into<Placement<R>>,
) -> Result<Lent<'a, T, R>, Error> {
    let on = orderly(stream, memory.stream())?;
    let (address, guard) = memory.device_ptr(on.stream);
    let event = on.event(guard)?;
    let place = (address, Some(memory.len()));
    on_stream(stream, place, placement.into(), Owned { event, writable: false }).map(Lent::over)
}

/// A slice or view of cudarc, to be read and written by launches on a stream that was borrowed from cudarc, in that
/// stream's order: see [`lend_cudarc`].
///
/// # Errors
/// As [`lend_cudarc`].
pub fn lend_cudarc_mut<'a, T: Element, const R: usize>(
    stream: &Stream,
    memory: &'a mut impl CudaMemoryMut<T>,
    placement: impl Into<Placement<R>>,
) -> Result<LentMut<'a, T, R>, Error> {
    let own = memory.stream().clone();
    let len = memory.len();
    let on = orderly(stream, &own)?;
    let (address, guard) = memory.device_ptr_mut(on.stream);
    let event = on.event(guard)?;
    on_stream(stream, (address, Some(len)), placement.into(), Owned { event, writable: true }).map(LentMut::over)
}

/// A borrowed stream on which a slice is about to be used.
struct On<'a> {
    lender: &'a Stream,
    /// The borrowed stream as cudarc knows it.
    stream: &'a Arc<CudaStream>,
    /// Whether it is the slice's own.
    own: bool,
    managed: bool,
}

/// Checks that a slice of stream `own` may be used on `stream`.
fn orderly<'a>(stream: &'a Stream, own: &'a Arc<CudaStream>) -> Result<On<'a>, Error> {
    let foreign = foreign(stream)?;
    check_context(stream.device(), own)?;
    let cuda = cuda(stream.device())?;
    cuda.refuse_elsewhere(&foreign.slot)?;
    let managed = own.context().is_managing_stream_synchronization();
    // Where no events are asked of the driver, the launch is the first to ask it anything, and binds.
    if managed {
        cuda.bind()?;
        cuda.refuse_capturing(&foreign.slot, "lending memory whose uses cudarc tracks by events")?;
    }
    let is_own = own.cu_stream().addr() == foreign.handle();
    let known = match is_own {
        true => Some(own),
        false => foreign.owner().downcast_ref::<Arc<CudaStream>>(),
    };
    let known = known.ok_or_else(|| {
        let problem = "the slice was allocated on another stream than the one it is lent on, which cudarc does not know; \
                       borrow that one by `borrow_cudarc_stream`";
        Error::ForeignStream { device: cuda.label.clone(), problem: problem.into() }
    })?;
    Ok(On { lender: stream, stream: known, own: is_own, managed })
}

impl On<'_> {
    /// The event that is to be recorded after each use.
    fn event(&self, guard: SyncOnDrop<'_>) -> Result<Handle, Error> {
        let event = event_of(guard);
        match self.managed {
            true if self.own || !event.is_null() => Ok(event),
            false if self.own => Ok(std::ptr::null_mut()),
            _ => {
                let problem = "the slice was allocated on another stream, and no events of cudarc order the two; lend it on \
                               its own stream, or let its context track events when it is allocated";
                Err(Error::ForeignStream { device: self.lender.device().label().into(), problem: problem.into() })
            }
        }
    }
}

/// The tensor that a slice becomes: a slice of cudarc, owned. Launches use it on any stream of the device; it is freed by
/// cudarc, on its own stream, after all that uses it.
///
/// # Errors
/// As [`from_cudarc`]; the slice is dropped then.
pub fn own_cudarc<T: Element, const R: usize>(
    device: &Device,
    mut slice: CudaSlice<T>,
    shape: [usize; R],
) -> Result<Tensor<T, R>, Error> {
    let (stream, len) = (slice.stream().clone(), slice.len());
    check(device, &stream, len, shape)?;
    // Its stream waits for all its uses; from here on nobody else has it, so that no event need be recorded.
    let (address, guard) = slice.device_ptr_mut(&stream);
    event_of(guard);
    let handle: Handle = stream.cu_stream().cast();
    order_after(cuda(device)?, handle)?;
    // What another thread would take for another stream cannot be waited for when the tensor is dropped there.
    let freed_on = (!is_per_thread(&stream)).then_some(StreamHandle(handle));
    let allocation = Allocation::foreign(device.state, address, len * size_of::<T>(), None);
    let allocation = allocation.kept_by(Keeper { _what: Box::new(slice), freed_on });
    Ok(Tensor::from_parts(Arc::new(allocation), Layout::packed(shape)?))
}

/// The slice of cudarc that a tensor becomes, on `stream`, which waits for all that uses the tensor. cudarc frees it.
///
/// # Errors
/// The tensor is dropped where it cannot become one: a graph or a prepared launch keeps its memory; it is not of the
/// device's own memory; another device; [`Error::ForeignStream`] for a stream that is being captured.
pub fn into_cudarc<T: Element, const R: usize>(
    tensor: Tensor<T, R>,
    stream: &Arc<CudaStream>,
) -> Result<CudaSlice<T>, Error> {
    let len = tensor.len();
    let device = tensor.allocation().device;
    let device_label = device.label().to_owned();
    let refused = |problem: &str| Error::ForeignStream { device: device_label.clone(), problem: problem.into() };
    let crate::device::Backend::Cuda(cuda) = &device.backend else {
        let (source_device, destination) = (device_label.clone(), "a stream of cudarc".into());
        return Err(Error::DifferentDevices { source_device, destination });
    };
    check_context_of(cuda, stream)?;
    cuda.bind()?;
    let handle: Handle = stream.cu_stream().cast();
    if cuda.is_capturing(handle)? {
        return Err(refused("it is being captured, and the memory would come from outside the graph"));
    }
    let kept = "the tensor's memory is kept by a graph or a prepared launch, which may use it later";
    let mut allocation = Arc::try_unwrap(tensor.into_allocation()).map_err(|_| refused(kept))?;
    let default = cuda.default_stream()?;
    allocation.usage.last().settle_free(cuda, default)?;
    cuda.order_foreign(default.enter().stream(), handle)?;
    // cudarc frees as it allocates, which is asked of the device as we ask it.
    if !allocation.give_away() {
        return Err(refused("the tensor's memory is not of the device's pool; it belongs to other code already"));
    }
    // SAFETY: an allocation of the device's pool that is ours no longer, of `len` elements, all initialised, since tensors
    // are; `stream` follows everything that used it.
    let mut slice = unsafe { stream.upgrade_device_ptr::<T>(allocation.address, len) };
    // Its other streams know of the uses so far by the event of a write, which is recorded as this guard is dropped.
    drop(slice.device_ptr_mut(stream));
    Ok(slice)
}

/// What must hold of a slice before anything is done with its stream.
fn check<const R: usize>(device: &Device, stream: &CudaStream, len: usize, shape: [usize; R]) -> Result<(), Error> {
    let layout = Layout::packed(shape)?;
    if layout.len() != len {
        return Err(ShapeError::Length { shape: shape.to_vec(), expected: layout.len(), found: len }.into());
    }
    check_context(device, stream)?;
    let (cuda, context) = (cuda(device)?, stream.context());
    if is_per_thread(stream) && !context.is_managing_stream_synchronization() {
        // What is queued on the slice may be on the stream of any thread, and nothing says of which.
        let problem = "the slice is of the per-thread default stream, which is another stream in every thread, and its \
                       context does not order streams by events; allocate it on a stream of its own \
                       (`CudaContext::new_stream`) or on the default stream";
        return Err(Error::ForeignStream { device: cuda.label.clone(), problem: problem.into() });
    }
    Ok(())
}

/// The error of a stream that is not of this device's primary context.
fn check_context(device: &Device, stream: &CudaStream) -> Result<(), Error> {
    check_context_of(cuda(device)?, stream)
}

fn check_context_of(cuda: &CudaDevice, stream: &CudaStream) -> Result<(), Error> {
    let context = stream.context();
    if context.ordinal() != cuda.ordinal || !cuda.is_context(context.cu_ctx().cast()) {
        return Err(Error::DifferentDevices {
            source_device: format!("another context of cuda:{}", context.ordinal()),
            destination: cuda.label.clone(),
        });
    }
    Ok(())
}

fn is_per_thread(stream: &CudaStream) -> bool {
    stream.cu_stream().addr() == PER_THREAD
}

/// The tensor over a slice, which was checked.
fn over<T: Element, const R: usize>(
    device: &Device,
    stream: &Arc<CudaStream>,
    (address, len): (u64, usize),
    shape: [usize; R],
    lent: Terms,
) -> Result<Tensor<T, R>, Error> {
    let cuda = cuda(device)?;
    if is_per_thread(stream) && lent.event.is_null() {
        let problem = "the slice is of the per-thread default stream and was made while its context tracked no events";
        return Err(Error::ForeignStream { device: cuda.label.clone(), problem: problem.into() });
    }
    order_after(cuda, stream.cu_stream().cast())?;
    let follower = Follower {
        stream: stream.cu_stream().cast(),
        thread: is_per_thread(stream).then(|| std::thread::current().id()),
        _keeps: stream.clone(),
    };
    let order = Order::Followed(follower);
    let owner = Owner { order, event: lent.event, writable: lent.writable, borrowed: true };
    let allocation = Allocation::foreign(device.state, address, len * size_of::<T>(), Some(owner));
    Ok(Tensor::from_parts(Arc::new(allocation), Layout::packed(shape)?))
}

impl<T, const R: usize, S> Deref for Borrowed<T, R, S> {
    type Target = Tensor<T, R>;

    fn deref(&self) -> &Tensor<T, R> {
        &self.tensor
    }
}

impl<T: Element, const R: usize> Borrowed<T, R, &mut CudaSlice<T>> {
    /// The whole tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T, R> {
        self.tensor.view_mut()
    }
}

impl<T, const R: usize, S> Sealed for Borrowed<T, R, S> {}

impl<T: Element, const R: usize, S> TensorInput<T, R> for &Borrowed<T, R, S> {
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self.tensor.erased())
    }
}

// Not `DerefMut`: the tensor could be swapped out of its borrow.
impl<T: Element, const R: usize> TensorOutput<T, R> for &mut Borrowed<T, R, &mut CudaSlice<T>> {
    fn argument(&mut self) -> Argument<'_> {
        Argument::Tensor(self.tensor.erased())
    }
}
