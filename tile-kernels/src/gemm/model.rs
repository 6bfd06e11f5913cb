//! How long a launch of one of the kernels takes: a model of the machine with a few parameters, which are fitted to measurements
//! ([`policy`](super::policy)).
//!
//! What the model knows of a launch is [`Work`]: its tiles, what a block multiplies and fetches, how K is split. The time is a fixed part
//! and, over it, whichever is longer of
//!
//! - **products**: waves of tiles, each of some steps along K. A step is as long as its products, as what it brings into the multiprocessor
//!   and out of its shared memory, or as the wait for it. What all blocks ask of the second-level cache is less where neighbours that run in
//!   step ask for the same lines, which they do for as long as the operands stay in the cache; a cluster's blocks ask once for what they
//!   share, but wait for one another. Each instance has its own speed beside that;
//! - **memory**: the operands and the result at the rate that memory gives to the bytes under way. The tiles that run at once read what they
//!   share once; of that, a later wave of the same rows reads `a` again, and other rows `b`, where it did not stay in the cache;
//!
//! and what it takes to add the sums of a K that is split. They are joined by a norm, since near where two are equal both are felt.
//! `examples/gemm_fit.rs` finds the parameters from what `bench/random_shapes.py` measured, and prints what is left over.

use super::choice::TILES;
use super::split::{CLUSTERS, EXCHANGE, PARTIAL, SLOTS};

/// Multiprocessors of the devices that the parameters were fitted on.
pub const MULTIPROCESSORS: i64 = 132;

/// us of a launch below which it gains by starting before the previous one is done, whatever it is. This and the next two are of 612 launches on an H100
/// and an H200 that were timed both ways (`dependent` in `bench/results/gemm-choice-fit2-h200.json`, `gemm-choice-models-h100.json` and
/// `gemm-choice-heldout-h100.json`): by [`Work::starts_early`] they take 8.0% less time than without in geometric mean, by the better of both ways for each 8.3%, and none takes
/// more than 1.2% longer.
const SHORT: f64 = 12.0;

/// us of a launch of blocks that are in no cluster and read `b` once, below which it gains although it leaves multiprocessors idle.
pub(super) const ALONE: f64 = 22.0;

/// Multiprocessors that a launch uses from which on it is taken to leave none idle.
const FULL: i64 = 116;

/// us that a launch gains for sure by starting before the previous one is done, where it does: half of what those launches gained in the mean, so that also a call
/// with nothing in front of it has a choice that is near the best.
const GAINED: f64 = 0.7;

/// A launch as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
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
    /// Sums of a tile that are put aside.
    pub slots: i64,
    /// Launches: the last block to arrive at a tile adds these sums, or a second launch does.
    pub launches: i64,
    /// Whether each block of a cluster adds a part of the tile, rather than the first one all of it.
    pub exchanges: bool,
    /// The instance's place among those that have a pace; none of one that is not among them.
    pub instance: Option<usize>,
    /// What is known of the call beside the product.
    pub call: Call,
}

/// What is known of a call beside the product, and matters to [`Trees`](super::residual::Trees) alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Elements from a row of `a`, and of `b`, as they are stored, to the next.
    pub pitches: [i64; 2],
    /// Whether results go through the multi-function unit: GELU and SiLU.
    pub special: bool,
}

impl Call {
    /// That of dense operands, which are stored so, and of an epilogue without such a function.
    pub fn dense(shape: [i64; 3], stored: [bool; 2]) -> Call {
        Call { pitches: super::stored_extents(shape, stored).map(|[_, width]| width), special: false }
    }
}

