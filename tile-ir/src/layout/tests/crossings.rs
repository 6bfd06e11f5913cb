//! Accumulators of multiply-adds: every element once, rows that cross columns, and reads that no two lanes wait for.

use super::super::*;
use crate::ir::Dtype;
use std::collections::BTreeSet;

const GRIDS: [(u32, u32, u32, u32); 5] =
    [(128, 128, 4, 2), (64, 64, 2, 2), (128, 64, 4, 1), (32, 128, 1, 4), (16, 64, 1, 1)];
const BLOCKS: [[u32; 2]; 4] = [[1, 1], [1, 4], [4, 1], [4, 4]];

fn each(mut f: impl FnMut(Fragment)) {
    let mut found = 0;
    for (rows, cols, down, across) in GRIDS {
        for block in BLOCKS {
            if let Ok(fragment) = Fragment::crossings(rows, cols, WarpGrid { rows: down, cols: across }, block) {
                found += 1;
                f(fragment);
            }
        }
    }
    assert_eq!(found, GRIDS.len() * BLOCKS.len());
}

#[test]
fn every_element_is_held_once() {
    each(|fragment| {
        let mut seen = BTreeSet::new();
        for (thread, register) in
            (0..fragment.threads()).flat_map(|thread| (0..fragment.registers()).map(move |r| (thread, r)))
        {
            let at = fragment.position(thread, register);
            assert!(at.0 < fragment.rows() && at.1 < fragment.cols(), "{fragment:?}: {at:?}");
            assert!(seen.insert(at), "{fragment:?}: {at:?} twice");
            assert_eq!(fragment.holder(at.0, at.1), (thread, register), "{fragment:?}");
        }
        assert_eq!(seen.len() as u32, fragment.rows() * fragment.cols());
    });
}

/// A thread's elements are the crossings of its rows with its columns, numbered by both.
#[test]
fn rows_cross_columns() {
    each(|fragment| {
        let [rows, cols] = [0, 1].map(|axis| fragment.slots(axis));
        assert_eq!(rows * cols, fragment.registers());
        for thread in [0, 5, 17, fragment.threads() - 1] {
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let [row, col] = [fragment.representative(0, i), fragment.representative(1, j)];
                let at = fragment.position(thread, row + col);
                assert_eq!((fragment.slot(0, row + col), fragment.slot(1, row + col)), (i, j), "{fragment:?}");
                assert_eq!(at.0, fragment.position(thread, row).0, "{fragment:?}");
                assert_eq!(at.1, fragment.position(thread, col).1, "{fragment:?}");
            }
        }
    });
}

/// The lanes are arranged so that a thread has as many rows as columns, or nearly so.
#[test]
fn blocks_are_square() {
    let sides = |rows, cols, grid: (u32, u32), block| {
        let fragment = Fragment::crossings(rows, cols, WarpGrid { rows: grid.0, cols: grid.1 }, block).unwrap();
        [fragment.slots(0), fragment.slots(1)]
    };
    for block in BLOCKS {
        assert_eq!(sides(128, 128, (4, 2), block), [8, 8]);
        assert_eq!(sides(128, 64, (4, 1), block), [8, 8]);
        assert_eq!(sides(64, 64, (2, 2), block), [8, 4]);
    }
    // A warp's part of 8 rows has no two lanes below one another that have 4 each but these.
    assert_eq!(sides(8, 64, (1, 1), [4, 4]), [4, 4]);
    assert!(Fragment::crossings(4, 64, WarpGrid { rows: 1, cols: 1 }, [4, 4]).is_err());
}

/// What the lanes that are served together read of an operand lies in different banks, or is the same: 16 bytes a lane, in
/// quarters of a warp.
#[test]
fn reads_have_no_conflicts() {
    each(|fragment| {
        for axis in [0u8, 1] {
            let extent = if axis == 0 { fragment.rows() } else { fragment.cols() };
            let block = fragment.lane_block().unwrap()[usize::from(axis)];
            let along_k = block == 1;
            let tile = match along_k {
                true => SharedLayout::automatic(extent, 16, Dtype::F32),
                false => SharedLayout::row_major(16, extent, Dtype::F32),
            };
            let tile = tile.unwrap();
            for (line, k) in (0..fragment.slots(axis)).step_by(block as usize).flat_map(|l| [0, 4, 12].map(|k| (l, k)))
            {
                for quarter in 0..fragment.threads() / 8 {
                    let words = (0..8).flat_map(|lane| {
                        let (row, col) = fragment.position(quarter * 8 + lane, fragment.representative(axis, line));
                        let mn = if axis == 0 { row } else { col };
                        let at = if along_k { tile.offset(mn, k) } else { tile.offset(k, mn) };
                        (0..4).map(move |word| at / 4 + word)
                    });
                    let words: BTreeSet<u32> = words.collect();
                    let banks: BTreeSet<u32> = words.iter().map(|word| word % 32).collect();
                    assert_eq!(words.len(), banks.len(), "{fragment:?}, axis {axis}, line {line}, k {k}");
                }
            }
        }
    });
}
