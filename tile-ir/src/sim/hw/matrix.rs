//! `ldmatrix`, `stmatrix` and `movmatrix`, `.m8n8.b16`.
//!
//! PTX ISA: "thread 0-7 addresses rows 0-7 of matrix 0, threads 8-15 of matrix 1, ..."; each row is 16 contiguous bytes
//! at an address that is a multiple of 16. Thread `T` receives from each matrix the pair of elements of row `T / 4` at
//! columns `2 (T % 4)` and the next; with `.trans` the matrix is transposed first.

use super::{HwError, read, write};

/// Up to four 32-bit registers of each lane; those that an instruction does not touch are 0.
pub type Registers = [[u32; 4]; 32];

/// Which byte of which lane's row holds half `half` (0 the low 16 bits) of register `register` of lane `lane`.
pub fn source(lane: usize, register: usize, half: usize, transposed: bool) -> (usize, u32) {
    let (major, minor) = (lane / 4, lane % 4 * 2 + half);
    let (row, column) = if transposed { (minor, major) } else { (major, minor) };
    (8 * register + row, 2 * column as u32)
}

fn check(addresses: &[u32; 32], count: usize) -> Result<(), HwError> {
    if !matches!(count, 1 | 2 | 4) {
        return Err(HwError::Illegal { what: "number of matrices", value: count as u64, allowed: "1, 2 or 4" });
    }
    match addresses[..8 * count].iter().find(|address| **address % 16 != 0) {
        Some(&wrong) => Err(HwError::Misaligned { what: "row address", address: wrong.into(), multiple: 16 }),
        None => Ok(()),
    }
}

/// `ldmatrix.sync.aligned.m8n8.xCOUNT{.trans}.shared.b16`. Lane `l` gives `addresses[l]`.
///
/// # Errors
/// A count other than 1, 2, 4; a row that is misaligned or outside `shared`.
pub fn ldmatrix(shared: &[u8], addresses: &[u32; 32], count: usize, trans: bool) -> Result<Registers, HwError> {
    check(addresses, count)?;
    let mut registers = [[0; 4]; 32];
    for (lane, words) in registers.iter_mut().enumerate() {
        for (register, word) in words.iter_mut().enumerate().take(count) {
            for half in 0..2 {
                let (row, byte) = source(lane, register, half, trans);
                let element = u16::from_le_bytes(read(shared, addresses[row] + byte)?);
                *word |= u32::from(element) << (16 * half);
            }
        }
    }
    Ok(registers)
}

/// `stmatrix.sync.aligned.m8n8.xCOUNT{.trans}.shared.b16`.
///
/// # Errors
/// As [`ldmatrix`].
pub fn stmatrix(
    shared: &mut [u8],
    addresses: &[u32; 32],
    registers: &Registers,
    count: usize,
    trans: bool,
) -> Result<(), HwError> {
    check(addresses, count)?;
    for (lane, words) in registers.iter().enumerate() {
        for (register, word) in words.iter().enumerate().take(count) {
            for half in 0..2 {
                let (row, byte) = source(lane, register, half, trans);
                write(shared, addresses[row] + byte, ((word >> (16 * half)) as u16).to_le_bytes())?;
            }
        }
    }
    Ok(())
}

/// `movmatrix.sync.aligned.m8n8.trans.b16`: the words of the transposed matrix. Lane `l` has `words[l]`, as [`ldmatrix`] loads them.
pub fn movmatrix(words: [u32; 32]) -> [u32; 32] {
    std::array::from_fn(|lane| {
        let half = |half: usize| {
            let (row, byte) = source(lane, 0, half, true);
            words[row * 4 + byte as usize / 4] >> (8 * (byte % 4)) & 0xffff
        };
        half(0) | half(1) << 16
    })
}
