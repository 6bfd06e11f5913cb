//! TMA: boxes and bulk copies, each an agent of its own from its start to the wait that covers it.
//!
//! What a copy reads and writes is recorded where it is started, stamped with the agent: whoever touches the same bytes
//! without having waited for it is reported, whenever the copy happens to be made. It is made at once, or as late as
//! something waits for it, as [`Copies`] says. A copy to several blocks arrives in each of them by itself.

mod record;
mod start;

pub(super) use record::cells;

use super::access::Running;
use super::cluster::Cluster;
use super::mbarrier::join;
use super::report::Who;
use super::schedule::Machine;
use super::shadow::{Access, Agent};
use super::warp::{Block, Warp};
use super::{AccessKind, Copies};
use crate::ir::{AtomicOp, EntityRef, SpanId};
use crate::lowered::Space;
use crate::sim::hw::tma::Placement;
use crate::sim::numeric;

/// What a warp has asked of TMA or of another block: it happens once the warp is out of the way.
pub(super) enum Message {
    /// An arrival at another block's barrier.
    Arrive { who: Who, lane: usize, span: SpanId, rank: u32, number: u32, clock: Vec<u32> },
    /// A copy.
    Start(Start),
}

/// A copy that is started.
pub(super) struct Start {
    who: Who,
    lane: usize,
    span: SpanId,
    /// What is ordered before it.
    seen: Vec<u32>,
    /// Where each element is, global and shared.
    places: Vec<Placement>,
    /// Sites of the tensor's and the array's side.
    sites: [u32; 2],
    kind: StartKind,
}

enum StartKind {
    /// Into the blocks of the mask, counted on this barrier in each.
    Load { mask: u32, barrier: u32, bytes: i64 },
    /// Part of this bulk group of the lane.
    Store { group: u32 },
    /// Bits into the block of this rank, counted on its barrier. `met`: the warp has met its cluster.
    Push { rank: u32, barrier: u32, data: Vec<u32>, met: bool },
}

/// A copy under way.
pub(super) struct Transfer {
    who: Who,
    lane: usize,
    span: SpanId,
    places: Vec<Placement>,
    sites: [u32; 2],
    /// The block whose shared memory it is, in its cluster.
    pub rank: u32,
    /// The bits that it brings, where they are from a thread's registers.
    data: Vec<u32>,
    pub kind: TransferKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferKind {
    Load { barrier: u32, phase: u32, bytes: i64 },
    Store { warp: u32, lane: usize, group: u32 },
}

impl Machine<'_> {
    /// Delivers what a warp has asked for.
    pub(super) fn deliver(&mut self, cluster: &mut Cluster) {
        while !self.outbox.is_empty() || !self.finished.is_empty() {
            for (block, number) in std::mem::take(&mut self.finished) {
                self.check_phase(cluster, block, number);
            }
            for message in std::mem::take(&mut self.outbox) {
                match message {
                    Message::Arrive { who, lane, span, rank, number, clock } => {
                        self.remote_arrive(cluster, (who, lane, span), (rank, number), &clock);
                    }
                    Message::Start(start) => self.start(cluster, start),
                }
            }
        }
    }

    /// A phase that has completed: every copy it counts must have arrived, and who waited for the phase before must have come before.
    fn check_phase(&mut self, cluster: &mut Cluster, block: u32, number: u32) {
        let rank = block % self.launch.cluster_size();
        self.report_overtaken(&mut cluster.blocks[rank as usize], number);
        let phase = cluster.blocks[rank as usize].shared.barriers[number as usize].phase;
        let early = cluster.transfers.iter().find(|t| match t.kind {
            TransferKind::Load { barrier, phase: counted, .. } => {
                t.rank == rank && barrier == number && counted < phase
            }
            TransferKind::Store { .. } => false,
        });
        if let Some(transfer) = early {
            let text = "completes a phase before a copy that it counts has arrived: too few bytes were expected";
            self.barrier_misuse(transfer.who, transfer.span, transfer.lane, number, text);
        }
    }

