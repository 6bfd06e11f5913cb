//! K split over blocks whose sums a second launch adds: [`gemm_partial`] writes the sum of each part of K, or [`gemm_partial_copied`] of operands that
//! TMA does not fetch, and [`add_partial`] adds them with all of the device. (CUTLASS calls it parallel split-K.)
//!
//! The second launch costs some two us, and the sums are read and written once more, but all multiprocessors add, where the last block to
//! arrive at a tile ([`gemm_slots`](struct@super::split::gemm_slots)) adds alone: so the tile may be large, and K in many parts. The sums are in
//! scratch memory of the stream ([`Scratch`]), in rows of their own pitch, so that the result may have any extents and pitch, and are added in order: a launch gives the same bits every time.

use super::Gemm;
use super::activation::activate;
use super::model::up;
use super::operands::{add_copied_steps, extents_agree, multiply, multiply_turned};
use super::parts::Parts;
use super::split::Split;
use tile_runtime::kernel::{Argument, LaunchOn, Scratch, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Element, LaunchError};

// ANCHOR: partial
/// `partial[s] = a[:, s] b[s, :]`: the sums of each of the parts that K is cut into.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, CX, CY) in [
            (160, 128, 64, 5, 256, 2, 1), (192, 128, 64, 4, 384, 2, 1), (64, 96, 64, 10, 128, 1, 4), (64, 128, 64, 8, 128, 1, 4), (64, 128, 64, 8, 128, 4, 1),
            (128, 64, 64, 8, 128, 4, 1), (64, 64, 64, 12, 128, 4, 1), (144, 64, 64, 8, 128, 2, 1), (96, 64, 64, 9, 128, 4, 1),
            (64, 192, 64, 6, 128, 1, 4), (256, 128, 64, 4, 256, 2, 1),
            (144, 128, 64, 5, 256, 2, 1), (64, 96, 64, 10, 128, 2, 4), (64, 48, 64, 14, 128, 4, 2), (176, 128, 64, 4, 256, 2, 1),
            (192, 176, 64, 4, 384, 2, 1), (152, 128, 64, 6, 256, 1, 2), (128, 224, 64, 4, 256, 1, 2), (224, 128, 64, 4, 256, 2, 1), (136, 128, 64, 6, 256, 1, 2),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        where BN >= 64 || B_T && !A_T
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16]),
    uses(multiply, multiply_turned, extents_agree),
    targets(sm_90a),
    require(A0 <= 1 << 22 && A1 <= 1 << 22),
    require(S <= 1 << 7),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_partial<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const CX: usize,
    const CY: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    partial: &mut Tensor<f32, (S, M, N)>,
) {
    let depth = if A_T { A0 } else { A1 };
    // Instructions have 64 rows: a tile of other rows is the transpose of one that has them as its columns.
    let turned = BM > 64 && BM % 64 != 0;
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), S]);
    cluster([CX, CY, 1]);
    threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    // Steps of a part, with bounds that keep a tile's place in 32 bits.
    let share = max(0, min(ceil_div(ceil_div(depth, BK), max(1, S)), 1 << 16));
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if turned { BN } else { BM }, if turned { BM } else { BN }]);
    clear(&mut acc);
    for step in pipelined(0..share, STAGES) {
        let k = (min(part, 1 << 7) * share + step) * BK;
        copy(a.at([if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s);
        copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s);
        if turned {
            multiply_turned::<T, A_T, B_T>(&a_s, &b_s, &mut acc);
        } else {
            multiply::<T, A_T, B_T>(&a_s, &b_s, &mut acc);
        }
    }
    if turned {
        copy(acc.t(), partial.at_mut([part, row, col]));
    } else {
        copy(&acc, partial.at_mut([part, row, col]));
    }
}
// ANCHOR_END: partial

/// [`gemm_partial`](fn@gemm_partial) of operands that every thread copies: f32 by multiply-adds or, with `TF32`, on tensor cores, and 16 bits at any address
/// and pitch, by the tiles of [`gemm_parts`](struct@super::parts::gemm_parts) and, of f32, one of 128 x 128.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, TF32) in [
            (128, 128, 8, 4, 128, false), (128, 64, 8, 4, 128, false), (64, 128, 8, 4, 128, false),
            (64, 64, 16, 4, 128, false), (32, 64, 16, 4, 64, false), (16, 64, 16, 4, 64, false),
            (32, 128, 16, 4, 128, false), (16, 128, 8, 4, 64, false),
            (64, 64, 16, 4, 128, true), (16, 64, 32, 4, 128, true),
            (64, 64, 32, 4, 128, false), (16, 64, 32, 4, 128, false),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        where (T::BITS == 16) == (BK == 32 && !TF32)
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16, f32]),
    uses(add_copied_steps, extents_agree),
    require(A0 <= 1 << 22 && A1 <= 1 << 22),
    require(S <= 1 << 7),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_partial_copied<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const TF32: bool,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    partial: &mut Tensor<f32, (S, M, N)>,
) {
    let depth = if A_T { A0 } else { A1 };
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), S]);
    threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    let share = ceil_div(ceil_div(depth, BK), max(1, S));
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    add_copied_steps::<T, TF32, BK, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, part, share);
    copy(&acc, partial.at_mut([part, row, col]));
}

