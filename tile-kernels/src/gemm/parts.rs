//! K in parts over blocks, of operands that TMA does not fetch: [`gemm_parts`] in f32, as tf32, and of 16 bits at any address and pitch,
//! in every layout. Every thread copies, as in [`kernel::gemm`](struct@super::kernel::gemm) in its lesser alignment classes; small tiles,
//! of which each has a part of K, are for products that have too few tiles for a device, or few rows.
//!
//! Every launch gives the same bits: the sums of the parts are added in the order of the parts.

use super::Gemm;
use super::copied::{Added, Copied, Operands, Speed};
use super::epilogue::finish;
use super::model::{MULTIPROCESSORS, up};
use super::operands::{add_copied_steps, extents_agree};
use super::partial::{self, First, GemmPartialCopiedParams, gemm_partial_copied, width};
use super::split::{ASIDE, Adds};
use tile_runtime::kernel::{Definition, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Element, LaunchError};

/// `c = f(alpha a b + beta c + bias)`, [`kernel::gemm`](fn@super::kernel::gemm) with K cut into `slots` parts: a block puts its sum aside,
/// and the last one to arrive at a tile adds those of all, part after part. With `TF32` the leading 10 bits of the fraction of f32
/// operands are multiplied, on tensor cores.
///
/// A launch has at most 1,056 blocks, 8 for each multiprocessor of an H200: as many sums can be put aside.
#[tile_kernel(
    instances(
        (BM, BN, BK, STAGES, THREADS, TF32) in [
            (64, 64, 16, 4, 128, false), (32, 64, 16, 4, 64, false), (16, 64, 16, 4, 64, false),
            (128, 64, 8, 4, 128, false), (64, 128, 8, 4, 128, false), (32, 128, 16, 4, 128, false), (16, 128, 8, 4, 64, false),
            (64, 64, 16, 4, 128, true), (16, 64, 32, 4, 128, true),
            (64, 64, 32, 4, 128, false), (16, 64, 32, 4, 128, false),
        ],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        where (T::BITS == 16) == (BK == 32 && !TF32) && (T::BITS == 16 || U::BITS == 32)
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(finish, add_copied_steps, extents_agree),
    require(0 < slots),
    require(ceil_div(N, BN) * ceil_div(M, BM) * slots <= 1056),
    require(extents_agree::<A_T, B_T>(A0, A1, B0, B1, M, N))
)]
pub fn gemm_parts<
    T,
    U,
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
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
    slots: usize,
    partial: &mut Workspace<f32, (Fixed<1056>, BM, BN)>,
    arrived: &mut Workspace<u32, (Fixed<1056>,)>,
) {
    let depth = if A_T { A0 } else { A1 };
    let [bx, by, part] = blocks([ceil_div(N, BN), ceil_div(M, BM), slots]);
    threads([THREADS]);
    let row = by * BM;
    let col = bx * BN;
    let tile = min(by * ceil_div(N, BN) + bx, 1055);
    let share = ceil_div(ceil_div(depth, BK), max(1, slots));
    let mut a_s = alloc_shared::<T>([if A_T { BK } else { BM }, if A_T { BM } else { BK }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { BK }, if B_T { BK } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    add_copied_steps::<T, TF32, BK, STAGES, A_T, B_T>(a, b, &mut a_s, &mut b_s, &mut acc, row, col, part, share);
    // A thread multiplies four neighbouring columns by multiply-adds. Those of all threads are put aside together.
    let quads = BK <= 16 && !TF32;
    if slots > 1 {
        let place = min(tile * slots + part, 1055);
        for [i, j] in parallel([BM, BN]) {
            partial[[place, i, if quads { j % 4 * (BN / 4) + j / 4 } else { j }]] = acc[[i, j]];
        }
    }
    if last_arriver(&mut arrived[[tile]], slots) {
        if slots > 1 {
            clear(&mut acc);
            // Of some parts at once, so that as many reads are under way as there are registers for. Where there is no such part the last one
            // is read again, for nothing: of reads under a condition NVRTC made a branch each, and waited for every one (7.5 us a part instead of 1).
            let together = if BM * BN >= 64 * THREADS {
                1
            } else if BM * BN >= 32 * THREADS || BM >= 32 || quads && B_T {
                2
            } else {
                4
            };
            for some in serial(0..ceil_div(slots, together)) {
                for [i, j] in parallel([BM, BN]) {
                    for s in unroll(0..together) {
                        let s = some * together + s;
                        let at = if quads { j % 4 * (BN / 4) + j / 4 } else { j };
                        if together == 1 {
                            acc[[i, j]] += partial.masked([tile * slots + s, i, at]);
                        } else {
                            let sum = partial[[min(tile * slots + min(s, slots - 1), 1055), i, at]];
                            acc[[i, j]] += if s < slots { sum } else { 0.0 };
                        }
                    }
                }
            }
        }
        finish::<T, U, false>(&mut acc, c, bias, row, col, alpha, beta, activation);
        copy(&acc, c.at_mut([row, col]));
    }
}

/// Most blocks of a launch: sums that there is room for.
const PLACES: i64 = 1056;

/// A launch of [`gemm_parts`](struct@gemm_parts), or of [`gemm_partial_copied`](struct@gemm_partial_copied) and what adds its sums, but for layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Rows and columns of a tile, a step along K, slots of shared memory, threads.
    pub tile: Tile,
    /// Whether f32 is multiplied as tf32.
    pub tf32: bool,
    /// Parts of K, each a block's.
    pub slots: usize,
    /// Who adds their sums: the last block to arrive at a tile, or a second launch ([`partial`]).
    pub adds: Adds,
}

/// Rounds of the multiprocessors up to which more parts of K are thought of.
const MANY: i64 = 16;

/// Most parts of K whose sums a second launch adds.
const MOST: i64 = 128;

/// Rows, columns, elements of a step along K, slots of shared memory, threads.
pub type Tile = (i64, i64, usize, usize, usize);

/// The tile of f32 that is a second launch's alone: the last block to arrive has no registers for the sums of others.
const LARGEST: Tile = (128, 128, 8, 4, 128);

/// The tiles of operands of 16 bits.
const HALVES: [Tile; 2] = [(64, 64, 32, 4, 128), (16, 64, 32, 4, 128)];

/// The tiles of f32 by multiply-adds.
const FULL: [Tile; 7] = [
    (128, 64, 8, 4, 128),
    (64, 128, 8, 4, 128),
    (64, 64, 16, 4, 128),
    (32, 128, 16, 4, 128),
    (32, 64, 16, 4, 64),
    (16, 128, 8, 4, 64),
    (16, 64, 16, 4, 64),
];

/// The tiles of f32 as tf32.
const TF32: [Tile; 2] = [(64, 64, 16, 4, 128), (16, 64, 32, 4, 128)];

impl Parts {
    /// The tiles for operands of a kind.
    fn tiles(operands: Operands) -> &'static [Tile] {
        match operands {
            Operands::Fetched | Operands::Copied { .. } => &HALVES,
            Operands::Full => &FULL,
            Operands::Tf32 { .. } => &TF32,
        }
    }

    /// Every launch that could serve a shape: blocks for as many as run at once, and fewer, whose sums are added sooner.
    pub fn candidates(operands: Operands, [m, n, k]: [i64; 3], stored: [bool; 2]) -> impl Iterator<Item = Parts> {
        let tf32 = matches!(operands, Operands::Tf32 { .. });
        let all = Parts::tiles(operands).iter().flat_map(move |&tile| {
            let (rows, cols, step, ..) = tile;
            let tiles = up(m, rows).saturating_mul(up(n, cols)).max(1);
            let room = (Speed::of(operands, tile, stored).blocks * MULTIPROCESSORS).min(PLACES);
            let most = (room / tiles).min(up(k, step as i64));
            let mut counts: Vec<i64> = (0..6).map(|halved| most >> halved).collect();
            // Some tiles are this kernel's alone.
            let is_own = rows == 16 || [rows, cols] == [32, 128];
            counts.extend(is_own.then_some(1));
            counts.retain(|count| (*count > 1 || is_own && *count == 1) && tiles <= PLACES);
            counts.sort_unstable();
            counts.dedup();
            counts.into_iter().map(move |slots| Parts { tile, tf32, slots: slots as usize, adds: Adds::LastArriver })
        });
        all.chain(Parts::of_two_launches(operands, [m, n, k], stored)).filter(move |_| m > 0 && n > 0 && k > 0)
    }

    /// Those whose sums a second launch adds: as many blocks as have one, two, .. rounds of the multiprocessors, and fewer.
    fn of_two_launches(operands: Operands, [m, n, k]: [i64; 3], stored: [bool; 2]) -> impl Iterator<Item = Parts> {
        let tf32 = matches!(operands, Operands::Tf32 { .. });
        let elements = m.saturating_mul(width(n));
        let legal = k <= 1 << 22 && elements <= 1 << 28 && operands != Operands::Fetched;
        let large = (operands == Operands::Full).then_some(LARGEST);
        let tiles = large.into_iter().chain(Parts::tiles(operands).iter().copied()).filter(move |_| legal);
        tiles.flat_map(move |tile| {
            let (rows, cols, step, ..) = tile;
            let tiles = up(m, rows).saturating_mul(up(n, cols)).max(1);
            let most = up(k, step as i64).min(ASIDE / (4 * elements).max(1)).min(MOST);
            let rounds = |rounds: i64| (rounds * MULTIPROCESSORS / tiles).min(most);
            let mut counts: Vec<i64> = (1..=2 * Speed::of(operands, tile, stored).blocks).map(rounds).collect();
            counts.extend([2, 3, 4, 6].map(|fewer| rounds(1) / fewer));
            // Of many tiles, whose last round leaves multiprocessors idle.
            counts.extend((2..=5).filter(|count| *count <= most && tiles * count <= MANY * MULTIPROCESSORS));
            counts.retain(|count| *count > 1);
            counts.sort_unstable();
            counts.dedup();
            counts.into_iter().map(move |slots| Parts { tile, tf32, slots: slots as usize, adds: Adds::SecondLaunch })
        })
    }

    /// What a launch by it does.
    pub fn work(self, operands: Operands, shape: [i64; 3], stored: [bool; 2]) -> Copied {
        let speed = Speed::of(operands, self.tile, stored);
        let (rows, cols, step, stages, _) = self.tile;
        let [step, stages, slots] = [step, stages, self.slots].map(|size| size as i64);
        let added = match self.adds {
            Adds::SecondLaunch => Added::SecondLaunch,
            Adds::LastArriver | Adds::Cluster | Adds::Exchange => Added::LastArriver,
        };
        Copied { shape, stored, tile: [rows, cols], step, stages, slots, bytes: operands.bytes(), added, speed }
    }

    /// One of every tile of elements of so many bytes, with some counts of parts, for tests.
    pub fn samples(bytes: u32) -> impl Iterator<Item = Parts> {
        let kinds = match bytes {
            2 => vec![Operands::Copied { width: 2 }],
            _ => vec![Operands::Full, Operands::Tf32 { fetched: false }],
        };
        let tiles = kinds.into_iter().flat_map(move |kind| {
            let tf32 = kind != Operands::Full && bytes == 4;
            Parts::tiles(kind).iter().map(move |tile| Parts { tile: *tile, tf32, slots: 1, adds: Adds::LastArriver })
        });
        let largest = (bytes == 4).then_some(Parts { tile: LARGEST, tf32: false, slots: 3, adds: Adds::SecondLaunch });
        tiles
            .flat_map(|parts| {
                let by_second = [2, 7].map(|slots| Parts { slots, adds: Adds::SecondLaunch, ..parts });
                [1, 2, 7].map(|slots| Parts { slots, ..parts }).into_iter().chain(by_second)
            })
            .chain(largest)
    }

    /// The instance of the kernel.
    pub(super) fn params<T: Element>(self, options: &Gemm<'_, T>) -> GemmPartsParams {
        let (rows, cols, step, stages, threads) = self.tile;
        GemmPartsParams {
            BM: rows as usize,
            BN: cols as usize,
            BK: step,
            STAGES: stages,
            THREADS: threads,
            TF32: self.tf32,
            A_T: options.a_transposed,
            B_T: options.b_transposed,
        }
    }

    /// The instance of [`partial::gemm_partial_copied`](struct@super::partial::gemm_partial_copied).
    pub(super) fn partial_params<T: Element>(self, options: &Gemm<'_, T>) -> GemmPartialCopiedParams {
        let GemmPartsParams { BM, BN, BK, STAGES, THREADS, TF32: tf32, A_T, B_T } = self.params(options);
        GemmPartialCopiedParams { BM, BN, BK, STAGES, THREADS, TF32: tf32, A_T, B_T }
    }

    /// The launch of [`gemm_parts`](struct@gemm_parts) that reads operands as this one does.
    pub(super) fn of_one_launch(self) -> Parts {
        let tile = if self.tile == LARGEST { FULL[0] } else { self.tile };
        Parts { tile, adds: Adds::LastArriver, ..self }
    }

    /// The kernel whose instance it is.
    pub fn definition(self) -> &'static Definition {
        match self.adds {
            Adds::SecondLaunch => gemm_partial_copied::<f16>::definition(),
            Adds::LastArriver | Adds::Cluster | Adds::Exchange => gemm_parts::<f16, f16>::definition(),
        }
    }

    /// The constants of the kernel's instance, in order of declaration.
    pub fn consts(self, stored: [bool; 2]) -> Vec<i64> {
        let (rows, cols, step, stages, threads) = self.tile;
        let sizes = [step, stages, threads].map(|size| size as i64);
        let flags = [self.tf32, stored[0], stored[1]].map(i64::from);
        [rows, cols].into_iter().chain(sizes).chain(flags).collect()
    }
}

