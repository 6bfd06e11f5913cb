//! The checked simulator: a lowered program executed lane by lane, with everything about it distrusted.
//!
//! The program is compiled to flat bytecode (`bytecode`, `compile`). Each warp has a program counter, a mask stack and
//! a vector clock (`warp`); a seeded scheduler picks a warp and runs it for a few instructions (`schedule`, `execute`).
//! Every element that may be written has a shadow that remembers who touched it last (`shadow`, `access`): two accesses
//! that conflict and that no barrier orders are a race, whatever order they happened to run in. What is found becomes
//! a [`Diagnostic`] with the author's line, numbers and a witness (`report`, `findings`); execution goes on where it
//! sensibly can, so that results can still be compared with `fast`.
//!
//! Beside the threads there are agents: `cp.async` copies (`flight`), TMA (`transfer`) and products of
//! warpgroups (`product`). Each is at work from its issue to the wait that covers it, and may do its work early or late
//! ([`Copies`]). What an agent touches is recorded at its issue under a clock of its own, which a wait advances: on a
//! barrier in memory (`mbarrier`), on a bulk group, on a group of products. The blocks of a cluster run together
//! (`cluster`); the hardware's own address arithmetic is `sim::hw`.
//!
//! | finding | code |
//! |---|---|
//! | an element outside its tensor's view or its array | TK0301 |
//! | a guard the compiler added that fires | TK0302 |
//! | an index that is negative or leaves its 32 (or 64) bits, a division by zero | TK0303 |
//! | a register, local or shared element read before it is written | TK0304 |
//! | an element of an output that no thread wrote, where nothing else is wrong | TK0307 |
//! | a misaligned vector access: global, shared | TK0201, TK0202 |
//! | memory or registers used while a copy or product has them, or left so at the end; a product's fence missing | TK0403 |
//! | what a thread wrote, read by TMA or tensor cores with no proxy fence | TK0401 |
//! | a barrier in memory or a named barrier used otherwise than it was made for | TK0402 |
//! | a phase of a barrier in memory that may complete before all who wait for the one before have looked | TK0402 |
//! | nobody can go on: who waits for which barrier and parity | TK0404 |
//! | more registers taken than the block has | TK0503 |
//! | what the hardware refuses: misaligned boxes, descriptors that are none | TK0205 |
//! | two threads of a block race, in shared or global memory | TK0401 |
//! | two blocks race in global memory | TK0405 |
//! | a shuffle by 32 lanes or more | TK0205 |
//! | a counter of `last_arriver` that is not 0 at the end | TK0408 |
//! | a store, atomic operation or print for a tile beyond the author's grid, which lowering added | TK0406 |
//! | a barrier, shuffle or vote that not all its threads reach | TK0402 |
//! | no end within the step limit | TK0404 |
//! | `device_assert` | TK0901 |
//!
//! The memory model: threads of different warps are ordered by block barriers, named barriers, barriers in memory and, in
//! a cluster, cluster barriers; lanes of one warp are unordered between block barriers and warp barriers (shuffles
//! and votes order nothing), even within one instruction, and so are the elements of a `parallel` loop, whichever thread
//! has them; blocks of different clusters are never ordered. Atomics do not race with atomics. Two writes of the same value
//! are a race.
//!
//! An arrival at a barrier by some lanes of a warp stands for the accesses of all of them; a bulk store waited for as read
//! counts as written where its thread waits next.
//!
//! What it cannot see: reorderings of weak memory, time, and mistakes of the assembler.

mod access;
mod bytecode;
mod cluster;
mod compile;
mod execute;
mod findings;
mod flight;
mod hazards;
mod lanes;
mod launch;
mod mbarrier;
mod product;
mod report;
mod schedule;
mod shadow;
mod transfer;
mod unwritten;
mod warp;

#[cfg(test)]
mod tests;

use super::{Argument, Cancel, STEP_LIMIT, SimError, Stop};
use crate::diag::Diagnostic;
use crate::ir::SpanId;
use crate::lowered::{Program, Space};
use std::time::Instant;

/// Executes a program on its arguments, one a kernel parameter in order. Tensors are written in place.
///
/// Launch checks are not evaluated: what they protect is checked where it is used.
///
/// # Errors
/// Arguments that do not fit the program, extents no device has, and programs that are not well formed. What the
/// program does wrong is not an error but a diagnostic of the report.
pub fn run(program: &Program, args: &[Argument], options: &CheckedOptions) -> Result<CheckedReport, SimError> {
    let code = compile::compile(program)?;
    let launch = launch::bind(program, &code, args, options.clusters)?;
    Ok(schedule::Machine::new(program, &code, &launch, options).run())
}

/// Whether a program is one that can be executed: ids that point somewhere, types that agree, operations that the hardware has.
pub(crate) fn is_well_formed(program: &Program) -> Result<(), SimError> {
    compile::compile(program).map(|_| ())
}

