//! Place: byte offsets of shared arrays.
//!
//! Contract. In: shared arrays without offsets, and how many bytes behind which of them are read, whatever is there. Out: disjoint offsets of arrays, and of barriers after them, each a multiple of the array's alignment, and
//! the block's total. Arrays do not share space: liveness comes with tile pipelines, which need it.

use crate::diag::{Code, Diagnostic};
use crate::ir::{BoundKernel, Scope};
use crate::lowered::{BARRIER_BYTES, Program, SharedArray, SharedId};

pub(super) fn place(program: &mut Program, windows: &[(SharedId, u32)]) {
    let mut end = 0u32;
    for array in program.shared.values_mut() {
        let start = end.next_multiple_of(array.align);
        array.offset = start;
        end = start.saturating_add(array.len.saturating_mul(array.dtype.bytes()));
    }
    for array in program.barriers.values_mut() {
        array.offset = end.next_multiple_of(BARRIER_BYTES);
        end = array.offset.saturating_add(array.len.saturating_mul(BARRIER_BYTES));
    }
    for &(shared, beyond) in windows {
        let array = &program.shared[shared];
        let bytes = array.len.saturating_mul(array.dtype.bytes());
        end = end.max(array.offset.saturating_add(bytes).saturating_add(beyond));
    }
    program.shared_bytes = end;
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
