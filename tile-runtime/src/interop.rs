//! Memory that other code owns. The only place where cudarc's types appear.

use crate::allocation::Allocation;
use crate::cuda::CudaDevice;
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::kernel::{Argument, TensorInput, TensorOutput};
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::{Tensor, TensorViewMut};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use std::ops::Deref;
use std::sync::Arc;

/// A tensor over memory that a [`CudaSlice`] owns. After each launch or copy that uses it the slice's stream waits for
/// that use; so the slice may be used or freed at any time after the borrow. It cannot be captured in a graph.
pub struct Borrowed<T, const R: usize, S> {
    tensor: Tensor<T, R>,
    /// Keeps the stream that waits.
    _stream: Arc<CudaStream>,
    /// Keeps the borrow of the slice, shared or exclusive.
    _slice: S,
}

/// The elements of a cudarc slice as a tensor of this shape, to be read.
///
/// # Errors
/// The slice is of another device or length; the device has failed.
pub fn from_cudarc<'a, T: Element, const R: usize>(
    device: &Device,
    slice: &'a CudaSlice<T>,
    shape: [usize; R],
) -> Result<Borrowed<T, R, &'a CudaSlice<T>>, Error> {
    let stream = slice.stream().clone();
    let address = slice.device_ptr(&stream).0;
    let tensor = over(device, &stream, address, slice.len(), shape)?;
    Ok(Borrowed { tensor, _stream: stream, _slice: slice })
}

/// The elements of a cudarc slice as a tensor of this shape, to be read and written.
///
/// # Errors
/// The slice is of another device or length; the device has failed.
pub fn from_cudarc_mut<'a, T: Element, const R: usize>(
    device: &Device,
    slice: &'a mut CudaSlice<T>,
    shape: [usize; R],
) -> Result<Borrowed<T, R, &'a mut CudaSlice<T>>, Error> {
    let stream = slice.stream().clone();
    let len = slice.len();
    let address = slice.device_ptr_mut(&stream).0;
    let tensor = over(device, &stream, address, len, shape)?;
    Ok(Borrowed { tensor, _stream: stream, _slice: slice })
}

/// A tensor over raw device memory, which it never frees.
///
/// `strides` are in elements, outermost first; the innermost must be 1. What is queued on `stream` (a `CUstream`; null
/// is the legacy default stream) so far is waited for before the tensor is first used.
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
/// The device has failed.
pub fn raw_stream(stream: &Stream) -> Result<*mut std::ffi::c_void, Error> {
    match stream.cuda() {
        Some((cuda, slot)) => cuda.bind().map(|()| slot.share()),
        None => Ok(std::ptr::null_mut()),
    }
}

fn over<T: Element, const R: usize>(
    device: &Device,
    stream: &CudaStream,
    address: u64,
    len: usize,
    shape: [usize; R],
) -> Result<Tensor<T, R>, Error> {
    let layout = Layout::packed(shape)?;
    if layout.len() != len {
        return Err(ShapeError::Length { shape: shape.to_vec(), expected: layout.len(), found: len }.into());
    }
    let cuda = cuda(device)?;
    if stream.context().ordinal() != cuda.ordinal || !cuda.is_context(stream.context().cu_ctx().cast()) {
        return Err(Error::DifferentDevices {
            source_device: format!("another context of cuda:{}", stream.context().ordinal()),
            destination: cuda.label.clone(),
        });
    }
    wait_for(cuda, stream.cu_stream().cast())?;
    let owner = stream.cu_stream().cast();
    let allocation = Allocation::borrowed(device.state, address, len * size_of::<T>(), owner);
    Ok(Tensor::from_parts(Arc::new(allocation), layout))
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
