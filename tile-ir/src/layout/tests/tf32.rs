//! Operands of tf32, every element of them: against the hardware as `sim::hw` has it from the manual.

use super::super::descriptor::UNIT;
use super::super::*;
use crate::ir::Dtype;
use crate::sim::hw::matrix;
use crate::sim::hw::mma::{self, Input};
use crate::sim::hw::wgmma::MatrixDescriptor;
use std::collections::BTreeSet;

const SWIZZLES: [Swizzle; 4] = Swizzle::ALL;

fn tile(rows: u32, cols: u32, swizzle: Swizzle) -> Option<SharedLayout> {
    SharedLayout::new(rows, cols, Dtype::F32, swizzle).ok()
}

/// The image of a tile whose element (row, column) is the integer `row * cols + col`.
fn image(tile: &SharedLayout) -> Vec<u8> {
    let mut bytes = vec![0xff; tile.bytes() as usize];
    for (row, col) in (0..tile.rows()).flat_map(|row| (0..tile.cols()).map(move |col| (row, col))) {
        let at = tile.offset(row, col) as usize;
        bytes[at..at + 4].copy_from_slice(&(row * tile.cols() + col).to_le_bytes());
    }
    bytes
}

/// How many wavefronts the accesses of `bytes` each at these addresses take: the most different lines that meet in a bank.
fn wavefronts(addresses: &[u32], bytes: u32) -> usize {
    let words: BTreeSet<u32> = addresses.iter().flat_map(|a| (0..bytes / 4).map(move |w| a / 4 + w)).collect();
    (0..32).map(|bank| words.iter().filter(|w| **w % 32 == bank).count()).max().unwrap_or(0)
}

#[test]
fn fragments_hold_every_element_once_where_the_manual_has_it() {
    for (rows, depth) in [(16, 8), (64, 8), (32, 32)] {
        let a = Fragment::mma_a(MmaInput::Tf32, rows, depth).unwrap();
        let mut seen = BTreeSet::new();
        for (lane, register) in (0..32).flat_map(|lane| (0..a.registers()).map(move |r| (lane, r))) {
            let at = a.position(lane, register);
            assert!(seen.insert(at), "{at:?} twice");
            assert_eq!(a.holder(at.0, at.1), (lane, register));
            let (row, col) = mma::a_position(Input::Tf32, lane as usize, register as usize % 4);
            assert_eq!((at.0 % 16, at.1 % 8), (row as u32, col as u32));
        }
        assert_eq!(seen.len() as u32, rows * depth);
        let b = Fragment::mma_b(MmaInput::Tf32, rows, depth).unwrap();
        for (lane, register) in (0..32).flat_map(|lane| (0..b.registers()).map(move |r| (lane, r))) {
            let (k, n) = mma::b_position(Input::Tf32, lane as usize, register as usize % 2);
            let at = b.position(lane, register);
            assert_eq!((at.0 % 8, at.1 % 8), (n as u32, k as u32));
        }
    }
}

/// `ldmatrix` moves pairs of 16 bits; each pair of them is one element of tf32 where its fragment has it. Its eight rows of
/// 16 bytes meet every bank once.
#[test]
fn ldmatrix_brings_operands_along_k() {
    let mut tiles = 0;
    for (rows, cols, swizzle) in [16, 32, 64]
        .into_iter()
        .flat_map(|r| [8, 16, 32, 64].map(|c| (r, c)))
        .flat_map(|(r, c)| SWIZZLES.map(|s| (r, c, s)))
    {
        let Some(tile) = tile(rows, cols, swizzle) else { continue };
        tiles += 1;
        let (operand, shared) = (Operand { tile, major: Major::K }, image(&tile));
        assert!(!operand.by_words());
        for fragment in [Fragment::mma_a(MmaInput::Tf32, rows, 8), Fragment::mma_b(MmaInput::Tf32, rows, 8)] {
            let fragment = fragment.unwrap();
            for (step, word) in (0..cols / 8).flat_map(|s| (0..fragment.words()).step_by(2).map(move |w| (s, w))) {
                let access = operand.load_matrix(&fragment, word, 2).unwrap();
                let addresses: [u32; 32] = std::array::from_fn(|lane| access.offset(&tile, 0, step * 8, lane as u32));
                let loaded = matrix::ldmatrix(&shared, &addresses, 2, false).unwrap();
                for (lane, words) in loaded.iter().enumerate() {
                    for register in 0..2 {
                        let (mn, k) = fragment.position(lane as u32, word + register);
                        assert_eq!(words[register as usize], mn * cols + step * 8 + k, "{tile:?} {step} {word} {lane}");
                    }
                }
                // A swizzle narrower than 128 bytes covers fewer rows without meeting itself.
                if swizzle == Swizzle::widest(cols * 4) && swizzle != Swizzle::None {
                    let matrices = addresses[..16].chunks(8);
                    assert!(matrices.into_iter().all(|rows| wavefronts(rows, 16) == 1), "{tile:?} {step} {word}");
                }
            }
        }
    }
    assert!(tiles > 20);
}