/// The parameters, in us, bytes and operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// us from the launch to the first product and from the last one to the end.
    pub fixed: f64,
    /// us for each doubling of the blocks of a cluster, which begin together.
    pub gather: f64,
    /// Operations a us of one multiprocessor: where one warpgroup multiplies a tile, where two take turns at tiles of their own, and
    /// where they share a tile.
    pub products: [f64; 3],
    /// us of 64 along K that no tile falls below, of one warpgroup and of several.
    pub step: [f64; 2],
    /// us of a step for the blocks of a cluster to wait until a slot is free in all of them.
    pub agree: f64,
    /// Bytes a us that come into one multiprocessor.
    pub port: f64,
    /// Bytes a us that one shared memory takes in and gives to `wgmma`.
    pub shared: f64,
    /// Bytes a us that the second-level cache gives to all of them.
    pub cache: f64,
    /// The part by which rows take longer to come into a multiprocessor, and from the second-level cache, that begin between lines of 128
    /// bytes, of which each piece of them is then in two; and that begin between sectors of 32 bytes too, of which it is in five.
    pub lines: [f64; 2],
    /// See `lines`.
    pub sectors: [f64; 2],
    /// The part of what is asked of the second-level cache that a neighbour has just asked for, while few bytes of operands have passed
    /// through it, and how many bytes are few.
    pub merged: f64,
    /// See `merged`.
    pub fresh: f64,
    /// us of a step where all multiprocessors ask for the same few lines: those of an `a` that is stored as K x M and has few rows.
    pub thin: f64,
    /// The part by which a step is longer whose `a`, or `b`, is stored across K.
    pub across: [f64; 2],
    /// us between two tiles of a block.
    pub turn: f64,
    /// Bytes a us that one block stores.
    pub store: f64,
    /// The part of a wave that counts whole, however few multiprocessors work in it: the others leave it power.
    pub last: f64,
    /// Bytes a us that memory gives at most.
    pub memory: f64,
    /// Bytes that all multiprocessors must have asked for to read at two thirds of that.
    pub under_way: f64,
    /// Bytes of operands of which a third stays in the second-level cache.
    pub kept: f64,
    /// How often a wave reads again what did not stay.
    pub again: f64,
    /// Steps whose products, or bytes, run beside nothing: at the begin and the end of a block.
    pub ramp: f64,
    /// us for a sum to be put aside and its arrival to be known.
    pub arrive: f64,
    /// Bytes a us that the last block to arrive adds.
    pub adds: f64,
    /// Bytes a us that a cluster adds.
    pub shares: f64,
    /// us of a second launch that adds nothing.
    pub second: f64,
    /// us that its threads wait for each sum.
    pub each: f64,
    /// Bytes a us of the sums that a second launch adds.
    pub sums: f64,
    /// The powers of the norms that join what runs at the same time: in a step, and over a launch.
    pub powers: [f64; 2],
    /// How long a step of each instance takes, as a part of what all of the above expects, in the order of [`Choice::instances`].
    ///
    /// [`Choice::instances`]: super::Choice::instances
    pub pace: [f64; INSTANCES],
    /// How long each instance takes to read from memory, likewise: boxes of other rows and columns are other pages.
    pub reach: [f64; INSTANCES],
}

/// Instances that have a pace.
pub const INSTANCES: usize = TILES.len() + CLUSTERS.len() + SLOTS.len() + PARTIAL.len() + EXCHANGE.len();

/// Parameters of [`Parameters`] that all instances have in common, which are in front of the paces.
pub const COMMON: usize = 36;

impl Parameters {
    /// How many a fit changes.
    pub const COUNT: usize = COMMON + 2 * INSTANCES;

    /// All of them in one row, for a fit.
    pub fn to_array(&self) -> [f64; Parameters::COUNT] {
        let Parameters { fixed, gather, products: [p0, p1, p2], step: [s0, s1], agree, port, shared, cache, .. } =
            *self;
        let Parameters { lines: [l0, l1], sectors: [b0, b1], merged, fresh, thin, across: [a, b], turn, .. } = *self;
        let Parameters { store, last, memory, under_way, kept, again, ramp, arrive, adds, shares, .. } = *self;
        let Parameters { second, each, sums, .. } = *self;
        let [within, over] = self.powers;
        let common: [f64; COMMON] = [
            fixed, gather, p0, p1, p2, s0, s1, agree, port, shared, cache, l0, l1, b0, b1, merged, fresh, thin, a, b,
            turn, store, last, memory, under_way, kept, again, ramp, arrive, adds, shares, second, each, sums, within,
            over,
        ];
        let mut row = [0.0; Parameters::COUNT];
        for (to, from) in row.iter_mut().zip(common.into_iter().chain(self.pace).chain(self.reach)) {
            *to = from;
        }
        row
    }

