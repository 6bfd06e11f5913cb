//! The slice of a kernel that decides what is loaded: the control flow around the loops that load, and what that and the tiles'
//! coordinates are made of. The producer executes it beside its loads.

use super::super::super::uses::{depends, each, variables};
use super::Load;
use crate::ir::*;
use std::collections::BTreeSet;

/// Whether one of some statements stands in a body.
pub(in super::super) fn holds(kernel: &BoundKernel, body: &[StmtId], stmts: &[StmtId]) -> bool {
    let mut found = false;
    each(kernel, body, &mut |s| found |= stmts.contains(&s));
    found
}

/// Whether a body gives one of some variables another value.
pub(in super::super) fn assigns(kernel: &BoundKernel, body: &[StmtId], vars: &BTreeSet<VarId>) -> bool {
    let mut found = false;
    each(kernel, body, &mut |s| found |= kernel.stmts[s].kind.sets().iter().any(|var| vars.contains(var)));
    found
}

/// The variables that the loops' control flow and the coordinates of `loads` are made of. `loops`: the loops that load.
pub(in super::super) fn needed<'l>(
    kernel: &BoundKernel,
    loops: &[StmtId],
    loads: impl Iterator<Item = &'l Load>,
) -> BTreeSet<VarId> {
    let mut needed: BTreeSet<VarId> = BTreeSet::new();
    for load in loads {
        load.start.iter().for_each(|e| needed.extend(depends(kernel, *e)));
    }
    loop {
        let before = needed.len();
        each(kernel, &kernel.body, &mut |stmt| {
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::Let { var, .. } | StmtKind::Assign { var, .. } = kind {
                // A variable is made of others.
                if needed.contains(var) {
                    needed.extend(variables(kernel, &[stmt]));
                }
                return;
            }
            let decides = |body: &[StmtId]| holds(kernel, body, loops) || assigns(kernel, body, &needed);
            if loops.contains(&stmt) || kind.bodies().into_iter().any(decides) {
                kind.values().into_iter().for_each(|e| needed.extend(depends(kernel, e)));
            }
        });
        if needed.len() == before {
            return needed;
        }
    }
}
