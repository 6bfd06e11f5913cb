//! Clusters of two axes: each block fetches a part of its rows for the blocks beside it, and a part of its columns for the blocks below
//! it. A slot may be filled again once the consumers of all of these have given it back.

use super::skinny::{arguments, bits, checked};
use super::{COOPERATIVE, Gemm, gemm, lowered};
use crate::ir::*;
use crate::lowered::visit::{count, each, each_mut};
use crate::lowered::{OpKind, Program, ValueKind};
use crate::sim::checked::Copies;
use crate::sim::fast::run as run_fast;

const SMALL: Gemm = Gemm {
    tile: [64, 64, 64],
    stages: 2,
    threads: 128,
    cluster: [2, 2],
    schedule: Schedule::Cooperative,
    ..COOPERATIVE
};

/// The clusters of two axes, and those of x alone.
const CLUSTERS: [[i64; 2]; 6] = [[2, 1], [4, 1], [2, 2], [4, 2], [2, 4], [1, 4]];

fn is_right(g: &Gemm, shape: [i64; 3]) {
    let fast = arguments(g, shape);
    run_fast(&crate::testing::bound(&gemm(g)), &fast).unwrap_or_else(|e| panic!("{g:?} {shape:?}: {e}"));
    let program = lowered(g);
    for copies in [Copies::Early, Copies::Late, Copies::Seeded] {
        let args = arguments(g, shape);
        let report = checked(&program, &args, copies);
        assert!(report.is_clean(), "{g:?} {shape:?} {copies:?}\n{}", report.render(&program));
        assert!(bits(&args[2]) == bits(&fast[2]), "{g:?} {shape:?} {copies:?}");
    }
}

/// Tiles along neither axis are a multiple of the cluster's, and there are more steps along K than slots.
#[test]
fn operands_are_shared_along_both_axes_on_ragged_shapes() {
    for cluster in CLUSTERS {
        let [cx, cy] = cluster;
        is_right(&Gemm { cluster, ..SMALL }, [64 * (cy + 1) - 7, 64 * (cx + 1) - 16, 64 * 3 + 8]);
    }
    // One tile of a cluster, and none.
    is_right(&SMALL, [8, 8, 8]);
    is_right(&SMALL, [8, 0, 8]);
}

#[test]
fn so_they_are_in_every_layout_by_two_warpgroups_and_in_turn() {
    for stored in [[false, false], [true, true], [true, false]] {
        is_right(&Gemm { stored, ..SMALL }, [136, 200, 200]);
    }
    is_right(&Gemm { tile: [128, 64, 64], threads: 256, ..SMALL }, [264, 72, 200]);
    is_right(&Gemm { schedule: Schedule::PingPong, ..SMALL }, [264, 136, 200]);
    is_right(&Gemm { persistent: false, ..SMALL }, [136, 72, 136]);
}

/// How many arrivals free a slot: of the consumers of a block's row and column of the cluster.
fn arrivals(program: &Program) -> u32 {
    let mut most = 0;
    each(&program.body, &mut |op| {
        if let OpKind::BarrierInit { arrivals, .. } = &op.kind {
            most = most.max(*arrivals);
        }
    });
    most
}

#[test]
fn a_row_and_a_column_of_the_cluster_give_a_slot_back() {
    for ([cx, cy], wanted) in CLUSTERS.into_iter().zip([2, 4, 3, 5, 5, 4]) {
        for (threads, bm, consumers) in [(128, 64, 1), (256, 128, 2)] {
            let g = Gemm { cluster: [cx, cy], threads, tile: [bm, 64, 64], ..SMALL };
            let program = lowered(&g);
            assert_eq!(program.launch.cluster, [(cx * cy) as u32, 1, 1]);
            assert_eq!(arrivals(&program), wanted * consumers, "{g:?}");
            let multicast = |op: &OpKind| matches!(op, OpKind::TensorLoad { multicast: Some(_), .. });
            assert_eq!(count(&program.body, &multicast), usize::from(cx > 1) + usize::from(cy > 1), "{g:?}");
        }
    }
}

/// What another rule of sharing would have made of it is found.
#[test]
fn other_ranks_and_other_counts_are_found() {
    let shape = [136, 136, 264];
    let right = lowered(&SMALL);
    let found = |program: &Program| {
        let args = arguments(&SMALL, shape);
        let fast = arguments(&SMALL, shape);
        run_fast(&crate::testing::bound(&gemm(&SMALL)), &fast).unwrap();
        let report = checked(program, &args, Copies::Seeded);
        !report.is_clean() || bits(&args[2]) != bits(&fast[2])
    };
    assert!(!found(&right));
    // A slot that one consumer too few gives back, or one too many.
    for by in [-1, 1] {
        let mut program = right.clone();
        each_mut(&mut program.body, &mut |op| {
            if let OpKind::BarrierInit { arrivals, .. } = &mut op.kind
                && *arrivals == 3
            {
                *arrivals = arrivals.saturating_add_signed(by);
            }
        });
        assert!(found(&program), "{by}");
    }
    // Rows for the blocks below instead of those beside, and columns for one block alone.
    for (from, to) in [(0b11, 0b101), (0b101, 0b11), (0b101, 0b1)] {
        let mut program = right.clone();
        let mut masks = Vec::new();
        each(&program.body, &mut |op| {
            if let OpKind::TensorLoad { multicast: Some(ranks), .. } = &op.kind
                && let ValueKind::Binary(BinaryOp::Shl, mask, _) = program.values[*ranks].kind
                && program.values[mask].kind == ValueKind::Int(from)
            {
                masks.push(mask);
            }
        });
        assert!(!masks.is_empty());
        for mask in masks {
            program.values[mask].kind = ValueKind::Int(to);
        }
        assert!(found(&program), "{from:#b} {to:#b}");
    }
}
