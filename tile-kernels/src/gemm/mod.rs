//! `c = f(alpha a b + beta c + bias)`: [`gemm`] on tensors, [`gemm_batched`] on many, [`kernel`] as it is written,
//! [`Choice`] of the instance. [`activation`] and [`operands`] are parts of it that other kernels may call.
//!
//! f16 and bf16 into their own type or f32, and f32; either operand stored transposed, any M, N and K; accumulated in f32
//! in an order that depends only on the shape and the instance. On Hopper, 16-bit operands whose rows begin at multiples of
//! 16 bytes are fetched by the tensor memory accelerator and multiplied by `wgmma`; of any others, and on other devices, every
//! thread copies a part, by as many bytes as lie together: a lesser alignment class of the same kernel ([`class`]). Where tiles are few,
//! blocks share K: [`split`] of what TMA fetches, [`parts`] of all else.

pub mod activation;
pub mod batched;
mod choice;
pub mod copied;
mod epilogue;
pub mod full;
pub mod kernel;
pub mod model;
pub mod operands;
pub mod parts;
pub mod split;
pub mod tf32;

pub use batched::gemm_batched;
pub use choice::{Choice, Tile};

use copied::Operands;

use std::cell::RefCell;
use tile_runtime::kernel::{
    Argument, Class, Definition, LaunchOn, Place, Target, TensorInput, TensorOutput, TensorRef,
};
use tile_runtime::{Element, Error, LaunchError, Tensor, f16};

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

    /// These options with f32 operands multiplied as tf32: [`Precision::Tf32`].
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

/// An element type of the operands of [`gemm`], where the result's is `C`: f16 and bf16 for their own and for f32, and f32.
///
/// f32 is multiplied as f32, by multiply-adds, or where it is asked for ([`Gemm::tf32`]) as tf32, on tensor cores.
pub trait GemmElement<C: Element = Self>: Element {
    #[doc(hidden)]
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
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
        shape: batched::Shape,
        a: impl TensorInput<Self, 3>,
        b: impl TensorInput<Self, 3>,
        c: impl TensorOutput<C, 3>,
        options: &Gemm<'_, Self>,
    ) -> Option<Result<(), LaunchError>>;
}

/// `c = f(alpha a b + beta c + bias)` on a device or stream: `a` of shape `[M, K]` (or `[K, M]`), `b` of `[K, N]` (or
/// `[N, K]`), `c` of `[M, N]`, the bias of `[N]`.
///
/// The instance is chosen from the shape, the type and precision, and from whether the device's TMA can fetch the operands; where there
/// are few tiles and K is long, blocks share K ([`split`], [`parts`]), with the same bits at every launch. What their
/// addresses, pitches and extents allow beyond that is its alignment class ([`class`]), which a GPU that could do better with
/// others says on stderr.
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
    let (choice, us) = choice(on, [a.argument(), b.argument(), c.argument()], options);
    // A long launch loses more by what starts beside it than it gains by its own early start.
    let place = Place::of(on);
    let place = if us < model::Parameters::H200.early { place } else { place.in_order() };
    T::launch(&place, choice, a, b, c, options)
}

/// Every choice that [`gemm`] has for these, with the us that it expects of each: the first is what it takes.
pub fn candidates<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Vec<(Choice, f64)> {
    ranked(on, [a.argument(), b.argument(), c.argument()], options)
}

/// [`gemm`] by a choice of [`candidates`], for benchmarks and tuning.
///
/// # Errors
/// As [`gemm`].
#[track_caller]
pub fn gemm_by<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    choice: Choice,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    T::launch(&Place::of(on), choice, a, b, c, options)
}

