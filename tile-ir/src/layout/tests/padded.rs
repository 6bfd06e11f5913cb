//! Tiles whose last panel is wider than what is left of their columns.

use super::super::*;
use crate::ir::Dtype;
use std::collections::BTreeSet;

/// Columns, and those of the panels that hold them.
const COLUMNS: [(u32, Swizzle, u32); 4] =
    [(144, Swizzle::B64, 160), (112, Swizzle::B128, 128), (152, Swizzle::B64, 160), (64, Swizzle::B128, 64)];

#[test]
fn every_element_has_its_place_and_the_rest_is_padding() {
    for (cols, swizzle, whole) in COLUMNS {
        let tile = SharedLayout::padded(64, cols, Dtype::Bf16, swizzle).unwrap();
        let around = SharedLayout::new(64, whole, Dtype::Bf16, swizzle).unwrap();
        assert_eq!((tile.cols(), tile.bytes(), tile.panels()), (cols, around.bytes(), around.panels()));
        let mut seen = BTreeSet::new();
        for (row, col) in (0..64).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            let offset = tile.offset(row, col);
            assert_eq!(offset, around.offset(row, col));
            assert_eq!(tile.element(offset), Some((row, col)));
            seen.insert(offset);
        }
        let inside: BTreeSet<u32> = (0..tile.bytes()).filter(|offset| tile.element(*offset).is_some()).collect();
        assert_eq!(inside, seen);
    }
    assert!(SharedLayout::padded(60, 144, Dtype::Bf16, Swizzle::B64).is_err(), "panels are whole atoms of 8 rows");
    assert!(SharedLayout::padded(64, 0, Dtype::Bf16, Swizzle::B64).is_err());
}

/// TMA fills whole panels, and `wgmma` reads as many columns as the tile has.
#[test]
fn tma_fills_what_wgmma_reads() {
    let tile = SharedLayout::padded(64, 144, Dtype::Bf16, Swizzle::B64).unwrap();
    let plan = TmaPlan::new(&[64, 144], &tile, 1).unwrap();
    assert_eq!((plan.box_dims.as_slice(), plan.boxes.len()), (&[32, 64][..], 5));
    assert_eq!(plan.transaction_bytes, 64 * 160 * 2);
    assert_eq!(plan.boxes.iter().map(|one| one.offset).collect::<Vec<_>>(), [0, 4096, 8192, 12288, 16384]);
    let operand = Operand { tile, major: Major::Mn };
    assert_eq!(operand.mn(), 144);
    let read = operand.wgmma().unwrap();
    assert_eq!((read.descriptor.leading, read.descriptor.stride), (4096, 512));
    assert_eq!(read.offset(0, 3).unwrap(), 3 * 16 * 64);
}
