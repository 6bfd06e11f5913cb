//! Which instance of the kernel serves a shape.

use super::batched;
use super::copied::{Added, Copied, Operands, Speed};
use super::kernel::{self, GemmParams};
use super::model::{ALONE, Call, Parameters, Work};
use super::pack::Packs;
use super::parts::{self, Parts};
use super::policy::Policy;
use super::split::{self, Adds, Split};
use super::vector::Vector;
use super::{Gemm, Precision};
use crate::gemv::columns::gemv_columns;
use crate::gemv::{Gemv, GemvElement};
use std::fmt;
use tile_runtime::kernel::{LaunchOn, Place, TensorInput, TensorOutput};
use tile_runtime::{Element, LaunchError, TensorView, TensorViewMut, bf16, f16};

/// An instance, but for layouts and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Rows and columns of a tile, a step along K, slots of shared memory, threads a tile, blocks of a cluster beside one another and below
    /// one another.
    pub tile: Tile,
    /// Whether the shape has enough tiles of 128 x 128 for a device.
    pub many_tiles: bool,
    /// How K is split over blocks instead, where the tile above leaves too many multiprocessors idle.
    pub split: Option<Split>,
    /// How K is split over blocks whose threads copy, instead of the tile above.
    pub parts: Option<Parts>,
    /// How `a` and `b` are copied first, to where TMA fetches them.
    pub packs: Packs,
    /// The kernel for a matrix and a vector that is launched instead.
    pub vector: Option<Vector>,
}

/// Rows, columns, elements of a step along K, slots, threads, blocks of a cluster beside one another and below one another.
pub type Tile = (i64, i64, usize, usize, usize, usize, usize);

/// The tiles that there are instances of, for operands that TMA fetches.
pub(super) const TILES: [Tile; 79] = [
    (128, 256, 64, 4, 256, 1, 1),
    (128, 192, 64, 4, 128, 1, 1),
    (128, 224, 64, 4, 256, 1, 1),
    (128, 128, 64, 6, 128, 1, 1),
    (64, 256, 64, 4, 128, 1, 1),
    (128, 64, 64, 8, 128, 1, 1),
    (64, 128, 64, 8, 128, 1, 1),
    (64, 64, 64, 12, 128, 1, 1),
    (64, 64, 64, 12, 128, 1, 2),
    (16, 56, 128, 12, 128, 1, 1),
    (16, 96, 128, 7, 128, 1, 1),
    (32, 32, 128, 14, 128, 1, 1),
    (32, 48, 128, 10, 128, 1, 1),
    (32, 96, 128, 6, 128, 1, 1),
    (64, 32, 128, 8, 128, 1, 1),
    (64, 48, 128, 7, 128, 1, 1),
    (64, 192, 64, 6, 128, 1, 1),
    (64, 96, 64, 10, 128, 1, 1),
    (16, 64, 128, 10, 128, 1, 1),
    (32, 64, 128, 8, 128, 1, 1),
    (128, 256, 64, 4, 256, 1, 2),
    (256, 128, 64, 4, 256, 1, 2),
    (192, 128, 64, 4, 384, 1, 1),
    (128, 128, 64, 6, 128, 1, 4),
    (128, 128, 64, 6, 128, 4, 2),
    (64, 64, 64, 12, 128, 4, 1),
    (64, 64, 64, 12, 128, 1, 4),
    (64, 64, 64, 12, 128, 2, 4),
    (64, 128, 64, 8, 128, 1, 4),
    (64, 128, 64, 8, 128, 4, 2),
    (128, 64, 64, 8, 128, 1, 2),
    (64, 80, 64, 10, 128, 4, 2),
    (64, 96, 64, 10, 128, 2, 4),
    (128, 96, 64, 7, 128, 4, 2),
    (128, 160, 64, 5, 256, 1, 2),
    (192, 160, 64, 4, 384, 2, 1),
    (144, 128, 64, 5, 256, 2, 2),
    (160, 128, 64, 5, 256, 2, 2),
    (208, 128, 64, 4, 256, 2, 1),
    (96, 64, 64, 9, 128, 2, 2),
    (128, 192, 64, 4, 128, 1, 2),
    (160, 64, 64, 7, 128, 4, 1),
    (160, 128, 64, 5, 256, 2, 1),
    (192, 128, 64, 4, 384, 1, 2),
    (96, 128, 64, 7, 256, 1, 1),
    (192, 128, 64, 4, 384, 2, 1),
    (96, 64, 64, 9, 128, 4, 1),
    (64, 192, 64, 6, 128, 1, 4),
    (192, 192, 64, 3, 384, 1, 2),
    (128, 128, 64, 6, 128, 2, 1),
    (176, 128, 64, 4, 256, 2, 1),
    (112, 192, 64, 5, 128, 1, 2),
    (128, 160, 64, 5, 128, 2, 1),
    (176, 128, 64, 5, 128, 2, 1),
    (192, 96, 64, 5, 128, 2, 1),
    (64, 32, 64, 16, 128, 4, 2),
    (160, 128, 64, 5, 128, 2, 1),
    (112, 128, 64, 6, 128, 4, 1),
    (128, 176, 64, 5, 128, 1, 2),
    (144, 128, 64, 5, 128, 2, 1),
    (128, 112, 64, 6, 128, 1, 4),
    (256, 136, 64, 4, 256, 2, 1),
    (192, 144, 64, 4, 384, 2, 1),
    (240, 128, 64, 4, 256, 2, 1),
    (8, 192, 64, 8, 128, 1, 1),
    (16, 128, 64, 11, 128, 1, 1),
    (32, 128, 64, 10, 128, 4, 1),
    (40, 64, 64, 16, 128, 1, 1),
    (64, 24, 64, 16, 128, 4, 1),
    (64, 128, 64, 8, 128, 4, 1),
    (64, 208, 64, 6, 128, 1, 2),
    (64, 160, 64, 7, 128, 1, 4),
    (128, 112, 64, 6, 128, 2, 2),
    (80, 64, 64, 11, 128, 2, 2),
    (72, 128, 64, 8, 128, 1, 4),
    (104, 128, 64, 7, 128, 1, 2),
    (112, 128, 64, 6, 128, 2, 2),
    (192, 176, 64, 4, 384, 2, 1),
    (256, 144, 64, 4, 256, 2, 1),
];

