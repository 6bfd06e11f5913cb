//! Arguments of a launch, with their types erased.

use crate::allocation::Allocation;
use crate::element::{Element, filled};
use crate::error::Error;
use crate::layout::Layout;
use crate::tensor::TensorViewMut;
use half::{bf16, f16};
use std::fmt;
use std::sync::Arc;
use tile_ir::ir::Dtype;
use tile_ir::sim::{self, ScalarValue, TensorArgument};

/// Most axes a tensor has.
pub(crate) const MAX_RANK: usize = tile_ir::ir::MOST_TENSOR_AXES;

/// One argument of a launch, in the order of the kernel's parameters.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A tensor or view.
    Tensor(TensorRef<'a>),
    /// A value.
    Scalar(Scalar),
    /// An optional tensor that is left out.
    Absent,
}

/// A tensor or view of any dtype and rank.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    allocation: &'a Arc<Allocation>,
    offset: u64,
    /// Bytes from the first element to one past the last.
    bytes: u64,
    dtype: Dtype,
    rank: u8,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
}

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// Its value.
    pub(crate) value: ScalarValue,
}

impl<'a> TensorRef<'a> {
    #[inline]
    pub(crate) fn new<T: Element, const R: usize>(allocation: &'a Arc<Allocation>, layout: &Layout<R>) -> Self {
        let size = size_of::<T>();
        let (mut shape, mut strides) = ([1; MAX_RANK], [1; MAX_RANK]);
        for axis in 0..R.min(MAX_RANK) {
            // What does not fit is beyond what a launch takes all the same.
            shape[axis] = i64::try_from(layout.shape[axis]).unwrap_or(i64::MAX);
            strides[axis] = i64::try_from(layout.strides[axis]).unwrap_or(i64::MAX);
        }
        // A layout's span was checked against its memory when it was made.
        let bytes = layout.span().unwrap_or(usize::MAX / 8).saturating_mul(size) as u64;
        let offset = layout.offset.saturating_mul(size) as u64;
        TensorRef { allocation, offset, bytes, dtype: T::DTYPE, rank: R as u8, shape, strides }
    }

    /// The elements of this shape and these strides, in elements, that start `offset` bytes into the memory.
    pub(crate) fn over(
        allocation: &'a Arc<Allocation>,
        offset: u64,
        dtype: Dtype,
        shape: &[i64],
        strides: &[i64],
    ) -> Self {
        let (mut shapes, mut all) = ([1; MAX_RANK], [1; MAX_RANK]);
        let rank = shape.len().min(strides.len()).min(MAX_RANK);
        shapes[..rank].copy_from_slice(&shape[..rank]);
        all[..rank].copy_from_slice(&strides[..rank]);
        let last: i64 = shape.iter().zip(strides).map(|(extent, stride)| (extent - 1).saturating_mul(*stride)).sum();
        let elements = if shape.contains(&0) { 0 } else { last.saturating_add(1) };
        let bytes = u64::try_from(elements).unwrap_or(0).saturating_mul(u64::from(dtype.bytes()));
        TensorRef { allocation, offset, bytes, dtype, rank: rank as u8, shape: shapes, strides: all }
    }

    /// Bytes from the start of the memory to the first element.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The elements as bytes, copied to the host in row-major order, after everything queued that writes them.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Error> {
        let size = self.dtype.bytes() as usize;
        let elements: i64 = self.shape().iter().product();
        let mut bytes = filled(0u8, usize::try_from(elements).unwrap_or(0).saturating_mul(size))?;
        let rows = match self.rank {
            1 => self.layout::<1>().as_rows(),
            2 => self.layout::<2>().as_rows(),
            3 => self.layout::<3>().as_rows(),
            _ => self.layout::<4>().as_rows(),
        };
        self.allocation.download(&mut bytes, &rows, size)?;
        Ok(bytes)
    }

    pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
        self.allocation
    }

    /// The address of element 0.
    #[inline]
    pub fn address(&self) -> u64 {
        self.allocation.address.wrapping_add(self.offset)
    }

    /// The addresses from the first element's to one past the last's.
    #[inline]
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.address(), self.address().saturating_add(self.bytes))
    }

    /// Whether every element lies in the memory.
    #[inline]
    pub(crate) fn is_covered(&self) -> bool {
        self.offset.checked_add(self.bytes).is_some_and(|end| end <= self.allocation.bytes as u64)
    }

    /// Bytes from the first element to one past the last.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Extents, outermost first.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        &self.shape[..usize::from(self.rank).min(MAX_RANK)]
    }

    /// Strides in elements, outermost first.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        &self.strides[..usize::from(self.rank).min(MAX_RANK)]
    }

    /// The layout, of a tensor known to have rank `R`.
    pub(crate) fn layout<const R: usize>(&self) -> Layout<R> {
        let at = |values: &[i64; MAX_RANK]| std::array::from_fn(|axis| values[axis.min(MAX_RANK - 1)] as usize);
        let offset = self.offset as usize / self.dtype.bytes() as usize;
        Layout { offset, shape: at(&self.shape), strides: at(&self.strides) }
    }

    /// This view for a simulator; `None` where the memory is not simulated.
    pub(crate) fn to_simulator(self) -> Option<TensorArgument> {
        Some(TensorArgument {
            dtype: self.dtype,
            shape: self.shape().to_vec(),
            strides: self.strides().to_vec(),
            memory: self.allocation.host()?.clone(),
            offset: self.offset as usize,
        })
    }

    #[cfg(test)]
    pub(crate) fn with(mut self, change: impl FnOnce(&mut RawTensor<'_>)) -> Self {
        let TensorRef { offset, bytes, dtype, shape, strides, .. } = &mut self;
        change(&mut RawTensor { offset, bytes, dtype, shape, strides });
        self
    }
}

