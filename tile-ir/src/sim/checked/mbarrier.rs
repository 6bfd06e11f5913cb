//! Barriers in shared memory (`mbarrier`): a phase completes when no arrival and no byte is outstanding.
//!
//! Bytes may arrive before they are expected, so their count may be negative for a while; an arrival is still pending
//! then, and the phase cannot complete. A wait gives its warp everything that was ordered before the completed phase: the
//! arrivals' accesses, and the copies that were counted.
//!
//! A wait names the parity of a phase, so it has to look before the next phase completes too: later it would wait for one more phase, which may
//! never come. So whoever waits for a phase must come before an arrival of the next one, by what orders threads, and not only in the order that
//! happened to be executed. Beside what orders memory, a product of a warpgroup orders this: its warps issue it together.

use super::access::Running;
use super::bytecode::BarrierPlace;
use super::lanes::each;
use super::report::Who;
use super::schedule::Machine;
use super::shadow::{Access, Agent};
use super::transfer::Message;
use super::warp::{Block, State, Wait};
use crate::ir::{EntityRef, SpanId};
use crate::lowered::BarrierId;

/// A barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Mbarrier {
    /// Arrivals a phase; 0 before it is initialised.
    pub arrivals: u32,
    /// Arrivals outstanding in this phase.
    pub pending: u32,
    /// Bytes outstanding.
    pub bytes: i64,
    /// Phases completed.
    pub phase: u32,
    /// Who initialised it: linear thread and clock of its warp.
    pub made: (u16, u32),
    /// Whether that was made visible to TMA and the cluster.
    pub fenced: bool,
    /// What is ordered before the arrivals of this phase.
    pub arriving: Vec<u32>,
    /// What is ordered before the phases that have completed.
    pub clock: Vec<u32>,
    /// Arrivals from other blocks, by entry of the vector clock: the latest clock.
    pub remote: Vec<(usize, u32)>,
    /// The latest phase that counts stores of other blocks, plus one.
    pub pushed: u32,
    /// The latest phase that counts bytes of a copy from a tensor, plus one, and who started that copy where.
    pub loaded: Option<(u32, Who, SpanId)>,
    /// Who has waited since the latest phase completed, for this phase or none.
    pub waits: Vec<Waited>,
    /// Warps that waited for the last phase but one, where no arrival of the last phase was ordered behind their wait: that phase may have
    /// completed before they looked.
    pub overtaken: Vec<Waited>,
}

/// A warp that has found a phase complete.
#[derive(Clone, Debug)]
pub(super) struct Waited {
    /// The warp in its block.
    pub warp: u32,
    /// Its first lane that waited.
    lane: usize,
    span: SpanId,
    /// Entries of the vector clock, and their clocks: who is ordered after one of them is ordered after the wait.
    pub before: Vec<(usize, u32)>,
}

impl Mbarrier {
    /// Whether a wait for the phase of this parity goes on.
    pub fn passes(&self, parity: bool) -> bool {
        (self.phase & 1 == 1) != parity
    }

    /// Adds an arrival; false where the phase has had all of them.
    pub fn arrive(&mut self, clock: &[u32]) -> bool {
        join(&mut self.arriving, clock);
        let Some(pending) = self.pending.checked_sub(1) else { return false };
        self.pending = pending;
        true
    }

    /// Completes the phase if nothing is outstanding; true where it did.
    pub fn complete(&mut self) -> bool {
        let done = self.arrivals > 0 && self.pending == 0 && self.bytes == 0;
        if done {
            self.phase += 1;
            self.pending = self.arrivals;
            let arriving = std::mem::take(&mut self.arriving);
            join(&mut self.clock, &arriving);
            let is_seen = |(entry, clock): &(usize, u32)| self.clock.get(*entry).is_some_and(|seen| seen >= clock);
            let waits = std::mem::take(&mut self.waits).into_iter();
            self.overtaken.extend(waits.filter(|waited| !waited.before.iter().any(is_seen)));
        }
        done
    }
}

/// `clock` is also ordered after what `other` is.
pub(super) fn join(clock: &mut Vec<u32>, other: &[u32]) {
    clock.resize(other.len().max(clock.len()), 0);
    for (mine, other) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*other);
    }
}

