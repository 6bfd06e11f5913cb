//! Which tile multiplies many matrices: the one that is expected to take the least time.
//!
//! A launch takes as long as the multiprocessor that has most tiles. One block alone takes as long for a step along K as its own instructions wait
//! for one another, and of several on a multiprocessor one stores while others multiply, so each tile has two times.
//! Beside that, the second-level cache gives all of them so many bytes a us, fewer of rows that begin between sectors of 32 bytes.
//! `bench/fit_batched.py` fitted these to 650 products on an H200 (`bench/results/gemm-batched-fit-h200.json`, by every tile, and `..-fit2-h200.json`),
//! those of tf32 by `mma.sync` to the 132 of `gemm-batched-{dcaa4fd1,75943061}-h200.json` too, and those of 16 bits that threads copy to 48 batches of any extents (`gemm-odd-a11e0001-h200.json`,
//! 92 launches, by which the choice takes 0.6% longer than the best). Over these products the choice takes 2.0% longer
//! than the best instance in geometric mean for 16 bits, 2.5% for f32, 1.2% for tf32 by `wgmma` and 2.1% by `mma.sync` (63% at worst, of f32); on
//! products that the constants were not fitted to 2.2, 2.5, 1.5 and 2.3%. Copies of operands ([`Shape::packs`]) take what [`pack`] expects.

use super::super::copied::Operands;
use super::super::model::{at_once, norm, up};
use super::super::pack::{self, Pack, Packs};
use super::super::{BETWEEN, Gemm, PACKED, Tile, begin_at, operands_of, stored_extents, tf32};
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
    /// Matrices of `a` and of `b`: as many as there are products, or one that is every product's.
    pub matrices: [i64; 2],
    /// The ways in which the operands may be copied first to where TMA fetches both, and `wgmma` multiplies them: two of operands as tf32 that
    /// both lie across K, since one or the other is transposed, and one of others that TMA does not fetch.
    pub packs: [Packs; 2],
}

/// An instance, but for layouts and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The tile.
    pub tile: Tile,
    /// Parts of K, each a block's of a cluster: 1, or those of an instance of [`gemm_batch_cluster`](struct@super::split::gemm_batch_cluster).
    pub parts: usize,
    /// How `a` and `b` are copied first, to where TMA fetches them.
    pub packs: Packs,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (operand, pack) in ["a", "b"].into_iter().zip(self.packs) {
            if let Some(pack) = pack {
                write!(f, "{operand} {pack}, ")?;
            }
        }
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
    fixed: 2.376,
    memory: 4.465e+06,
    store: 4.594e+05,
    across: [0.0205, 0.025],
    between: [0.0289, 0.0313],
    cache: 2.825e+07,
    split: 2.43,
};
/// Constants of launches whose operands have 16 bits and are copied by every thread, by pieces of 4 bytes or more.
const OF_COPIED: Kind = Kind {
    fixed: 1.204,
    memory: 2.304e+06,
    store: 3.524e+04,
    across: [0.00972, 0.0136],
    between: [0.114, 0.114],
    cache: 1.559e+07,
    split: 0.4,
};
/// Constants of launches whose operands have 16 bits and are copied by every thread, one by one.
const OF_SINGLE: Kind = Kind {
    fixed: 1.442,
    memory: 2.338e+06,
    store: 3.741e+04,
    across: [0.00631, 0.012],
    between: [0.737, 0.118],
    cache: 2.733e+07,
    split: 0.368,
};
/// Constants of launches whose operands are f32 and multiplied as such.
const OF_FULL: Kind = Kind {
    fixed: 1.57,
    memory: 2.663e+06,
    store: 1.185e+04,
    across: [0.000129, 0.000133],
    between: [0.0014, 0.05],
    cache: 8.929e+07,
    split: 0.5,
};
/// Constants of launches whose operands are f32, fetched by TMA and multiplied as tf32 by `wgmma`.
const OF_TF32: Kind = Kind {
    fixed: 2.613,
    memory: 4.905e+06,
    store: 1.701e+05,
    across: [0.103, 0.14],
    between: [0.0106, 0.05],
    cache: 1.823e+07,
    split: 0.5,
};
/// Constants of launches whose operands are f32, copied by every thread and multiplied as tf32 by `mma.sync`.
const OF_ANY_TF32: Kind = Kind {
    fixed: 1.478,
    memory: 3.796e+06,
    store: 8588.0,
    across: [0.269, 0.269],
    between: [0.00416, 0.05],
    cache: 5.86e+07,
    split: 0.5,
};

