//! Place: byte offsets of shared arrays.
//!
//! Contract. In: shared arrays without offsets. Out: disjoint offsets of arrays, and of barriers after them, each a multiple of the array's alignment, and
//! the block's total. Arrays do not share space: liveness comes with tile pipelines, which need it.

use crate::diag::{Code, Diagnostic};
use crate::ir::{BoundKernel, Scope};
use crate::lowered::{BARRIER_BYTES, Program, SharedArray};

pub(super) fn place(mut program: Program) -> Program {
    let mut end = 0u32;
    for array in program.shared.values_mut() {
        array.offset = end.next_multiple_of(array.align);
        end = array.end();
    }
    for array in program.barriers.values_mut() {
        array.offset = end.next_multiple_of(BARRIER_BYTES);
        end = array.offset.saturating_add(array.len.saturating_mul(BARRIER_BYTES));
    }
    for array in program.shared.values() {
        end = end.max(array.end().saturating_add(array.beyond));
    }
    program.shared_bytes = end;
    program
}

/// Refuses a program whose shared memory, with what the compiler added to the author's arrays, is more than the target's.
pub(super) fn fits(kernel: &BoundKernel, program: &Program) -> Result<(), Vec<Diagnostic>> {
    let (needed, most) = (program.shared_bytes, program.target.max_shared_bytes());
    let array = kernel.buffers.values().find(|b| b.scope == Scope::Shared);
    let Some(array) = array.filter(|_| needed > most) else { return Ok(()) };
    let parts: Vec<String> = program
        .shared
        .values()
        .map(|a| format!("`{}` {}", a.name, u64::from(a.len) * u64::from(a.dtype.bytes())))
        .collect();
    let for_reduce =
        |a: &&SharedArray| a.scratch && ["spilled", "reduced", "partial"].iter().any(|n| a.name.starts_with(n));
    let reduces = program.shared.values().filter(for_reduce).max_by_key(|a| a.len);
    let message = format!("{needed} bytes of shared memory, of {most} on {}", program.target);
    let diagnostic = Diagnostic::new(Code::SHARED_BUDGET, array.span, message)
        .at(format!("{} bytes", parts.join(", ")))
        .help(match reduces {
            Some(array) => format!(
                "use smaller tiles or arrays; `{}` is what the compiler adds for a `reduce` whose tile goes through shared memory",
                array.name
            ),
            None => "use fewer stages or smaller tiles; what the compiler adds stages the result on its way to memory".into(),
        });
    Err(vec![diagnostic])
}
