//! The kernel: tiles of the operands through shared memory, products of tiles, an epilogue on the sum. Nothing here says
//! how a tile gets into shared memory, which threads multiply it, or when it may be overwritten.

use super::epilogue::finish;
use super::operands::{extents_agree, multiply, multiply_turned};
use tile_runtime::prelude::*;

/// `c = f(alpha a b + beta c + bias)`, accumulated in f32; `c` is M x N, row-major.
///
/// `a` is stored as M x K, or as K x M with `A_T`; `b` as K x N, or as N x K with `B_T`. A tile of `c` is `BM x BN`; a step
/// along K is `BK` wide, and `STAGES` of them are in shared memory at once. `THREADS` threads multiply a tile. A cluster is
/// `CX` tiles beside one another, which share what they read of `a`, times `CY` below one another, which share what they read
/// of `b`. Without `EPILOGUE`, `c = a b`. `f` is chosen by `activation`: 0 is the identity, 1 ReLU, 2 GELU in its tanh form,
/// 3 SiLU.
///
/// Any address, pitch and extent will do: what they allow is the launch's alignment class.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CX, CY) in [
            (128, 256, 64, 4, 256, 1, 1), (128, 192, 64, 4, 128, 1, 1), (128, 224, 64, 4, 256, 1, 1), (128, 128, 64, 6, 128, 1, 1),
            (64, 256, 64, 4, 128, 1, 1), (128, 64, 64, 8, 128, 1, 1), (64, 128, 64, 8, 128, 1, 1), (64, 64, 64, 12, 128, 1, 1),
            // Two tiles below one another read their columns of b once.
            (64, 64, 64, 12, 128, 1, 2),
            // Few rows: a tile for each multiprocessor, rings as deep as shared memory.
            (16, 56, 128, 12, 128, 1, 1), (16, 96, 128, 7, 128, 1, 1), (32, 32, 128, 14, 128, 1, 1), (32, 48, 128, 10, 128, 1, 1),
            (32, 96, 128, 6, 128, 1, 1), (64, 32, 128, 8, 128, 1, 1), (64, 48, 128, 7, 128, 1, 1),
            (64, 192, 64, 6, 128, 1, 1), (64, 96, 64, 10, 128, 1, 1), (64, 32, 64, 16, 128, 4, 2),
            // Few rows, of operands whose rows run along N.
            (16, 64, 128, 10, 128, 1, 1), (32, 64, 128, 8, 128, 1, 1),
            // Pairs of wide tiles: half as many bytes of b come from the second-level cache.
            (128, 256, 64, 4, 256, 1, 2), (256, 128, 64, 4, 256, 1, 2),
            // Clusters whose blocks share what they fetch of a, of b, or of both, each along its axis.
            (128, 128, 64, 6, 128, 1, 4), (128, 128, 64, 6, 128, 4, 2), (64, 64, 64, 12, 128, 4, 1), (64, 64, 64, 12, 128, 1, 4),
            (64, 64, 64, 12, 128, 2, 4), (64, 128, 64, 8, 128, 1, 4), (64, 128, 64, 8, 128, 4, 2), (128, 64, 64, 8, 128, 1, 2),
            (64, 80, 64, 10, 128, 4, 2), (64, 96, 64, 10, 128, 2, 4),
            (128, 96, 64, 7, 128, 4, 2), (128, 160, 64, 5, 256, 1, 2), (192, 160, 64, 4, 384, 2, 1), (128, 192, 64, 4, 128, 1, 2),
            (192, 128, 64, 4, 384, 1, 2), (192, 128, 64, 4, 384, 2, 1), (64, 192, 64, 6, 128, 1, 4), (192, 192, 64, 3, 384, 1, 2),
            (128, 128, 64, 6, 128, 2, 1),
            // Three warpgroups, for rows that are a little more than a multiple of 128.
            (192, 128, 64, 4, 384, 1, 1),
            // Rows that are a little more than a multiple of these: columns are the rows of an instruction, rows its columns.
            (96, 64, 64, 9, 128, 2, 2), (144, 128, 64, 5, 256, 2, 2), (160, 128, 64, 5, 256, 2, 2), (208, 128, 64, 4, 256, 2, 1),
            (96, 128, 64, 7, 256, 1, 1), (96, 64, 64, 9, 128, 4, 1), (160, 64, 64, 7, 128, 4, 1), (160, 128, 64, 5, 256, 2, 1), (176, 128, 64, 4, 256, 2, 1),
            // Two warpgroups take turns at tiles whose rows or columns are no multiples of 64.
            (112, 192, 64, 5, 128, 1, 2), (128, 160, 64, 5, 128, 2, 1), (176, 128, 64, 5, 128, 2, 1), (192, 96, 64, 5, 128, 2, 1),
            (160, 128, 64, 5, 128, 2, 1), (112, 128, 64, 6, 128, 4, 1), (128, 176, 64, 5, 128, 1, 2), (144, 128, 64, 5, 128, 2, 1),
            (128, 112, 64, 6, 128, 1, 4),
            // Wide tiles for results of a little more rows or columns than a multiple of those above.
            (256, 136, 64, 4, 256, 2, 1), (192, 144, 64, 4, 384, 2, 1), (240, 128, 64, 4, 256, 2, 1),
            // Few rows, which are the columns of an instruction (N), of operands across K too.
            (8, 192, 64, 8, 128, 1, 1), (16, 128, 64, 11, 128, 1, 1), (32, 128, 64, 10, 128, 4, 1), (40, 64, 64, 16, 128, 1, 1),
            // Results of few columns or rows: a tile holds all of them, or clusters share what they fetch of them.
            (64, 24, 64, 16, 128, 4, 1), (64, 128, 64, 8, 128, 4, 1), (64, 208, 64, 6, 128, 1, 2), (64, 160, 64, 7, 128, 1, 4),
            (128, 112, 64, 6, 128, 2, 2), (80, 64, 64, 11, 128, 2, 2), (72, 128, 64, 8, 128, 1, 4), (104, 128, 64, 7, 128, 1, 2), (112, 128, 64, 6, 128, 2, 2),
            (192, 176, 64, 4, 384, 2, 1), (256, 144, 64, 4, 256, 2, 1),
            // Where every thread copies: rows that are not aligned, and devices without TMA. Two blocks of them share a
            // multiprocessor.
            (128, 128, 32, 4, 256, 1, 1), (64, 64, 32, 4, 128, 1, 1), (64, 64, 64, 4, 256, 1, 1),
            // f32, multiplied by multiply-adds: 16 x 8 elements a thread, 8 x 8 or 8 x 4.
            (128, 128, 8, 4, 128, 1, 1), (128, 64, 8, 4, 128, 1, 1), (64, 128, 8, 4, 128, 1, 1),
            (64, 64, 16, 4, 128, 1, 1), (32, 64, 16, 4, 64, 1, 1),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        EPILOGUE in [false, true],
        // Narrow tiles, and those for few rows with steps of 128, are of X W^T alone. What a block of a cluster fetches for all begins with eight rows of the swizzle.
        where (BM >= 64 || BK == 64 || T::BITS == 32 || B_T != (BN == 64)) && (B_T || BN % 64 == 0 || BN > 64 && BK == 64)
            && (!A_T || T::BITS == 32 || BM >= 64 && BK <= 64) && (A_T || BM % (8 * CX) == 0) && (!B_T || BN % (8 * CY) == 0)
            && (T::BITS == 16) == (BK > 16) && (T::BITS == 16 || U::BITS == 32)
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(finish, multiply, multiply_turned, extents_agree),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm<
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
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    // Instructions have 64 rows: a tile of other rows is the transpose of one that has them as its columns.
    let turned = BM % 64 != 0 && (BM > 64 || BK == 64);
    cluster([CX, CY]);
    // Rows of tiles that a wave shares, as measured on an H200 (the book's chapter on the ladder), also of tiles in clusters.
    let wide = BM == 128 && BN > 128;
    use_swizzle(
        (if BM == 128 && BN == 128 {
            4
        } else if wide && M <= 4096 {
            16
        } else {
            8
        }) / CY,
    );
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if turned { BN } else { BM }, if turned { BM } else { BN }]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        let row = by * BM;
        let col = bx * BN;
        clear(&mut acc);
        for step in pipelined(0..ceil_div(depth, BK), STAGES) {
            let k = step * BK;
            // Later waves read the panel's rows of a again, and of b other columns.
            copy(a.at([if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s).evict(Last);
            copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s).evict(if wide {
                First
            } else {
                Normal
            });
            if turned {
                multiply_turned::<T, A_T, B_T>(&a_s, &b_s, &mut acc);
            } else {
                multiply::<T, A_T, B_T>(&a_s, &b_s, &mut acc);
            }
        }
        if turned {
            if EPILOGUE {
                finish::<T, U, true>(&mut acc, c, bias, row, col, alpha, beta, activation);
            }
            copy(acc.t(), c.at_mut([row, col]));
        } else {
            if EPILOGUE {
                finish::<T, U, false>(&mut acc, c, bias, row, col, alpha, beta, activation);
            }
            copy(&acc, c.at_mut([row, col]));
        }
    }
}