/// The alignment class in which [`gemm`] is launched with these: how wide the pieces are that operands are read in, and
/// those that the result is written in.
///
/// # Errors
/// What the launch would fail with before it runs.
pub fn class<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<Class, Error> {
    let (choice, _) = choice(on, [a.argument(), b.argument(), c.argument()], options);
    let number = options.activation.number();
    if let Some(parts::Parts { tile: (bm, bn, bk, stages, threads), tf32, slots }) = choice.parts {
        let params = parts::GemmPartsParams {
            BM: bm as usize,
            BN: bn as usize,
            BK: bk,
            STAGES: stages,
            THREADS: threads,
            TF32: tf32,
            A_T: options.a_transposed,
            B_T: options.b_transposed,
        };
        let kernel = parts::gemm_parts::<T, C>::instance(on.device(), params)?;
        return Ok(kernel.class(a, b, c, options.bias, options.alpha, options.beta, number, slots)?);
    }
    // The kernels of tf32 have as many classes as that of f32.
    let stored = [options.a_transposed, options.b_transposed];
    let (bm, bn, bk, stages, threads, cluster) = match options.precision {
        Precision::Tf32 if T::DTYPE.bytes() == 4 => full::tile_for(128, 128, stored),
        Precision::Tf32 | Precision::Full => choice.tile,
    };
    let params = kernel::GemmParams {
        BM: bm as usize,
        BN: bn as usize,
        BK: bk,
        STAGES: stages,
        THREADS: threads,
        CY: cluster,
        A_T: options.a_transposed,
        B_T: options.b_transposed,
        EPILOGUE: !options.is_plain(),
    };
    let kernel = kernel::gemm::<T, C>::instance(on.device(), params)?;
    Ok(kernel.class(a, b, c, options.bias, options.alpha, options.beta, number)?)
}

/// A product as far as its choice depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Problem {
    shape: [i64; 3],
    stored: [bool; 2],
    /// Whether rows of the result begin at multiples of 16 bytes: sums that are put aside are added and stored 4 at a time.
    splits: bool,
    operands: Operands,
}

impl Problem {
    /// The choices that there are, with the us expected of each.
    fn candidates(self) -> impl Iterator<Item = (Choice, f64)> {
        let Problem { shape, stored, splits, operands } = self;
        let legal = Choice::of_operands(operands, shape, stored, splits);
        legal.map(move |choice| (choice, choice.us(operands, shape, stored)))
    }

    /// The choice that a call takes, and then the others that there are, the fastest first.
    fn ranked(self) -> Vec<(Choice, f64)> {
        let taken = self.fastest();
        let mut all: Vec<(Choice, f64)> = self.candidates().filter(|(choice, _)| *choice != taken.0).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.insert(0, taken);
        all
    }

    /// The fastest of the choices whose times were fitted to measured ones; or one of [`parts`], whose were not yet, where it is expected
    /// to take less than [`SURE`] of that.
    fn fastest(self) -> (Choice, f64) {
        let Problem { shape, stored, operands, .. } = self;
        let (parts, tiles): (Vec<_>, Vec<_>) = self.candidates().partition(|(choice, _)| choice.parts.is_some());
        let fastest = |all: Vec<(Choice, f64)>| all.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let tile = match operands {
            Operands::Fetched => fastest(tiles).unwrap_or((Choice::default(), 0.0)),
            Operands::Copied { .. } | Operands::Full | Operands::Tf32 { .. } => {
                let choice = Choice::of_a_tile(operands, shape, stored);
                (choice, choice.us(operands, shape, stored))
            }
        };
        fastest(parts).filter(|(_, us)| *us < SURE * tile.1).unwrap_or(tile)
    }

    /// [`Problem::fastest`], remembered by the thread.
    fn choice(self) -> (Choice, f64) {
        let [m, n, k] = self.shape;
        let mixed = m.wrapping_mul(961).wrapping_add(n.wrapping_mul(31)).wrapping_add(k);
        let place = mixed.rem_euclid(REMEMBERED as i64) as usize;
        let known = CHOICES.with_borrow(|choices| choices.get(place).copied().flatten());
        if let Some((problem, choice)) = known
            && problem == self
        {
            return choice;
        }
        let fastest = self.fastest();
        CHOICES.with_borrow_mut(|choices| {
            if let Some(entry) = choices.get_mut(place) {
                *entry = Some((self, fastest));
            }
        });
        fastest
    }
}

/// Of the time of a tile, what a choice whose time is not fitted must be expected to take less than. Calls that were measured are up to
/// half as long again as their model says, or two thirds as long (`copied`'s tests).
const SURE: f64 = 0.75;