/// The fields of a [`TensorRef`], to make wrong ones in tests.
#[cfg(test)]
#[allow(dead_code)]
pub(crate) struct RawTensor<'a> {
    pub offset: &'a mut u64,
    pub bytes: &'a mut u64,
    pub dtype: &'a mut Dtype,
    pub shape: &'a mut [i64; MAX_RANK],
    pub strides: &'a mut [i64; MAX_RANK],
}

impl fmt::Debug for TensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape())
    }
}

impl Argument<'_> {
    /// What it is, in words: `f16[8, 128]`, `f32 value`, `usize value`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Argument::Absent => "nothing".into(),
            Argument::Tensor(tensor) => format!("{tensor:?}"),
            Argument::Scalar(Scalar { value: ScalarValue::Index(_) }) => "a usize value".into(),
            Argument::Scalar(Scalar { value: ScalarValue::Element(dtype, _) }) => format!("a {dtype} value"),
        }
    }

    /// This argument for a simulator; `None` where a tensor is not simulated.
    pub(crate) fn to_simulator(self) -> Option<sim::Argument> {
        Some(match self {
            Argument::Tensor(tensor) => sim::Argument::Tensor(tensor.to_simulator()?),
            Argument::Scalar(scalar) => sim::Argument::Scalar(scalar.value),
            Argument::Absent => sim::Argument::Absent,
        })
    }
}

/// [`TensorInput`] and [`TensorOutput`] are this crate's own: copies and launches believe the memory, dtype and rank that
/// they name.
pub(crate) mod sealed {
    pub trait Sealed {}
    impl<S: Sealed + ?Sized> Sealed for &S {}
    impl<S: Sealed + ?Sized> Sealed for &mut S {}
    impl<T, const R: usize> Sealed for crate::Tensor<T, R> {}
    impl<T, const R: usize> Sealed for crate::TensorView<'_, T, R> {}
    impl<T, const R: usize> Sealed for crate::TensorViewMut<'_, T, R> {}
}

/// What can be given for a tensor that the kernel reads: `&Tensor`, `TensorView`. It cannot be implemented elsewhere.
///
/// ```compile_fail,E0277
/// use tile_runtime::kernel::{Argument, TensorInput};
/// struct Liar(tile_runtime::Tensor<bool, 1>);
/// impl TensorInput<f32, 1> for &Liar {
///     fn argument(&self) -> Argument<'_> {
///         TensorInput::<bool, 1>::argument(&&self.0)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "this parameter takes a tensor of {T} with {R} axes, to be read",
    label = "expected `&Tensor<{T}, {R}>` or `TensorView<'_, {T}, {R}>`"
)]
pub trait TensorInput<T, const R: usize>: sealed::Sealed {
    /// The tensor with its type erased.
    fn argument(&self) -> Argument<'_>;
}

/// The argument for an optional tensor.
pub fn optional<'a, T: Element, const R: usize>(tensor: Option<&'a crate::Tensor<T, R>>) -> Argument<'a> {
    tensor.map_or(Argument::Absent, |tensor| Argument::Tensor(tensor.erased()))
}

/// The argument for an optional tensor that the kernel writes.
pub fn optional_mut<'a, T: Element, const R: usize>(tensor: &'a Option<&mut crate::Tensor<T, R>>) -> Argument<'a> {
    tensor.as_ref().map_or(Argument::Absent, |tensor| Argument::Tensor(tensor.erased()))
}

/// What can be given for a tensor that the kernel writes: `&mut Tensor`, `TensorViewMut`. It cannot be implemented elsewhere.
#[diagnostic::on_unimplemented(
    message = "this parameter takes a tensor of {T} with {R} axes, to be written",
    label = "expected `&mut Tensor<{T}, {R}>` or `TensorViewMut<'_, {T}, {R}>`"
)]
pub trait TensorOutput<T, const R: usize>: sealed::Sealed {
    /// The tensor with its type erased.
    fn argument(&mut self) -> Argument<'_>;

    /// All of it, to be written; none where what is given has other elements or axes than it says.
    #[inline]
    fn to_view(&mut self) -> Option<TensorViewMut<'_, T, R>>
    where
        T: Element,
    {
        match self.argument() {
            Argument::Tensor(tensor) => TensorViewMut::over(&tensor),
            Argument::Scalar(_) | Argument::Absent => None,
        }
    }
}

/// What can be given for a scalar: `f32`, `i32`, `u32`, `f16`, `bf16`, `bool`, `usize`.
pub trait ScalarInput {
    /// The value with its type erased.
    fn scalar(&self) -> Argument<'static>;
}

impl ScalarInput for usize {
    #[inline]
    fn scalar(&self) -> Argument<'static> {
        // Bit by bit: the launch refuses whatever is above i32's range, and says the number that was given.
        Argument::Scalar(Scalar { value: ScalarValue::Index(*self as u64 as i64) })
    }
}

macro_rules! scalars {
    ($($ty:ty),*) => {$(
        impl ScalarInput for $ty {
            #[inline]
            fn scalar(&self) -> Argument<'static> {
                Argument::Scalar(Scalar { value: ScalarValue::Element(<$ty>::DTYPE, Element::to_bits(*self)) })
            }
        }
    )*};
}

scalars!(f16, bf16, f32, i32, u32, u8, bool);
