//! The scheduler: blocks that run at once, the warp that runs next, and what happens where none can.

use super::bytecode::{Code, Pc};
use super::cluster::Cluster;
use super::execute::Asked;
use super::launch::Launch;
use super::report::{Reporter, Who};
use super::shadow::{Known, Shadow};
use super::transfer::Message;
use super::warp::{Block, State};
use super::{Cancel, CheckedOptions, CheckedReport, Copies, Counters, ObservedEffect, Print, Schedule, Stop};
use crate::ir::{Dtype, SpanId};
use crate::lowered::Program;
use std::collections::BTreeMap;
use std::time::Instant;

/// Most blocks of a cluster.
const MAX_CLUSTER: usize = 8;

/// An execution.
pub(super) struct Machine<'p> {
    pub program: &'p Program,
    pub code: &'p Code,
    pub launch: &'p Launch,
    pub options: &'p CheckedOptions,
    pub reporter: Reporter,
    pub counters: Counters,
    /// By site: elements touched.
    pub observed: Vec<u64>,
    /// By allocation.
    pub globals: Vec<Shadow>,
    /// What was released at a counter in global memory: by allocation and byte.
    pub released: BTreeMap<(usize, usize), Known>,
    /// By allocation and byte of a counter: who counted there last, and where.
    pub arrived: BTreeMap<(usize, usize), (Who, u32)>,
    /// With the linear block.
    pub prints: Vec<(u32, Print)>,
    pub prints_dropped: u64,
    /// What the running warp has asked of TMA or other blocks.
    pub outbox: Vec<Message>,
    /// What it has asked of its block.
    pub asked: Option<Asked>,
    /// Blocks and barriers whose phase has completed since that was last looked at.
    pub finished: Vec<(u32, u32)>,
    /// Why it was stopped before its end.
    pub(super) stopped: Option<Stop>,
    random: Random,
}

impl<'p> Machine<'p> {
    pub fn new(program: &'p Program, code: &'p Code, launch: &'p Launch, options: &'p CheckedOptions) -> Self {
        Machine {
            program,
            code,
            launch,
            options,
            reporter: Reporter::new(options.max_reports),
            counters: Counters::default(),
            observed: vec![0; code.sites.len()],
            globals: launch.allocations.iter().map(|_| Shadow::default()).collect(),
            prints: Vec::new(),
            prints_dropped: 0,
            outbox: Vec::new(),
            released: BTreeMap::new(),
            arrived: BTreeMap::new(),
            asked: None,
            finished: Vec::new(),
            stopped: None,
            random: Random(options.seed),
        }
    }

