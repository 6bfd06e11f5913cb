//! What the tensor cores' operations are described by.

use super::{LocalId, ValueId};
use crate::ir::Dtype;
use serde::{Deserialize, Serialize};

/// One matrix product of a warp: `acc[m, n] += a[m, k] b[k, n]`, a row-major, b column-major, in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MmaAtom {
    /// 16 x 8 x 16 on 16-bit floats: 4 words of a, 2 of b, 4 f32 a lane.
    M16n8k16 {
        /// `f16` or `bf16`.
        dtype: Dtype,
    },
    /// 16 x 8 x 8 on f32 read as tf32: 4 words of a, 2 of b, 4 f32 a lane.
    M16n8k8Tf32,
}

impl MmaAtom {
    /// m, n, k.
    pub const fn shape(self) -> [u32; 3] {
        match self {
            MmaAtom::M16n8k16 { .. } => [16, 8, 16],
            MmaAtom::M16n8k8Tf32 => [16, 8, 8],
        }
    }

    /// The operands' element type; f32 stands for tf32.
    pub const fn operand(self) -> Dtype {
        match self {
            MmaAtom::M16n8k16 { dtype } => dtype,
            MmaAtom::M16n8k8Tf32 => Dtype::F32,
        }
    }

    /// f32 a lane holds of the accumulator.
    pub const ACC: u32 = 4;
    /// 32-bit words a lane holds of a.
    pub const A: u32 = 4;
    /// 32-bit words a lane holds of b.
    pub const B: u32 = 2;
}

/// Where a warpgroup's product reads its left operand from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WgmmaOperand {
    /// Shared memory, by a matrix descriptor (`Wide`).
    Descriptor(ValueId),
    /// Four 32-bit registers a lane: this array from this element on.
    Registers(LocalId, ValueId),
}

/// Rows of a warpgroup's product.
pub const WGMMA_M: u32 = 64;

/// Depth of one warpgroup product: 32 bytes of either operand.
pub const fn wgmma_k(dtype: Dtype) -> u32 {
    32 / dtype.bytes()
}
