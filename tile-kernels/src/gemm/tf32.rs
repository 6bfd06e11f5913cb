//! f32 operands on tensor cores: products as tf32, of which the leading 10 bits of the fraction count
//! ([`Precision::Tf32`](super::Precision)).
//!
//! On Hopper, operands whose rows begin at multiples of 16 bytes are fetched by the tensor memory accelerator and multiplied by `wgmma`,
//! where one of them at least lies along K ([`takes`]). Where both lie across K one is transposed first, if that is expected to pay
//! ([`pack`](super::pack)); all others, and other devices, are copied asynchronously and multiplied by `mma.sync`.

use super::epilogue::finish;
use super::model::{INSTANCES, Parameters};
use super::operands::{add_copied_steps, add_steps, extents_agree};
use super::policy::Policy;
use super::split::Split;
use super::{Choice, Gemm, Tile, rows_begin_at};
use std::sync::atomic::{AtomicBool, Ordering};
use tile_runtime::kernel::{Argument, LaunchOn, Target, TensorInput, TensorOutput, TensorRef};
use tile_runtime::prelude::*;

/// `c = f(alpha a b + beta c + bias)` as [`gemm`](super::kernel::gemm) has it, a step along K 32 elements, which are 128 bytes, wide.
///
/// `wgmma` reads tf32 from shared memory where it lies along K, and from registers. So an operand that lies along M or N is the left one,
/// which threads load word by word: `a` with `A_T`, and `b` without `B_T`, whose products are those of `c^T = b^T a^T`, transposed as
/// they are stored. Of both at once there is no instance.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS, CX, CY) in [
            (128, 256, 4, 256, 1, 1), (128, 256, 4, 256, 1, 2), (128, 256, 4, 256, 2, 1), (128, 192, 4, 256, 1, 1),
            (256, 128, 4, 256, 1, 1), (256, 128, 4, 256, 1, 2), (256, 128, 4, 256, 2, 1), (192, 128, 4, 256, 1, 1),
            (128, 128, 6, 256, 1, 1), (128, 128, 6, 256, 1, 2), (128, 128, 6, 256, 2, 1), (64, 128, 8, 128, 1, 1),
            (128, 64, 8, 128, 1, 1), (128, 64, 8, 128, 4, 1), (64, 64, 12, 128, 1, 1),
        ],
        (A_T, B_T) in [(false, true), (true, true), (false, false)],
        EPILOGUE in [false, true],
        where (B_T || BN <= 128) && (!B_T || BM <= 128)
    ),
    pdl(independent = [b]),
    uses(finish, add_steps, extents_agree),
    targets(sm_90a),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_tf32<
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
    a: &Tensor<f32, (A0, A1)>,
    b: &Tensor<f32, (B0, B1)>,
    c: &mut Tensor<f32, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    cluster([CX, CY]);
    use_swizzle(8 / CY);
    threads([THREADS]);
    let mut a_s = alloc_shared::<f32>([if A_T { 32 } else { BM }, if A_T { BM } else { 32 }]);
    let mut b_s = alloc_shared::<f32>([if B_T { BN } else { 32 }, if B_T { 32 } else { BN }]);
    let mut acc = alloc_fragment::<f32>([if B_T { BM } else { BN }, if B_T { BN } else { BM }]);
    // Before the loop over tiles: warpgroups that take turns skip as many slots as a tile has steps.
    let steps = ceil_div(depth, 32);
    for [bx, by] in persistent([ceil_div(N, BN), ceil_div(M, BM)]) {
        let row = by * BM;
        let col = bx * BN;
        clear(&mut acc);
        add_steps::<f32, true, 32, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, 0, steps);
        if B_T {
            if EPILOGUE {
                finish::<f32, f32, false>(&mut acc, c, bias, row, col, alpha, beta, activation);
            }
            copy(&acc, c.at_mut([row, col]));
        } else {
            if EPILOGUE {
                finish::<f32, f32, true>(&mut acc, c, bias, row, col, alpha, beta, activation);
            }
            copy(acc.t(), c.at_mut([row, col]));
        }
    }
}

