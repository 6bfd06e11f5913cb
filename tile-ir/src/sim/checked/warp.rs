//! What executes: warps, their blocks, and a block's shared memory.

use super::bytecode::{Code, Instr, Pc, Preset};
use super::flight::{Flight, Pilot};
use super::lanes::{Lanes, each};
use super::launch::Launch;
use super::shadow::Shadow;
use crate::ir::EntityRef;
use crate::lowered::{Program, SharedId};

/// A warp: a program counter, a mask stack, a vector clock, and its lanes' values.
pub(super) struct Warp {
    /// In its block.
    pub index: u32,
    pub pc: Pc,
    pub state: State,
    /// Lanes that execute now.
    pub active: u32,
    /// Lanes that exist: the last warp of a block may be short.
    pub full: u32,
    pub stack: Vec<Frame>,
    pub slots: Vec<Lanes>,
    /// By register: lanes in which it is initialised.
    pub init: Vec<u32>,
    pub locals: Vec<LocalMemory>,
    /// Counts the synchronisations this warp took part in, from 1.
    pub clock: u32,
    /// By warp of the block: the clock up to which its accesses happened before this warp's. Asynchronous agents will
    /// have further entries.
    pub seen: Vec<u32>,
    /// Asynchronous copies under way.
    pub flight: Flight,
    /// Block barriers passed.
    pub interval: u32,
    /// Lanes that have waited for the previous kernel.
    pub waited: u32,
    /// By shared array: how often this warp declared it.
    pub generations: Vec<u32>,
}

/// Whether a warp can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It can.
    Runnable,
    /// It waits at the barrier its program counter is at. (Waits on asynchronous work will be further states.)
    AtBarrier,
    /// It has ended.
    Done,
}

/// What a branch or loop left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The mask to go back to.
    pub saved: u32,
    /// Lanes that wait for `Else`.
    pub pending: u32,
}

/// One per-thread array of the lanes of a warp.
pub(super) struct LocalMemory {
    pub data: Vec<Lanes>,
    /// By element: lanes in which it is initialised.
    pub init: Vec<u32>,
}

impl Warp {
    /// Initialises `lanes` of a register.
    #[inline]
    pub fn set(&mut self, reg: usize, mask: u32, value: &Lanes) {
        let slot = &mut self.slots[reg];
        each(mask, |i| slot[i] = value[i]);
        self.init[reg] |= mask;
    }

    /// A synchronisation of the lanes of this warp with each other.
    pub fn synchronise(&mut self) {
        self.seen[self.index as usize] = self.clock;
        self.clock += 1;
    }
}

/// A block that is being executed.
pub(super) struct Block {
    /// x y z.
    pub index: [u32; 3],
    /// x varies fastest.
    pub linear: u32,
    pub warps: Vec<Warp>,
    pub shared: SharedMemory,
}

impl Block {
    /// A block to be [`Block::start`]ed.
    pub fn new(program: &Program, code: &Code, launch: &Launch) -> Block {
        let threads = launch.thread_count();
        let count = threads.div_ceil(32);
        let warp = |index: u32| {
            let lanes = (threads - index * 32).min(32);
            Warp {
                index,
                pc: 0,
                state: State::Runnable,
                active: 0,
                full: u32::MAX >> (32 - lanes),
                stack: Vec::new(),
                slots: vec![[0; 32]; code.slots as usize],
                init: vec![0; code.regs as usize],
                locals: code.locals.iter().map(|&len| LocalMemory::new(len as usize)).collect(),
                clock: 1,
                seen: vec![0; count as usize],
                flight: Flight::default(),
                interval: 0,
                waited: 0,
                generations: vec![0; code.shared as usize],
            }
        };
        Block {
            index: [0; 3],
            linear: 0,
            warps: (0..count).map(warp).collect(),
            shared: SharedMemory::new(program, code),
        }
    }

