//! `y = silu(x G^T) (x U^T)`, the gated half of a language model's layer in one launch: [`gated`] on tensors,
//! [`gemm_gated`](struct@gemm_gated) as it is written.
//!
//! Both products have the left operand in common, so a step along K fetches a tile of it once, and the two sums of an element meet in one
//! thread's registers: neither of them is stored. Beside a product of all columns and [`swiglu`](crate::swiglu::swiglu) of the result, that
//! saves a launch and the sums' way through memory, and the sums are not rounded to the type of `y` before they are multiplied.

use super::extents;
use super::model::Work;
use super::policy::Policy;
use crate::swiglu::silu;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, Place, Target, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Device, LaunchError};

/// `y = silu(x G^T) (x U^T)`, accumulated in f32: `x` is M x K, `w` the N rows of `G` and then the N rows of `U`, `y` M x N.
///
/// A tile of `y` is `BM x BN`, of two products of that size; a step along K is `BK` wide, and `STAGES` of them are in shared memory at once.
/// `THREADS` threads multiply a tile. A cluster is `CY` tiles below one another, which share what they read of `w`.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CY) in [
            // Few rows: columns that fill a device once or twice for the widths of common models, rings as deep as shared memory.
            (16, 32, 128, 10, 128, 1), (16, 48, 128, 7, 128, 1), (32, 48, 128, 6, 128, 1), (64, 48, 64, 10, 128, 1),
            (64, 72, 64, 8, 128, 1), (64, 96, 64, 6, 128, 1),
            // Two warpgroups, of 64 rows each.
            (128, 96, 64, 5, 256, 1), (128, 128, 64, 4, 256, 1), (128, 128, 64, 4, 256, 2),
        ],
        where T::BITS == 16
    ),
    require(W == 2 * N),
    targets(sm_90a),
    pdl(independent = [w]),
    uses(silu)
)]
pub fn gemm_gated<
    T: Float,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CY: usize,
>(
    x: &Tensor<T, (M, K)>,
    w: &Tensor<T, (W, K)>,
    y: &mut Tensor<T, (M, N)>,
) {
    cluster([1, CY]);
    use_swizzle((if M <= 4096 { 16 } else { 8 }) / CY);
    threads([THREADS]);
    let mut x_s = alloc_shared::<T>([BM, BK]);
    let mut gate_s = alloc_shared::<T>([BN, BK]);
    let mut up_s = alloc_shared::<T>([BN, BK]);
    let mut gate = alloc_fragment::<f32>([BM, BN]);
    let mut up = alloc_fragment::<f32>([BM, BN]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        let row = by * BM;
        let col = bx * BN;
        clear(&mut gate);
        clear(&mut up);
        for step in pipelined(0..ceil_div(K, BK), STAGES) {
            copy(x.at([row, step * BK]), &mut x_s).evict(Last);
            copy(w.at([col, step * BK]), &mut gate_s);
            copy(w.at([N + col, step * BK]), &mut up_s);
            gemm(&x_s, gate_s.t(), &mut gate);
            gemm(&x_s, up_s.t(), &mut up);
        }
        for [i, j] in parallel([BM, BN]) {
            gate[[i, j]] = silu(gate[[i, j]]) * up[[i, j]];
        }
        copy(&gate, y.at_mut([row, col]));
    }
}

/// An instance: rows and columns of a tile of the result, a step along K, slots of shared memory, threads, blocks of a cluster.
pub type Tile = (i64, i64, usize, usize, usize, usize);

/// The instances.
pub const TILES: [Tile; 9] = [
    (16, 32, 128, 10, 128, 1),
    (16, 48, 128, 7, 128, 1),
    (32, 48, 128, 6, 128, 1),
    (64, 48, 64, 10, 128, 1),
    (64, 72, 64, 8, 128, 1),
    (64, 96, 64, 6, 128, 1),
    (128, 96, 64, 5, 256, 1),
    (128, 128, 64, 4, 256, 1),
    (128, 128, 64, 4, 256, 2),
];

/// What a launch by a tile does: one product of both halves, by tiles of twice as many columns.
fn work((rows, cols, step, stages, threads, cy): Tile, [m, n, k]: [i64; 3]) -> Work {
    let [depth, threads, cy] = [step * stages, threads, cy].map(|size| size as i64);
    let (shape, stored) = ([m, n.saturating_mul(2), k], [false, true]);
    let (tile, cluster) = ([rows, 2 * cols], [1, cy]);
    Work::unsplit(shape, stored, tile, depth, threads, cluster)
}

/// The instance for rows, columns of the result and a depth, and whether its launch may start before the previous one is done.
fn fastest(policy: Policy, shape: [i64; 3]) -> (Tile, bool) {
    let timed = TILES.into_iter().map(|tile| {
        let work = work(tile, shape);
        let us = work.us(policy.parameters());
        (work.compared(us), (tile, work.starts_early(us)))
    });
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map_or((TILES[0], true), |(_, fastest)| fastest)
}

/// Whether [`gated`] takes operands of this type with rows of `k` elements that lie side by side, on a device: f16 and bf16 on one of compute
/// capability 9.0 or a simulator, and rows of a multiple of 16 bytes.
pub fn takes<T: Float>(device: &Device, k: usize) -> bool {
    T::DTYPE.bytes() == 2 && device.supports(Target::Sm90a) && k.is_multiple_of(8)
}

/// `y = silu(x G^T) (x U^T)` on a device or stream: `x` of shape `[M, K]`, `w` of `[2 N, K]`, the rows of `G` and then those of `U`, `y` of
/// `[M, N]`. Accumulated in f32, and rounded once.
///
/// `w` may be read before the previous kernel is done.
///
/// # Errors
/// What [`takes`] says no to; shapes that disagree, a tensor that lives elsewhere, `y` that overlaps an operand; and whatever compiling and
/// launching may fail with. Nothing is launched then.
#[track_caller]
pub fn gated<T: Float>(
    on: &impl LaunchOn,
    x: impl TensorInput<T, 2>,
    w: impl TensorInput<T, 2>,
    mut y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let (tile, early) = match (x.argument(), y.argument()) {
        (Argument::Tensor(x), Argument::Tensor(y)) => {
            let ([m, k], [_, n]) = (extents(&x), extents(&y));
            fastest(Policy::of(on.device()), [m, n, k])
        }
        // The launch refuses what is no tensor.
        _ => (TILES[0], true),
    };
    let place = Place::of(on);
    let place = if early { place } else { place.in_order() };
    gated_by(&place, tile, x, w, y)
}

/// [`gated`] by one of [`TILES`], for benchmarks.
///
/// # Errors
/// As [`gated`], and a tile that is none of them.
#[track_caller]
pub fn gated_by<T: Float>(
    on: &impl LaunchOn,
    (bm, bn, bk, stages, threads, cy): Tile,
    x: impl TensorInput<T, 2>,
    w: impl TensorInput<T, 2>,
    y: impl TensorOutput<T, 2>,
) -> Result<(), LaunchError> {
    let params = GemmGatedParams { BM: bm as usize, BN: bn as usize, BK: bk, STAGES: stages, THREADS: threads, CY: cy };
    gemm_gated::<T>::instance(on.device(), params)?.launch_on(on, x, w, y)
}

/// The kernel, as data.
pub fn definition() -> &'static Definition {
    gemm_gated::<f16>::definition()
}
