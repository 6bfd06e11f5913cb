//! How long a launch of one of the kernels takes: a model of the machine with a few parameters, which are fitted to measurements.
//!
//! What the model knows of a launch is [`Work`]: its blocks, how many of them a multiprocessor holds, and what a block loads and executes. The
//! time is a fixed part and, over it, whichever is longest of:
//!
//! - **memory**: the bytes of W at the rate that memory gives to the bytes under way;
//! - **the busiest multiprocessor**: its bytes, at the most that one multiprocessor reads;
//! - **latency**: waves of blocks, each of some loads that wait for each other, and a start and an end;
//! - **instructions**: what the warps of a multiprocessor issue;
//! - **stages**: the steps of a ring one after another.
//!
//! They are joined by a norm, since near where two are equal both are felt. A launch with more blocks than the device holds adds a part
//! of its last wave. `examples/gemv_sweep.rs` measures every candidate on shapes drawn at random, and with `--fit` finds the parameters
//! and prints what is left over.

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
    /// The same, where the blocks of a cluster add their sums.
    Cluster,
    /// Bulk copies to a ring in shared memory.
    Ring,
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
    /// Warps' load instructions of all blocks: of W and x.
    pub loads: f64,
    /// Products that a lane makes, summed over all blocks' warps.
    pub products: f64,
    /// Sums over a row's threads, summed over all blocks' warps: rows, times shuffles of each.
    pub shuffles: f64,
}

/// The parameters, in us, bytes and clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// us of a launch that reads next to nothing, by [`Path`].
    pub fixed: [f64; 3],
    /// Bytes a us that memory gives at most.
    pub memory: f64,
    /// Bytes that a multiprocessor must have asked for to read at two thirds of that rate, from registers and in a ring.
    pub under_way: [f64; 2],
    /// Bytes a us that one multiprocessor reads at most.
    pub alone: f64,
    /// us of a load that others wait for.
    pub latency: f64,
    /// us that a block takes to start and to end, by [`Path`].
    pub turn: [f64; 3],
    /// Clocks of a multiprocessor for a warp's load, product and shuffle.
    pub clocks: [f64; 3],
    /// us of a stage of a ring, without its bytes.
    pub stage: f64,
    /// The part of a block's time that is lost to the last wave.
    pub tail: f64,
    /// The power of the norm that joins what runs at the same time.
    pub power: f64,
}

/// Clocks a us.
const CLOCK: f64 = 1755.0;

impl Parameters {
    /// Those of an H200. NOT FITTED YET: taken from `bench/results/gemv-h200.json` and `docs/hopper.md`.
    pub const H200: Parameters = Parameters {
        fixed: [1.3, 1.7, 1.2],
        memory: 4.62e6,
        under_way: [14e3, 20e3],
        alone: 0.075e6,
        latency: 0.75,
        turn: [0.45, 0.9, 0.8],
        clocks: [3.0, 0.5, 0.5],
        stage: 0.06,
        tail: 0.35,
        power: 3.0,
    };

    /// How many there are in [`Parameters::to_array`].
    pub const COUNT: usize = 17;

    /// All of them in one row, for a fit.
    pub fn to_array(&self) -> [f64; Parameters::COUNT] {
        let Parameters { fixed, memory, under_way, alone, latency, turn, clocks, stage, tail, power } = *self;
        let [f0, f1, f2] = fixed;
        let [t0, t1, t2] = turn;
        let [c0, c1, c2] = clocks;
        let [u0, u1] = under_way;
        [f0, f1, f2, memory, u0, u1, alone, latency, t0, t1, t2, c0, c1, c2, stage, tail, power]
    }

    /// What [`Parameters::to_array`] made.
    pub fn from_array(row: [f64; Parameters::COUNT]) -> Parameters {
        let [f0, f1, f2, memory, u0, u1, alone, latency, t0, t1, t2, c0, c1, c2, stage, tail, power] = row;
        Parameters {
            fixed: [f0, f1, f2],
            memory,
            under_way: [u0, u1],
            alone,
            latency,
            turn: [t0, t1, t2],
            clocks: [c0, c1, c2],
            stage,
            tail,
            power,
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
        let path = self.path as usize;
        let fixed = p.fixed[path];
        if self.blocks <= 0.0 {
            return fixed;
        }
        let resident = self.resident();
        if resident <= 0.0 {
            return f64::INFINITY;
        }
        // Blocks that run at the same time, of the busiest multiprocessor and of all.
        let held = resident.min((self.blocks / MULTIPROCESSORS).ceil());
        let at_once = self.blocks.min(resident * MULTIPROCESSORS);
        let asked = self.asked * at_once / MULTIPROCESSORS;
        let ring = usize::from(self.path == Path::Ring);
        let memory = self.bytes / (p.memory * (1.0 - (-asked / p.under_way[ring]).exp()).max(1e-6));
        // A launch of one wave ends with its busiest multiprocessor; in several waves who is done takes another block.
        let waves = self.blocks / (resident * MULTIPROCESSORS);
        let most = if waves <= 1.0 { held * self.block_bytes } else { self.bytes / MULTIPROCESSORS };
        let busiest = most / p.alone;
        let ring_steps = if ring == 1 { self.steps } else { 0.0 };
        let block = match self.path {
            Path::Ring => p.turn[path] + p.latency,
            _ => p.turn[path] + p.latency * self.steps,
        };
        let latency = waves.max(1.0) * block;
        let [load, product, shuffle] = p.clocks;
        let issued = self.loads * load + self.products * product + self.shuffles * shuffle;
        let instructions = issued / (MULTIPROCESSORS.min(self.blocks) * CLOCK);
        // The blocks of a multiprocessor take their stages at the same time.
        let stages = waves.max(1.0) * ring_steps * p.stage;
        let parts = [memory, busiest, latency, instructions, stages];
        let sum: f64 = parts.iter().map(|part| part.powf(p.power)).sum();
        let tail = if waves > 1.0 {
            // A block takes as long as its loads, or as its share of memory's rate.
            let share = resident * MULTIPROCESSORS * self.block_bytes / p.memory;
            let left = waves.ceil() - waves;
            p.tail * block.max(share) * left
        } else {
            0.0
        };
        fixed + sum.powf(1.0 / p.power) + tail
    }
}
