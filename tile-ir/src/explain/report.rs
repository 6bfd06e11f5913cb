//! The report: numbers with their units, and what they mean for the launch.

use super::machine::Machine;
use super::occupancy::Occupancy;
use super::walk::AccessKind;
use crate::ir::Dtype;
use crate::lowered::GuardReason;

/// What the assembler says a kernel uses; see `tile_runtime::nvrtc::Resources`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// 32-bit registers a thread.
    pub registers: u32,
    /// Bytes of spill stores a thread.
    pub spill_stores: u32,
    /// Bytes of spill loads a thread.
    pub spill_loads: u32,
}

/// What a launch costs, and what bounds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The program's symbol.
    pub program: String,
    /// The device the figures are for.
    pub machine: Machine,
    /// The values of the dims, in order.
    pub dims: Vec<(String, i64)>,
    /// Blocks on x, y, z.
    pub grid: [u64; 3],
    /// Threads on x, y, z.
    pub threads: [u32; 3],
    /// Work and its bounds.
    pub roofline: Roofline,
    /// Tensors, in order of parameters.
    pub tensors: Vec<TensorTraffic>,
    /// Accesses to global and shared memory, in the program's order.
    pub accesses: Vec<AccessReport>,
    /// Guards that remain, lesser forms, postponed checks and choices, as the lowering remarked them.
    pub remarks: Vec<Note>,
    /// Launch checks that this shape fails: the launch would be refused.
    pub refused: Vec<Note>,
    /// Launch checks about scalars that have no value here.
    pub unchecked: Vec<Note>,
    /// Conditions and trip counts that data decide: both sides were counted, a loop once.
    pub undecided: Vec<Note>,
    /// Bytes of shared memory a block.
    pub shared_bytes: u32,
    /// What the assembler says, where it was asked.
    pub resources: Option<Resources>,
    /// Blocks a multiprocessor holds.
    pub occupancy: Occupancy,
}

/// The launch's work, and how long the device takes for it at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Floating-point operations the program executes, a multiply-add being two, reductions included. Counted on the
    /// first block and multiplied by the blocks.
    pub flops: f64,
    /// Floating-point operations that are a function (`exp`, `sqrt`, ...), each counted as one; part of `flops`.
    pub functions: f64,
    /// Bytes that must cross the memory bus: each element that is read, once; each that is written, once.
    pub unique_bytes: f64,
    /// Bytes that lanes ask for, before caches.
    pub requested_bytes: f64,
    /// The element type of the operands: that of the largest tensor.
    pub dtype: Dtype,
    /// Dense peak of the device for that type, in FLOP/s.
    pub dense_flops: f64,
    /// Peak of what the program executes, in FLOP/s: the tensor cores' where it uses them, else the CUDA cores' f32.
    pub used_flops: f64,
    /// Seconds the memory needs for `unique_bytes`.
    pub memory_time: f64,
    /// Seconds the arithmetic needs at `used_flops`.
    pub compute_time: f64,
}

/// What bounds a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Its arithmetic intensity is below the crossover of what it executes: memory.
    Memory,
    /// Above: arithmetic. `by_choice` where the tensor cores' dense peak would make it memory bound.
    Compute {
        /// Whether only the CUDA cores' peak makes it so.
        by_choice: bool,
    },
}

impl Roofline {
    /// FLOPs per unique byte.
    pub fn intensity(&self) -> f64 {
        if self.unique_bytes > 0.0 { self.flops / self.unique_bytes } else { 0.0 }
    }

    /// What bounds the launch.
    pub fn class(&self) -> Class {
        if self.compute_time <= self.memory_time {
            return Class::Memory;
        }
        Class::Compute { by_choice: self.flops / self.dense_flops <= self.memory_time }
    }

    /// The least time, in seconds.
    pub fn time(&self) -> f64 {
        self.memory_time.max(self.compute_time)
    }
}

/// A tensor's traffic over the whole launch, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorTraffic {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: f64,
    /// Bytes that lanes ask to read, before caches.
    pub reads: f64,
    /// Bytes that lanes ask to write.
    pub writes: f64,
}

impl TensorTraffic {
    /// Bytes read at least: what is asked for, but no more than there is.
    pub fn unique_reads(&self) -> f64 {
        self.reads.min(self.bytes)
    }

    /// Bytes written at least.
    pub fn unique_writes(&self) -> f64 {
        self.writes.min(self.bytes)
    }

    /// How often an element is read: what the caches or shared memory must serve. 0 where it is not read.
    pub fn reuse(&self) -> f64 {
        if self.unique_reads() > 0.0 { self.reads / self.unique_reads() } else { 0.0 }
    }
}

/// One access of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessReport {
    /// What is accessed: a tensor's or array's name.
    pub place: String,
    /// Whether that is a tensor; else shared memory.
    pub global: bool,
    /// What it does.
    pub kind: AccessKind,
    /// Bytes a lane moves in one instruction.
    pub width: u32,
    /// Requests of warps over the whole launch.
    pub requests: f64,
    /// A request's sectors (global) or wavefronts (shared), on average.
    pub found: f64,
    /// The fewest that would carry the distinct bytes it asks for.
    pub ideal: f64,
    /// Why it is guarded, if it is: clipping that the author asked for, or an access that was not proven in bounds.
    pub guard: Option<GuardReason>,
    /// Whether addresses depend on data: then `found` and `ideal` count the lanes whose address is known.
    pub unknown: bool,
    /// The author's line.
    pub at: Note,
}

impl AccessReport {
    /// How much more it costs than at best; 1 is best.
    pub fn excess(&self) -> f64 {
        if self.ideal > 0.0 { self.found / self.ideal } else { 1.0 }
    }
}

/// Something about a place in the author's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line; 0 where it is not known.
    pub line: u32,
    /// What: the access as written, or a remark.
    pub text: String,
}

impl Report {
    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |n, e| n.saturating_mul(*e))
    }

    /// How often the device is filled: blocks over the blocks all multiprocessors hold at once. Infinite where none fits.
    pub fn waves(&self) -> f64 {
        self.blocks() as f64 / (f64::from(self.machine.sms) * f64::from(self.occupancy.blocks))
    }

    /// The accesses to a tensor or array.
    pub fn accesses_to<'a>(&'a self, place: &'a str) -> impl Iterator<Item = &'a AccessReport> {
        self.accesses.iter().filter(move |a| a.place == place)
    }
}
