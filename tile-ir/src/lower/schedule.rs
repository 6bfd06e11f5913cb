//! Chooses how a kernel is lowered, and the layouts of its fragments in registers and of its operands in shared memory, which
//! follow from the instructions that multiply them.
//!
//! Contract. In: a bound, analysed kernel and a target. Out: its partitions, which are a plan for a producer and consumers (`hopper`), or the
//! layouts and products of a block whose threads all do the same (`block`).

use super::bind::{MOST_STAGES, wrong_stages};
use super::block::{self, Block};
use super::class;
use super::hopper::{self, Plan, Reason};
use crate::analysis::Analysis;
use crate::diag::Diagnostic;
use crate::ir::*;
use crate::layout::{Fragment, SharedLayout};
use std::collections::BTreeMap;

/// The layouts of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Layouts {
    /// The layouts of fragments.
    pub(super) fragments: BTreeMap<BufferId, Fragment>,
    /// Fragments of one axis: whether they are the rows (0) or the columns (1) of the layout that `fragments` has for them.
    pub(super) kept: BTreeMap<BufferId, u8>,
    /// The layouts of one slot of shared arrays that are operands of `gemm`, or whose author asked for a swizzle.
    pub(super) shared: BTreeMap<BufferId, SharedLayout>,
}

/// Who does what in a kernel.
pub(super) enum Partitions {
    /// A producer, which loads, and consumers, which do all else.
    Specialised(Box<Plan>),
    /// One block whose threads all run the same operations.
    Block(Box<Block>),
}

/// Chooses.
///
/// # Errors
/// Fragments whose uses disagree about their layout, or that no layout divides among the block's threads.
pub(super) fn schedule(
    kernel: &BoundKernel,
    analysis: &Analysis,
    target: Target,
) -> Result<Partitions, Vec<Diagnostic>> {
    let multiplies = kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::Tile(TileOp::Gemm { .. })));
    let has = target.info();
    // Where rows are not aligned for TMA, `lower_bound` remarks it once, for the whole kernel.
    let copies = has.bulk_copies && class::has_copy_engine(kernel);
    let planned = match (copies, multiplies) {
        (true, true) => has.wgmma.then(|| hopper::plan(kernel, analysis, target)),
        (true, false) => hopper::plan_rows(kernel, analysis, target),
        (false, _) => None,
    };
    let reason = match planned {
        Some(Ok(plan)) => return Ok(Partitions::Specialised(Box::new(plan))),
        Some(Err(reason)) => Some(reason),
        None => None,
    };
    written_out(kernel, target, reason.as_ref())?;
    let mut block = block::infer(kernel)?;
    if let Some(Reason { text, span }) = reason {
        let what = match multiplies {
            true => "not specialised, every thread loads and multiplies with mma.sync",
            false => "rows are not copied in bulk, every thread copies its part",
        };
        block.fallbacks.push((span, format!("{what}: {text}")));
    }
    Ok(Partitions::Block(Box::new(block)))
}

/// Refuses pipelined loops of more stages than can be written out: without warp specialisation a loop is unrolled by its stages.
fn written_out(kernel: &BoundKernel, target: Target, reason: Option<&Reason>) -> Result<(), Vec<Diagnostic>> {
    for stmt in kernel.stmts.values() {
        let StmtKind::For { kind: LoopKind::Pipelined { stages, .. }, .. } = stmt.kind else { continue };
        let found = i64::from(class::depth(kernel, stages));
        if found > MOST_STAGES {
            let why = match reason {
                Some(reason) => format!("not specialised: {}", reason.text),
                None => format!("{target} has no ring of slots"),
            };
            let diagnostic = wrong_stages(kernel.exprs[stages].span, MOST_STAGES, found);
            return Err(vec![diagnostic.note(format!("the loop is written out once a stage, for this reason: {why}"))]);
        }
    }
    Ok(())
}

impl Partitions {
    /// Where fragments and operands lie.
    pub(super) fn layouts(&self) -> &Layouts {
        match self {
            Partitions::Specialised(plan) => &plan.layouts,
            Partitions::Block(block) => &block.layouts,
        }
    }

    /// Who does what, the channels between them, and the layouts of arrays and fragments, a line each.
    pub(super) fn text(&self, kernel: &BoundKernel) -> String {
        let (title, lines) = match self {
            Partitions::Specialised(plan) => (plan.title(), plan.lines(kernel)),
            Partitions::Block(block) => ("whole block", block.lines(kernel)),
        };
        let lines = lines.into_iter().chain(self.layouts().lines(kernel)).map(|line| format!("    {line}\n"));
        format!("{title} of {}\n{}", kernel.name, lines.collect::<String>())
    }
}

impl Layouts {
    /// How many elements a thread has of a fragment that lies so.
    pub(super) fn elements(&self, fragment: BufferId, layout: &Fragment) -> u32 {
        self.kept.get(&fragment).map_or_else(|| layout.registers(), |axis| layout.slots(*axis))
    }

    fn lines(&self, kernel: &BoundKernel) -> Vec<String> {
        let name = |buffer: &BufferId| &kernel.buffers[*buffer].name;
        let fragments = self.fragments.iter().map(|(buffer, layout)| {
            let kept = match self.kept.get(buffer) {
                Some(0) => "the rows of ",
                Some(_) => "the columns of ",
                None => "",
            };
            let (rows, cols) = (layout.rows(), layout.cols());
            let (threads, registers) = (layout.threads(), layout.registers());
            format!("fragment `{}`: {kept}{rows} x {cols} over {threads} threads, {registers} registers", name(buffer))
        });
        let shared = self.shared.iter().map(|(buffer, layout)| {
            let (rows, cols, swizzle) = (layout.rows(), layout.cols(), layout.swizzle().name());
            let lies = match layout.is_column_major() {
                true => "column after column".to_owned(),
                false => format!("swizzle {swizzle}"),
            };
            format!("shared `{}`: {rows} x {cols} {}, {lies}", name(buffer), layout.dtype())
        });
        fragments.chain(shared).collect()
    }
}

/// `a, b, c`.
pub(super) fn listed(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