    fn remote_arrive(
        &mut self,
        cluster: &mut Cluster,
        (who, lane, span): (Who, usize, SpanId),
        (rank, number): (u32, u32),
        clock: &[u32],
    ) {
        let target = &mut cluster.blocks[rank as usize];
        let barrier = &mut target.shared.barriers[number as usize];
        let (ready, fenced, arrivals) = (barrier.arrivals != 0, barrier.fenced, barrier.arrivals);
        if !ready || !fenced {
            let text = "of another block is used before its initialisation was made visible to the cluster";
            self.barrier_misuse(who, span, lane, number, text);
            return;
        }
        let entry = self.launch.clocks.entry(who.linear, who.warp);
        match barrier.remote.iter_mut().find(|(known, _)| *known == entry) {
            Some((_, latest)) => *latest = clock[entry],
            None => barrier.remote.push((entry, clock[entry])),
        }
        let arrived = barrier.arrive(clock);
        if barrier.complete() {
            self.counters.phases += 1;
            self.finished.push((target.linear, number));
        }
        if !arrived {
            let text = format!("has more than the {arrivals} arrivals of a phase");
            self.barrier_misuse(who, span, lane, number, &text);
        }
    }

    /// A copy is started: its accesses are recorded, and it is made now or later.
    fn start(&mut self, cluster: &mut Cluster, start: Start) {
        self.counters.async_copies += 1;
        let Start { who, lane, span, seen, places, sites, kind } = start;
        let size = self.launch.cluster_size();
        let first = who.linear / size * size;
        let issuer = (who.linear, who.thread(lane) as u16);
        match kind {
            StartKind::Load { mask, barrier, bytes } => {
                for rank in (0..size).filter(|rank| mask >> rank & 1 == 1) {
                    let target = &cluster.blocks[rank as usize];
                    let state = &target.shared.barriers[barrier as usize];
                    let phase = state.phase;
                    if rank != who.linear % size && (!state.fenced || target.is_over()) {
                        let text = "of another block is used after it ended, or before it was initialised";
                        self.barrier_misuse(who, span, lane, barrier, text);
                        continue;
                    }
                    cluster.blocks[rank as usize].shared.barriers[barrier as usize].loaded =
                        Some((phase + 1, who, span));
                    let stamp = self.load_stamp(first + rank, barrier, phase, sites[1]);
                    self.record_shared(cluster, rank, &places, stamp, (issuer, &seen), (who, lane, sites[1]));
                    let stamp = Access { site: sites[0] as u16, ..stamp };
                    self.record_global(&places, stamp, (issuer, &seen), (who, lane, sites[0]));
                    let kind = TransferKind::Load { barrier, phase, bytes };
                    let data = Vec::new();
                    let transfer = Transfer { who, lane, span, places: places.clone(), sites, rank, data, kind };
                    self.depart(cluster, transfer);
                }
            }
            StartKind::Store { group } => {
                let rank = who.linear % size;
                let stamp = |agent| {
                    let thread = (32 * self.launch.clocks.agent(agent)) as u16;
                    Access { block: who.linear, clock: group + 1, thread, site: 0 }
                };
                let (reads, writes) = (stamp(Agent::StoreRead(who.warp)), stamp(Agent::StoreWrite(who.warp)));
                let reads = Access { site: sites[1] as u16, ..reads };
                let writes = Access { site: sites[0] as u16, ..writes };
                self.record_shared(cluster, rank, &places, reads, (issuer, &seen), (who, lane, sites[1]));
                self.record_global(&places, writes, (issuer, &seen), (who, lane, sites[0]));
                let kind = TransferKind::Store { warp: who.warp, lane, group };
                let data = Vec::new();
                self.depart(cluster, Transfer { who, lane, span, places, sites, rank, data, kind });
            }
            StartKind::Push { rank, barrier, data, met } => {
                let target = &mut cluster.blocks[rank as usize];
                let over = target.is_over();
                let state = &mut target.shared.barriers[barrier as usize];
                if !met || state.arrivals == 0 || !state.fenced || over {
                    let text = "of another block is used after it ended, or before the cluster has met";
                    return self.barrier_misuse(who, span, lane, barrier, text);
                }
                let phase = state.phase;
                state.pushed = state.pushed.max(phase + 1);
                let bytes = 4 * data.len() as i64;
                let stamp = self.load_stamp(first + rank, barrier, phase, sites[1]);
                self.record_shared(cluster, rank, &places, stamp, (issuer, &seen), (who, lane, sites[1]));
                let kind = TransferKind::Load { barrier, phase, bytes };
                self.depart(cluster, Transfer { who, lane, span, places, sites, rank, data, kind });
            }
        }
    }

    fn depart(&mut self, cluster: &mut Cluster, transfer: Transfer) {
        let early = match self.options.copies {
            Copies::Early => true,
            Copies::Late => false,
            Copies::Seeded => self.toss(),
        };
        if early {
            self.arrive(cluster, transfer);
        } else {
            cluster.transfers.push(transfer);
        }
    }

