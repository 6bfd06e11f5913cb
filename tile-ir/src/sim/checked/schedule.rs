//! The scheduler: blocks that run at once, the warp that runs next, and what happens where none can.

use super::bytecode::{Code, Pc};
use super::launch::Launch;
use super::report::{Reporter, Who};
use super::shadow::Shadow;
use super::warp::{Block, State};
use super::{CheckedOptions, CheckedReport, Counters, ObservedEffect, Print, Schedule};
use crate::ir::SpanId;
use crate::lowered::Program;

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
    /// With the linear block.
    pub prints: Vec<(u32, Print)>,
    pub prints_dropped: u64,
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
            random: Random(options.seed),
        }
    }

    /// Executes every block.
    pub fn run(mut self) -> CheckedReport {
        let count = self.launch.blocks;
        let at_once = match self.options.schedule {
            Schedule::InOrder => 1,
            Schedule::Seeded { resident_blocks } => resident_blocks.clamp(1, 64),
        };
        let mut order = BlockOrder::new(count, self.options.schedule, &mut self.random);
        let mut resident: Vec<Block> = Vec::new();
        for linear in order.by_ref().take(at_once as usize) {
            let mut block = Block::new(self.program, self.code, self.launch);
            block.start(linear, self.code, self.launch);
            resident.push(block);
        }
        while !resident.is_empty() {
            let at = self.choose(resident.len());
            let block = &mut resident[at];
            if self.advance(block) {
                self.counters.blocks += 1;
                match order.next() {
                    Some(linear) => block.start(linear, self.code, self.launch),
                    None => drop(resident.swap_remove(at)),
                }
            } else if self.counters.steps >= self.options.step_limit {
                self.give_up(&resident[at]);
                break;
            }
        }
        self.finish()
    }

    /// Runs one warp of a block for a while, or lets the block past its barrier. True where the block has ended.
    fn advance(&mut self, block: &mut Block) -> bool {
        let mut runnable = 0u32;
        for (i, warp) in block.warps.iter().enumerate() {
            runnable |= u32::from(warp.state == State::Runnable) << i;
        }
        if runnable != 0 {
            let (warp, quantum) = match self.options.schedule {
                Schedule::InOrder => (runnable.trailing_zeros(), 1024),
                Schedule::Seeded { .. } => {
                    let skip = self.choose(runnable.count_ones() as usize);
                    let rest = (0..skip).fold(runnable, |bits, _| bits & (bits - 1));
                    (rest.trailing_zeros(), 1 + self.choose(64) as u32)
                }
            };
            let left = self.options.step_limit.saturating_sub(self.counters.steps).max(1);
            self.run_warp(block, warp as usize, quantum.min(u32::try_from(left).unwrap_or(u32::MAX)));
            return false;
        }
        if block.warps.iter().all(|warp| warp.state == State::Done) {
            return true;
        }
        self.pass_barrier(block);
        false
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
        let mut joined = vec![0; block.warps.len()];
        for (i, warp) in block.warps.iter().enumerate().filter(|(_, w)| waits(w.state)) {
            for (joined, seen) in joined.iter_mut().zip(&warp.seen) {
                *joined = (*joined).max(*seen);
            }
            joined[i] = warp.clock;
        }
        for warp in block.warps.iter_mut().filter(|w| waits(w.state)) {
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

    fn give_up(&mut self, block: &Block) {
        let warp = block.warps.iter().find(|w| w.state == State::Runnable).unwrap_or(&block.warps[0]);
        let span = self.code.spans.get(warp.pc as usize).copied().unwrap_or(SpanId::from_u32(0));
        let text = format!("the program is still running after {} instructions", self.counters.steps);
        self.stuck(Who::of(block.index, block.linear, warp), span, text);
    }

    fn finish(mut self) -> CheckedReport {
        // By block and thread; the sort keeps each thread's own order.
        self.prints.sort_by_key(|(block, print)| {
            let [x, y, z] = print.thread;
            (*block, z, y, x)
        });
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
