//! The parts of rows that are added up: every one held once, by the lane that has its columns of the row.

use super::super::*;
use crate::ir::reduction::PARTS;
use std::collections::BTreeSet;

/// Accumulators of warps and of warpgroups, whose rows are one warp's each.
fn accumulators() -> [Fragment; 4] {
    let rows = |rows| WarpGrid { rows, cols: 1 };
    [
        Fragment::mma_accumulator(64, 40, rows(4)).unwrap(),
        Fragment::mma_accumulator(64, 64, rows(2)).unwrap(),
        Fragment::wgmma_accumulator(128, 64, rows(1)).unwrap(),
        Fragment::wgmma_accumulator(192, 128, rows(3)).unwrap(),
    ]
}

#[test]
fn a_part_is_held_by_the_lane_that_adds_it_up() {
    for tile in accumulators() {
        let parts = tile.parts().unwrap();
        assert_eq!((parts.rows(), parts.cols()), (tile.rows(), PARTS), "{tile:?}");
        assert_eq!(parts.slots(0), parts.registers(), "{tile:?}");
        assert!(parts.agrees(&tile, 0) && tile.agrees(&parts, 0) && !parts.agrees(&tile, 1), "{tile:?}");
        let mut seen = BTreeSet::new();
        for (thread, register) in (0..parts.threads()).flat_map(|t| (0..parts.registers()).map(move |r| (t, r))) {
            let (row, part) = parts.position(thread, register);
            assert!(row < parts.rows() && part < PARTS && seen.insert((row, part)), "{tile:?}: {row}, {part}");
            assert_eq!(parts.holder(row, part), (thread, register), "{tile:?}");
            // A thread numbers its rows alike in the parts and in the accumulator, and the first column that it has of a row of the accumulator is twice the
            // number of its part.
            let slot = parts.slot(0, register);
            assert_eq!(parts.representative(0, slot), register, "{tile:?}");
            let (other, column) = tile.position(thread, tile.representative(0, slot));
            assert_eq!((other, column), (row, 2 * part), "{tile:?}");
        }
        assert_eq!(seen.len() as u32, parts.rows() * PARTS);
    }
}

#[test]
fn rows_of_several_warps_have_no_parts() {
    let grid = WarpGrid { rows: 2, cols: 2 };
    assert!(Fragment::mma_accumulator(64, 64, grid).unwrap().parts().is_none());
    assert!(Fragment::wgmma_narrow(16, 64).unwrap().parts().is_none());
    assert!(Fragment::blocked(64, 64, 128, 4).unwrap().parts().is_none());
}
