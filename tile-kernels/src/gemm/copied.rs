//! How long a product takes whose operands every thread copies: f32, and whatever TMA does not fetch.
//!
//! Several blocks share a multiprocessor. One alone takes as long for a step along K as its own instructions wait for one another; of
//! several, steps take as long as their instructions do together. Each tile has these two times ([`Speed`]), and each kind of operand what
//! its tiles take beside ([`Beside`]). `bench/fit_copied.py` fitted them together to products by every choice on an H200, those of 2026-11-30 by the present kernels: of f32 to 6,151 launches, of tf32
//! to 616, of 16 bits that TMA does not fetch to 521. The times expected are 0.5 to 1.95 times those measured, 12% off in the quadratic mean for f32, 15% for tf32 and 14% for 16 bits. The choices expected to be the
//! fastest took 4.1%, 3.9% and 3.4% longer than the fastest ones in geometric mean over these products; each fifth of them by constants that were fitted to the others, 4.4%, 4.1% and 3.3%.
//!
//! Of f32 there are enough launches for [trees](super::residual) of what is left over: by those of other products choices lose 2.5% instead of 4.7% (`bench/fit_copied.py --trees`).

use super::model::{MULTIPROCESSORS, norm, up};

/// What is multiplied, and how it comes into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// 16 bits, fetched by TMA.
    Fetched,
    /// 16 bits, copied by threads.
    Copied {
        /// Bytes of a piece: 16, 8, 4 or an element's 2.
        width: i64,
    },
    /// f32, multiplied as it is.
    Full,
    /// f32, multiplied as tf32.
    Tf32 {
        /// Whether TMA fetches it and `wgmma` multiplies.
        fetched: bool,
    },
}

impl Operands {
    /// Bytes of an element.
    pub fn bytes(self) -> i64 {
        match self {
            Operands::Fetched | Operands::Copied { .. } => 2,
            Operands::Full | Operands::Tf32 { .. } => 4,
        }
    }
}

/// How fast the blocks of a tile are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// us of a step along K where a multiprocessor has one block.
    pub alone: f64,
    /// us that each block adds to a step where it has many.
    pub shared: f64,
    /// Blocks that fit on a multiprocessor, by their registers.
    pub blocks: i64,
    /// us that the last block takes to add one part's sum.
    pub add: f64,
    /// What all tiles of these operands take beside that.
    pub beside: Beside,
}

/// What a launch takes beside its steps along K.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// us from the launch to the first step and from the last one to the end.
    pub fixed: f64,
    /// us until the first step of a tile after another one's last.
    pub fill: f64,
    /// Bytes a us that one block stores.
    pub store: f64,
    /// us for sums to be put aside and their arrival to be known.
    pub arrive: f64,
    /// us until a block that is the only one of its tile knows that it is.
    pub only: f64,
    /// us until a second launch adds the first sum.
    pub second: f64,
}

const FULL: Beside = Beside { fixed: 1.967, fill: 2.478, store: 9639.0, arrive: 1.702, only: 0.926, second: 2.611 };
const TF32: Beside = Beside { fixed: 1.982, fill: 0.585, store: 13_180.0, arrive: 1.127, only: 0.215, second: 1.77 };
const HALVES: Beside =
    Beside { fixed: 2.191, fill: 0.0519, store: 35_950.0, arrive: 1.558, only: 0.112, second: 1.948 };

