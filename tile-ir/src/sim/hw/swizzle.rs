//! Swizzling, on bits of byte addresses.

use crate::ir::Swizzle;

/// A swizzling mode of TMA and `wgmma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwizzleMode {
    /// None.
    None,
    /// 32 bytes.
    Bytes32,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
}

impl SwizzleMode {
    /// The physical address of a logical one: bits 4.. of the address are exchanged by XOR with bits 7.. , one, two or
    /// three of them. PTX ISA, "Tensor swizzling modes".
    pub fn physical(self, address: u32) -> u32 {
        let bit = |n: u32| (address >> n) & 1;
        match self {
            SwizzleMode::None => address,
            SwizzleMode::Bytes32 => address ^ (bit(7) << 4),
            SwizzleMode::Bytes64 => address ^ (bit(7) << 4) ^ (bit(8) << 5),
            SwizzleMode::Bytes128 => address ^ (bit(7) << 4) ^ (bit(8) << 5) ^ (bit(9) << 6),
        }
    }

    /// Bytes after which the permutation repeats: what the address of a box must be a multiple of. Without one, what
    /// TMA asks of any box.
    pub fn period(self) -> u32 {
        match self {
            SwizzleMode::None => 128,
            SwizzleMode::Bytes32 => 256,
            SwizzleMode::Bytes64 => 512,
            SwizzleMode::Bytes128 => 1024,
        }
    }

    /// Bytes of the mode's name; 16 for none.
    pub fn bytes(self) -> u32 {
        match self {
            SwizzleMode::None => 16,
            SwizzleMode::Bytes32 => 32,
            SwizzleMode::Bytes64 => 64,
            SwizzleMode::Bytes128 => 128,
        }
    }
}

impl From<Swizzle> for SwizzleMode {
    fn from(swizzle: Swizzle) -> SwizzleMode {
        match swizzle {
            Swizzle::None => SwizzleMode::None,
            Swizzle::B32 => SwizzleMode::Bytes32,
            Swizzle::B64 => SwizzleMode::Bytes64,
            Swizzle::B128 => SwizzleMode::Bytes128,
        }
    }
}