/// Products whose choices a thread remembers: finding one looks at some forty candidates.
const REMEMBERED: usize = 64;

/// A product, its choice and the us expected of it.
type Remembered = Option<(Problem, (Choice, f64))>;

thread_local! {
    static CHOICES: RefCell<[Remembered; REMEMBERED]> = const { RefCell::new([None; REMEMBERED]) };
}

/// What a call is chosen by; none where its arguments are no tensors, which the launch refuses.
fn asked<T: Element>(on: &impl LaunchOn, tensors: [Argument<'_>; 3], options: &Gemm<'_, T>) -> Option<Problem> {
    let [Argument::Tensor(a), Argument::Tensor(b), Argument::Tensor(c)] = tensors else {
        return None;
    };
    let [m, n] = extents(&c);
    let [rows, cols] = extents(&a);
    let k = if options.a_transposed { rows } else { cols };
    let stored = [options.a_transposed, options.b_transposed];
    let operands = match a.dtype().bytes() {
        4 if options.precision == Precision::Full => Operands::Full,
        4 => Operands::Tf32 { fetched: tf32::is_fetched(on, [&a, &b], stored) },
        _ if has_copy_engine(on, [&a, &b]) => Operands::Fetched,
        _ => Operands::Copied { width: piece([&a, &b]) },
    };
    Some(Problem { shape: [m, n, k], stored, splits: rows_begin_at(&c, 16), operands })
}

/// The widest pieces that rows of both operands are made of, in bytes.
fn piece(operands: [&TensorRef<'_>; 2]) -> i64 {
    let fits = |bytes: &i64| operands.iter().all(|operand| rows_are_made_of(operand, *bytes));
    [16, 8, 4].into_iter().find(fits).unwrap_or(2)
}

/// The instance for operands and a result, and the us expected of it; 0 where nothing is expected.
fn choice<T: Element>(on: &impl LaunchOn, tensors: [Argument<'_>; 3], options: &Gemm<'_, T>) -> (Choice, f64) {
    asked(on, tensors, options).map_or((Choice::default(), 0.0), Problem::choice)
}

/// What there is to choose from, by the time expected.
fn ranked<T: Element>(on: &impl LaunchOn, tensors: [Argument<'_>; 3], options: &Gemm<'_, T>) -> Vec<(Choice, f64)> {
    match asked(on, tensors, options) {
        Some(problem) => problem.ranked(),
        None => vec![(Choice::default(), 0.0)],
    }
}

/// The extents of a matrix.
fn extents(tensor: &TensorRef<'_>) -> [i64; 2] {
    match *tensor.shape() {
        [rows, cols] => [rows, cols],
        _ => [0, 0],
    }
}

/// Whether the device's TMA fetches these operands: 16-bit elements on Hopper, every row beginning at a multiple of 16
/// bytes.
fn has_copy_engine(on: &impl LaunchOn, operands: [&TensorRef<'_>; 2]) -> bool {
    let fits = |tensor: &&TensorRef<'_>| tensor.dtype().bytes() == 2 && rows_begin_at(tensor, 16);
    on.device().supports(Target::Sm90a) && operands.iter().all(fits)
}

/// Whether every row begins at a multiple of so many bytes.
fn rows_begin_at(tensor: &TensorRef<'_>, bytes: i64) -> bool {
    let size = i64::from(tensor.dtype().bytes());
    let outer = tensor.strides().len().saturating_sub(1);
    let pitches = tensor.strides().iter().take(outer).all(|stride| (stride * size) % bytes == 0);
    tensor.address().is_multiple_of(bytes as u64) && pitches
}

/// Whether every row begins at a multiple of so many bytes, and is a multiple of them long.
fn rows_are_made_of(tensor: &TensorRef<'_>, bytes: i64) -> bool {
    let row = tensor.shape().last().copied().unwrap_or(1) * i64::from(tensor.dtype().bytes());
    rows_begin_at(tensor, bytes) && row % bytes == 0
}

/// The kernel, as data.
pub fn definition() -> &'static Definition {
    kernel::gemm::<f16, f16>::definition()
}