    /// What [`Parameters::to_array`] made, within what can be meant.
    pub fn from_array(row: [f64; Parameters::COUNT]) -> Parameters {
        let [fixed, gather, p0, p1, p2, s0, s1, agree, port, shared, cache, l0, l1, b0, b1, merged, fresh, rest @ ..] =
            row;
        let [thin, a, b, turn, store, last, memory, under_way, kept, again, ramp, arrive, adds, shares, rest @ ..] =
            rest;
        let [second, each, sums, within, over, rest @ ..] = rest;
        let (paces, reaches) = rest.split_at(INSTANCES);
        let (mut pace, mut reach) = ([1.0; INSTANCES], [1.0; INSTANCES]);
        for (to, from) in pace.iter_mut().zip(paces).chain(reach.iter_mut().zip(reaches)) {
            *to = from.clamp(0.5, 2.0);
        }
        Parameters {
            fixed,
            gather,
            products: [p0, p1, p2],
            step: [s0, s1],
            agree,
            port,
            shared,
            cache,
            lines: [l0, l1].map(|part| part.clamp(0.0, 4.0)),
            sectors: [b0, b1].map(|part| part.clamp(0.0, 6.0)),
            merged: merged.clamp(0.0, 0.95),
            fresh,
            thin,
            across: [a, b].map(|part| part.clamp(0.0, 1.0)),
            turn,
            store,
            last: last.clamp(0.0, 1.0),
            memory: memory.clamp(1e6, 8e6),
            under_way,
            kept,
            again: again.clamp(0.0, 3.0),
            ramp,
            arrive,
            adds,
            shares,
            second,
            each,
            sums,
            powers: [within, over].map(|power| power.clamp(1.0, 12.0)),
            pace,
            reach,
        }
    }
}

/// `a` divided by `b`, rounded up: as many tiles of `b` cover `a` elements.
pub(super) fn up(a: i64, b: i64) -> i64 {
    (a.max(0) + b - 1) / b.max(1)
}

/// Multiprocessors that work at once on clusters of so many blocks. They are grouped unevenly, and in what a group has beyond a multiple
/// of four no cluster of four or eight fits (`docs/hopper.md`, "Clusters").
pub(super) fn at_once(cluster: i64) -> i64 {
    if cluster < 4 { MULTIPROCESSORS } else { 120 }
}

/// Whether a tile of so many rows is the transpose of one that instructions of 64 rows multiply, as [`kernel::gemm`](fn@super::kernel::gemm)
/// has it. Of tiles of fewer than 64 rows some are too: the model takes no notice, since their products are not what limits them.
fn is_turned(rows: i64) -> bool {
    rows > 64 && rows % 64 != 0
}

/// Rows of tiles of a panel, which the tiles that run at once share: as [`kernel::gemm`](fn@super::kernel::gemm) has it.
fn panel([rows, cols]: [i64; 2], m: i64) -> i64 {
    match (rows, cols) {
        (128, 128) => 4,
        (128, 129..) if m <= 4096 => 16,
        _ => 8,
    }
}

impl Work {
    /// A launch that does not split K, by an instance without a pace of its own.
    pub(super) fn unsplit(
        shape: [i64; 3],
        stored: [bool; 2],
        tile: [i64; 2],
        depth: i64,
        threads: i64,
        cluster: [i64; 2],
    ) -> Work {
        let (parts, slots, launches, exchanges, instance) = (1, 1, 1, false, None);
        let call = Call::dense(shape, stored);
        Work { shape, stored, tile, depth, threads, cluster, parts, slots, launches, exchanges, instance, call }
    }

    /// Blocks that there are to run, of which every multiprocessor has one at a time. A cluster at the edge has tiles without elements,
    /// which take as long as others.
    pub fn blocks(&self) -> i64 {
        let ([m, n, _], [rows, cols]) = (self.shape, self.tile);
        let [cx, cy] = self.cluster;
        up(up(m, rows), cy) * cy * up(up(n, cols), cx) * cx * self.parts * self.slots
    }

