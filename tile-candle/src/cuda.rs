//! CUDA: slices of candle, lent on candle's stream.

use crate::{CandleElement, failed, placement};
use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::CudaStream;
use candle_core::{CudaDevice, CudaStorage, Layout, Result, Shape};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tile_runtime::interop::{Lent, LentMut, borrow_cudarc_stream, lend_cudarc, lend_cudarc_mut};
use tile_runtime::{Device, LaunchError, Stream};

/// How many streams a thread keeps borrowed.
const KEPT: usize = 16;

/// Candle's stream, borrowed. A thread borrows a stream once and keeps it, so that kernels find their workspaces again and a
/// call asks the driver nothing; candle's default stream is another one in every thread.
pub(crate) fn stream(device: &CudaDevice) -> Result<Rc<Stream>> {
    thread_local! {
        /// Streams of candle with what they were borrowed as, the one used last first.
        static STREAMS: RefCell<Vec<(Arc<CudaStream>, Rc<Stream>)>> = const { RefCell::new(Vec::new()) };
    }
    let owner = device.cuda_stream();
    STREAMS.with_borrow_mut(|streams| {
        match streams.iter().position(|(known, _)| Arc::ptr_eq(known, &owner)) {
            Some(at) => streams[..=at].rotate_right(1),
            None => {
                let device = Device::cuda(owner.context().ordinal()).map_err(failed)?;
                let stream = borrow_cudarc_stream(&device, &owner).map_err(failed)?;
                streams.truncate(KEPT - 1);
                streams.insert(0, (owner, Rc::new(stream)));
            }
        }
        Ok(streams[0].1.clone())
    })
}

/// A tensor of candle, lent to be read.
pub(crate) fn lent<'a, T: CandleElement, const R: usize>(
    on: &Stream,
    storage: &'a CudaStorage,
    layout: &Layout,
) -> Result<Lent<'a, T, R>> {
    lend_cudarc(on, storage.as_cuda_slice::<T>()?, placement::<R>(layout)?).map_err(failed)
}

/// A tensor of candle, lent to be written.
pub(crate) fn lent_mut<'a, T: CandleElement, const R: usize>(
    on: &Stream,
    storage: &'a mut CudaStorage,
    layout: &Layout,
) -> Result<LentMut<'a, T, R>> {
    lend_cudarc_mut(on, storage.as_cuda_slice_mut::<T>()?, placement::<R>(layout)?).map_err(failed)
}

/// A new tensor of this shape that `launch` has written to; zeros before, unless it writes the `whole` of it.
pub(crate) fn output<T: CandleElement, const R: usize>(
    on: &Stream,
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
    launch(&mut lend_cudarc_mut(on, &mut slice, shape).map_err(failed)?).map_err(failed)?;
    Ok((CudaStorage::wrap_cuda_slice(slice, device.clone()), Shape::from(shape.to_vec())))
}
