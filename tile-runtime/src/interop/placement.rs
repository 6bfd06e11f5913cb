//! How a tensor lies in memory of other code.

use crate::error::ShapeError;
use crate::layout::Layout;
use tile_ir::ir::MOST_TENSOR_AXES;

/// Where a tensor of rank `R` lies in memory of other code: offset, extents and strides, all in elements, outermost axis
/// first. A shape alone, `[n, k]`, is rows after each other from the start.
///
/// Rows are contiguous: the innermost stride is 1. The other axes may have gaps, but nothing overlaps. The stride of an
/// axis of extent 1 is of no account.
///
/// ```
/// use tile_runtime::interop::Placement;
/// // Three columns from the second on, of four rows of eight.
/// let part = Placement { offset: 1, ..Placement::strided([4, 3], [8, 1]) };
/// # let _ = part;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement<const R: usize> {
    /// The place of the first element.
    pub offset: usize,
    /// Extents.
    pub shape: [usize; R],
    /// Distances of neighbours on each axis; `None` for rows after each other.
    pub strides: Option<[usize; R]>,
}

impl<const R: usize> From<[usize; R]> for Placement<R> {
    fn from(shape: [usize; R]) -> Self {
        Placement { offset: 0, shape, strides: None }
    }
}

impl<const R: usize> Placement<R> {
    /// A placement with the given extents and strides, in elements, from the start of the memory.
    pub fn strided(shape: [usize; R], strides: [usize; R]) -> Self {
        Placement { offset: 0, shape, strides: Some(strides) }
    }

    /// The layout in memory of `len` elements.
    #[inline(always)]
    pub(super) fn layout(&self, len: usize) -> Result<Layout<R>, ShapeError> {
        let layout = self.checked()?;
        let end = layout.span().and_then(|span| span.checked_add(if span == 0 { 0 } else { layout.offset }));
        let end = end.ok_or_else(|| self.overflow())?;
        if end > len {
            let (shape, strides) = (layout.shape.to_vec(), layout.strides.to_vec());
            return Err(ShapeError::Outside { shape, strides, end, len });
        }
        Ok(layout)
    }

    /// The layout, wherever it ends. A part of each launch of lent memory: where nothing is wrong it allocates nothing.
    #[inline(always)]
    pub(super) fn checked(&self) -> Result<Layout<R>, ShapeError> {
        // What has no elements lies nowhere.
        let Some(mut strides) = self.strides.filter(|_| !self.shape.contains(&0)) else {
            let offset = if self.shape.contains(&0) { 0 } else { self.offset };
            return Ok(Layout { offset, ..Layout::packed(self.shape)? });
        };
        if !(1..=MOST_TENSOR_AXES).contains(&R) {
            return Err(ShapeError::Rank { rank: R });
        }
        let mut in_order = true;
        // Elements from the first to one past the last of the axes behind.
        let mut behind = 1usize;
        for axis in (0..R).rev() {
            if self.shape[axis] == 1 {
                // The stride of an axis of one element means nothing: it is what the axes behind it take.
                strides[axis] = behind;
                continue;
            } else if axis == R - 1 && strides[axis] != 1 {
                return Err(ShapeError::InnerStride { shape: self.shape.to_vec(), stride: strides[axis] });
            }
            in_order &= strides[axis] >= behind;
            behind = self.past(axis, strides[axis], behind)?;
        }
        if behind > isize::MAX as usize / 4 {
            return Err(self.overflow());
        } else if !in_order {
            self.exchanged(&strides)?;
        }
        Ok(Layout { offset: self.offset, shape: self.shape, strides })
    }

    /// Elements from the first to one past the last, of an axis whose elements take `each`.
    #[inline(always)]
    fn past(&self, axis: usize, stride: usize, each: usize) -> Result<usize, ShapeError> {
        let last = (self.shape[axis] - 1).checked_mul(stride);
        last.and_then(|last| last.checked_add(each)).ok_or_else(|| self.overflow())
    }

    /// Checks that nothing overlaps where the axes, apart from the innermost, do not lie in their order: they may be exchanged.
    #[cold]
    fn exchanged(&self, strides: &[usize; R]) -> Result<(), ShapeError> {
        let mut order: [usize; R] = std::array::from_fn(|axis| axis);
        order.sort_unstable_by_key(|axis| (axis + 1 != R, strides[*axis], *axis));
        let mut least = 1usize;
        for axis in order.into_iter().filter(|axis| self.shape[*axis] != 1) {
            let stride = strides[axis];
            if stride < least {
                return Err(ShapeError::Overlap { shape: self.shape.to_vec(), axis, stride, least });
            }
            least = self.past(axis, stride, least)?;
        }
        Ok(())
    }

    #[cold]
    fn overflow(&self) -> ShapeError {
        ShapeError::Overflow { shape: self.shape.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        let text = |placement: Placement<2>, len| placement.layout(len).unwrap_err().to_string();
        assert_eq!(
            text(Placement::strided([4, 3], [3, 2]), 100),
            "neighbours on the innermost axis of shape [4, 3] lie 2 elements apart, not 1"
        );
        assert_eq!(
            text(Placement::strided([4, 3], [2, 1]), 100),
            "neighbours on axis 0 of shape [4, 3] lie 2 elements apart, and each takes 3"
        );
        assert_eq!(
            Placement::strided([2, 3, 5, 4], [60, 4, 12, 1]).layout(120).unwrap().strides,
            [60, 4, 12, 1],
            "two axes exchanged"
        );
        let overlapping = Placement::strided([2, 3, 5, 4], [60, 4, 11, 1]).layout(120).unwrap_err().to_string();
        assert_eq!(overlapping, "neighbours on axis 2 of shape [2, 3, 5, 4] lie 11 elements apart, and each takes 12");
        assert_eq!(
            text(Placement::strided([4, 3], [0, 1]), 100),
            "neighbours on axis 0 of shape [4, 3] lie 0 elements apart, and each takes 3"
        );
        assert_eq!(
            text(Placement { offset: 1, ..Placement::strided([4, 3], [8, 1]) }, 27),
            "shape [4, 3] with strides [8, 1] ends at element 28 of memory that has 27"
        );
        assert!(matches!(
            Placement::strided([2, 2], [usize::MAX, 1]).layout(usize::MAX),
            Err(ShapeError::Outside { .. } | ShapeError::Overflow { .. })
        ));
        assert!(matches!(
            Placement { offset: usize::MAX, ..[2, 2].into() }.layout(usize::MAX),
            Err(ShapeError::Overflow { .. })
        ));
        let five: Placement<5> = [1; 5].into();
        assert!(matches!(five.layout(9), Err(ShapeError::Rank { rank: 5 })));
    }

    #[test]
    fn strides_of_axes_of_one_are_of_no_account() {
        let layout = Placement::strided([1, 5], [0, 1]).layout(5).unwrap();
        assert_eq!(layout.strides, [5, 1]);
        let layout = Placement::strided([3, 1], [4, 7]).layout(9).unwrap();
        assert_eq!((layout.strides, layout.span()), ([4, 1], Some(9)));
        let layout = Placement { offset: 99, ..Placement::strided([0, 5], [0, 0]) }.layout(0).unwrap();
        assert_eq!((layout.offset, layout.strides), (0, [5, 1]));
    }
}
