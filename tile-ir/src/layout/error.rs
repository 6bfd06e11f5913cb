//! Why a layout cannot be, with both numbers.

use super::{Major, Swizzle};
use crate::ir::Dtype;

/// Why a layout cannot be. Every variant carries the values that disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An extent is 0.
    #[error("{what} is 0")]
    Empty {
        /// Which extent.
        what: &'static str,
    },
    /// A row is not whole spans of the swizzle.
    #[error("a row of {bytes} bytes is not a multiple of {span}, the span of swizzle {swizzle:?}")]
    Span {
        /// Bytes of a row.
        bytes: u32,
        /// Bytes of the span.
        span: u32,
        /// The swizzle.
        swizzle: Swizzle,
    },
    /// Several column panels, each of which must begin with an atom, have rows that are not whole atoms.
    #[error("{rows} rows are not a multiple of {multiple}, which {panels} column panels side by side need")]
    PanelRows {
        /// Rows of the tile.
        rows: u32,
        /// What they must be a multiple of.
        multiple: u32,
        /// Column panels.
        panels: u32,
    },
    /// A tile's extent is not whole atoms of a fragment or instruction.
    #[error("{what}: {extent} is not a multiple of {multiple}")]
    Multiple {
        /// Which extent.
        what: &'static str,
        /// Its value.
        extent: u32,
        /// What it must be a multiple of.
        multiple: u32,
    },
    /// A tile's extent is beyond what an instruction takes.
    #[error("{what}: {extent} is more than {most}")]
    TooLarge {
        /// Which extent.
        what: &'static str,
        /// Its value.
        extent: u64,
        /// The most there may be.
        most: u64,
    },
    /// No arrangement of the warps divides the tile.
    #[error(
        "{} cannot divide a tile of {rows} x {cols} into parts of whole {atom_rows} x {atom_cols} atoms",
        groups(*warps, *atom_rows)
    )]
    Warps {
        /// Warps (or warpgroups).
        warps: u32,
        /// Rows of the tile.
        rows: u32,
        /// Columns of the tile.
        cols: u32,
        /// Rows of an atom.
        atom_rows: u32,
        /// Columns of an atom.
        atom_cols: u32,
    },
    /// The instruction does not take elements of this type, or not in this order.
    #[error("{instruction} does not take {dtype} operands that are {major:?}-major")]
    Unsupported {
        /// The instruction.
        instruction: &'static str,
        /// The element type.
        dtype: Dtype,
        /// The order in shared memory.
        major: Major,
    },
    /// The layout is one that the instruction cannot address.
    #[error("{instruction} cannot address a tile whose panels are {panel} bytes wide with swizzle {swizzle:?}")]
    Panel {
        /// The instruction.
        instruction: &'static str,
        /// Bytes of a panel's row.
        panel: u32,
        /// The swizzle.
        swizzle: Swizzle,
    },
    /// A number of bytes or an address is not aligned.
    #[error("{what}: {bytes} is not a multiple of {multiple} bytes")]
    Alignment {
        /// What.
        what: &'static str,
        /// Its value.
        bytes: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// Two ranks or extents that must agree do not.
    #[error("{what}: {found}, but {expected} expected")]
    Mismatch {
        /// What.
        what: &'static str,
        /// What is there.
        found: u64,
        /// What should be.
        expected: u64,
    },
}

/// `4 warps`, or `2 warpgroups` where the atom is theirs.
fn groups(count: u32, atom_rows: u32) -> String {
    let what = if atom_rows == 64 { "warpgroup" } else { "warp" };
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
