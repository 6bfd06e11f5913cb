//! The author's threads as consumers: what is said of them, and of a block that has them beside a producer warp.

use super::super::channel::Load;
use super::super::*;
use super::plan::{Plan, Ring, Split};

/// Registers and shared memory of a multiprocessor, and what a block takes of the latter beside its own.
/// Source: CUDA C++ Programming Guide, compute capability 9.0.
const REGISTERS: u32 = 65_536;
const SHARED_BYTES: u32 = 233_472;
const RESERVED_BYTES: u32 = 1_024;
/// Registers that a thread of the author's should have; that a thread of a warpgroup should have beside its fragments; and blocks of a
/// multiprocessor beyond which nothing is gained.
const ENOUGH_REGISTERS: u32 = 96;
const ENOUGH_BESIDE: u32 = 48;
const ENOUGH_BLOCKS: u32 = 4;
/// Registers that every thread is left which copies: what ptxas stops at by itself in most such kernels.
const LEAST_REGISTERS: u32 = 80;

/// What is remarked on a loop that the author's threads read slots in.
pub(super) fn ring_of_threads(plan: &Plan, ring: &Ring) -> String {
    let [_, threads] = plan.threads();
    let bytes: u32 = ring.loads().map(Load::bytes).sum();
    let rows: u32 = ring.loads().filter_map(Load::rows).map(|tile| tile.rows).sum();
    let slots = plan.channels.iter().map(|channel| channel.slots).max().unwrap_or(0);
    format!(
        "a producer warp fills {slots} slots of {bytes} bytes by bulk copies, {rows} row{} each; {threads} threads compute{}",
        if rows == 1 { "" } else { "s" },
        if plan.channels.iter().any(|channel| channel.once) { ", every iteration from a slot of its own" } else { "" },
    )
}

impl Plan {
    /// Registers that a thread should have.
    pub(super) fn enough_registers(&self) -> u32 {
        match self.split {
            Split::Warpgroups => self.held + ENOUGH_BESIDE,
            Split::Threads(_) => ENOUGH_REGISTERS,
        }
    }
}

impl Lowering<'_> {
    /// Blocks of a multiprocessor that its shared memory holds and that leave a thread `enough` registers: what the
    /// assembler is told, so that registers do not keep out a block that has room.
    pub(super) fn blocks_that_fit(&self, enough: u32) -> u32 {
        self.blocks_with_room(enough).min(ENOUGH_BLOCKS)
    }

    /// Blocks of a multiprocessor that its shared memory holds and that leave a thread registers beside its fragments, and [`LEAST_REGISTERS`].
    pub(in crate::lower) fn blocks_beside_fragments(&self) -> u32 {
        let fragments: u32 = self.layouts.fragments.values().map(crate::layout::Fragment::registers).sum();
        self.blocks_with_room((fragments + ENOUGH_BESIDE).max(LEAST_REGISTERS))
    }

    fn blocks_with_room(&self, enough: u32) -> u32 {
        let bytes: u32 = self.program.shared.values().map(SharedArray::bytes).sum();
        let threads: u32 = self.program.launch.threads.iter().product();
        let by_memory = SHARED_BYTES / bytes.saturating_add(RESERVED_BYTES).max(1);
        let by_registers = REGISTERS / (threads * enough).max(1);
        by_memory.min(by_registers).max(1)
    }
}
