//! Tensors over memory that is lent: for as long as a borrow, on one borrowed stream or on a simulator.

use super::Placement;
use crate::allocation::Allocation;
use crate::cuda::ForeignStream;
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::kernel::argument::sealed::Sealed;
use crate::kernel::{Argument, TensorInput, TensorOutput};
use crate::owner::Owner;
use crate::stream::Stream;
use crate::tensor::{Tensor, TensorViewMut};
use half::{bf16, f16};
use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use tile_ir::sim::Memory;

/// A tensor over memory that is lent to be read. It cannot be captured in a graph of ours, nor kept by a prepared launch.
pub struct Lent<'a, T, const R: usize> {
    pub(super) tensor: Tensor<T, R>,
    borrow: PhantomData<&'a T>,
}

/// A tensor over memory that is lent to be read and written. It cannot be captured in a graph of ours, nor kept by a
/// prepared launch.
pub struct LentMut<'a, T, const R: usize> {
    pub(super) tensor: Tensor<T, R>,
    borrow: PhantomData<&'a mut T>,
}

/// Borrows a stream that other code owns: a `CUstream` of the device's primary context (null is the legacy default stream,
/// 2 this thread's per-thread default stream). `owner` is kept until the last clone of the returned stream, and the last
/// tensor lent on it, is gone.
///
/// Launches happen in the stream's order, without an event of ours: memory that is lent on the stream ([`lend`]) is used
/// there and nowhere else. Tensors of the device may be used there too; each such launch is ordered by two events after what
/// the device has under way, and before what follows.
///
/// The stream may be being captured by its owner. Lent memory may then be launched on; what would not survive in somebody
/// else's graph is refused with [`Error::Capture`]: tensors of the device, launching a graph of ours, copies to and from the
/// host, events, waiting. A kernel with a workspace is launched once before the capture, with the same extents.
///
/// # Safety
/// The handle is a stream, which `owner` keeps alive. Nobody begins or ends a capture of it while a call of ours with this
/// stream is under way on another thread. Whoever captures it keeps the memory of the captured launches as long as the graph
/// is launched, and the graph's launches are put in order with each other and with launches on the stream.
///
/// # Errors
/// [`Error::ForeignStream`]: a stream of another context; `device` is a simulator; the device has failed.
pub unsafe fn borrow_stream(
    device: &Device,
    stream: *mut c_void,
    owner: Arc<dyn Any + Send + Sync>,
) -> Result<Stream, Error> {
    let cuda = super::cuda(device)?;
    Ok(Stream::borrowed(device, ForeignStream::new(cuda, stream, owner)?))
}

/// Device memory at `address`, to be read by launches on a stream that was borrowed ([`borrow_stream`]), in that stream's
/// order.
///
/// # Safety
/// Until what is launched on it is done, in the stream's order, the elements are valid memory of the stream's device that
/// nobody writes. `'a` is over before anything else than work queued behind on the stream frees or writes them.
///
/// # Errors
/// The strides do not fit the shape; the address is not a multiple of the element's size; the stream was not borrowed.
pub unsafe fn lend<'a, T: Element, const R: usize>(
    stream: &Stream,
    address: u64,
    placement: impl Into<Placement<R>>,
) -> Result<Lent<'a, T, R>, Error> {
    let tensor = on_stream(stream, (address, None), placement.into(), Owned { event: null_mut(), writable: false })?;
    Ok(Lent::over(tensor))
}

/// Device memory at `address`, to be read and written by launches on a stream that was borrowed ([`borrow_stream`]), in
/// that stream's order.
///
/// # Safety
/// As [`lend`]; and nobody else reads the elements meanwhile.
///
/// # Errors
/// As [`lend`].
pub unsafe fn lend_mut<'a, T: Element, const R: usize>(
    stream: &Stream,
    address: u64,
    placement: impl Into<Placement<R>>,
) -> Result<LentMut<'a, T, R>, Error> {
    let tensor = on_stream(stream, (address, None), placement.into(), Owned { event: null_mut(), writable: true })?;
    Ok(LentMut::over(tensor))
}

/// A slice of the host, to be read by launches on a simulator, in place.
///
/// ```
/// use tile_runtime::{Device, interop::{Placement, lend_host}};
/// let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
/// let columns = Placement { offset: 1, ..Placement::strided([3, 2], [4, 1]) };
/// let x = lend_host(&Device::simulator(), &values, columns)?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 5.0, 6.0, 9.0, 10.0]);
/// # Ok::<(), tile_runtime::Error>(())
/// ```
///
/// # Errors
/// The placement leaves the slice; the slice does not begin at a multiple of 4 bytes (place an offset in a longer one);
/// `device` is no simulator.
pub fn lend_host<'a, T: Element, const R: usize>(
    device: &Device,
    values: &'a [T],
    placement: impl Into<Placement<R>>,
) -> Result<Lent<'a, T, R>, Error> {
    let start = NonNull::from(values).cast();
    // SAFETY: the slice is borrowed for `'a`, and its elements are plain data without padding. Nothing keeps the memory
    // beyond: launches on a simulator are done when they return, graphs and prepared launches refuse borrowed memory.
    let tensor = unsafe { of_host(device, start, values.len(), placement.into(), false) }?;
    Ok(Lent::over(tensor))
}

/// An element type of which any bits are a value: all but `bool`, whose bytes on a device Rust does not know all.
pub trait Plain: Element {}

