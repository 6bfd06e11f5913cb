//! Which instance of the kernel serves a shape.

use super::any::Any;
use super::batched::Batch;
use super::kernel;
use super::{Class, Gemm};
use tile_runtime::LaunchError;
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::{bf16, f16};

/// An instance, but for layouts and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Rows and columns of a tile, slots of shared memory, threads a tile, blocks of a cluster below one another.
    pub tile: Tile,
    /// Whether the shape has enough tiles of 128 x 128 for a device: what matters where operands are not aligned, and the
    /// tile above is not used.
    pub many_tiles: bool,
}

/// Rows, columns, slots, threads, blocks of a cluster.
pub type Tile = (i64, i64, usize, usize, usize);

/// A tile, what one step of 64 along K costs on one multiprocessor in us, and how fast it reads operands at best, in bytes
/// a us.
///
/// Measured on an H200 (`bench/peers.py gemm`), and fitted by waves as hopper's cost model has it:
/// launch and fill 2.7 us, a step of 64 for each wave, what the last wave stores at 4.3 TB/s.
const TILES: [(Tile, f64, f64); 8] = [
    ((128, 256, 4, 256, 2), 0.632, 4.5e6),
    ((128, 256, 4, 256, 1), 0.628, 4.5e6),
    ((128, 224, 4, 256, 1), 0.560, 4.5e6),
    ((128, 128, 6, 128, 1), 0.325, 4.5e6),
    ((64, 256, 4, 128, 1), 0.345, 4.5e6),
    ((128, 64, 8, 128, 1), 0.185, 4.5e6),
    ((64, 128, 8, 128, 1), 0.180, 4.5e6),
    ((64, 64, 8, 128, 1), 0.125, 3.6e6),
];

/// Multiprocessors of the device the costs were measured on.
const MULTIPROCESSORS: i64 = 132;
/// us from the launch to the first product and from the last one to the end.
const FIXED_US: f64 = 2.7;
/// us that storing a tile holds up the next one, where no other tile is multiplied meanwhile.
const STORE_US: f64 = 0.5;
/// Bytes a us that a wave stores.
const STORE_RATE: f64 = 4.3e6;

impl Default for Choice {
    fn default() -> Self {
        Choice { tile: TILES[0].0, many_tiles: true }
    }
}

impl Choice {
    /// The choice for aligned operands of this shape, by the cost model of the tiles. `whole_columns`: `b` is stored as
    /// N x K, so that tiles of any width can be read.
    pub fn for_shape(m: i64, n: i64, k: i64, whole_columns: bool) -> Choice {
        let legal = TILES.iter().filter(|((_, bn, ..), ..)| whole_columns || bn % 64 == 0);
        let cheapest = legal.min_by(|a, b| cost(a, m, n, k).total_cmp(&cost(b, m, n, k)));
        let tile = cheapest.map_or(TILES[0].0, |(tile, ..)| *tile);
        Choice { tile, many_tiles: super::any::is_large(m, n) }
    }

    /// us that the tile is expected to take for a shape.
    pub fn estimate(tile: Tile, m: i64, n: i64, k: i64) -> Option<f64> {
        TILES.iter().find(|(t, ..)| *t == tile).map(|entry| cost(entry, m, n, k))
    }
}

fn cost(((bm, bn, _, threads, cluster), step_us, read_rate): &(Tile, f64, f64), m: i64, n: i64, k: i64) -> f64 {
    let up = |a: i64, b: i64| (a.max(0) + b - 1) / b;
    let cluster = *cluster as i64;
    // A cluster at the edge has tiles without elements, which take as long as others.
    let tiles = up(up(m, *bm), cluster) * cluster * up(n, *bn);
    let waves = up(tiles, MULTIPROCESSORS).max(1);
    let last = tiles - (waves - 1) * MULTIPROCESSORS;
    let turns = *threads == 128 && bm * bn >= 128 * 128;
    let stores = if turns { 0.0 } else { STORE_US * (waves - 1) as f64 };
    let stored = (last * bm * bn * 2) as f64 / STORE_RATE;
    let compute = (waves * up(k, 64)) as f64 * step_us + stores + stored;
    let read = ((m * k + n * k + m * n) * 2) as f64 / read_rate;
    // What is bound by memory still prefers the tile with less to do.
    FIXED_US + compute.max(read) + 0.02 * compute.min(read)
}

