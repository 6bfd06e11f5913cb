//! Which instance of the kernel serves a shape.

use super::Gemm;
use super::batched::{Batch, Shape};
use super::kernel;
use super::split::{Split, SplitElement};
use std::fmt;
use tile_runtime::LaunchError;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::{bf16, f16};

/// An instance, but for layouts and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Rows and columns of a tile, a step along K, slots of shared memory, threads a tile, blocks of a cluster below one
    /// another.
    pub tile: Tile,
    /// Whether the shape has enough tiles of 128 x 128 for a device.
    pub many_tiles: bool,
    /// How K is split over blocks instead, where the tile above leaves too many multiprocessors idle.
    pub split: Option<Split>,
}

/// Rows, columns, elements of a step along K, slots, threads, blocks of a cluster.
pub type Tile = (i64, i64, usize, usize, usize, usize);

/// What a tile costs.
struct Cost {
    tile: Tile,
    /// us that 64 along K take on one multiprocessor.
    step_us: f64,
    /// Bytes a us that all of them read at best.
    read_rate: f64,
}

/// A tile for many rows. Measured on an H200 (`bench/peers.py gemm`) and fitted by waves of tiles.
const fn wide(tile: Tile, step_us: f64, read_rate: f64) -> Cost {
    Cost { tile, step_us, read_rate }
}

/// A tile for few rows, which is as fast as weights can be read where every multiprocessor has one (`docs/hopper.md`, "Rates that
/// constants were fitted to"). Its step is what it takes to bring it in, or its products one after another.
const fn skinny(tile: Tile) -> Cost {
    let bytes = (tile.0 + tile.1) * 64 * 2;
    let products = if tile.1 <= 32 { 0.118 } else { 0.156 };
    let fetch = bytes as f64 / PORT_RATE;
    Cost { tile, step_us: if fetch > products { fetch } else { products }, read_rate: 4.57e6 }
}

const TILES: [Cost; 23] = [
    wide((128, 256, 64, 4, 256, 1), 0.628, 4.5e6),
    wide((128, 192, 64, 4, 128, 1), 0.475, 4.5e6),
    wide((128, 224, 64, 4, 256, 1), 0.560, 4.5e6),
    wide((128, 128, 64, 6, 128, 1), 0.325, 4.5e6),
    wide((64, 256, 64, 4, 128, 1), 0.345, 4.5e6),
    wide((128, 64, 64, 8, 128, 1), 0.185, 4.5e6),
    wide((64, 128, 64, 8, 128, 1), 0.190, 4.5e6),
    wide((64, 64, 64, 12, 128, 1), 0.150, 4.5e6),
    // 1% slower than the one before where it is launched alone, but 14% faster as a dependent launch, as it is in a stream
    // of launches: blocks that share weights by themselves drift apart, and read them twice.
    wide((64, 64, 64, 12, 128, 2), 0.149, 4.5e6),
    skinny((8, 56, 128, 14, 128, 1)),
    skinny((16, 56, 128, 12, 128, 1)),
    skinny((16, 32, 128, 18, 128, 1)),
    skinny((16, 96, 128, 7, 128, 1)),
    skinny((32, 32, 128, 14, 128, 1)),
    skinny((32, 48, 128, 10, 128, 1)),
    skinny((32, 56, 128, 10, 128, 1)),
    skinny((32, 96, 128, 6, 128, 1)),
    skinny((32, 144, 64, 10, 128, 1)),
    skinny((64, 32, 128, 8, 128, 1)),
    skinny((64, 48, 128, 7, 128, 1)),
    skinny((64, 112, 64, 9, 128, 1)),
    skinny((64, 144, 64, 8, 128, 1)),
    skinny((64, 192, 64, 6, 128, 1)),
];

