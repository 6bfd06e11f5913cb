//! Tensors and views of them.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::element::{Element, as_bytes, from_bytes};
use crate::error::{Error, ShapeError};
use crate::kernel::{Argument, TensorInput, TensorOutput, TensorRef};
use crate::layout::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// A tensor of rank `R` (1 to 4) on a device: row-major, extents outermost first.
///
/// Each tensor is ordered by itself: work on another stream than the last one waits for what must come before, and its
/// memory is freed after all work that uses it. Nothing needs to be synchronised by hand.
pub struct Tensor<T, const R: usize> {
    allocation: Arc<Allocation>,
    layout: Layout<R>,
    element: PhantomData<T>,
}

/// A part of a tensor, to be read. The leading axes may be strided; the innermost is contiguous.
pub struct TensorView<'a, T, const R: usize> {
    allocation: &'a Arc<Allocation>,
    layout: Layout<R>,
    element: PhantomData<T>,
}

/// A part of a tensor, to be written.
pub struct TensorViewMut<'a, T, const R: usize> {
    allocation: &'a Arc<Allocation>,
    layout: Layout<R>,
    element: PhantomData<&'a mut T>,
}

impl<T, const R: usize> Clone for TensorView<'_, T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const R: usize> Copy for TensorView<'_, T, R> {}

impl<T, const R: usize> Tensor<T, R> {
    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

impl<T: Element, const R: usize> Tensor<T, R> {
    pub(crate) fn from_parts(allocation: Arc<Allocation>, layout: Layout<R>) -> Self {
        Tensor { allocation, layout, element: PhantomData }
    }

    /// The place of the first element in its memory, in elements.
    pub(crate) fn offset(&self) -> usize {
        self.layout.offset
    }

    /// Its memory.
    pub(crate) fn into_allocation(self) -> Arc<Allocation> {
        self.allocation
    }

    /// The tensor with its type erased.
    #[inline]
    pub(crate) fn erased(&self) -> TensorRef<'_> {
        TensorRef::new::<T, R>(&self.allocation, &self.layout)
    }

    /// The whole tensor, to be read.
    pub fn view(&self) -> TensorView<'_, T, R> {
        TensorView { allocation: &self.allocation, layout: self.layout, element: PhantomData }
    }

    /// The whole tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T, R> {
        TensorViewMut { allocation: &self.allocation, layout: self.layout, element: PhantomData }
    }

    /// The elements, copied to the host in row-major order, after everything launched that writes them.
    ///
    /// # Errors
    /// What a kernel did wrong before.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.view().to_vec()
    }

    /// Replaces every element, in row-major order.
    ///
    /// # Errors
    /// The slice has another length; the device has failed.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.view_mut().write(values)
    }

    /// Replaces every element by those of a tensor or view of the same shape on the same device.
    ///
    /// # Errors
    /// Another shape or device; the device has failed.
    pub fn copy_from(&mut self, source: impl TensorInput<T, R>) -> Result<(), Error> {
        self.view_mut().copy_from(source)
    }

    /// Rows `range` (of the outermost axis), to be read.
    ///
    /// # Errors
    /// The range leaves the axis.
    pub fn rows(&self, range: Range<usize>) -> Result<TensorView<'_, T, R>, Error> {
        self.view().rows(range)
    }

    /// Rows `range` (of the outermost axis), to be written.
    ///
    /// # Errors
    /// The range leaves the axis.
    pub fn rows_mut(&mut self, range: Range<usize>) -> Result<TensorViewMut<'_, T, R>, Error> {
        self.view_mut().rows(range)
    }

    /// The part with these indices, to be read.
    ///
    /// # Errors
    /// A range leaves its axis.
    pub fn slice(&self, ranges: [Range<usize>; R]) -> Result<TensorView<'_, T, R>, Error> {
        self.view().slice(ranges)
    }

    /// The part with these indices, to be written.
    ///
    /// # Errors
    /// A range leaves its axis.
    pub fn slice_mut(&mut self, ranges: [Range<usize>; R]) -> Result<TensorViewMut<'_, T, R>, Error> {
        self.view_mut().slice(ranges)
    }

    /// The tensor's elements under another shape, to be read.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn reshape<const S: usize>(&self, shape: [usize; S]) -> Result<TensorView<'_, T, S>, Error> {
        self.view().reshape(shape)
    }
}