/// Of 16 bits that TMA fetches.
const FETCHED: [Paced; 21] = [
    paced((128, 128, 64, 6, 128, 1, 1), 1, [0.1933, 0.2316], [0.7194, 0.2133]),
    paced((64, 256, 64, 4, 128, 1, 1), 1, [0.3233, 0.1818], [0.5916, 0.3188]),
    paced((128, 64, 64, 8, 128, 1, 1), 1, [0.2229, 0.01001], [0.02862, 0.7035]),
    paced((192, 128, 64, 4, 384, 1, 1), 1, [0.4371, 0.0558], [0.5907, 0.875]),
    paced((64, 128, 64, 4, 128, 1, 1), 2, [0.1004, 0.225], [0.02197, 0.3761]),
    paced((64, 64, 64, 4, 128, 1, 1), 3, [0.189, 0.1253], [0.007497, 0.2315]),
    paced((64, 32, 64, 4, 128, 1, 1), 4, [0.1895, 0.09344], [0.0068, 0.1771]),
    paced((64, 16, 64, 6, 128, 1, 1), 3, [0.09817, 0.0893], [0.009806, 0.1377]),
    paced((128, 256, 64, 4, 256, 1, 2), 1, [0.1143, 0.5568], [0.3189, 1.38]),
    paced((128, 256, 64, 4, 256, 2, 1), 1, [0.6298, 0.1394], [0.5519, 1.309]),
    paced((128, 192, 64, 4, 128, 1, 2), 1, [0.04124, 0.4704], [0.7637, 0.8292]),
    paced((64, 64, 64, 8, 128, 1, 2), 1, [0.003898, 0.159], [0.5084, 0.01271]),
    paced((64, 128, 64, 8, 128, 1, 1), 1, [0.1837, 0.07395], [0.1737, 0.6202]),
    paced((64, 64, 64, 8, 128, 1, 1), 1, [0.008521, 0.1461], [0.4695, 0.02628]),
    paced((64, 192, 64, 6, 128, 1, 1), 1, [0.2156, 0.1333], [0.712, 0.4361]),
    parted((64, 64, 64, 8, 128), 2, 1, [0.08837, 0.1401], [1.87, 0.197]),
    parted((64, 64, 64, 4, 128), 4, 2, [0.02967, 0.2051], [0.09651, 1.921]),
    parted((64, 64, 64, 6, 128), 8, 1, [0.2262, 0.0744], [2.783, 0.2456]),
    paced((192, 128, 64, 4, 384, 2, 1), 1, [0.1854, 0.4448], [0.3386, 1.019]),
    paced((128, 64, 64, 8, 128, 1, 2), 1, [0.2549, 0.02382], [0.04677, 0.7203]),
    paced((64, 192, 64, 6, 128, 1, 2), 1, [0.1348, 0.3319], [0.2428, 0.704]),
];

/// Of 16 bits that every thread copies by pieces of 4 bytes or more.
const COPIED: [Paced; 3] = [
    paced((128, 128, 32, 4, 256, 1, 1), 2, [0.2988, 0.4905], [0.2337, 0.6903]),
    paced((64, 64, 32, 4, 128, 1, 1), 3, [0.2088, 0.1728], [0.1732, 0.2192]),
    paced((64, 64, 64, 4, 256, 1, 1), 2, [0.4688, 0.07674], [0.07026, 0.6067]),
];

/// Of 16 bits that every thread copies one by one. Single elements of larger tiles, which are held in registers, leave none for a third axis.
const SINGLE: [Paced; 2] = [
    paced((64, 64, 32, 4, 128, 1, 1), 3, [0.2539, 0.1372], [0.05836, 0.4373]),
    paced((64, 64, 64, 4, 256, 1, 1), 2, [0.2264, 0.2958], [0.09156, 0.4031]),
];

