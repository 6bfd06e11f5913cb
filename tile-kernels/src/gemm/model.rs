//! How long a launch of one of the kernels takes: a model of the machine with a few parameters, which are fitted to measurements.
//!
//! What the model knows of a launch is [`Work`]: its tiles, what a block multiplies and fetches, how K is split. The time is a fixed part
//! and, over it, whichever is longer of
//!
//! - **products**: waves of tiles, each of some steps along K. A step is as long as its products, as what it brings into the multiprocessor,
//!   or as the wait for it; a part of the last wave counts for as many multiprocessors as work in it, since the others leave it power;
//! - **memory**: the operands and the result at the rate that memory gives to the bytes under way. Rows of tiles read a part of the
//!   weights again;
//!
//! and what it takes to add the sums of a K that is split. They are joined by a norm, since near where two are equal both are felt.
//! `examples/gemm_fit.rs` finds the parameters from what `bench/random_shapes.py` measured, and prints what is left over.

/// Multiprocessors of the device that the parameters were fitted on.
pub const MULTIPROCESSORS: i64 = 132;

/// A launch as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Products of this shape in one launch.
    pub batches: i64,
    /// Rows, columns and depth of the product.
    pub shape: [i64; 3],
    /// Whether `a` is stored as K x M, `b` as N x K.
    pub stored: [bool; 2],
    /// Rows and columns of a tile.
    pub tile: [i64; 2],
    /// Elements along K of all stages of a block's ring.
    pub depth: i64,
    /// Threads that multiply a tile.
    pub threads: i64,
    /// Tiles beside one another that share what they fetch of `a`, and tiles below one another that share what they fetch of `b`.
    pub cluster: [i64; 2],
    /// Blocks of a cluster that add their sums.
    pub parts: i64,
    /// Sums that the last block to arrive adds.
    pub slots: i64,
}

/// The parameters, in us, bytes and operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// us from the launch to the first product and from the last one to the end.
    pub fixed: f64,
    /// Operations a us of one multiprocessor: where one warpgroup multiplies a tile, where two take turns at tiles of their own, and
    /// where they share a tile.
    pub products: [f64; 3],
    /// us of 64 along K that no tile falls below, of one warpgroup and of several.
    pub step: [f64; 2],
    /// Bytes a us that come into one multiprocessor.
    pub port: f64,
    /// Bytes a us that the second-level cache gives to all of them.
    pub cache: f64,
    /// The part by which rows that begin between lines of 128 bytes take longer to come into a multiprocessor, and from the second-level
    /// cache, which is asked for two lines a row.
    pub between: [f64; 2],
    /// us of a step where all multiprocessors ask for the same few lines: those of an `a` that is stored as K x M and has few rows.
    pub thin: f64,
    /// The part by which a step is longer whose `a`, or `b`, is stored across K.
    pub across: [f64; 2],
    /// The part by which products are faster in a cluster, which moves fewer bytes: what they do not take of the power is left for products.
    pub pair: f64,
    /// us between two tiles of a block.
    pub turn: f64,
    /// Bytes a us that one block stores.
    pub store: f64,
    /// The part of the last wave that counts whole, however few work in it.
    pub last: f64,
    /// Bytes a us that memory gives at most.
    pub memory: f64,
    /// Bytes that all multiprocessors must have asked for to read at two thirds of that.
    pub under_way: f64,
    /// The part of the weights that each further row of tiles reads again.
    pub again: f64,
    /// us for a sum to be put aside and its arrival to be known.
    pub arrive: f64,
    /// Bytes a us that the last block to arrive adds.
    pub adds: f64,
    /// Bytes a us that a cluster adds.
    pub shares: f64,
    /// The power of the norm that joins what runs at the same time.
    pub power: f64,
    /// The expected us from which on a launch is slower where it may start before the previous one is done.
    pub early: f64,
}

