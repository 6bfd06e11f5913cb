//! Matrix descriptors of `wgmma`.
//!
//! A descriptor names a tile's start and two strides; with which axis each goes depends on the order in memory (PTX
//! ISA, "Matrix Descriptor Format" and "Strides"; the canonical layouts of CUTLASS' `mma_traits_sm90_gmma.hpp`):
//!
//! | order, swizzle | leading dimension byte offset | stride dimension byte offset |
//! |---|---|---|
//! | K-major, B128, B64, B32 | not used (written as 1) | from 8 rows of M (N) to the next 8 |
//! | K-major, none | from 16 bytes of K to the next | from 8 rows of M (N) to the next 8 |
//! | MN-major, B128, B64, B32 | from one span of M (N) to the next | from 8 rows of K to the next 8 |
//! | MN-major, none | from 8 rows of K to the next 8 | from 16 bytes of M (N) to the next |
//!
//! Within eight rows one is a span after the other. The instruction's K is always 32 bytes (16 rows, MN-major).

use super::swizzle::ATOM_ROWS;
use super::{LayoutError, Major, MmaInput, Operand, Permutation, Swizzle};

/// A descriptor but for the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Leading dimension byte offset.
    pub leading: u32,
    /// Stride dimension byte offset.
    pub stride: u32,
    /// The swizzle.
    pub swizzle: Swizzle,
}

/// Bytes that one unit of a descriptor's fields stands for: adding `n` bytes to the address is adding `n / 16` to the
/// descriptor.
pub const UNIT: u32 = 16;
/// What fits one of its 14-bit fields, in bytes.
const FIELD: u64 = 0x3fff * UNIT as u64;

impl Descriptor {
    /// The 64 bits for a tile (or a piece of one) at `address` of shared memory, 0 for what does not depend on it. The
    /// base offset (bits 49-51) is 0: tiles are aligned to their atoms.
    pub fn bits(self, address: u32) -> u64 {
        field(address) | field(self.leading) << 16 | field(self.stride) << 32 | self.swizzle.descriptor_code() << 62
    }
}

/// A 14-bit field of a descriptor.
const fn field(bytes: u32) -> u64 {
    (bytes / UNIT) as u64 & 0x3fff
}

/// A shared-memory operand of `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaOperand {
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// The instruction's transpose immediate (`imm-trans-a`, `imm-trans-b`): the operand is MN-major.
    pub transposed: bool,
    operand: Operand,
    input: MmaInput,
}

impl Operand {
    /// The tile as an operand of `wgmma`.
    ///
    /// # Errors
    /// Elements that `wgmma` does not take, or not MN-major (tf32); extents that are not whole steps of K and rows of
    /// 8; panels that are not the swizzle's span (row-major tiles without a swizzle); strides beyond 18 bits.
    pub fn wgmma(&self) -> Result<WgmmaOperand, LayoutError> {
        let instruction = "wgmma";
        let input = self.input(instruction)?;
        let Operand { tile, major } = *self;
        if input == MmaInput::Tf32 && major == Major::Mn {
            return Err(LayoutError::Unsupported { instruction, dtype: tile.dtype(), major });
        }
        if tile.panel() != tile.swizzle().span() {
            return Err(LayoutError::Panel { instruction, panel: tile.panel(), swizzle: tile.swizzle() });
        }
        let whole = |what, extent: u32, multiple: u32| {
            let fits = extent.is_multiple_of(multiple);
            if fits { Ok(()) } else { Err(LayoutError::Multiple { what, extent, multiple }) }
        };
        whole("K of an operand of wgmma", self.k(), input.k())?;
        whole("M or N of an operand of wgmma", self.mn(), ATOM_ROWS)?;
        // Eight rows of a panel, and one panel: the two ways to go on from a core of 8 rows x one span.
        let (rows, panel) = (ATOM_ROWS * tile.panel(), tile.panel_stride());
        let (leading, stride) = match (major, tile.swizzle()) {
            (Major::K, Swizzle::None) => (panel, rows),
            (Major::K, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => (UNIT, rows),
            (Major::Mn, Swizzle::None) => (rows, panel),
            (Major::Mn, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => (panel, rows),
        };
        for extent in [u64::from(leading), u64::from(stride)] {
            if extent > FIELD {
                return Err(LayoutError::TooLarge { what: "byte offset of a wgmma descriptor", extent, most: FIELD });
            }
        }
        let descriptor = Descriptor { leading, stride, swizzle: tile.swizzle() };
        Ok(WgmmaOperand { descriptor, transposed: major == Major::Mn, operand: *self, input })
    }
}

impl WgmmaOperand {
    /// Instructions along K in the tile.
    pub const fn k_steps(&self) -> u32 {
        self.operand.k() / self.input.k()
    }

    /// Bytes from the tile's start to the piece that begins at row `mn` and K step `step`: what is added to the
    /// address, or, divided by [`UNIT`], to the descriptor.
    ///
    /// # Errors
    /// A piece that begins within an atom, or outside the tile.
    pub fn offset(&self, mn: u32, step: u32) -> Result<u32, LayoutError> {
        let multiple = match self.operand.major {
            Major::K => ATOM_ROWS,
            // Along its contiguous axis a piece begins with a panel.
            Major::Mn => self.operand.tile.panel_cols(),
        };
        if !mn.is_multiple_of(multiple) {
            return Err(LayoutError::Multiple { what: "first row of a wgmma operand", extent: mn, multiple });
        }
        let outside = |what, extent: u32, end: u32| {
            let (extent, most) = (extent.into(), end.saturating_sub(1).into());
            LayoutError::TooLarge { what, extent, most }
        };
        if mn >= self.operand.mn() {
            return Err(outside("first row of a wgmma operand", mn, self.operand.mn()));
        }
        if step >= self.k_steps() {
            return Err(outside("K step of a wgmma operand", step, self.k_steps()));
        }
        Ok(self.operand.offset(mn, step * self.input.k()))
    }
}