/// Of f32, multiplied as it is.
const FULL: [Paced; 14] = [
    paced((128, 128, 8, 4, 128, 1, 1), 2, [0.443, 0.6648], [0.03901, 1.516]),
    paced((128, 64, 8, 4, 128, 1, 1), 4, [0.2417, 0.3847], [0.03022, 0.7244]),
    paced((64, 64, 16, 4, 128, 1, 1), 4, [0.3375, 0.4049], [0.01349, 0.5342]),
    paced((64, 16, 16, 4, 64, 1, 1), 8, [0.4153, 0.1389], [0.09756, 0.3556]),
    paced((64, 32, 16, 4, 64, 1, 1), 8, [0.4765, 0.2317], [0.01711, 0.3433]),
    paced((16, 64, 16, 4, 64, 1, 1), 8, [0.3805, 0.1501], [0.05732, 0.2275]),
    paced((32, 64, 16, 4, 128, 1, 1), 4, [0.2182, 0.2451], [0.01681, 0.3604]),
    paced((32, 32, 16, 4, 64, 1, 1), 8, [0.3191, 0.1282], [0.06309, 0.2257]),
    paced((64, 32, 16, 4, 128, 1, 1), 4, [0.2582, 0.2372], [0.1267, 0.4667]),
    parted((32, 32, 16, 4, 64), 2, 8, [0.3264, 0.1275], [0.7029, 0.2786]),
    parted((32, 32, 16, 4, 64), 4, 6, [0.3503, 0.1203], [0.7672, 0.2386]),
    parted((32, 32, 16, 4, 64), 8, 4, [0.3575, 0.1012], [1.255, 0.2388]),
    parted((64, 64, 16, 4, 128), 2, 4, [0.3617, 0.4084], [0.44, 0.7535]),
    parted((64, 64, 16, 4, 128), 4, 2, [0.3905, 0.3673], [0.7846, 0.9521]),
];

/// Of f32 that TMA fetches and `wgmma` multiplies as tf32.
const TF32: [Paced; 17] = [
    paced((64, 64, 32, 4, 128, 1, 1), 3, [0.2171, 0.1332], [0.01601, 0.3114]),
    paced((64, 32, 32, 4, 128, 1, 1), 4, [0.2138, 0.1117], [0.0143, 0.1089]),
    paced((256, 128, 32, 4, 256, 2, 1), 1, [0.4282, 0.3078], [1.588, 1.194]),
    paced((128, 192, 32, 4, 256, 1, 1), 1, [0.09296, 0.4423], [0.1721, 1.911]),
    paced((128, 128, 32, 6, 256, 1, 1), 1, [0.1215, 0.2964], [0.3661, 1.222]),
    paced((128, 64, 32, 4, 128, 1, 1), 2, [0.2469, 0.2091], [0.2191, 0.5882]),
    paced((64, 128, 32, 4, 128, 1, 1), 2, [0.2266, 0.2389], [0.2544, 0.5995]),
    paced((64, 16, 32, 6, 128, 1, 1), 3, [0.1215, 0.1048], [0.02767, 0.07064]),
    paced((16, 64, 32, 6, 128, 1, 1), 3, [0.09693, 0.1088], [0.03341, 0.05173]),
    paced((32, 64, 32, 6, 128, 1, 1), 3, [0.06111, 0.1349], [0.1376, 0.1104]),
    paced((64, 64, 32, 8, 128, 1, 1), 1, [0.1568, 0.1053], [0.32, 0.2576]),
    paced((96, 128, 32, 6, 256, 1, 1), 1, [0.217, 0.1173], [0.752, 0.4527]),
    paced((144, 128, 32, 5, 256, 1, 1), 1, [0.2636, 0.1895], [1.027, 0.8393]),
    parted((64, 64, 32, 5, 128), 2, 2, [0.1251, 0.154], [0.4888, 1.104]),
    parted((64, 64, 32, 4, 128), 4, 2, [0.03276, 0.2305], [0.1362, 1.639]),
    parted((64, 64, 32, 6, 128), 8, 1, [0.1878, 0.05133], [3.144, 0.2395]),
    parted((64, 128, 32, 6, 128), 2, 1, [0.1086, 0.2743], [2.551, 0.3686]),
];

/// Of f32 that every thread copies and `mma.sync` multiplies as tf32.
const ANY_TF32: [Paced; 6] = [
    paced((64, 64, 16, 4, 128, 1, 1), 4, [0.1355, 0.08768], [0.02562, 0.368]),
    paced((32, 64, 16, 4, 128, 1, 1), 4, [0.1361, 0.05443], [0.1461, 0.1705]),
    paced((64, 32, 16, 4, 128, 1, 1), 4, [0.1403, 0.05391], [0.06712, 0.2705]),
    paced((128, 128, 16, 4, 256, 1, 1), 2, [0.05271, 0.3544], [0.07876, 0.6334]),
    parted((64, 64, 16, 4, 128), 2, 4, [0.1522, 0.0654], [0.3599, 0.748]),
    parted((64, 32, 16, 4, 128), 4, 4, [0.1612, 0.02085], [0.4065, 0.7954]),
];

