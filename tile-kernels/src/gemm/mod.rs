//! `c = f(alpha a b + beta c + bias)`: [`gemm`] on tensors, [`gemm_batched`] on many, [`kernel`] as it is written,
//! [`Choice`] of the instance. [`activation`] and [`operands`] are parts of it that other kernels may call.
//!
//! f16 and bf16 into their own type or f32, and f32; either operand stored transposed, any M, N and K; accumulated in f32
//! in an order that depends only on the shape and the instance. On Hopper, 16-bit operands whose rows begin at multiples of
//! 16 bytes are fetched by the tensor memory accelerator and multiplied by `wgmma`; of any others, and on other devices, every
//! thread copies a part, by as many bytes as lie together: a lesser alignment class of the same kernel ([`class`]). Where tiles are few,
//! blocks share K: [`split`] and [`partial`] of what TMA fetches, [`parts`] of all else. Where that is expected to be faster, operands
//! that TMA does not fetch are copied to where it does first ([`pack`]), and products of one row or column take kernels of vectors
//! ([`vector`]).

pub mod activation;
pub mod batched;
mod choice;
pub mod copied;
mod epilogue;
pub mod exchange;
pub mod full;
pub mod gated;
pub mod kernel;
pub mod model;
pub mod operands;
pub mod pack;
pub mod partial;
pub mod parts;
pub mod policy;
pub mod residual;
pub mod split;
pub mod tf32;
mod tuned;
pub mod vector;

pub use batched::gemm_batched;
pub use choice::{Choice, Tile};
pub use tuned::{Tuned, tuned};

use copied::Operands;
use model::{Call, Parameters};
use pack::Packs;
use partial::First;
use policy::Policy;
use vector::Vector;

use crate::gemv::Gemv;
use std::cell::RefCell;
use tile_runtime::kernel::{
    Argument, Class, Definition, LaunchOn, Place, Target, TensorInput, TensorOutput, TensorRef,
};
use tile_runtime::{Element, Error, LaunchError, Tensor, TensorView, TensorViewMut, f16};

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

    /// A product of one row or column; none where the kernels of vectors do not take the types.
    #[doc(hidden)]
    #[track_caller]
    fn launch_vector(
        _on: &Place<'_>,
        _vector: Vector,
        _w: TensorView<'_, Self, 2>,
        _x: TensorView<'_, Self, 1>,
        _y: TensorViewMut<'_, C, 1>,
        _scalars: Gemv,
    ) -> Option<Result<(), LaunchError>> {
        None
    }

    #[doc(hidden)]
    #[track_caller]
    fn launch_batch(
        on: &impl LaunchOn,
        choice: batched::Choice,
        a: impl TensorInput<Self, 3>,
        b: impl TensorInput<Self, 3>,
        c: impl TensorOutput<C, 3>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;
}

/// `c = f(alpha a b + beta c + bias)` on a device or stream: `a` of shape `[M, K]` (or `[K, M]`), `b` of `[K, N]` (or
/// `[N, K]`), `c` of `[M, N]`, the bias of `[N]`.
///
/// The instance is chosen from the shape, the type and precision, and from whether the device's TMA can fetch the operands; where there
/// are few tiles and K is long, blocks share K ([`split`], [`parts`]), with the same bits at every launch. What their
/// addresses, pitches and extents allow beyond that is its alignment class ([`class`]), which a GPU that could do better with
/// others says on stderr.
///
/// Where operands are copied first ([`pack`]), their copies are in scratch memory that the stream keeps
/// ([`Scratch`](tile_runtime::kernel::Scratch)): up to 1 GiB an operand. So are the sums that a second launch adds ([`partial`]): up to 128 MiB.
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
    let (choice, early) = choice(on, [a.argument(), b.argument(), c.argument()], options);
    let place = Place::of(on);
    let place = if early { place } else { place.in_order() };
    launch(&place, &Place::of(on), choice, a, b, c, options)
}

/// Launches what a choice says. `behind`: where a launch of this call goes that has nothing but others of it in front of it.
#[track_caller]
fn launch<T: GemmElement<C>, C: Element>(
    on: &Place<'_>,
    behind: &Place<'_>,
    choice: Choice,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    if choice.packs == [None; 2] {
        return product(on, behind, choice, a, b, c, options);
    }
    match (typed(a.argument()), typed(b.argument())) {
        (Some(a), Some(b)) => pack::with(on, choice.packs, [a, b], options, true, |a, b, options| {
            product(behind, behind, Choice { packs: [None; 2], ..choice }, a, b, c, options)
        }),
        _ => product(on, behind, choice, a, b, c, options),
    }
}