    /// Blocks that run at once. Those that take tile after tile are no more than the waves need, rounded up to fours
    /// (`tile_ir::lower::raster`); of the others as many begin as there is room for.
    fn working(&self) -> i64 {
        let together = self.together().max(1);
        let (blocks, room) = (self.blocks().max(1), at_once(together));
        if self.is_split() {
            return blocks.min(room);
        }
        let (clusters, room) = (blocks / together, room / together);
        let even = up(clusters, up(clusters, room));
        let by = (4 / together).max(1);
        (up(even, by) * by).min(room) * together
    }

    /// Whether a launch that takes so many us gains by starting before the previous one is done.
    ///
    /// Its blocks then begin on multiprocessors that have no block of the previous one. Where that one fills the device they begin as its blocks end,
    /// and fetch what is theirs alone meanwhile. Where multiprocessors are idle they begin long before their operand is made, and the blocks of a launch
    /// run at different times: what several of them read of `b` comes from memory several times.
    pub fn starts_early(&self, us: f64) -> bool {
        let ([m, ..], [rows, _]) = (self.shape, self.tile);
        let is_read_once = up(up(m, rows), self.cluster[1]) <= 1;
        us < SHORT || is_read_once && (self.fills() || self.together() == 1 && us < ALONE)
    }

    /// What launches are compared by: the us of one, less what it gains for sure by starting before the previous one is done. Of longer launches
    /// the blocks of a cluster gain nothing for sure: they begin together, behind the last block of another kernel on any of their multiprocessors.
    pub fn compared(&self, us: f64) -> f64 {
        let gains = us < SHORT || self.starts_early(us) && self.fills() && self.together() == 1;
        if gains { us - GAINED } else { us }
    }

    /// Whether the last of its waves leaves no multiprocessors idle.
    fn fills(&self) -> bool {
        let (blocks, room) = (self.blocks().max(1), at_once(self.together()));
        let last = if self.is_split() { blocks - (up(blocks, room) - 1) * room } else { self.working() };
        last >= FULL
    }

    /// Blocks of a cluster.
    fn together(&self) -> i64 {
        self.cluster[0] * self.cluster[1] * self.parts
    }

    fn is_split(&self) -> bool {
        self.parts * self.slots > 1
    }

    /// Rows of tiles that run at once, how many such groups of rows there are, and the waves of one of them.
    fn groups(&self) -> (i64, i64, f64) {
        let ([m, n, _], [rows, cols]) = (self.shape, self.tile);
        let (high, wide) = (up(m, rows).max(1), up(n, cols).max(1));
        let together = self.together();
        let room = at_once(together) as f64 / (self.parts * self.slots).max(1) as f64;
        // Where K is split, tiles are taken row after row.
        let panel = if self.is_split() { (room as i64 / wide).max(1) } else { panel(self.tile, m) }.min(high);
        (panel, up(high, panel), (wide as f64 / (room / panel as f64).max(1.0)).max(1.0))
    }