/// Whether a launch that takes so many us is expected to gain by starting before the previous one is done.
///
/// Of 257 random products that were expected to take less than 12 us, 38 of f32 below 7 us gained 15% in the mean, the 15 above it lost 4%, and 16 bits from 10 us on
/// gained nothing: blocks that begin early take room and issue slots from the launch that they wait for.
pub(super) fn starts_early(operands: Operands, us: f64) -> bool {
    us < match operands {
        Operands::Full => 7.0,
        Operands::Fetched | Operands::Copied { .. } | Operands::Tf32 { .. } => 10.0,
    }
}

/// Blocks along the second axis of a grid, and along the third. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
const MOST_BLOCKS: i64 = 65_535;

/// Rows of a tile of the kernels that copy.
const COPIED_ROWS: i64 = 64;

/// us of a multiprocessor for each piece of a result of f32 that it stores, beyond those of rows that begin at multiples of 16 bytes. Of 19 batches of any extents on an H200 by the choices expected to take less than 2.2
/// times the least (`bench/results/gemm-batched-odd-a38963f0-h200.json`).
const PIECE: f64 = 5.2e-4;

/// [`PIECE`] of results of 16 bits that blocks store from shared memory, whose operands are copied by pieces or one by one.
const BY_ROWS: [f64; 2] = [3.2e-5, 1.05e-5];

/// [`PIECE`] of results of 16 bits that warpgroups store from shared memory: an estimate from 82 products of 3936 x 175 x 74, three tiles of which took 182 to 194 us.
const STAGED: f64 = 2.2e-4;

/// The part by which a step of what `mma.sync` multiplies takes longer for each operand of f32 that is copied one element at a time.
const ONE_BY_ONE: f64 = 0.7;

/// us that a copy takes beside what it moves, with a launch behind it, and bytes a us that it moves. Both are of 59 batches of 16 bits of any extents on
/// an H200, by the choices expected to take less than 2.6 or 3 times the least: by them the choices lose 6.5% to the best of these.
const COPY: f64 = 1.2;
const RATE: f64 = 3.2e6;

/// How sharply the longest of what a launch waits for stands out.
const POWER: f64 = 2.0;

impl Paced {
    /// us that a launch is expected to take. `pitches`: elements from a row to the next one of each operand.
    fn us(&self, shape: &Shape, pitches: [i64; 2]) -> f64 {
        let &Shape { batches, m, n, k, stored: [a_across, b_transposed], operands, .. } = shape;
        let &Kind { fixed, memory, store, across, between: [between, halved], cache, split } = operands.kind();
        let (rows, cols, step, _, _, cx, cy) = self.tile;
        let [cx, cy, parts] = [cx, cy, self.parts].map(|blocks| blocks as i64);
        // A cluster at the edge has tiles without elements, which take as long as others.
        let [high, wide] = [up(up(m, rows), cy) * cy, up(up(n, cols), cx) * cx];
        let blocks = batches.saturating_mul(high).saturating_mul(wide).saturating_mul(parts).max(1);
        let most = up(blocks, at_once(cx * cy * parts));
        let size = operands.bytes();
        let slower = |part: f64, holds: bool| 1.0 + part * f64::from(holds);
        let [lines, sectors] = [128, 32].map(|bytes| pitches.map(|pitch| pitch * size % bytes != 0));
        let single = operands == (Operands::Tf32 { fetched: false });
        let single = pitches.map(|pitch| single && pitch * size % 8 != 0);
        let count = |between: [bool; 2]| f64::from(u8::from(between[0]) + u8::from(between[1]));
        let layout = slower(across[0], a_across)
            * slower(across[1], !b_transposed)
            * (1.0 + between * count(lines))
            * (1.0 + halved * count(sectors))
            * (1.0 + ONE_BY_ONE * count(single));
        let whole = up(up(k, step as i64), parts) as f64;
        let steps = whole * layout;
        // Rows of the result that begin between multiples of 16 bytes are stored by smaller pieces.
        let piece = [16, 8, 4].into_iter().find(|piece| n * size % piece == 0).unwrap_or(2);
        let is_by_rows = piece == 16 || matches!(operands, Operands::Copied { .. });
        let store = if is_by_rows { store } else { store * BETWEEN };
        let held = (size * rows.min(m) * cols.min(n)) as f64;
        let (stored, pieces) = (held / store, held / piece as f64 - held / 16.0);
        let each = match operands {
            Operands::Fetched => STAGED,
            Operands::Copied { width } => BY_ROWS[usize::from(width == 2)],
            Operands::Full | Operands::Tf32 { .. } => PIECE,
        };
        let alone = up(most, self.blocks) as f64 * (steps * self.step[0] + self.beside[0] + stored);
        let many = most as f64 * (steps * self.step[1] + self.beside[1] + each * pieces);
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
        // There is a step for each part at least, and the tiles of all products fit the grid's second axis, along which they lie.
        let lie = shape.batches.saturating_mul(up(shape.m, rows));
        let has_steps = up(shape.k, self.tile.2 as i64) >= self.parts as i64;
        let parted = self.parts == 1 || shape.splits && has_steps && lie <= MOST_BLOCKS;
        parted
            && match shape.operands {
                Operands::Fetched => cols % 64 == 0 || b_transposed,
                Operands::Tf32 { fetched: true } if b_transposed => {
                    rows <= 128 && rows % 64 == 0 || !a_transposed && rows % 64 != 0
                }
                Operands::Tf32 { fetched: true } => cols <= 128 && cols % 64 == 0,
                Operands::Copied { .. } | Operands::Full | Operands::Tf32 { fetched: false } => true,
            }
    }
}

