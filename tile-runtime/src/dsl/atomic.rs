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