impl Parameters {
    /// The parameters of an H200, fitted to 338 shapes of operands of 16 bits that TMA fetches: 190 of three seeds, 29 of the book
    /// (`bench/results/gemm-random-fit-h200.json`), 64 more, of which 27 had been slow as called (`bench/results/gemm-split-fit-h200.json`), and
    /// 55 for clusters of two axes, of which 23 had been slow (`bench/results/gemm-cluster-fit-h200.json`). The choice takes 3.5% longer than the
    /// best one in geometric mean over them, and 3.8% over the last 55. What is expected of operands that threads copy, of copies in front of a
    /// product and of tf32 takes the rates of memory from here; what it has beside was fitted to that.
    /// `early` is the threshold that makes the launches of the first 190 shapes as called shortest in the mean; from 12 to 60 us that differs
    /// by 1%.
    pub const H200: Parameters = Parameters {
        fixed: 2.958,
        products: [6.866e6, 8.338e6, 7.62e6],
        step: [0.03935, 0.1762],
        port: 0.1659e6,
        cache: 20.11e6,
        between: [0.5421, 0.9394],
        thin: 0.3963,
        across: [0.004228, 0.03098],
        pair: 0.05592,
        turn: 0.2073,
        store: 0.04158e6,
        last: 0.8514,
        memory: 4.435e6,
        under_way: 6.938e6,
        again: 0.02937,
        arrive: 2.812,
        adds: 0.03321e6,
        shares: 0.01561e6,
        power: 2.598,
        early: 22.0,
    };

    /// How many a fit changes.
    pub const COUNT: usize = 24;

    /// All of them in one row, for a fit.
    pub fn to_array(&self) -> [f64; Parameters::COUNT] {
        let Parameters { fixed, products: [p0, p1, p2], step: [s0, s1], port, cache, across: [a, b], .. } = *self;
        let Parameters { between: [b0, b1], thin, .. } = *self;
        let Parameters { pair, turn, store, last, memory, under_way, again, arrive, adds, shares, power, .. } = *self;
        [
            fixed, p0, p1, p2, s0, s1, port, cache, b0, b1, thin, a, b, pair, turn, store, last, memory, under_way,
            again, arrive, adds, shares, power,
        ]
    }

    /// What [`Parameters::to_array`] made, within what can be meant.
    pub fn from_array(row: [f64; Parameters::COUNT]) -> Parameters {
        let [fixed, p0, p1, p2, s0, s1, port, cache, b0, b1, thin, a, b, pair, turn, store, last, rest @ ..] = row;
        let [memory, under_way, again, arrive, adds, shares, power] = rest;
        Parameters {
            fixed,
            products: [p0, p1, p2],
            step: [s0, s1],
            port,
            cache,
            between: [b0, b1].map(|part| part.clamp(0.0, 1.5)),
            thin,
            across: [a, b].map(|part| part.clamp(0.0, 1.0)),
            pair: pair.clamp(0.0, 0.3),
            turn,
            store,
            last: last.clamp(0.0, 1.0),
            memory: memory.clamp(3e6, 4.8e6),
            under_way,
            again: again.clamp(0.0, 1.0),
            arrive,
            adds,
            shares,
            power: power.clamp(1.0, 12.0),
            ..Parameters::H200
        }
    }
}

/// `a` divided by `b`, rounded up: as many tiles of `b` cover `a` elements.
pub(super) fn up(a: i64, b: i64) -> i64 {
    (a.max(0) + b - 1) / b.max(1)
}

/// Multiprocessors that work at once on clusters of so many blocks. An H200's are grouped unevenly, and in what a group has beyond a multiple
/// of four no cluster of four or eight fits (`docs/hopper.md`, "Clusters").
fn at_once(cluster: i64) -> i64 {
    if cluster < 4 { MULTIPROCESSORS } else { 120 }
}

impl Work {
    /// Blocks that there are to run, of which every multiprocessor has one at a time. A cluster at the edge has tiles without elements,
    /// which take as long as others.
    pub fn blocks(&self) -> i64 {
        let ([m, n, _], [rows, cols]) = (self.shape, self.tile);
        let [cx, cy] = self.cluster;
        let tiles = up(up(m, rows), cy) * cy * up(up(n, cols), cx) * cx * self.parts * self.slots;
        tiles.saturating_mul(self.batches.max(0))
    }