    /// Executes every block.
    pub fn run(mut self) -> CheckedReport {
        let clusters = self.launch.blocks / self.launch.cluster_size();
        let count = clusters.min(self.options.most_clusters.unwrap_or(u32::MAX));
        let at_once = match self.options.schedule {
            Schedule::InOrder => 1,
            Schedule::Seeded { resident_blocks } => resident_blocks.clamp(1, 64),
        };
        let mut order = BlockOrder::new(count, self.options.schedule, &mut self.random);
        let mut resident: Vec<Cluster> = Vec::new();
        for number in order.by_ref().take(at_once as usize) {
            let mut cluster = Cluster::new(self.program, self.code, self.launch);
            cluster.start(number, self.code, self.launch);
            resident.push(cluster);
        }
        while !resident.is_empty() {
            let at = self.choose(resident.len());
            let is_late = self.options.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_late || self.options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                self.stopped = Some(Stop::Cancelled);
                break;
            }
            if self.counters.steps.saturating_add(self.counters.blocks) >= self.options.step_limit {
                self.give_up(&resident[at]);
                self.stopped = Some(Stop::StepLimit(self.options.step_limit));
                break;
            }
            let cluster = &mut resident[at];
            if self.advance(cluster) {
                self.counters.blocks += cluster.blocks.len() as u64;
                match order.next() {
                    Some(number) => cluster.start(number, self.code, self.launch),
                    None => drop(resident.swap_remove(at)),
                }
            }
        }
        let is_whole = count == clusters && self.stopped.is_none();
        if is_whole {
            self.counters_at_the_end();
        }
        self.finish(is_whole)
    }

    /// Every counter of `last_arriver` is 0 again, for the next launch.
    fn counters_at_the_end(&mut self) {
        for ((allocation, byte), (who, site)) in std::mem::take(&mut self.arrived) {
            let mut views = self.launch.views.iter().flatten();
            let Some(view) = views.find(|view| view.allocation == allocation) else { continue };
            let left = view.memory.load(byte, Dtype::U32);
            if left != 0 {
                self.counter_left(who, site, left);
            }
        }
    }

    /// Runs one warp of a cluster for a while, or lets something else happen. True where the cluster has ended.
    fn advance(&mut self, cluster: &mut Cluster) -> bool {
        if self.code.agents || cluster.blocks.len() > 1 {
            self.wake(cluster);
            self.deliver(cluster);
            // Any time is a time for a copy to arrive.
            if !cluster.transfers.is_empty() && self.options.copies == Copies::Seeded && self.choose(8) == 1 {
                self.arrive_one(cluster);
            }
        }
        let mut runnable = [0u32; MAX_CLUSTER];
        let mut count = 0;
        for (runnable, block) in runnable.iter_mut().zip(&cluster.blocks) {
            for (i, warp) in block.warps.iter().enumerate() {
                *runnable |= u32::from(warp.state == State::Runnable) << i;
            }
            count += runnable.count_ones() as usize;
        }
        if count > 0 {
            let (mut skip, quantum) = match self.options.schedule {
                Schedule::InOrder => (0, 1024),
                Schedule::Seeded { .. } => (self.choose(count), 1 + self.choose(64) as u32),
            };
            let left = self.options.step_limit.saturating_sub(self.counters.steps).max(1);
            let quantum = quantum.min(u32::try_from(left).unwrap_or(u32::MAX));
            for (block, runnable) in cluster.blocks.iter_mut().zip(runnable) {
                let here = runnable.count_ones() as usize;
                if skip < here {
                    let rest = (0..skip).fold(runnable, |bits, _| bits & (bits - 1));
                    self.run_warp(block, rest.trailing_zeros() as usize, quantum);
                    break;
                }
                skip -= here;
            }
            self.deliver(cluster);
            return false;
        }
        if cluster.blocks.iter().all(Block::is_over) {
            self.end_of_cluster(cluster);
            return true;
        }
        let stopped = |block: &&mut Block| {
            !block.is_over() && block.warps.iter().all(|w| matches!(w.state, State::AtBarrier | State::Done))
        };
        if let Some(block) = cluster.blocks.iter_mut().find(stopped) {
            self.pass_barrier(block);
        } else if !cluster.transfers.is_empty() {
            self.arrive_one(cluster);
        } else if !self.is_awake(cluster) {
            self.hang(cluster);
        }
        false
    }

    /// One of the copies under way arrives.
    fn arrive_one(&mut self, cluster: &mut Cluster) {
        let which = self.choose(cluster.transfers.len());
        let transfer = cluster.transfers.swap_remove(which);
        self.arrive(cluster, transfer);
        self.deliver(cluster);
    }

    /// Whether waking whoever waits lets somebody go on.
    fn is_awake(&mut self, cluster: &mut Cluster) -> bool {
        self.wake(cluster);
        self.deliver(cluster);
        cluster.blocks.iter().flat_map(|b| &b.warps).any(|w| w.state == State::Runnable)
    }

    /// Every warp waits or has ended: the barrier opens, and is reported where not all threads are at the same one.
    fn pass_barrier(&mut self, block: &mut Block) {
        let together = block.warps[0].pc;
        let whole = block.warps.iter().all(|w| w.state == State::AtBarrier && w.pc == together && w.active == w.full);
        if !whole {
            self.report_barriers(block);
        }
        self.counters.barriers += 1;
        // What happened before any of the waiting warps' arrival happened before what any of them does next.
        let waits = |state| state == State::AtBarrier;
        let mut joined = vec![0; self.launch.clocks.len()];
        for warp in block.warps.iter().filter(|w| waits(w.state)) {
            // A warp's own entry in `seen` is never above its clock.
            for (joined, seen) in joined.iter_mut().zip(&warp.seen) {
                *joined = (*joined).max(*seen);
            }
            joined[warp.own] = warp.clock;
        }
        let mut known = Known::default();
        block.warps.iter().filter(|w| waits(w.state)).for_each(|warp| known.join(&warp.known));
        for warp in block.warps.iter_mut().filter(|w| waits(w.state)) {
            if !known.is_empty() {
                warp.known = known.clone();
            }
            warp.seen.copy_from_slice(&joined);
            warp.clock += 1;
            warp.interval += 1;
            warp.pc += 1;
            warp.state = State::Runnable;
        }
    }

    fn report_barriers(&mut self, block: &Block) {
        let mut places: Vec<Pc> = Vec::new();
        for warp in block.warps.iter().filter(|w| w.state == State::AtBarrier) {
            if !places.contains(&warp.pc) {
                places.push(warp.pc);
            }
        }
        for pc in places {
            let here = |w: &&super::warp::Warp| w.state == State::AtBarrier && w.pc == pc;
            let arrived = block.warps.iter().filter(here).map(|w| w.active.count_ones()).sum();
            let missing = block.warps.iter().find_map(|w| {
                let absent = w.full & !if here(&w) { w.active } else { 0 };
                (absent != 0).then(|| w.index * 32 + absent.trailing_zeros())
            });
            let first = block.warps.iter().find(here).unwrap_or(&block.warps[0]);
            let who = Who::of(block.index, block.linear, first);
            self.divergent_barrier(who, self.code.spans[pc as usize], arrived, missing);
        }
    }

    fn give_up(&mut self, cluster: &Cluster) {
        let running = |b: &&Block| b.warps.iter().any(|w| w.state == State::Runnable);
        let block = cluster.blocks.iter().find(running).unwrap_or(&cluster.blocks[0]);
        let warp = block.warps.iter().find(|w| w.state == State::Runnable).unwrap_or(&block.warps[0]);
        let span = self.code.spans.get(warp.pc as usize).copied().unwrap_or(SpanId::from_u32(0));
        let text = format!("the program is still running after {} instructions", self.counters.steps);
        self.stuck(Who::of(block.index, block.linear, warp), span, text);
    }

    fn finish(mut self, is_whole: bool) -> CheckedReport {
        // By block and thread; the sort keeps each thread's own order.
        self.prints.sort_by_key(|(block, print)| {
            let [x, y, z] = print.thread;
            (*block, z, y, x)
        });
        if is_whole {
            self.unwritten();
        }
        let (diagnostics, suppressed) = self.reporter.finish();
        let effects = self.code.sites.iter().zip(&self.observed).map(|(site, &elements)| ObservedEffect {
            space: site.space,
            kind: site.kind,
            span: site.span,
            elements,
        });
        CheckedReport {
            diagnostics,
            suppressed,
            prints: self.prints.into_iter().map(|(_, print)| print).collect(),
            prints_dropped: self.prints_dropped,
            counters: self.counters,
            effects: effects.collect(),
            seed: self.options.seed,
            stopped: self.stopped,
        }
    }

    /// A number below `n`, which is not 0; 0 where the schedule is fixed.
    fn choose(&mut self, n: usize) -> usize {
        match self.options.schedule {
            Schedule::InOrder => 0,
            Schedule::Seeded { .. } => (self.random.next() % n as u64) as usize,
        }
    }

    /// Heads or tails, whatever the schedule.
    pub(super) fn toss(&mut self) -> bool {
        self.random.next() & 1 == 1
    }

    /// The lane of an atomic operation that comes first.
    pub(super) fn first_lane(&mut self) -> usize {
        self.choose(32)
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Every block once: ascending, or `start + i * stride` with a stride prime to their number.
struct BlockOrder {
    next: u64,
    start: u64,
    stride: u64,
    count: u64,
}

impl BlockOrder {
    fn new(count: u32, schedule: Schedule, random: &mut Random) -> BlockOrder {
        let count = u64::from(count);
        let (mut start, mut stride) = (0, 1);
        if count > 1 && matches!(schedule, Schedule::Seeded { .. }) {
            start = random.next() % count;
            stride = 1 + random.next() % (count - 1);
            while greatest_common_divisor(stride, count) != 1 {
                stride -= 1;
            }
        }
        BlockOrder { next: 0, start, stride, count }
    }
}

impl Iterator for BlockOrder {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let i = self.next;
        self.next += 1;
        // Below 2^32, so the product stays below 2^64.
        (i < self.count).then(|| ((self.start + i * self.stride) % self.count) as u32)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
