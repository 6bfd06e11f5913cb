//! Which tile multiplies many matrices: the one that is expected to take the least time.
//!
//! A launch takes as long as the multiprocessor that has most tiles. One block alone takes as long for a step along K as its own instructions wait
//! for one another, and of several on a multiprocessor one stores while others multiply, so each tile has two times.
//! `bench/fit_batched.py` fitted them to 330 products by every tile on an H200 (`bench/results/gemm-batched-fit-h200.json`). Over these products
//! the choice takes 2.6% longer than the best tile in geometric mean for 16 bits, 2.5% for f32, 1.5% and 1.1% for tf32 (49% at worst, of f32); on
//! products that the constants were not fitted to 2.6, 2.7, 1.6 and 1.8%.

use super::super::copied::Operands;
use super::super::model::{at_once, norm, up};
use super::super::{Gemm, Tile, operands_of};
use std::fmt;
use tile_runtime::kernel::{Argument, LaunchOn, Target, TensorInput};
use tile_runtime::prelude::*;

/// What a tile is chosen by.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Products.
    pub batches: i64,
    /// Rows of each.
    pub m: i64,
    /// Columns of each.
    pub n: i64,
    /// Elements that are added up.
    pub k: i64,
    /// Whether `a` and `b` are stored transposed.
    pub stored: [bool; 2],
    /// What is multiplied, and how it comes into shared memory.
    pub operands: Operands,
    /// Whether the device has clusters, over whose blocks K may be split.
    pub splits: bool,
}

/// An instance, but for layouts and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The tile.
    pub tile: Tile,
    /// Parts of K, each a block's of a cluster: 1, or those of an instance of [`gemm_batch_cluster`](struct@super::split::gemm_batch_cluster).
    pub parts: usize,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, cols, step, stages, threads, cx, cy) = self.tile;
        write!(f, "{rows}x{cols}x{step}, {stages} stages, {threads} threads, ")?;
        match self.parts {
            1 => write!(f, "cluster {cx}x{cy}"),
            parts => write!(f, "{parts} parts"),
        }
    }
}

/// Elements of a step along K of what `wgmma` multiplies as tf32; the tiles that `mma.sync` multiplies have steps of 16.
pub(super) const STEP_OF_WGMMA: usize = 32;

/// What launches of all tiles for operands of a kind have in common.
struct Kind {
    /// us from the launch to the first step along K and from the last one to the end.
    fixed: f64,
    /// Bytes a us of memory.
    memory: f64,
    /// Bytes a us that a block stores.
    store: f64,
    /// The part by which a step takes longer where `a`'s rows run along M, and where `b`'s run along N.
    across: [f64; 2],
    /// The part by which a step takes longer for each operand whose rows begin between lines of 128 bytes.
    between: f64,
}

/// A tile, in how many parts of K, and how fast a multiprocessor is at it.
struct Paced {
    tile: Tile,
    parts: usize,
    /// Blocks that a multiprocessor has at once.
    blocks: i64,
    /// us of a step along K that one block takes alone, and that each block adds where there are many.
    step: [f64; 2],
    /// us of a tile beside its steps, the sum of the parts among them: of one block alone, and that each block adds where there are many.
    beside: [f64; 2],
}

const fn paced(tile: Tile, blocks: i64, step: [f64; 2], beside: [f64; 2]) -> Paced {
    Paced { tile, parts: 1, blocks, step, beside }
}

/// A tile without shares of a cluster, whose K is in so many parts.
const fn parted(
    tile: (i64, i64, usize, usize, usize),
    parts: usize,
    blocks: i64,
    step: [f64; 2],
    beside: [f64; 2],
) -> Paced {
    let (rows, cols, depth, stages, threads) = tile;
    Paced { tile: (rows, cols, depth, stages, threads, 1, 1), parts, blocks, step, beside }
}

