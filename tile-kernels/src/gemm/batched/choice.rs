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
    /// The parts by which a step takes longer for each operand whose rows begin between lines of 128 bytes, and between sectors of 32.
    between: [f64; 2],
    /// Bytes a us of the second-level cache.
    cache: f64,
    /// The part by which it gives less of an operand whose rows begin between sectors: a row of a tile lies in five, and in two lines.
    split: f64,
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
const OF_FETCHED: Kind = Kind {
    fixed: 2.321,
    memory: 4.511e+06,
    store: 2.17e+05,
    across: [0.00415, 0.0377],
    between: [0.0183, 0.0425],
    cache: 2.852e+07,
    split: 2.39,
};
/// Constants of launches whose operands are f32 and multiplied as such.
const OF_FULL: Kind = Kind {
    fixed: 1.598,
    memory: 2.504e+06,
    store: 1.175e+04,
    across: [0.000125, 0.000129],
    between: [0.00108, 0.05],
    cache: 9.115e+07,
    split: 0.5,
};
/// Constants of launches whose operands are f32, fetched by TMA and multiplied as tf32 by `wgmma`.
const OF_TF32: Kind = Kind {
    fixed: 2.615,
    memory: 4.901e+06,
    store: 1.76e+05,
    across: [0.122, 0.15],
    between: [0.00591, 0.05],
    cache: 1.677e+07,
    split: 0.5,
};
/// Constants of launches whose operands are f32, copied by every thread and multiplied as tf32 by `mma.sync`.
const OF_ANY_TF32: Kind = Kind {
    fixed: 1.602,
    memory: 2.972e+06,
    store: 9411.0,
    across: [0.281, 0.281],
    between: [0.00342, 0.05],
    cache: 3.853e+07,
    split: 0.5,
};

