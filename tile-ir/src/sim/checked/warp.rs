//! What executes: warps, their blocks, and a block's shared memory.

use super::bytecode::{Code, Instr, Pc, Preset};
use super::flight::{Flight, Pilot};
use super::lanes::{Lanes, each};
use super::launch::Launch;
use super::mbarrier::Mbarrier;
use super::shadow::{Known, Shadow};
use crate::ir::EntityRef;
use crate::lowered::{Program, SharedId};

/// Where a warp is in a barrier of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// It has not arrived.
    Away,
    /// It has, and others have not.
    Arrived,
    /// All have, and it has not waited yet.
    Complete,
}

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
    /// Within a `parallel` loop: the clock before its elements, each of which has one of its own, and the last of those so
    /// far.
    pub parallel: Option<(u32, u32)>,
    /// By entry of [`Clocks`](super::shadow::Clocks): the clock up to which its accesses happened before this warp's.
    pub seen: Vec<u32>,
    /// The clocks up to which accesses of other blocks happened before this warp's, by `last_arriver`.
    pub known: Known,
    /// This warp's own entry.
    pub own: usize,
    /// Registers a thread, where roles share them out.
    pub registers: u32,
    /// Groups of products committed.
    pub groups: u32,
    /// Counts the fences before products, from 1.
    pub fences: u32,
    /// By lane: bulk groups committed.
    pub bulk_groups: [u32; 32],
    /// The latest bulk group of any lane that has something in it, plus one.
    pub bulk_started: u32,
    /// By lane: clocks of its latest proxy fences, ascending.
    pub proxy_fences: Vec<[u32; PROXY_FENCES]>,
    /// Asynchronous copies under way.
    pub flight: Flight,
    /// Block barriers passed.
    pub interval: u32,
    /// Lanes that have waited for the previous kernel.
    pub waited: u32,
    /// Whether it has met the cluster, so that all of its blocks have begun.
    pub met: bool,
    /// Where it is in the cluster's barrier.
    pub meeting: Meeting,
    /// By shared array: how often this warp declared it.
    pub generations: Vec<u32>,
}

/// Whether a warp can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It can.
    Runnable,
    /// It waits at the barrier its program counter is at.
    AtBarrier,
    /// It waits for something else.
    Waiting(Wait),
    /// It has ended.
    Done,
}

/// What a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A phase of a barrier of its block. The instruction is executed again.
    Barrier { index: u32, parity: bool },
    /// The other threads of a named barrier.
    Named { id: u32 },
    /// The other blocks of its cluster.
    Cluster,
    /// As many registers for each of its threads. The instruction is executed again.
    Registers { count: u32 },
    /// The other warps of its warpgroup, at a product.
    Product,
    /// That at most so many groups of products are unfinished.
    Products { pending: u32 },
    /// That at most so many of its lanes' bulk groups are unfinished.
    Bulk { pending: u32, read: bool },
}

/// How many proxy fences of a lane are remembered.
pub(super) const PROXY_FENCES: usize = 8;

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
    /// By element, where the program has products of warpgroups: what they make of it.
    pub held: Vec<Held>,
}

/// What products of warpgroups make of a register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// The group of products, plus one, that writes it; 0 where none does.
    pub written: u32,
    /// The group of products, plus one, that reads it; 0 where none does.
    pub read: u32,
    /// The number of fences before the thread's last own access, plus one.
    pub touched: u32,
}

impl Warp {
    /// Initialises `lanes` of a register.
    #[inline]
    pub fn set(&mut self, reg: usize, mask: u32, value: &Lanes) {
        let slot = &mut self.slots[reg];
        each(mask, |i| slot[i] = value[i]);
        self.init[reg] |= mask;
    }

    /// A `parallel` loop begins or ends. Its elements are not ordered, though a thread does several: each has a clock of
    /// its own, and accesses of the same thread under another of those clocks are as those of another thread.
    pub fn elements(&mut self, begins: bool) {
        match (begins, self.parallel.take()) {
            (true, _) => self.parallel = Some((self.clock, self.clock)),
            (false, Some((_, last))) => self.clock = last + 1,
            (false, None) => {}
        }
    }

    /// The element that is done from here: the next one, or that of a number.
    pub fn element(&mut self, number: Option<i64>) {
        let Some((before, last)) = &mut self.parallel else { return };
        self.clock = match number {
            Some(number) => *before + 1 + number.clamp(0, 1 << 20) as u32,
            None => *last + 1,
        };
        *last = (*last).max(self.clock);
    }

    /// In an element of a `parallel` loop: the clock before its elements.
    pub fn elements_from(&self) -> Option<u32> {
        self.parallel.map(|(before, _)| before)
    }

    /// A synchronisation of the lanes of this warp with each other.
    pub fn synchronise(&mut self) {
        self.seen[self.own] = self.clock;
        self.clock += 1;
    }

    /// Everything this warp has seen is what `other` has, too.
    pub fn acquire(&mut self, other: &[u32]) {
        for (mine, other) in self.seen.iter_mut().zip(other) {
            *mine = (*mine).max(*other);
        }
    }