impl Operands {
    fn kind(self) -> &'static Kind {
        match self {
            Operands::Fetched => &OF_FETCHED,
            Operands::Copied { width: 2 } => &OF_SINGLE,
            Operands::Copied { .. } => &OF_COPIED,
            Operands::Full => &OF_FULL,
            Operands::Tf32 { fetched: true } => &OF_TF32,
            Operands::Tf32 { fetched: false } => &OF_ANY_TF32,
        }
    }

    /// The tiles that there are.
    fn tiles(self) -> &'static [Paced] {
        match self {
            Operands::Fetched => &FETCHED,
            Operands::Copied { width: 2 } => &SINGLE,
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
        let splits = on.device().supports(Target::Sm90a);
        let packs = match (a.argument(), b.argument()) {
            (Argument::Tensor(a_ref), Argument::Tensor(b_ref)) if splits => {
                packs(operands, [a.shape(), b.shape()], [batches, m, n], stored, [&a_ref, &b_ref].map(begin_at))
            }
            _ => [[None; 2]; 2],
        };
        let [batches, m, n, k] = [batches, m, n, k].map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
        let matrices = [a.shape(), b.shape()].map(|shape| i64::try_from(shape[0]).unwrap_or(i64::MAX));
        Shape { batches, m, n, k, stored, operands, splits, matrices, packs }
    }

    /// Elements from a row to the next one of each operand, whose rows follow one another.
    fn pitches(&self) -> [i64; 2] {
        let Shape { m, n, k, stored: [a_across, b_transposed], .. } = *self;
        [if a_across { m } else { k }, if b_transposed { k } else { n }]
    }

    /// The instances that there are for the operands as they are, with the us expected of each.
    fn candidates(&self) -> impl Iterator<Item = (Choice, f64)> {
        self.of_pitches(self.pitches(), [None; 2])
    }

    /// The instances that there are for operands of these pitches, with the us expected of each.
    fn of_pitches(&self, pitches: [i64; 2], packs: Packs) -> impl Iterator<Item = (Choice, f64)> {
        let tiles = self.operands.tiles().iter().filter(|paced| paced.takes(self));
        tiles.map(move |paced| (Choice { tile: paced.tile, parts: paced.parts, packs }, paced.us(self, pitches)))
    }

    /// The instances that there are for copies of operands, with the us expected of each and of the copies.
    fn packed(&self) -> Vec<(Choice, f64)> {
        let mut all = vec![];
        for packs in self.packs.into_iter().filter(|packs| *packs != [None; 2]) {
            let [a, b] = packs.map(|pack| pack == Some(Pack::Transposed));
            let operands = match self.operands {
                Operands::Fetched | Operands::Copied { .. } => Operands::Fetched,
                Operands::Full | Operands::Tf32 { .. } => Operands::Tf32 { fetched: true },
            };
            let shape = Shape { stored: [self.stored[0] ^ a, self.stored[1] ^ b], operands, ..*self };
            let (mut pitches, mut before) = (shape.pitches(), 0.0);
            let extents = stored_extents([self.m, self.n, self.k], self.stored);
            for (at, pack) in packs.into_iter().enumerate() {
                let Some(pack) = pack else { continue };
                let [rows, cols] = extents[at];
                pitches[at] = pack::pitch(pack.extents([rows, cols]).1, operands.bytes());
                before += COPY + pack::moving([self.matrices[at].saturating_mul(rows), cols], operands.bytes(), RATE);
            }
            all.extend(shape.of_pitches(pitches, packs).map(|(choice, us)| (choice, before + us)));
        }
        all
    }

    /// Every instance that there is, with the us expected of each, the one that a call takes first.
    pub fn ranked(&self) -> Vec<(Choice, f64)> {
        let taken = self.fastest();
        let mut all: Vec<_> = self.candidates().chain(self.packed()).filter(|(choice, _)| *choice != taken.0).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.insert(0, taken);
        all
    }

    /// The instance that a call takes, with the us expected of it: one for copies of operands where it is expected to take less than
    /// nine tenths of the time of the others.
    pub fn fastest(&self) -> (Choice, f64) {
        let none = (Choice { tile: FULL[0].tile, parts: 1, packs: [None; 2] }, 0.0);
        let least = |all: &mut dyn Iterator<Item = (Choice, f64)>| all.min_by(|a, b| a.1.total_cmp(&b.1));
        let fastest = least(&mut self.candidates()).unwrap_or(none);
        least(&mut self.packed().into_iter()).filter(|(_, us)| *us < PACKED * fastest.1).unwrap_or(fastest)
    }
}

