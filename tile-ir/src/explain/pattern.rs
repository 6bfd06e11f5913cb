//! What the memory system makes of one warp's request: 32-byte sectors of global memory, wavefronts of shared memory.

use std::collections::BTreeSet;

/// Bytes of a sector: the unit in which L1 and L2 are filled and counted.
pub const SECTOR: u64 = 32;
/// Banks of shared memory, each 4 bytes wide.
pub const BANKS: u64 = 32;

/// What one request costs, and what it would cost at best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Sectors or wavefronts.
    pub found: u64,
    /// The fewest that carry the bytes asked for.
    pub ideal: u64,
}

/// The sectors that a warp's lanes touch. `starts` are the byte addresses of the active lanes, each of which reads or
/// writes `width` bytes. The ideal packs the distinct bytes into as few sectors as hold them.
pub fn sectors(starts: &[u64], width: u64) -> Cost {
    let width = width.max(1);
    let touched = |start: &u64| start / SECTOR..=(start + width - 1) / SECTOR;
    let found: BTreeSet<u64> = starts.iter().flat_map(touched).collect();
    let distinct: BTreeSet<u64> = starts.iter().copied().collect();
    Cost { found: found.len() as u64, ideal: (distinct.len() as u64 * width).div_ceil(SECTOR) }
}

/// The wavefronts that a warp's lanes need in shared memory. `starts` holds every lane's byte address, `None` where it
/// is not active. Up to 128 bytes move at a time, so lanes of 8 bytes are served by half warps and lanes of 16 by
/// quarters; within such a phase, different words of one bank take turns and equal words are broadcast. The ideal is
/// one wavefront for each phase that has a lane. Source: CUDA C++ Programming Guide, "Shared Memory" of each compute
/// capability.
pub fn wavefronts(starts: &[Option<u64>], width: u64) -> Cost {
    let width = width.max(1);
    let lanes = (128 / width).clamp(1, 32) as usize;
    let mut cost = Cost::default();
    for phase in starts.chunks(lanes) {
        let touched = |start: &u64| start / 4..=(start + width - 1) / 4;
        let words: BTreeSet<u64> = phase.iter().flatten().flat_map(touched).collect();
        if !words.is_empty() {
            cost.found += most_in_a_bank(words.into_iter());
            cost.ideal += 1;
        }
    }
    cost
}

/// The turns that a warp's atomics on shared memory take: lanes that meet in a bank take turns, also on one word.
pub fn atomic_wavefronts(starts: &[Option<u64>]) -> Cost {
    let found = most_in_a_bank(starts.iter().flatten().map(|start| start / 4));
    Cost { found, ideal: found.min(1) }
}

fn most_in_a_bank(words: impl Iterator<Item = u64>) -> u64 {
    let mut banks = [0u64; BANKS as usize];
    words.for_each(|word| banks[(word % BANKS) as usize] += 1);
    banks.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(address: impl Fn(u64) -> u64) -> Vec<u64> {
        (0..32).map(address).collect()
    }

    fn all(address: impl Fn(u64) -> u64) -> Vec<Option<u64>> {
        (0..32).map(|lane| Some(address(lane))).collect()
    }

    #[test]
    fn sectors_of_a_request() {
        // 16-byte lanes side by side: 512 bytes.
        assert_eq!(sectors(&lanes(|l| l * 16), 16), Cost { found: 16, ideal: 16 });
        // Two-byte lanes side by side, and the same from an odd place.
        assert_eq!(sectors(&lanes(|l| l * 2), 2), Cost { found: 2, ideal: 2 });
        assert_eq!(sectors(&lanes(|l| 30 + l * 2), 2), Cost { found: 3, ideal: 2 });
        // A row each (K = 4096 in f16).
        assert_eq!(sectors(&lanes(|l| l * 8192), 2), Cost { found: 32, ideal: 2 });
        // One address for all.
        assert_eq!(sectors(&lanes(|_| 64), 4), Cost { found: 1, ideal: 1 });
        assert_eq!(sectors(&[], 4), Cost { found: 0, ideal: 0 });
    }

    #[test]
    fn wavefronts_of_a_request() {
        assert_eq!(wavefronts(&all(|l| l * 4), 4), Cost { found: 1, ideal: 1 });
        // Columns of a 32 x 32 array of f32: every lane in one bank; with a padded row, each in its own.
        assert_eq!(wavefronts(&all(|l| l * 128), 4), Cost { found: 32, ideal: 1 });
        assert_eq!(wavefronts(&all(|l| l * 132), 4), Cost { found: 1, ideal: 1 });
        // Rows of 256 bytes read at one column, two-byte elements: 32 ways.
        assert_eq!(wavefronts(&all(|l| l * 256), 2), Cost { found: 32, ideal: 1 });
        // Broadcast, two lanes a word.
        assert_eq!(wavefronts(&all(|_| 0), 4), Cost { found: 1, ideal: 1 });
        assert_eq!(wavefronts(&all(|l| l * 2), 2), Cost { found: 1, ideal: 1 });
        // Wide lanes side by side: 512 bytes in four phases, 256 in two.
        assert_eq!(wavefronts(&all(|l| l * 16), 16), Cost { found: 4, ideal: 4 });
        assert_eq!(wavefronts(&all(|l| l * 8), 8), Cost { found: 2, ideal: 2 });
        // Wide lanes a row of 128 bytes apart: the 8 lanes of a phase meet in 4 banks.
        assert_eq!(wavefronts(&all(|l| l * 128), 16), Cost { found: 32, ideal: 4 });
        // The last quarter alone.
        let last: Vec<_> = (0..32).map(|l| (l >= 24).then_some(l * 16)).collect();
        assert_eq!(wavefronts(&last, 16), Cost { found: 1, ideal: 1 });
    }

    #[test]
    fn atomics_on_one_word_take_turns() {
        assert_eq!(atomic_wavefronts(&all(|_| 0)), Cost { found: 32, ideal: 1 });
        assert_eq!(atomic_wavefronts(&all(|l| l * 4)), Cost { found: 1, ideal: 1 });
    }
}
