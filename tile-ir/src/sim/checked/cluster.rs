//! What runs together: the blocks of a cluster, what they wait for, and what happens where none of them can go on.

use super::bytecode::Code;
use super::launch::Launch;
use super::mbarrier::join;
use super::product::is_together;
use super::report::Who;
use super::schedule::Machine;
use super::shadow::Agent;
use super::transfer::Transfer;
use super::warp::{Block, Meeting, State, Wait, Warp};
use crate::ir::SpanId;
use crate::lowered::Program;

/// Blocks that run together, and the copies under way between them and global memory.
pub(super) struct Cluster {
    pub blocks: Vec<Block>,
    pub transfers: Vec<Transfer>,
}

impl Cluster {
    pub fn new(program: &Program, code: &Code, launch: &Launch) -> Cluster {
        let blocks = (0..launch.cluster_size()).map(|_| Block::new(program, code, launch)).collect();
        Cluster { blocks, transfers: Vec::new() }
    }

    /// Makes this the cluster of that number, at its start.
    pub fn start(&mut self, number: u32, code: &Code, launch: &Launch) {
        let size = launch.cluster_size();
        for (rank, block) in (0..).zip(&mut self.blocks) {
            block.start(number * size + rank, code, launch);
        }
        self.transfers.clear();
    }

    fn is_over(&self) -> bool {
        self.blocks.iter().all(Block::is_over)
    }
}

impl Block {
    /// Whether all of its warps have ended.
    pub fn is_over(&self) -> bool {
        self.warps.iter().all(|warp| warp.state == State::Done)
    }
}

