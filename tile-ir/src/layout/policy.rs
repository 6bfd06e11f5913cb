//! How the warps (or warpgroups) of a block divide a tile.

use super::LayoutError;
use crate::ir::WarpPolicy;

/// An arrangement of warps, or of warpgroups: warp `w` is in row `w / cols` and column `w % cols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpGrid {
    /// Down the rows of the tile.
    pub rows: u32,
    /// Along its columns.
    pub cols: u32,
}

impl WarpGrid {
    /// Warps in the grid.
    pub const fn count(self) -> u32 {
        self.rows * self.cols
    }

    /// Rows and columns of one warp's part of a tile of `rows x cols`, if it is whole atoms.
    ///
    /// # Errors
    /// Where it is not: [`LayoutError::Warps`].
    pub fn divide(self, rows: u32, cols: u32, atom: (u32, u32)) -> Result<(u32, u32), LayoutError> {
        let divides = |extent: u32, warps: u32, atom: u32| {
            extent > 0 && warps > 0 && atom > 0 && u64::from(extent) % (u64::from(warps) * u64::from(atom)) == 0
        };
        if divides(rows, self.rows, atom.0) && divides(cols, self.cols, atom.1) {
            return Ok((rows / self.rows, cols / self.cols));
        }
        let warps = self.rows.saturating_mul(self.cols);
        Err(LayoutError::Warps { warps, rows, cols, atom_rows: atom.0, atom_cols: atom.1 })
    }
}

impl WarpPolicy {
    /// The grid of `warps` warps over a tile of `rows x cols` whose warp tiles are whole atoms. Of two equally square
    /// ones, that with more warps along the rows.
    ///
    /// # Errors
    /// Where no grid of this policy divides the tile: [`LayoutError::Warps`].
    pub fn grid(self, rows: u32, cols: u32, warps: u32, atom: (u32, u32)) -> Result<WarpGrid, LayoutError> {
        let legal = |grid: &WarpGrid| grid.divide(rows, cols, atom).is_ok();
        let all = (1..=warps).rev().filter(|r| warps.is_multiple_of(*r)).map(|r| WarpGrid { rows: r, cols: warps / r });
        let best = match self {
            WarpPolicy::FullRow => Some(WarpGrid { rows: warps, cols: 1 }).filter(legal),
            WarpPolicy::FullCol => Some(WarpGrid { rows: 1, cols: warps }).filter(legal),
            // A warp reads its rows of one operand and its columns of the other: the least sum is the squarest.
            WarpPolicy::Square => all.filter(legal).min_by_key(|grid| rows / grid.rows + cols / grid.cols),
        };
        best.ok_or(LayoutError::Warps { warps, rows, cols, atom_rows: atom.0, atom_cols: atom.1 })
    }
}