/// Of 16 bits that TMA fetches.
const FETCHED: [Paced; 34] = [
    paced((128, 128, 64, 6, 128, 1, 1), 1, [0.1056, 0.2928], [0.8075, 0.2142]),
    paced((64, 256, 64, 4, 128, 1, 1), 1, [0.3081, 0.1875], [0.6316, 0.2931]),
    paced((128, 64, 64, 8, 128, 1, 1), 1, [0.008362, 0.2285], [0.704, 0.02736]),
    paced((192, 128, 64, 4, 384, 1, 1), 1, [0.1318, 0.4364], [1.192, 0.1376]),
    paced((64, 128, 64, 4, 128, 1, 1), 2, [0.1194, 0.2247], [0.02281, 0.4015]),
    paced((64, 64, 64, 4, 128, 1, 1), 3, [0.1936, 0.1256], [0.008868, 0.2567]),
    paced((64, 32, 64, 4, 128, 1, 1), 4, [0.191, 0.09642], [0.008289, 0.1865]),
    paced((64, 16, 64, 6, 128, 1, 1), 3, [0.09204, 0.09377], [0.01115, 0.1333]),
    paced((128, 256, 64, 4, 256, 1, 2), 1, [0.08687, 0.5624], [0.3762, 1.369]),
    paced((128, 256, 64, 4, 256, 2, 1), 1, [0.08219, 0.6742], [1.467, 0.3977]),
    paced((128, 192, 64, 4, 128, 1, 2), 1, [0.02803, 0.4613], [0.6445, 0.9184]),
    paced((64, 64, 64, 8, 128, 1, 2), 1, [0.002963, 0.1634], [0.5016, 0.009941]),
    paced((32, 128, 64, 5, 128, 1, 1), 2, [0.1258, 0.1398], [1.005, 0.6615]),
    paced((64, 128, 64, 8, 128, 1, 1), 1, [0.03487, 0.209], [0.7324, 0.0912]),
    paced((64, 64, 64, 8, 128, 1, 1), 1, [0.007677, 0.1497], [0.4724, 0.02503]),
    paced((64, 192, 64, 6, 128, 1, 1), 1, [0.1305, 0.2263], [0.9027, 0.208]),
    parted((64, 64, 64, 8, 128), 2, 1, [0.03793, 0.1858], [2.075, 0.141]),
    parted((128, 64, 64, 6, 128), 2, 1, [0.05624, 0.2862], [2.68, 0.1982]),
    parted((64, 64, 64, 5, 128), 2, 2, [0.1624, 0.1173], [0.3054, 1.153]),
    parted((64, 64, 64, 4, 128), 4, 2, [0.04133, 0.1998], [0.1045, 1.97]),
    parted((64, 64, 64, 6, 128), 8, 1, [0.228, 0.07538], [2.785, 0.243]),
    parted((64, 128, 64, 6, 128), 2, 1, [0.07411, 0.2404], [2.633, 0.2158]),
    parted((64, 128, 64, 5, 128), 4, 1, [0.1678, 0.199], [3.116, 0.3277]),
    parted((128, 128, 64, 4, 256), 2, 1, [0.3287, 0.08568], [1.524, 3.579]),
    paced((192, 128, 64, 4, 384, 1, 2), 1, [0.2521, 0.4337], [1.232, 0.312]),
    paced((192, 128, 64, 4, 384, 2, 1), 1, [0.2521, 0.4337], [1.232, 0.312]),
    paced((128, 128, 64, 6, 128, 1, 2), 1, [0.01956, 0.3718], [0.975, 0.118]),
    paced((128, 128, 64, 6, 128, 2, 1), 1, [0.0263, 0.3515], [0.7883, 0.3788]),
    paced((64, 128, 64, 8, 128, 1, 2), 1, [0.09353, 0.2138], [0.8708, 0.1315]),
    paced((64, 128, 64, 8, 128, 2, 1), 1, [0.09353, 0.2138], [0.8708, 0.1315]),
    paced((128, 64, 64, 8, 128, 1, 2), 1, [0.01042, 0.2647], [0.7216, 0.0344]),
    paced((64, 64, 64, 8, 128, 2, 1), 1, [0.01091, 0.1746], [0.6699, 0.05754]),
    paced((128, 128, 64, 6, 128, 2, 2), 1, [0.1535, 0.2984], [0.849, 0.533]),
    paced((64, 192, 64, 6, 128, 1, 2), 1, [0.1947, 0.227], [1.063, 0.2091]),
];

/// Of 16 bits that every thread copies: a step takes as long as in [`copied`](super::super::copied), batches were not measured.
const COPIED: [Paced; 2] = [
    paced((128, 128, 32, 4, 256, 1, 1), 2, [0.502, 0.8901], [0.1, 0.8]),
    paced((64, 64, 32, 4, 128, 1, 1), 4, [0.331, 0.3674], [0.1, 0.35]),
];

/// Of f32, multiplied as it is.
const FULL: [Paced; 18] = [
    paced((128, 128, 8, 4, 128, 1, 1), 2, [0.4444, 0.6625], [0.03759, 1.484]),
    paced((128, 64, 8, 4, 128, 1, 1), 4, [0.2454, 0.383], [0.02722, 0.6803]),
    paced((64, 64, 16, 4, 128, 1, 1), 4, [0.3368, 0.4046], [0.01276, 0.5025]),
    paced((64, 16, 16, 4, 64, 1, 1), 8, [0.4196, 0.1378], [0.064, 0.3499]),
    paced((64, 32, 16, 4, 64, 1, 1), 8, [0.476, 0.2304], [0.01462, 0.3276]),
    paced((16, 64, 16, 4, 64, 1, 1), 8, [0.381, 0.1504], [0.03929, 0.2188]),
    paced((32, 64, 16, 4, 128, 1, 1), 4, [0.213, 0.2452], [0.01546, 0.3441]),
    paced((32, 32, 16, 4, 64, 1, 1), 8, [0.3163, 0.1281], [0.04575, 0.2159]),
    paced((64, 32, 16, 4, 128, 1, 1), 4, [0.2592, 0.2371], [0.1076, 0.4472]),
    parted((32, 32, 16, 4, 64), 2, 8, [0.3367, 0.1256], [0.6288, 0.2811]),
    parted((32, 32, 16, 4, 64), 4, 6, [0.3563, 0.1179], [0.7072, 0.2474]),
    parted((32, 32, 16, 4, 64), 8, 4, [0.3646, 0.09392], [1.084, 0.3146]),
    parted((64, 64, 16, 4, 128), 2, 4, [0.3489, 0.4101], [0.4303, 0.7393]),
    parted((64, 64, 16, 4, 128), 4, 2, [0.4078, 0.3573], [0.6578, 1.003]),
    parted((64, 32, 16, 4, 64), 2, 5, [0.4903, 0.2135], [0.5626, 0.4799]),
    parted((64, 32, 16, 4, 64), 4, 4, [0.5165, 0.1933], [0.8425, 0.4604]),
    parted((128, 64, 8, 4, 128), 2, 4, [0.2647, 0.3803], [1.127, 1.152]),
    parted((128, 128, 8, 4, 128), 2, 2, [0.5626, 0.6953], [2.486, 1.557]),
];