macro_rules! properties {
    ($($ty:ident $(<$life:lifetime>)?),*) => {$(
        impl<T: Element, const R: usize> $ty<$($life,)? T, R> {
            /// Extents, outermost first.
            pub fn shape(&self) -> [usize; R] {
                self.layout.shape
            }

            /// Distances of neighbours on each axis, in elements, outermost first.
            pub fn strides(&self) -> [usize; R] {
                self.layout.strides
            }

            /// How many elements.
            pub fn len(&self) -> usize {
                self.layout.len()
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The name of the device it is on: `cuda:0`, `sim`, `sim-checked`.
            pub fn device_label(&self) -> &str {
                self.allocation.device.label()
            }

            /// Whether it is on `device`.
            pub fn is_on(&self, device: &Device) -> bool {
                std::ptr::eq(self.allocation.device, device.state)
            }
        }

        impl<T: Element, const R: usize> fmt::Debug for $ty<$($life,)? T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{:?} on {}", T::DTYPE, self.layout.shape, self.allocation.device.label())
            }
        }
    )*};
}

properties!(Tensor, TensorView<'_>, TensorViewMut<'_>);

impl<'a, T: Element, const R: usize> TensorViewMut<'a, T, R> {
    /// All of a tensor, which nothing else may read or write meanwhile; none where its elements are of another type, or its axes not `R`.
    pub(crate) fn over(tensor: &TensorRef<'a>) -> Option<Self> {
        let fits = tensor.dtype() == T::DTYPE && tensor.shape().len() == R;
        let view =
            || TensorViewMut { allocation: tensor.allocation(), layout: tensor.layout::<R>(), element: PhantomData };
        fits.then(view)
    }
}

impl<'a> TensorRef<'a> {
    /// Whether it is on `device`.
    pub fn is_on(&self, device: &Device) -> bool {
        std::ptr::eq(self.allocation().device, device.state)
    }

    /// The tensor with its type; none where its elements are of another, or its axes not `R`.
    pub fn typed<T: Element, const R: usize>(&self) -> Option<TensorView<'a, T, R>> {
        let fits = self.dtype() == T::DTYPE && self.shape().len() == R;
        fits.then(|| TensorView { allocation: self.allocation(), layout: self.layout::<R>(), element: PhantomData })
    }

    /// The memory from the first element to the last in lines of `width` elements, of shape `[lines, width]`, without what is no whole
    /// line at either end. A line's address is a multiple of its bytes: kernels read lines by wide loads however the rows of the tensor
    /// are aligned.
    ///
    /// None where elements are of another type than `T`, a line has none, or memory between the first and the last element is not the
    /// tensor's, as with rows that have a pitch.
    ///
    /// ```
    /// use tile_runtime::Device;
    /// use tile_runtime::kernel::{Argument, TensorInput};
    ///
    /// let device = Device::simulator();
    /// let w = device.tensor(&(0..35).map(|i| i as f32).collect::<Vec<f32>>(), [7, 5])?;
    /// let below = w.rows(1..7)?; // begins at element 5, which is the second one of a line of four
    /// let Argument::Tensor(erased) = below.argument() else { unreachable!("a view is a tensor") };
    /// let lines = erased.lines::<f32>(4).expect("rows lie side by side");
    /// assert_eq!((lines.shape(), lines.to_vec()?[0]), ([6, 4], 8.0));
    /// # Ok::<(), tile_runtime::Error>(())
    /// ```
    pub fn lines<T: Element>(&self, width: usize) -> Option<TensorView<'a, T, 2>> {
        let elements: i64 = self.shape().iter().product();
        let size = size_of::<T>() as u64;
        if self.dtype() != T::DTYPE || width == 0 || self.bytes() != u64::try_from(elements).ok()? * size {
            return None;
        }
        let line = size.checked_mul(width as u64)?;
        let skipped = self.address().checked_next_multiple_of(line)? - self.address();
        // Elements at addresses that are no multiples of their size are in no line.
        if !skipped.is_multiple_of(size) || !self.offset().is_multiple_of(size) {
            return None;
        }
        let count = usize::try_from(self.bytes().saturating_sub(skipped) / line).ok()?;
        let first = usize::try_from(if count == 0 { self.offset() } else { self.offset() + skipped } / size).ok()?;
        let layout = Layout { offset: first, shape: [count, width], strides: [width, 1] };
        Some(TensorView { allocation: self.allocation(), layout, element: PhantomData })
    }
}

