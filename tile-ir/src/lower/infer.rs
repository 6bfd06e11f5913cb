//! Layouts: how fragments lie in registers and operands in shared memory, which follows from who multiplies them.
//!
//! Contract. In: a bound, analysed kernel and a target. Out: either a plan for roles (`hopper`), or the layouts and
//! products of a block whose threads all do the same (`block`).

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
    /// Of fragments.
    pub(super) fragments: BTreeMap<BufferId, Fragment>,
    /// Of fragments of one axis, which lie as the rows (0) or columns (1) of the layout given for them do.
    pub(super) kept: BTreeMap<BufferId, u8>,
    /// Of shared arrays that are operands of `gemm`, and of those whose author asked for a swizzle: one slot.
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
pub(super) fn infer(kernel: &Kernel, analysis: &Analysis, target: Target) -> Result<Choice, Vec<Diagnostic>> {
    let multiplies = kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::Gemm { .. }));
    let reason: Option<Reason> = match target {
        Target::Sm90a if multiplies && class::has_copy_engine(kernel) => match hopper::plan(kernel, analysis) {
            Ok(plan) => return Ok(Choice::Roles(Box::new(plan))),
            Err(reason) => Some(reason),
        },
        // That its rows are not aligned is said once for the whole kernel.
        Target::Sm90a if multiplies => None,
        Target::Sm80 | Target::Sm90a => None,
    };
    let rows = match target {
        Target::Sm90a if !multiplies && class::has_copy_engine(kernel) => match bulk::plan(kernel, analysis) {
            Ok(plan) => return Ok(Choice::Ring(Box::new(plan))),
            Err(reason) => reason,
        },
        Target::Sm80 | Target::Sm90a => None,
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

/// Refuses pipelined loops of more stages than can be written out one after another, which a block without roles does.
fn written_out(kernel: &Kernel, target: Target, reason: Option<&Reason>) -> Result<(), Vec<Diagnostic>> {
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
