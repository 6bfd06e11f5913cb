//! How long a launch of one of the kernels takes: a model of the machine with a few parameters, which are fitted to measurements.
//!
//! What the model knows of a launch is [`Work`]: its blocks, how many of them a multiprocessor holds, and what a block loads and executes.
//! Whichever of these takes longest decides, joined by a norm, since near where two are equal both are felt:
//!
//! - **memory**: the bytes of W at the rate that memory gives to the bytes under way;
//! - **the busiest multiprocessor**: its bytes, at the most that one multiprocessor reads;
//! - **waves**: a block that takes the place of another starts, and waits for its loads, anew;
//! - **instructions** and **transfers**: what the warps of a multiprocessor issue, and the lines that their loads take;
//! - **stages**: the steps of a ring one after another.
//!
//! Over it come what nothing hides: a fixed part of each path, loads that wait for earlier ones, the last of many loads, which is the later the more
//! there are, and what a thread does when its last loads have come: its products, the sums over the lanes and, with several warps a row, over
//! these. Blocks are handed out at a rate of their own, which bounds launches of very many small ones.
//!
//! `examples/gemv_sweep.rs` measures every candidate on shapes drawn at random, and with `--fit` finds the parameters and prints what is left
//! over.

/// Multiprocessors of the device that the parameters were fitted on.
pub const MULTIPROCESSORS: f64 = 132.0;
/// Threads, warps' worth of registers and blocks that a multiprocessor holds, and bytes of its shared memory.
const THREADS: f64 = 2048.0;
const REGISTERS: f64 = 65_536.0;
const BLOCKS: f64 = 32.0;
const SHARED: f64 = 227.0 * 1024.0;
/// Bytes of shared memory that a block has for the system.
const RESERVED: f64 = 1024.0;

/// What takes a launch's rows through the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Loads to registers, by all threads.
    Registers,
    /// Loads to registers by all threads of a cluster, whose blocks add their sums.
    Cluster,
    /// Bulk copies to a ring in shared memory.
    Ring,
    /// Loads of lines to registers, with the ends of rows by themselves.
    Lines,
}

/// A launch as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// How weights arrive.
    pub path: Path,
    /// Blocks of the grid.
    pub blocks: f64,
    /// Threads of a block.
    pub threads: f64,
    /// Warps of a block that multiply.
    pub at_work: f64,
    /// Warps of a block that share a row.
    pub row_warps: f64,
    /// Registers of a thread, about.
    pub registers: f64,
    /// Bytes of shared memory of a block.
    pub shared: f64,
    /// Bytes of W that a whole block reads.
    pub block_bytes: f64,
    /// Bytes of W of all blocks.
    pub bytes: f64,
    /// Bytes that a block has asked for at once.
    pub asked: f64,
    /// Loads of a thread that wait for each other, or stages of a block's ring.
    pub steps: f64,
    /// Loads of x of a thread, and shuffles that wait for each other.
    pub chain: [f64; 2],
    /// Lines of 128 bytes that a warp's loads of W and x take.
    pub transfers: f64,
    /// Instructions of a warp.
    pub instructions: f64,
}

/// The parameters, in us, bytes and clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// us of a launch that reads next to nothing, by [`Path`].
    pub fixed: [f64; 4],
    /// Bytes a us that memory gives at most.
    pub memory: f64,
    /// Bytes that a multiprocessor must have asked for to read at two thirds of that rate, from registers and in a ring.
    pub under_way: [f64; 2],
    /// Bytes a us that one multiprocessor reads at most.
    pub alone: f64,
    /// us of a load that others wait for.
    pub latency: f64,
    /// us that a block takes to start and to end, where it takes the place of another.
    pub turn: f64,
    /// us between a block and the next one that is handed out, and between two warps.
    pub hand_out: [f64; 2],
    /// Clocks until a load of x, an instruction and a shuffle are done, when a thread's last loads of W have come.
    pub clocks: [f64; 3],
    /// Clocks in which a quarter of a multiprocessor issues an instruction.
    pub issue: f64,
    /// Clocks in which a multiprocessor takes in a line of 128 bytes.
    pub transfer: f64,
    /// us of a stage of a ring, without its bytes.
    pub stage: f64,
    /// The part of a block's time that is lost to the last wave.
    pub tail: f64,
    /// The power of the norm that joins what runs at the same time.
    pub power: f64,
    /// us by which the last of `e` times as many loads comes later.
    pub spread: f64,
    /// us of adding the sums of several warps, and for each of them.
    pub barrier: [f64; 2],
}

/// Clocks a us.
const CLOCK: f64 = 1755.0;

impl Parameters {
    /// The parameters of an H200: fitted to `bench/results/gemv-sweep-h200.json`, the candidates' times on 50 shapes that were drawn at random,
    /// as launches that depend on each other. Four fifths of the shapes that are fitted alone choose for the other fifth within 2.1% of its
    /// best candidates in geometric mean.
    pub const H200: Parameters = Parameters {
        fixed: [0.515, 1.58, 0.432, 0.639],
        memory: 4.8e6,
        under_way: [2260.0, 16_250.0],
        alone: 0.31e6,
        latency: 0.496,
        turn: 0.413,
        hand_out: [0.001_23, 0.000_125],
        clocks: [12.9, 0.929, 26.5],
        issue: 1.036,
        transfer: 0.58,
        stage: 0.167,
        tail: 0.307,
        power: 2.02,
        spread: 0.0476,
        barrier: [0.052, 0.001_51],
    };

