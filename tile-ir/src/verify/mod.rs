//! The rules a kernel obeys.
//!
//! [`structure`] is what every pass relies on, so that it may index and recurse freely. It is checked when a kernel is
//! decoded; the parser never builds anything else, except where rustc itself rejects the program.
//!
//! - every id points into its table; every span exists
//! - tensors, arrays, accesses and tiles have rank 1 to 3, and as many indices as axes; at most 3 grid and thread axes,
//!   bound to variables of that kind
//! - instances have one allowed dtype a type parameter and one value a const parameter
//! - expressions are acyclic, at most 256 deep, and bounded in size when shared parts are written out; so are immutable
//!   variables replaced by their values
//! - every statement stands in at most one place; bodies are at most 64 deep
//! - only variables that may be assigned are; only `&mut` tensors are written
//! - functions have their arity; literals are within 2^53
//!
//! [`kernel`] is the language's rules that no instance is needed for; each is reported on the author's line.
//!
//! - there is at least one instance, one thread axis and one target (`extents`)
//! - grid extents and `require`s are made of dims, constants and scalar parameters (`extents`)
//! - thread, array, `Fixed` and unrolling extents are made of constants (`extents`)
//! - shared arrays are allocated outside of loops and of conditionals that are not constant (`placement`)
//! - a `parallel` body has no barrier, collective, tile operation, allocation or further `parallel`, and assigns only
//!   its own variables (`placement`)
//! - the axis of a reduction is a thread binding; its operand is a number (`operands`)
//! - atomics are on shared or global elements of a dtype that has them (`operands`)
//! - a `copy` touches an array of the kernel, and converts numbers only to numbers (`operands`)
//! - `device_print` has an argument for each `{}` (`operands`)

mod extents;
mod operands;
mod placement;
mod structure;

pub use structure::structure;

use crate::diag::Diagnostic;
use crate::ir::Kernel;

/// Checks the rules that need no instance. The kernel must be well-formed, see [`structure`].
pub fn kernel(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    extents::check(kernel, &mut all);
    placement::check(kernel, &mut all);
    operands::check(kernel, &mut all);
    all
}
