//! Boxes of the tensor memory accelerator (TMA), and the tensor maps that describe them.
//!
//! A tile is fetched box by box. A box is not wider than its swizzle's span and has at most 256 elements along any
//! axis, so a tile takes one box a column panel, or several. The plan depends on the tile alone and is made when a
//! kernel is compiled; the map adds a tensor's extents, strides and address at launch.
//!
//! Source: CUDA driver API, `cuTensorMapEncodeTiled`. Its arrays begin with the innermost axis; ours, like the
//! author's, with the outermost, except where a field says otherwise.

use super::swizzle::CHUNK;
use super::{LayoutError, SharedLayout, Swizzle};
use crate::ir::Dtype;

/// Most axes of a tensor map.
pub const MOST_RANK: usize = 5;
/// Most elements of a box along an axis.
pub const MOST_BOX: u32 = 256;
/// Most elements of a tensor along an axis.
const MOST_EXTENT: u64 = 1 << 32;
/// Strides are less than this, in bytes.
const MOST_STRIDE: u64 = 1 << 40;

/// The boxes that fetch (or store) one tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmaPlan {
    /// Element type.
    pub dtype: Dtype,
    /// The swizzle of tile and map.
    pub swizzle: Swizzle,
    /// Elements of a box, innermost first.
    pub box_dims: Vec<u32>,
    /// The boxes, part by part, then in the order of shared memory.
    pub boxes: Vec<TmaBox>,
    /// Bytes that arrive for one tile, also where it overhangs the tensor: what `expect_tx` is told.
    pub transaction_bytes: u32,
}

/// One box of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmaBox {
    /// Which part of the tile, of those that a cluster's blocks fetch for each other.
    pub part: u32,
    /// Added to the tile's first element along each axis, innermost first: the coordinates that the instruction takes.
    pub coordinates: Vec<u32>,
    /// Where it goes, in bytes from the start of the tile.
    pub offset: u32,
}

/// What `cuTensorMapEncodeTiled` is given, in its order: innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Element type.
    pub dtype: Dtype,
    /// Elements along each axis.
    pub dims: Vec<u64>,
    /// Bytes from one element to the next along each axis but the innermost.
    pub strides: Vec<u64>,
    /// Elements of a box.
    pub box_dims: Vec<u32>,
    /// Steps within a box: all 1.
    pub element_strides: Vec<u32>,
    /// The swizzle.
    pub swizzle: Swizzle,
}

impl TmaPlan {
    /// The boxes of a tile of extents `tile` (outermost first, 1 along axes that it does not span) stored as `layout`:
    /// its last axis is the layout's columns, all others, row-major, its rows. `parts` of equal numbers of rows are
    /// fetched apart: 1, or the blocks of a cluster that share the tile.
    ///
    /// # Errors
    /// Rank 0 or beyond [`MOST_RANK`]; a tile that is not `layout`'s; element types that TMA does not have; a panel
    /// that is not whole chunks of 16 bytes, or wider than [`MOST_BOX`] elements; parts that do not divide the rows;
    /// boxes that do not begin with an atom of the swizzle.
    pub fn new(tile: &[u32], layout: &SharedLayout, parts: u32) -> Result<TmaPlan, LayoutError> {
        check_rank(tile.len())?;
        let (cols, outer) = (tile[tile.len() - 1], &tile[..tile.len() - 1]);
        let rows = outer.iter().map(|&extent| u64::from(extent)).try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
        same("columns of a tile", cols.into(), layout.cols().into())?;
        same("rows of a tile", rows, layout.rows().into())?;
        if layout.dtype() == Dtype::Bool {
            return Err(LayoutError::Mismatch { what: "bytes of an element", found: 1, expected: 2 });
        }
        aligned("inner bytes of a box", layout.panel().into(), CHUNK.into())?;
        let width = layout.panel_cols();
        if width > MOST_BOX {
            let (extent, most) = (width.into(), MOST_BOX.into());
            return Err(LayoutError::TooLarge { what: "columns of a box", extent, most });
        }
        let heights = box_heights(outer, layout, parts)?;

        let mut boxes = Vec::new();
        let box_rows: u32 = heights.iter().product();
        let rows_of_part = layout.rows() / parts;
        for part in 0..parts {
            for panel in 0..layout.panels() {
                for first in (part * rows_of_part..(part + 1) * rows_of_part).step_by(box_rows as usize) {
                    let mut coordinates = vec![panel * width];
                    let mut rest = first;
                    for &extent in outer.iter().rev() {
                        coordinates.push(rest % extent);
                        rest /= extent;
                    }
                    let offset = layout.offset(first, panel * width);
                    aligned("offset of a box in shared memory", offset.into(), layout.alignment().into())?;
                    boxes.push(TmaBox { part, coordinates, offset });
                }
            }
        }
        let box_dims = std::iter::once(width).chain(heights.iter().rev().copied()).collect();
        let (dtype, swizzle) = (layout.dtype(), layout.swizzle());
        Ok(TmaPlan { dtype, swizzle, box_dims, boxes, transaction_bytes: layout.bytes() })
    }

