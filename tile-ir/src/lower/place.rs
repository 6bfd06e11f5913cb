//! Place: byte offsets of shared arrays.
//!
//! Contract. In: shared arrays without offsets. Out: disjoint offsets of arrays, and of barriers after them, each a multiple of the array's alignment, and
//! the block's total. Arrays do not share space: liveness comes with tile pipelines, which need it.

use crate::lowered::{BARRIER_BYTES, Program};

pub(super) fn place(program: &mut Program) {
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
    program.shared_bytes = end;
}