/// Multiprocessors of the device the costs were measured on.
const MULTIPROCESSORS: i64 = 132;
/// us from the launch to the first product and from the last one to the end; where all wait for memory, a bit more.
const FIXED_US: f64 = 2.7;
const FIXED_READ_US: f64 = 3.4;
/// Bytes a us that come into one multiprocessor from the second-level cache: 64 a clock.
const PORT_RATE: f64 = 0.109e6;
/// Bytes a us that one multiprocessor reads from memory with a whole ring under way: 56 of them read 3.5e6.
const BLOCK_RATE: f64 = 0.063e6;
/// Bytes a us that one multiprocessor reads while it has a tile of an incomplete last wave. For 24,576 x 4,096 weights and 8 to 64 rows,
/// 1.3, 1.7 and 3.3 waves took 55, 54 and 60 us, 1 and 1.9 waves 51 and 49.
const LAST_RATE: f64 = 0.048e6;
/// What is lost to multiprocessors without a tile in the last wave, of the time that reading takes: among tiles that read as fast, those that
/// fill the device are preferred.
const IDLE: f64 = 0.06;
/// Bytes that a multiprocessor must have asked for to read at two thirds of its rate: with 110 KB it is 3.5% short of it, with
/// 48 KB a quarter.
const RING_BYTES: f64 = 33e3;
/// The part of the weights that each further row of tiles reads again: their blocks start apart, and drift.
const READ_AGAIN: f64 = 0.05;
/// us that storing a tile holds up the next one, where no other tile is multiplied meanwhile.
const STORE_US: f64 = 0.5;
/// Bytes a us that a wave stores.
const STORE_RATE: f64 = 4.3e6;

impl Default for Choice {
    fn default() -> Self {
        Choice { tile: TILES[0].tile, many_tiles: true, split: None }
    }
}

impl Choice {
    /// The choice for aligned operands of this shape, by the cost model of the tiles. `[a_transposed, b_transposed]`: how
    /// they are stored; only `[false, true]`, both along K, has them all.
    pub fn for_shape(m: i64, n: i64, k: i64, stored: [bool; 2]) -> Choice {
        let legal = TILES.iter().filter(|cost| {
            // Of few rows there is one row of tiles: another would read all weights again.
            has(cost.tile, stored) && (cost.tile.0 >= 64 || m <= cost.tile.0)
        });
        let cheapest = legal.min_by(|a, b| cost(a, 1, [m, n, k]).total_cmp(&cost(b, 1, [m, n, k])));
        let tile = cheapest.map_or(TILES[0].tile, |cost| cost.tile);
        let plain = cheapest.filter(|_| stored == [false, true]).map(|tile| cost(tile, 1, [m, n, k]));
        let split = plain.and_then(|plain| Split::for_shape(m, n, k, plain));
        Choice { tile, many_tiles: is_large(m, n), split }
    }

    /// The choice where every thread copies: for rows that are not aligned, on devices without TMA, and for elements
    /// of 4 bytes ([`full`](super::full)). `[a_transposed, b_transposed]`: how operands are stored.
    pub fn by_threads(m: i64, n: i64, bytes: u32, stored: [bool; 2]) -> Choice {
        let many_tiles = is_large(m, n);
        let tile = match many_tiles {
            _ if bytes >= 4 => super::full::tile_for(m, n, stored),
            true => (128, 128, 32, 4, 256, 1),
            false => (64, 64, 32, 4, 128, 1),
        };
        Choice { tile, many_tiles, split: None }
    }

    /// Every choice that operands stored so could be given, for benchmarks and tuning.
    pub fn candidates(stored: [bool; 2]) -> impl Iterator<Item = Choice> {
        let legal = TILES.iter().filter(move |cost| has(cost.tile, stored));
        legal.map(|cost| Choice { tile: cost.tile, many_tiles: true, split: None })
    }

    /// The constants of the instance of [`kernel::gemm`](struct@super::kernel::gemm), in order of declaration.
    pub fn consts(&self, [a_transposed, b_transposed]: [bool; 2], epilogue: bool) -> Vec<i64> {
        let (bm, bn, bk, stages, threads, cluster) = self.tile;
        let sizes = [bk, stages, threads, cluster].map(|size| size as i64);
        let flags = [a_transposed, b_transposed, epilogue].map(i64::from);
        [bm, bn].into_iter().chain(sizes).chain(flags).collect()
    }

    /// us that the tile is expected to take for a shape.
    pub fn estimate(tile: Tile, m: i64, n: i64, k: i64) -> Option<f64> {
        Choice::estimate_batches(tile, 1, [m, n, k])
    }