impl<'a, T: Element, const R: usize> TensorView<'a, T, R> {
    fn with<const S: usize>(&self, layout: Layout<S>) -> TensorView<'a, T, S> {
        TensorView { allocation: self.allocation, layout, element: PhantomData }
    }

    /// The elements, copied to the host in row-major order, after everything launched that writes them.
    ///
    /// # Errors
    /// What a kernel did wrong before.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let rows = self.layout.as_rows();
        from_bytes(self.layout.len(), |bytes| self.allocation.download(bytes, &rows, size_of::<T>()))
    }

    /// Rows `range` (of the outermost axis).
    ///
    /// # Errors
    /// The range leaves the axis.
    pub fn rows(&self, range: Range<usize>) -> Result<Self, Error> {
        Ok(self.with(self.layout.rows(range)?))
    }

    /// The part with these indices.
    ///
    /// # Errors
    /// A range leaves its axis.
    pub fn slice(&self, ranges: [Range<usize>; R]) -> Result<Self, Error> {
        Ok(self.with(self.layout.slice(ranges)?))
    }

    /// A view of this view's elements with two axes exchanged: a tensor of shape `[B, S, H, D]` is seen as `[B, H, S, D]`. Nothing is copied.
    ///
    /// # Errors
    /// An axis is the last one, whose elements stay side by side, or there is no such axis.
    pub fn swap_axes(&self, first: usize, second: usize) -> Result<Self, Error> {
        Ok(self.with(self.layout.swap_axes(first, second)?))
    }

    /// The elements of this view under another shape.
    ///
    /// # Errors
    /// Another number of elements; a view with gaps.
    pub fn reshape<const S: usize>(&self, shape: [usize; S]) -> Result<TensorView<'a, T, S>, Error> {
        Ok(self.with(self.layout.reshape(shape)?))
    }
}

