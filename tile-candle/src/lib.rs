//! Tile kernels on [candle](https://docs.rs/candle-core)'s storage and stream, without a copy.
//!
//! [`gemv`], [`gemm`] and [`attention`] are ready, and write to a new tensor or, as [`gemv_into`], [`gemm_into`] and
//! [`attention_into`], to one that is there.
//! [`Op1`], [`Op2`] and [`Op3`] make an op of any kernel: a name, the result's shape and a launch.
//!
//! ```
//! use tile_candle::Op1;
//! use tile_runtime::prelude::*;
//!
//! /// y = x + 1.
//! #[tile_kernel]
//! fn next(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
//!     let [b] = blocks([N]);
//!     let [t] = threads([32]);
//!     for k in (0..K).step_by(32) {
//!         if k + t < K {
//!             y[[b, k + t]] = x[[b, k + t]] + 1.0;
//!         }
//!     }
//! }
//!
//! let op = Op1::new("next", |shape: [usize; 2]| Ok(shape), |on, x, y| next::launch(on, x, y));
//! let x = candle_core::Tensor::zeros((2, 3), candle_core::DType::F32, &candle_core::Device::Cpu)?;
//! assert_eq!(x.apply_op1_no_bwd(&op)?.to_vec2::<f32>()?, [[1.0; 3]; 2]);
//! // The op `next` in place: its result goes into a tensor that exists.
//! x.copy()?.inplace_op2(&x, &op)?;
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! # Where kernels run
//!
//! On a tensor of the CPU, the fast simulator runs the kernel on candle's slices. On a tensor of a CUDA device (the feature
//! `cuda`), the kernel is launched on that device's own stream, in its order, on candle's memory: one call of the driver.
//! Where several streams of a candle device's context use its memory, cudarc orders them by events, and records one for
//! each tensor after each launch, as it does for candle's own kernels.
//!
//! # Layouts
//!
//! Offsets, and gaps between rows, are used as they are. The innermost axis must be contiguous, and elements may not overlap;
//! other layouts are refused with both numbers, and `contiguous()` makes a copy. Tensors have one to four axes.
//!
//! Gradients are not computed.
#![deny(missing_docs)]

mod attention;
#[cfg(feature = "cuda")]
mod cuda;
mod element;
mod held;
mod host;
mod lock;
mod op;
mod ready;

pub use attention::{AttentionOptions, attention, attention_into};
pub use element::CandleElement;
pub use held::{Held, hold};
pub use op::{Op1, Op2, Op3};
pub use ready::{GemmOptions, gemm, gemm_into, gemv, gemv_into};
pub use tile_kernels::gemm::{Activation, Precision};
pub use tile_kernels::gemv::Gemv;

use candle_core::{Error, Layout, Result};
use tile_runtime::interop::Placement;

/// An error of the runtime as one of candle.
fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::wrap(error)
}

/// How an operand lies in its storage: as candle's layout says, or, of a matrix, as the transpose of that.
#[derive(Clone, Copy)]
struct Lies<'a> {
    layout: &'a Layout,
    transposed: bool,
}

impl<'a> From<&'a Layout> for Lies<'a> {
    fn from(layout: &'a Layout) -> Self {
        Lies { layout, transposed: false }
    }
}

impl Lies<'_> {
    /// The extents of a tensor of this rank.
    #[inline]
    fn extents<const R: usize>(&self) -> Result<[usize; R]> {
        self.axes(self.layout.dims())
    }

    /// Where a tensor of this rank lies.
    #[inline]
    fn placement<const R: usize>(&self) -> Result<Placement<R>> {
        let (shape, strides) = (self.extents()?, self.axes(self.layout.stride())?);
        Ok(Placement { offset: self.layout.start_offset(), ..Placement::strided(shape, strides) })
    }

    /// A number an axis, for as many axes as there are to be.
    #[inline]
    fn axes<const R: usize>(&self, values: &[usize]) -> Result<[usize; R]> {
        let wrong = || Error::msg(format!("the kernel takes a tensor of {R} axes, and this one has {}", values.len()));
        let mut axes = <[usize; R]>::try_from(values).map_err(|_| wrong())?;
        if self.transposed {
            axes.reverse();
        }
        Ok(axes)
    }
}
