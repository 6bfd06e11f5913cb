//! `c = f(alpha a b + beta c + bias)`: [`gemm`] on tensors, [`gemm_batched`] on many, [`kernel`] as it is written,
//! [`Choice`] of the instance.
//!
//! f16 and bf16 into their own type or f32, and f32; either operand stored transposed, any M, N and K; accumulated in f32
//! in an order that depends only on the shape and the instance. On Hopper, 16-bit operands whose rows begin at multiples of
//! 16 bytes are fetched by the tensor memory accelerator and multiplied by `wgmma`; any others, and other devices, take
//! slower kernels ([`any`], [`Class`]).

pub mod any;
pub mod batched;
mod choice;
mod epilogue;
pub mod kernel;
pub mod split;
pub mod tf32;

pub use batched::gemm_batched;
pub use choice::{Choice, Tile};

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use tile_runtime::kernel::{Argument, Definition, Dtype, LaunchOn, Target, TensorInput, TensorOutput, TensorRef};
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
    /// What is multiplied of f32 operands; those of other types are multiplied as they are.
    pub precision: Precision,
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
            precision: Precision::Full,
        }
    }
}

impl<T: Element> Gemm<'_, T> {
    /// `c = a b^T`: `b` is stored as N x K, as the weights of a linear layer are.
    pub fn nt() -> Self {
        Gemm { b_transposed: true, ..Gemm::default() }
    }

    /// The same with f32 operands multiplied as tf32: [`Precision::Tf32`].
    pub fn tf32(self) -> Self {
        Gemm { precision: Precision::Tf32, ..self }
    }

    /// Whether anything is done with the product at all.
    fn is_plain(&self) -> bool {
        self.alpha == 1.0 && self.beta == 0.0 && self.bias.is_none() && self.activation == Activation::None
    }
}

/// What is multiplied of f32 operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// All of their bits, by multiply-adds.
    #[default]
    Full,
    /// The sign, the exponent and the leading 10 bits of the fraction, on tensor cores ([`tf32`]): each element is rounded
    /// towards zero, so that a sum is within `2^-9 sum |a| |b|` of the product of the elements as they are, and its own
    /// rounding in f32. Several times faster than [`Precision::Full`].
    Tf32,
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

impl Activation {
    /// The kernels' number of it.
    fn number(self) -> u32 {
        match self {
            Activation::None => 0,
            Activation::Relu => 1,
            Activation::Gelu => 2,
            Activation::Silu => 3,
        }
    }
}

/// How the operands are read: what their addresses, pitches and extents allow, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// By the tensor memory accelerator, multiplied by `wgmma`: 16-bit elements (or tf32, of `a b^T`) on Hopper, every row of `a`, `b` and `c`
    /// beginning at a multiple of 16 bytes.
    Tma,
    /// By asynchronous copies of 16 bytes: every row of `a` and `b` begins at a multiple of 16 bytes and is whole ones
    /// long.
    Copies16,
    /// The same with 8 bytes.
    Copies8,
    /// The same with 4 bytes: any matrix of f32.
    Copies4,
    /// An element of 2 bytes at a time.
    Elements,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Tma => "by the tensor memory accelerator",
            Class::Copies16 => "by asynchronous copies of 16 bytes",
            Class::Copies8 => "by asynchronous copies of 8 bytes",
            Class::Copies4 => "by asynchronous copies of 4 bytes",
            Class::Elements => "element by element",
        })
    }
}

/// An element type of the operands of [`gemm`], where the result's is `C`: f16 and bf16 for their own and for f32, and f32.
///
/// f32 is multiplied as f32, by multiply-adds, or where it is asked for ([`Gemm::tf32`]) as tf32, on tensor cores.
pub trait GemmElement<C: Element = Self>: Element {
    #[doc(hidden)]
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        class: Class,
        choice: Choice,
        a: impl TensorInput<Self, 2>,
        b: impl TensorInput<Self, 2>,
        c: impl TensorOutput<C, 2>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;

    /// All batches at once, where there is a kernel for it.
    #[doc(hidden)]
    #[track_caller]
    fn launch_batch(
        on: &impl LaunchOn,
        tiles: usize,
        a: impl TensorInput<Self, 3>,
        b: impl TensorInput<Self, 3>,
        c: impl TensorOutput<C, 3>,
        options: &Gemm<'_, Self>,
    ) -> Option<Result<(), LaunchError>>;
}