    /// us of a step along K.
    fn step(&self, p: &Parameters) -> f64 {
        let ([m, n, k], [rows, cols]) = (self.shape, self.tile);
        let working = self.working() as f64;
        // `wgmma` multiplies 64 rows at a time.
        let multiplied = rows.max(64);
        let operations = (2 * multiplied * cols * 64) as f64;
        let [a_across, b_across] = [self.stored[0], !self.stored[1]];
        let across = 1.0 + p.across[0] * f64::from(a_across) + p.across[1] * f64::from(b_across);
        let products = operations / p.products[self.kind()] * across;
        // Elements from one row to the next as they lie in memory.
        let (a_pitch, b_pitch) = (if a_across { m } else { k }, if b_across { n } else { k });
        // Of an operand across K a row of the tile is fetched whole for each step along K, however little of it there is.
        let a_rows = if a_across { rows } else { m.min(rows) };
        let b_rows = if b_across { cols } else { n.min(cols) };
        let fetched = |rows: i64, pitch: i64, at: usize| {
            let [lines, sectors] =
                [(p.lines, 64), (p.sectors, 16)].map(|(part, of)| part[at] * f64::from(pitch % of != 0));
            (rows * 128) as f64 * (1.0 + lines + sectors)
        };
        let [(a_port, b_port), (a_cache, b_cache)] =
            [0, 1].map(|at| (fetched(a_rows, a_pitch, at), fetched(b_rows, b_pitch, at)));
        let port = (a_port + b_port) / p.port;
        // The left operand's rows are read once, the right one's for every 64 of them.
        let [left, right] = if is_turned(rows) { [cols, rows] } else { [multiplied, cols] };
        let given = (a_rows + b_rows + left + right * left / 64) * 128;
        let shared = given as f64 / p.shared;
        // Neighbours are blocks of no cluster; or, of one along an axis, those along the other.
        let operands = ((m * k + n * k) * 2) as f64;
        let asked = 1.0 - p.merged * (-operands / p.fresh).exp();
        let asked = if self.cluster == [1, 1] && self.parts == 1 { asked } else { 1.0 };
        let [beside, below] = self.cluster.map(|blocks| blocks as f64);
        let cache = (a_cache / beside + b_cache / below) * asked * working / p.cache;
        // Few rows that lie side by side for each k are few lines, of which every multiprocessor asks for each row by itself.
        let few = if a_across { (64 - m).max(0) as f64 / 64.0 } else { 0.0 };
        let thin = p.thin * few * working / MULTIPROCESSORS as f64 / beside;
        let floor = p.step[usize::from(self.kind() > 0)];
        let agree = if self.cluster == [1, 1] { 0.0 } else { p.agree };
        self.own(&p.pace) * (norm(&[products, port, shared, cache, thin, floor], p.powers[0]) + agree)
    }

    /// What is the instance's own; 1 of one that is not among those that have their own.
    fn own(&self, all: &[f64; INSTANCES]) -> f64 {
        self.instance.and_then(|place| all.get(place)).copied().unwrap_or(1.0)
    }

    /// Which of the rates of products it has.
    fn kind(&self) -> usize {
        if self.takes_turns() { 1 } else { 2 * usize::from(self.threads > 128) }
    }

    /// Whether two warpgroups take turns at tiles of their own: one is stored while the other is multiplied.
    fn takes_turns(&self) -> bool {
        self.threads == 128 && self.tile[0] * self.tile[1] >= 128 * 128 && !self.is_split()
    }

