//! K split over the blocks of a cluster, of many products: [`gemm_batch_cluster`].
//!
//! Where the tiles of all products leave multiprocessors idle, or K is so long that their last round does.

use crate::gemm::epilogue::finish;
use crate::gemm::operands::{add_copied_steps, add_steps, extents_agree};
use tile_runtime::prelude::*;

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every `z`, as [`gemm_batch`](struct@super::kernel::gemm_batch) has it, with K cut into `CK` parts, each a
/// block's of a cluster, whose sums the first block adds in order. f32 is multiplied by multiply-adds, or with `TF32` by `wgmma`, as
/// [`gemm_batch_tf32`](struct@super::kernel::gemm_batch_tf32) does.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CK, TF32) in [
            (64, 64, 64, 8, 128, 2, false), (64, 64, 64, 4, 128, 4, false), (64, 64, 64, 6, 128, 8, false),
            // f32 as tf32, of which 32 elements are as many bytes.
            (64, 64, 32, 5, 128, 2, true), (64, 64, 32, 4, 128, 4, true), (64, 64, 32, 6, 128, 8, true), (64, 128, 32, 6, 128, 2, true),
            // f32 as tf32 that every thread copies and `mma.sync` multiplies.
            (64, 64, 16, 4, 128, 2, true), (64, 32, 16, 4, 128, 4, true),
            // f32 by multiply-adds.
            (32, 32, 16, 4, 64, 2, false), (32, 32, 16, 4, 64, 4, false), (32, 32, 16, 4, 64, 8, false), (64, 64, 16, 4, 128, 2, false),
            (64, 64, 16, 4, 128, 4, false),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        EPILOGUE in [false, true],
        where (T::BITS == 16) == (BK == 64) && (T::BITS == 16 || U::BITS == 32) && (!TF32 || BK == 16 || B_T || !A_T)
    ),
    pdl(independent = []),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(finish, add_steps, add_copied_steps, extents_agree),
    targets(sm_90a),
    require(AZ == Z || AZ == 1),
    require(BZ == Z || BZ == 1),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_batch_cluster<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CK: usize,
    const TF32: bool,
    const A_T: bool,
    const B_T: bool,
    const EPILOGUE: bool,
>(
    a: &Tensor<T, (AZ, A0, A1)>,
    b: &Tensor<T, (BZ, B0, B1)>,
    c: &mut Tensor<U, (Z, M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    // `add_steps` makes the transpose of the product then.
    let turned = TF32 && BK == 32 && !B_T;
    // Rows of tiles of a product; those of all products are below one another.
    let high = max(1, ceil_div(M, BM));
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM) * Z, CK]);
    cluster([1, 1, CK]);
    threads([THREADS]);
    let z = by / high;
    let row = by % high * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(depth, BK), CK);
    let a_z = min(z, AZ - 1);
    let b_z = min(z, BZ - 1);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if turned { BN } else { BM }, if turned { BM } else { BN }]);
    clear(&mut acc);
    if TF32 && BK == 16 {
        add_copied_steps::<T, true, BK, STAGES, A_T, B_T>(
            a.row(a_z),
            b.row(b_z),
            &mut a_s,
            &mut b_s,
            &mut acc,
            row,
            col,
            part,
            share,
        );
    } else {
        add_steps::<T, TF32, BK, STAGES, A_T, B_T>(
            a.row(a_z),
            b.row(b_z),
            &mut a_s,
            &mut b_s,
            &mut acc,
            row,
            col,
            part,
            share,
        );
    }
    cluster_reduce(Sum, &mut acc);
    if part == 0 {
        if turned {
            if EPILOGUE {
                finish::<T, U, true>(&mut acc, c.row(z), bias, row, col, alpha, beta, activation);
            }
            copy(acc.t(), c.at_mut([z, row, col]));
        } else {
            if EPILOGUE {
                finish::<T, U, false>(&mut acc, c.row(z), bias, row, col, alpha, beta, activation);
            }
            copy(&acc, c.at_mut([z, row, col]));
        }
    }
}