/// `c = f(alpha a b + beta c + bias)` on a device or stream: `a` of shape `[M, K]` (or `[K, M]`), `b` of `[K, N]` (or
/// `[N, K]`), `c` of `[M, N]`, the bias of `[N]`.
///
/// The instance is chosen from the shape and from how the operands are aligned ([`class`]). On a GPU, the first launch of
/// a class that is not the device's fastest says so on stderr.
///
/// # Errors
/// Where shapes disagree, a tensor lives elsewhere, or `c` overlaps an operand; and whatever compiling and launching may
/// fail with. Nothing is launched then.
#[track_caller]
pub fn gemm<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let (class, choice) = match (a.argument(), b.argument(), c.argument()) {
        (Argument::Tensor(a), Argument::Tensor(b), Argument::Tensor(c)) => {
            let [m, n] = extents(&c);
            let [rows, cols] = extents(&a);
            let k = if options.a_transposed { rows } else { cols };
            (
                tf32::class_of(on, [&a, &b, &c], options),
                Choice::for_shape(m, n, k, [options.a_transposed, options.b_transposed]),
            )
        }
        _ => (Class::Elements, Choice::default()),
    };
    say(on, T::DTYPE, class);
    T::launch(on, class, choice, a, b, c, options)
}

/// How [`gemm`] reads these operands on this device.
pub fn class<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
) -> Class {
    match (a.argument(), b.argument(), c.argument()) {
        (Argument::Tensor(a), Argument::Tensor(b), Argument::Tensor(c)) => class_of(on, [&a, &b, &c]),
        _ => Class::Elements,
    }
}

/// The extents of a matrix.
fn extents(tensor: &TensorRef<'_>) -> [i64; 2] {
    match *tensor.shape() {
        [rows, cols] => [rows, cols],
        _ => [0, 0],
    }
}

/// The class of a, b and c.
fn class_of(on: &impl LaunchOn, tensors: [&TensorRef<'_>; 3]) -> Class {
    let [a, b, _] = tensors;
    let half = a.dtype().bytes() == 2;
    if half && tensors.into_iter().all(|t| rows_begin_at(t, 16)) && on.device().supports(Target::Sm90a) {
        return Class::Tma;
    }
    let whole = |tensor: &TensorRef<'_>, bytes: i64| {
        let row = tensor.shape().last().copied().unwrap_or(1) * i64::from(tensor.dtype().bytes());
        rows_begin_at(tensor, bytes) && row % bytes == 0
    };
    let classes = [(16, Class::Copies16), (8, Class::Copies8), (4, Class::Copies4)];
    let widest = classes.into_iter().find(|(bytes, _)| whole(a, *bytes) && whole(b, *bytes));
    widest.map_or(Class::Elements, |(_, class)| class)
}

/// Whether every row begins at a multiple of so many bytes.
fn rows_begin_at(tensor: &TensorRef<'_>, bytes: i64) -> bool {
    let size = i64::from(tensor.dtype().bytes());
    let outer = tensor.strides().len().saturating_sub(1);
    let pitches = tensor.strides().iter().take(outer).all(|stride| (stride * size) % bytes == 0);
    tensor.address().is_multiple_of(bytes as u64) && pitches
}

/// Says, once a class, that a launch on a GPU takes a lesser one than the device has.
fn say(on: &impl LaunchOn, dtype: Dtype, class: Class) {
    if class == Class::Tma {
        return;
    }
    static SAID: [AtomicBool; 5] = [const { AtomicBool::new(false) }; 5];
    let device = on.device();
    let best = match dtype.bytes() {
        2 if device.supports(Target::Sm90a) => Class::Tma,
        _ => Class::Copies16,
    };
    if class <= best || device.is_simulator() || SAID[class as usize].swap(true, Ordering::Relaxed) {
        return;
    }
    eprintln!(
        "tile: gemm: operands are read {class}, not {best}: their addresses, pitches or rows are not multiples of enough \
         bytes (said once)"
    );
}

/// The kernel for aligned operands, as data.
pub fn definition() -> &'static Definition {
    kernel::gemm::<f16, f16>::definition()
}
