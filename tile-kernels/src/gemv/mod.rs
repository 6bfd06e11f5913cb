//! `y = alpha W x + beta y`: [`gemv`] on tensors, [`Choice`] of the kernel and its instance.
//!
//! | kernel | what it is for |
//! |---|---|
//! | [`kernel`] | every K, without being compiled for it: a call launches it where no other kernel serves |
//! | [`specialized`] | a K that is known when it is compiled |
//! | [`rows`] | short rows, which share a warp; rows that are aligned to 8 or 4 bytes, or to an element, with a pitch |
//! | [`lines`] | rows that lie side by side and are not aligned: 16-byte loads inside of them |
//! | [`split`] | few long rows: the blocks of a cluster share one |
//! | [`bulk`], [`ring`] | weights that arrive by bulk copies, a constant number of rows a block or equally many in each |
//! | [`columns`] | `y = W^T x`, which [`gemm`](fn@crate::gemm::gemm) makes of products of one row |
//! | [`stream`] | a decode step's products, with what happens before and after them |
//!
//! [`candidates()`] lists what a call may launch, with the time that [`model`] expects of it; the call takes the least.
//!
//! f16, bf16 and f32; any N and K; `W` may be a view with a row pitch. Sums are accumulated in f32 in an order that
//! depends only on the shape and the instance, so that equal calls give equal bits.

pub mod bulk;
pub mod candidates;
mod choice;
pub mod columns;
pub mod kernel;
pub mod lines;
pub mod model;
pub mod parts;
pub mod ring;
pub mod rows;
pub mod specialized;
pub mod split;
pub mod stream;
mod tuned;
mod work;

pub use candidates::{Candidate, Problem, candidates};
pub use choice::Choice;
pub use tuned::{Tuned, ranked, tuned};

use tile_runtime::kernel::Target;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::{Element, LaunchError};

/// The scalars of `y = alpha W x + beta y`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemv {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the old `y`; where it is 0, `y` is not read and may hold anything.
    pub beta: f32,
}

impl Default for Gemv {
    /// `y = W x`.
    fn default() -> Self {
        Gemv { alpha: 1.0, beta: 0.0 }
    }
}

/// An element type of [`gemv`].
pub trait GemvElement: Element {
    #[doc(hidden)]
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        choice: Choice,
        w: impl TensorInput<Self, 2>,
        x: impl TensorInput<Self, 1>,
        y: impl TensorOutput<Self, 1>,
        scalars: Gemv,
    ) -> Result<(), LaunchError>;
}

/// `y = alpha W x + beta y` on a device or stream: `w` of shape `[N, K]`, `x` of `[K]`, `y` of `[N]`.
///
/// The kernel and its instance are chosen from the shape and from how `w` and `x` are aligned ([`Choice::of`]). Most kernels are
/// compiled for each K, so the first call with another K compiles one.
///
/// # Errors
/// Where shapes disagree, a tensor lives elsewhere, or `y` overlaps an operand; and whatever compiling and launching
/// may fail with. Nothing is launched then.
#[track_caller]
pub fn gemv<T: GemvElement>(
    on: &impl LaunchOn,
    w: impl TensorInput<T, 2>,
    x: impl TensorInput<T, 1>,
    y: impl TensorOutput<T, 1>,
    scalars: Gemv,
) -> Result<(), LaunchError> {
    let choice = match (w.argument(), x.argument()) {
        (Argument::Tensor(w), Argument::Tensor(x)) => {
            Choice::remembered(Problem::of(&w, &x, on.device().supports(Target::Sm90a)))
        }
        _ => Choice::default(),
    };
    T::launch(on, choice, w, x, y, scalars)
}

/// The kernel as data.
pub fn definition() -> &'static Definition {
    kernel::gemv::<f32>::definition()
}