/// `c = f(alpha (partial[0] + partial[1] + ..) + beta c + bias)`, `VEC` elements of `c` at a time. Rows of `partial` may be longer than those of `c`:
/// they begin at multiples of 16 bytes, whatever rows of `c` do, and what lies beyond the columns of `c` is read and not used.
#[tile_kernel(
    instances(VEC in [4, 1], where T::BITS == 16 || U::BITS == 32),
    pdl(independent = [bias], trigger = AtStart),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(activate),
    require(P % 4 == 0 && N % VEC == 0 && N <= P),
    require(S <= 1 << 7 && M * P <= 1 << 28)
)]
pub fn add_partial<T, U, const VEC: usize>(
    partial: &Tensor<f32, (S, M, P)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let [block] = blocks([ceil_div(M * P, 512)]);
    let [t] = threads([128]);
    let fours = max(1, P / 4);
    let row = (block * 128 + t) / fours;
    let col = (block * 128 + t) % fours * 4;
    // Asked for while the product still runs.
    let mut asked = alloc_local::<T>([4 / VEC, VEC]);
    let mut shift = alloc_local::<f32>([4]);
    clear(&mut shift);
    if let Some(bias) = bias {
        for e in unroll(0..4 / VEC) {
            for v in vectorized(0..VEC) {
                asked[[e, v]] = bias.masked([col + e * VEC + v]);
            }
        }
        for v in unroll(0..4) {
            shift[v] = asked[[v / VEC, v % VEC]].cast::<f32>();
        }
    }
    let mut sums = alloc_local::<f32>([4]);
    let mut read = alloc_local::<f32>([4]);
    let mut out = alloc_local::<U>([4 / VEC, VEC]);
    clear(&mut sums);
    for s in serial(0..S).unroll(8) {
        for v in vectorized(0..4) {
            read[v] = partial.masked([s, row, col + v]);
        }
        for v in unroll(0..4) {
            sums[v] += read[v];
        }
    }
    if beta != 0.0 {
        for e in unroll(0..4 / VEC) {
            for v in vectorized(0..VEC) {
                out[[e, v]] = c.masked([row, col + e * VEC + v]);
            }
        }
    }
    for v in unroll(0..4) {
        let mut value = alpha * sums[v];
        if beta != 0.0 {
            value += beta * out[[v / VEC, v % VEC]].cast::<f32>();
        }
        out[[v / VEC, v % VEC]] = activate(value + shift[v], activation).cast::<U>();
    }
    for e in unroll(0..4 / VEC) {
        for v in vectorized(0..VEC) {
            *c.masked_mut([row, col + e * VEC + v]) = out[[e, v]];
        }
    }
}

/// What multiplies before the sums are added.
#[derive(Clone, Copy, Debug)]
pub(super) enum First {
    /// [`gemm_partial`](struct@gemm_partial), of operands that TMA fetches.
    Fetched(Split),
    /// [`gemm_partial_copied`](struct@gemm_partial_copied).
    Copied(Parts),
}

/// Columns of the sums of a result of so many: rows of theirs begin at multiples of 16 bytes.
pub(super) fn width(n: i64) -> i64 {
    up(n, 4) * 4
}

/// Launches a product whose sums a second launch adds. `behind`: where that one is launched, which has nothing but the first in front of it.
///
/// # Errors
/// As [`gemm`](super::gemm).
#[track_caller]
pub(super) fn launch<T: Element, C: Element>(
    on: &impl LaunchOn,
    behind: &impl LaunchOn,
    first: First,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    mut c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    static SCRATCH: Scratch = Scratch::new();
    let [m, n] = super::matrix_extents(c.argument());
    let in_fours =
        |c: Argument<'_>| matches!(c, Argument::Tensor(c) if super::rows_are_made_of(&c, 4 * size_of::<C>() as i64));
    let vec = if in_fours(c.argument()) { 4 } else { 1 };
    let Gemm { bias, alpha, beta, activation, .. } = *options;
    let slots = match first {
        First::Fetched(split) => split.slots,
        First::Copied(parts) => parts.slots,
    };
    let mut lent = SCRATCH.lend::<f32, 3>(on, [slots, m as usize, width(n) as usize])?;
    let sums = lent.view_mut().slice([0..slots, 0..m as usize, 0..n as usize])?;
    match first {
        First::Fetched(split) => {
            gemm_partial::<T>::instance(on.device(), split.partial_params(options))?.launch_on(on, a, b, sums)?;
        }
        First::Copied(parts) => {
            gemm_partial_copied::<T>::instance(on.device(), parts.partial_params(options))?
                .launch_on(on, a, b, sums)?;
        }
    }
    let add = add_partial::<T, C>::instance(on.device(), AddPartialParams { VEC: vec })?;
    add.launch_on(behind, lent.view(), c, bias, alpha, beta, activation.number())
}