impl Speed {
    /// That of a tile (rows, columns, a step along K, slots of shared memory, threads) of operands that are stored so
    /// (`[a_transposed, b_transposed]`).
    pub fn of(
        operands: Operands,
        (rows, cols, step, _, threads): (i64, i64, usize, usize, usize),
        [a_transposed, b_transposed]: [bool; 2],
    ) -> Speed {
        let (beside, [alone, shared, add], blocks) = match operands {
            Operands::Full => {
                // The last block to arrive at a tile of 128 x 128 adds nothing. Warps of few rows wait for a `b` that lies along K, whose columns are in as
                // many rows of shared memory.
                let times = match (rows, cols, b_transposed) {
                    (128, 128, _) => [0.785, 0.774, 0.0],
                    (128, ..) => [0.406, 0.4074, 0.872],
                    (64, 128, _) => [0.372, 0.4016, 0.727],
                    (64, ..) => [0.438, 0.4246, 0.719],
                    (32, 128, true) => [0.469, 0.5159, 0.398],
                    (32, 128, false) => [0.391, 0.4169, 0.367],
                    (32, _, true) => [0.453, 0.297, 0.638],
                    (32, _, false) => [0.441, 0.2319, 0.442],
                    (_, 128, true) => [0.44, 0.2319, 0.396],
                    (_, 128, false) => [0.223, 0.1348, 0.328],
                    (.., true) => [0.408, 0.2461, 0.422],
                    (.., false) => [0.248, 0.1402, 0.189],
                };
                // A thread has at most 255 registers for 16 x 8 elements, and 128 for 8 x 8.
                let registers = if rows * cols > 64 * threads as i64 { 256 } else { 128 };
                (FULL, times, (65_536 / registers / threads as i64).min(8))
            }
            Operands::Tf32 { .. } if rows < 64 => (TF32, [0.242, 0.1611, 0.169], 4),
            Operands::Tf32 { .. } if rows == 64 => (TF32, [0.226, 0.1462, 1.669], 4),
            Operands::Tf32 { .. } => (TF32, [0.472, 0.5102, 0.0], 2),
            // Each element has an instruction that reads it and one that puts it into shared memory.
            Operands::Copied { width: 2 } if rows < 64 => (HALVES, [0.803, 0.2994, 0.169], 4),
            // Steps of 64, by twice as many threads.
            Operands::Copied { width: 2 } if rows == 64 && step == 64 => (HALVES, [1.193, 0.9388, 0.0], 2),
            // They wait in registers, twice as many where both operands have to be read across their rows or along them.
            Operands::Copied { width: 2 } if rows == 64 => {
                (HALVES, [1.005, 0.4753, 0.942], if a_transposed == b_transposed { 2 } else { 4 })
            }
            Operands::Copied { width: 2 } => (HALVES, [1.323, 1.6, 0.0], 1),
            Operands::Fetched | Operands::Copied { .. } if rows < 64 => (HALVES, [0.101, 0.1505, 0.118], 4),
            Operands::Fetched | Operands::Copied { .. } if rows == 64 && step == 64 => {
                (HALVES, [0.607, 0.5552, 0.0], 2)
            }
            Operands::Fetched | Operands::Copied { .. } if rows == 64 => (HALVES, [0.285, 0.2899, 1.68], 4),
            // Of earlier kernels: these products had two launches of it.
            Operands::Fetched | Operands::Copied { .. } => (HALVES, [0.613, 0.9, 0.0], 2),
        };
        Speed { alone, shared, blocks, add, beside }
    }
}

/// Who adds the sums of the parts of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Nobody: a block has all of K, and stores the result.
    Nobody,
    /// The last block to arrive at a tile; blocks count who that is, even where there is one.
    LastArriver,
    /// A second launch.
    SecondLaunch,
}

/// A launch as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    /// Rows, columns and depth of the product.
    pub shape: [i64; 3],
    /// How operands are stored: `[a_transposed, b_transposed]`.
    pub stored: [bool; 2],
    /// Rows and columns of a tile.
    pub tile: [i64; 2],
    /// Elements of a step along K.
    pub step: i64,
    /// Steps that are in shared memory at once.
    pub stages: i64,
    /// Parts of K: sums that the last block to arrive adds.
    pub slots: i64,
    /// Bytes of an element.
    pub bytes: i64,
    /// Who adds these sums.
    pub added: Added,
    /// How fast its blocks are.
    pub speed: Speed,
}

/// Bytes a us that memory of an H200 gives at most, and bytes that all multiprocessors must have asked for to read at two thirds of that.
pub(super) const MEMORY: [f64; 2] = [4.435e6, 6.938e6];

/// The part of `b` that each further row of tiles reads again.
const AGAIN: f64 = 0.02937;

/// us for each further sum of an element that a second launch adds, and bytes of sums a us, written and read: those of the products that TMA
/// fetches ([`Parameters`](super::model::Parameters)).
const SUMS: [f64; 2] = [0.0797, 3.502e6];

/// The power of the norm that joins products and memory.
const POWER: f64 = 2.598;

/// What trees of f32 ask of a launch.
pub const FEATURES: [&str; 21] = [
    "m",
    "n",
    "k",
    "a_across",
    "b_across",
    "rows",
    "cols",
    "step",
    "slots",
    "launches",
    "counted",
    "waves",
    "tail",
    "rest",
    "steps",
    "us",
    "used_rows",
    "used_cols",
    "high",
    "wide",
    "rate",
];