/// Constants of launches whose operands have 16 bits and are fetched by TMA.
const OF_FETCHED: Kind =
    Kind { fixed: 2.198, memory: 3.91e+06, store: 1.291e+05, across: [0.00104, 0.0322], between: 0.268 };
/// Constants of launches whose operands are f32 and multiplied as such.
const OF_FULL: Kind =
    Kind { fixed: 1.547, memory: 1.809e+06, store: 1.305e+04, across: [0.0003, 0.000408], between: 0.00171 };
/// Constants of launches whose operands are f32, fetched by TMA and multiplied as tf32 by `wgmma`.
const OF_TF32: Kind =
    Kind { fixed: 2.529, memory: 4.047e+06, store: 7.069e+04, across: [0.0655, 0.0286], between: 0.0231 };
/// Constants of launches whose operands are f32, copied by every thread and multiplied as tf32 by `mma.sync`.
const OF_ANY_TF32: Kind =
    Kind { fixed: 1.517, memory: 2.555e+06, store: 6805.0, across: [0.101, 0.101], between: 0.00369 };

/// Of 16 bits that TMA fetches.
const FETCHED: [Paced; 24] = [
    paced((128, 128, 64, 6, 128, 1, 1), 1, [0.3229, 0.06223], [0.3575, 0.878]),
    paced((64, 256, 64, 4, 128, 1, 1), 1, [0.4741, 0.05516], [0.08977, 0.9161]),
    paced((128, 64, 64, 8, 128, 1, 1), 1, [0.2552, 0.06497], [0.05171, 0.7103]),
    paced((192, 128, 64, 4, 384, 1, 1), 1, [0.4178, 0.04629], [0.5209, 1.266]),
    paced((64, 128, 64, 4, 128, 1, 1), 2, [0.03925, 0.2714], [0.136, 0.283]),
    paced((64, 64, 64, 4, 128, 1, 1), 3, [0.03839, 0.1749], [0.08334, 0.179]),
    paced((64, 32, 64, 4, 128, 1, 1), 4, [0.02379, 0.1396], [0.05547, 0.1146]),
    paced((64, 16, 64, 6, 128, 1, 1), 3, [0.01638, 0.1168], [0.05276, 0.08623]),
    paced((128, 256, 64, 4, 256, 1, 2), 1, [0.06729, 0.4976], [1.191, 1.151]),
    paced((128, 256, 64, 4, 256, 2, 1), 1, [0.5822, 0.1192], [0.3873, 1.64]),
    paced((128, 192, 64, 4, 128, 1, 2), 1, [0.0298, 0.4189], [1.191, 0.7296]),
    paced((64, 64, 64, 8, 128, 1, 2), 1, [0.01393, 0.1549], [0.5137, 0.0822]),
    paced((32, 128, 64, 5, 128, 1, 1), 2, [0.03925, 0.2714], [0.136, 0.283]),
    paced((64, 128, 64, 8, 128, 1, 1), 1, [0.1, 0.2714], [0.136, 0.5]),
    paced((64, 64, 64, 8, 128, 1, 1), 1, [0.1, 0.1749], [0.08334, 0.4]),
    paced((64, 192, 64, 6, 128, 1, 1), 1, [0.2, 0.35], [0.1, 0.8]),
    parted((64, 64, 64, 8, 128), 2, 1, [0.1, 0.1749], [1.08334, 0.4]),
    parted((128, 64, 64, 6, 128), 2, 1, [0.2, 0.2714], [1.5, 0.5]),
    parted((64, 64, 64, 5, 128), 2, 2, [0.1, 0.1749], [1.08334, 0.3]),
    parted((64, 64, 64, 4, 128), 4, 2, [0.1, 0.1749], [1.58334, 0.3]),
    parted((64, 64, 64, 6, 128), 8, 1, [0.1, 0.1749], [2.08334, 0.5]),
    parted((64, 128, 64, 6, 128), 2, 1, [0.1, 0.2714], [1.5, 0.5]),
    parted((64, 128, 64, 5, 128), 4, 1, [0.1, 0.2714], [2.0, 0.8]),
    parted((128, 128, 64, 4, 256), 2, 1, [0.2, 0.32], [2.0, 0.8]),
];

