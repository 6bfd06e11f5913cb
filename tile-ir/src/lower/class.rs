//! Alignment classes: what is lowered differently where the rows of tensors are not made of 16 bytes.
//!
//! A class says what the launch found of rows that are copied without a demand ([`Class`]). Of rows that are read by less
//! than 16 bytes the copy engine cannot fetch any, so there are no roles and no ring of rows: every thread copies. As long as 4
//! bytes lie together that is asynchronous; elements of 2 bytes go through registers, those of the next iteration on
//! their way while this one's are used (see [`pipeline`](super::pipeline)). Rows that are written by less are stored
//! from registers, in pairs or one by one.

use super::*;

/// Stages of a loop whose loads every thread issues, at most: beyond it blocks that share a multiprocessor hide more than
/// further slots do.
const MOST_STAGES: u32 = 4;
/// The same where an iteration's loads are held in registers until the one before is done: one slot is read, the other filled.
const SLOTS: u32 = 2;

/// Whether the copy engine can fetch rows of this class.
pub(super) fn has_copy_engine(kernel: &Kernel) -> bool {
    kernel.class.reads == Width::Sixteen
}

/// The stages that a pipelined loop of `stages` has in the kernel's class.
pub(super) fn depth(kernel: &Kernel, stages: ExprId) -> u32 {
    let asked = kernel.const_index(stages).and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1);
    cut(kernel, asked)
}

fn cut(kernel: &Kernel, stages: u32) -> u32 {
    match kernel.class.reads {
        Width::Sixteen => stages,
        Width::Eight | Width::Four => stages.min(MOST_STAGES),
        Width::Element => stages.min(SLOTS),
    }
}

/// How many slots each shared array has that pipelined loops load ahead.
pub(super) fn stages(kernel: &Kernel) -> BTreeMap<BufferId, u32> {
    crate::ir::pipeline::stages(kernel).into_iter().map(|(buffer, stages)| (buffer, cut(kernel, stages))).collect()
}