/// The GEMM of f32 as tf32 for any layout, alignment and device: every thread copies its part of the operands.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS) in [(128, 128, 4, 256), (64, 64, 4, 128)],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)]
    ),
    uses(finish, add_copied_steps, extents_agree),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_any_tf32<
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const THREADS: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<f32, (A0, A1)>,
    b: &Tensor<f32, (B0, B1)>,
    c: &mut Tensor<f32, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    use_swizzle(8);
    let row = by * BM;
    let col = bx * BN;
    let mut a_s = alloc_shared::<f32>([if A_T { 16 } else { BM }, if A_T { BM } else { 16 }]);
    let mut b_s = alloc_shared::<f32>([if B_T { BN } else { 16 }, if B_T { 16 } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    let steps = ceil_div(depth, 16);
    add_copied_steps::<f32, true, 16, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, 0, steps);
    finish::<f32, f32, false>(&mut acc, c, bias, row, col, alpha, beta, activation);
    copy(&acc, c.at_mut([row, col]));
}

/// The tiles of [`gemm_tf32`](struct@gemm_tf32), as [`Choice`] has them.
pub const TILES: [Tile; 15] = [
    (128, 256, 32, 4, 256, 1, 1),
    (128, 256, 32, 4, 256, 1, 2),
    (128, 256, 32, 4, 256, 2, 1),
    (128, 192, 32, 4, 256, 1, 1),
    (256, 128, 32, 4, 256, 1, 1),
    (256, 128, 32, 4, 256, 1, 2),
    (256, 128, 32, 4, 256, 2, 1),
    (192, 128, 32, 4, 256, 1, 1),
    (128, 128, 32, 6, 256, 1, 1),
    (128, 128, 32, 6, 256, 1, 2),
    (128, 128, 32, 6, 256, 2, 1),
    (64, 128, 32, 8, 128, 1, 1),
    (128, 64, 32, 8, 128, 1, 1),
    (128, 64, 32, 8, 128, 4, 1),
    (64, 64, 32, 12, 128, 1, 1),
];

/// Whether `wgmma` multiplies operands that are stored so (`[a_transposed, b_transposed]`): one of them at least lies along K.
pub fn takes(stored: [bool; 2]) -> bool {
    stored != [true, false]
}

/// Whether there is an instance of a tile for operands that are stored so: as the kernel's `where` says.
pub fn has((bm, bn, ..): Tile, stored: [bool; 2]) -> bool {
    let [_, b_transposed] = stored;
    takes(stored) && if b_transposed { bm <= 128 } else { bn <= 128 }
}

/// The tiles of [`gemm_any_tf32`](struct@gemm_any_tf32), as [`Choice`] has them.
pub(super) const ANY: [Tile; 2] = [(128, 128, 16, 4, 256, 1, 1), (64, 64, 16, 4, 128, 1, 1)];

/// us of a step of 32 along K that none of a tile's falls below.
fn step((rows, cols): (i64, i64)) -> f64 {
    match (rows, cols) {
        (64, 64) => 0.168,
        (64, _) => 0.292,
        (_, 128) => 0.358,
        _ => 0.324,
    }
}

