//! CUDA: slices of candle, lent on candle's stream.

use crate::{CandleElement, Lies, failed};
use candle_core::backend::BackendStorage;
use candle_core::{CudaDevice, CudaStorage, Result, Shape};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tile_runtime::interop::{CudaLender, Lent, LentMut};
use tile_runtime::{Device, LaunchError};

/// How many streams a thread keeps borrowed.
const KEPT: usize = 16;

/// Candle's stream, borrowed. A thread borrows a stream once and keeps it, so that kernels find their workspaces again and a
/// call asks the driver nothing; candle's default stream is another one in every thread.
pub(crate) fn lender(device: &CudaDevice) -> Result<Rc<CudaLender>> {
    thread_local! {
        /// Streams of candle, the one used last first.
        static LENDERS: RefCell<Vec<Rc<CudaLender>>> = const { RefCell::new(Vec::new()) };
    }
    let owner = device.cuda_stream();
    LENDERS.with_borrow_mut(|lenders| {
        match lenders.iter().position(|known| Arc::ptr_eq(known.owner(), &owner)) {
            Some(at) => lenders[..=at].rotate_right(1),
            None => {
                let device = Device::cuda(owner.context().ordinal()).map_err(failed)?;
                let lender = CudaLender::new(&device, &owner).map_err(failed)?;
                lenders.truncate(KEPT - 1);
                lenders.insert(0, Rc::new(lender));
            }
        }
        Ok(lenders[0].clone())
    })
}

/// A tensor of candle, lent to be read.
pub(crate) fn lent<'a, T: CandleElement, const R: usize>(
    on: &CudaLender,
    storage: &'a CudaStorage,
    lies: Lies<'_>,
) -> Result<Lent<'a, T, R>> {
    on.lend(storage.as_cuda_slice::<T>()?, lies.placement::<R>()?).map_err(failed)
}

/// A tensor of candle, lent to be written.
pub(crate) fn lent_mut<'a, T: CandleElement, const R: usize>(
    on: &CudaLender,
    storage: &'a mut CudaStorage,
    lies: Lies<'_>,
) -> Result<LentMut<'a, T, R>> {
    on.lend_mut(storage.as_cuda_slice_mut::<T>()?, lies.placement::<R>()?).map_err(failed)
}

/// A new tensor of this shape that `launch` has written to; zeros before, unless it writes the `whole` of it.
pub(crate) fn output<T: CandleElement, const R: usize>(
    on: &CudaLender,
    beside: &CudaStorage,
    shape: [usize; R],
    whole: bool,
    launch: impl FnOnce(&mut LentMut<'_, T, R>) -> std::result::Result<(), LaunchError>,
) -> Result<(CudaStorage, Shape)> {
    let device = beside.device();
    let len = shape.iter().product();
    let mut slice = match whole {
        // SAFETY: who says that the launch writes all of it vouches that nobody reads an element before.
        true => unsafe { device.alloc::<T>(len) },
        false => device.alloc_zeros::<T>(len),
    }?;
    let mut y = on.lend_mut(&mut slice, shape).map_err(failed)?;
    launch(&mut y).map_err(failed)?;
    on.take_back_mut(y);
    Ok((CudaStorage::wrap_cuda_slice(slice, device.clone()), Shape::from(shape.to_vec())))
}