/// Of f32 that TMA fetches and `wgmma` multiplies as tf32.
const TF32: [Paced; 19] = [
    paced((64, 64, 32, 4, 128, 1, 1), 3, [0.226, 0.1278], [0.01574, 0.313]),
    paced((64, 32, 32, 4, 128, 1, 1), 4, [0.2199, 0.1071], [0.01501, 0.1099]),
    paced((256, 128, 32, 4, 256, 2, 1), 1, [0.4264, 0.3014], [1.614, 1.183]),
    paced((128, 192, 32, 4, 256, 1, 1), 1, [0.08871, 0.4395], [0.173, 1.916]),
    paced((128, 128, 32, 6, 256, 1, 1), 1, [0.1251, 0.2907], [0.3863, 1.219]),
    paced((128, 64, 32, 4, 128, 1, 1), 2, [0.2584, 0.1987], [0.201, 0.5988]),
    paced((64, 128, 32, 4, 128, 1, 1), 2, [0.2425, 0.2253], [0.2581, 0.6125]),
    paced((64, 16, 32, 6, 128, 1, 1), 3, [0.1245, 0.1007], [0.02735, 0.07207]),
    paced((16, 64, 32, 6, 128, 1, 1), 3, [0.1044, 0.1026], [0.0321, 0.05636]),
    paced((32, 64, 32, 6, 128, 1, 1), 3, [0.06425, 0.1335], [0.1372, 0.1092]),
    paced((64, 64, 32, 8, 128, 1, 1), 1, [0.1329, 0.1329], [0.2821, 0.3089]),
    paced((96, 128, 32, 6, 256, 1, 1), 1, [0.2139, 0.1124], [0.7672, 0.4635]),
    paced((144, 128, 32, 5, 256, 1, 1), 1, [0.2578, 0.1907], [1.028, 0.8705]),
    parted((64, 64, 32, 5, 128), 2, 2, [0.1487, 0.1327], [0.5089, 1.125]),
    parted((64, 64, 32, 4, 128), 4, 2, [0.0326, 0.2328], [0.1487, 1.66]),
    parted((64, 64, 32, 6, 128), 8, 1, [0.1775, 0.05221], [3.264, 0.2365]),
    parted((64, 128, 32, 6, 128), 2, 1, [0.06605, 0.2834], [2.672, 0.3214]),
    parted((64, 128, 32, 5, 128), 4, 1, [0.07332, 0.2907], [0.2819, 3.036]),
    parted((128, 128, 32, 4, 256), 2, 1, [0.3602, 0.09424], [0.9923, 4.003]),
];