/// Launches a product by a choice, of operands that are not copied. `behind`: where its second launch goes, if it has one, which has nothing but
/// the first in front of it.
#[track_caller]
fn product<T: GemmElement<C>, C: Element>(
    on: &Place<'_>,
    behind: &Place<'_>,
    choice: Choice,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    if let Some(vector) = choice.vector
        && let (Some(a), Some(b)) = (typed(a.argument()), typed(b.argument()))
        && let Some(launched) = vector::launch(on, vector, [a, b], &mut c, options)
    {
        return launched;
    }
    let first = match (choice.parts, choice.split) {
        (Some(parts), _) => First::Copied(parts),
        (None, Some(split)) => First::Fetched(split),
        (None, None) => return T::launch(on, choice, a, b, c, options),
    };
    match choice.has_second_launch() {
        true => partial::launch(on, behind, first, a, b, c, options),
        false => T::launch(on, choice, a, b, c, options),
    }
}

/// The matrix that is an argument.
fn typed<T: Element>(argument: Argument<'_>) -> Option<TensorView<'_, T, 2>> {
    match argument {
        Argument::Tensor(tensor) => tensor.typed(),
        Argument::Scalar(_) | Argument::Absent => None,
    }
}

/// Every choice that [`gemm`] has for these, with the us that it expects of each: the first is what it takes. Of those for copies of the operands
/// ([`pack`]), the four that are expected to be the fastest.
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
    let place = Place::of(on);
    launch(&place, &place, choice, a, b, c, options)
}

/// The alignment class in which [`gemm`] is launched with these: how wide the pieces are that operands are read in, and
/// those that the result is written in. Of operands that are copied first ([`pack`]), that of the product of the copies.
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
    if choice.packs != [None; 2]
        && let (Some(a), Some(b)) = (typed(a.argument()), typed(b.argument()))
    {
        let found = pack::with(on, choice.packs, [a, b], options, false, |a, b, options| {
            Ok(class_of(on, Choice { packs: [None; 2], ..choice }, a, b, c, options)?)
        });
        return Ok(found?);
    }
    class_of(on, choice, a, b, c, options)
}

/// The alignment class in which a choice is launched.
fn class_of<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    choice: Choice,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<Class, Error> {
    let number = options.activation.number();
    if let Some(parts) = choice.parts {
        let kernel = parts::gemm_parts::<T, C>::instance(on.device(), parts.of_one_launch().params(options))?;
        return Ok(kernel.class(a, b, c, options.bias, options.alpha, options.beta, number, parts.slots)?);
    }
    // The kernels of tf32 have as many classes as that of f32.
    let tile = match options.precision {
        Precision::Tf32 if T::DTYPE.bytes() == 4 => full::tile_for(128, 128),
        Precision::Tf32 | Precision::Full => choice.tile,
    };
    let kernel = kernel::gemm::<T, C>::instance(on.device(), Choice { tile, ..choice }.params(options))?;
    Ok(kernel.class(a, b, c, options.bias, options.alpha, options.beta, number)?)
}

/// A product as far as its choice depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Problem {
    policy: Policy,
    shape: [i64; 3],
    stored: [bool; 2],
    /// Whether rows of the result begin at multiples of 16 bytes: sums that are put aside are added and stored 4 at a time.
    splits: bool,
    operands: Operands,
    call: Call,
    /// Whether the launch of a kernel will be accepted: what takes two launches is to launch none where the second one is refused.
    accepted: bool,
    /// How operands would be copied to where TMA fetches them; none where it fetches them as they are, or there is none.
    packs: Packs,
    /// The product as one of a matrix and a vector, where it is one that kernels of vectors take.
    vector: Option<vector::Problem>,
}

impl Problem {
    /// The choices that there are, with the us expected of each.
    fn candidates(self) -> impl Iterator<Item = (Choice, f64)> {
        let Problem { policy, shape, stored, operands, call, .. } = self;
        self.legal()
            .map(move |choice| (choice, choice.us(operands, shape, stored, call, policy, policy.parameters())))
            .chain(self.packed())
            .chain(self.by_vector())
    }

    /// The choice of a kernel for a matrix and a vector, with the us expected of it.
    fn by_vector(self) -> Option<(Choice, f64)> {
        let (vector, us) = self.vector.filter(|_| self.operands != Operands::Fetched)?.fastest()?;
        // What the kernel of matrices would take instead is a tile that there is for the operands.
        Some((Choice { vector: Some(vector), ..self.legal().next()? }, us))
    }

    /// The choices that there are for the operands as they are.
    fn legal(self) -> impl Iterator<Item = Choice> {
        let all = Choice::of_operands(self.operands, self.shape, self.stored, self.splits);
        all.filter(move |choice| self.accepted || !choice.has_second_launch())
    }

