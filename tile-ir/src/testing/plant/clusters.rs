//! Which block of a cluster: mistakes in where arrivals, multicast copies and stores into other blocks go.

use super::{Family, binary, int};
use crate::ir::BinaryOp;
use crate::lowered::*;

/// Where an arrival, copy or store goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// The block after the one that it went to; of a multicast, after each of them.
    Next,
    /// The block that issues it, alone.
    Own,
    /// The cluster's first block.
    First,
    /// Of the blocks of a multicast, all but the first.
    Fewer,
    /// Every block.
    All,
}

/// The mistakes that an operation has of this kind.
pub(super) fn blocks(program: &Program, kind: &OpKind) -> Vec<(Family, To, &'static str)> {
    let size = program.launch.cluster_size();
    let is_number = |id: &ValueId| program.values.get(*id).is_some_and(|value| value.kind.as_int().is_some());
    let of_protocol = if size < 2 {
        Vec::new()
    } else if let OpKind::BarrierArrive { cta: Some(_), .. } = kind {
        vec![
            (To::Next, "an arrival goes to the next block"),
            (To::Own, "an arrival at another block stays in its own"),
            (To::First, "an arrival goes to the first block"),
        ]
    } else if let OpKind::BarrierArrive { cta: None, .. } = kind {
        vec![(To::Next, "an arrival in its own block goes to the next")]
    } else if let OpKind::TensorLoad { multicast: Some(mask), .. } = kind {
        let is_all = program.values.get(*mask).and_then(|mask| mask.kind.as_int()) == Some(all(size));
        let mut wrong =
            vec![(To::Own, "a multicast goes to its own block only"), (To::Fewer, "a multicast leaves out a block")];
        if !is_all {
            wrong.extend([
                (To::Next, "a multicast goes to the next blocks"),
                (To::All, "a multicast goes to all blocks"),
            ]);
        }
        wrong
    } else if let OpKind::TensorLoad { multicast: None, .. } = kind {
        vec![(To::All, "a TMA load for its own block goes to all")]
    } else if let OpKind::ClusterStore { block, .. } = kind {
        match is_number(block) {
            true => vec![
                (To::Next, "a store into another block goes to the next"),
                (To::Own, "a store stays in its own block"),
            ],
            false => vec![(To::Own, "a store into each block stays in its own")],
        }
    } else {
        Vec::new()
    };
    // Where every block sends the next what it had to keep, as much arrives everywhere, but not what is meant.
    let of_place = (size > 1 && matches!(kind, OpKind::TensorLoad { multicast: None, .. }))
        .then_some("a TMA load for its own block goes to the next");
    let of_protocol = of_protocol.into_iter().map(|(to, text)| (Family::Cluster, to, text));
    of_protocol.chain(of_place.map(|text| (Family::Coordinate, To::Next, text))).collect()
}

/// A mask of every block.
fn all(size: u32) -> i64 {
    (1 << size) - 1
}

/// Changes where the operation goes.
pub(super) fn change(program: &mut Program, kind: &mut OpKind, to: To) {
    let size = program.launch.cluster_size();
    let like = if let OpKind::BarrierArrive { barrier, .. } | OpKind::TensorLoad { barrier, .. } = kind {
        barrier.index
    } else if let OpKind::ClusterStore { block, .. } = kind {
        *block
    } else {
        return;
    };
    let Value { ty, span, .. } = program.values[like];
    let rank = program.values.push(Value { kind: ValueKind::Special(Special::ClusterRank), ty, span });
    if let OpKind::BarrierArrive { cta, .. } = kind {
        *cta = match to {
            To::Own => None,
            To::First => Some(int(program, like, 0)),
            To::Next | To::Fewer | To::All => Some(next(program, cta.unwrap_or(rank), size)),
        };
    } else if let OpKind::ClusterStore { block, .. } = kind {
        *block = if to == To::Own { rank } else { next(program, *block, size) };
    } else if let OpKind::TensorLoad { multicast, .. } = kind {
        let one = int(program, like, 1);
        *multicast = match (to, *multicast) {
            (To::Own | To::First, _) => None,
            (To::All, _) => Some(int(program, like, all(size))),
            (_, None) => {
                let next = next(program, rank, size);
                Some(binary(program, BinaryOp::Shl, one, next))
            }
            (To::Fewer, Some(mask)) => {
                let less = binary(program, BinaryOp::Sub, mask, one);
                Some(binary(program, BinaryOp::BitAnd, mask, less))
            }
            (To::Next, Some(mask)) => {
                let (last, all) = (int(program, like, i64::from(size) - 1), int(program, like, all(size)));
                let (up, down) =
                    (binary(program, BinaryOp::Shl, mask, one), binary(program, BinaryOp::Shr, mask, last));
                let both = binary(program, BinaryOp::BitOr, up, down);
                Some(binary(program, BinaryOp::BitAnd, both, all))
            }
        };
    }
}

/// The block after a block.
fn next(program: &mut Program, block: ValueId, size: u32) -> ValueId {
    let (one, size) = (int(program, block, 1), int(program, block, size.into()));
    let next = binary(program, BinaryOp::Add, block, one);
    binary(program, BinaryOp::Rem, next, size)
}