    /// us that the launch is expected to take.
    pub fn us(&self, p: &Parameters) -> f64 {
        let ([m, n, k], [rows, cols]) = (self.shape, self.tile);
        let together = self.together();
        let (blocks, room) = (self.blocks().max(1), at_once(together));
        let (working, waves) = (self.working() as f64, up(blocks, room));
        let part = |working: f64| p.last + (1.0 - p.last) * working / MULTIPROCESSORS as f64;
        let filled = match self.is_split() {
            true => (waves - 1) as f64 + part((blocks - (waves - 1) * room) as f64),
            false => waves as f64 * part(working),
        };
        let steps = up(k, 64 * self.parts * self.slots) as f64;
        let multiplied = steps * self.step(p);
        let stored = (rows.min(m) * cols.min(n) * 2) as f64 / p.store;
        let compute = match self.takes_turns() {
            true => filled * norm(&[multiplied, stored + p.turn], p.powers[0]) + stored,
            false => filled * (multiplied + p.turn + stored) - p.turn,
        };

        let depth = self.depth.min(steps as i64 * 64);
        let asked = ((m.min(rows) + n.min(cols)) * depth * 2) as f64 * working;
        let rate = (p.memory * (1.0 - (-asked / p.under_way).exp())).max(1.0);
        let (panel, groups, waves_of_group) = self.groups();
        let (of_a, of_b) = ((m * k * 2) as f64, (n * k * 2) as f64);
        let of_panel = (m.min(panel * rows) * k * 2) as f64;
        let lost = |bytes: f64| p.again * (1.0 - (-bytes / p.kept).exp());
        let read_again =
            of_a * lost(of_panel) * (waves_of_group - 1.0) + of_b * lost(of_b + of_panel) * (groups - 1) as f64;
        let read = (of_a + of_b + read_again) / rate * self.own(&p.reach);
        let written = (m * n * 2) as f64 / p.memory;
        let alone = (p.ramp / (steps * waves as f64).max(1.0)).min(1.0) * compute.min(read);

        let received = if self.exchanges { 1 } else { (self.parts - 1).max(0) };
        let shared = (received * rows * cols * 4) as f64 / p.shares;
        // A thread waits for its part of each sum in turn, also where the tile hangs over.
        let sums = (rows * cols * 4) as f64;
        let added = match (self.slots, self.launches) {
            (1, _) => 0.0,
            (_, 1) => p.arrive + self.slots as f64 * sums / p.adds,
            _ => p.second + self.slots as f64 * p.each + (self.slots * m * n * 4) as f64 / p.sums,
        };
        let begun = p.fixed + p.gather * (together.max(1) as f64).log2();
        begun + alone + norm(&[compute, read + written], p.powers[1]) + shared + added
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Choice;

    /// Blocks that take tile after tile are as many as the waves need, in fours; clusters of eight find room for 15.
    #[test]
    fn blocks_at_once() {
        let work = |choice: Choice, m, n| choice.work([m, n, 4096], [false, true]);
        let tile = |tile| Choice { tile, ..Choice::default() };
        let single = tile((128, 128, 64, 6, 128, 1, 1));
        for (m, n, blocks) in [(128, 128, 4), (1280, 1280, 100), (1280, 1792, 72), (4096, 4096, 128)] {
            assert_eq!(work(single, m, n).working(), blocks, "{m} x {n}");
        }
        assert_eq!(work(tile((128, 128, 64, 6, 128, 4, 2)), 4096, 4096).working(), 120);
    }

    /// Each instance has a place of its own for its pace.
    #[test]
    fn instances_have_places() {
        let places = Choice::instances().map(|choice| choice.work([512, 512, 4096], [false, true]).instance);
        assert_eq!(places.collect::<Vec<_>>(), (0..INSTANCES).map(Some).collect::<Vec<_>>());
    }

    /// Blocks that fill the device and read `b` once start early however long they take; where multiprocessors are idle, or several blocks read the same rows of `b`, short launches do.
    #[test]
    fn launches_that_start_early() {
        let work = |tile, shape| Choice { tile, ..Choice::default() }.work(shape, [false, true]);
        let (full, idle) = ((64, 192, 64, 6, 128, 1, 1), (64, 256, 64, 4, 128, 1, 1));
        assert!(work(full, [64, 24576, 4096]).starts_early(51.0));
        assert!(!work(idle, [64, 24576, 4096]).starts_early(52.0));
        let rows = work((64, 128, 64, 8, 128, 1, 1), [256, 4096, 12288]);
        assert!(!rows.starts_early(39.0) && rows.starts_early(11.0));
        let (alone, cluster) = ((64, 64, 64, 12, 128, 1, 1), (64, 64, 64, 12, 128, 4, 1));
        assert!(work(alone, [64, 6144, 4096]).starts_early(16.0));
        assert!(!work(cluster, [64, 6144, 4096]).starts_early(16.0));
        // Rows of tiles that are one cluster read `b` once.
        let below = work((64, 64, 64, 12, 128, 1, 2), [128, 4096, 12288]);
        assert!(below.starts_early(31.0) && below.compared(31.0) == 31.0);
        assert!(work(full, [64, 24576, 4096]).compared(51.0) < 51.0);
    }

    /// Operands beyond what the second-level cache keeps are read again by each group of rows, and by each wave of a group.
    #[test]
    fn what_is_read_again_takes_longer() {
        let parameters = crate::gemm::policy::Policy::H100.parameters();
        let kept = Parameters { kept: 1e15, ..*parameters };
        let us = |extent, parameters: &Parameters| Choice::default().work([extent; 3], [false, true]).us(parameters);
        assert!(us(16_384, parameters) > 1.005 * us(16_384, &kept));
        assert!(us(1024, parameters) < 1.005 * us(1024, &kept));
    }
}