    /// us that the launch is expected to take.
    pub fn us(&self, p: &Parameters) -> f64 {
        let ([m, n, k], [rows, cols]) = (self.shape, self.tile);
        let blocks = self.blocks().max(1);
        let at_once = at_once(self.cluster[0] * self.cluster[1] * self.parts);
        let waves = up(blocks, at_once);
        let last = blocks - (waves - 1) * at_once;
        let filled = (waves - 1) as f64 + p.last + (1.0 - p.last) * last as f64 / MULTIPROCESSORS as f64;
        let steps = up(k, 64 * self.parts * self.slots) as f64;

        // `wgmma` multiplies 64 rows at a time.
        let operations = (2 * rows.max(64) * cols * 64) as f64;
        let turns = self.threads == 128 && rows * cols >= 128 * 128;
        let kind = if turns { 1 } else { 2 * usize::from(self.threads > 128) };
        let [a_across, b_across] = [self.stored[0], !self.stored[1]];
        let across = 1.0 + p.across[0] * f64::from(a_across) + p.across[1] * f64::from(b_across);
        let alone = if self.cluster != [1, 1] { 1.0 - p.pair } else { 1.0 };
        let products = operations / p.products[kind] * across * alone;
        // Rows as they lie in memory.
        let pitch = |across: bool, along: i64| if across { along } else { k };
        let fetched =
            |rows: i64, pitch: i64, part: f64| (rows * 128) as f64 * (1.0 + part * f64::from(pitch % 64 != 0));
        // Of an operand across K a row of the tile is fetched whole for each step along K, however little of it there is.
        let a_rows = if a_across { rows } else { m.min(rows) };
        let b_rows = if b_across { cols } else { n.min(cols) };
        let bytes = |part| (fetched(a_rows, pitch(a_across, m), part), fetched(b_rows, pitch(b_across, n), part));
        let [(a_port, b_port), (a_cache, b_cache)] = p.between.map(bytes);
        let port = (a_port + b_port) / p.port;
        let working = blocks.min(at_once) as f64;
        let [beside, below] = self.cluster.map(|blocks| blocks as f64);
        let cache = (a_cache / beside + b_cache / below) * working / p.cache;
        // Few rows that lie side by side for each k are few lines, of which every multiprocessor asks for each row by itself.
        let few = if a_across { (64 - m).max(0) as f64 / 64.0 } else { 0.0 };
        let thin = p.thin * few * working / MULTIPROCESSORS as f64;
        let step = norm(&[products, port, cache, thin, p.step[usize::from(kind > 0)]], p.power);
        let stored = (rows.min(m) * cols.min(n) * 2) as f64 / p.store;
        // Where two tiles take turns, one is stored while the other is multiplied.
        let between = if turns { 0.0 } else { (waves - 1) as f64 * (p.turn + stored) };
        let compute = filled * steps * step + between + stored;

        let asked = ((m.min(rows) + n.min(cols)) * self.depth * 2) as f64 * working;
        let again = p.again * ((up(m, rows) as f64 / below) - 1.0).max(0.0);
        let bytes = (((m * k + n * k + m * n) * 2) as f64 + (n * k * 2) as f64 * again) * self.batches as f64;
        let read = bytes / (p.memory * (1.0 - (-asked / p.under_way).exp())).max(1.0);

        let sums = (rows.min(m) * cols.min(n) * 4) as f64;
        let shared = (self.parts - 1).max(0) as f64 * sums / p.shares;
        let added = if self.slots > 1 { p.arrive + self.slots as f64 * sums / p.adds } else { 0.0 };
        p.fixed + norm(&[compute, read], p.power) + shared + added
    }
}

/// As long as the longest of them, and longer where others are nearly as long.
pub(super) fn norm(all: &[f64], power: f64) -> f64 {
    let most = all.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return 0.0;
    }
    most * all.iter().map(|one| (one / most).max(0.0).powf(power)).sum::<f64>().powf(1.0 / power)
}