impl<'a, T: Element, const R: usize> TensorViewMut<'a, T, R> {
    fn with<const S: usize>(self, layout: Layout<S>) -> TensorViewMut<'a, T, S> {
        TensorViewMut { allocation: self.allocation, layout, element: PhantomData }
    }

    /// The part that this view shows, to be read while this is not used.
    pub fn view(&self) -> TensorView<'_, T, R> {
        TensorView { allocation: self.allocation, layout: self.layout, element: PhantomData }
    }

    /// The part that this view shows, for a shorter time.
    pub fn reborrow(&mut self) -> TensorViewMut<'_, T, R> {
        TensorViewMut { layout: self.layout, allocation: self.allocation, element: PhantomData }
    }

    /// Replaces every element, in row-major order.
    ///
    /// # Errors
    /// The slice has another length; the device has failed.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        if values.len() != self.len() {
            let (expected, found) = (self.len(), values.len());
            return Err(ShapeError::Length { shape: self.shape().to_vec(), expected, found }.into());
        }
        self.allocation.upload(as_bytes(values), &self.layout.as_rows(), size_of::<T>())
    }

    /// Replaces every element by those of a tensor or view of the same shape on the same device.
    ///
    /// # Errors
    /// Another shape or device; the device has failed.
    pub fn copy_from(&mut self, source: impl TensorInput<T, R>) -> Result<(), Error> {
        let Argument::Tensor(source) = source.argument() else {
            return Err(ShapeError::Rank { rank: 0 }.into());
        };
        let layout = source.layout::<R>();
        if layout.shape != self.layout.shape {
            let (source_shape, destination) = (layout.shape.to_vec(), self.layout.shape.to_vec());
            return Err(ShapeError::Differ { source_shape, destination }.into());
        }
        if !std::ptr::eq(source.allocation().device, self.allocation.device) {
            return Err(Error::DifferentDevices {
                source_device: source.allocation().device.label().into(),
                destination: self.allocation.device.label().into(),
            });
        }
        let (to, from) = (self.layout.as_rows(), layout.as_rows());
        Allocation::copy(self.allocation, &to, source.allocation(), &from, size_of::<T>())
    }

    /// Rows `range` (of the outermost axis).
    ///
    /// # Errors
    /// The range leaves the axis.
    pub fn rows(self, range: Range<usize>) -> Result<Self, Error> {
        let layout = self.layout.rows(range)?;
        Ok(self.with(layout))
    }

    /// The part with these indices.
    ///
    /// # Errors
    /// A range leaves its axis.
    pub fn slice(self, ranges: [Range<usize>; R]) -> Result<Self, Error> {
        let layout = self.layout.slice(ranges)?;
        Ok(self.with(layout))
    }

    /// The rows before `row` and those from it on, both to be written.
    ///
    /// # Errors
    /// There are fewer rows.
    pub fn split_rows(self, row: usize) -> Result<(Self, Self), Error> {
        let before = self.layout.rows(0..row)?;
        let after = self.layout.rows(row..self.layout.shape[0])?;
        let allocation = self.allocation;
        let part = |layout| TensorViewMut { allocation, layout, element: PhantomData };
        Ok((part(before), part(after)))
    }

    /// A writable view of this view's elements with two axes exchanged: a tensor of shape `[B, S, H, D]` is seen as `[B, H, S, D]`. Nothing is
    /// copied.
    ///
    /// # Errors
    /// An axis is the last one, whose elements stay side by side, or there is no such axis.
    pub fn swap_axes(self, first: usize, second: usize) -> Result<Self, Error> {
        let layout = self.layout.swap_axes(first, second)?;
        Ok(self.with(layout))
    }

    /// The elements of this view under another shape.
    ///
    /// # Errors
    /// Another number of elements; a view with gaps.
    pub fn reshape<const S: usize>(self, shape: [usize; S]) -> Result<TensorViewMut<'a, T, S>, Error> {
        let layout = self.layout.reshape(shape)?;
        Ok(self.with(layout))
    }
}

macro_rules! single_rows {
    ($($rank:literal => $less:literal),*) => {$(
        impl<T: Element> Tensor<T, $rank> {
            /// One row (index on the outermost axis), to be read.
            ///
            /// # Errors
            /// There is no such row.
            pub fn row(&self, index: usize) -> Result<TensorView<'_, T, $less>, Error> {
                self.view().row(index)
            }

            /// One row (index on the outermost axis), to be written.
            ///
            /// # Errors
            /// There is no such row.
            pub fn row_mut(&mut self, index: usize) -> Result<TensorViewMut<'_, T, $less>, Error> {
                self.view_mut().row(index)
            }
        }

        impl<'a, T: Element> TensorView<'a, T, $rank> {
            /// One row (index on the outermost axis).
            ///
            /// # Errors
            /// There is no such row.
            pub fn row(&self, index: usize) -> Result<TensorView<'a, T, $less>, Error> {
                Ok(self.with(self.layout.row(index)?))
            }
        }

        impl<'a, T: Element> TensorViewMut<'a, T, $rank> {
            /// One row (index on the outermost axis).
            ///
            /// # Errors
            /// There is no such row.
            pub fn row(self, index: usize) -> Result<TensorViewMut<'a, T, $less>, Error> {
                let layout = self.layout.row(index)?;
                Ok(self.with(layout))
            }
        }
    )*};
}

single_rows!(2 => 1, 3 => 2);

