//! How a tensor or view lies in its memory: offset, extents and strides, in elements.

use crate::error::ShapeError;
use std::ops::Range;
use tile_ir::ir::MOST_TENSOR_AXES;

/// Extents and strides of a tensor of rank `R`, outermost first. The innermost stride is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout<const R: usize> {
    /// Element 0, in elements from the start of the memory.
    pub offset: usize,
    pub shape: [usize; R],
    pub strides: [usize; R],
}

/// A layout as rows of consecutive elements: `rows` of them at each start, `pitch` elements apart.
pub(crate) struct Rows {
    pub width: usize,
    pub rows: usize,
    pub pitch: usize,
    pub starts: Vec<usize>,
}

impl<const R: usize> Layout<R> {
    /// Rows after each other from the start of the memory.
    pub fn packed(shape: [usize; R]) -> Result<Layout<R>, ShapeError> {
        if !(1..=MOST_TENSOR_AXES).contains(&R) {
            return Err(ShapeError::Rank { rank: R });
        }
        let overflow = || ShapeError::Overflow { shape: shape.to_vec() };
        let mut strides = [1; R];
        for axis in (0..R.saturating_sub(1)).rev() {
            // An empty axis has no elements, and a stride of 0 would make rows overlap.
            strides[axis] = shape[axis + 1].max(1).checked_mul(strides[axis + 1]).ok_or_else(overflow)?;
        }
        let layout = Layout { offset: 0, shape, strides };
        layout
            .elements()
            .filter(|n| n.checked_mul(4).is_some_and(|b| b <= isize::MAX as usize))
            .map(|_| layout)
            .ok_or_else(overflow)
    }

    /// How many elements; `None` where that overflows.
    pub fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |n, e| n.checked_mul(*e))
    }

    /// How many elements, of a layout that was checked when made.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Elements from the first to one past the last; 0 where there are none. `None` where that overflows.
    pub fn span(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        let axes = self.shape.iter().zip(&self.strides);
        axes.map(|(extent, stride)| (extent - 1).checked_mul(*stride))
            .try_fold(1usize, |sum, last| sum.checked_add(last?))
    }

    /// Whether the elements follow each other without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for axis in (0..R).rev() {
            if self.shape[axis] != 1 && self.strides[axis] != expected {
                return self.shape.contains(&0);
            }
            expected *= self.shape[axis];
        }
        true
    }

    /// The part with these indices.
    pub fn slice(&self, ranges: [Range<usize>; R]) -> Result<Layout<R>, ShapeError> {
        let mut part = *self;
        let starts = ranges.each_ref().map(|range| range.start);
        for (axis, range) in ranges.into_iter().enumerate() {
            let Range { start, end } = range;
            let extent = self.shape[axis];
            if start > end || end > extent {
                return Err(ShapeError::Range { start, end, axis, extent });
            }
            part.shape[axis] = end - start;
        }
        // What has no elements lies nowhere: its first index may be beyond what an offset counts.
        if !part.shape.contains(&0) {
            part.offset += starts.iter().zip(&self.strides).map(|(start, stride)| start * stride).sum::<usize>();
        }
        Ok(part)
    }

    /// The part with these indices on the outermost axis.
    pub fn rows(&self, range: Range<usize>) -> Result<Layout<R>, ShapeError> {
        let mut ranges = self.shape.map(|extent| 0..extent);
        ranges[0] = range;
        self.slice(ranges)
    }

    /// One index on the outermost axis, which disappears.
    pub fn row<const S: usize>(&self, index: usize) -> Result<Layout<S>, ShapeError> {
        debug_assert_eq!(S + 1, R);
        if index >= self.shape[0] {
            return Err(ShapeError::Range {
                start: index,
                end: index.saturating_add(1),
                axis: 0,
                extent: self.shape[0],
            });
        }
        let shape: [usize; S] = std::array::from_fn(|axis| self.shape[axis + 1]);
        let inside = if shape.contains(&0) { 0 } else { index * self.strides[0] };
        Ok(Layout { offset: self.offset + inside, shape, strides: std::array::from_fn(|axis| self.strides[axis + 1]) })
    }

    /// The layout of a tensor's elements after two of its axes, neither of them the last, are exchanged: extents and strides change places.
    pub fn swap_axes(&self, first: usize, second: usize) -> Result<Layout<R>, ShapeError> {
        if first.max(second) + 1 >= R && (first != second || first >= R) {
            return Err(ShapeError::Axes { first, second, rank: R });
        }
        let mut swapped = *self;
        swapped.shape.swap(first, second);
        swapped.strides.swap(first, second);
        Ok(swapped)
    }

    /// A layout of the same elements in their order under another shape.
    pub fn reshape<const S: usize>(&self, shape: [usize; S]) -> Result<Layout<S>, ShapeError> {
        let packed = Layout::packed(shape)?;
        if packed.len() != self.len() {
            return Err(ShapeError::Length { shape: shape.to_vec(), expected: packed.len(), found: self.len() });
        }
        if !self.is_contiguous() {
            let (shape_now, strides) = (self.shape.to_vec(), self.strides.to_vec());
            return Err(ShapeError::NotContiguous { shape: shape_now, strides, wanted: shape.to_vec() });
        }
        Ok(Layout { offset: self.offset, ..packed })
    }

    /// The layout as equally spaced rows.
    pub fn as_rows(&self) -> Rows {
        if self.is_contiguous() {
            return Rows { width: self.len(), rows: 1, pitch: self.len(), starts: vec![self.offset] };
        }
        let width = self.shape[R - 1];
        if R < 2 {
            return Rows { width, rows: 1, pitch: width, starts: vec![self.offset] };
        }
        let (rows, pitch) = (self.shape[R - 2], self.strides[R - 2]);
        let planes: usize = self.shape[..R - 2].iter().product();
        let start = |plane: usize| {
            let mut rest = plane;
            (0..R - 2).rev().fold(self.offset, |start, axis| {
                let index = rest % self.shape[axis];
                rest /= self.shape[axis];
                start + index * self.strides[axis]
            })
        };
        let starts = (0..planes).map(start).collect();
        Rows { width, rows, pitch, starts }
    }
}