/// Of 16 bits that every thread copies: a step takes as long as in [`copied`](super::super::copied), batches were not measured.
const COPIED: [Paced; 2] = [
    paced((128, 128, 32, 4, 256, 1, 1), 2, [0.502, 0.8901], [0.1, 0.8]),
    paced((64, 64, 32, 4, 128, 1, 1), 4, [0.331, 0.3674], [0.1, 0.35]),
];

/// Of f32, multiplied as it is.
const FULL: [Paced; 18] = [
    paced((128, 128, 8, 4, 128, 1, 1), 2, [0.5855, 0.6966], [0.06227, 1.675]),
    paced((128, 64, 8, 4, 128, 1, 1), 4, [0.3446, 0.3901], [0.0387, 0.8602]),
    paced((64, 64, 16, 4, 128, 1, 1), 4, [0.4242, 0.4203], [0.01917, 0.5972]),
    paced((64, 16, 16, 4, 64, 1, 1), 8, [0.4282, 0.15], [0.1568, 0.34]),
    paced((64, 32, 16, 4, 64, 1, 1), 8, [0.5281, 0.2432], [0.02242, 0.3331]),
    paced((16, 64, 16, 4, 64, 1, 1), 8, [0.3949, 0.164], [0.1056, 0.2166]),
    paced((32, 64, 16, 4, 128, 1, 1), 4, [0.2628, 0.2572], [0.03393, 0.3895]),
    paced((32, 32, 16, 4, 64, 1, 1), 8, [0.3355, 0.1394], [0.08796, 0.196]),
    paced((64, 32, 16, 4, 128, 1, 1), 4, [0.5281, 0.2432], [0.02242, 0.3331]),
    parted((32, 32, 16, 4, 64), 2, 8, [0.3355, 0.1394], [0.9, 0.3]),
    parted((32, 32, 16, 4, 64), 4, 6, [0.3355, 0.1394], [1.2, 0.3]),
    parted((32, 32, 16, 4, 64), 8, 4, [0.3355, 0.1394], [1.6, 0.4]),
    parted((64, 64, 16, 4, 128), 2, 4, [0.4242, 0.4203], [1.2, 0.9]),
    parted((64, 64, 16, 4, 128), 4, 2, [0.4242, 0.4203], [1.8, 1.2]),
    parted((64, 32, 16, 4, 64), 2, 5, [0.5281, 0.2432], [1.0, 0.5]),
    parted((64, 32, 16, 4, 64), 4, 4, [0.5281, 0.2432], [1.4, 0.6]),
    parted((128, 64, 8, 4, 128), 2, 4, [0.3446, 0.3901], [1.2, 1.2]),
    parted((128, 128, 8, 4, 128), 2, 2, [0.5855, 0.6966], [1.5, 2.4]),
];

