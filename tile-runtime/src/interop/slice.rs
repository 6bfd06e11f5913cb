//! Slices of cudarc as tensors.

use super::{cuda, wait_for};
use crate::allocation::{Allocation, Owner};
use crate::cuda::Handle;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::kernel::argument::sealed::Sealed;
use crate::kernel::{Argument, TensorInput, TensorOutput};
use crate::layout::Layout;
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