/// The tiles where every thread copies operands of 16 bits.
const COPIED: [Tile; 3] = [(128, 128, 32, 4, 256, 1, 1), (64, 64, 32, 4, 128, 1, 1), (64, 64, 64, 4, 256, 1, 1)];

impl Default for Choice {
    fn default() -> Self {
        Choice { tile: TILES[0], many_tiles: true, split: None, parts: None, packs: [None; 2], vector: None }
    }
}

impl Choice {
    /// [`Choice::on`] a device that says nothing of itself.
    pub fn for_shape(m: i64, n: i64, k: i64, stored: [bool; 2]) -> Choice {
        Choice::on(Policy::default(), [m, n, k], stored)
    }

    /// The choice for aligned operands of this shape (rows, columns and depth) on a device: the one that [`Work`] expects to be the fastest.
    /// `[a_transposed, b_transposed]`: how they are stored.
    pub fn on(policy: Policy, [m, n, k]: [i64; 3], stored: [bool; 2]) -> Choice {
        let mut fastest = (Choice::default(), f64::INFINITY);
        for choice in Choice::candidates(m, n, k, stored) {
            let work = choice.work([m, n, k], stored);
            let us = work.compared(policy.us(&work));
            if us < fastest.1 {
                fastest = (choice, us);
            }
        }
        fastest.0
    }

    /// Every choice that aligned operands of this shape could be given.
    pub fn candidates(m: i64, n: i64, k: i64, stored: [bool; 2]) -> impl Iterator<Item = Choice> {
        let many_tiles = is_large(m, n);
        let tiles = TILES.into_iter().filter(move |tile| has(*tile, stored));
        let tiles = tiles.map(move |tile| Choice { tile, many_tiles, ..Choice::default() });
        let splits = Split::candidates(m, n, k, stored, false);
        tiles.chain(splits.map(move |split| Choice { split: Some(split), many_tiles, ..Choice::default() }))
    }

