//! Layouts: how fragments lie in registers and operands in shared memory, which follows from who multiplies them.
//!
//! Contract. In: a bound, analysed kernel and a target. Out: either a plan for roles (`hopper`), or the layouts of a
//! block whose threads all do the same; for a kernel without fragments there is nothing to choose.

use super::hopper::{self, Plan};
use super::pending;
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
    /// Of shared arrays that are operands of `gemm`: one slot.
    pub(super) shared: BTreeMap<BufferId, SharedLayout>,
}

/// How a kernel is lowered.
pub(super) enum Choice {
    /// Into a producer and consumers.
    Roles(Box<Plan>),
    /// As one block whose threads all run the same operations.
    Block(Layouts),
}

/// Chooses.
pub(super) fn infer(kernel: &Kernel, analysis: &Analysis, target: Target) -> Result<Choice, Vec<Diagnostic>> {
    let multiplies = kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::Gemm { .. }));
    if !multiplies {
        pending::check(kernel, None)?;
        return Ok(Choice::Block(Layouts::default()));
    }
    let reason = match target {
        Target::Sm80 => None,
        Target::Sm90a => match hopper::plan(kernel, analysis) {
            Ok(plan) => return Ok(Choice::Roles(Box::new(plan))),
            Err(reason) => Some(reason),
        },
    };
    pending::check(kernel, reason)?;
    Ok(Choice::Block(Layouts::default()))
}
