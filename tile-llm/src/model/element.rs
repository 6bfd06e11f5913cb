//! The types that a model computes in.

use tile_kernels::attention;
use tile_kernels::gemm::GemmElement;
use tile_kernels::gemv::GemvElement;
use tile_runtime::dsl::Float;
use tile_runtime::kernel::LaunchOn;
use tile_runtime::{Error, Tensor, TensorView, TensorViewMut, bf16, f16};

/// An element type a model computes in: f16, bf16 or f32.
pub trait ModelElement: Float + crate::weights::Float + GemvElement + GemmElement + GemmElement<f32> {
    /// Whether attention has a kernel for the many tokens of a prompt.
    #[doc(hidden)]
    const HAS_PREFILL: bool;

    /// Launches that kernel.
    #[doc(hidden)]
    fn prefill(
        on: &impl LaunchOn,
        q: TensorView<'_, Self, 3>,
        cache: &[Tensor<Self, 4>; 2],
        pages: TensorView<'_, u32, 1>,
        o: TensorViewMut<'_, Self, 3>,
        past: usize,
    ) -> Result<(), Error>;
}

macro_rules! element {
    ($($ty:ty),*) => {$(
        impl ModelElement for $ty {
            const HAS_PREFILL: bool = true;

            fn prefill(
                on: &impl LaunchOn,
                q: TensorView<'_, Self, 3>,
                [k, v]: &[Tensor<Self, 4>; 2],
                pages: TensorView<'_, u32, 1>,
                o: TensorViewMut<'_, Self, 3>,
                past: usize,
            ) -> Result<(), Error> {
                attention::prefill(on, q, k, v, pages, o, past, None)
            }
        }
    )*};
}

element!(f16, bf16);

impl ModelElement for f32 {
    const HAS_PREFILL: bool = false;

    fn prefill(
        _: &impl LaunchOn,
        _: TensorView<'_, Self, 3>,
        _: &[Tensor<Self, 4>; 2],
        _: TensorView<'_, u32, 1>,
        _: TensorViewMut<'_, Self, 3>,
        _: usize,
    ) -> Result<(), Error> {
        Ok(())
    }
}
