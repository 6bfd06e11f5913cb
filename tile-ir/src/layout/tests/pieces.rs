//! Pieces of a tile: each register is of one of them, and a thread's rows and columns within a piece are numbered as its own tile's are.

use super::super::*;

fn tiles() -> Vec<Fragment> {
    let grid = |rows, cols| WarpGrid { rows, cols };
    vec![
        Fragment::wgmma_accumulator(128, 128, grid(1, 1)).unwrap(),
        Fragment::wgmma_accumulator(128, 256, grid(2, 1)).unwrap(),
        Fragment::wgmma_accumulator(192, 96, grid(1, 2)).unwrap(),
        Fragment::wgmma_narrow(32, 48).unwrap(),
        Fragment::mma_accumulator(64, 64, grid(2, 2)).unwrap(),
        Fragment::mma_exchanged(32, 64, grid(2, 1)).unwrap(),
        Fragment::crossings(128, 128, grid(2, 2), [4, 4]).unwrap(),
    ]
}

#[test]
fn pieces_are_all_of_the_tile_and_number_its_rows_and_columns() {
    for tile in tiles() {
        let [down, across] = tile.atoms().unwrap();
        let divisors = |of: u32| (1..=of).filter(move |n| of.is_multiple_of(*n));
        for shape in divisors(down).flat_map(|d| divisors(across).map(move |a| [d, a])) {
            let piece = tile.piece(shape);
            assert_eq!(piece.atoms(), Some(shape), "{tile:?}");
            assert_eq!(piece.registers(), shape[0] * shape[1] * tile.atom_registers(), "{tile:?}");
            let pieces = tile.registers() / piece.registers();
            let mut seen = vec![0; tile.registers() as usize];
            let register_of = |number, index| tile.piece_origin(&piece, number) + tile.in_piece(&piece, index);
            for (number, index) in (0..pieces).flat_map(|n| (0..piece.registers()).map(move |i| (n, i))) {
                let register = register_of(number, index);
                seen[register as usize] += 1;
                for axis in [0, 1] {
                    let slot = piece.slot(axis, index);
                    assert!(slot < piece.slots(axis), "{tile:?}: {shape:?}");
                    // The first element of the row or column is in the same row or column of the tile.
                    let first = register_of(number, piece.representative(axis, slot));
                    assert_eq!(tile.slot(axis, first), tile.slot(axis, register), "{tile:?}: {shape:?}");
                    for thread in [0, 37, tile.threads() - 1] {
                        let line = |register| <[u32; 2]>::from(tile.position(thread, register))[usize::from(axis)];
                        assert_eq!(line(first), line(register), "{tile:?}: {shape:?}");
                    }
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{tile:?}: {shape:?}");
        }
    }
}

/// Tiles whose elements are no rows and columns of atoms have no pieces.
#[test]
fn what_has_no_atoms_has_no_pieces() {
    assert_eq!(Fragment::blocked(8, 64, 128, 2).unwrap().atoms(), None);
    assert_eq!(Fragment::wgmma_narrow(8, 64).unwrap().atoms(), None);
}