impl<T: Element, const R: usize> TensorInput<T, R> for &Tensor<T, R> {
    #[inline]
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self.erased())
    }
}

impl<T: Element, const R: usize> TensorInput<T, R> for &mut Tensor<T, R> {
    #[inline]
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(self.erased())
    }
}

impl<T: Element, const R: usize> TensorInput<T, R> for TensorView<'_, T, R> {
    #[inline]
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(TensorRef::new::<T, R>(self.allocation, &self.layout))
    }
}

impl<T: Element, const R: usize> TensorInput<T, R> for &TensorView<'_, T, R> {
    #[inline]
    fn argument(&self) -> Argument<'_> {
        Argument::Tensor(TensorRef::new::<T, R>(self.allocation, &self.layout))
    }
}

impl<T: Element, const R: usize> TensorOutput<T, R> for &mut Tensor<T, R> {
    #[inline]
    fn argument(&mut self) -> Argument<'_> {
        Argument::Tensor(self.erased())
    }
}

impl<T: Element, const R: usize> TensorOutput<T, R> for TensorViewMut<'_, T, R> {
    #[inline]
    fn argument(&mut self) -> Argument<'_> {
        Argument::Tensor(TensorRef::new::<T, R>(self.allocation, &self.layout))
    }
}

impl<T: Element, const R: usize> TensorOutput<T, R> for &mut TensorViewMut<'_, T, R> {
    #[inline]
    fn argument(&mut self) -> Argument<'_> {
        Argument::Tensor(TensorRef::new::<T, R>(self.allocation, &self.layout))
    }
}

#[cfg(test)]
mod tests {
    use crate::Device;

    #[test]
    fn views_read_and_write_their_part() {
        let device = Device::simulator();
        let values: Vec<f32> = (0..20).map(|i| i as f32).collect();
        let mut x = device.tensor(&values, [4, 5]).unwrap();
        assert_eq!(x.slice([1..3, 2..4]).unwrap().to_vec().unwrap(), [7.0, 8.0, 12.0, 13.0]);
        assert_eq!(x.row(3).unwrap().to_vec().unwrap(), [15.0, 16.0, 17.0, 18.0, 19.0]);
        x.slice_mut([0..2, 0..1]).unwrap().write(&[-1.0, -2.0]).unwrap();
        assert_eq!(x.slice([0..2, 0..2]).unwrap().to_vec().unwrap(), [-1.0, 1.0, -2.0, 6.0]);
        assert_eq!(x.reshape([20]).unwrap().to_vec().unwrap()[5], -2.0);
    }

    #[test]
    fn copies_between_tensors_keep_the_shape() {
        let device = Device::simulator();
        let x = device.tensor(&[1, 2, 3, 4, 5, 6], [2, 3]).unwrap();
        let mut y = device.zeros::<i32, 2>([3, 4]).unwrap();
        y.slice_mut([1..3, 1..4]).unwrap().copy_from(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0, 0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6]);
        let mut z = device.zeros::<i32, 2>([2, 3]).unwrap();
        z.copy_from(y.slice([1..3, 1..4]).unwrap()).unwrap();
        assert_eq!(z.to_vec().unwrap(), [1, 2, 3, 4, 5, 6]);
        let wrong = z.copy_from(&y).unwrap_err();
        assert_eq!(wrong.to_string(), "the source has shape [3, 4], the destination [2, 3]");
        let other = Device::checked_simulator().zeros::<i32, 2>([2, 3]).unwrap();
        assert_eq!(
            z.copy_from(&other).unwrap_err().to_string(),
            "the source is on sim-checked, the destination on sim"
        );
    }

    #[test]
    fn rows_split_for_two_writers() {
        let device = Device::simulator();
        let mut x = device.zeros::<i32, 2>([3, 2]).unwrap();
        let (mut a, mut b) = x.view_mut().split_rows(1).unwrap();
        a.write(&[1, 1]).unwrap();
        b.write(&[2, 2, 3, 3]).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1, 1, 2, 2, 3, 3]);
        assert!(x.view_mut().split_rows(4).is_err());
    }
}