    /// Every choice that there is for operands of a kind; `splits`: rows of the result begin at multiples of 16 bytes.
    pub(super) fn of_operands(
        operands: Operands,
        [m, n, k]: [i64; 3],
        stored: [bool; 2],
        splits: bool,
    ) -> impl Iterator<Item = Choice> {
        let many_tiles = is_large(m, n);
        let of_tile = move |tile| Choice { tile, many_tiles, ..Choice::default() };
        let all: Vec<Choice> = match operands {
            Operands::Fetched => {
                Choice::candidates(m, n, k, stored).filter(|c| splits || c.stores_any_rows()).collect()
            }
            Operands::Copied { .. } => COPIED.map(of_tile).to_vec(),
            Operands::Full => super::full::tiles().map(of_tile).collect(),
            Operands::Tf32 { fetched } => {
                let any = super::tf32::ANY.map(of_tile).into_iter();
                let by_wgmma =
                    super::tf32::TILES.into_iter().filter(|tile| super::tf32::has(*tile, stored)).map(of_tile);
                let parted = Split::candidates(m, n, k, stored, true);
                let parted = parted.map(|split| Choice { split: Some(split), many_tiles, ..Choice::default() });
                let by_wgmma = by_wgmma.chain(parted.filter(|_| splits));
                by_wgmma.filter(|_| fetched).chain(any.filter(|_| !fetched)).collect()
            }
        };
        // What TMA fetches is split by others, which store 16 bytes at once.
        let parts =
            Parts::candidates(operands, [m, n, k], stored).filter(move |_| operands != Operands::Fetched || !splits);
        all.into_iter().chain(parts.map(move |parts| Choice { parts: Some(parts), many_tiles, ..Choice::default() }))
    }

    /// Whether rows of the result may begin anywhere: other splits add and store 16 bytes at once.
    fn stores_any_rows(&self) -> bool {
        self.split.is_none_or(|split| split.adds == Adds::SecondLaunch)
    }

    /// Whether it takes a second launch to add sums.
    pub(super) fn has_second_launch(&self) -> bool {
        let by_split = self.split.is_some_and(|split| split.adds == Adds::SecondLaunch);
        by_split || self.parts.is_some_and(|parts| parts.adds == Adds::SecondLaunch)
    }

    /// What has a pace in [`Parameters`], in order: every tile, then every split, some slots standing for any number of them.
    pub fn instances() -> impl Iterator<Item = Choice> {
        let tiles = TILES.into_iter().map(|tile| Choice { tile, ..Choice::default() });
        tiles.chain(Split::instances().map(|split| Choice { split: Some(split), ..Choice::default() }))
    }

    /// The choices that there are for dense operands of a kind, with the us expected of each: the one that a call takes, and then the others,
    /// the fastest first. `shape`: rows, columns and depth; `stored`: `[a_transposed, b_transposed]`.
    pub fn ranked(policy: Policy, operands: Operands, shape: [i64; 3], stored: [bool; 2]) -> Vec<(Choice, f64)> {
        let begin_at = |width: i64| [16, 8, 4].into_iter().find(|at| width * operands.bytes() % at == 0).unwrap_or(2);
        let splits = begin_at(shape[1]) == 16;
        let widths = super::stored_extents(shape, stored).map(|[_, width]| begin_at(width));
        let packs = super::pack::packs(operands, shape, stored, widths);
        let call = Call::dense(shape, stored);
        super::Problem { policy, shape, stored, splits, operands, call, accepted: true, packs, vector: None }.ranked()
    }

    /// us that a launch of this choice for operands of a kind is expected to take on a device, by its parameters or some near them.
    pub(super) fn us(
        &self,
        operands: Operands,
        shape: [i64; 3],
        stored: [bool; 2],
        call: Call,
        policy: Policy,
        parameters: &Parameters,
    ) -> f64 {
        let copied = |work: Copied| match operands {
            Operands::Full => policy.full(&work),
            Operands::Fetched | Operands::Copied { .. } | Operands::Tf32 { .. } => work.us(),
        };
        if let Some(parts) = self.parts {
            return copied(parts.work(operands, shape, stored));
        }
        match operands {
            Operands::Fetched => {
                let work = Work { call, ..self.work(shape, stored) };
                policy.corrected(&work, work.us(parameters))
            }
            Operands::Tf32 { fetched: true } => super::tf32::us(self, shape, stored, parameters),
            Operands::Copied { .. } | Operands::Full | Operands::Tf32 { fetched: false } => {
                let (rows, cols, step, stages, threads, ..) = self.tile;
                let speed = Speed::of(operands, (rows, cols, step, stages, threads), stored);
                let [step, stages] = [step, stages].map(|size| size as i64);
                let (tile, bytes) = ([rows, cols], operands.bytes());
                copied(Copied { shape, stored, tile, step, stages, slots: 1, bytes, added: Added::Nobody, speed })
            }
        }
    }