/// Launches `parts`.
///
/// # Errors
/// As [`gemm`](super::gemm); there is no instance of the tile for these operands; more than 1,056 blocks.
#[doc(hidden)]
#[track_caller]
pub fn launch<T: Element, C: Element>(
    on: &impl LaunchOn,
    parts: Parts,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    if parts.adds == Adds::SecondLaunch {
        return partial::launch(on, on, First::Copied(parts), a, b, c, options);
    }
    let kernel = gemm_parts::<T, C>::instance(on.device(), parts.params(options))?;
    let Gemm { bias, alpha, beta, activation, .. } = *options;
    kernel.launch_on(on, a, b, c, bias, alpha, beta, activation.number(), parts.slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_runtime::kernel::Dtype;

    /// Every tile is an instance of the kernel, in every layout.
    #[test]
    fn samples_are_instances() {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            for parts in Parts::samples(dtype.bytes()) {
                let kernel = parts.definition().kernel().unwrap();
                for stored in [[false, true], [false, false], [true, true], [true, false]] {
                    let consts = parts.consts(stored);
                    // The kernel whose sums a second launch adds is of the operands' type alone.
                    let is = |dtypes: &[Dtype]| [dtype, Dtype::F32].starts_with(dtypes);
                    let found = kernel.instances.iter().any(|i| i.consts == consts && is(&i.dtypes));
                    assert!(found, "{dtype} {consts:?}");
                }
            }
        }
    }

    /// Every launch has a block at least for each part, and no more blocks than there is room for.
    #[test]
    fn candidates_have_room() {
        for operands in [Operands::Full, Operands::Tf32 { fetched: false }, Operands::Copied { width: 2 }] {
            for [m, n, k] in [[1, 1, 1], [8, 136, 23_592], [16_000, 16_000, 64], [1, 60_000, 320], [0, 8, 8]] {
                for parts in Parts::candidates(operands, [m, n, k], [false, true]) {
                    let (rows, cols, step, ..) = parts.tile;
                    let aside = match parts.adds {
                        Adds::SecondLaunch => 4 * m * width(n) * parts.slots as i64 <= ASIDE,
                        _ => up(m, rows) * up(n, cols) * parts.slots as i64 <= PLACES,
                    };
                    assert!(aside, "{parts:?} {m} {n} {k}");
                    assert!(parts.slots as i64 <= up(k, step as i64), "{parts:?} {m} {n} {k}");
                }
            }
        }
    }
}