#[test]
fn words_bring_operands_along_mn() {
    for (mn, k, swizzle) in
        [(128, 16, Swizzle::B128), (64, 32, Swizzle::B128), (16, 16, Swizzle::B64), (64, 8, Swizzle::B32)]
    {
        let tile = tile(k, mn, swizzle).unwrap();
        let (operand, shared) = (Operand { tile, major: Major::Mn }, image(&tile));
        assert!(operand.by_words() && operand.wgmma().is_err());
        for paired in [false, true] {
            // The element of K that a lane's half of a step is, which both operands must agree on.
            let mut order = std::collections::BTreeMap::new();
            for fragment in [Fragment::mma_a(MmaInput::Tf32, mn, 8), Fragment::mma_b(MmaInput::Tf32, mn, 8)] {
                let fragment = fragment.unwrap();
                let mut seen = BTreeSet::new();
                for word in 0..fragment.words() {
                    let access = WordAccess::new(&fragment, word, paired).unwrap();
                    let mut addresses = Vec::new();
                    for lane in 0..32 {
                        let (row, depth) = fragment.position(lane, word);
                        let at = access.position(lane);
                        assert_eq!(at.0, row);
                        assert!(paired || at.1 == depth);
                        assert!(seen.insert(at), "{at:?} twice");
                        assert_eq!(*order.entry((lane % 4, depth / 4)).or_insert(at.1), at.1);
                        let address = access.offset(&operand, 0, k - 8, lane);
                        let found = u32::from_le_bytes(std::array::from_fn(|i| shared[address as usize + i]));
                        assert_eq!(found, (k - 8 + at.1) * mn + at.0);
                        addresses.push(address);
                    }
                    if swizzle == Swizzle::B128 {
                        assert_eq!(wavefronts(&addresses, 4), if paired { 1 } else { 2 }, "{paired} {word}");
                    }
                }
                assert_eq!(seen.len() as u32, mn * 8);
            }
            assert_eq!(order.values().collect::<BTreeSet<_>>().len(), 8);
        }
        assert!(WordAccess::new(&Fragment::mma_b(MmaInput::Tf32, 8, 8).unwrap(), 2, false).is_err());
    }
}

/// Where the hardware reads an element through a descriptor is where the tile has it.
#[test]
fn descriptors_reach_every_element() {
    for (rows, cols, swizzle) in [(64, 32), (256, 32), (128, 64), (64, 16), (64, 8)]
        .into_iter()
        .flat_map(|(rows, cols)| SWIZZLES.map(|swizzle| (rows, cols, swizzle)))
    {
        let Some(tile) = tile(rows, cols, swizzle) else { continue };
        let operand = Operand { tile, major: Major::K }.wgmma().unwrap();
        assert!(!operand.transposed);
        assert_eq!(operand.k_steps(), cols / 8);
        for (step, first) in (0..operand.k_steps()).flat_map(|s| [0, 64].map(|f| (s, f))).filter(|(_, f)| *f < rows) {
            let bytes = operand.offset(first, step).unwrap();
            // A step along K within 128 bytes is two units further.
            if swizzle == Swizzle::B128 && first == 0 {
                assert_eq!(bytes / UNIT, step % 4 * 2 + step / 4 * tile.panel_stride() / UNIT);
            }
            let bits = operand.descriptor.bits(0) + u64::from(bytes / UNIT);
            let descriptor = MatrixDescriptor::decode(bits).unwrap();
            for (mn, k) in (0..rows - first).flat_map(|mn| (0..8).map(move |k| (mn, k))) {
                let expected = tile.offset(first + mn, step * 8 + k);
                assert_eq!(descriptor.address(false, 4, mn, k), expected, "{tile:?} {step} {first} {mn} {k}");
            }
        }
    }
}

/// A box is as wide as its swizzle: 32 elements, 128 bytes.
#[test]
fn boxes_are_32_elements_wide() {
    let tile = tile(128, 64, Swizzle::B128).unwrap();
    let plan = TmaPlan::new(&[128, 64], &tile, 1).unwrap();
    assert_eq!((plan.box_dims.as_slice(), plan.boxes.len(), plan.transaction_bytes), (&[32, 128][..], 2, 128 * 64 * 4));
    assert_eq!(plan.boxes[1].offset, 128 * 128);
}

#[test]
fn steps_are_the_same_for_every_element_that_they_are_for() {
    for (rows, cols, swizzle) in
        [(16, 64, Swizzle::B128), (32, 16, Swizzle::B64), (16, 16, Swizzle::B32), (16, 8, Swizzle::None)]
    {
        let tile = tile(rows, cols, swizzle).unwrap();
        let chunk = if swizzle == Swizzle::None { 4 } else { 8 };
        let mut tried = 0;
        for (down, right) in (0..rows).flat_map(|d| (0..cols).step_by(chunk as usize).map(move |r| (d, r))) {
            let Some(step) = tile.step(down, right) else { continue };
            let grain = 1 << right.trailing_zeros().min(5);
            for (row, col) in (0..rows - down).flat_map(|r| (0..cols - right).map(move |c| (r, c))) {
                let within = tile.panel_cols();
                let stays = col % within + right % within < within && (right % within == 0 || col % within < grain);
                if row & down & 7 == 0 && stays && (row % 8 + down % 8 < 8) {
                    tried += 1;
                    assert_eq!(step.apply(tile.offset(row, col)), tile.offset(row + down, col + right));
                }
            }
        }
        assert!(tried > 100, "{swizzle:?} {tried}");
    }
}