    /// What a launch by this choice for operands of a kind does; none where it is not modelled by [`Work`].
    fn modelled(&self, operands: Operands, shape: [i64; 3], stored: [bool; 2]) -> Option<Work> {
        let is_fetched = matches!(operands, Operands::Fetched | Operands::Tf32 { fetched: true });
        let is_one = self.parts.is_none() && self.packs == [None; 2] && self.vector.is_none();
        (is_fetched && is_one).then(|| self.work(shape, stored))
    }

    /// Whether a launch by this choice that takes so many us gains by starting before the previous one is done.
    pub(super) fn starts_early(&self, operands: Operands, shape: [i64; 3], stored: [bool; 2], us: f64) -> bool {
        self.modelled(operands, shape, stored).map_or(us < ALONE, |work| work.starts_early(us))
    }

    /// What choices are compared by: see [`Work::compared`].
    pub(super) fn compared(&self, operands: Operands, shape: [i64; 3], stored: [bool; 2], us: f64) -> f64 {
        self.modelled(operands, shape, stored).map_or(us, |work| work.compared(us))
    }

    /// What a launch by this choice does, of operands that TMA fetches.
    pub fn work(&self, shape: [i64; 3], stored: [bool; 2]) -> Work {
        match self.split {
            Some(split) => split.work(shape, stored),
            None => {
                let (rows, cols, step, stages, threads, cx, cy) = self.tile;
                let [depth, threads, cx, cy] = [step * stages, threads, cx, cy].map(|size| size as i64);
                let (tile, cluster) = ([rows, cols], [cx, cy]);
                let instance = TILES.iter().position(|one| *one == self.tile);
                Work { instance, ..Work::unsplit(shape, stored, tile, depth, threads, cluster) }
            }
        }
    }

    /// The instance of [`kernel::gemm`](struct@super::kernel::gemm).
    pub(super) fn params<T: Element>(&self, options: &Gemm<'_, T>) -> GemmParams {
        let (bm, bn, bk, stages, threads, cx, cy) = self.tile;
        GemmParams {
            BM: bm as usize,
            BN: bn as usize,
            BK: bk,
            STAGES: stages,
            THREADS: threads,
            CX: cx,
            CY: cy,
            A_T: options.a_transposed,
            B_T: options.b_transposed,
            EPILOGUE: !options.is_plain(),
        }
    }

    /// The constants of the instance of [`kernel::gemm`](struct@super::kernel::gemm), in order of declaration.
    pub fn consts(&self, [a_transposed, b_transposed]: [bool; 2], epilogue: bool) -> Vec<i64> {
        let (bm, bn, bk, stages, threads, cx, cy) = self.tile;
        let sizes = [bk, stages, threads, cx, cy].map(|size| size as i64);
        let flags = [a_transposed, b_transposed, epilogue].map(i64::from);
        [bm, bn].into_iter().chain(sizes).chain(flags).collect()
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vector) = self.vector {
            return vector.fmt(f);
        }
        for (operand, pack) in ["a", "b"].into_iter().zip(self.packs) {
            if let Some(pack) = pack {
                write!(f, "{operand} {pack}, ")?;
            }
        }
        if let Some(Parts { tile: (bm, bn, bk, stages, threads), slots, adds, .. }) = self.parts {
            let by = if adds == Adds::SecondLaunch { "sums of a second launch" } else { "slots" };
            return write!(f, "{bm}x{bn}x{bk}, {stages} stages, {threads} threads, copied, {slots} {by}");
        }
        if let Some(Split { tile: (bm, bn, bk, stages), shares: [cx, cy], parts, slots, adds }) = self.split {
            return match adds {
                Adds::Cluster | Adds::LastArriver => {
                    write!(f, "{bm}x{bn}x{bk}, {stages} stages, {parts} parts, {slots} slots")
                }
                Adds::Exchange => write!(f, "{bm}x{bn}x{bk}, {stages} stages, {parts} parts exchanged"),
                Adds::SecondLaunch => {
                    write!(f, "{bm}x{bn}x{bk}, {stages} stages, cluster {cx}x{cy}, {slots} sums of a second launch")
                }
            };
        }
        let (bm, bn, bk, stages, threads, cx, cy) = self.tile;
        write!(f, "{bm}x{bn}x{bk}, {stages} stages, {threads} threads, cluster {cx}x{cy}")
    }
}