/// Of f32 that TMA fetches and `wgmma` multiplies as tf32.
const TF32: [Paced; 19] = [
    paced((64, 64, 32, 4, 128, 1, 1), 3, [0.2291, 0.186], [0.02498, 0.3643]),
    paced((64, 32, 32, 4, 128, 1, 1), 4, [0.23, 0.1476], [0.01997, 0.133]),
    paced((256, 128, 32, 4, 256, 2, 1), 1, [0.4358, 0.5053], [1.034, 1.769]),
    paced((128, 192, 32, 4, 256, 1, 1), 1, [0.2162, 0.4455], [0.1887, 2.048]),
    paced((128, 128, 32, 6, 256, 1, 1), 1, [0.2461, 0.3107], [0.4314, 1.287]),
    paced((128, 64, 32, 4, 128, 1, 1), 2, [0.2463, 0.2766], [0.19, 0.6696]),
    paced((64, 128, 32, 4, 128, 1, 1), 2, [0.1948, 0.3124], [0.4136, 0.6376]),
    paced((64, 16, 32, 6, 128, 1, 1), 3, [0.1294, 0.1335], [0.0269, 0.08755]),
    paced((16, 64, 32, 6, 128, 1, 1), 3, [0.1722, 0.134], [0.03029, 0.08591]),
    paced((32, 64, 32, 6, 128, 1, 1), 3, [0.1722, 0.134], [0.03029, 0.08591]),
    paced((64, 64, 32, 8, 128, 1, 1), 1, [0.19, 0.186], [0.1, 0.5]),
    paced((96, 128, 32, 6, 256, 1, 1), 1, [0.2461, 0.28], [0.4314, 1.287]),
    paced((144, 128, 32, 5, 256, 1, 1), 1, [0.2461, 0.35], [0.4314, 1.287]),
    parted((64, 64, 32, 5, 128), 2, 2, [0.2, 0.186], [1.08334, 0.5]),
    parted((64, 64, 32, 4, 128), 4, 2, [0.2, 0.186], [1.58334, 0.5]),
    parted((64, 64, 32, 6, 128), 8, 1, [0.2, 0.186], [2.08334, 0.7]),
    parted((64, 128, 32, 6, 128), 2, 1, [0.2, 0.3124], [1.5, 0.8]),
    parted((64, 128, 32, 5, 128), 4, 1, [0.2, 0.3124], [2.0, 1.2]),
    parted((128, 128, 32, 4, 256), 2, 1, [0.2461, 0.3107], [2.0, 1.8]),
];

/// Of f32 that every thread copies and `mma.sync` multiplies as tf32.
const ANY_TF32: [Paced; 7] = [
    paced((64, 64, 16, 4, 128, 1, 1), 4, [0.1949, 0.1307], [0.04963, 0.3878]),
    paced((32, 64, 16, 4, 128, 1, 1), 4, [0.1906, 0.08747], [0.207, 0.1273]),
    paced((128, 128, 16, 4, 256, 1, 1), 2, [0.08802, 0.4896], [0.09159, 0.6169]),
    paced((64, 32, 16, 4, 128, 1, 1), 4, [0.195, 0.08432], [0.156, 0.2638]),
    parted((64, 64, 16, 4, 128), 2, 4, [0.1949, 0.1307], [1.0, 0.5]),
    parted((64, 64, 16, 4, 128), 4, 2, [0.1949, 0.1307], [1.5, 0.8]),
    parted((64, 32, 16, 4, 128), 4, 4, [0.195, 0.08432], [1.3, 0.5]),
];

/// us of a launch below which it gains by starting before the previous one is done, as [`super::super::model`] has it of one product.
const SHORT: f64 = 12.0;

/// Whether a launch that takes so many us is to start before the previous one is done.
pub(super) fn starts_early(us: f64) -> bool {
    us < SHORT
}

impl Paced {
    /// us that a launch is expected to take.
    fn us(&self, shape: &Shape) -> f64 {
        const POWER: f64 = 3.0;
        let &Shape { batches, m, n, k, stored: [a_across, b_transposed], operands, .. } = shape;
        let &Kind { fixed, memory, store, across, between } = operands.kind();
        let (rows, cols, step, _, _, cx, cy) = self.tile;
        let [cx, cy, parts] = [cx, cy, self.parts].map(|blocks| blocks as i64);
        // A cluster at the edge has tiles without elements, which take as long as others.
        let [high, wide] = [up(up(m, rows), cy) * cy, up(up(n, cols), cx) * cx];
        let blocks = batches.saturating_mul(high).saturating_mul(wide).saturating_mul(parts).max(1);
        let most = up(blocks, at_once(cx * cy * parts));
        let size = operands.bytes();
        let pitches = [if a_across { m } else { k }, if b_transposed { k } else { n }];
        let slower = |part: f64, holds: bool| 1.0 + part * f64::from(holds);
        let split = pitches.into_iter().filter(|pitch| pitch % (128 / size) != 0).count();
        let layout = slower(across[0], a_across) * slower(across[1], !b_transposed) * (1.0 + between * split as f64);
        let steps = up(up(k, step as i64), parts) as f64 * layout;
        let stored = (size * rows.min(m) * cols.min(n)) as f64 / store;
        let alone = up(most, self.blocks) as f64 * (steps * self.step[0] + self.beside[0] + stored);
        let many = most as f64 * (steps * self.step[1] + self.beside[1]);
        let [z, m, n, k] = [batches, m, n, k].map(|extent| extent as f64);
        let bytes = size as f64 * z * (m * k + n * k + m * n);
        fixed + norm(&[alone, many, bytes / memory], POWER)
    }

