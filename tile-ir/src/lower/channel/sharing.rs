//! Tiles that several blocks of a cluster need: each of these blocks fetches a part and sends it to all of them (multicast).
//!
//! Blocks need the same tile where they differ along axes alone that the tile does not depend on. Of a cluster of 2 x 4 tiles of a matrix
//! product, the 2 blocks beside one another share rows of one operand, and the 4 below one another columns of the other:
//!
//! ```text
//! rank  0 1      {0 1} {2 3} {4 5} {6 7}  need the same rows
//!       2 3      {0 2 4 6} {1 3 5 7}      need the same columns
//!       4 5
//!       6 7
//! ```
//!
//! A slot that takes both is filled by a block's row and its column of the cluster, which it fills in turn. So it may be filled again once the
//! consumers of all of these, 5 of the 8, have given it back, and each consumer gives it back to all of them.

use super::super::*;

/// Which blocks of a cluster need the same tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) struct Sharing {
    /// Blocks of a cluster along x, y and z.
    cluster: [u32; 3],
    /// The axes that the cluster spans and the tile does not depend on.
    axes: [bool; 3],
}

impl Sharing {
    /// The blocks of `cluster` that differ from each other along `axes` alone; `None` where each block is alone.
    pub(in crate::lower) fn new(cluster: [u32; 3], axes: [bool; 3]) -> Option<Sharing> {
        let axes = std::array::from_fn(|axis| axes[axis] && cluster[axis] > 1);
        axes.contains(&true).then_some(Sharing { cluster, axes })
    }

    /// How many blocks fetch a tile together.
    pub(in crate::lower) fn blocks(&self) -> u32 {
        (0..3).filter(|axis| self.axes[*axis]).map(|axis| self.cluster[axis]).product()
    }

    /// Whether all blocks of the cluster share.
    fn is_whole(&self) -> bool {
        self.blocks() == self.cluster.iter().product()
    }

    /// The letters of the axes, in their order.
    pub(in crate::lower) fn axes(&self) -> String {
        ["x", "y", "z"].into_iter().zip(self.axes).filter_map(|(letter, shares)| shares.then_some(letter)).collect()
    }

    /// The ranks that share with rank 0, a bit each.
    fn with_first(&self) -> u32 {
        let [cx, cy, cz] = std::array::from_fn(|axis| if self.axes[axis] { self.cluster[axis] } else { 1 });
        let mut mask = 0;
        for (x, y, z) in (0..cx).flat_map(|x| (0..cy).flat_map(move |y| (0..cz).map(move |z| (x, y, z)))) {
            mask |= 1 << (x + self.cluster[0] * (y + self.cluster[1] * z));
        }
        mask
    }

    /// How many ranks one step along an axis is.
    fn stride(&self, axis: usize) -> u32 {
        self.cluster[..axis].iter().product()
    }
}

/// How many blocks share a tile with a block by any of these: itself too.
pub(in crate::lower) fn sharers(all: &[Sharing]) -> u32 {
    all.iter().fold(1, |mask, sharing| mask | sharing.with_first()).count_ones()
}

impl Lowering<'_> {
    /// This block's place along an axis of its cluster.
    fn place_in_cluster(&mut self, sharing: &Sharing, axis: usize) -> ValueId {
        let place = self.binary(BinaryOp::Div, Special::ClusterRank, sharing.stride(axis));
        match sharing.cluster[axis + 1..].iter().any(|blocks| *blocks > 1) {
            true => self.binary(BinaryOp::Rem, place, sharing.cluster[axis]),
            false => place,
        }
    }

    /// Which part of a shared tile this block fetches.
    pub(super) fn part_of_tile(&mut self, sharing: &Sharing) -> ValueId {
        if sharing.is_whole() {
            return self.eval(Special::ClusterRank);
        }
        let (mut part, mut parts) = (None, 1);
        for axis in (0..3).filter(|axis| sharing.axes[*axis]) {
            let place = self.place_in_cluster(sharing, axis);
            part = Some(self.joined(BinaryOp::Add, part, place * parts));
            parts *= sharing.cluster[axis];
        }
        part.unwrap_or_else(|| self.int(0))
    }

    /// The ranks that need the tile of this block, a bit each.
    pub(in crate::lower) fn sharing_ranks(&mut self, sharing: &Sharing) -> ValueId {
        let mut mask = self.int(i64::from(sharing.with_first()));
        for axis in (0..3).filter(|axis| !sharing.axes[*axis] && sharing.cluster[*axis] > 1) {
            let place = self.place_in_cluster(sharing, axis);
            mask = self.binary(BinaryOp::Shl, mask, place * sharing.stride(axis));
        }
        mask
    }

    /// Whether the block of rank `rank` (at least 0) fills slots of this block, which share by all of these.
    pub(in crate::lower) fn is_sharer(&mut self, all: &[Sharing], rank: ValueId) -> ValueId {
        let blocks = all.first().map_or(1, |sharing| sharing.cluster.iter().product::<u32>());
        let within = self.binary(BinaryOp::Lt, rank, blocks);
        if all.iter().any(Sharing::is_whole) {
            return within;
        }
        let mut ranks = None;
        for sharing in all {
            let own = self.sharing_ranks(sharing);
            ranks = Some(self.joined(BinaryOp::BitOr, ranks, own));
        }
        let Some(ranks) = ranks else { return within };
        // Shifts of 32 and more mean nothing.
        let nearest = self.binary(BinaryOp::Min, rank, i64::from(blocks) - 1);
        let bit = self.binary(BinaryOp::Shr, ranks, nearest);
        self.binary(BinaryOp::And, within, (bit & 1).equals(1))
    }
}