    /// The choices for copies of the operands, those of [`FEW`] that are expected to be the fastest: each needs scratch memory where it is
    /// measured.
    fn packed(self) -> Vec<(Choice, f64)> {
        let Problem { policy, shape, stored, splits, operands, packs, call, .. } = self;
        if packs == [None; 2] || shape.contains(&0) {
            return vec![];
        }
        let [a, b] = packs.map(|pack| pack == Some(pack::Pack::Transposed));
        let along = [stored[0] ^ a, stored[1] ^ b];
        let fetched = match operands {
            Operands::Fetched | Operands::Copied { .. } => Operands::Fetched,
            Operands::Full | Operands::Tf32 { .. } => Operands::Tf32 { fetched: true },
        };
        let before = pack::us(packs, shape, stored, operands.bytes());
        let legal = Choice::of_operands(fetched, shape, along, splits).filter(|choice| choice.parts.is_none());
        let parameters = policy.parameters();
        // Rows of the result that begin between multiples of 16 bytes are stored element by element.
        let between = Parameters { store: parameters.store * BETWEEN, ..*parameters };
        let parameters = if splits { parameters } else { &between };
        let dense = Call::dense(shape, along).pitches;
        let of_copy =
            |at: usize| if packs[at].is_some() { pack::pitch(dense[at], operands.bytes()) } else { call.pitches[at] };
        let call = Call { pitches: [0, 1].map(of_copy), ..call };
        let us = |choice: &Choice| before + choice.us(fetched, shape, along, call, policy, parameters);
        let mut all: Vec<_> = legal.map(|choice| (Choice { packs, ..choice }, us(&choice))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.truncate(FEW);
        all
    }

    /// The choice that a call takes, and then the others that there are, the fastest first.
    fn ranked(self) -> Vec<(Choice, f64)> {
        let taken = self.fastest();
        let mut all: Vec<(Choice, f64)> = self.candidates().filter(|(choice, _)| *choice != taken.0).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.insert(0, taken);
        all
    }

    /// The choice that is expected to be the fastest; one for copies of the operands where it is expected to take less than [`PACKED`] of that,
    /// and a kernel for a matrix and a vector where that is expected to take less still.
    fn fastest(self) -> (Choice, f64) {
        let Problem { policy, shape, stored, operands, call, .. } = self;
        let timed = self.legal().map(|choice| {
            let us = choice.us(operands, shape, stored, call, policy, policy.parameters());
            (choice.compared(operands, shape, stored, us), (choice, us))
        });
        let fastest = timed.min_by(|a, b| a.0.total_cmp(&b.0)).map_or((Choice::default(), 0.0), |(_, fastest)| fastest);
        let packed = self.packed().into_iter().next().filter(|(_, us)| *us < PACKED * fastest.1);
        let fastest = packed.unwrap_or(fastest);
        self.by_vector().filter(|(_, us)| *us < fastest.1).unwrap_or(fastest)
    }

    /// Whether a launch by a choice that takes so many us gains by starting before the previous one is done.
    fn starts_early(self, choice: &Choice, us: f64) -> bool {
        choice.starts_early(self.operands, self.shape, self.stored, us)
    }

    /// The choice that a call takes, and whether its launch may start before the previous one is done; remembered by the thread.
    fn choice(self) -> (Choice, bool) {
        let [m, n, k] = self.shape;
        let mixed = m.wrapping_mul(961).wrapping_add(n.wrapping_mul(31)).wrapping_add(k);
        let place = mixed.rem_euclid(REMEMBERED as i64) as usize;
        let known = CHOICES.with_borrow(|choices| choices.get(place).copied().flatten());
        if let Some((problem, choice)) = known
            && problem == self
        {
            return choice;
        }
        let (fastest, us) = self.fastest();
        let choice = (fastest, self.starts_early(&fastest, us));
        CHOICES.with_borrow_mut(|choices| {
            if let Some(entry) = choices.get_mut(place) {
                *entry = Some((self, choice));
            }
        });
        choice
    }
}

/// Of the time of the operands as they are, what a choice for copies of them must be expected to take less than.
const PACKED: f64 = 0.9;

/// The part of its rate that a block stores at, element by element: an estimate.
const BETWEEN: f64 = 0.3;

/// Choices for copies of operands that are looked at.
const FEW: usize = 4;

/// Products whose choices a thread remembers: finding one looks at some forty candidates.
const REMEMBERED: usize = 64;

/// A product, its choice, and whether its launch may start before the previous one is done.
type Remembered = Option<(Problem, (Choice, bool))>;

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
    let operands = operands_of(on, [&a, &b], options);
    let shape = [m, n, k];
    let bias = options.bias.is_none_or(|bias| bias.is_on(on.device()) && bias.len() as i64 == n);
    let accepted = bias && is_accepted(on, [&a, &b, &c], shape, stored);
    let packs = if accepted { packs(on, [&a, &b], operands, shape, stored) } else { [None; 2] };
    let vector = if accepted { vector::Problem::of(on, [&a, &b, &c], shape, options) } else { None };
    let policy = Policy::of(on.device());
    let special = matches!(options.activation, Activation::Gelu | Activation::Silu);
    let call = Call { pitches: [pitch(&a), pitch(&b)], special };
    Some(Problem { policy, shape, stored, splits: rows_begin_at(&c, 16), operands, call, accepted, packs, vector })
}