/// The ways in which `a`, `[Z, M, K]`, `[Z, K, M]` or one such matrix, and `b`, likewise, may be copied, whose rows begin at multiples of so many
/// bytes. None of operands that the launch of a product refuses, and none where a copy would be too large.
fn packs(
    operands: Operands,
    shapes: [[usize; 3]; 2],
    [batches, m, n]: [usize; 3],
    stored: [bool; 2],
    begin_at: [i64; 2],
) -> [Packs; 2] {
    let (none, bytes) = ([None; 2], operands.bytes());
    let [[za, ..], [zb, ..]] = shapes;
    let number = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
    let shapes = shapes.map(|shape| shape.map(number));
    let k = shapes[0][if stored[0] { 1 } else { 2 }];
    let wanted = stored_extents([number(m), number(n), k], stored);
    let agree = shapes.iter().zip(wanted).all(|([_, rows, cols], wanted)| [*rows, *cols] == wanted);
    if !agree
        || [za, zb].iter().any(|z| *z != 1 && *z != batches)
        || [number(batches), number(m), number(n), k].contains(&0)
    {
        return [none; 2];
    }
    let rows = [0, 1].map(|at| Pack::of_rows(shapes[at][2], bytes, begin_at[at]));
    let ways = match operands {
        Operands::Copied { .. } => [rows, none],
        Operands::Tf32 { fetched: false } if tf32::takes(stored) => [rows, none],
        Operands::Tf32 { fetched: false } => [[Some(Pack::Transposed), rows[1]], [rows[0], Some(Pack::Transposed)]],
        Operands::Fetched | Operands::Full | Operands::Tf32 { fetched: true } => [none; 2],
    };
    let fits = |at: usize, pack: Pack| {
        let [matrices, rows, cols] = shapes[at];
        let (height, width) = pack.extents([rows, cols]);
        let copied = matrices.saturating_mul(height).saturating_mul(pack::pitch(width, bytes)).saturating_mul(bytes);
        copied <= pack::MOST_BYTES && matrices <= MOST_BLOCKS && up(rows, COPIED_ROWS) <= MOST_BLOCKS
    };
    ways.map(|packs| {
        let fit = packs.iter().enumerate().all(|(at, pack)| pack.is_none_or(|pack| fits(at, pack)));
        if fit { packs } else { none }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::batched::definitions;
    use tile_runtime::kernel::Dtype;

    const LAYOUTS: [[bool; 2]; 4] = [[false, true], [false, false], [true, true], [true, false]];

    fn shape(batches: i64, [m, n, k]: [i64; 3], stored: [bool; 2], operands: Operands) -> Shape {
        Shape { batches, m, n, k, stored, operands, splits: true, matrices: [batches; 2], packs: [[None; 2]; 2] }
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
                for (Choice { tile: (bm, bn, bk, stages, threads, cx, cy), parts, .. }, _) in all {
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
