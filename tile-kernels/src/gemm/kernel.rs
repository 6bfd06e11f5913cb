//! The kernel: tiles of the operands through shared memory, products of tiles, an epilogue on the sum. Nothing here says
//! how a tile gets into shared memory, which threads multiply it, or when it may be overwritten.

use tile_runtime::prelude::*;

/// `c = f(alpha a b + beta c + bias)`, accumulated in f32; `c` is M x N, row-major.
///
/// `a` is stored as M x K, or as K x M with `A_T`; `b` as K x N, or as N x K with `B_T`. A tile of `c` is `BM x BN`; a step
/// along K is 64 wide, and `STAGES` of them are in shared memory at once. `THREADS` threads multiply a tile. A cluster is
/// `CY` tiles below one another, which share what they read of `b`. Without `EPILOGUE`, `c = a b`. `f` is chosen by
/// `activation`: 0 is the identity, 1 ReLU, 2 GELU in its tanh form, 3 SiLU.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS, CY) in [
            (128, 256, 4, 256, 2), (128, 256, 4, 256, 1), (128, 224, 4, 256, 1), (128, 128, 6, 128, 1),
            (64, 256, 4, 128, 1), (128, 64, 8, 128, 1), (64, 128, 8, 128, 1), (64, 64, 8, 128, 1),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        EPILOGUE in [false, true],
        // An operand whose rows run along N is read by whole rows of 64.
        where B_T || BN % 64 == 0
    ),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    targets(sm_90a),
    require(A_T || A0 == M),
    require(!A_T || A1 == M),
    require(B_T || B1 == N),
    require(!B_T || B0 == N),
    require(A_T || B_T || A1 == B0),
    require(A_T || !B_T || A1 == B1),
    require(!A_T || B_T || A0 == B0),
    require(!A_T || !B_T || A0 == B1)
)]
pub fn gemm<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const THREADS: usize,
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
    let bk = 64;
    let depth = if A_T { A0 } else { A1 };
    cluster([1, CY]);
    use_swizzle(8);
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([if A_T { bk } else { BM }, if A_T { BM } else { bk }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { bk }, if B_T { bk } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        let row = by * BM;
        let col = bx * BN;
        clear(&mut acc);
        for step in pipelined(0..ceil_div(depth, bk), STAGES) {
            let k = step * bk;
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
        if EPILOGUE {
            for [i, j] in parallel([BM, BN]) {
                let mut value = alpha * acc[[i, j]];
                if beta != 0.0 {
                    value += beta * c.masked([row + i, col + j]).cast::<f32>();
                }
                if let Some(shift) = bias {
                    value += shift.masked([col + j]).cast::<f32>();
                }
                if activation == 1 {
                    value = max(value, 0.0);
                } else if activation == 2 {
                    // 0.5 x (1 + tanh(u)) is x / (1 + e^-2u).
                    let inner = 1.595_769_1 * (value + 0.044_715 * value * value * value);
                    value *= fast::recip(1.0 + fast::exp(-inner));
                } else if activation == 3 {
                    value *= fast::recip(1.0 + fast::exp(-value));
                }
                acc[[i, j]] = value;
            }
        }
        copy(&acc, c.at_mut([row, col]));
    }
}