    /// What is ordered before something that follows this warp's accesses so far.
    pub fn released(&mut self) -> Vec<u32> {
        let mut seen = self.seen.clone();
        seen[self.own] = self.clock;
        self.clock += 1;
        seen
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
    /// Named barriers, by id.
    pub named: Vec<Named>,
    /// Products under way, by warpgroup.
    pub products: Vec<super::product::Queue>,
}

/// A named barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// Threads that have arrived since it last opened.
    pub arrived: u32,
    /// Threads that each arrival says it is for.
    pub threads: u32,
    /// The warps that have arrived, a bit each, and those of the time before.
    pub warps: u32,
    pub before: u32,
    /// What happened before the arrivals.
    pub clock: Vec<u32>,
    /// What happened before the arrivals in blocks that the arriving warps have acquired from.
    pub known: Known,
}

impl Block {
    /// A block to be [`Block::start`]ed.
    pub fn new(program: &Program, code: &Code, launch: &Launch) -> Block {
        let threads = launch.thread_count();
        let (count, clocks) = (threads.div_ceil(32), launch.clocks);
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
                locals: code
                    .locals
                    .iter()
                    .map(|&len| LocalMemory::new(len as usize, !code.products.is_empty()))
                    .collect(),
                clock: 1,
                parallel: None,
                seen: vec![0; clocks.len()],
                known: Known::default(),
                own: 0,
                registers: 0,
                groups: 0,
                fences: 0,
                bulk_groups: [0; 32],
                bulk_started: 0,
                proxy_fences: if code.agents { vec![[0; PROXY_FENCES]; 32] } else { vec![] },
                flight: Flight::default(),
                interval: 0,
                waited: 0,
                met: false,
                meeting: Meeting::Away,
                generations: vec![0; code.shared as usize],
            }
        };
        Block {
            index: [0; 3],
            linear: 0,
            warps: (0..count).map(warp).collect(),
            shared: SharedMemory::new(program, code),
            named: vec![Named::default(); 16],
            products: vec![super::product::Queue::default(); count.div_ceil(4) as usize],
        }
    }

    /// Makes this the block of that number, at its start.
    pub fn start(&mut self, linear: u32, code: &Code, launch: &Launch) {
        self.linear = linear;
        self.shared.flying.fill(Pilot::default());
        self.shared.barriers.fill(Mbarrier::default());
        self.named.fill(Named::default());
        self.products.fill(super::product::Queue::default());
        self.index = launch.block_at(linear);
        let [tx, ty, _] = launch.threads;
        for warp in &mut self.warps {
            (warp.pc, warp.state, warp.active) = (0, State::Runnable, warp.full);
            (warp.clock, warp.interval, warp.waited, warp.parallel) = (1, 0, 0, None);
            (warp.registers, warp.groups, warp.fences, warp.bulk_groups) = (launch.registers, 0, 0, [0; 32]);
            (warp.bulk_started, warp.met, warp.meeting) = (0, false, Meeting::Away);
            warp.own = launch.clocks.entry(linear, warp.index);
            warp.proxy_fences.fill([0; PROXY_FENCES]);
            warp.stack.clear();
            warp.flight.clear();
            warp.seen.fill(0);
            warp.known = Known::default();
            warp.init.fill(0);
            warp.generations.fill(0);
            for local in &mut warp.locals {
                local.init.fill(0);
                local.held.fill(Held::default());
            }
            let presets = &mut warp.slots[code.regs as usize..];
            for (preset, slot) in code.presets.iter().zip(presets) {
                *slot = match *preset {
                    Preset::Constant(value) => [value; 32],
                    Preset::Param(index, _) => [launch.params[index as usize]; 32],
                    Preset::Block(axis) => [i64::from(self.index[axis as usize]); 32],
                    Preset::Warp => [i64::from(warp.index); 32],
                    Preset::Lane => std::array::from_fn(|lane| lane as i64),
                    Preset::ClusterRank => [i64::from(linear & ((1 << launch.clocks.shift) - 1)); 32],
                    Preset::Grid(axis) => [i64::from(launch.grid[axis as usize]); 32],
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
    fn new(len: usize, products: bool) -> LocalMemory {
        let held = vec![Held::default(); if products { len } else { 0 }];
        LocalMemory { data: vec![[0; 32]; len], init: vec![0; len], held }
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
    /// The barriers, of all arrays in order.
    pub barriers: Vec<Mbarrier>,
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
        // Tensor cores may read bytes of no array; accesses beyond all of them are reported and dropped.
        let bytes = program.shared_bytes as usize;
        let fine = |a: &crate::lowered::SharedArray| a.dtype.bytes().min(1 << a.offset.trailing_zeros().min(2));
        let grain = arrays.map(fine).min().unwrap_or(4);
        let owners = vec![Owner::default(); bytes.div_ceil(grain as usize)];
        let copies = code.instrs.iter().any(|i| matches!(i, Instr::AsyncCopy { .. }));
        let flying = vec![Pilot::default(); if copies { owners.len() } else { 0 }];
        let count = program.barriers.values().map(|b| b.len as usize).sum();
        let barriers = vec![Mbarrier::default(); count];
        SharedMemory { data: vec![0; bytes], shadow: Shadow::default(), grain, owners, flying, barriers }
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
