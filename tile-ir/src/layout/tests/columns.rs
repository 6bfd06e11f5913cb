//! Tiles that are stored column after column.

use super::super::*;
use crate::ir::Dtype;
use std::collections::BTreeSet;

const SHAPES: [(u32, u32); 4] = [(128, 8), (64, 16), (32, 16), (12, 5)];

#[test]
fn every_element_has_its_place() {
    for (rows, cols) in SHAPES {
        let tile = SharedLayout::column_major(rows, cols, Dtype::F32).unwrap();
        assert!(tile.is_column_major());
        assert_eq!(tile.bytes(), cols * (rows * 4 + 16));
        let mut seen = BTreeSet::new();
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            let offset = tile.offset(row, col);
            assert_eq!(offset, col * (rows * 4 + 16) + row * 4);
            assert_eq!(tile.place(row, col) * 4, offset);
            assert_eq!(tile.element(offset), Some((row, col)));
            assert!(seen.insert(offset));
        }
        // Whatever else there is is padding.
        let inside = (0..tile.bytes()).filter(|offset| tile.element(*offset).is_some()).count();
        assert_eq!(inside as u32, rows * cols);
        assert_eq!(tile.element(tile.bytes()), None);
    }
}

/// Seen as the transposed matrix, every element is where it was, and the rows of a column follow one another.
#[test]
fn a_turned_tile_is_the_same_memory() {
    for (rows, cols) in SHAPES {
        let tile = SharedLayout::column_major(rows, cols, Dtype::F32).unwrap();
        let turned = tile.turned().unwrap();
        assert_eq!((turned.rows(), turned.cols(), turned.bytes()), (cols, rows, tile.bytes()));
        assert_eq!((tile.contiguous(), turned.contiguous()), (1, rows));
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            assert_eq!(turned.offset(col, row), tile.offset(row, col));
            assert_eq!(turned.place(col, row), tile.place(row, col));
            assert_eq!(turned.element(tile.offset(row, col)), Some((col, row)));
            for tile in [tile, turned] {
                let at = if tile == turned { (col, row) } else { (row, col) };
                assert_eq!(tile.step(at.0, at.1).unwrap().apply(tile.offset(0u32, 0)), tile.offset(at.0, at.1));
            }
        }
        assert_eq!(turned.turned(), None);
    }
    assert_eq!(SharedLayout::row_major(8, 8, Dtype::F32).unwrap().turned(), None);
}

/// Lanes that write 8 neighbours of each of 4 rows below one another are in 32 banks.
#[test]
fn rows_are_written_without_conflicts() {
    for (rows, cols) in [(128, 8), (64, 16), (32, 16)] {
        let tile = SharedLayout::column_major(rows, cols, Dtype::F32).unwrap();
        for (first_row, first_col) in [(0, 0), (4, 0), (rows - 4, cols - 8)] {
            let banks: BTreeSet<u32> =
                (0..32).map(|lane| tile.place(first_row + lane / 8, first_col + lane % 8) % 32).collect();
            assert_eq!(banks.len(), 32, "{rows} x {cols}");
        }
    }
}

#[test]
fn empty_tiles_are_refused() {
    assert!(SharedLayout::column_major(0, 8, Dtype::F32).is_err());
    assert!(SharedLayout::column_major(8, 0, Dtype::F32).is_err());
    assert!(SharedLayout::column_major(u32::MAX, 8, Dtype::F32).is_err());
}
