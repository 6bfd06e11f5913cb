//! What asynchronous transfers are described by: tensor maps, barriers that count arrivals and bytes, cache hints.

use super::ValueId;
use crate::ir::{ParamId, Swizzle};
use serde::{Deserialize, Serialize};

crate::ir::entities! {
    /// A tensor map.
    MapId = "m";
    /// An array of barriers.
    BarrierId = "mb";
}

/// How TMA sees a tensor: the box it moves at once. The tensor's address, extents and strides are put in at
/// launch, innermost axis first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// The C parameter's name.
    pub name: String,
    /// The tensor.
    pub tensor: ParamId,
    /// Elements of the box on each axis, innermost first; at most 256 each, as many as the tensor has axes.
    pub box_extents: Vec<u32>,
    /// How the box's rows are permuted in shared memory.
    pub swizzle: Swizzle,
    /// How much of a missed line the second-level cache fetches.
    pub promotion: Promotion,
    /// Whether boxes are stored through it; otherwise they are loaded. No map does both: what stands for an empty tensor is
    /// zeros for loads, and a place that nobody reads for stores.
    pub stores: bool,
}

impl TensorMap {
    /// Elements of a box.
    pub fn box_elements(&self) -> u64 {
        self.box_extents.iter().map(|&extent| u64::from(extent)).product()
    }
}

/// How much of a missed line the second-level cache fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Promotion {
    /// What was asked for.
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// An array of barriers in shared memory. Each counts arrivals and bytes; its phase completes, and its parity flips, when
/// none of either is outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierArray {
    /// Its name.
    pub name: String,
    /// Barriers, [`BARRIER_BYTES`] bytes each.
    pub len: u32,
    /// Byte offset in the block's shared memory, a multiple of [`BARRIER_BYTES`].
    pub offset: u32,
}

/// Bytes of one barrier.
pub const BARRIER_BYTES: u32 = 8;

/// One barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierRef {
    /// The array.
    pub array: BarrierId,
    /// Which of it, an `Index`.
    pub index: ValueId,
}

/// How registers are shared out between producer and consumer warpgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolesRegisters {
    /// A thread's registers at launch: what the assembler gives a block of this many threads.
    pub launch: u32,
    /// A producer thread's, after it has given some back.
    pub producer: u32,
    /// A consumer thread's, after it has taken some.
    pub consumer: u32,
}

/// What a warp or block knows of its place beyond `threadIdx` and `blockIdx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Special {
    /// The warp's number in its block, an `Index`, the same register in all its lanes.
    Warp,
    /// The lane, an `Index`.
    Lane,
    /// The block's number in its cluster, an `Index`; 0 without clusters.
    ClusterRank,
    /// `gridDim` on an axis, an `Index`.
    Grid(u8),
    /// Whether this lane is the one chosen of its warp, a `bool`: true in exactly one lane. All lanes evaluate it.
    Elected,
}