    /// Whether there is an instance for operands that are stored so, as the kernel's `where` says.
    fn takes(&self, shape: &Shape) -> bool {
        let (rows, cols, ..) = self.tile;
        let [a_transposed, b_transposed] = shape.stored;
        // There is a step for each part at least.
        let parted = self.parts == 1 || shape.splits && up(shape.k, self.tile.2 as i64) >= self.parts as i64;
        parted
            && match shape.operands {
                Operands::Fetched => (cols % 64 == 0 || b_transposed) && (rows >= 64 || b_transposed && !a_transposed),
                Operands::Tf32 { fetched: true } if b_transposed => rows <= 128 && rows % 64 == 0 || !a_transposed && rows % 64 != 0,
                Operands::Tf32 { fetched: true } => cols <= 128 && cols % 64 == 0,
                // Single elements of large tiles, which are held in registers, leave none for a third axis.
                Operands::Copied { width: 2 } => rows <= 64,
                Operands::Copied { .. } | Operands::Full | Operands::Tf32 { fetched: false } => true,
            }
    }
}

impl Operands {
    fn kind(self) -> &'static Kind {
        match self {
            Operands::Fetched | Operands::Copied { .. } => &OF_FETCHED,
            Operands::Full => &OF_FULL,
            Operands::Tf32 { fetched: true } => &OF_TF32,
            Operands::Tf32 { fetched: false } => &OF_ANY_TF32,
        }
    }

    /// The tiles that there are.
    fn tiles(self) -> &'static [Paced] {
        match self {
            Operands::Fetched => &FETCHED,
            Operands::Copied { .. } => &COPIED,
            Operands::Full => &FULL,
            Operands::Tf32 { fetched: true } => &TF32,
            Operands::Tf32 { fetched: false } => &ANY_TF32,
        }
    }
}

impl Shape {
    /// What a call of [`gemm_batched`](super::gemm_batched) with these chooses a tile by.
    pub fn of<T: Element>(
        on: &impl LaunchOn,
        a: &TensorView<'_, T, 3>,
        b: &TensorView<'_, T, 3>,
        [batches, m, n]: [usize; 3],
        options: &Gemm<'_, T>,
    ) -> Shape {
        let k = a.shape()[if options.a_transposed { 1 } else { 2 }];
        let stored = [options.a_transposed, options.b_transposed];
        let operands = match (a.argument(), b.argument()) {
            (Argument::Tensor(a), Argument::Tensor(b)) => operands_of(on, [&a, &b], options),
            _ => Operands::Full,
        };
        let [batches, m, n, k] = [batches, m, n, k].map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
        let splits = on.device().supports(Target::Sm90a);
        Shape { batches, m, n, k, stored, operands, splits }
    }

    /// The instances that there are for the operands, with the us expected of each.
    fn candidates(&self) -> impl Iterator<Item = (Choice, f64)> {
        let tiles = self.operands.tiles().iter().filter(|paced| paced.takes(self));
        tiles.map(|paced| (Choice { tile: paced.tile, parts: paced.parts }, paced.us(self)))
    }

