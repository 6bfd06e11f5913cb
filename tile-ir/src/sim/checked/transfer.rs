//! The copy engine: boxes and bulk copies, each an agent of its own from its start to the wait that covers it.
//!
//! What a copy reads and writes is recorded where it is started, stamped with the agent: whoever touches the same bytes
//! without having waited for it is reported, whenever the copy happens to be made. It is made at once, or as late as
//! something waits for it, as [`Copies`] says. A copy to several blocks arrives in each of them by itself.

use super::access::Running;
use super::bytecode::{BarrierPlace, Site};
use super::cluster::Cluster;
use super::lanes::each;
use super::mbarrier::join;
use super::report::Who;
use super::schedule::Machine;
use super::shadow::{Access, Agent, Known, Now};
use super::warp::{Owner, Warp};
use super::{AccessKind, Copies};
use crate::ir::{EntityRef, ParamId, SpanId, Swizzle};
use crate::lowered::{SharedId, Space};
use crate::sim::hw::tma::{Placement, TensorMap};
use crate::sim::hw::{HwError, SwizzleMode};
use std::ops::Range;

/// What a warp has asked of the copy engine or of another block: it happens once the warp is out of the way.
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

impl Transfer {
    pub fn who(&self) -> Who {
        self.who
    }

    pub fn span(&self) -> SpanId {
        self.span
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferKind {
    Load { barrier: u32, phase: u32, bytes: i64 },
    Store { warp: u32, lane: usize, group: u32 },
}

impl Machine<'_> {
    /// A box: the active lanes each start it.
    pub(super) fn box_copy(&mut self, run: &mut Running<'_>, copy: u32, span: SpanId) {
        let code = self.code;
        let copy = &code.boxes[copy as usize];
        let map = &self.program.tensor_maps[copy.map];
        let described = self.describe_map(map.tensor, &map.box_extents, map.swizzle);
        let array = &self.program.shared[copy.shared];
        each(run.warp.active, |lane| {
            self.check_waited(run, copy.sites[0], lane);
            let at = |slot: u32| run.warp.slots[slot as usize][lane];
            let offset = at(copy.offset);
            let coordinates: Vec<i64> = copy.coordinates.iter().map(|c| i64::from(at(*c) as i32)).collect();
            let Some(inside) = u32::try_from(offset).ok().filter(|o| *o <= array.len) else {
                self.out_of_bounds(run.who, &code.sites[copy.sites[1] as usize], lane, offset);
                return;
            };
            let address = array.offset + inside * array.dtype.bytes();
            let places = described.as_ref().map_err(HwError::clone).and_then(|map| {
                // The image repeats only at multiples of the swizzle's period.
                let period = map.swizzle.period();
                if !address.is_multiple_of(period) {
                    return Err(HwError::Misaligned {
                        what: "shared address of a box",
                        address: address.into(),
                        multiple: period.into(),
                    });
                }
                map.placements(&coordinates, address)
            });
            let places = match places {
                Ok(places) => places,
                Err(error) => return self.refused(run.who, span, lane, &error.to_string()),
            };
            let bytes = i64::from(array.dtype.bytes()) * places.len() as i64;
            if i64::from(inside) * i64::from(array.dtype.bytes()) + bytes > i64::from(array.len * array.dtype.bytes()) {
                let last = offset + places.len() as i64 - 1;
                self.out_of_bounds(run.who, &code.sites[copy.sites[1] as usize], lane, last);
                return;
            }
            let kind = match copy.barrier {
                Some(place) => {
                    let mask = copy.multicast.map(|slot| at(slot) as u32);
                    match self.load_kind(run, place, mask, lane, bytes, span) {
                        Some(kind) => kind,
                        None => return,
                    }
                }
                None => {
                    let group = run.warp.bulk_groups[lane];
                    run.warp.bulk_started = run.warp.bulk_started.max(group + 1);
                    StartKind::Store { group }
                }
            };
            let seen = run.warp.released();
            let start = Start { who: run.who, lane, span, seen, places, sites: copy.sites, kind };
            self.outbox.push(Message::Start(start));
        });
    }

    /// Reports a copy that a lane starts too early.
    fn check_waited(&mut self, run: &Running<'_>, site: u32, lane: usize) {
        let code = self.code;
        let site = &code.sites[site as usize];
        if site.dependent && run.warp.waited >> lane & 1 == 0 {
            self.early_access(run.who, site, lane);
        }
    }

    /// Bytes that lie together.
    pub(super) fn bulk_copy(&mut self, run: &mut Running<'_>, copy: u32, span: SpanId) {
        let code = self.code;
        let copy = &code.bulks[copy as usize];
        let array = &self.program.shared[copy.shared];
        let size = i64::from(array.dtype.bytes());
        each(run.warp.active, |lane| {
            self.check_waited(run, copy.sites[0], lane);
            let at = |slot: u32| run.warp.slots[slot as usize][lane];
            let (from, offset, bytes) = (at(copy.from), at(copy.offset), at(copy.bytes));
            let site = &code.sites[copy.sites[0] as usize];
            let Space::Global(param) = site.space else { return };
            let Some(view) = self.launch.views[param.index()].as_ref() else { return };
            let count = bytes / size;
            let shared = i64::from(array.offset) + offset * size;
            for (what, number) in [
                ("number of bytes", bytes),
                ("shared address", shared),
                ("global address", view.base as i64 + from * size),
            ] {
                if number % 16 != 0 || number < 0 {
                    let text = format!("the {what} of a bulk copy is {number}, which is not a multiple of 16");
                    return self.refused(run.who, span, lane, &text);
                }
            }
            if let Some(outside) = (from..from + count).find(|o| !view.contains(*o)) {
                return self.out_of_bounds(run.who, site, lane, outside);
            }
            if offset < 0 || offset + count > i64::from(array.len) {
                let site = &code.sites[copy.sites[1] as usize];
                return self.out_of_bounds(run.who, site, lane, offset + count - 1);
            }
            let places = (0..count)
                .map(|i| Placement { global: Some(view.byte(from + i) as u64), shared: (shared + i * size) as u32 });
            let places = places.collect();
            let Some(kind) = self.load_kind(run, copy.barrier, None, lane, bytes, span) else { return };
            let seen = run.warp.released();
            let start = Start { who: run.who, lane, span, seen, places, sites: copy.sites, kind };
            self.outbox.push(Message::Start(start));
        });
    }

    fn load_kind(
        &mut self,
        run: &Running<'_>,
        place: BarrierPlace,
        mask: Option<u32>,
        lane: usize,
        bytes: i64,
        span: SpanId,
    ) -> Option<StartKind> {
        let barrier = self.barrier_of(run, place, lane, span)?;
        let size = self.launch.cluster_size();
        let own = 1 << (run.who.linear % size);
        let mask = mask.unwrap_or(own);
        if mask == 0 || mask >> size != 0 {
            let text = format!("a copy goes to the blocks {mask:#b} of a cluster of {size}");
            self.refused(run.who, span, lane, &text);
            return None;
        }
        Some(StartKind::Load { mask, barrier, bytes })
    }

    fn describe_map(&self, tensor: ParamId, extents: &[u32], swizzle: Swizzle) -> Result<TensorMap, HwError> {
        let missing = HwError::Illegal { what: "tensor of a map", value: 0, allowed: "an argument" };
        let view = self.launch.views.get(tensor.index()).and_then(Option::as_ref).ok_or(missing)?;
        let element_bytes = view.dtype.bytes();
        let inner_first = |numbers: &[i64]| numbers.iter().rev().map(|&n| n.max(0) as u64).collect::<Vec<_>>();
        let map = TensorMap {
            element_bytes,
            address: view.base as u64,
            dims: inner_first(&view.shape),
            strides: inner_first(&view.strides)[1..].iter().map(|s| s * u64::from(element_bytes)).collect(),
            box_dims: extents.to_vec(),
            swizzle: SwizzleMode::from(swizzle),
        };
        map.check().map(|()| map)
    }

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

    /// A phase that has completed: every copy it counts must have arrived.
    fn check_phase(&mut self, cluster: &Cluster, block: u32, number: u32) {
        let rank = block % self.launch.cluster_size();
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
    fn move_boxes(&self, block: &mut super::warp::Block, transfer: &Transfer) {
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
                    view.memory.store(to as usize, dtype, u32::from_le_bytes(bits));
                }
                (TransferKind::Store { .. }, None) => {}
            }
        }
    }

    /// Elements of a thread into another block's shared memory.
    pub(super) fn cluster_store(&mut self, run: &mut Running<'_>, store: u32, span: SpanId) {
        let code = self.code;
        let store = &code.cluster_stores[store as usize];
        let offsets = run.warp.slots[store.offset as usize];
        self.check_site(run, store.site, &offsets);
        let array = &self.program.shared[store.shared];
        let size = self.launch.cluster_size();
        each(run.warp.active, |lane| {
            let start = run.warp.slots[store.from.start as usize][lane];
            let values = (0..i64::from(store.width))
                .map(|i| self.take_local(run, store.from.site, store.from.local, lane, start.wrapping_add(i)));
            let data: Vec<u32> = values.map(|value| super::lanes::to_bits(array.dtype, value)).collect();
            let (offset, rank) = (offsets[lane], run.warp.slots[store.block as usize][lane]);
            if offset < 0 || offset + i64::from(store.width) > i64::from(array.len) {
                let last = offset + i64::from(store.width) - 1;
                return self.out_of_bounds(run.who, &code.sites[store.site as usize], lane, last);
            }
            if !(0..i64::from(size)).contains(&rank) {
                let text = format!("a store into block {rank} of a cluster of {size}");
                return self.refused(run.who, span, lane, &text);
            }
            let Some(barrier) = self.barrier_index(run, store.barrier, lane, span) else { return };
            let first = array.offset + offset as u32 * 4;
            let places = (0..store.width).map(|i| Placement { global: None, shared: first + 4 * i }).collect();
            let met = run.warp.met;
            let kind = StartKind::Push { rank: rank as u32, barrier, data, met };
            let (seen, sites) = (run.warp.released(), [store.site; 2]);
            self.outbox.push(Message::Start(Start { who: run.who, lane, span, seen, places, sites, kind }));
        });
    }

    /// Records what an agent does to shared memory; reads of what nobody wrote or made visible are reported.
    fn record_shared(
        &mut self,
        cluster: &mut Cluster,
        rank: u32,
        places: &[Placement],
        stamp: Access,
        by: ((u32, u16), &[u32]),
        (who, lane, site): (Who, usize, u32),
    ) {
        let code = self.code;
        let site_info = &code.sites[site as usize];
        let Space::Shared(array) = site_info.space else { return };
        let bytes = site_info.dtype.bytes();
        let block = &mut cluster.blocks[rank as usize];
        for place in places {
            let cells = cells(place.shared, bytes, block.shared.grain);
            let offset = self.element_at(array, place.shared);
            self.observed[site as usize] += 1;
            self.agent_access(block, cells, stamp, by, (who, lane), (site_info, offset));
        }
    }

    /// One access of an agent to shared memory.
    pub(super) fn agent_access(
        &mut self,
        block: &mut super::warp::Block,
        cells: Range<usize>,
        stamp: Access,
        (issuer, seen): ((u32, u16), &[u32]),
        (who, lane): (Who, usize),
        (site, offset): (&Site, i64),
    ) {
        let clocks = self.launch.clocks;
        if cells.end > block.shared.owners.len() {
            return self.out_of_bounds(who, site, lane, offset);
        }
        let now = Now { access: stamp, issuer, clocks, seen, known: &Known::NOTHING, global: false };
        for cell in cells {
            if site.kind == AccessKind::Read {
                if block.shared.owners[cell].block != block.linear + 1 {
                    self.uninitialised(who, site, lane, offset);
                }
                let write = block.shared.shadow.last_write(cell);
                let generic = write.clock != 0 && write.block == block.linear && write.warp() < 32;
                if generic && now.is_ordered(&write) {
                    let fences = &block.warps[write.warp() as usize].proxy_fences[usize::from(write.thread) % 32];
                    let seen = seen[clocks.entry(write.block, write.warp())];
                    if !fences.iter().any(|&fence| fence >= write.clock && fence <= seen) {
                        self.missing_fence(who, site, lane, offset, write);
                    }
                }
            } else {
                block.shared.owners[cell] = self.written_by_engine(block.linear, site);
            }
            if let Some(earlier) = block.shared.shadow.record(cell, site.kind, now) {
                self.agent_race(who, site, offset, stamp, earlier);
            }
        }
    }

    fn written_by_engine(&self, block: u32, site: &Site) -> Owner {
        let array = match site.space {
            Space::Shared(array) => array.as_u32(),
            Space::Global(_) | Space::Local(_) => 0,
        };
        Owner { block: block + 1, array, generation: u32::MAX }
    }

    fn record_global(
        &mut self,
        places: &[Placement],
        stamp: Access,
        (issuer, seen): ((u32, u16), &[u32]),
        (who, _lane, site): (Who, usize, u32),
    ) {
        let site = &self.code.sites[site as usize];
        let Space::Global(param) = site.space else { return };
        let Some(view) = self.launch.views[param.index()].as_ref() else { return };
        let allocation = &self.launch.allocations[view.allocation];
        if !allocation.written {
            return;
        }
        let now = Now { access: stamp, issuer, clocks: self.launch.clocks, seen, known: &Known::NOTHING, global: true };
        let bytes = view.dtype.bytes();
        let mut races = Vec::new();
        for place in places.iter().filter_map(|p| p.global) {
            for cell in cells(place as u32, bytes, allocation.grain) {
                if let Some(earlier) = self.globals[view.allocation].record(cell, site.kind, now) {
                    races.push(((place - view.base as u64) / u64::from(bytes), earlier));
                }
            }
        }
        for (offset, earlier) in races {
            self.agent_race(who, site, offset as i64, stamp, earlier);
        }
    }

    /// The element of an array at a byte of shared memory.
    pub(super) fn element_at(&self, array: SharedId, byte: u32) -> i64 {
        let info = &self.program.shared[array];
        (i64::from(byte) - i64::from(info.offset)) / i64::from(info.dtype.bytes())
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

    /// The warp ends: the copy engine must have read what its threads have given it.
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

impl super::warp::Block {
    /// What all of its warps together have seen.
    pub fn seen(&self) -> Vec<u32> {
        let mut seen = Vec::new();
        self.warps.iter().for_each(|warp| join(&mut seen, &warp.seen));
        seen
    }
}

/// The shadow cells of bytes.
pub(super) fn cells(byte: u32, bytes: u32, grain: u32) -> Range<usize> {
    (byte / grain) as usize..((byte + bytes) / grain) as usize
}
