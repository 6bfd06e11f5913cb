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

/// Of exchanged operands two lanes have a part, each with one column of its pairs.
#[test]
fn a_part_of_exchanged_operands_is_held_by_the_lanes_of_its_pairs() {
    for (rows, cols, warps) in [(8, 16, 1), (32, 16, 4), (32, 64, 2), (64, 128, 8)] {
        let tile = Fragment::mma_exchanged(rows, cols, WarpGrid { rows: warps, cols: 1 }).unwrap();
        let parts = tile.parts().unwrap();
        assert_eq!((parts.rows(), parts.cols(), parts.slots(0)), (rows, PARTS, parts.registers()));
        assert!(parts.agrees(&tile, 0) && tile.agrees(&parts, 0) && !parts.agrees(&tile, 1));
        let mut seen = vec![0; (rows * PARTS) as usize];
        for (thread, register) in (0..parts.threads()).flat_map(|t| (0..parts.registers()).map(move |r| (t, r))) {
            let (row, part) = parts.position(thread, register);
            seen[(row * PARTS + part) as usize] += 1;
            let (holder, held) = parts.holder(row, part);
            assert_eq!((holder | 4, held), (thread | 4, register));
            let slot = parts.slot(0, register);
            assert_eq!(parts.representative(0, slot), register);
            let (other, column) = tile.position(thread, tile.representative(0, slot));
            assert_eq!((other, column / 2), (row, part));
        }
        assert!(seen.iter().all(|count| *count == 2));
    }
}

/// Every element of an accumulator of exchanged operands is held once, where the instruction has it, and found by row and column.
#[test]
fn exchanged_operands_have_a_transposed_accumulator() {
    for (rows, cols, grid) in [(8, 16, [1, 1]), (64, 32, [4, 2]), (16, 128, [2, 1]), (8, 128, [1, 4])] {
        let tile = Fragment::mma_exchanged(rows, cols, WarpGrid { rows: grid[0], cols: grid[1] }).unwrap();
        let mut seen = BTreeSet::new();
        for (thread, register) in (0..tile.threads()).flat_map(|t| (0..tile.registers()).map(move |r| (t, r))) {
            let (row, col) = tile.position(thread, register);
            assert!(row < rows && col < cols && seen.insert((row, col)));
            assert_eq!(tile.holder(row, col), (thread, register));
            let (top, left) = tile.warp_origin(thread / 32);
            let (down, right) = tile.atom_origin(register / 4);
            let (m, n) = crate::sim::hw::mma::c_position((thread % 32) as usize, (register % 4) as usize);
            assert_eq!((row - top - down, col - left - right), (n as u32, m as u32));
            let [i, j] = [0, 1].map(|axis| tile.slot(axis, register));
            assert_eq!(tile.representative(0, i) + tile.representative(1, j), register);
        }
        assert_eq!(seen.len() as u32, rows * cols);
    }
}

#[test]
fn rows_of_several_warps_have_no_parts() {
    let grid = WarpGrid { rows: 2, cols: 2 };
    assert!(Fragment::mma_accumulator(64, 64, grid).unwrap().parts().is_none());
    assert!(Fragment::wgmma_narrow(16, 64).unwrap().parts().is_none());
    assert!(Fragment::blocked(64, 64, 128, 4).unwrap().parts().is_none());
}