    /// Axes of the tensor.
    pub fn rank(&self) -> usize {
        self.box_dims.len()
    }

    /// Bytes of one box.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims.iter().product::<u32>() * self.dtype.bytes()
    }

    /// The map of a tensor of extents `dims` and strides `strides` (in elements; both outermost first) at `address`.
    ///
    /// # Errors
    /// What TMA does not take: another rank, columns that are not contiguous, an address or stride that is not a
    /// multiple of 16 bytes, extents of 0 or beyond 2^32, strides of 2^40 bytes and more.
    pub fn tensor_map(&self, address: u64, dims: &[u64], strides: &[u64]) -> Result<TensorMap, LayoutError> {
        same("axes of a tensor", dims.len() as u64, self.rank() as u64)?;
        same("strides of a tensor", strides.len() as u64, self.rank() as u64)?;
        same("stride of the last axis", strides[strides.len() - 1], 1)?;
        aligned("address of a tensor", address, CHUNK.into())?;
        for &extent in dims {
            if extent == 0 {
                return Err(LayoutError::Empty { what: "an extent of a tensor" });
            }
            if extent > MOST_EXTENT {
                return Err(LayoutError::TooLarge { what: "an extent of a tensor", extent, most: MOST_EXTENT });
            }
        }
        let size = u64::from(self.dtype.bytes());
        let mut bytes = Vec::new();
        for &stride in strides[..strides.len() - 1].iter().rev() {
            let stride = stride.saturating_mul(size);
            aligned("stride of a tensor", stride, CHUNK.into())?;
            if stride >= MOST_STRIDE {
                let most = MOST_STRIDE - 1;
                return Err(LayoutError::TooLarge { what: "stride of a tensor in bytes", extent: stride, most });
            }
            bytes.push(stride);
        }
        Ok(TensorMap {
            dtype: self.dtype,
            dims: dims.iter().rev().copied().collect(),
            strides: bytes,
            box_dims: self.box_dims.clone(),
            element_strides: vec![1; self.rank()],
            swizzle: self.swizzle,
        })
    }
}

/// Extents of a box along the outer axes, outermost first: as large as a box may be, such that boxes follow one
/// another in the rows of the tile and none crosses from one part to the next.
fn box_heights(outer: &[u32], layout: &SharedLayout, parts: u32) -> Result<Vec<u32>, LayoutError> {
    let rows = layout.rows();
    if parts == 0 || !rows.is_multiple_of(parts) {
        return Err(LayoutError::Multiple { what: "rows of a tile", extent: rows, multiple: parts });
    }
    // From the innermost: an axis is whole in the box only if everything within it is.
    let mut left = rows / parts;
    let mut heights = vec![1; outer.len()];
    for (height, &extent) in heights.iter_mut().zip(outer).rev() {
        *height = largest_divisor(greatest_common_divisor(extent, left), MOST_BOX);
        if *height != extent {
            break;
        }
        left /= extent;
    }
    Ok(heights)
}

fn largest_divisor(extent: u32, most: u32) -> u32 {
    (1..=most.min(extent)).rev().find(|divisor| extent.is_multiple_of(*divisor)).unwrap_or(1)
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn check_rank(rank: usize) -> Result<(), LayoutError> {
    match rank {
        0 => Err(LayoutError::Empty { what: "axes of a tensor" }),
        1..=MOST_RANK => Ok(()),
        _ => Err(LayoutError::TooLarge { what: "axes of a tensor", extent: rank as u64, most: MOST_RANK as u64 }),
    }
}

fn same(what: &'static str, found: u64, expected: u64) -> Result<(), LayoutError> {
    if found == expected { Ok(()) } else { Err(LayoutError::Mismatch { what, found, expected }) }
}

fn aligned(what: &'static str, bytes: u64, multiple: u64) -> Result<(), LayoutError> {
    if bytes.is_multiple_of(multiple) { Ok(()) } else { Err(LayoutError::Alignment { what, bytes, multiple }) }
}