/// How long a launch takes, as a part of what the 16-bit kernel's model expects of it: where both operands lie along K, and where one is
/// loaded word by word. Measured of 60 products on an H100 (`bench/results/gemm-tf32-fit-h100.json`).
fn pace(choice: &Choice, loaded: bool) -> f64 {
    let [read, loaded_by_words] = match (choice.split, choice.tile) {
        (Some(Split { tile: (128, 128, ..), slots: 1, .. }), _) => [0.957, 0.982],
        (Some(Split { tile: (128, 128, ..), .. }), _) => [0.999, 1.04],
        (Some(Split { tile: (_, 128, ..), parts: 4, .. }), _) => [0.913, 0.905],
        (Some(Split { tile: (64, 64, ..), parts: 8, .. }), _) => [0.857, 0.87],
        (Some(Split { tile: (64, 64, ..), parts: 4, .. }), _) => [0.79, 0.946],
        (Some(Split { tile: (64, 64, ..), slots: 2.., .. }), _) => [1.112, 1.108],
        (Some(_), _) => [0.96, 0.98],
        (None, (128, 256, ..)) => [0.95, 1.025],
        (None, (256, .., 2, _)) => [0.95, 0.976],
        (None, (256, ..)) => [0.95, 1.055],
        (None, (192, ..) | (_, 192, ..)) => [0.994, 1.06],
        (None, (128, 128, .., 1, 1)) => [0.939, 1.03],
        (None, (128, 128, ..)) => [0.886, 0.983],
        (None, (128, .., 4, _)) => [0.792, 0.937],
        (None, (128, ..)) => [0.971, 1.019],
        (None, (_, 128, ..)) => [1.018, 1.049],
        (None, _) => [1.05, 1.017],
    };
    if loaded { loaded_by_words } else { read }
}

/// us that a launch of a tile that `wgmma` multiplies is expected to take. An instruction takes as long over 8 elements of tf32 as over 16 of 16
/// bits, which are as many bytes, so the 16-bit kernel's cost model is asked about twice the K. Steps wait for one another rather than for the
/// bytes of a port, even where few multiprocessors work.
pub(super) fn us(choice: &Choice, [m, n, k]: [i64; 3], stored: [bool; 2], parameters: &Parameters) -> f64 {
    let pace = pace(choice, stored != [false, true]);
    let (choice, tile) = match (choice.split, choice.tile) {
        (Some(Split { tile: (bm, bn, step, stages), .. }), _) => {
            let split = choice.split.map(|split| Split { tile: (bm, bn, 2 * step, stages), ..split });
            (Choice { split, ..*choice }, (bm, bn))
        }
        (None, (bm, bn, _, stages, threads, cx, cy)) => {
            (Choice { tile: (bm, bn, 64, stages, threads, cx, cy), ..*choice }, (bm, bn))
        }
    };
    let step = [step(tile); 2];
    let (none, one) = (f64::INFINITY, [1.0; INSTANCES]);
    let parameters =
        Parameters { fixed: 3.382, step, port: none, shared: none, last: 1.0, pace: one, reach: one, ..*parameters };
    pace * choice.work([m, n, k.saturating_mul(2)], [false, true]).us(&parameters)
}

/// The tile for a shape of operands along K.
pub fn tile_for(m: i64, n: i64, k: i64) -> Tile {
    let cost = |tile: &Tile| {
        let choice = Choice { tile: *tile, ..Choice::default() };
        us(&choice, [m, n, k], [false, true], Policy::default().parameters())
    };
    let tiles = TILES.into_iter().filter(|tile| has(*tile, [false, true]));
    tiles.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(TILES[0])
}

/// Whether the device's TMA fetches operands and `wgmma` multiplies them.
pub(super) fn is_fetched(on: &impl LaunchOn, operands: [&TensorRef<'_>; 2], stored: [bool; 2]) -> bool {
    takes(stored)
        && on.device().supports(Target::Sm90a)
        && operands.into_iter().all(|operand| rows_begin_at(operand, 16))
}

/// Says, once, that a launch on Hopper multiplies without `wgmma`.
fn say(on: &impl LaunchOn) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let device = on.device();
    if device.supports(Target::Sm90a) && !device.is_simulator() && !SAID.swap(true, Ordering::Relaxed) {
        eprintln!(
            "tile: gemm: tf32 is multiplied by mma.sync, not by wgmma, which takes it where one operand at least lies along K and \
             rows begin at multiples of 16 bytes (said once)"
        );
    }
}

