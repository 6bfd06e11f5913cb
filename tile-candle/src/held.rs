//! Tensors that an op uses beside its inputs.

use crate::{CandleElement, Lies};
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::CudaSlice;
use candle_core::{Error, Result, Storage, Tensor, WithDType};
use parking_lot::{MappedRwLockReadGuard, RwLockReadGuard};
use tile_runtime::Stream;
use tile_runtime::interop::{Lent, Placement, lend_host};

/// A tensor of candle that nobody writes while this lives: an input beside those of an op, of which candle has three at most.
pub struct Held<'a, T, const R: usize> {
    memory: Memory<'a, T>,
    placement: Placement<R>,
}

enum Memory<'a, T> {
    Cpu(MappedRwLockReadGuard<'a, [T]>),
    #[cfg(feature = "cuda")]
    Cuda(MappedRwLockReadGuard<'a, CudaSlice<T>>),
}

/// Holds a tensor, to be lent in an op's launch. An in-place op on its storage waits until it is dropped; on this thread it
/// would wait for ever.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tile_candle::{Op3, hold};
///
/// mod kernels {
///     use tile_runtime::prelude::*;
///
///     /// y = a + b + c + d.
///     #[tile_kernel]
///     pub fn sum4(
///         a: &Tensor<f32, (N,)>,
///         b: &Tensor<f32, (N,)>,
///         c: &Tensor<f32, (N,)>,
///         d: &Tensor<f32, (N,)>,
///         y: &mut Tensor<f32, (N,)>,
///     ) {
///         let [block] = blocks([ceil_div(N, 32)]);
///         let [t] = threads([32]);
///         let i = block * 32 + t;
///         if i < N {
///             y[i] = a[i] + b[i] + c[i] + d[i];
///         }
///     }
/// }
///
/// let x = Tensor::new(&[1f32, 2., 3.], &Device::Cpu)?;
/// let fourth = Tensor::new(&[10f32, 20., 30.], &Device::Cpu)?;
/// let held = hold::<f32, 1>(&fourth)?;
/// let op = Op3::new(
///     "sum4",
///     |[n]: [usize; 1], _: [usize; 1], _: [usize; 1]| Ok([n]),
///     |on, a, b, c, y| kernels::sum4::launch(on, a, b, c, &held.lend(on)?, y),
/// );
/// assert_eq!(x.apply_op3_no_bwd(&x, &x, &op)?.to_vec1::<f32>()?, [13., 26., 39.]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Another element type or rank; a tensor on Metal.
pub fn hold<T: CandleElement, const R: usize>(tensor: &Tensor) -> Result<Held<'_, T, R>> {
    let (storage, layout) = tensor.storage_and_layout();
    let placement = Lies::from(layout).placement::<R>()?;
    let expected =
        || Error::UnexpectedDType { msg: "a held tensor", expected: <T as WithDType>::DTYPE, got: tensor.dtype() }.bt();
    let memory = match &*storage {
        Storage::Cpu(_) => Memory::Cpu(RwLockReadGuard::try_map(storage, on_cpu::<T>).map_err(|_| expected())?),
        #[cfg(feature = "cuda")]
        Storage::Cuda(_) => Memory::Cuda(RwLockReadGuard::try_map(storage, on_cuda::<T>).map_err(|_| expected())?),
        _ => candle_core::bail!(
            "tile kernels run on the CPU and, with the feature `cuda`, on CUDA devices; the tensor is elsewhere"
        ),
    };
    Ok(Held { memory, placement })
}

fn on_cpu<T: CandleElement>(storage: &Storage) -> Option<&[T]> {
    match storage {
        Storage::Cpu(storage) => storage.as_slice::<T>().ok(),
        _ => None,
    }
}

#[cfg(feature = "cuda")]
fn on_cuda<T: CandleElement>(storage: &Storage) -> Option<&CudaSlice<T>> {
    match storage {
        Storage::Cuda(storage) => storage.as_cuda_slice::<T>().ok(),
        _ => None,
    }
}

impl<T: CandleElement, const R: usize> Held<'_, T, R> {
    /// The tensor, lent on the stream that a launch is given.
    ///
    /// # Errors
    /// The tensor is on another device; its layout does not fit: the innermost axis must be contiguous.
    pub fn lend(&self, on: &Stream) -> std::result::Result<Lent<'_, T, R>, tile_runtime::Error> {
        match &self.memory {
            Memory::Cpu(values) => lend_host(on.device(), values, self.placement),
            #[cfg(feature = "cuda")]
            Memory::Cuda(slice) => tile_runtime::interop::lend_cudarc(on, &**slice, self.placement),
        }
    }
}
