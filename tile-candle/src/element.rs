//! Element types that candle and kernels share.

use candle_core::{CpuStorage, Error, Result, WithDType};
use half::{bf16, f16};
use tile_runtime::interop::Plain;

mod sealed {
    pub trait Sealed {}
}

/// What candle's CUDA backend asks of an element type.
#[cfg(feature = "cuda")]
mod backend {
    use candle_core::cuda_backend::{CudaDType, cudarc::driver};

    pub trait Backend: CudaDType + driver::DeviceRepr + driver::ValidAsZeroBits {}
    impl<T: CudaDType + driver::DeviceRepr + driver::ValidAsZeroBits> Backend for T {}
}

#[cfg(not(feature = "cuda"))]
mod backend {
    pub trait Backend {}
    impl<T> Backend for T {}
}

/// An element type of candle and of kernels: f16, bf16, f32, u32, i32, u8.
pub trait CandleElement: Plain + WithDType + backend::Backend + sealed::Sealed {
    /// The elements, to be written.
    #[doc(hidden)]
    fn slice_mut(storage: &mut CpuStorage) -> Result<&mut [Self]>;
}

macro_rules! element {
    ($($ty:ty, $dtype:ident;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl CandleElement for $ty {
            fn slice_mut(storage: &mut CpuStorage) -> Result<&mut [Self]> {
                match storage {
                    CpuStorage::$dtype(values) => Ok(values),
                    other => Err(other_type::<Self>(other)),
                }
            }
        }
    )*};
}

element! {
    f16, F16;
    bf16, BF16;
    f32, F32;
    u32, U32;
    i32, I32;
    u8, U8;
}

/// The error of a storage of another element type.
fn other_type<T: WithDType>(storage: &CpuStorage) -> Error {
    use candle_core::backend::BackendStorage;
    Error::UnexpectedDType { msg: "an output of a kernel", expected: T::DTYPE, got: storage.dtype() }.bt()
}
