//! What the language has and the lowering does not yet: an error on the author's line, never a wrong program.

use super::hopper::Reason;
use crate::diag::{Code, Diagnostic};
use crate::ir::*;

/// Refuses statements without a lowering. They run on the fast simulator.
pub(super) fn check(bound: &Kernel, reason: Option<Reason>) -> Result<(), Vec<Diagnostic>> {
    let mut all = Vec::new();
    for stmt in bound.stmts.values() {
        let what = match &stmt.kind {
            StmtKind::Alloc { buffer } if bound.buffers[*buffer].scope == Scope::Fragment => "`alloc_fragment`",
            StmtKind::Gemm { .. } => "`gemm`",
            _ => continue,
        };
        let message = format!("the lowering of {what} is on its way");
        let help = "run it on `Device::simulator()` until then";
        let mut diagnostic = Diagnostic::new(Code::ILLEGAL_OPERATION, stmt.span, message).help(help);
        if let Some(reason) = &reason {
            diagnostic = diagnostic.label(reason.span, format!("not specialised: {}", reason.text));
        }
        all.push(diagnostic);
    }
    if let (Some(&extent), true) = (bound.cluster.first(), all.is_empty()) {
        let message = "the lowering of `cluster` is on its way";
        all.push(Diagnostic::new(Code::ILLEGAL_OPERATION, bound.exprs[extent].span, message));
    }
    if all.is_empty() { Ok(()) } else { Err(all) }
}