    /// Makes a copy: its bytes move, and its barrier counts them.
    pub(super) fn arrive(&mut self, cluster: &mut Cluster, transfer: Transfer) {
        let block = &mut cluster.blocks[transfer.rank as usize];
        for (place, bits) in transfer.places.iter().zip(&transfer.data) {
            let at = place.shared as usize;
            if let Some(element) = block.shared.data.get_mut(at..at + 4) {
                element.copy_from_slice(&bits.to_le_bytes());
            }
        }
        if transfer.data.is_empty() {
            self.move_boxes(block, &transfer);
        }
        if let TransferKind::Load { barrier, bytes, .. } = transfer.kind {
            let state = &mut block.shared.barriers[barrier as usize];
            state.bytes -= bytes;
            if state.complete() {
                self.counters.phases += 1;
                self.finished.push((block.linear, barrier));
            }
        }
    }

    /// Moves what a copy has between a tensor and a block.
    fn move_boxes(&self, block: &mut Block, transfer: &Transfer) {
        let site = &self.code.sites[transfer.sites[0] as usize];
        let Space::Global(param) = site.space else { return };
        let Some(view) = self.launch.views[param.index()].as_ref() else { return };
        let (bytes, dtype) = (view.dtype.bytes() as usize, view.dtype);
        let data = &mut block.shared.data;
        for place in &transfer.places {
            let at = place.shared as usize;
            let Some(element) = data.get_mut(at..at + bytes) else { continue };
            match (transfer.kind, place.global) {
                (TransferKind::Load { .. }, Some(from)) => {
                    let bits = view.memory.load(from as usize, dtype);
                    element.copy_from_slice(&bits.to_le_bytes()[..bytes]);
                }
                (TransferKind::Load { .. }, None) => element.fill(0),
                (TransferKind::Store { .. }, Some(to)) => {
                    let mut bits = [0; 4];
                    bits[..bytes].copy_from_slice(element);
                    let bits = u32::from_le_bytes(bits);
                    match site.kind {
                        AccessKind::Atomic => {
                            view.memory.update(to as usize, |old| numeric::atomic(AtomicOp::Add, dtype, old, bits));
                        }
                        AccessKind::Read | AccessKind::Write => view.memory.store(to as usize, dtype, bits),
                    }
                }
                (TransferKind::Store { .. }, None) => {}
            }
        }
    }

    /// The lanes of a warp have waited for their bulk groups.
    pub(super) fn bulk_done(&mut self, cluster: &mut Cluster, rank: usize, warp: usize, pending: u32, read: bool) {
        let state = &cluster.blocks[rank].warps[warp];
        let (active, groups, index) = (state.active, state.bulk_groups, state.index);
        let covers = |t: &Transfer| match t.kind {
            TransferKind::Store { warp, lane, group } => {
                t.rank as usize == rank && warp == index && active >> lane & 1 == 1 && group + pending < groups[lane]
            }
            TransferKind::Load { .. } => false,
        };
        let (done, left) = std::mem::take(&mut cluster.transfers).into_iter().partition(covers);
        cluster.transfers = left;
        let done: Vec<Transfer> = done;
        done.into_iter().for_each(|transfer| self.arrive(cluster, transfer));
        let complete = (0..32).filter(|lane| active >> lane & 1 == 1).map(|lane| groups[lane].saturating_sub(pending));
        let complete = complete.min().unwrap_or(0);
        let clocks = self.launch.clocks;
        let warp: &mut Warp = &mut cluster.blocks[rank].warps[warp];
        let mut agents = vec![Agent::StoreRead(index)];
        if !read {
            agents.push(Agent::StoreWrite(index));
        }
        for agent in agents {
            let entry = clocks.entry(warp.own as u32 / clocks.stride, clocks.agent(agent));
            warp.seen[entry] = warp.seen[entry].max(complete);
        }
    }

    /// The warp ends: TMA must have read what its threads have given it.
    pub(super) fn end_of_stores(&mut self, run: &mut Running<'_>, span: SpanId) {
        if !self.code.agents || run.warp.bulk_started == 0 {
            return;
        }
        let clocks = self.launch.clocks;
        let entry = clocks.entry(run.who.linear, clocks.agent(Agent::StoreRead(run.who.warp)));
        if run.warp.seen[entry] < run.warp.bulk_started {
            self.exit_while_read(run.who, span);
        }
    }
}

impl Block {
    /// What all of its warps together have seen.
    pub fn seen(&self) -> Vec<u32> {
        let mut seen = Vec::new();
        self.warps.iter().for_each(|warp| join(&mut seen, &warp.seen));
        seen
    }
}
