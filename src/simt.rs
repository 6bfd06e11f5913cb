//! A matrix product as a compiler for CPUs would tile it (TVM's "tiling and loop reordering"), on a GPU's threads.
//! No shared memory; what differs is the order of the loops around one multiply-add.

use tile_runtime::prelude::*;

// ANCHOR: simt
/// C = A B in f32. A block has `BM x BN` elements of C, a thread `TM x TN`; K goes in steps of `BK`.
///
/// With `INNERMOST` the loop along K is the innermost: an element's sum stays in a register for `BK`
/// steps. Without, it is outside the loops over the thread's elements, and every multiply-add reads
/// and writes C.
#[tile_kernel(instances(
    (BM, BN, BK) in [(32, 32, 32), (32, 64, 32), (64, 32, 32), (64, 64, 32), (64, 64, 64)],
    (TM, TN) in [(2, 2), (4, 4), (4, 8), (8, 4), (8, 8)],
    INNERMOST in [true, false],
))]
pub fn simt<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const INNERMOST: bool,
>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let [bi, bj] = blocks([ceil_div(M, BM), ceil_div(N, BN)]);
    let [ti, tj] = threads([BM / TM, BN / TN]);
    let row = bi * BM + ti * TM;
    let col = bj * BN + tj * TN;
    for i in 0..TM {
        for j in 0..TN {
            if row + i < M && col + j < N {
                c[[row + i, col + j]] = 0.0;
            }
        }
    }
    for outer in 0..ceil_div(K, BK) {
        let first = outer * BK;
        if INNERMOST {
            for i in 0..TM {
                for j in 0..TN {
                    if row + i < M && col + j < N {
                        let mut sum = c[[row + i, col + j]];
                        for k in first..min(first + BK, K) {
                            sum += a[[row + i, k]] * b[[k, col + j]];
                        }
                        c[[row + i, col + j]] = sum;
                    }
                }
            }
        } else {
            for k in first..min(first + BK, K) {
                for i in 0..TM {
                    for j in 0..TN {
                        if row + i < M && col + j < N {
                            c[[row + i, col + j]] += a[[row + i, k]] * b[[k, col + j]];
                        }
                    }
                }
            }
        }
    }
}
// ANCHOR_END: simt
