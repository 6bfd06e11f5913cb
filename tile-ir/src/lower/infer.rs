//! Chooses how a kernel is lowered, and the layouts of its fragments in registers and of its operands in shared memory, which
//! follow from the instructions that multiply them.
//!
//! Contract. In: a bound, analysed kernel and a target. Out: a plan for warp specialisation (`hopper`), a plan for a bulk pipeline
//! (`bulk`), or the layouts and products of a block whose threads all do the same (`block`).

use super::bind::{MOST_STAGES, wrong_stages};
use super::block::{self, Block};
use super::bulk;
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

/// How a kernel is lowered.
pub(super) enum Choice {
    /// Into a producer and consumers.
    Roles(Box<Plan>),
    /// Into a producer of rows and the author's threads.
    Ring(Box<bulk::Plan>),
    /// As one block whose threads all run the same operations.
    Block(Box<Block>),
}

/// Chooses.
///
/// # Errors
/// Fragments whose uses disagree about their layout, or that no layout divides among the block's threads.
pub(super) fn infer(kernel: &BoundKernel, analysis: &Analysis, target: Target) -> Result<Choice, Vec<Diagnostic>> {
    let multiplies = kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::Tile(TileOp::Gemm { .. })));
    let has = target.info();
    // Where rows are not aligned for TMA, `lower_bound` remarks it once, for the whole kernel.
    let copies = has.bulk_copies && class::has_copy_engine(kernel);
    let reason: Option<Reason> = if copies && has.wgmma && multiplies {
        match hopper::plan(kernel, analysis, target) {
            Ok(plan) => return Ok(Choice::Roles(Box::new(plan))),
            Err(reason) => Some(reason),
        }
    } else {
        None
    };
    let rows = if copies && !multiplies {
        match bulk::plan(kernel, analysis) {
            Ok(plan) => return Ok(Choice::Ring(Box::new(plan))),
            Err(reason) => reason,
        }
    } else {
        None
    };
    written_out(kernel, target, reason.as_ref().or(rows.as_ref()))?;
    let mut block = block::infer(kernel)?;
    if let Some(reason) = rows {
        let text = format!("rows are not copied in bulk, every thread copies its part: {}", reason.text);
        block.fallbacks.push((reason.span, text));
    }
    if let Some(reason) = reason {
        let text = format!("not specialised, every thread loads and multiplies with mma.sync: {}", reason.text);
        block.fallbacks.push((reason.span, text));
    }
    Ok(Choice::Block(Box::new(block)))
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
