//! `ldmatrix` and `stmatrix`: which row of shared memory each lane names.
//!
//! The instructions move one, two or four matrices of 8 rows x 16 bytes. Lane `8 i + r` names row `r` of matrix `i`,
//! and matrix `i` is register `i` of every lane: lane `l` has the 4 bytes at `4 (l % 4)` of row `l / 4`, or, with
//! `.trans` and 16-bit elements, the two elements at rows `2 (l % 4)` and `2 (l % 4) + 1` of column `l / 4` (PTX ISA,
//! `ldmatrix`). So a matrix is one word of a fragment, and where it begins follows from the fragment's bijection.

use super::swizzle::CHUNK;
use super::{Fragment, Index, LayoutError, SharedLayout};

/// One `ldmatrix` or `stmatrix` of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixAccess {
    /// Matrices: 1, 2 or 4 (`.x1`, `.x2`, `.x4`).
    pub count: u32,
    /// `.trans`: the shared tile's rows are the fragment's columns.
    pub transposed: bool,
    /// Row and column of the first matrix in the warp's part of the fragment.
    origin: (u32, u32),
    /// Added where bit 0 of the matrix number is set.
    low: (u32, u32),
    /// Added where bit 1 is set.
    high: (u32, u32),
}

impl MatrixAccess {
    /// The instruction that moves words `word .. word + count` of a warp's part of `fragment` (accumulators: of its
    /// pairs converted to 16 bit), to or from a tile of the same orientation, or a transposed one.
    ///
    /// # Errors
    /// `count` other than 1, 2 or 4; words beyond the fragment; a fragment that is not made of matrices, or words of
    /// it that do not lie in a parallelogram.
    pub fn new(fragment: &Fragment, word: u32, count: u32, transposed: bool) -> Result<MatrixAccess, LayoutError> {
        if !matches!(count, 1 | 2 | 4) {
            let (found, expected) = (count.into(), 4);
            return Err(LayoutError::Mismatch { what: "matrices of ldmatrix or stmatrix", found, expected });
        }
        let words = fragment.words();
        if word.checked_add(count).is_none_or(|end| end > words) {
            let (extent, most) = (u64::from(word) + u64::from(count), words.into());
            return Err(LayoutError::TooLarge { what: "words of a fragment", extent, most });
        }
        let origin = fragment.word_origin(word);
        let from_origin = |index: u32| {
            let (row, col) = fragment.word_origin(word + index)?;
            Some((row.checked_sub(origin?.0)?, col.checked_sub(origin?.1)?))
        };
        let difference = |index: u32| if index < count { from_origin(index) } else { Some((0, 0)) };
        let parts = (origin, difference(1), difference(2), difference(3));
        let (Some(origin), Some(low), Some(high), Some(both)) = parts else { return Err(not_matrices(word)) };
        if both != (low.0 + high.0, low.1 + high.1) && count == 4 {
            return Err(not_matrices(word));
        }
        Ok(MatrixAccess { count, transposed, origin, low, high })
    }

    /// Row and column, in the warp's part of the fragment, of the first of the 16 bytes that `lane` names. Lanes
    /// beyond `8 * count` name a row that the instruction ignores, but a valid one.
    pub fn position<I: Index>(&self, lane: I) -> (I, I) {
        let bit = |bit: u32| lane.clone().shr(3 + bit).and(1);
        let along = |origin: u32, low: u32, high: u32| {
            // Neighbouring matrices along one axis: the lane's bits are the row's, unmoved.
            let sum = bit(0).times(low).add(bit(1).times(high));
            sum.plus(origin)
        };
        let (mut row, mut col) =
            (along(self.origin.0, self.low.0, self.high.0), along(self.origin.1, self.low.1, self.high.1));
        let within = lane.clone().and(7);
        if self.transposed {
            col = within.add(col);
        } else {
            row = within.add(row);
        }
        (row, col)
    }

    /// Row and column, in a tile that this moves to or from, of the 16 bytes that `lane` names, where the warp's part of the
    /// fragment begins at (`row`, `col`) of the fragment's matrix: for an operand (mn, k), for an accumulator its row and
    /// column.
    pub fn place<I: Index>(&self, row: I, col: I, lane: I) -> (I, I) {
        let (down, right) = self.position(lane);
        let (row, col) = (row.add(down), col.add(right));
        if self.transposed { (col, row) } else { (row, col) }
    }

    /// Byte offset of [`MatrixAccess::place`] in `tile`.
    pub fn offset<I: Index>(&self, tile: &SharedLayout, row: I, col: I, lane: I) -> I {
        let (row, col) = self.place(row, col, lane);
        tile.offset(row, col)
    }
}

impl SharedLayout {
    /// That 16 bytes from any column that is a multiple of 16 bytes are contiguous and aligned.
    ///
    /// # Errors
    /// A row that is not whole chunks.
    pub fn whole_chunks(&self, instruction: &'static str) -> Result<(), LayoutError> {
        if self.panel().is_multiple_of(CHUNK) {
            return Ok(());
        }
        Err(LayoutError::Panel { instruction, panel: self.panel(), swizzle: self.swizzle() })
    }
}

fn not_matrices(word: u32) -> LayoutError {
    LayoutError::Mismatch { what: "matrices in a parallelogram, from word", found: word.into(), expected: 0 }
}