impl Machine<'_> {
    /// Lets go on whoever has what it waits for.
    pub(super) fn wake(&mut self, cluster: &mut Cluster) {
        for rank in 0..cluster.blocks.len() {
            for warp in 0..cluster.blocks[rank].warps.len() {
                let block = &mut cluster.blocks[rank];
                let State::Waiting(wait) = block.warps[warp].state else { continue };
                match wait {
                    Wait::Barrier { index, parity } => {
                        if block.shared.barriers[index as usize].passes(parity) {
                            block.warps[warp].state = State::Runnable;
                        }
                    }
                    Wait::Registers { count } => {
                        if Self::has_registers(block, warp, count, self.launch.registers) {
                            block.warps[warp].state = State::Runnable;
                        }
                    }
                    Wait::Product => {
                        if is_together(block, warp / 4) {
                            self.issue_product(block, warp / 4);
                        }
                    }
                    Wait::Products { pending } => {
                        self.products_done(block, warp, pending);
                        block.warps[warp].state = State::Runnable;
                    }
                    Wait::Bulk { pending, read } => {
                        self.bulk_done(cluster, rank, warp, pending, read);
                        cluster.blocks[rank].warps[warp].state = State::Runnable;
                    }
                    // They are let go by the last that arrives.
                    Wait::Named { .. } | Wait::Cluster => {}
                }
            }
        }
        self.pass_cluster_barrier(cluster);
    }

    /// Whether the block's registers suffice for a warp to have `count` a thread. Those of warps that have ended count:
    /// nothing promises that they come back.
    pub(super) fn has_registers(block: &Block, warp: usize, count: u32, at_launch: u32) -> bool {
        let others = block.warps.iter().enumerate().filter(|(i, _)| *i != warp);
        let held: u32 = others.map(|(_, w)| w.registers).sum();
        held + count <= at_launch * block.warps.len() as u32
    }

    /// A warp arrives at a named barrier of its block.
    pub(super) fn named_barrier(&mut self, block: &mut Block, warp: usize, id: u32, threads: u32, arrive: bool) {
        let state = &block.warps[warp];
        if !state.known.is_empty() {
            let known = state.known.clone();
            block.named[id as usize].known.join(&known);
        }
        let state = &mut block.warps[warp];
        let (who, at) = (Who::of(block.index, block.linear, state), state.pc as usize - 1);
        let span = self.code.spans[at];
        let clock = state.released();
        if !arrive {
            state.state = State::Waiting(Wait::Named { id });
        }
        let named = &mut block.named[id as usize];
        let expected = named.threads;
        if named.arrived > 0 && expected != threads {
            self.named_barrier_misuse(who, span, id, format!("{threads} threads here, {expected} elsewhere"));
        }
        let named = &mut block.named[id as usize];
        named.threads = threads;
        named.arrived += 32;
        named.warps |= 1 << warp;
        join(&mut named.clock, &clock);
        if named.arrived < threads {
            return;
        }
        let (warps, before, arrived) = (named.warps, named.before, named.arrived);
        let (clock, known) = (std::mem::take(&mut named.clock), std::mem::take(&mut named.known));
        (named.arrived, named.warps, named.before) = (0, 0, warps);
        if before != 0 && before != warps {
            let text = format!("it was used by the warps {}, now by {}", warp_list(before), warp_list(warps));
            self.named_barrier_misuse(who, span, id, text);
        } else if arrived > threads {
            self.named_barrier_misuse(who, span, id, format!("{arrived} threads arrive, it is for {threads}"));
        }
        for warp in block.warps.iter_mut().filter(|w| w.state == State::Waiting(Wait::Named { id })) {
            warp.acquire(&clock);
            if !known.is_empty() {
                warp.known.join(&known);
            }
            warp.state = State::Runnable;
        }
    }

    /// Opens the cluster's barrier where all of its warps that have not ended are there.
    fn pass_cluster_barrier(&mut self, cluster: &mut Cluster) {
        let warps = || cluster.blocks.iter().flat_map(|b| &b.warps);
        let is_there = |warp: &Warp| warp.meeting == Meeting::Arrived;
        if !warps().any(is_there) || !warps().all(|w| is_there(w) || w.state == State::Done) {
            return;
        }
        let mut clock = Vec::new();
        let waits = |warp: &Warp| warp.state == State::Waiting(Wait::Cluster);
        for warp in cluster.blocks.iter_mut().flat_map(|b| &mut b.warps).filter(|w| is_there(w) && waits(w)) {
            let is_ordered = self.is_ordered(warp.pc as usize - 1);
            let released = warp.released();
            if is_ordered {
                join(&mut clock, &released);
            }
        }
        for warp in cluster.blocks.iter_mut().flat_map(|b| &mut b.warps).filter(|w| is_there(w)) {
            warp.meeting = Meeting::Complete;
            if waits(warp) {
                warp.acquire(&clock);
                (warp.state, warp.meeting, warp.met) = (State::Runnable, Meeting::Away, true);
            }
        }
    }

    /// Whether a barrier of the cluster orders memory.
    fn is_ordered(&self, pc: usize) -> bool {
        matches!(self.code.instrs.get(pc), Some(super::bytecode::Instr::ClusterBarrier { relaxed: false }))
    }

    /// Nobody can go on, and nothing is under way.
    pub(super) fn hang(&mut self, cluster: &mut Cluster) {
        let mut waits: Vec<(String, Vec<String>)> = Vec::new();
        let mut first: Option<(Who, SpanId)> = None;
        let many = cluster.blocks.len() > 1;
        for block in &cluster.blocks {
            for warp in block.warps.iter().filter(|w| w.state != State::Done) {
                let who = Who::of(block.index, block.linear, warp);
                let back = usize::from(!matches!(
                    warp.state,
                    State::Waiting(Wait::Barrier { .. } | Wait::Registers { .. } | Wait::Product) | State::AtBarrier
                ));
                let span = self.code.spans.get(warp.pc as usize - back).copied().unwrap_or(SpanId::from_u32(0));
                first = first.or(Some((who, span)));
                let line = self.line(span);
                let what = match warp.state {
                    State::Runnable | State::Done => "is running".to_owned(),
                    State::AtBarrier => "waits at `sync_threads`".to_owned(),
                    State::Waiting(Wait::Barrier { index, parity }) => {
                        let barrier = &block.shared.barriers[index as usize];
                        format!(
                            "waits for parity {} of `{}`, which has completed {} phases and lacks {} of {} arrivals and \
                             {} bytes",
                            u8::from(parity),
                            self.barrier_name(index),
                            barrier.phase,
                            barrier.pending,
                            barrier.arrivals,
                            barrier.bytes
                        )
                    }
                    State::Waiting(Wait::Named { id }) => {
                        let named = &block.named[id as usize];
                        format!("waits at barrier {id}, where {} of {} threads are", named.arrived, named.threads)
                    }
                    State::Waiting(Wait::Cluster) => "waits for its cluster".to_owned(),
                    State::Waiting(Wait::Registers { count }) => {
                        let held: u32 = block.warps.iter().map(|w| 32 * w.registers).sum();
                        let all = 32 * self.launch.registers * block.warps.len() as u32;
                        format!("waits for {count} registers a thread; {held} of the block's {all} are taken")
                    }
                    State::Waiting(Wait::Product) => "waits for the other warps of its warpgroup".to_owned(),
                    State::Waiting(Wait::Products { .. } | Wait::Bulk { .. }) => "waits".to_owned(),
                };
                let name = match many {
                    true => format!("warp {} of {}", warp.index, self.block_name(block.index)),
                    false => format!("warp {}", warp.index),
                };
                let what = format!("{what} (line {line})");
                match waits.iter_mut().find(|(known, _)| *known == what) {
                    Some((_, names)) => names.push(name),
                    None => waits.push((what, vec![name])),
                }
            }
        }
        if let Some((who, span)) = first {
            let registers = cluster.blocks.iter().flat_map(|b| &b.warps);
            let registers = registers.filter(|w| matches!(w.state, State::Waiting(Wait::Registers { .. }))).count();
            let waits = waits.into_iter().map(|(what, names)| format!("{}: {what}", names.join(", ")));
            self.hangs(who, span, waits.collect(), registers > 0);
        }
        for warp in cluster.blocks.iter_mut().flat_map(|b| &mut b.warps) {
            warp.state = State::Done;
        }
        cluster.transfers.clear();
    }

    /// Every warp has ended: nobody may still use the shared memory of a block, and each copy into it has been waited for, whether or not it
    /// happened to be there already.
    pub(super) fn end_of_cluster(&mut self, cluster: &mut Cluster) {
        debug_assert!(cluster.is_over());
        for transfer in std::mem::take(&mut cluster.transfers) {
            self.arrive(cluster, transfer);
        }
        self.finished.clear();
        for block in &cluster.blocks {
            let seen = block.seen();
            for (number, barrier) in (0..).zip(&block.shared.barriers) {
                let late = barrier.remote.iter().find(|(entry, clock)| seen.get(*entry).is_none_or(|s| s < clock));
                if let Some((entry, _)) = late {
                    let from = *entry as u32 / self.launch.clocks.stride;
                    self.arrival_after_exit(block, number, from);
                }
                let clocks = self.launch.clocks;
                let entry = clocks.entry(block.linear, clocks.agent(Agent::Load(number)));
                let waited = seen.get(entry).copied().unwrap_or(0);
                if waited < barrier.pushed {
                    self.store_after_exit(block, number);
                }
                if let Some((_, who, span)) = barrier.loaded.filter(|(loaded, ..)| waited < *loaded) {
                    self.exit_in_copy(who, span, number);
                }
            }
        }
    }
}

/// `0, 1, 4`
fn warp_list(bits: u32) -> String {
    (0..32).filter(|i| bits >> i & 1 == 1).map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}