impl Machine<'_> {
    /// The number of a barrier in its block, for each lane; reports those outside their array.
    pub(super) fn barrier_index(
        &mut self,
        run: &Running<'_>,
        at: BarrierPlace,
        lane: usize,
        span: SpanId,
    ) -> Option<u32> {
        let index = run.warp.slots[at.index as usize][lane];
        let len = self.program.barriers[at.array].len;
        match u32::try_from(index).ok().filter(|i| *i < len) {
            Some(index) => Some(self.first_barrier(at.array) + index),
            None => {
                self.barrier_outside(run.who, span, lane, at.array, index);
                None
            }
        }
    }

    /// The number of an array's first barrier.
    fn first_barrier(&self, array: BarrierId) -> u32 {
        self.program.barriers.values().take(array.index()).map(|b| b.len).sum()
    }

    /// `full[1]`
    pub(super) fn barrier_name(&self, mut number: u32) -> String {
        for array in self.program.barriers.values() {
            if number < array.len {
                return format!("{}[{number}]", array.name);
            }
            number -= array.len;
        }
        format!("barrier {number}")
    }

    /// The barrier of a copy that the first active lane starts.
    pub(super) fn barrier_of(&mut self, run: &Running<'_>, at: BarrierPlace, lane: usize, span: SpanId) -> Option<u32> {
        let number = self.barrier_index(run, at, lane, span)?;
        self.usable(run, number, lane, span, true).then_some(number)
    }

    /// Whether this lane may use a barrier: it is initialised, and the lane is ordered after that.
    fn usable(&mut self, run: &Running<'_>, number: u32, lane: usize, span: SpanId, engine: bool) -> bool {
        let barrier = &run.shared.barriers[number as usize];
        let (thread, clock) = barrier.made;
        let entry = self.launch.clocks.entry(run.who.linear, u32::from(thread) / 32);
        let own = u32::from(thread) == run.who.thread(lane);
        if barrier.arrivals == 0 {
            self.barrier_misuse(run.who, span, lane, number, "is used before it is initialised");
            return false;
        }
        // `fence.mbarrier_init` before the cluster's barrier shows it to whoever has waited there, the block's own threads too.
        let shown = run.warp.met && barrier.fenced;
        if !own && !shown && run.warp.seen[entry] < clock {
            self.barrier_misuse(run.who, span, lane, number, "is used with no barrier after its initialisation");
        } else if engine && !barrier.fenced {
            let text = "is given to TMA, and no fence made its initialisation visible";
            self.barrier_misuse(run.who, span, lane, number, text);
        }
        true
    }

    pub(super) fn barrier_init(&mut self, run: &mut Running<'_>, at: BarrierPlace, arrivals: u32, span: SpanId) {
        each(run.warp.active, |lane| {
            let Some(number) = self.barrier_index(run, at, lane, span) else { return };
            if run.shared.barriers[number as usize].arrivals != 0 {
                self.barrier_misuse(run.who, span, lane, number, "is initialised twice");
            }
            let made = (run.who.thread(lane) as u16, run.warp.clock);
            run.shared.barriers[number as usize] =
                Mbarrier { arrivals, pending: arrivals, made, ..Mbarrier::default() };
        });
    }

    pub(super) fn fence_barrier_init(&mut self, run: &mut Running<'_>) {
        each(run.warp.active, |lane| {
            let thread = run.who.thread(lane) as u16;
            for barrier in run.shared.barriers.iter_mut().filter(|b| b.arrivals != 0 && b.made.0 == thread) {
                barrier.fenced = true;
            }
        });
    }

    /// Arrivals of the active lanes, at barriers of their own block or of others of its cluster.
    pub(super) fn barrier_arrive(
        &mut self,
        run: &mut Running<'_>,
        at: BarrierPlace,
        (bytes, cta): (Option<u32>, Option<u32>),
        span: SpanId,
    ) {
        let clock = run.warp.released();
        let size = self.launch.cluster_size();
        let own = run.who.linear % size;
        each(run.warp.active, |lane| {
            let Some(number) = self.barrier_index(run, at, lane, span) else { return };
            let rank = cta.map_or(i64::from(own), |slot| run.warp.slots[slot as usize][lane]);
            if !(0..i64::from(size)).contains(&rank) {
                let text = format!("an arrival at block {rank} of a cluster of {size}");
                return self.refused(run.who, span, lane, &text);
            }
            if rank != i64::from(own) {
                let (who, rank, clock) = (run.who, rank as u32, clock.clone());
                return self.outbox.push(Message::Arrive { who, lane, span, rank, number, clock });
            }
            if !self.usable(run, number, lane, span, bytes.is_some()) {
                return;
            }
            let more = bytes.map_or(0, |slot| run.warp.slots[slot as usize][lane]);
            let barrier = &mut run.shared.barriers[number as usize];
            // Bytes are expected before the arrival counts.
            barrier.bytes += more;
            let (arrived, arrivals) = (barrier.arrive(&clock), barrier.arrivals);
            if !arrived {
                let text = format!("has more than the {arrivals} arrivals of a phase");
                self.barrier_misuse(run.who, span, lane, number, &text);
            }
            self.completed(run, number);
        });
    }

    /// Completes a phase if it can.
    fn completed(&mut self, run: &mut Running<'_>, number: u32) {
        if run.shared.barriers[number as usize].complete() {
            self.counters.phases += 1;
            self.finished.push((run.who.linear, number));
        }
    }

    /// Waits; the warp stays at this instruction where a lane's phase is not complete.
    pub(super) fn barrier_wait(&mut self, run: &mut Running<'_>, at: BarrierPlace, parity: u32, span: SpanId) {
        let mut blocked = None;
        let mut passed: Vec<(u32, usize)> = Vec::new();
        each(run.warp.active, |lane| {
            let Some(number) = self.barrier_index(run, at, lane, span) else { return };
            if passed.iter().any(|(known, _)| *known == number)
                || blocked.is_some()
                || !self.usable(run, number, lane, span, false)
            {
                return;
            }
            let parity = run.warp.slots[parity as usize][lane] & 1 == 1;
            if run.shared.barriers[number as usize].passes(parity) {
                passed.push((number, lane));
            } else {
                blocked = Some(Wait::Barrier { index: number, parity });
            }
        });
        if let Some(wait) = blocked {
            run.warp.pc -= 1;
            run.warp.state = State::Waiting(wait);
            return;
        }
        let own = (self.launch.clocks.entry(run.who.linear, run.who.warp), run.warp.clock);
        for (number, lane) in passed {
            let barrier = &mut run.shared.barriers[number as usize];
            let (clock, phase) = (barrier.clock.clone(), barrier.phase);
            barrier.waits.retain(|waited| waited.warp != run.who.warp);
            barrier.waits.push(Waited { warp: run.who.warp, lane, span, before: vec![own] });
            run.warp.acquire(&clock);
            let clocks = self.launch.clocks;
            let entry = clocks.entry(run.who.linear, clocks.agent(Agent::Load(number)));
            run.warp.seen[entry] = run.warp.seen[entry].max(phase);
        }
    }

    /// The warps of a block that are issuing a product together have made their waits so far: whoever is ordered after one of them here is
    /// ordered after the waits of all.
    pub(super) fn waited_together(&self, block: &mut Block, warps: std::ops::Range<usize>) {
        let entry = |warp: usize| self.launch.clocks.entry(block.linear, warp as u32);
        let now: Vec<_> = warps.clone().map(|warp| (entry(warp), block.warps[warp].clock)).collect();
        let waits = block.shared.barriers.iter_mut().flat_map(|barrier| &mut barrier.waits);
        for waited in waits.filter(|waited| warps.contains(&(waited.warp as usize)) && waited.before.len() == 1) {
            waited.before.extend(&now);
        }
    }

    /// A phase has completed that some who waited for the one before need not have seen incomplete.
    pub(super) fn report_overtaken(&mut self, block: &mut Block, number: u32) {
        for waited in std::mem::take(&mut block.shared.barriers[number as usize].overtaken) {
            let who = Who::of(block.index, block.linear, &block.warps[waited.warp as usize]);
            let text = "completes a phase that nothing orders after this wait for the one before: who comes late would wait for ever";
            self.barrier_misuse(who, waited.span, waited.lane, number, text);
        }
    }

    /// The stamp of copies that the current phase of a barrier counts.
    pub(super) fn load_stamp(&self, block: u32, number: u32, phase: u32, site: u32) -> Access {
        let thread = (32 * self.launch.clocks.agent(Agent::Load(number))) as u16;
        Access { block, clock: phase + 1, thread, site: site as u16 }
    }
}
