//! Alignment classes: what is lowered differently where the rows of tensors are not made of 16 bytes.
//!
//! A class says how wide the accesses are that the rows of a launch's tensors allow where a copy only requests it ([`Class`]). If
//! rows are not 16-byte aligned, TMA cannot read them, so the kernel is neither warp-specialised nor a bulk pipeline: all threads
//! copy, with `cp.async` where rows are 4-byte aligned. Elements of 2 bytes that are not go through registers, loaded an iteration
//! ahead (`channel::registers`). Rows of results that are not 16-byte aligned are stored through shared
//! memory, by warpgroups (`hopper::store`) and, one by one, by blocks (`staged`); else from registers, in pairs or one by one.

use super::*;

/// Stages of a loop whose loads every thread issues, at most: beyond it blocks that share a multiprocessor hide more than
/// further slots do.
const MOST_STAGES: u32 = 4;
/// Slots of a loop whose loads are held in registers until the iteration before is done: one is read, the other filled.
const SLOTS: u32 = 2;

/// Whether TMA can fetch rows of this class.
pub(super) fn has_copy_engine(kernel: &BoundKernel) -> bool {
    kernel.class.reads == Width::Sixteen
}

/// The stages that a pipelined loop of `stages` has in the kernel's class.
pub(super) fn depth(kernel: &BoundKernel, stages: ExprId) -> u32 {
    let asked = uses::constant(kernel, stages).unwrap_or(1).max(1);
    cut(kernel, asked)
}

fn cut(kernel: &BoundKernel, stages: u32) -> u32 {
    match kernel.class.reads {
        Width::Sixteen => stages,
        Width::Eight | Width::Four => stages.min(MOST_STAGES),
        Width::Element => stages.min(SLOTS),
    }
}

/// How many slots each shared array has that pipelined loops load ahead.
pub(super) fn stages(kernel: &BoundKernel) -> BTreeMap<BufferId, u32> {
    crate::ir::pipeline::stages(kernel).into_iter().map(|(buffer, stages)| (buffer, cut(kernel, stages))).collect()
}