    /// Makes this the block of that linear index, at its start.
    pub fn start(&mut self, linear: u32, code: &Code, launch: &Launch) {
        let [gx, gy, _] = launch.grid;
        self.linear = linear;
        self.shared.flying.fill(Pilot::default());
        self.index = [linear % gx, linear / gx % gy, linear / gx / gy];
        let [tx, ty, _] = launch.threads;
        for warp in &mut self.warps {
            (warp.pc, warp.state, warp.active) = (0, State::Runnable, warp.full);
            (warp.clock, warp.interval, warp.waited) = (1, 0, 0);
            warp.stack.clear();
            warp.flight.clear();
            warp.seen.fill(0);
            warp.init.fill(0);
            warp.generations.fill(0);
            for local in &mut warp.locals {
                local.init.fill(0);
            }
            let presets = &mut warp.slots[code.regs as usize..];
            for (preset, slot) in code.presets.iter().zip(presets) {
                *slot = match *preset {
                    Preset::Constant(value) => [value; 32],
                    Preset::Param(index, _) => [launch.params[index as usize]; 32],
                    Preset::Block(axis) => [i64::from(self.index[axis as usize]); 32],
                    Preset::Thread(axis) => std::array::from_fn(|lane| {
                        let thread = warp.index * 32 + lane as u32;
                        i64::from([thread % tx, thread / tx % ty, thread / tx / ty][axis as usize])
                    }),
                };
            }
        }
    }
}

impl LocalMemory {
    fn new(len: usize) -> LocalMemory {
        LocalMemory { data: vec![[0; 32]; len], init: vec![0; len] }
    }
}

/// A block's shared memory and its shadow. Arrays may overlap where the compiler placed them so.
pub(super) struct SharedMemory {
    pub data: Vec<u8>,
    pub shadow: Shadow,
    /// Bytes a cell of `shadow` and `owners`.
    pub grain: u32,
    /// By cell: which array's element was written there last.
    pub owners: Vec<Owner>,
    /// By cell: whose asynchronous copy into it is in flight. Empty in programs that have none.
    pub flying: Vec<Pilot>,
}

/// The last writer of a cell, as far as initialisation goes: an element is initialised where its own array was the
/// last to be written, in this block, not before the reader's declaration of the array.
#[derive(Clone, Copy, Default)]
pub(super) struct Owner {
    /// Linear block, plus one.
    pub block: u32,
    /// The array's index.
    pub array: u32,
    /// How often the writing warp had declared it.
    pub generation: u32,
}

impl SharedMemory {
    fn new(program: &Program, code: &Code) -> SharedMemory {
        let arrays = program.shared.values();
        let end = arrays.clone().map(|a| u64::from(a.offset) + u64::from(a.len) * u64::from(a.dtype.bytes())).max();
        // Accesses beyond `shared_bytes` are reported and dropped, so there is never more than that.
        let bytes = end.unwrap_or(0).min(u64::from(program.shared_bytes)) as usize;
        let fine = |a: &crate::lowered::SharedArray| a.dtype.bytes().min(1 << a.offset.trailing_zeros().min(2));
        let grain = arrays.map(fine).min().unwrap_or(4);
        let owners = vec![Owner::default(); bytes.div_ceil(grain as usize)];
        let copies = code.instrs.iter().any(|i| matches!(i, Instr::AsyncCopy { .. }));
        let flying = vec![Pilot::default(); if copies { owners.len() } else { 0 }];
        SharedMemory { data: vec![0; bytes], shadow: Shadow::default(), grain, owners, flying }
    }

    /// Whose asynchronous copy into any of these cells is in flight.
    #[inline]
    pub fn pilot(&self, cells: std::ops::Range<usize>) -> Option<Pilot> {
        if self.flying.is_empty() {
            return None;
        }
        self.flying[cells].iter().copied().find(|pilot| pilot.thread != 0)
    }

    /// Whether every byte of an element was last written as an element of the same array, recently enough.
    pub fn is_initialised(&self, cells: std::ops::Range<usize>, block: u32, array: SharedId, generation: u32) -> bool {
        self.owners[cells].iter().all(|owner| {
            owner.block == block + 1 && owner.array == array.index() as u32 && owner.generation >= generation
        })
    }
}
