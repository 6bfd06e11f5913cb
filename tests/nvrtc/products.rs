//! Products of tiles for targets without roles: every layout of the operands, every dtype, and as many threads as there
//! are ways to divide a tile.

use tile_runtime::prelude::*;

/// `c = a b`, each operand stored as it is or transposed.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS) in [(128, 128, 32, 4, 256), (64, 128, 32, 3, 128), (64, 64, 64, 2, 128)],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)]
    ),
    dtypes(T in [f16, bf16, f32]),
    require(A1 % 8 == 0 && B1 % 8 == 0 && N % 8 == 0),
    targets(sm_80)
)]
pub fn product<
    T: Float,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<T, (M, N)>,
) {
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    use_swizzle(8);
    let depth = if A_T { A0 } else { A1 };
    let row = by * BM;
    let col = bx * BN;
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for step in pipelined(0..ceil_div(depth, BK), STAGES) {
        let k = step * BK;
        copy(a.at([if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s);
        copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s);
        if A_T && B_T {
            gemm(a_s.t(), b_s.t(), &mut acc);
        } else if A_T {
            gemm(a_s.t(), &b_s, &mut acc);
        } else if B_T {
            gemm(&a_s, b_s.t(), &mut acc);
        } else {
            gemm(&a_s, &b_s, &mut acc);
        }
    }
    copy(&acc, c.at_mut([row, col]));
}