/// How operands come into shared memory, and what multiplies them there.
fn operands_of<T: Element>(on: &impl LaunchOn, [a, b]: [&TensorRef<'_>; 2], options: &Gemm<'_, T>) -> Operands {
    let stored = [options.a_transposed, options.b_transposed];
    match a.dtype().bytes() {
        4 if options.precision == Precision::Full => Operands::Full,
        4 => Operands::Tf32 { fetched: tf32::is_fetched(on, [a, b], stored) },
        _ if has_copy_engine(on, [a, b]) => Operands::Fetched,
        _ => Operands::Copied { width: piece([a, b]) },
    }
}

/// Whether a launch with operands and a result will not be refused: their shapes agree, all are on the device, and the result is apart.
fn is_accepted(on: &impl LaunchOn, [a, b, c]: [&TensorRef<'_>; 3], shape: [i64; 3], stored: [bool; 2]) -> bool {
    let wanted = stored_extents(shape, stored);
    let agree = [a, b].into_iter().zip(wanted).all(|(x, wanted)| extents(x) == wanted && x.is_on(on.device()));
    let apart = [a, b].into_iter().all(|x| span(x).1 <= span(c).0 || span(c).1 <= span(x).0);
    agree && apart && c.is_on(on.device())
}

/// How operands would be copied to where TMA fetches them. None of them where the device has no TMA, or [`pack::packs`] has none.
fn packs(
    on: &impl LaunchOn,
    [a, b]: [&TensorRef<'_>; 2],
    operands: Operands,
    [m, n, k]: [i64; 3],
    stored: [bool; 2],
) -> Packs {
    if on.device().supports(Target::Sm90a) {
        pack::packs(operands, [m, n, k], stored, [begin_at(a), begin_at(b)])
    } else {
        [None; 2]
    }
}

/// The most bytes, of 16, 8, 4 and 2, that every row begins at a multiple of.
fn begin_at(tensor: &TensorRef<'_>) -> i64 {
    [16, 8, 4].into_iter().find(|bytes| rows_begin_at(tensor, *bytes)).unwrap_or(2)
}

/// Rows and columns of `a` and `b`, as they are stored.
fn stored_extents([m, n, k]: [i64; 3], stored: [bool; 2]) -> [[i64; 2]; 2] {
    [if stored[0] { [k, m] } else { [m, k] }, if stored[1] { [n, k] } else { [k, n] }]
}

/// Elements from a row of a matrix to the next.
fn pitch(tensor: &TensorRef<'_>) -> i64 {
    tensor.strides().first().copied().unwrap_or(1)
}

/// The addresses from a matrix's first element to one past its last.
fn span(tensor: &TensorRef<'_>) -> (u64, u64) {
    let axes = tensor.shape().iter().zip(tensor.strides());
    let last: i64 = axes.map(|(extent, stride)| (extent - 1).max(0).saturating_mul(*stride)).sum();
    let bytes = last.saturating_add(1).saturating_mul(i64::from(tensor.dtype().bytes()));
    (tensor.address(), tensor.address().saturating_add(bytes.max(0) as u64))
}

/// The widest pieces that rows of both operands are made of, in bytes.
fn piece(operands: [&TensorRef<'_>; 2]) -> i64 {
    let fits = |bytes: &i64| operands.iter().all(|operand| rows_are_made_of(operand, *bytes));
    [16, 8, 4].into_iter().find(fits).unwrap_or(2)
}

/// The instance for operands and a result, and whether its launch may start before the previous one is done.
fn choice<T: Element>(on: &impl LaunchOn, tensors: [Argument<'_>; 3], options: &Gemm<'_, T>) -> (Choice, bool) {
    asked(on, tensors, options).map_or((Choice::default(), true), Problem::choice)
}

/// What there is to choose from, by the time expected.
fn ranked<T: Element>(on: &impl LaunchOn, tensors: [Argument<'_>; 3], options: &Gemm<'_, T>) -> Vec<(Choice, f64)> {
    match asked(on, tensors, options) {
        Some(problem) => problem.ranked(),
        None => vec![(Choice::default(), 0.0)],
    }
}

/// Rows and columns of an argument that is a matrix; none of any other.
fn matrix_extents(argument: Argument<'_>) -> [i64; 2] {
    match argument {
        Argument::Tensor(tensor) => extents(&tensor),
        Argument::Scalar(_) | Argument::Absent => [0, 0],
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
