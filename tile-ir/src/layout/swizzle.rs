//! Swizzles: how 16-byte chunks are permuted within an atom of shared memory so that a column of rows meets every bank
//! once.
//!
//! A swizzle of span S bytes XORs the number of a chunk within its span with the number of the 128-byte line it lies
//! in: address bits 4.. with bits 7.. (PTX ISA, "Swizzling modes"; `CU_TENSOR_MAP_SWIZZLE_*`). The atom, after which
//! the pattern repeats, is eight rows of S bytes.

use super::Index;
pub use crate::ir::Swizzle;

/// Bytes of a chunk, the unit that is permuted.
pub const CHUNK: u32 = 16;
/// Rows of an atom, whatever the span.
pub const ATOM_ROWS: u32 = 8;
/// Distance between the address bit that is changed and the one it is changed by.
const DISTANCE: u32 = 3;

/// Where bytes lie under a swizzle. A trait, not methods of [`Swizzle`], so that only who imports it from here has these
/// formulas: the simulator, which knows the same names, has its own.
pub trait Permutation {
    /// The widest swizzle whose span divides a row of `bytes` bytes; `None` where even 32 does not.
    fn widest(bytes: u32) -> Swizzle;

    /// Bytes of a row that are permuted among themselves: 16 (one chunk: nothing to permute), 32, 64 or 128.
    fn span(self) -> u32;

    /// Bytes of an atom, after which the pattern repeats: 128 (a core matrix), 256, 512 or 1024.
    fn atom(self) -> u32;

    /// What a tile's address must be a multiple of, in bytes, for the pattern to begin with it. Without a swizzle: what
    /// TMA asks of any box.
    fn alignment(self) -> u32;

    /// The field of a `wgmma` matrix descriptor (bits 62-63).
    fn descriptor_code(self) -> u64;

    /// Where the byte at `address` of the plain image lies in the permuted one. It is its own inverse.
    fn apply<I: Index>(self, address: I) -> I;

    /// Where byte `byte` (within the span) of row `row` lies, in bytes from the start of an atom's column whose rows
    /// are [`Permutation::span`] bytes apart: `apply(row * span + byte)`, with the row's part kept apart, so that what
    /// depends on the row only is computed once.
    fn place<I: Index>(self, row: I, byte: I) -> I;

    /// What [`Permutation::place`] XORs onto the byte in row `row`.
    fn turn<I: Index>(self, row: I) -> I;
}

impl Permutation for Swizzle {
    fn widest(bytes: u32) -> Swizzle {
        match () {
            () if bytes.is_multiple_of(128) => Swizzle::B128,
            () if bytes.is_multiple_of(64) => Swizzle::B64,
            () if bytes.is_multiple_of(32) => Swizzle::B32,
            () => Swizzle::None,
        }
    }

    fn span(self) -> u32 {
        CHUNK << bits(self)
    }

    fn atom(self) -> u32 {
        self.span() * ATOM_ROWS
    }

    fn alignment(self) -> u32 {
        match self {
            Swizzle::None => 128,
            Swizzle::B32 | Swizzle::B64 | Swizzle::B128 => self.atom(),
        }
    }

    fn descriptor_code(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        }
    }

    fn apply<I: Index>(self, address: I) -> I {
        if self == Swizzle::None {
            return address;
        }
        let mask = (self.span() - 1) & !(CHUNK - 1);
        address.clone().xor(address.shr(DISTANCE).and(mask))
    }

    fn place<I: Index>(self, row: I, byte: I) -> I {
        if self == Swizzle::None {
            return row.times(CHUNK).add(byte);
        }
        row.clone().times(self.span()).add(byte.xor(self.turn(row)))
    }

    fn turn<I: Index>(self, row: I) -> I {
        let mask = (1 << bits(self)) - 1;
        // A 128-byte line holds 128 / span rows.
        row.over(128 / self.span()).and(mask).times(CHUNK)
    }
}

/// Address bits that are changed.
const fn bits(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    }
}
