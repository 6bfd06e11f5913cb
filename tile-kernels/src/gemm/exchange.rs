//! K split over the blocks of a cluster, each of which adds a part of the tile: [`gemm_exchange`].
//!
//! Where [`gemm_cluster`](struct@super::split::gemm_cluster) sends every sum to the first block, which adds and stores them alone, here each block sends every
//! other one the rows that are that one's to add. So as much is sent, but no block receives more than a tile, and all of them add and store.

use super::Gemm;
use super::epilogue::store_four;
use super::operands::{add_steps, extents_agree};
use super::split::Split;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Element, LaunchError};

// ANCHOR: exchange
/// `c = f(alpha a b + beta c + bias)`, [`kernel::gemm`](fn@super::kernel::gemm) with K cut into `CK` parts, each a block's of a
/// cluster, which adds and stores `BM / CK` rows.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CK) in [
            (64, 64, 64, 11, 128, 8), (64, 48, 64, 13, 128, 8), (64, 32, 64, 16, 128, 8), (64, 96, 64, 8, 128, 8),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        where B_T || BN % 64 == 0
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(add_steps, store_four, extents_agree),
    targets(sm_90a),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N)),
    require(N % 8 == 0)
)]
pub fn gemm_exchange<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CK: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    let own = BM / CK; // rows that a block adds
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), CK]);
    cluster([1, 1, CK]);
    let [t] = threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(depth, BK), CK);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    add_steps::<T, true, BK, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, part, share);
    let mut mine = alloc_shared::<f32>([CK, own, BN]);
    let mut theirs = alloc_shared::<f32>([CK, own, BN]);
    for [i, j] in parallel([BM, BN]) {
        mine[[i / own, i % own, j]] = acc[[i, j]];
    }
    cluster_exchange(&mine, &mut theirs);
    // A thread has four neighbours of every so many rows.
    let fours = ceil_div(own * BN, 4 * THREADS);
    let mut sums = alloc_local::<f32>([fours, 4]);
    let mut read = alloc_local::<f32>([4]);
    clear(&mut sums);
    for e in unroll(0..fours) {
        let at = (e * THREADS + t) * 4;
        if at < own * BN {
            for s in unroll(0..CK) {
                for v in vectorized(0..4) {
                    read[v] = theirs[[s, at / BN, at % BN + v]];
                }
                for v in unroll(0..4) {
                    sums[[e, v]] += read[v];
                }
            }
        }
    }
    for e in unroll(0..fours) {
        let at = (e * THREADS + t) * 4;
        let (i, j) = (row + part * own + at / BN, col + at % BN);
        if at < own * BN {
            store_four::<T, U>(&sums, e, c, bias, i, j, alpha, beta, activation);
        }
    }
}
// ANCHOR_END: exchange

/// Launches a split whose clusters exchange their sums.
///
/// # Errors
/// As [`gemm`](super::gemm).
#[track_caller]
pub(super) fn launch<T: Element, C: Element>(
    on: &impl LaunchOn,
    split: Split,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let (rows, cols, step, stages) = split.tile;
    let Gemm { a_transposed, b_transposed, bias, alpha, beta, activation, .. } = *options;
    let params = GemmExchangeParams {
        BM: rows as usize,
        BN: cols as usize,
        BK: step,
        STAGES: stages,
        THREADS: split.threads(),
        CK: split.parts,
        A_T: a_transposed,
        B_T: b_transposed,
    };
    let kernel = gemm_exchange::<T, C>::instance(on.device(), params)?;
    kernel.launch_on(on, a, b, c, bias, alpha, beta, activation.number())
}
