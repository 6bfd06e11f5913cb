//! Memory that other code owns. The only place where cudarc's types appear, in [`from_cudarc`] and its like, which there are
//! with the feature `cudarc`.

#[cfg(feature = "cudarc")]
mod slice;

#[cfg(feature = "cudarc")]
pub use slice::{Borrowed, from_cudarc, from_cudarc_mut};

use crate::allocation::Allocation;
use crate::cuda::{CudaDevice, refused};
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::Tensor;
use std::sync::Arc;

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
    Ok(Tensor::from_parts(Arc::new(Allocation::foreign(device.state, address, bytes, None)), layout))
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
