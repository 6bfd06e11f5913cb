//! The kernel for a matrix whose rows lie along the result: `y = W^T x`, which is a product of one row.

use super::Problem;
use super::model::{Parameters, Path, Work};
use super::parts::store_row;
use super::work::up;
use tile_runtime::prelude::*;

/// `y = alpha W^T x + beta y` for a row-major `W` of K rows and N columns, accumulated in f32. With `beta == 0`, `y` is not read.
///
/// A thread has `VEC` neighbouring columns and `UNROLL` rows in flight, `LANES` threads lie side by side, and `GROUPS` such groups take
/// different rows. The `PARTS` blocks of a cluster share the rows of their columns. The groups' sums are added through shared memory and the blocks'
/// through distributed shared memory, in the order of their numbers: equal calls give equal bits.
#[tile_kernel(
    instances(
        (LANES, GROUPS, UNROLL) in [(32, 8, 8), (8, 32, 8)],
        PARTS in [1, 2, 4, 8],
        VEC in [8, 4, 2, 1],
        where VEC * T::BITS <= 128
    ),
    require(N % VEC == 0),
    targets(sm_90a),
    stream(w),
    pdl(independent = [w]),
    uses(store_row)
)]
pub fn gemv_columns<
    T: Float,
    const LANES: usize,
    const GROUPS: usize,
    const UNROLL: usize,
    const PARTS: usize,
    const VEC: usize,
>(
    w: &Tensor<T, (K, N)>,
    x: &Tensor<T, (K,)>,
    y: &mut Tensor<T, (N,)>,
    alpha: f32,
    beta: f32,
) {
    let columns = LANES * VEC;
    let [part, block] = blocks([PARTS, ceil_div(N, columns)]);
    cluster([PARTS, 1]);
    let [lane, group] = threads([LANES, GROUPS]);
    let col = block * columns;

    let mut sums = alloc_local::<f32>([VEC]);
    let mut ws = alloc_local::<T>([UNROLL, VEC]);
    let mut xs = alloc_local::<T>([UNROLL]);
    let mut parts = alloc_shared::<f32>([GROUPS, columns]);
    // A value for each thread: of each column, the sums of `VEC` groups.
    let mut some = alloc_fragment::<f32>([GROUPS / VEC, columns]);
    let mut total = alloc_fragment::<f32>([columns]);
    clear(&mut sums);
    for chunk in 0..ceil_div(K, PARTS * UNROLL * GROUPS) {
        let row = (chunk * PARTS + part) * (UNROLL * GROUPS) + group;
        for u in unroll(0..UNROLL) {
            for v in vectorized(0..VEC) {
                ws[[u, v]] = w.masked([row + u * GROUPS, col + lane * VEC + v]);
            }
        }
        for u in unroll(0..UNROLL) {
            xs[u] = x.masked([row + u * GROUPS]);
        }
        for u in unroll(0..UNROLL) {
            for v in unroll(0..VEC) {
                sums[v] += ws[[u, v]].cast::<f32>() * xs[u].cast::<f32>();
            }
        }
    }
    for v in unroll(0..VEC) {
        parts[[group, lane * VEC + v]] = sums[v];
    }
    for [i, j] in parallel([GROUPS / VEC, columns]) {
        let mut sum = parts[[i * VEC, j]];
        for g in unroll(1..VEC) {
            sum += parts[[i * VEC + g, j]];
        }
        some[[i, j]] = sum;
    }
    if PARTS > 1 {
        cluster_reduce(Sum, &mut some);
    }
    if part == 0 {
        reduce(Sum, &some, &mut total, 0);
        for [j] in parallel([columns]) {
            store_row(y, col + j, total[j], alpha, beta);
        }
    }
}

/// The instances, but for the elements of a load: threads side by side, groups, rows in flight.
const SHAPES: [[usize; 3]; 2] = [[32, 8, 8], [8, 32, 8]];

/// The blocks that share columns.
const BLOCKS: [usize; 4] = [1, 2, 4, 8];

/// Every instance for a problem whose [`n`](Problem::n) is the number of columns and [`k`](Problem::k) that of rows.
fn candidates(p: Problem) -> impl Iterator<Item = (GemvColumnsParams, Work)> {
    let of = move |[lanes, groups, unroll]: [usize; 3], parts: usize| {
        let params = GemvColumnsParams { LANES: lanes, GROUPS: groups, UNROLL: unroll, PARTS: parts, VEC: p.wide };
        (params, work(&params, &p))
    };
    SHAPES.into_iter().flat_map(move |shape| BLOCKS.map(|parts| of(shape, parts)))
}

/// What a launch does, as the model of the other kernels has it. It was not fitted to this kernel.
fn work(&GemvColumnsParams { LANES, GROUPS, UNROLL, PARTS, VEC }: &GemvColumnsParams, p: &Problem) -> Work {
    let (columns, threads) = ((LANES * VEC) as i64, LANES * GROUPS);
    let (vec, unroll) = (VEC as f64, UNROLL as f64);
    let steps = up(p.k, (PARTS * UNROLL * GROUPS) as i64);
    let taken = steps as f64 * unroll;
    let piece = vec * p.element() as f64;
    let block_bytes = (up(p.k, PARTS as i64).saturating_mul(columns)) as f64 * p.element() as f64;
    // A warp has a piece of one row, or of several.
    let lines = (32.0 * piece / 128.0).max(32.0 / LANES as f64);
    Work {
        path: if PARTS > 1 { Path::Cluster } else { Path::Registers },
        blocks: up(p.n, columns) as f64 * PARTS as f64,
        threads: threads as f64,
        at_work: (threads as f64 / 32.0).ceil(),
        row_warps: GROUPS as f64,
        registers: 32.0 + unroll * ((piece / 4.0).max(1.0) + 1.0) + vec,
        shared: (GROUPS as i64 * columns * 4) as f64,
        block_bytes,
        bytes: p.k as f64 * p.n as f64 * p.element() as f64,
        asked: (threads as f64 * unroll * piece).min(block_bytes),
        steps: steps as f64,
        chain: [taken, 3.0],
        transfers: taken * (lines + 1.0),
        instructions: taken * (2.0 + 2.0 * vec),
    }
}

/// The instance that is expected to be the fastest, and its us.
pub(crate) fn fastest(problem: Problem) -> Option<(GemvColumnsParams, f64)> {
    let timed = candidates(problem).filter(|(_, work)| work.resident() >= 1.0);
    timed.map(|(params, work)| (params, work.us(&Parameters::H200))).min_by(|a, b| a.1.total_cmp(&b.1))
}
