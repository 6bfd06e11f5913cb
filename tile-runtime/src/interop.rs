//! Memory that other code owns. The only place where cudarc's types appear.

use crate::allocation::{Allocation, Owner};
use crate::cuda::{CudaDevice, driver::Handle, refused};
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::kernel::{Argument, Sealed, TensorInput, TensorOutput};
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::{Tensor, TensorViewMut};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
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
    let tensor = over(device, stream, (address, slice.len()), shape, Lent { event: event_of(guard), writable: false })?;
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
    let tensor = over(device, &stream, (address, len), shape, Lent { event: event_of(guard), writable: true })?;
    Ok(Borrowed { tensor, _slice: slice })
}

/// How a slice is lent.
struct Lent {
    /// What cudarc records after each use, by which its other streams know of it; null where it does not.
    event: Handle,
    writable: bool,
}

/// The event that a guard of cudarc would record.
fn event_of(guard: SyncOnDrop<'_>) -> Handle {
    let event = match &guard {
        SyncOnDrop::Record(Some((event, _))) => event.cu_event().cast(),
        SyncOnDrop::Record(None) | SyncOnDrop::Sync(_) => std::ptr::null_mut(),
    };
    std::mem::forget(guard);
    event
}

/// `CU_STREAM_PER_THREAD`: in every thread another stream. Source: cuda.h of CUDA 13.0.
const PER_THREAD: usize = 2;

/// A tensor over raw device memory, which it never frees.
///
/// `strides` are in elements, outermost first; the innermost must be 1. What is queued on `stream` (a `CUstream`; null
/// is the legacy default stream, 2 this thread's per-thread default stream) so far is waited for before the tensor is first
/// used.
///
/// # Safety
/// Every element's address is valid memory of `device` for as long as the tensor, views of it, kernels launched on them
/// and graphs that captured them live; nobody writes it at the same time, nor reads it while a kernel writes it.
///
/// # Errors
/// The strides do not fit the shape; `device` is not a CUDA device; the device has failed.
pub unsafe fn from_raw_parts<T: Element, const R: usize>(
    device: &Device,
    address: u64,
    shape: [usize; R],
    strides: [usize; R],
    stream: *mut std::ffi::c_void,
) -> Result<Tensor<T, R>, Error> {
    let layout = Layout { strides, ..Layout::packed(shape)? };
    let overflow = ShapeError::Overflow { shape: shape.to_vec() };
    let elements = layout.span().ok_or(overflow.clone())?;
    let bytes = elements.checked_mul(size_of::<T>()).filter(|b| *b <= isize::MAX as usize).ok_or(overflow)?;
    let cuda = cuda(device)?;
    wait_for(cuda, stream)?;
    Ok(Tensor::from_parts(Arc::new(Allocation::foreign(device.state, address, bytes)), layout))
}

/// A tensor's device address and bytes, for other code. Work on the tensor is ordered on the device's streams: call
/// [`Device::synchronize`] before other code uses the memory.
pub fn address_of<T: Element, const R: usize>(tensor: &Tensor<T, R>) -> (u64, usize) {
    (tensor.allocation().address, tensor.allocation().bytes)
}

/// A stream's `CUstream`, for calls of other libraries on it; null on a simulator. The device's context is current on
/// this thread afterwards, as those calls need. What they read and write is not ordered after other work on the same
/// tensors by itself: call [`Device::synchronize`] before, or use one stream for all. From here on no kernel with `pdl`
/// starts early on this stream: what it follows is no longer known.
///
/// # Errors
/// The device has failed; the stream's capture is over.
pub fn raw_stream(stream: &Stream) -> Result<*mut std::ffi::c_void, Error> {
    match stream.cuda() {
        Some((cuda, slot)) => {
            if slot.capture.as_ref().is_some_and(|capture| !capture.is_going_on()) {
                return Err(refused(&cuda.label, false, ""));
            }
            cuda.bind().map(|()| slot.share())
        }
        None => Ok(std::ptr::null_mut()),
    }
}

/// What must hold of a slice before anything is done with its stream.
fn check<const R: usize>(device: &Device, stream: &CudaStream, len: usize, shape: [usize; R]) -> Result<(), Error> {
    let layout = Layout::packed(shape)?;
    if layout.len() != len {
        return Err(ShapeError::Length { shape: shape.to_vec(), expected: layout.len(), found: len }.into());
    }
    let cuda = cuda(device)?;
    let context = stream.context();
    if context.ordinal() != cuda.ordinal || !cuda.is_context(context.cu_ctx().cast()) {
        return Err(Error::DifferentDevices {
            source_device: format!("another context of cuda:{}", context.ordinal()),
            destination: cuda.label.clone(),
        });
    }
    if is_per_thread(stream) && !context.is_managing_stream_synchronization() {
        // What is queued on the slice may be on the stream of any thread, and nothing says of which.
        let problem = "the slice is of the per-thread default stream, which is another stream in every thread, and its \
                       context does not order streams by events; allocate it on a stream of its own \
                       (`CudaContext::new_stream`) or on the default stream";
        return Err(Error::ForeignStream { device: cuda.label.clone(), problem: problem.into() });
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
    lent: Lent,
) -> Result<Tensor<T, R>, Error> {
    let cuda = cuda(device)?;
    if is_per_thread(stream) && lent.event.is_null() {
        let problem = "the slice is of the per-thread default stream and was made while its context tracked no events";
        return Err(Error::ForeignStream { device: cuda.label.clone(), problem: problem.into() });
    }
    wait_for(cuda, stream.cu_stream().cast())?;
    let owner = Owner {
        stream: stream.cu_stream().cast(),
        thread: is_per_thread(stream).then(|| std::thread::current().id()),
        event: lent.event,
        writable: lent.writable,
        _keeps: stream.clone(),
    };
    let allocation = Allocation::borrowed(device.state, address, len * size_of::<T>(), owner);
    Ok(Tensor::from_parts(Arc::new(allocation), Layout::packed(shape)?))
}

fn cuda(device: &Device) -> Result<&'static CudaDevice, Error> {
    match &device.state.backend {
        Backend::Cuda(cuda) => Ok(cuda),
        Backend::Simulator { .. } => {
            Err(Error::DifferentDevices { source_device: "a CUDA device".into(), destination: device.label().into() })
        }
    }
}

/// Makes the default stream wait for what is queued on a foreign stream.
fn wait_for(cuda: &'static CudaDevice, stream: *mut std::ffi::c_void) -> Result<(), Error> {
    cuda.order_foreign(stream, cuda.default_stream()?.enter().stream())
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
