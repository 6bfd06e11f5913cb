//! Tensors out.

use super::abi::{DLManagedTensor, DLManagedTensorVersioned, DLTensor, READ_ONLY, VERSION};
use super::{Managed, Raw, data_type, problem};
use crate::allocation::Allocation;
use crate::device::Backend;
use crate::element::Element;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::Tensor;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// A tensor in DLPack's form, without a copy; `versioned` as `max_version` of Python's `__dlpack__` asks.
///
/// What is queued here that uses it is done before whatever is queued on `consumer`, the borrowed stream of the library that
/// it is for; without one the host waits for it. When the consumer lets it go, the host waits for everything on the device
/// that may still use it, and the memory is freed.
///
/// # Errors
/// The tensor is dropped where it cannot be given: a graph or a prepared launch keeps its memory; it may only be read, which
/// the form without a version cannot say; `consumer` is of another device or is being captured.
pub fn export<T: Element, const R: usize>(
    tensor: Tensor<T, R>,
    consumer: Option<&Stream>,
    versioned: bool,
) -> Result<Managed, Error> {
    let (shape, strides) = (tensor.shape(), tensor.strides());
    let start = tensor.offset() * size_of::<T>();
    let kept = "its memory is kept by a graph or a prepared launch, which may use it later";
    let mut allocation = Arc::try_unwrap(tensor.into_allocation()).map_err(|_| problem(kept))?;
    // On a simulator graphs keep the memory itself.
    if allocation.host().is_some_and(|memory| Arc::strong_count(memory) > 1) {
        return Err(problem(kept));
    }
    if allocation.is_read_only() && !versioned {
        return Err(problem("it may only be read, which the form without a version cannot say"));
    }
    hand_over(&mut allocation, consumer)?;
    let data = match allocation.host() {
        Some(memory) => memory.start().as_ptr().wrapping_add(start).cast(),
        None => std::ptr::with_exposed_provenance_mut((allocation.address + start as u64) as usize),
    };
    let flags = if allocation.is_read_only() { READ_ONLY } else { 0 };
    let device = super::import::device_of(allocation.device);
    let numbers = |values: [usize; R]| values.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    let exported = Box::into_raw(Box::new(Exported {
        extents: Box::new(Extents { shape: numbers(shape), strides: numbers(strides) }),
        allocation: Some(allocation),
    }));
    // SAFETY: just made. The extents stay where they are for as long as the box that they are in.
    let extents: *mut Extents<R> = unsafe { &mut *(*exported).extents };
    let dl_tensor = DLTensor {
        data,
        device,
        ndim: R as i32,
        dtype: data_type(T::DTYPE),
        // SAFETY: places inside the extents.
        shape: unsafe { &raw mut (*extents).shape }.cast(),
        // SAFETY: as above.
        strides: unsafe { &raw mut (*extents).strides }.cast(),
        byte_offset: 0,
    };
    let manager_ctx: *mut c_void = exported.cast();
    let raw = match versioned {
        true => Raw::Versioned(NonNull::from(Box::leak(Box::new(DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx,
            deleter: Some(let_go_versioned::<R>),
            flags,
            dl_tensor,
        })))),
        false => Raw::Plain(NonNull::from(Box::leak(Box::new(DLManagedTensor {
            dl_tensor,
            manager_ctx,
            deleter: Some(let_go::<R>),
        })))),
    };
    Ok(Managed(raw))
}

/// What an exported tensor refers to.
struct Exported<const R: usize> {
    extents: Box<Extents<R>>,
    allocation: Option<Allocation>,
}

struct Extents<const R: usize> {
    shape: [i64; R],
    strides: [i64; R],
}

impl<const R: usize> Drop for Exported<R> {
    fn drop(&mut self) {
        let allocation = self.allocation.take();
        let Some(device) = allocation.as_ref().map(|allocation| allocation.device) else { return };
        // The consumer's streams are not known here. What cannot be waited for keeps its memory.
        if let Backend::Cuda(cuda) = &device.backend
            && cuda.synchronize_context().is_err()
        {
            std::mem::forget(allocation);
        }
    }
}

/// The deleter.
///
/// # Safety
/// Called once, with what [`export`] has made.
unsafe extern "C" fn let_go<const R: usize>(tensor: *mut DLManagedTensor) {
    if !tensor.is_null() {
        // SAFETY: `export` has made both boxes, and nobody else lets them go.
        unsafe { drop(Box::from_raw(Box::from_raw(tensor).manager_ctx.cast::<Exported<R>>())) };
    }
}

/// The deleter of the versioned form.
///
/// # Safety
/// As [`let_go`].
unsafe extern "C" fn let_go_versioned<const R: usize>(tensor: *mut DLManagedTensorVersioned) {
    if !tensor.is_null() {
        // SAFETY: as in `let_go`.
        unsafe { drop(Box::from_raw(Box::from_raw(tensor).manager_ctx.cast::<Exported<R>>())) };
    }
}

/// Puts what the consumer does after everything that is queued here.
fn hand_over(allocation: &mut Allocation, consumer: Option<&Stream>) -> Result<(), Error> {
    let Backend::Cuda(cuda) = &allocation.device.backend else { return Ok(()) };
    cuda.bind()?;
    if let Some(consumer) = consumer
        && !std::ptr::eq(consumer.device().state, allocation.device)
    {
        let (source_device, destination) = (allocation.device.label().into(), consumer.device().label().into());
        return Err(Error::DifferentDevices { source_device, destination });
    }
    let foreign = consumer.and_then(Stream::foreign);
    // What belongs to the consumer's own stream is in its order already.
    if let (Some(on), Some(foreign)) = (allocation.only_on(), foreign)
        && on.id == foreign.id()
    {
        return Ok(());
    }
    if allocation.only_on().is_some() {
        return cuda.synchronize_context();
    }
    let default = cuda.default_stream()?;
    allocation.usage.last().settle_free(cuda, default)?;
    match foreign {
        Some(foreign) => {
            cuda.refuse_elsewhere(&foreign.slot)?;
            cuda.refuse_capturing(&foreign.slot, "taking a tensor of ours, which the graph would not keep,")?;
            cuda.order_foreign(default.enter().stream(), foreign.slot.enter().stream())
        }
        None => cuda.synchronize(default),
    }
}