impl Copied {
    /// The values of [`FEATURES`] for a launch that is expected to take so many us.
    pub fn features(&self, us: f64) -> [f64; FEATURES.len()] {
        let Copied { shape: [m, n, k], stored: [a_across, b_along], tile: [rows, cols], step, slots, added, .. } =
            *self;
        let (high, wide) = (up(m, rows), up(n, cols));
        let waves = (high * wide * slots) as f64 / MULTIPROCESSORS as f64;
        let rounds = waves / self.speed.blocks.max(1) as f64;
        let flag = |holds: bool| f64::from(u8::from(holds));
        [
            m as f64,
            n as f64,
            k as f64,
            flag(a_across),
            flag(!b_along),
            rows as f64,
            cols as f64,
            step as f64,
            slots as f64,
            1.0 + flag(added == Added::SecondLaunch),
            flag(added == Added::LastArriver),
            // Blocks of a multiprocessor, the part of the last of them that is empty, and the part that is full of the last round of as many as fit.
            waves,
            waves.ceil() - waves,
            rounds.fract(),
            k as f64 / (step * slots).max(1) as f64,
            us,
            // The parts of the tiles that are of the product.
            m as f64 / (high * rows).max(1) as f64,
            n as f64 / (wide * cols).max(1) as f64,
            high as f64,
            wide as f64,
            // us for each operation, of the fastest that a device multiplies.
            us / (2.0 * m as f64 * n as f64 * k as f64 / 6.7e7).max(1e-9),
        ]
    }

