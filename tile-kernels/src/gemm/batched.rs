//! Products of many matrices at once: the kernel of [`gemm`](super::kernel::gemm) with a third axis of tiles.

use super::activation::activate;
use super::operands::multiply;
use super::{Gemm, GemmElement, gemm, has_copy_engine, rows_are_made_of};
use tile_runtime::kernel::{Argument, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every `z`; an operand whose first extent is 1 is every batch's.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS) in [
            (128, 256, 64, 4, 256), (128, 128, 64, 6, 128), (64, 64, 64, 8, 128),
            // Where every thread copies.
            (128, 128, 32, 4, 256), (64, 64, 32, 4, 128),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)]
    ),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(activate, multiply),
    require(AZ == Z || AZ == 1),
    require(BZ == Z || BZ == 1),
    require(A_T || A0 == M),
    require(!A_T || A1 == M),
    require(B_T || B1 == N),
    require(!B_T || B0 == N),
    require(A_T || B_T || A1 == B0),
    require(A_T || !B_T || A1 == B1),
    require(!A_T || B_T || A0 == B0),
    require(!A_T || !B_T || A0 == B1)
)]
pub fn gemm_batch<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREADS: usize,
    const A_T: bool,
    const B_T: bool,
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
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    for [bx, by, z] in persistent([ceil_div(N, BN), ceil_div(M, BM), Z]) {
        let row = by * BM;
        let col = bx * BN;
        let az = min(z, AZ - 1);
        let bz = min(z, BZ - 1);
        clear(&mut acc);
        for step in pipelined(0..ceil_div(depth, BK), STAGES) {
            let k = step * BK;
            copy(a.at([az, if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s);
            copy(b.at([bz, if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s);
            multiply::<T, A_T, B_T>(&a_s, &b_s, &mut acc);
        }
        for [i, j] in parallel([BM, BN]) {
            let mut value = alpha * acc[[i, j]];
            if beta != 0.0 {
                value += beta * c.masked([z, row + i, col + j]).cast::<f32>();
            }
            if let Some(shift) = bias {
                value += shift.masked([col + j]).cast::<f32>();
            }
            acc[[i, j]] = activate(value, activation);
        }
        copy(&acc, c.at_mut([z, row, col]));
    }
}

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every batch `z`, on a device or stream: `a` of shape `[Z, M, K]` (or
/// `[Z, K, M]`), `b` of `[Z, K, N]` (or `[Z, N, K]`), `c` of `[Z, M, N]`, the bias of `[N]`. An operand of one batch is
/// used for all of them.
///
/// One launch where the operands are 16-bit, else a launch a batch.
///
/// # Errors
/// As [`gemm`]. Where batches are launched one by one, those before the one that fails are.
#[track_caller]
pub fn gemm_batched<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: TensorView<'_, T, 3>,
    b: TensorView<'_, T, 3>,
    mut c: TensorViewMut<'_, C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), Error> {
    let [batches, m, n] = c.shape();
    let (fetched, asynchronous) = match (a.argument(), b.argument()) {
        (Argument::Tensor(a), Argument::Tensor(b)) => {
            (has_copy_engine(on, [&a, &b]), [&a, &b].into_iter().all(|operand| rows_are_made_of(operand, 4)))
        }
        _ => (false, false),
    };
    // Single elements of large tiles, which are held in registers, leave none for a third axis.
    let tiles = match fetched || asynchronous {
        true => batches.saturating_mul(m.div_ceil(128)).saturating_mul(n.div_ceil(128)),
        false => 0,
    };
    if let Some(done) = T::launch_batch(on, (tiles, fetched), a, b, c.reborrow(), options) {
        return done.map_err(Error::from);
    }
    for z in 0..batches {
        let [a, b] = [&a, &b].map(|operand| operand.row(if operand.shape()[0] == 1 { 0 } else { z }));
        gemm(on, a?, b?, c.reborrow().row(z)?, options)?;
    }
    Ok(())
}

/// From this many tiles of 128 x 128 on the wider tiles pay: two waves of them on an H200.
const MANY_TILES: usize = 2 * 132;

/// A launch of [`gemm_batch`]: how many tiles of 128 x 128 the result has, and whether TMA fetches operands.
pub(super) trait Batch<C: Element>: Element {
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        shape: (usize, bool),
        a: impl TensorInput<Self, 3>,
        b: impl TensorInput<Self, 3>,
        c: impl TensorOutput<C, 3>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;
}

/// Every instance is a type of its own: the match from values to it, written once.
macro_rules! outputs {
    ($($t:ty => $u:ty),*) => { $(
        impl Batch<$u> for $t {
            #[track_caller]
            fn launch(
                on: &impl LaunchOn,
                shape: (usize, bool),
                a: impl TensorInput<Self, 3>,
                b: impl TensorInput<Self, 3>,
                c: impl TensorOutput<$u, 3>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                match shape {
                    (MANY_TILES.., true) => outputs!(@ $t, $u, (128, 256, 64, 4, 256), on, a, b, c, options),
                    (66.., true) => outputs!(@ $t, $u, (128, 128, 64, 6, 128), on, a, b, c, options),
                    (_, true) => outputs!(@ $t, $u, (64, 64, 64, 8, 128), on, a, b, c, options),
                    (100.., false) => outputs!(@ $t, $u, (128, 128, 32, 4, 256), on, a, b, c, options),
                    (_, false) => outputs!(@ $t, $u, (64, 64, 32, 4, 128), on, a, b, c, options),
                }
            }
        }
    )* };
    (@ $t:ty, $u:ty, ($bm:literal, $bn:literal, $bk:literal, $stages:literal, $threads:literal),
     $on:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        match ($o.a_transposed, $o.b_transposed) {
            (false, true) => outputs!(@ gemm_batch::<$t, $u, $bm, $bn, $bk, $stages, $threads, false, true>, $on, $a, $b, $c, $o),
            (false, false) => outputs!(@ gemm_batch::<$t, $u, $bm, $bn, $bk, $stages, $threads, false, false>, $on, $a, $b, $c, $o),
            (true, true) => outputs!(@ gemm_batch::<$t, $u, $bm, $bn, $bk, $stages, $threads, true, true>, $on, $a, $b, $c, $o),
            (true, false) => outputs!(@ gemm_batch::<$t, $u, $bm, $bn, $bk, $stages, $threads, true, false>, $on, $a, $b, $c, $o),
        }
    };
    (@ $kernel:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        <$kernel>::launch($on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number())
    };
}

outputs!(f16 => f16, f16 => f32, bf16 => bf16, bf16 => f32);