/// Every instance is a type of its own: the match from values to it, written once.
macro_rules! launch {
    ($ty:ty, $out:ty, $choice:ident, $on:ident, $a:ident, $b:ident, $c:ident, $options:ident;
     $(($bm:literal, $bn:literal, $stages:literal, $threads:literal, $cy:literal): $layouts:tt),*) => {
        match $choice.tile {
            $(($bm, $bn, $stages, $threads, $cy) => launch!(
                @tile $ty, $out, $on, $a, $b, $c, $options, ($bm, $bn, $stages, $threads, $cy), $layouts
            ),)*
            _ => launch!(@any $ty, $out, $on, $a, $b, $c, $options),
        }
    };
    (@tile $ty:ty, $out:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident,
     ($bm:literal, $bn:literal, $stages:literal, $threads:literal, $cy:literal), [$(($at:literal, $bt:literal)),*]) => {
        match ($o.a_transposed, $o.b_transposed, $o.is_plain()) {
            $(($at, $bt, true) => kernel::gemm::<$ty, $out, $bm, $bn, $stages, $threads, $cy, $at, $bt, false>::launch(
                $on, $a, $b, $c, None, 1.0, 0.0, 0,
            ),
            ($at, $bt, false) => kernel::gemm::<$ty, $out, $bm, $bn, $stages, $threads, $cy, $at, $bt, true>::launch(
                $on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number(),
            ),)*
            #[allow(unreachable_patterns)]
            _ => launch!(@any $ty, $out, $on, $a, $b, $c, $o),
        }
    };
    (@any $ty:ty, $out:ty, $on:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        <$ty as Any<$out>>::launch_any($on, Class::Copies16, true, $a, $b, $c, $o)
    };
}

macro_rules! elements {
    ($($ty:ty => $out:ty),*) => { $(
        impl super::GemmElement<$out> for $ty {
            #[track_caller]
            fn launch(
                on: &impl LaunchOn,
                class: Class,
                choice: Choice,
                a: impl TensorInput<Self, 2>,
                b: impl TensorInput<Self, 2>,
                c: impl TensorOutput<$out, 2>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                if class != Class::Tma {
                    return <$ty as Any<$out>>::launch_any(on, class, choice.many_tiles, a, b, c, options);
                }
                launch!($ty, $out, choice, on, a, b, c, options;
                    (128, 256, 4, 256, 2): [(false, false), (false, true), (true, false), (true, true)],
                    (128, 256, 4, 256, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (128, 224, 4, 256, 1): [(false, true), (true, true)],
                    (128, 128, 6, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 256, 4, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (128, 64, 8, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 128, 8, 128, 1): [(false, false), (false, true), (true, false), (true, true)],
                    (64, 64, 8, 128, 1): [(false, false), (false, true), (true, false), (true, true)]
                )
            }

            #[track_caller]
            fn launch_batch(
                on: &impl LaunchOn,
                tiles: usize,
                a: impl TensorInput<Self, 3>,
                b: impl TensorInput<Self, 3>,
                c: impl TensorOutput<$out, 3>,
                options: &Gemm<'_, Self>,
            ) -> Option<Result<(), LaunchError>> {
                Some(<$ty as Batch<$out>>::launch(on, tiles, a, b, c, options))
            }
        }
    )* };
}

elements!(f16 => f16, f16 => f32, bf16 => bf16, bf16 => f32);

#[cfg(test)]
mod tests {
    use super::*;

    /// The tiles that were fastest on an H200, or within 3% of it.
    #[test]
    fn choices_on_measured_shapes() {
        for (shape, good) in [
            ((1024, 1024, 1024), vec![(128, 64), (64, 128)]),
            ((2048, 2048, 2048), vec![(128, 128), (128, 256)]),
            ((4096, 4096, 4096), vec![(128, 256), (128, 128)]),
            ((8192, 8192, 8192), vec![(128, 256), (128, 128), (128, 224)]),
            ((512, 7168, 2048), vec![(128, 224), (128, 256)]),
            ((128, 4096, 7168), vec![(64, 64)]),
            ((64, 18432, 7168), vec![(64, 256), (64, 128)]),
            ((16, 7168, 16384), vec![(64, 128)]),
        ] {
            let (m, n, k) = shape;
            let (bm, bn, ..) = Choice::for_shape(m, n, k, true).tile;
            assert!(good.contains(&(bm, bn)), "{shape:?}: {bm} x {bn}");
        }
    }
}