    /// Guesses before anything was fitted, where a fit begins.
    pub const GUESS: Parameters = Parameters {
        fixed: [0.6, 1.2, 0.6, 0.7],
        memory: 4.6e6,
        under_way: [8e3, 16e3],
        alone: 0.1e6,
        latency: 0.6,
        turn: 0.5,
        hand_out: [0.001, 0.0001],
        clocks: [20.0, 2.0, 25.0],
        issue: 1.0,
        transfer: 1.0,
        stage: 0.1,
        tail: 0.4,
        power: 2.5,
        spread: 0.05,
        barrier: [0.05, 0.002],
    };

    /// How many there are in [`Parameters::to_array`].
    pub const COUNT: usize = 23;

    /// All of them in one row, for a fit.
    pub fn to_array(&self) -> [f64; Parameters::COUNT] {
        let Parameters { fixed: [f0, f1, f2, f3], under_way: [u0, u1], hand_out: [h0, h1], .. } = *self;
        let Parameters { clocks: [c0, c1, c2], barrier: [b0, b1], memory, alone, latency, turn, issue, .. } = *self;
        let Parameters { transfer, stage, tail, power, spread, .. } = *self;
        [
            f0, f1, f2, f3, memory, u0, u1, alone, latency, turn, h0, h1, c0, c1, c2, issue, transfer, stage, tail,
            power, spread, b0, b1,
        ]
    }

    /// What [`Parameters::to_array`] made.
    pub fn from_array(row: [f64; Parameters::COUNT]) -> Parameters {
        let [f0, f1, f2, f3, memory, u0, u1, alone, latency, turn, h0, h1, ref rest @ ..] = row;
        let [c0, c1, c2, issue, transfer, stage, tail, power, spread, b0, b1] = *rest;
        Parameters {
            fixed: [f0, f1, f2, f3],
            memory,
            under_way: [u0, u1],
            alone,
            latency,
            turn,
            hand_out: [h0, h1],
            clocks: [c0, c1, c2],
            issue,
            transfer,
            stage,
            tail,
            power,
            spread,
            barrier: [b0, b1],
        }
    }
}

impl Work {
    /// Blocks that a multiprocessor holds at once; 0 where not even one fits.
    pub fn resident(&self) -> f64 {
        let registers = (self.registers / 8.0).ceil() * 8.0;
        let by_threads = (THREADS / self.threads).floor().min((REGISTERS / (registers * self.threads)).floor());
        let by_shared = (SHARED / (self.shared + RESERVED)).floor();
        by_threads.min(by_shared).min(BLOCKS)
    }

    /// us that the launch is expected to take.
    pub fn us(&self, p: &Parameters) -> f64 {
        let fixed = p.fixed[self.path as usize];
        if self.blocks <= 0.0 {
            return fixed;
        }
        let resident = self.resident();
        if resident <= 0.0 {
            return f64::INFINITY;
        }
        let is_ring = self.path == Path::Ring;
        // Blocks that run at the same time, of the busiest multiprocessor and of all.
        let held = resident.min((self.blocks / MULTIPROCESSORS).ceil());
        let at_once = self.blocks.min(resident * MULTIPROCESSORS);
        let waves = self.blocks / (resident * MULTIPROCESSORS);
        let turns = waves.max(1.0);
        let asked = self.asked * at_once / MULTIPROCESSORS;
        let memory = self.bytes / (p.memory * (1.0 - (-asked / p.under_way[usize::from(is_ring)]).exp()).max(1e-6));
        // A launch of one wave ends with its busiest multiprocessor; in several waves who is done takes another block.
        let most = if waves <= 1.0 { held * self.block_bytes } else { self.bytes / MULTIPROCESSORS };
        let busiest = most / p.alone;
        let waited = if is_ring { 0.0 } else { p.latency * (self.steps - 1.0) };
        let between = (waves - 1.0).max(0.0) * (p.turn + waited);
        // Warps of the busiest quarter of a multiprocessor, each of which issues by itself.
        let quarter = (held * self.at_work / 4.0).ceil();
        let instructions = turns * quarter * self.instructions * p.issue / CLOCK;
        let transfers = turns * held * self.at_work * self.transfers * p.transfer / CLOCK;
        // The blocks of a multiprocessor take their stages at the same time.
        let stages = if is_ring { turns * self.steps * p.stage } else { 0.0 };
        let longest = norm(p.power, &[memory, busiest, between, instructions, transfers, stages]);
        let tail = if waves > 1.0 {
            // A block takes as long as its loads, or as its share of memory's rate.
            let share = resident * MULTIPROCESSORS * self.block_bytes / p.memory;
            p.tail * (p.turn + waited).max(share) * (waves.ceil() - waves)
        } else {
            0.0
        };
        let last = p.spread * (1.0 + self.bytes / FEW_BYTES).ln();
        let hand_out = self.blocks * p.hand_out[0].max(p.hand_out[1] * self.threads / 32.0);
        let run = norm(8.0, &[longest + tail + last + waited, hand_out]);
        // Of the last step; a loop's sums over lanes follow its last step, a ring's each of them.
        let [load, instruction, shuffle] = p.clocks;
        let products = (self.chain[0] * load + self.instructions * instruction) / self.steps;
        let sums = self.chain[1] * shuffle / if is_ring { self.steps } else { 1.0 };
        let barrier = if self.row_warps > 1.0 { p.barrier[0] + p.barrier[1] * self.row_warps } else { 0.0 };
        fixed + run + (products + sums) / CLOCK + barrier
    }
}

/// Bytes whose loads come together, about.
const FEW_BYTES: f64 = 2048.0;

/// The largest of some times, or more where several are nearly as long.
fn norm(power: f64, parts: &[f64]) -> f64 {
    parts.iter().map(|part| part.powf(power)).sum::<f64>().powf(1.0 / power)
}
