//! How many blocks a multiprocessor holds, as the CUDA occupancy calculator has it (`cuda_occupancy.h`).

use super::machine::Limits;

/// Threads of a warp.
pub(super) const WARP: u32 = 32;

/// Blocks a multiprocessor holds at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Blocks; 0 where not even one fits.
    pub blocks: u32,
    /// Warps of those blocks.
    pub warps: u32,
    /// Warps a multiprocessor can hold.
    pub most_warps: u32,
    /// What allows no further block: the scarcest, the first of the list where several are.
    pub limit: Limit,
}

/// What bounds the number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Warps, that is threads.
    Threads,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// The number of blocks itself.
    Blocks,
}

impl Limit {
    /// Its name in a sentence: "limited by ...".
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Threads => "threads",
            Limit::Registers => "registers",
            Limit::Shared => "shared memory",
            Limit::Blocks => "the number of blocks",
        }
    }
}

impl Occupancy {
    /// Blocks of `threads` threads with `registers` registers each (`None`: not known, taken not to matter) and
    /// `shared` bytes of shared memory a block.
    pub fn of(limits: &Limits, threads: u32, registers: Option<u32>, shared: u32) -> Occupancy {
        let warps = threads.max(1).div_ceil(WARP);
        let by_threads = if threads > 1024 { 0 } else { limits.warps / warps };
        let by_registers = match registers {
            None | Some(0) => u32::MAX,
            Some(n) if n > limits.thread_registers => 0,
            Some(n) => {
                // A warp's registers lie in one partition; so does the warp.
                let a_warp = (n * WARP).next_multiple_of(limits.register_unit);
                let partition = limits.registers / limits.partitions;
                let fits = a_warp.saturating_mul(warps.next_multiple_of(limits.partitions)) <= limits.registers;
                if fits { partition / a_warp * limits.partitions / warps } else { 0 }
            }
        };
        let a_block = shared.saturating_add(limits.shared_reserved).checked_next_multiple_of(limits.shared_unit);
        let by_shared = a_block.map_or(0, |bytes| limits.shared / bytes.max(1));
        let candidates = [
            (Limit::Threads, by_threads),
            (Limit::Registers, by_registers),
            (Limit::Shared, by_shared),
            (Limit::Blocks, limits.blocks),
        ];
        let (limit, blocks) = candidates.into_iter().min_by_key(|(_, blocks)| *blocks).unwrap_or(candidates[0]);
        Occupancy { blocks, warps: blocks * warps, most_warps: limits.warps, limit }
    }

    /// The fraction of a multiprocessor's warps that can be resident.
    pub fn fraction(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.most_warps.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(limits: &Limits, threads: u32, registers: u32, shared: u32) -> (u32, Limit) {
        let found = Occupancy::of(limits, threads, Some(registers), shared);
        (found.blocks, found.limit)
    }

    #[test]
    fn as_the_occupancy_calculator_has_it() {
        let full = Occupancy::of(&Limits::SM90, 256, Some(32), 0);
        assert_eq!((full.blocks, full.warps, full.fraction()), (8, 64, 1.0));
        // 168 * 32 = 5376 registers a warp: 3 warps a partition of 16384, 12 a multiprocessor.
        assert_eq!(blocks(&Limits::SM90, 384, 168, 0), (1, Limit::Registers));
        // 255 registers round up to 8192 a warp: 2 warps a partition.
        assert_eq!(blocks(&Limits::SM90, 256, 255, 0), (1, Limit::Registers));
        // 33 registers are 1056, rounded up to 1280, a warp: 12 warps a partition, 48 in all.
        assert_eq!(blocks(&Limits::SM80, 256, 33, 0), (6, Limit::Registers));
        assert_eq!(blocks(&Limits::SM80, 1024, 64, 0), (1, Limit::Registers));
        assert_eq!(blocks(&Limits::SM80, 1024, 65, 0), (0, Limit::Registers));
        assert_eq!(blocks(&Limits::SM90, 32, 32, 0), (32, Limit::Blocks));
        assert_eq!(blocks(&Limits::SM90, 1024, 32, 0), (2, Limit::Threads));
    }

    #[test]
    fn a_block_pays_a_kibibyte_of_shared_memory_for_being_there() {
        // 227 KiB and the system's 1 KiB fill the multiprocessor.
        assert_eq!(blocks(&Limits::SM90, 128, 32, 227 << 10), (1, Limit::Shared));
        assert_eq!(blocks(&Limits::SM90, 128, 32, (227 << 10) + 1), (0, Limit::Shared));
        assert_eq!(blocks(&Limits::SM90, 128, 32, 113 << 10), (2, Limit::Shared));
        assert_eq!(blocks(&Limits::SM90, 128, 32, (113 << 10) + 1), (1, Limit::Shared));
        assert_eq!(blocks(&Limits::SM80, 128, 32, 163 << 10), (1, Limit::Shared));
    }

    #[test]
    fn nothing_asked_is_too_much_to_answer() {
        assert_eq!(Occupancy::of(&Limits::SM90, 0, None, 0).blocks, 32);
        assert_eq!(Occupancy::of(&Limits::SM90, u32::MAX, Some(u32::MAX), u32::MAX).blocks, 0);
    }
}