/// A launch of a tile of a choice: one of those that `wgmma` multiplies, where it can, or one of [`ANY`].
#[track_caller]
pub(super) fn launch(
    on: &impl LaunchOn,
    choice: Choice,
    a: impl TensorInput<f32, 2>,
    b: impl TensorInput<f32, 2>,
    c: impl TensorOutput<f32, 2>,
    options: &Gemm<'_, f32>,
) -> Result<(), LaunchError> {
    let stored = [options.a_transposed, options.b_transposed];
    if let (Argument::Tensor(a_ref), Argument::Tensor(b_ref)) = (a.argument(), b.argument())
        && is_fetched(on, [&a_ref, &b_ref], stored)
        && TILES.contains(&choice.tile)
    {
        return launch_tile(on, choice.tile, a, b, c, options);
    }
    say(on);
    let tile = match choice.tile {
        tile if ANY.contains(&tile) => tile,
        _ if choice.many_tiles => ANY[0],
        _ => ANY[1],
    };
    let (bm, bn, _, stages, threads, ..) = tile;
    let params = GemmAnyTf32Params {
        BM: bm as usize,
        BN: bn as usize,
        STAGES: stages,
        THREADS: threads,
        A_T: options.a_transposed,
        B_T: options.b_transposed,
    };
    let Gemm { bias, alpha, beta, activation, .. } = *options;
    gemm_any_tf32::instance(on.device(), params)?.launch_on(on, a, b, c, bias, alpha, beta, activation.number())
}

/// `c = f(alpha a b^T + beta c + bias)` as tf32 by one of the [`TILES`], for benchmarks and tuning.
///
/// # Errors
/// As [`gemm`](super::gemm) has them, and where rows do not begin at multiples of 16 bytes or the device is not Hopper.
/// A tile that is none of [`TILES`] is refused.
#[track_caller]
pub fn launch_tile(
    on: &impl LaunchOn,
    tile: Tile,
    a: impl TensorInput<f32, 2>,
    b: impl TensorInput<f32, 2>,
    c: impl TensorOutput<f32, 2>,
    options: &Gemm<'_, f32>,
) -> Result<(), LaunchError> {
    let (bm, bn, _, stages, threads, cx, cy) = tile;
    let params = GemmTf32Params {
        BM: bm as usize,
        BN: bn as usize,
        STAGES: stages,
        THREADS: threads,
        CX: cx,
        CY: cy,
        A_T: options.a_transposed,
        B_T: options.b_transposed,
        EPILOGUE: !options.is_plain(),
    };
    let Gemm { bias, alpha, beta, activation, .. } = *options;
    gemm_tf32::instance(on.device(), params)?.launch_on(on, a, b, c, bias, alpha, beta, activation.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile is an instance in the layouts that it is offered in, and in no others.
    #[test]
    fn tiles_are_instances() {
        let kernel = gemm_tf32::<128, 256, 4, 256, 1, 1, false, true, false>::definition().kernel().unwrap();
        for tile in TILES {
            let (bm, bn, _, stages, threads, cx, cy) = tile;
            for stored in [[false, true], [false, false], [true, true], [true, false]] {
                let sizes = [stages, threads, cx, cy].map(|size| size as i64);
                let flags = [stored[0], stored[1], true].map(i64::from);
                let wanted: Vec<i64> = [bm, bn].into_iter().chain(sizes).chain(flags).collect();
                let found = kernel.instances.iter().any(|i| i.consts == wanted);
                assert_eq!(found, has(tile, stored), "{wanted:?}");
            }
        }
    }

    #[test]
    fn large_shapes_take_large_tiles() {
        assert_eq!(tile_for(8192, 8192, 8192).0 * tile_for(8192, 8192, 8192).1, 128 * 256);
        assert_eq!(tile_for(64, 4096, 4096).1, 64);
    }
}
