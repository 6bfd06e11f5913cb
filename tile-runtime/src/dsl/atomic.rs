//! Atomic updates of one element: relaxed, of device scope in global memory and block scope in shared memory.

use super::{Number, shadow};

/// `*element += value`, atomically; gives the old value. The order of several threads' updates is not defined, so a
/// sum of floats may differ between runs.
pub fn atomic_add<T: AtomicElement>(element: &mut T, value: T) -> T {
    let _ = (element, value);
    shadow()
}

/// `*element = max(*element, value)`, atomically; gives the old value. `i32` and `u32`.
pub fn atomic_max<T: AtomicElement>(element: &mut T, value: T) -> T {
    let _ = (element, value);
    shadow()
}

/// `*element = min(*element, value)`, atomically; gives the old value. `i32` and `u32`.
pub fn atomic_min<T: AtomicElement>(element: &mut T, value: T) -> T {
    let _ = (element, value);
    shadow()
}

/// Element types with atomic updates: `i32`, `u32` and, for [`atomic_add`], `f32`.
#[diagnostic::on_unimplemented(
    message = "there is no atomic update of `{Self}`: `i32`, `u32` and `f32` have one",
    label = "no atomic update of this type"
)]
pub trait AtomicElement: Number {}
impl AtomicElement for i32 {}
impl AtomicElement for u32 {}
impl AtomicElement for f32 {}

/// Counts this block at `counter` and says whether it is the last of `arrivals`: the same for every thread of the block.
///
/// What every block wrote to global memory before it came here is visible to the last one after. So partial results can be
/// combined in a defined order by whoever comes last: `if last_arriver(&mut sem[tile], splits) { .. }`.
///
/// The counter is an element of a tensor, 0 before the launch, the same for every thread; the last block sets it to 0 again.
/// Every thread of the block must reach it; it is a barrier.
pub fn last_arriver(counter: &mut u32, arrivals: usize) -> bool {
    let _ = (counter, arrivals);
    shadow()
}
