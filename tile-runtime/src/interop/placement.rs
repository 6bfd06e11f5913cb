//! How a tensor lies in memory of other code.

use crate::error::ShapeError;
use crate::layout::Layout;

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
    /// These extents and strides from the start of the memory.
    pub fn strided(shape: [usize; R], strides: [usize; R]) -> Self {
        Placement { offset: 0, shape, strides: Some(strides) }
    }

    /// The layout in memory of `len` elements.
    pub(super) fn layout(&self, len: usize) -> Result<Layout<R>, ShapeError> {
        let layout = self.checked()?;
        let end = layout.span().and_then(|span| span.checked_add(if span == 0 { 0 } else { layout.offset }));
        let overflow = || ShapeError::Overflow { shape: self.shape.to_vec() };
        let end = end.ok_or_else(overflow)?;
        if end > len {
            let (shape, strides) = (layout.shape.to_vec(), layout.strides.to_vec());
            return Err(ShapeError::Outside { shape, strides, end, len });
        }
        Ok(layout)
    }

    /// The layout, wherever it ends.
    pub(super) fn checked(&self) -> Result<Layout<R>, ShapeError> {
        let packed = Layout::packed(self.shape)?;
        let empty = self.shape.contains(&0);
        // What has no elements lies nowhere.
        let offset = if empty { 0 } else { self.offset };
        let Some(mut strides) = self.strides.filter(|_| !empty) else { return Ok(Layout { offset, ..packed }) };
        let shape = || self.shape.to_vec();
        let overflow = || ShapeError::Overflow { shape: shape() };
        let past = |axis: usize, stride: usize, least: usize| {
            let last = (self.shape[axis] - 1).checked_mul(stride);
            last.and_then(|last| last.checked_add(least)).ok_or_else(overflow)
        };
        // The innermost axis, then the others as they lie: axes may be exchanged.
        let mut order: Vec<usize> = (0..R).filter(|axis| self.shape[*axis] != 1).collect();
        order.sort_by_key(|axis| (axis + 1 != R, strides[*axis]));
        let mut least = 1usize;
        for axis in order {
            let stride = strides[axis];
            if axis == R - 1 && stride != 1 {
                return Err(ShapeError::InnerStride { shape: shape(), stride });
            } else if stride < least {
                return Err(ShapeError::Overlap { shape: shape(), axis, stride, least });
            }
            least = past(axis, stride, least)?;
        }
        // The stride of an axis of one element means nothing: it is what the axes behind it take.
        let mut behind = 1usize;
        for axis in (0..R).rev() {
            if self.shape[axis] == 1 {
                strides[axis] = behind;
            }
            behind = past(axis, strides[axis], behind)?;
        }
        Ok(Layout { offset, shape: self.shape, strides })
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
