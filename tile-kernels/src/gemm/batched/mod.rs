//! Products of many matrices in one launch: [`gemm_batched`], [`kernel`] as it is written, [`choice`] of the tile. What TMA does not fetch,
//! and what `wgmma` does not multiply, may be copied first, by launches of their own (`packed`).

pub mod choice;
pub mod kernel;
mod packed;
pub mod split;

pub use choice::{Choice, Shape};

use super::{Gemm, GemmElement, Precision, gemm};
use kernel::{
    GemmBatchAnyTf32Params, GemmBatchParams, GemmBatchTf32Params, gemm_batch, gemm_batch_any_tf32, gemm_batch_tf32,
};
use split::{GemmBatchClusterParams, gemm_batch_cluster};
use tile_runtime::kernel::{Definition, LaunchOn, Place, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` for every batch `z`, on a device or stream: `a` of shape `[Z, M, K]` (or
/// `[Z, K, M]`), `b` of `[Z, K, N]` (or `[Z, N, K]`), `c` of `[Z, M, N]`, the bias of `[N]`. An operand of one batch is
/// used for all of them. All batches are one launch. Operands whose rows do not begin at multiples of 16 bytes, and of those as tf32 that both lie
/// across K one, are copied by launches in front of it where that is expected to be faster, into scratch memory that the stream keeps
/// ([`Scratch`](tile_runtime::kernel::Scratch)): up to 1 GiB an operand.
///
/// # Errors
/// As [`gemm`](super::gemm()).
#[track_caller]
pub fn gemm_batched<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    a: TensorView<'_, T, 3>,
    b: TensorView<'_, T, 3>,
    mut c: TensorViewMut<'_, C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), Error> {
    if [a.shape()[0], b.shape()[0], c.shape()[0]] == [1; 3] {
        return Ok(gemm(on, a.row(0)?, b.row(0)?, c.reborrow().row(0)?, options)?);
    }
    let mut shape = Shape::of(on, &a, &b, c.shape(), options);
    let none = [[None; 2]; 2];
    if shape.packs != none && !packed::is_accepted(on, [a.argument(), b.argument(), c.argument()], options) {
        shape.packs = none;
    }
    let (choice, us) = shape.fastest();
    let place = Place::of(on);
    let place = if choice::starts_early(shape.operands, us) { place } else { place.in_order() };
    Ok(packed::launch(&place, &Place::of(on), choice, a, b, c, options)?)
}

/// `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)` by a choice of [`Shape::ranked`].
///
/// # Errors
/// As [`gemm_batched`], and of any other choice.
#[doc(hidden)]
#[track_caller]
pub fn launch_by<T: GemmElement<C>, C: Element>(
    on: &impl LaunchOn,
    choice: Choice,
    a: TensorView<'_, T, 3>,
    b: TensorView<'_, T, 3>,
    c: TensorViewMut<'_, C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let place = Place::of(on);
    packed::launch(&place, &place, choice, a, b, c, options)
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 4] {
    [
        gemm_batch::<f16, f16>::definition(),
        gemm_batch_tf32::<64, 64, 4, 128, 1, 1, false, true, false>::definition(),
        gemm_batch_any_tf32::<64, 64, 4, 128, false, true>::definition(),
        gemm_batch_cluster::<f16, f16>::definition(),
    ]
}

/// A launch of [`gemm_batch`](struct@gemm_batch), or [`gemm_batch_cluster`](struct@gemm_batch_cluster) where K is in parts.
#[track_caller]
pub(super) fn launch<T: Element, C: Element>(
    on: &impl LaunchOn,
    choice: Choice,
    a: impl TensorInput<T, 3>,
    b: impl TensorInput<T, 3>,
    c: impl TensorOutput<C, 3>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let (rows, cols, step, stages, threads, cx, cy) = choice.tile;
    let Gemm { bias, alpha, beta, activation, .. } = *options;
    let activation = activation.number();
    if choice.parts > 1 {
        let params = GemmBatchClusterParams {
            BM: rows as usize,
            BN: cols as usize,
            BK: step,
            STAGES: stages,
            THREADS: threads,
            CK: choice.parts,
            TF32: T::DTYPE.bytes() == 4 && options.precision == Precision::Tf32,
            A_T: options.a_transposed,
            B_T: options.b_transposed,
            EPILOGUE: !options.is_plain(),
        };
        let kernel = gemm_batch_cluster::<T, C>::instance(on.device(), params)?;
        return kernel.launch_on(on, a, b, c, bias, alpha, beta, activation);
    }
    let params = GemmBatchParams {
        BM: rows as usize,
        BN: cols as usize,
        BK: step,
        STAGES: stages,
        THREADS: threads,
        CX: cx,
        CY: cy,
        A_T: options.a_transposed,
        B_T: options.b_transposed,
        EPILOGUE: !options.is_plain(),
    };
    let kernel = gemm_batch::<T, C>::instance(on.device(), params)?;
    kernel.launch_on(on, a, b, c, bias, alpha, beta, activation)
}

/// A launch of [`gemm_batch_tf32`](struct@gemm_batch_tf32) or [`gemm_batch_any_tf32`](struct@gemm_batch_any_tf32), which have different tiles.
#[track_caller]
pub(super) fn launch_tf32(
    on: &impl LaunchOn,
    choice: Choice,
    a: impl TensorInput<f32, 3>,
    b: impl TensorInput<f32, 3>,
    c: impl TensorOutput<f32, 3>,
    options: &Gemm<'_, f32>,
) -> Result<(), LaunchError> {
    if choice.parts > 1 {
        return launch(on, choice, a, b, c, options);
    }
    let (rows, cols, step, stages, threads, cx, cy) = choice.tile;
    let (rows, cols) = (rows as usize, cols as usize);
    let Gemm { bias, alpha, beta, activation, a_transposed, b_transposed, .. } = *options;
    let activation = activation.number();
    if step == choice::STEP_OF_WGMMA {
        let params = GemmBatchTf32Params {
            BM: rows,
            BN: cols,
            STAGES: stages,
            THREADS: threads,
            CX: cx,
            CY: cy,
            A_T: a_transposed,
            B_T: b_transposed,
            EPILOGUE: !options.is_plain(),
        };
        let kernel = gemm_batch_tf32::instance(on.device(), params)?;
        return kernel.launch_on(on, a, b, c, bias, alpha, beta, activation);
    }
    let params = GemmBatchAnyTf32Params {
        BM: rows,
        BN: cols,
        STAGES: stages,
        THREADS: threads,
        A_T: a_transposed,
        B_T: b_transposed,
    };
    gemm_batch_any_tf32::instance(on.device(), params)?.launch_on(on, a, b, c, bias, alpha, beta, activation)
}
