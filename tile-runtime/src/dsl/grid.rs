//! The shape of the launch.

use super::shadow;

/// Declares the grid, one to three axes, and gives this block's index on each: `let [bx, by] = blocks([m, n]);`.
///
/// The extents are computed from dims, constants and scalar parameters; a launch never names them.
pub fn blocks<const N: usize>(extents: [usize; N]) -> [usize; N] {
    let _ = extents;
    shadow()
}

/// Groups the blocks in clusters of these extents on the grid's axes, x first: `cluster([2, 1]);`. The extents are
/// constants; a cluster has 1, 2, 4 or 8 blocks. A tile that a pipelined loop loads and that does not depend on an axis's index is
/// loaded once for the blocks that differ along that axis alone. On a GPU without clusters it has no effect.
pub fn cluster<const N: usize>(extents: [usize; N]) {
    let _ = extents;
    shadow()
}

/// Lets blocks take the tiles of a grid of two or three axes in groups of `panel` tiles along y, x after x within a group,
/// so that blocks that run together share what they read in the L2 cache; z after z. It changes the order of the tiles
/// and nothing else. `panel` is made of constants, dims and scalar parameters, and at least 1 (0 counts as 1):
/// `use_swizzle(if M <= 4096 { 16 } else { 8 })`.
pub fn use_swizzle(panel: usize) {
    let _ = panel;
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
