//! Memory and streams that other code owns.
//!
//! | to use | with | order of the uses |
//! |---|---|---|
//! | a stream of other code | [`borrow_stream`], [`borrow_cudarc_stream`] | that stream's |
//! | memory, on a borrowed stream | [`lend`], [`lend_mut`], [`lend_cudarc`], [`lend_cudarc_mut`] | that stream's: one call of the driver a launch |
//! | memory of a stream of cudarc, for launch after launch | [`CudaLender`] | that stream's, and nothing is allocated on the host |
//! | memory, on streams of ours | [`from_cudarc`], [`from_cudarc_mut`], [`from_raw_parts`] | ours; the owner's stream waits for each use |
//! | memory of cudarc, handed over | [`own_cudarc`], [`into_cudarc`] | ours; cudarc's |
//! | slices of the host, on a simulator | [`lend_host`], [`lend_host_mut`] | at once |
//! | tensors of other libraries | [`dlpack`] | ours, or a borrowed stream's |
//!
//! Borrowed memory keeps no graph of ours and no prepared launch waiting for it: both refuse it. This is the only place
//! where cudarc's types appear, with the feature `cudarc`.

#[cfg(feature = "cudarc")]
mod cudarc;
pub mod dlpack;
#[cfg(feature = "cudarc")]
mod lender;
mod lent;
mod placement;

#[cfg(feature = "cudarc")]
pub use self::cudarc::{
    Borrowed, CudaMemory, CudaMemoryMut, borrow_cudarc_stream, from_cudarc, from_cudarc_mut, into_cudarc, lend_cudarc,
    lend_cudarc_mut, own_cudarc,
};
#[cfg(feature = "cudarc")]
pub use lender::CudaLender;
pub use lent::{Lent, LentMut, Plain, borrow_stream, lend, lend_host, lend_host_mut, lend_mut};
pub use placement::Placement;

use crate::allocation::Allocation;
use crate::cuda::{CudaDevice, refused};
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::{Error, ShapeError};
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
    let layout = Placement::strided(shape, strides).checked()?;
    let overflow = ShapeError::Overflow { shape: shape.to_vec() };
    let elements = layout.span().ok_or(overflow.clone())?;
    let bytes = elements.checked_mul(size_of::<T>()).filter(|b| *b <= isize::MAX as usize).ok_or(overflow)?;
    let cuda = cuda(device)?;
    order_after(cuda, stream)?;
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

/// Makes the default stream wait for what is queued on a foreign stream, which must not be being captured: the default
/// stream would join the capture.
fn order_after(cuda: &'static CudaDevice, stream: *mut std::ffi::c_void) -> Result<(), Error> {
    cuda.bind()?;
    if cuda.is_capturing(stream)? {
        let problem =
            "it is being captured, and our streams would join the capture; borrow the stream, and lend memory on it";
        return Err(Error::ForeignStream { device: cuda.label.clone(), problem: problem.into() });
    }
    cuda.order_foreign(stream, cuda.default_stream()?.enter().stream())
}