impl Plain for f16 {}
impl Plain for bf16 {}
impl Plain for f32 {}
impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for u8 {}

/// A slice of the host, to be read and written by launches on a simulator, in place.
///
/// # Errors
/// As [`lend_host`].
pub fn lend_host_mut<'a, T: Plain, const R: usize>(
    device: &Device,
    values: &'a mut [T],
    placement: impl Into<Placement<R>>,
) -> Result<LentMut<'a, T, R>, Error> {
    let (start, len) = (NonNull::from(&mut *values).cast(), values.len());
    // SAFETY: as in `lend_host`, of a slice that is borrowed exclusively, and any bits are a value of a plain type.
    let tensor = unsafe { of_host(device, start, len, placement.into(), true) }?;
    Ok(LentMut::over(tensor))
}

/// # Safety
/// As [`Memory::foreign`], for as long as the tensor and what launches it.
unsafe fn of_host<T: Element, const R: usize>(
    device: &Device,
    start: NonNull<u8>,
    len: usize,
    placement: Placement<R>,
    writable: bool,
) -> Result<Tensor<T, R>, Error> {
    if let Backend::Cuda(_) = &device.state.backend {
        let (source_device, destination) = ("host memory".into(), device.label().into());
        return Err(Error::DifferentDevices { source_device, destination });
    }
    let layout = placement.layout(len)?;
    // SAFETY: the caller vouches for the elements.
    let memory = unsafe { Memory::foreign(start, len * size_of::<T>(), !writable, None) }?;
    let allocation = Allocation::of_host(device.state, memory, Owner::host(writable, true));
    Ok(Tensor::from_parts(Arc::new(allocation), layout))
}

/// How memory on a borrowed stream is lent.
pub(super) struct Owned {
    /// The event that cudarc's other streams wait for; null where there is none.
    pub event: *mut c_void,
    pub writable: bool,
}

/// The tensor over device memory that belongs to a borrowed stream: its address, and how many elements there are, if that
/// is known.
pub(super) fn on_stream<T: Element, const R: usize>(
    stream: &Stream,
    (address, len): (u64, Option<usize>),
    placement: Placement<R>,
    lent: Owned,
) -> Result<Tensor<T, R>, Error> {
    let foreign = foreign(stream)?;
    let layout = match len {
        Some(len) => placement.layout(len)?,
        None => placement.checked()?,
    };
    let len = match len {
        Some(len) => Some(len),
        None => layout.span().and_then(|span| span.checked_add(layout.offset)),
    };
    let overflow = || ShapeError::Overflow { shape: placement.shape.to_vec() };
    let bytes = len.and_then(|len| len.checked_mul(size_of::<T>())).filter(|b| *b <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(overflow)?;
    if !address.is_multiple_of(size_of::<T>() as u64) {
        return Err(ShapeError::Address { address, multiple: size_of::<T>() }.into());
    }
    let owner = Owner::on(foreign, lent.event, lent.writable, true);
    let allocation = Allocation::foreign(stream.device().state, address, bytes, Some(owner));
    Ok(Tensor::from_parts(Arc::new(allocation), layout))
}

/// The borrowed stream that this is.
pub(super) fn foreign(stream: &Stream) -> Result<&Arc<ForeignStream>, Error> {
    stream.foreign().ok_or_else(|| {
        let problem = "memory is lent on a stream that was borrowed from its owner (`borrow_stream`), and this is one of \
                       the device's own";
        Error::ForeignStream { device: stream.device().label().into(), problem: problem.into() }
    })
}

impl<'a, T, const R: usize> Lent<'a, T, R> {
    pub(super) fn over(tensor: Tensor<T, R>) -> Lent<'a, T, R> {
        Lent { tensor, borrow: PhantomData }
    }
}

impl<'a, T, const R: usize> LentMut<'a, T, R> {
    pub(super) fn over(tensor: Tensor<T, R>) -> LentMut<'a, T, R> {
        LentMut { tensor, borrow: PhantomData }
    }
}

impl<T: Element, const R: usize> LentMut<'_, T, R> {
    /// The whole tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T, R> {
        self.tensor.view_mut()
    }
}

impl<T, const R: usize> Deref for Lent<'_, T, R> {
    type Target = Tensor<T, R>;

    fn deref(&self) -> &Tensor<T, R> {
        &self.tensor
    }
}

// Not `DerefMut`: the tensor could be swapped out of its borrow.
impl<T, const R: usize> Deref for LentMut<'_, T, R> {
    type Target = Tensor<T, R>;

    fn deref(&self) -> &Tensor<T, R> {
        &self.tensor
    }
}

impl<T, const R: usize> Sealed for Lent<'_, T, R> {}
impl<T, const R: usize> Sealed for LentMut<'_, T, R> {}

impl<T: Element, const R: usize> TensorInput<T, R> for &Lent<'_, T, R> {
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self.tensor.erased())
    }
}

impl<T: Element, const R: usize> TensorInput<T, R> for &LentMut<'_, T, R> {
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self.tensor.erased())
    }
}

impl<T: Element, const R: usize> TensorOutput<T, R> for &mut LentMut<'_, T, R> {
    fn argument(&mut self) -> Argument<'_> {
        Argument::Tensor(self.tensor.erased())
    }
}

impl<T: Element, const R: usize> fmt::Debug for Lent<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lent {:?}", self.tensor)
    }
}

impl<T: Element, const R: usize> fmt::Debug for LentMut<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lent {:?}, to be written", self.tensor)
    }
}