    /// us that the launch is expected to take on an H200.
    pub fn us(&self) -> f64 {
        let ([m, n, k], [rows, cols]) = (self.shape, self.tile);
        let (alone, shared, fit) = (self.speed.alone, self.speed.shared, self.speed.blocks.max(1));
        let blocks = up(m, rows).saturating_mul(up(n, cols)).saturating_mul(self.slots).max(1);
        let steps = up(up(k, self.step), self.slots) as f64;
        let Beside { fixed, fill, store, arrive, only, second } = self.speed.beside;
        let written = if self.added == Added::SecondLaunch { 4 } else { self.bytes };
        let stored = (rows.min(m) * cols.min(n) * written) as f64 / store;
        // Of the multiprocessor that has most: rounds of as many as fit, and the rest.
        let most = up(blocks, MULTIPROCESSORS);
        let steps_of = |blocks: i64| if blocks == 1 { alone } else { alone.max(blocks as f64 * shared) };
        let round = |blocks: i64| if blocks > 0 { steps * steps_of(blocks) + stored } else { 0.0 };
        let (rounds, rest) = (most / fit, most % fit);
        let turns = (rounds + i64::from(rest > 0) - 1).max(0) as f64;
        let compute = rounds as f64 * round(fit) + round(rest) + turns * fill;

        let working = blocks.min(fit * MULTIPROCESSORS) as f64;
        let asked = ((m.min(rows) + n.min(cols)) * self.step * (self.stages - 1).max(1) * self.bytes) as f64 * working;
        let again = AGAIN * (up(m, rows) - 1) as f64;
        let [memory, under_way] = MEMORY;
        let bytes = ((m * k + n * k + m * n) * self.bytes) as f64 + (n * k * self.bytes) as f64 * again;
        let read = bytes / (memory * (1.0 - (-asked / under_way).exp())).max(1.0);

        let [each, sums] = SUMS;
        let added = match self.added {
            Added::Nobody => 0.0,
            Added::LastArriver if self.slots > 1 => arrive + self.slots as f64 * self.speed.add,
            Added::LastArriver => only,
            Added::SecondLaunch => second + self.slots as f64 * each + (self.slots * m * n * 4) as f64 / sums,
        };
        fixed + norm(&[compute, read], POWER) + added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::model::Call;
    use crate::gemm::policy::Policy;
    use crate::gemm::{Choice, Problem};

    fn choice(operands: Operands, shape: [i64; 3], stored: [bool; 2]) -> (Choice, f64) {
        Problem {
            policy: Policy::default(),
            shape,
            stored,
            splits: true,
            operands,
            call: Call::dense(shape, stored),
            accepted: true,
            vector: None,
            packs: [None; 2],
        }
        .fastest()
    }

    /// Of a call in `bench/results/gemm-random-h200.json`, 0.67 to 1.5 times the us are expected, by the tile that it took then. (What was
    /// measured by every choice is compared in `src/suites/gemm_measured.rs`.)
    #[test]
    fn calls_of_other_products() {
        let full = |rows, cols, step, threads| (Operands::Full, (rows, cols, step, 4, threads));
        let tf32 = |rows, threads| (Operands::Tf32 { fetched: false }, (rows, rows, 16, 4, threads));
        let copied = |width, rows, threads| (Operands::Copied { width }, (rows, rows, 32, 4, threads));
        for ((operands, tile), shape, us) in [
            (full(32, 64, 16, 64), [8, 136, 23_592], 738.4),
            (full(32, 64, 16, 64), [1, 1416, 320], 15.5),
            (full(32, 64, 16, 64), [33, 2040, 22_840], 796.7),
            (full(32, 64, 16, 64), [344, 64, 712], 32.3),
            (full(32, 64, 16, 64), [312, 616, 1768], 76.1),
            (full(32, 64, 16, 64), [56, 3648, 19_208], 667.3),
            (full(64, 64, 16, 128), [384, 800, 6384], 196.3),
            (full(64, 64, 16, 128), [942, 280, 2312], 90.9),
            (full(128, 128, 8, 128), [4782, 576, 576], 101.0),
            (tf32(64, 128), [119, 912, 1992], 38.7),
            (tf32(64, 128), [240, 5576, 13_648], 496.7),
            (tf32(64, 128), [560, 480, 3624], 63.6),
            (tf32(128, 256), [3288, 25_432, 2568], 3505.3),
            (tf32(128, 256), [12_752, 104, 1216], 49.1),
            (copied(2, 64, 128), [4, 692, 26_145], 850.4),
            (copied(2, 64, 128), [5, 89, 7704], 229.9),
            (copied(4, 64, 128), [660, 184, 482], 8.1),
            (copied(4, 128, 256), [1469, 11_166, 498], 137.6),
            (copied(4, 128, 256), [8361, 97, 15_702], 231.0),
        ] {
            let (rows, cols, step, stages, _) = tile;
            let [step, stages] = [step, stages].map(|size| size as i64);
            let stored = [false, true];
            let (bytes, speed) = (operands.bytes(), Speed::of(operands, tile, stored));
            let work = Copied {
                shape,
                stored,
                tile: [rows, cols],
                step,
                stages,
                slots: 1,
                bytes,
                added: Added::Nobody,
                speed,
            };
            let expected = work.us();
            let ratio = expected / us;
            assert!((0.67..1.5).contains(&ratio), "{operands:?} {tile:?} {shape:?}: {expected} us, measured {us}");
        }
    }

    /// Few tiles with a long K, which took 4 to 30 times as long as others' by one block a tile, are split; large products are not.
    #[test]
    fn what_is_split_and_what_is_not() {
        let tf32 = Operands::Tf32 { fetched: false };
        for (operands, shape, stored, measured) in [
            (Operands::Full, [8, 136, 23_592], [true, false], 738.4),
            (Operands::Full, [33, 2040, 22_840], [false, false], 796.7),
            (Operands::Full, [56, 3648, 19_208], [true, true], 667.3),
            (Operands::Full, [312, 616, 1768], [false, true], 76.1),
            (tf32, [119, 912, 1992], [false, false], 38.7),
            (tf32, [560, 480, 3624], [true, true], 63.6),
            (Operands::Copied { width: 2 }, [4, 692, 26_145], [false, true], 850.4),
            (Operands::Copied { width: 2 }, [5, 89, 7704], [true, false], 229.9),
        ] {
            let (choice, us) = choice(operands, shape, stored);
            assert!(choice.parts.is_some_and(|parts| parts.slots > 1), "{operands:?} {shape:?}: {choice}");
            assert!(us < 0.6 * measured, "{operands:?} {shape:?}: {us} us by {choice}");
        }
        for (operands, shape) in [
            (Operands::Full, [4096, 4096, 4096]),
            (Operands::Full, [64, 64, 64]),
            (tf32, [4096, 4096, 4096]),
            (Operands::Copied { width: 4 }, [4096, 4096, 4096]),
        ] {
            let (choice, _) = choice(operands, shape, [false, true]);
            assert!(choice.parts.is_none_or(|parts| parts.slots == 1), "{operands:?} {shape:?}: {choice}");
        }
    }
}