/// How to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedOptions {
    /// What the schedule is drawn from; the same seed gives the same run.
    pub seed: u64,
    /// In which order warps and blocks run.
    pub schedule: Schedule,
    /// Clusters (blocks, where there are none) that the device is said to hold at once: what `HostExpr::Capacity` is.
    pub clusters: u32,
    /// Steps after which the program counts as one that never ends: instructions of warps, and blocks.
    pub step_limit: u64,
    /// Stops the launch from another thread: within a thousand or so instructions.
    pub cancel: Option<Cancel>,
    /// When to stop, as if it were cancelled then.
    pub deadline: Option<Instant>,
    /// Diagnostics to keep; further ones are counted.
    pub max_reports: usize,
    /// Printed lines to keep; further ones are counted.
    pub max_prints: usize,
    /// Whether elements of outputs that no thread wrote are findings: [`TensorInfo::output`](crate::lowered::TensorInfo::output).
    pub whole_outputs: bool,
    /// When asynchronous copies are made.
    pub copies: Copies,
    /// Whether products are computed. Where they are not, their accumulators are zeros; what products read and hold is checked all the same.
    pub products: bool,
    /// Most clusters (blocks, where there are none) to execute; those after them are never started, and what a whole launch leaves behind
    /// is not looked at.
    pub most_clusters: Option<u32>,
}

impl Default for CheckedOptions {
    fn default() -> Self {
        CheckedOptions {
            seed: 0,
            schedule: Schedule::default(),
            clusters: 4,
            step_limit: STEP_LIMIT,
            cancel: None,
            deadline: None,
            max_reports: 32,
            max_prints: 10_000,
            whole_outputs: true,
            copies: Copies::default(),
            products: true,
            most_clusters: None,
        }
    }
}

/// In which order warps and blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// One block after another; a warp runs until it has to wait, the lowest first.
    InOrder,
    /// Drawn from the seed: blocks in a permuted order, some of them interleaved, warps for a few instructions each,
    /// lanes of an atomic operation from any lane on.
    Seeded {
        /// Blocks that run at once, at least 1.
        resident_blocks: u32,
    },
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule::Seeded { resident_blocks: 3 }
    }
}

/// When, between its issue and the wait that covers it, an asynchronous copy reads its source and writes its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// Where it is issued.
    Early,
    /// Where it is waited for.
    Late,
    /// Each one or the other, drawn from the seed.
    #[default]
    Seeded,
}

/// What an execution showed.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedReport {
    /// What is wrong, in order of first occurrence; one a place and kind. Empty for a correct program.
    pub diagnostics: Vec<Diagnostic>,
    /// Further diagnostics, beyond [`CheckedOptions::max_reports`].
    pub suppressed: usize,
    /// What was printed, by block and thread, in each thread's order.
    pub prints: Vec<Print>,
    /// Further printed lines, beyond [`CheckedOptions::max_prints`].
    pub prints_dropped: u64,
    /// How much happened.
    pub counters: Counters,
    /// What each access of the program did, in order of the program.
    pub effects: Vec<ObservedEffect>,
    /// The seed to replay with.
    pub seed: u64,
    /// Why it was stopped before its end. A launch that reached the step limit has a diagnostic too.
    pub stopped: Option<Stop>,
}

impl CheckedReport {
    /// Whether nothing wrong was found.
    pub fn is_clean(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Elements that were accessed in a space in one way, over all accesses of the program.
    pub fn elements(&self, space: Space, kind: AccessKind) -> u64 {
        self.effects.iter().filter(|e| e.space == space && e.kind == kind).map(|e| e.elements).sum()
    }

    /// Every diagnostic with the author's lines, separated by blank lines.
    pub fn render(&self, program: &Program) -> String {
        let texts: Vec<String> = self.diagnostics.iter().map(|d| d.render(&program.source, &program.spans)).collect();
        texts.join("\n\n")
    }
}

/// A printed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    /// The block, x y z.
    pub block: [u32; 3],
    /// The thread, x y z.
    pub thread: [u32; 3],
    /// The text.
    pub text: String,
    /// The statement.
    pub span: SpanId,
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions of warps.
    pub steps: u64,
    /// Blocks.
    pub blocks: u64,
    /// Block barriers passed, one a block.
    pub barriers: u64,
    /// Warp barriers passed, one a warp.
    pub warp_barriers: u64,
    /// Guards evaluated, one a thread.
    pub guards_evaluated: u64,
    /// Guards of the author's (`masked`) that failed, one a thread.
    pub guards_masked: u64,
    /// Guards of the compiler's that failed, one a thread: each is a bug of the program.
    pub guards_fired: u64,
    /// Asynchronous copies issued, one a thread; those of TMA among them.
    pub async_copies: u64,
    /// Phases of barriers in memory that were completed.
    pub phases: u64,
    /// Products of warps and warpgroups.
    pub products: u64,
    /// Most groups of copies, empty ones apart, that a thread's wait left in flight: how far ahead loads were.
    pub groups_in_flight: u32,
}

/// How an access touches an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An atomic read-modify-write.
    Atomic,
}

/// What one access of the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedEffect {
    /// What it touches.
    pub space: Space,
    /// How.
    pub kind: AccessKind,
    /// The access as the author wrote it.
    pub span: SpanId,
    /// Elements it touched, over all threads; guarded and out-of-bounds ones are not counted.
    pub elements: u64,
}
