//! The kernels of many products: those of one with a third axis of tiles.

use crate::gemm::epilogue::finish;
use crate::gemm::operands::{add_copied_steps, add_steps, extents_agree, multiply_by_wgmma};
use tile_runtime::prelude::*;

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every `z`; an operand whose first extent is 1 is every batch's.
///
/// A tile of `c[z]`, a cluster and the steps along K are those of [`gemm`](struct@crate::gemm::kernel::gemm). Without `EPILOGUE`, `c[z] = a[z] b[z]`. Of a tile whose slots leave shared memory for another block, a multiprocessor has several: one
/// stores its tile while others multiply.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CX, CY) in [
            (128, 128, 64, 6, 128, 1, 1), (192, 128, 64, 4, 384, 1, 1), (64, 256, 64, 4, 128, 1, 1), (128, 64, 64, 8, 128, 1, 1),
            // Two blocks of them, or more, share a multiprocessor.
            (64, 128, 64, 4, 128, 1, 1), (64, 64, 64, 4, 128, 1, 1),
            // Few tiles: rings that begin with more of K.
            (64, 128, 64, 8, 128, 1, 1), (64, 64, 64, 8, 128, 1, 1), (64, 192, 64, 6, 128, 1, 1),
            // Few columns, of operands along K alone.
            (64, 32, 64, 4, 128, 1, 1), (64, 16, 64, 6, 128, 1, 1),
            // Pairs of blocks share what they fetch of one operand.
            (128, 256, 64, 4, 256, 1, 2), (128, 256, 64, 4, 256, 2, 1), (128, 192, 64, 4, 128, 1, 2), (64, 64, 64, 8, 128, 1, 2),
            (192, 128, 64, 4, 384, 2, 1), (128, 64, 64, 8, 128, 1, 2), (64, 192, 64, 6, 128, 1, 2),
            // Where every thread copies.
            (128, 128, 32, 4, 256, 1, 1), (64, 64, 32, 4, 128, 1, 1), (64, 64, 64, 4, 256, 1, 1),
            // f32, multiplied by multiply-adds.
            (128, 128, 8, 4, 128, 1, 1), (128, 64, 8, 4, 128, 1, 1), (64, 64, 16, 4, 128, 1, 1), (32, 64, 16, 4, 128, 1, 1),
            (64, 16, 16, 4, 64, 1, 1), (64, 32, 16, 4, 64, 1, 1), (16, 64, 16, 4, 64, 1, 1), (32, 32, 16, 4, 64, 1, 1),
            (64, 32, 16, 4, 128, 1, 1),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        EPILOGUE in [false, true],
        // An operand whose rows run along N is read by whole rows of 64.
        where (T::BITS == 16) == (BK > 16) && (T::BITS == 16 || U::BITS == 32) && (BK != 64 || BN % 64 == 0 || B_T)
    ),
    pdl(independent = []),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(finish, add_steps, extents_agree),
    require(AZ == Z || AZ == 1),
    require(BZ == Z || BZ == 1),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_batch<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CX: usize,
    const CY: usize,
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
    cluster([CX, CY]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    // Before the loop over tiles: warpgroups that take turns skip as many slots as a tile has steps.
    let steps = ceil_div(depth, BK);
    for [bx, by, z] in persistent([ceil_div(N, BN), ceil_div(M, BM), Z]) {
        let row = by * BM;
        let col = bx * BN;
        let az = min(z, AZ - 1);
        let bz = min(z, BZ - 1);
        clear(&mut acc);
        add_steps::<T, false, BK, STAGES, A_T, B_T>(
            a.row(az),
            b.row(bz),
            &mut a_s,
            &mut b_s,
            &mut acc,
            row,
            col,
            0,
            steps,
        );
        if EPILOGUE {
            finish::<T, U, false>(&mut acc, c.row(z), bias, row, col, alpha, beta, activation);
        }
        copy(&acc, c.at_mut([z, row, col]));
    }
}

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` of f32 that `wgmma` multiplies as tf32, as
/// [`gemm_tf32`](struct@crate::gemm::tf32::gemm_tf32) has it for one product.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS, CX, CY) in [
            (128, 192, 4, 256, 1, 1), (256, 128, 4, 256, 2, 1), (128, 128, 6, 256, 1, 1),
            // Two blocks of them, or more, share a multiprocessor.
            (128, 64, 4, 128, 1, 1), (64, 128, 4, 128, 1, 1), (64, 64, 4, 128, 1, 1),
            // Few columns or rows, of those that are not the rows of an instruction.
            (64, 32, 4, 128, 1, 1), (64, 16, 6, 128, 1, 1), (16, 64, 6, 128, 1, 1), (32, 64, 6, 128, 1, 1),
            (64, 64, 8, 128, 1, 1),
            // Rows that are a little more than a multiple of 64.
            (96, 128, 6, 256, 1, 1), (144, 128, 5, 256, 1, 1),
        ],
        (A_T, B_T) in [(false, true), (true, true), (false, false)],
        EPILOGUE in [false, true],
        where (B_T || BN <= 128 && BN % 64 == 0) && (!B_T || BM <= 128 && BM % 64 == 0 || !A_T && BM % 64 != 0)
    ),
    pdl(independent = []),
    uses(finish, multiply_by_wgmma, extents_agree),
    targets(sm_90a),
    require(AZ == Z || AZ == 1),
    require(BZ == Z || BZ == 1),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_batch_tf32<
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CX: usize,
    const CY: usize,
    const A_T: bool,
    const B_T: bool,
    const EPILOGUE: bool,
>(
    a: &Tensor<f32, (AZ, A0, A1)>,
    b: &Tensor<f32, (BZ, B0, B1)>,
    c: &mut Tensor<f32, (Z, M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    // An operand that lies across K is the left one; of those along K it may be `b`, whose rows are the rows of an instruction then.
    let turned = !B_T || BM % 64 != 0;
    cluster([CX, CY]);
    threads([THREADS]);
    let mut a_s = alloc_shared::<f32>([if A_T { 32 } else { BM }, if A_T { BM } else { 32 }]);
    let mut b_s = alloc_shared::<f32>([if B_T { BN } else { 32 }, if B_T { 32 } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if turned { BN } else { BM }, if turned { BM } else { BN }]);
    for [bx, by, z] in persistent([ceil_div(N, BN), ceil_div(M, BM), Z]) {
        let row = by * BM;
        let col = bx * BN;
        let az = min(z, AZ - 1);
        let bz = min(z, BZ - 1);
        clear(&mut acc);
        for step in pipelined(0..ceil_div(depth, 32), STAGES) {
            let k = step * 32;
            copy(a.at([az, if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s);
            copy(b.at([bz, if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s);
            if B_T && turned {
                gemm(&b_s, a_s.t(), &mut acc).tf32();
            } else {
                multiply_by_wgmma::<f32, A_T, B_T>(&a_s, &b_s, &mut acc);
            }
        }
        if !turned {
            if EPILOGUE {
                finish::<f32, f32, false>(&mut acc, c.row(z), bias, row, col, alpha, beta, activation);
            }
            copy(&acc, c.at_mut([z, row, col]));
        } else {
            if EPILOGUE {
                finish::<f32, f32, true>(&mut acc, c.row(z), bias, row, col, alpha, beta, activation);
            }
            copy(acc.t(), c.at_mut([z, row, col]));
        }
    }
}

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` of f32 that `mma.sync` multiplies as tf32, for any layout, alignment and device: every
/// thread copies its part of the operands.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS) in [(128, 128, 4, 256), (64, 64, 4, 128), (64, 32, 4, 128), (32, 64, 4, 128)],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)]
    ),
    pdl(independent = []),
    uses(finish, add_copied_steps, extents_agree),
    require(AZ == Z || AZ == 1),
    require(BZ == Z || BZ == 1),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_batch_any_tf32<
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const THREADS: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<f32, (AZ, A0, A1)>,
    b: &Tensor<f32, (BZ, B0, B1)>,
    c: &mut Tensor<f32, (Z, M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    let [bx, by, z] = blocks([ceil_div(N, BN), ceil_div(M, BM), Z]);
    threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    let az = min(z, AZ - 1);
    let bz = min(z, BZ - 1);
    let mut a_s = alloc_shared::<f32>([if A_T { 16 } else { BM }, if A_T { BM } else { 16 }]);
    let mut b_s = alloc_shared::<f32>([if B_T { BN } else { 16 }, if B_T { 16 } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    let steps = ceil_div(depth, 16);
    add_copied_steps::<f32, true, 16, STAGES, A_T, B_T>(
        a.row(az),
        b.row(bz),
        &mut a_s,
        &mut b_s,
        &mut acc,
        row,
        col,
        0,
        steps,
    );
    finish::<f32, f32, false>(&mut acc, c.row(z), bias, row, col, alpha, beta, activation);
    copy(&acc, c.at_mut([z, row, col]));
}
