//! `c = f(alpha a b + beta c + bias)`: [`gemm`] on tensors, [`kernel`] as it is written, [`Choice`] of the instance.
//!
//! f16 and bf16, either operand stored transposed, any M, N and K; accumulated in f32 in an order that depends only on the
//! shape and the instance. On Hopper, operands whose rows begin at multiples of 16 bytes are fetched by the tensor memory
//! accelerator and multiplied by `wgmma`; any others, and other devices, take a slower kernel ([`kernel::gemm_any`]).

mod choice;
pub mod kernel;

pub use choice::Choice;

use tile_runtime::kernel::{Argument, Definition, LaunchOn, Target, TensorInput, TensorOutput, TensorRef};
use tile_runtime::{Element, LaunchError, Tensor, f16};

/// What is done with the product.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a, T: Element> {
    /// Whether `a` is stored as K x M instead of M x K.
    pub a_transposed: bool,
    /// Whether `b` is stored as N x K instead of K x N.
    pub b_transposed: bool,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the old `c`; where it is 0, `c` is not read and may hold anything.
    pub beta: f32,
    /// Added to every row: one value a column.
    pub bias: Option<&'a Tensor<T, 1>>,
    /// Applied to the sum.
    pub activation: Activation,
}

impl<T: Element> Default for Gemm<'_, T> {
    /// `c = a b`, both stored as they are.
    fn default() -> Self {
        Gemm {
            a_transposed: false,
            b_transposed: false,
            alpha: 1.0,
            beta: 0.0,
            bias: None,
            activation: Activation::None,
        }
    }
}

impl<T: Element> Gemm<'_, T> {
    /// `c = a b^T`: `b` is stored as N x K, as the weights of a linear layer are.
    pub fn nt() -> Self {
        Gemm { b_transposed: true, ..Gemm::default() }
    }

    /// Whether anything is done with the product at all.
    fn is_plain(&self) -> bool {
        self.alpha == 1.0 && self.beta == 0.0 && self.bias.is_none() && self.activation == Activation::None
    }
}

/// A function of the sum, element by element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// The sum itself.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `0.5 x (1 + tanh(0.79788 (x + 0.044715 x^3)))`.
    Gelu,
    /// `x / (1 + e^-x)`.
    Silu,
}

/// An element type of [`gemm`].
pub trait GemmElement: Element {
    #[doc(hidden)]
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        choice: Choice,
        a: impl TensorInput<Self, 2>,
        b: impl TensorInput<Self, 2>,
        c: impl TensorOutput<Self, 2>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;
}

/// `c = f(alpha a b + beta c + bias)` on a device or stream: `a` of shape `[M, K]` (or `[K, M]`), `b` of `[K, N]` (or
/// `[N, K]`), `c` of `[M, N]`, the bias of `[N]`.
///
/// The instance is chosen from the shape and from how the operands are aligned.
///
/// # Errors
/// Where shapes disagree, a tensor lives elsewhere, or `c` overlaps an operand; and whatever compiling and launching may
/// fail with. Nothing is launched then.
#[track_caller]
pub fn gemm<T: GemmElement>(
    on: &impl LaunchOn,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<T, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let choice = match (a.argument(), b.argument(), c.argument()) {
        (Argument::Tensor(a), Argument::Tensor(b), Argument::Tensor(c)) => {
            let [m, n] = extents(&c);
            let [rows, cols] = extents(&a);
            let k = if options.a_transposed { rows } else { cols };
            let aligned = [&a, &b, &c].into_iter().all(is_aligned) && on.device().supports(Target::Sm90a);
            Choice { aligned, ..Choice::for_shape(m, n, k, [options.a_transposed, options.b_transposed]) }
        }
        _ => Choice::default(),
    };
    T::launch(on, choice, a, b, c, options)
}

/// The extents of a matrix.
fn extents(tensor: &TensorRef<'_>) -> [i64; 2] {
    match *tensor.shape() {
        [rows, cols] => [rows, cols],
        _ => [0, 0],
    }
}

/// Whether every row begins at a multiple of 16 bytes.
fn is_aligned(tensor: &TensorRef<'_>) -> bool {
    let bytes = i64::from(tensor.dtype().bytes());
    let pitch = tensor.strides().first().copied().unwrap_or(1) * bytes;
    tensor.address().is_multiple_of(16) && pitch % 16 == 0
}

/// The kernel for aligned operands, as data.
pub fn definition() -> &'static Definition {
    kernel::gemm::<f16>::definition()
}
