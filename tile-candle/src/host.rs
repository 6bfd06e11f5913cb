//! The CPU: slices of candle, lent to the fast simulator.

use crate::{CandleElement, Lies, failed};
use candle_core::{CpuStorage, Result, Shape};
use tile_runtime::interop::{Lent, LentMut, lend_host, lend_host_mut};
use tile_runtime::{Device, LaunchError, Stream};

/// The simulator's stream.
pub(crate) fn stream() -> Result<Stream> {
    Device::simulator().stream().map_err(failed)
}

/// A tensor of candle, lent to be read.
pub(crate) fn lent<'a, T: CandleElement, const R: usize>(
    on: &Stream,
    storage: &'a CpuStorage,
    lies: Lies<'_>,
) -> Result<Lent<'a, T, R>> {
    lend_host(on.device(), storage.as_slice::<T>()?, lies.placement::<R>()?).map_err(failed)
}

/// A tensor of candle, lent to be written.
pub(crate) fn lent_mut<'a, T: CandleElement, const R: usize>(
    on: &Stream,
    storage: &'a mut CpuStorage,
    lies: Lies<'_>,
) -> Result<LentMut<'a, T, R>> {
    lend_host_mut(on.device(), T::slice_mut(storage)?, lies.placement::<R>()?).map_err(failed)
}

/// A new tensor of this shape, zeros that `launch` has written to.
pub(crate) fn output<T: CandleElement, const R: usize>(
    on: &Stream,
    shape: [usize; R],
    launch: impl FnOnce(&mut LentMut<'_, T, R>) -> std::result::Result<(), LaunchError>,
) -> Result<(CpuStorage, Shape)> {
    let mut values = vec![T::default(); shape.iter().product()];
    launch(&mut lend_host_mut(on.device(), &mut values, shape).map_err(failed)?).map_err(failed)?;
    Ok((T::to_cpu_storage_owned(values), Shape::from(shape.to_vec())))
}