    /// us that the tile is expected to take for so many products of a shape M, N, K.
    pub(super) fn estimate_batches(tile: Tile, batches: i64, shape: [i64; 3]) -> Option<f64> {
        TILES.iter().find(|cost| cost.tile == tile).map(|entry| cost(entry, batches, shape))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bm, bn, bk, stages, threads, cluster) = self.tile;
        write!(f, "{bm}x{bn}x{bk}, {stages} stages, {threads} threads, cluster {cluster}")
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
fn has((bm, bn, bk, _, _, cy): Tile, [a_transposed, b_transposed]: [bool; 2]) -> bool {
    let shared = bm > 64 || cy == 1 || b_transposed && !a_transposed;
    shared && (b_transposed || bn % 64 == 0) && (!a_transposed || bm >= 64 && bn % 32 == 0 && bk == 64)
}

fn cost(Cost { tile, step_us, read_rate }: &Cost, batches: i64, [m, n, k]: [i64; 3]) -> f64 {
    let (bm, bn, bk, stages, threads, cluster) = *tile;
    let up = |a: i64, b: i64| (a.max(0) + b - 1) / b;
    let cluster = cluster as i64;
    // A cluster at the edge has tiles without elements, which take as long as others.
    let tiles = batches.max(0).saturating_mul(up(up(m, bm), cluster) * cluster * up(n, bn));
    let waves = up(tiles, MULTIPROCESSORS).max(1);
    let last = tiles - (waves - 1) * MULTIPROCESSORS;
    let turns = threads == 128 && bm * bn >= 128 * 128;
    let stores = if turns { 0.0 } else { STORE_US * (waves - 1) as f64 };
    let stored = (last * bm * bn * 2) as f64 / STORE_RATE;
    let compute = FIXED_US + (waves * up(k, 64)) as f64 * step_us + stores + stored;
    // What lies beyond the operands fills slots, but is not read.
    let asked = (m.min(bm) + n.min(bn)) as f64 * (bk * stages * 2) as f64;
    let rate = |blocks: i64, each: f64| read_rate.min(blocks as f64 * each) * (1.0 - (-asked / RING_BYTES).exp());
    // Rows of tiles that share weights by the cache alone.
    let again = READ_AGAIN * ((up(m, bm) as f64 / cluster as f64) - 1.0).max(0.0);
    let bytes = (((m * k + n * k + m * n) * 2) as f64 + (n * k * 2) as f64 * again) * batches as f64;
    let last_part = last as f64 / tiles.max(1) as f64;
    let last_rate = if waves == 1 { rate(last, BLOCK_RATE) } else { rate(last, LAST_RATE) };
    let read = FIXED_READ_US
        + bytes * (1.0 - last_part) / rate(MULTIPROCESSORS, BLOCK_RATE).max(1.0)
        + bytes * last_part / last_rate.max(1.0);
    // What is bound by memory still prefers the tile with less to do.
    let idle = 1.0 - last as f64 / MULTIPROCESSORS as f64;
    compute.max(read) + 0.02 * compute.min(read) + IDLE * idle * read
}

/// Every instance is a type of its own: the match from values to it, written once.
macro_rules! launch {
    ($ty:ty, $out:ty, $choice:ident, $on:ident, $a:ident, $b:ident, $c:ident, $options:ident, else $rest:tt;
     $(($bm:literal, $bn:literal, $bk:literal, $stages:literal, $threads:literal, $cy:literal): $layouts:tt),*) => {
        match $choice.tile {
            $(($bm, $bn, $bk, $stages, $threads, $cy) => launch!(
                @tile $ty, $out, $on, $a, $b, $c, $options, ($bm, $bn, $bk, $stages, $threads, $cy), $layouts, $rest
            ),)*
            _ => launch!(@rest $ty, $out, $on, $a, $b, $c, $options, $rest),
        }
    };
    (@tile $ty:ty, $out:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident,
     ($bm:literal, $bn:literal, $bk:literal, $stages:literal, $threads:literal, $cy:literal), [$(($at:literal, $bt:literal)),*],
     $rest:tt) => {
        match ($o.a_transposed, $o.b_transposed) {
            $(($at, $bt) => launch!(
                @one $ty, $out, $on, $a, $b, $c, $o, ($bm, $bn, $bk, $stages, $threads, $cy), $at, $bt
            ),)*
            #[allow(unreachable_patterns)]
            _ => launch!(@rest $ty, $out, $on, $a, $b, $c, $o, $rest),
        }
    };
    // A tile that there is of every layout.
    (@rest $ty:ty, $out:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident, $tile:tt) => {
        match ($o.a_transposed, $o.b_transposed) {
            (false, false) => launch!(@one $ty, $out, $on, $a, $b, $c, $o, $tile, false, false),
            (false, true) => launch!(@one $ty, $out, $on, $a, $b, $c, $o, $tile, false, true),
            (true, false) => launch!(@one $ty, $out, $on, $a, $b, $c, $o, $tile, true, false),
            (true, true) => launch!(@one $ty, $out, $on, $a, $b, $c, $o, $tile, true, true),
        }
    };
    (@one $ty:ty, $out:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident,
     ($bm:literal, $bn:literal, $bk:literal, $stages:literal, $threads:literal, $cy:literal), $at:literal, $bt:literal) => {
        match $o.is_plain() {
            true => kernel::gemm::<$ty, $out, $bm, $bn, $bk, $stages, $threads, $cy, $at, $bt, false>::launch(
                $on, $a, $b, $c, None, 1.0, 0.0, 0,
            ),
            false => kernel::gemm::<$ty, $out, $bm, $bn, $bk, $stages, $threads, $cy, $at, $bt, true>::launch(
                $on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number(),
            ),
        }
    };
}

macro_rules! elements {
    ($($ty:ty => $out:ty),*) => { $(
        impl super::GemmElement<$out> for $ty {
            #[track_caller]
            fn launch(
                on: &impl LaunchOn,
                choice: Choice,
                a: impl TensorInput<Self, 2>,
                b: impl TensorInput<Self, 2>,
                c: impl TensorOutput<$out, 2>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                if let (Some(split), false, true) = (choice.split, options.a_transposed, options.b_transposed) {
                    return <$ty as SplitElement<$out>>::launch_split(on, split, a, b, c, options);
                }
                launch!($ty, $out, choice, on, a, b, c, options, else (128, 128, 32, 4, 256, 1);
                    (128, 192, 64, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (128, 256, 64, 4, 256, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (128, 224, 64, 4, 256, 1): [(false, true), (true, true)],
                    (128, 128, 64, 6, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 256, 64, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (128, 64, 64, 8, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 128, 64, 8, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 64, 64, 12, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 64, 64, 12, 128, 2): [(false, true)],
                    (8, 56, 128, 14, 128, 1): [(false, true)],
                    (16, 56, 128, 12, 128, 1): [(false, true)],
                    (16, 32, 128, 18, 128, 1): [(false, true)],
                    (16, 96, 128, 7, 128, 1): [(false, true)],
                    (32, 32, 128, 14, 128, 1): [(false, true)],
                    (32, 48, 128, 10, 128, 1): [(false, true)],
                    (32, 56, 128, 10, 128, 1): [(false, true)],
                    (32, 96, 128, 6, 128, 1): [(false, true)],
                    (32, 144, 64, 10, 128, 1): [(false, true)],
                    (64, 32, 128, 8, 128, 1): [(false, true)],
                    (64, 48, 128, 7, 128, 1): [(false, true)],
                    (64, 112, 64, 9, 128, 1): [(false, true)],
                    (64, 144, 64, 8, 128, 1): [(false, true)],
                    (64, 192, 64, 6, 128, 1): [(false, true)],
                    (64, 64, 32, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)]
                )
            }

            #[track_caller]
            fn launch_batch(
                on: &impl LaunchOn,
                shape: Shape,
                a: impl TensorInput<Self, 3>,
                b: impl TensorInput<Self, 3>,
                c: impl TensorOutput<$out, 3>,
                options: &Gemm<'_, Self>,
            ) -> Option<Result<(), LaunchError>> {
                Some(<$ty as Batch<$out>>::launch(on, shape.tile(2), a, b, c, options))
            }
        }
    )* };
}

elements!(f16 => f16, f16 => f32, bf16 => bf16, bf16 => f32);

impl super::GemmElement<f32> for f32 {
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        choice: Choice,
        a: impl TensorInput<f32, 2>,
        b: impl TensorInput<f32, 2>,
        c: impl TensorOutput<f32, 2>,
        options: &Gemm<'_, f32>,
    ) -> Result<(), LaunchError> {
        if options.precision == super::Precision::Tf32 {
            return super::tf32::launch(on, choice.many_tiles, a, b, c, options);
        }
        launch!(f32, f32, choice, on, a, b, c, options, else (128, 128, 8, 4, 256, 1);
            (128, 128, 16, 3, 256, 1): [(false, true), (true, false)],
            (128, 64, 8, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
            (64, 128, 8, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
            (64, 64, 16, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
            (32, 64, 16, 4, 64, 1): [(false, false), (false, true), (true, false), (true, true)]
        )
    }

    #[track_caller]
    fn launch_batch(
        on: &impl LaunchOn,
        shape: Shape,
        a: impl TensorInput<f32, 3>,
        b: impl TensorInput<f32, 3>,
        c: impl TensorOutput<f32, 3>,
        options: &Gemm<'_, f32>,
    ) -> Option<Result<(), LaunchError>> {
        let full = options.precision == super::Precision::Full;
        full.then(|| <f32 as Batch<f32>>::launch(on, shape.tile(4), a, b, c, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_runtime::kernel::Dtype;

    /// The tiles that were fastest on an H200, or within 3% of it.
    #[test]
    fn choices_on_measured_shapes() {
        for (shape, good) in [
            ((1024, 1024, 1024), vec![(128, 64), (64, 128)]),
            ((2048, 2048, 2048), vec![(128, 128), (128, 256)]),
            ((4096, 4096, 4096), vec![(128, 256), (128, 128)]),
            ((8192, 8192, 8192), vec![(128, 256), (128, 192)]),
            ((512, 7168, 2048), vec![(128, 224), (128, 256)]),
            ((128, 4096, 7168), vec![(64, 64)]),
            ((128, 7168, 2048), vec![(64, 112), (128, 64), (64, 128)]),
            ((64, 18432, 7168), vec![(64, 144)]),
            ((64, 4096, 7168), vec![(64, 32)]),
            ((64, 7168, 2048), vec![(64, 64), (64, 112), (64, 32)]),
            ((48, 7168, 7168), vec![(64, 64), (64, 112)]),
            ((96, 4096, 7168), vec![(64, 64)]),
            ((32, 18432, 7168), vec![(32, 144)]),
            ((32, 4096, 7168), vec![(32, 32)]),
            ((32, 7168, 7168), vec![(32, 56)]),
            ((16, 7168, 16384), vec![(16, 56)]),
            ((16, 4096, 14336), vec![(16, 32)]),
            ((8, 4096, 4096), vec![(16, 32)]),
            ((8, 7168, 16384), vec![(8, 56)]),
            ((1, 7168, 16384), vec![(8, 56)]),
            ((64, 24576, 4096), vec![(64, 192), (64, 96)]),
            ((32, 24576, 4096), vec![(32, 96)]),
            ((8, 24576, 4096), vec![(16, 96)]),
            ((64, 6144, 4096), vec![(64, 48)]),
            ((16, 6144, 4096), vec![(32, 48)]),
        ] {
            let (m, n, k) = shape;
            let (bm, bn, ..) = Choice::for_shape(m, n, k, [false, true]).tile;
            assert!(good.contains(&(bm, bn)), "{shape:?}: {bm} x {bn}");
        }
    }

    /// What every thread copies has instances for all elements and layouts.
    #[test]
    fn choices_of_every_thread_are_instances() {
        let kernel = kernel::gemm::<f16, f16>::definition().kernel().unwrap();
        for (m, dtype) in [(64, Dtype::F16), (4096, Dtype::Bf16), (64, Dtype::F32), (4096, Dtype::F32)] {
            for stored in [[false, true], [false, false], [true, true], [true, false]] {
                for epilogue in [false, true] {
                    let consts = Choice::by_threads(m, 4096, dtype.bytes(), stored).consts(stored, epilogue);
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
        for Cost { tile: (bm, bn, bk, stages, threads, cy), .. } in TILES {
            for stored in [[false, true], [false, false], [true, true], [true, false]] {
                let [at, bt] = stored.map(i64::from);
                let wanted = [bm, bn, bk as i64, stages as i64, threads as i64, cy as i64, at, bt, 1];
                let tile = (bm, bn, bk, stages, threads, cy);
                assert_eq!(declared.contains(&&wanted[..]), has(tile, stored), "{tile:?} {stored:?}");
            }
        }
    }
}