    /// Every instance that there is for the operands, with the us expected of each, the one that a call takes first.
    pub fn ranked(&self) -> Vec<(Choice, f64)> {
        let mut all: Vec<_> = self.candidates().collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all
    }

    /// The instance that a call takes, with the us expected of it.
    pub fn fastest(&self) -> (Choice, f64) {
        let none = (Choice { tile: FULL[0].tile, parts: 1 }, 0.0);
        self.candidates().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::batched::definitions;
    use tile_runtime::kernel::Dtype;

    const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

    fn shape(batches: i64, [m, n, k]: [i64; 3], stored: [bool; 2], operands: Operands) -> Shape {
        Shape { batches, m, n, k, stored, operands, splits: true }
    }

    /// Every tile is an instance, in the layouts that it is offered in, with and without an epilogue.
    #[test]
    fn tiles_are_instances() {
        let [halves, tf32, any_tf32, parted] = definitions().map(|definition| definition.kernel().unwrap());
        for stored in LAYOUTS {
            for (kernel, operands, dtypes) in [
                (halves, Operands::Fetched, &[Dtype::F16, Dtype::F32][..]),
                (halves, Operands::Copied { width: 2 }, &[Dtype::Bf16, Dtype::Bf16]),
                (halves, Operands::Copied { width: 8 }, &[Dtype::Bf16, Dtype::Bf16]),
                (halves, Operands::Full, &[Dtype::F32, Dtype::F32]),
                (tf32, Operands::Tf32 { fetched: true }, &[]),
                (any_tf32, Operands::Tf32 { fetched: false }, &[]),
            ] {
                if operands == (Operands::Tf32 { fetched: true }) && !crate::gemm::tf32::takes(stored) {
                    continue;
                }
                let all = shape(4, [64, 64, 1024], stored, operands).ranked();
                assert!(!all.is_empty(), "{operands:?} {stored:?}");
                for (Choice { tile: (bm, bn, bk, stages, threads, cx, cy), parts }, _) in all {
                    let kernel = if parts > 1 { parted } else { kernel };
                    let depth = (kernel.consts.len() >= 10).then_some(bk as i64);
                    let cluster = (kernel.consts.len() > 6).then_some([cx, cy].map(|blocks| blocks as i64));
                    let tf32 = matches!(operands, Operands::Tf32 { .. });
                    let last = if parts > 1 { Some([parts as i64, i64::from(tf32)]) } else { cluster };
                    let sizes = [stages, threads].map(|size| size as i64);
                    let named = [bm, bn].into_iter().chain(depth).chain(sizes).chain(last.into_iter().flatten());
                    let wanted: Vec<i64> = named.chain(stored.map(i64::from)).collect();
                    let dtypes = if parts > 1 && tf32 { &[Dtype::F32, Dtype::F32][..] } else { dtypes };
                    let all = kernel.instances.iter();
                    let instances = all.filter(|i| i.consts.starts_with(&wanted) && i.dtypes == dtypes).count();
                    assert_eq!(instances, kernel.consts.len() + 1 - wanted.len(), "{operands:?} {wanted:?}");
                }
            }
        }
    }

    #[test]
    fn small_matrices_take_small_tiles() {
        let tile = |batches, extents, operands| shape(batches, extents, [false, true], operands).fastest().0.tile;
        let halves = Operands::Fetched;
        assert_eq!(tile(1024, [64; 3], halves).0, 64);
        assert_eq!(tile(128, [256, 16, 64], halves).1, 16);
        assert!(tile(64, [1024; 3], halves).0 * tile(64, [1024; 3], halves).1 >= 128 * 128);
        assert!(tile(512, [64; 3], Operands::Full).0 <= 64);
        assert_eq!(tile(64, [1024; 3], Operands::Full).0, 128);
        assert_eq!(tile(1024, [64; 3], Operands::Copied { width: 8 }).0, 64);
        // Nothing to do is done at once.
        tile(0, [0; 3], halves);
    }
}