/// Of f32 that every thread copies and `mma.sync` multiplies as tf32.
const ANY_TF32: [Paced; 7] = [
    paced((64, 64, 16, 4, 128, 1, 1), 4, [0.1324, 0.08435], [0.04072, 0.2856]),
    paced((32, 64, 16, 4, 128, 1, 1), 4, [0.1317, 0.053], [0.1464, 0.1112]),
    paced((64, 32, 16, 4, 128, 1, 1), 4, [0.1354, 0.05237], [0.06575, 0.2111]),
    paced((128, 128, 16, 4, 256, 1, 1), 2, [0.05141, 0.3472], [0.1118, 0.5427]),
    parted((64, 64, 16, 4, 128), 2, 4, [0.14, 0.0689], [0.3919, 0.7447]),
    parted((64, 64, 16, 4, 128), 4, 2, [0.1701, 0.03136], [0.132, 1.666]),
    parted((64, 32, 16, 4, 128), 4, 4, [0.1501, 0.02179], [0.5202, 0.6886]),
];

/// us of a launch below which it gains by starting before the previous one is done, as [`super::super::model`] has it of one product.
const SHORT: f64 = 12.0;

/// Whether a launch that takes so many us is to start before the previous one is done.
pub(super) fn starts_early(us: f64) -> bool {
    us < SHORT
}

/// How sharply the longest of what a launch waits for stands out.
const POWER: f64 = 2.0;

impl Paced {
    /// us that a launch is expected to take.
    fn us(&self, shape: &Shape) -> f64 {
        let &Shape { batches, m, n, k, stored: [a_across, b_transposed], operands, .. } = shape;
        let &Kind { fixed, memory, store, across, between: [between, halved], cache, split } = operands.kind();
        let (rows, cols, step, _, _, cx, cy) = self.tile;
        let [cx, cy, parts] = [cx, cy, self.parts].map(|blocks| blocks as i64);
        // A cluster at the edge has tiles without elements, which take as long as others.
        let [high, wide] = [up(up(m, rows), cy) * cy, up(up(n, cols), cx) * cx];
        let blocks = batches.saturating_mul(high).saturating_mul(wide).saturating_mul(parts).max(1);
        let most = up(blocks, at_once(cx * cy * parts));
        let size = operands.bytes();
        let pitches = [if a_across { m } else { k }, if b_transposed { k } else { n }];
        let slower = |part: f64, holds: bool| 1.0 + part * f64::from(holds);
        let [lines, sectors] = [128, 32].map(|bytes| pitches.map(|pitch| pitch * size % bytes != 0));
        let count = |between: [bool; 2]| f64::from(u8::from(between[0]) + u8::from(between[1]));
        let layout = slower(across[0], a_across)
            * slower(across[1], !b_transposed)
            * (1.0 + between * count(lines))
            * (1.0 + halved * count(sectors));
        let whole = up(up(k, step as i64), parts) as f64;
        let steps = whole * layout;
        let stored = (size * rows.min(m) * cols.min(n)) as f64 / store;
        let alone = up(most, self.blocks) as f64 * (steps * self.step[0] + self.beside[0] + stored);
        let many = most as f64 * (steps * self.step[1] + self.beside[1]);
        // Of an operand across K a row of the tile is fetched whole for each step, however little of it there is; blocks of a cluster share.
        let [a_rows, b_rows] =
            [if a_across { rows } else { m.min(rows) }, if b_transposed { n.min(cols) } else { cols }];
        let asked = a_rows as f64 * slower(split, sectors[0]) / cx as f64
            + b_rows as f64 * slower(split, sectors[1]) / cy as f64;
        let asked = blocks as f64 * whole * (size * step as i64) as f64 * asked;
        let [z, m, n, k] = [batches, m, n, k].map(|extent| extent as f64);
        let bytes = size as f64 * z * (m * k + n * k + m * n);
        fixed + norm(&[alone, many, bytes / memory, asked / cache], POWER)
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
                Operands::Tf32 { fetched: true } if b_transposed => {
                    rows <= 128 && rows % 64 == 0 || !a_transposed && rows % 64 != 0
                }
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