/// From this many tiles of 128 x 128 on they are preferred to tiles of 64 x 64, of which more fit on a device.
const ENOUGH_TILES: i64 = 100;

/// Whether a product of this shape fills a device with tiles of 128 x 128.
fn is_large(m: i64, n: i64) -> bool {
    let up = |x: i64| (x.max(0) + 127) / 128;
    up(m).saturating_mul(up(n)) >= ENOUGH_TILES
}

/// Whether there is an instance of a tile for operands that are stored so: as the kernel's `where` says.
fn has((bm, bn, bk, _, _, cx, cy): Tile, [a_transposed, b_transposed]: [bool; 2]) -> bool {
    // Few rows: of weights along K, but for the tiles that are made for the others.
    let few = bm >= 64 || bk == 64 || b_transposed != (bn == 64);
    let atoms = |rows: i64, blocks: usize| (rows as usize).is_multiple_of(8 * blocks);
    few && (b_transposed || bn % 64 == 0 || bn > 64 && bk == 64)
        && (!a_transposed || bm >= 64 && bk == 64)
        && (a_transposed || atoms(bm, cx))
        && (!b_transposed || atoms(bn, cy))
}

/// Launches the instance of [`kernel::gemm`](struct@super::kernel::gemm) with this tile.
#[track_caller]
fn launch_tile<T: Element, C: Element>(
    on: &impl LaunchOn,
    choice: Choice,
    a: impl TensorInput<T, 2>,
    b: impl TensorInput<T, 2>,
    c: impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Result<(), LaunchError> {
    let kernel = kernel::gemm::<T, C>::instance(on.device(), choice.params(options))?;
    let Gemm { bias, alpha, beta, activation, .. } = *options;
    kernel.launch_on(on, a, b, c, bias, alpha, beta, activation.number())
}

/// The launch of a product of one row or column, for elements that the kernels of vectors take.
macro_rules! vectors {
    ($ty:ty) => {
        #[track_caller]
        fn launch_vector(
            on: &Place<'_>,
            vector: Vector,
            w: TensorView<'_, $ty, 2>,
            x: TensorView<'_, $ty, 1>,
            y: TensorViewMut<'_, $ty, 1>,
            scalars: Gemv,
        ) -> Option<Result<(), LaunchError>> {
            let Gemv { alpha, beta } = scalars;
            Some(match vector {
                Vector::Along(choice) => <$ty as GemvElement>::launch(on, choice, w, x, y, scalars),
                Vector::Across(params) => gemv_columns::<$ty>::instance(on.device(), params)
                    .map_err(LaunchError::from)
                    .and_then(|kernel| kernel.launch_on(on, w, x, y, alpha, beta)),
            })
        }
    };
}

macro_rules! halves {
    ($($ty:ty => $out:ty $(, also $own:ty)?);*) => { $(
        impl super::GemmElement<$out> for $ty {
            $( vectors!($own); )?

            #[track_caller]
            fn launch(
                on: &impl LaunchOn,
                choice: Choice,
                a: impl TensorInput<Self, 2>,
                b: impl TensorInput<Self, 2>,
                c: impl TensorOutput<$out, 2>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                match (choice.parts, choice.split) {
                    (Some(parts), _) => parts::launch(on, parts, a, b, c, options),
                    (None, Some(split)) => split::launch(on, split, a, b, c, options),
                    (None, None) => launch_tile(on, choice, a, b, c, options),
                }
            }

            #[track_caller]
            fn launch_batch(
                on: &impl LaunchOn,
                choice: batched::Choice,
                a: impl TensorInput<Self, 3>,
                b: impl TensorInput<Self, 3>,
                c: impl TensorOutput<$out, 3>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                batched::launch(on, choice, a, b, c, options)
            }
        }
    )* };
}

halves!(f16 => f16, also f16; f16 => f32; bf16 => bf16, also bf16; bf16 => f32);

impl super::GemmElement<f32> for f32 {
    vectors!(f32);

    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        choice: Choice,
        a: impl TensorInput<f32, 2>,
        b: impl TensorInput<f32, 2>,
        c: impl TensorOutput<f32, 2>,
        options: &Gemm<'_, f32>,
    ) -> Result<(), LaunchError> {
        match (choice.parts, choice.split, options.precision) {
            (Some(parts), ..) => {
                let tf32 = options.precision == Precision::Tf32;
                parts::launch(on, Parts { tf32, ..parts }, a, b, c, options)
            }
            (None, Some(split), _) => split::launch(on, split, a, b, c, options),
            (None, None, Precision::Tf32) => super::tf32::launch(on, choice, a, b, c, options),
            (None, None, Precision::Full) => launch_tile(on, choice, a, b, c, options),
        }
    }

    #[track_caller]
    fn launch_batch(
        on: &impl LaunchOn,
        choice: batched::Choice,
        a: impl TensorInput<f32, 3>,
        b: impl TensorInput<f32, 3>,
        c: impl TensorOutput<f32, 3>,
        options: &Gemm<'_, f32>,
    ) -> Result<(), LaunchError> {
        match options.precision {
            Precision::Full => batched::launch(on, choice, a, b, c, options),
            Precision::Tf32 => batched::launch_tf32(on, choice, a, b, c, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_runtime::kernel::Dtype;

    /// Large products take large tiles, few rows tiles of few rows, and what reads all of the weights once a tile for every
    /// multiprocessor. `src/suites/gemm_measured.rs` holds the choice against measured times.
    #[test]
    fn choices_of_each_kind() {
        let choice = |m, n, k| Choice::for_shape(m, n, k, [false, true]);
        let (bm, bn, ..) = choice(8192, 8192, 8192).tile;
        assert!(bm * bn > 128 * 128, "{bm} x {bn}");
        let few = choice(16, 7168, 16_384);
        assert!(few.split.is_none() && few.tile.0 == 16, "{few}");
        assert!(choice(64, 18_432, 7168).tile.0 <= 64, "{}", choice(64, 18_432, 7168));
    }

    /// What every thread copies has instances for all elements and layouts.
    #[test]
    fn choices_of_every_thread_are_instances() {
        let kernel = kernel::gemm::<f16, f16>::definition().kernel().unwrap();
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            for stored in [[false, true], [false, false], [true, true], [true, false]] {
                let tiles = if dtype == Dtype::F32 { crate::gemm::full::tiles().collect() } else { COPIED.to_vec() };
                for (tile, epilogue) in tiles.into_iter().flat_map(|tile| [(tile, false), (tile, true)]) {
                    let consts = Choice { tile, ..Choice::default() }.consts(stored, epilogue);
                    let found = kernel.instances.iter().any(|i| i.consts == consts && i.dtypes == [dtype, Dtype::F32]);
                    assert!(found, "{dtype} {consts:?}");
                }
            }
        }
    }

    /// Every choice is an instance of the kernel.
    #[test]
    fn choices_are_instances() {
        let kernel = kernel::gemm::<f16, f16>::definition().kernel().unwrap();
        let declared: Vec<&[i64]> = kernel.instances.iter().map(|i| &i.consts[..]).collect();
        for (bm, bn, bk, stages, threads, cx, cy) in TILES {
            for stored in [[false, true], [false, false], [true, true], [true, false]] {
                let [at, bt] = stored.map(i64::from);
                let wanted = [bm, bn, bk as i64, stages as i64, threads as i64, cx as i64, cy as i64, at, bt, 1];
                let tile = (bm, bn, bk, stages, threads, cx, cy);
                assert_eq!(declared.contains(&&wanted[..]), has(tile, stored), "{tile:?} {stored:?}");
            }
        }
    }
}