impl Rows {
    /// The start of each row, in elements.
    pub fn each(&self) -> impl Iterator<Item = usize> + '_ {
        self.starts.iter().flat_map(move |start| (0..self.rows).map(move |row| start + row * self.pitch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_rows_and_columns_keeps_the_pitch() {
        let whole = Layout::packed([4, 10]).unwrap();
        let part = whole.slice([1..3, 2..6]).unwrap();
        assert_eq!(part, Layout { offset: 12, shape: [2, 4], strides: [10, 1] });
        assert_eq!((part.span(), part.is_contiguous()), (Some(14), false));
        assert_eq!(part.as_rows().each().collect::<Vec<_>>(), [12, 22]);
        assert_eq!(part.row::<1>(1).unwrap(), Layout { offset: 22, shape: [4], strides: [1] });
        assert!(whole.rows(2..4).unwrap().is_contiguous());
    }

    #[test]
    fn ranges_and_shapes_that_do_not_fit_are_refused() {
        let whole = Layout::packed([4, 10]).unwrap();
        assert!(matches!(whole.rows(3..5), Err(ShapeError::Range { start: 3, end: 5, axis: 0, extent: 4 })));
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = whole.rows(3..2);
        assert!(matches!(reversed, Err(ShapeError::Range { .. })));
        assert!(whole.row::<1>(4).is_err());
        assert!(matches!(Layout::packed([usize::MAX, 2]), Err(ShapeError::Overflow { .. })));
        assert!(matches!(Layout::packed([1; 5]), Err(ShapeError::Rank { rank: 5 })));
        assert!(matches!(whole.reshape([39]), Err(ShapeError::Length { .. })));
        assert!(matches!(whole.slice([0..4, 0..9]).unwrap().reshape([36]), Err(ShapeError::NotContiguous { .. })));
    }

    #[test]
    fn planes_of_a_rank_three_view() {
        let part = Layout::packed([2, 3, 8]).unwrap().slice([0..2, 1..3, 0..4]).unwrap();
        assert_eq!(part.as_rows().each().collect::<Vec<_>>(), [8, 16, 32, 40]);
        assert_eq!(Layout::packed([2, 0, 8]).unwrap().span(), Some(0));
        let part = Layout::packed([2, 2, 2, 8]).unwrap().slice([0..2, 0..2, 1..2, 0..4]).unwrap();
        assert_eq!(part.as_rows().each().collect::<Vec<_>>(), [8, 24, 40, 56]);
        assert_eq!(Layout::packed([2, 3, 8]).unwrap().reshape([6, 8]).unwrap().strides, [8, 1]);
    }
}
