//! The shape of the launch.

use super::shadow;

/// Declares the grid, one to three axes, and gives this block's index on each: `let [bx, by] = blocks([m, n]);`.
///
/// The extents are computed from dims, constants and scalar parameters; a launch never names them.
pub fn blocks<const N: usize>(extents: [usize; N]) -> [usize; N] {
    let _ = extents;
    shadow()
}

/// Declares the threads of a block, one to three axes of constant extent, and gives this thread's index on each:
/// `let [tk, tn] = threads([32, ROWS]);`. The first axis varies fastest: neighbours on it are neighbours in a warp.
///
/// At most 1,024 threads, and 64 on a third axis.
pub fn threads<const N: usize>(extents: [usize; N]) -> [usize; N] {
    let _ = extents;
    shadow()
}
