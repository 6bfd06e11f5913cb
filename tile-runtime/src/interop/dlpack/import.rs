//! Tensors in.

use super::super::{Placement, order_after};
use super::abi::{self, DLTensor};
use super::{Managed, data_type, name_of, problem};
use crate::allocation::{Allocation, Keeper};
use crate::device::{Backend, Device, DeviceState};
use crate::element::Element;
use crate::error::{Error, ShapeError};
use crate::kernel::LaunchOn;
use crate::owner::Owner;
use crate::stream::Stream;
use crate::tensor::Tensor;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use tile_ir::sim::Memory;

/// The tensor that a tensor in DLPack's form becomes, without a copy. It lets the original go when nothing uses it any more:
/// tensors, graphs and prepared launches.
///
/// `on` is a device or one of its streams, and the tensor may be used on all of them: then `produced_on` is the stream
/// (`CUstream`) on which the producer has queued what writes the elements, which is waited for, or `None` where that is done;
/// the host waits for all uses before the original is let go. Where `on` is a borrowed stream, the tensor belongs to it: it is
/// used there alone, in its order, and let go at once when it is dropped.
///
/// Strides may leave gaps between rows. A tensor that the producer marks as read-only cannot be written.
///
/// # Safety
/// The structure tells the truth about its memory, which is initialised and valid until the deleter is called. Until then
/// nobody else writes it, nor, unless it is only read here, reads it, except in an order that the streams make. Where `on` is
/// a borrowed stream, what the deleter frees is reused in that stream's order only. `produced_on` is a stream.
///
/// # Errors
/// [`Error::Dlpack`]: another element type, rank or device than `T`, `R` and `on`. [`Error::Shape`]: strides that do not fit;
/// an address where no element can begin. [`Error::Memory`]: host memory that does not begin at a multiple of 4 bytes.
/// [`Error::ForeignStream`]: `produced_on` is being captured. The original is let go.
pub unsafe fn import<T: Element, const R: usize>(
    on: &impl LaunchOn,
    managed: Managed,
    produced_on: Option<*mut c_void>,
) -> Result<Tensor<T, R>, Error> {
    let device = on.device();
    let tensor = managed.tensor();
    let placement = placement::<T, R>(tensor)?;
    check_device(tensor, device)?;
    let layout = placement.checked()?;
    let overflow = || ShapeError::Overflow { shape: placement.shape.to_vec() };
    let bytes = layout.span().and_then(|span| span.checked_mul(size_of::<T>())).filter(|b| *b <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(overflow)?;
    let address = match bytes {
        0 => 0,
        _ => (tensor.data.addr() as u64).checked_add(tensor.byte_offset).ok_or_else(overflow)?,
    };
    if bytes > 0 && tensor.data.is_null() {
        return Err(problem(format!("{} elements of memory at the null pointer", layout.len())));
    }
    if !address.is_multiple_of(size_of::<T>() as u64) {
        return Err(ShapeError::Address { address, multiple: size_of::<T>() }.into());
    }
    let writable = !managed.is_read_only();
    let allocation = match &device.state.backend {
        Backend::Simulator { .. } => {
            let start = match bytes {
                0 => NonNull::dangling(),
                // The offset is less than the address that it was added to without overflow.
                _ => NonNull::new(tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize))
                    .ok_or_else(super::null)?,
            };
            // SAFETY: the caller vouches for the memory until the deleter is called, which the memory does when it ends.
            let memory = unsafe { Memory::foreign(start, bytes, !writable, Some(Box::new(managed))) }?;
            Allocation::of_host(device.state, memory, Owner::host(writable, false))
        }
        Backend::Cuda(cuda) => {
            let keeper = Keeper { _what: Box::new(managed), freed_on: None };
            let owner = match on.stream().and_then(Stream::foreign) {
                Some(stream) => Some(Owner::on(stream, null_mut(), writable, false)),
                None => {
                    if let Some(stream) = produced_on {
                        order_after(cuda, stream)?;
                    }
                    (!writable).then(|| Owner::host(false, false))
                }
            };
            Allocation::foreign(device.state, address, bytes, owner).kept_by(keeper)
        }
    };
    Ok(Tensor::from_parts(Arc::new(allocation), layout))
}

/// Shape and strides, of a tensor of this element type and rank.
fn placement<T: Element, const R: usize>(tensor: &DLTensor) -> Result<Placement<R>, Error> {
    let expected = data_type(T::DTYPE);
    if tensor.dtype != expected {
        return Err(problem(format!("elements of {}, and {} are expected", name_of(tensor.dtype), name_of(expected))));
    }
    if usize::try_from(tensor.ndim) != Ok(R) {
        return Err(problem(format!("{} axes, and {R} are expected", tensor.ndim)));
    }
    if tensor.shape.is_null() {
        return Err(problem("the shape is the null pointer"));
    }
    let read = |from: *const i64, what: &str| -> Result<[usize; R], Error> {
        let mut values = [0; R];
        for (axis, value) in values.iter_mut().enumerate() {
            // SAFETY: a valid structure has `ndim` extents, and as many strides where there are any; `ndim` is `R`.
            let found = unsafe { from.add(axis).read() };
            *value = usize::try_from(found)
                .map_err(|_| problem(format!("the {what} of axis {axis} is {found}, and at least 0 is expected")))?;
        }
        Ok(values)
    };
    let shape = read(tensor.shape, "extent")?;
    let compact = tensor.strides.is_null() || shape.contains(&0);
    let strides = if compact { None } else { Some(read(tensor.strides, "stride")?) };
    Ok(Placement { offset: 0, shape, strides })
}

/// Checks that the memory is this device's.
fn check_device(tensor: &DLTensor, device: &Device) -> Result<(), Error> {
    let found = tensor.device;
    let expected = device_of(device.state);
    if found == expected || (expected.device_type == abi::CPU && found.device_type == abi::CPU) {
        return Ok(());
    }
    let name = |device: abi::DLDevice| match device.device_type {
        abi::CPU => "the host".to_owned(),
        abi::CUDA => format!("cuda:{}", device.device_id),
        other => format!("device {} of type {other}", device.device_id),
    };
    Err(problem(format!("memory of {}, and of {} is expected", name(found), name(expected))))
}

/// The device as DLPack names it.
pub(super) fn device_of(device: &DeviceState) -> abi::DLDevice {
    match &device.backend {
        Backend::Simulator { .. } => abi::DLDevice { device_type: abi::CPU, device_id: 0 },
        Backend::Cuda(cuda) => abi::DLDevice { device_type: abi::CUDA, device_id: cuda.ordinal as i32 },
    }
}
