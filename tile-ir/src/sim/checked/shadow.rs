//! Shadow state: who touched each cell of memory last, in the manner of FastTrack (Flanagan, Freund, PLDI 2009).
//!
//! A cell is the smallest element of its memory. It remembers its last plain write, and of the reads and of the atomics
//! since then two each. Two are enough while threads are ordered by block and warp barriers alone: they are kept in
//! different blocks, else warps, else lanes, so whoever is ordered after both is ordered after all that were dropped.
//! With synchronisations between single warps (barriers in memory) a conflict with a dropped read may be missed; none is
//! invented.
//!
//! An access is stamped with its block, so that cells need no clearing between blocks.

use super::AccessKind;
use std::collections::BTreeMap;

/// An access, as a cell remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// Linear block.
    pub block: u32,
    /// The warp's clock; 0 where there is no access.
    pub clock: u32,
    /// Linear thread in its block, or an agent: see [`Clocks`].
    pub thread: u16,
    /// Which access of the program.
    pub site: u16,
}

impl Access {
    /// Its warp in its block.
    pub fn warp(self) -> u32 {
        u32::from(self.thread) / 32
    }
}

/// Where in a vector clock each warp and agent of a cluster stands. A block's entries are those of its warps, then of its
/// agents: what each of its barriers counts, what TMA reads and writes for each warp, and the products of
/// each warpgroup. An agent's accesses are stamped as those of a thread from 1024 on, 32 apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clocks {
    /// Blocks of a cluster: 2 to this power.
    pub shift: u32,
    /// Entries a block.
    pub stride: u32,
    /// Barriers of a block.
    pub barriers: u32,
}

/// Something that accesses memory beside the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// A copy that is counted on this barrier.
    Load(u32),
    /// The reads of bulk copies that threads of this warp have started.
    StoreRead(u32),
    /// Their writes.
    StoreWrite(u32),
    /// Products of this warpgroup.
    Product(u32),
}

const WARPS: u32 = 32;

impl Clocks {
    /// Of a program whose blocks have so many warps and barriers.
    pub fn new(cluster: u32, warps: u32, barriers: u32, agents: bool) -> Clocks {
        let stride = if agents { 3 * WARPS + barriers + 8 } else { warps };
        Clocks { shift: cluster.trailing_zeros(), stride, barriers }
    }

    /// The entries of a cluster.
    pub fn len(self) -> usize {
        (self.stride << self.shift) as usize
    }

    /// A warp's or agent's entry: `index` in its block.
    pub fn entry(self, block: u32, index: u32) -> usize {
        ((block & ((1 << self.shift) - 1)) * self.stride + index) as usize
    }

    /// An agent's number among the entries of its block.
    pub fn agent(self, agent: Agent) -> u32 {
        let first = WARPS;
        match agent {
            Agent::Load(barrier) => first + barrier,
            Agent::StoreRead(warp) => first + self.barriers + warp,
            Agent::StoreWrite(warp) => first + self.barriers + WARPS + warp,
            Agent::Product(group) => first + self.barriers + 2 * WARPS + group,
        }
    }

    /// The agent that an access is stamped with; none where it is a thread's.
    pub fn agent_of(self, access: Access) -> Option<Agent> {
        let number = access.warp().checked_sub(WARPS)?;
        let Some(number) = number.checked_sub(self.barriers) else { return Some(Agent::Load(number)) };
        Some(match number / WARPS {
            0 => Agent::StoreRead(number),
            1 => Agent::StoreWrite(number - WARPS),
            _ => Agent::Product(number - 2 * WARPS),
        })
    }
}

/// What of other blocks' accesses is ordered before a warp's next one, by acquiring what they released: for each block its
/// clocks, by entry of [`Clocks`].
#[derive(Clone, Debug, Default)]
pub(super) struct Known(BTreeMap<u32, Vec<u32>>);

impl Known {
    /// Nothing.
    pub const NOTHING: Known = Known(BTreeMap::new());

    /// Adds the accesses of a block up to these clocks.
    pub fn add(&mut self, block: u32, clocks: &[u32]) {
        let known = self.0.entry(block).or_insert_with(|| vec![0; clocks.len()]);
        known.iter_mut().zip(clocks).for_each(|(mine, other)| *mine = (*mine).max(*other));
    }

    /// Adds everything that another knows.
    pub fn join(&mut self, other: &Known) {
        other.0.iter().for_each(|(block, clocks)| self.add(*block, clocks));
    }

    /// Whether nothing was acquired.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn holds(&self, access: &Access, entry: usize) -> bool {
        self.0.get(&access.block).and_then(|clocks| clocks.get(entry)).is_some_and(|seen| access.clock <= *seen)
    }
}

/// An access that is about to happen, and what is ordered before it.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub access: Access,
    /// The thread it is, or that started the agent: block and linear thread.
    pub issuer: (u32, u16),
    pub clocks: Clocks,
    /// By entry of [`Clocks`]: the clock up to which its accesses are ordered before this one.
    pub seen: &'a [u32],
    /// What other blocks released and this warp acquired.
    pub known: &'a Known,
    /// In an element of a `parallel` loop: the clock before its elements.
    pub parallel: Option<u32>,
    /// Whether accesses of other blocks count: in global memory they are never ordered, in shared memory they are
    /// leftovers of an earlier block.
    pub global: bool,
}

impl Now<'_> {
    fn is_visible(&self, earlier: &Access) -> bool {
        earlier.clock != 0 && (self.global || earlier.block == self.access.block)
    }

    #[inline]
    fn is_after(&self, earlier: &Access) -> bool {
        let entry = self.clocks.entry(earlier.block, earlier.warp());
        if earlier.block >> self.clocks.shift != self.access.block >> self.clocks.shift {
            return self.known.holds(earlier, entry);
        }
        (earlier.block, earlier.thread) == self.issuer && !self.is_another_element(earlier)
            || self.seen.get(entry).is_some_and(|&seen| earlier.clock <= seen)
            // Blocks of one cluster may count themselves, too.
            || self.known.holds(earlier, entry)
    }

    /// Whether an access of this thread was in another element of the `parallel` loop around this one.
    fn is_another_element(&self, earlier: &Access) -> bool {
        self.parallel.is_some_and(|before| earlier.clock > before && earlier.clock != self.access.clock)
    }

    /// Whether an access that is to be seen is ordered before this one.
    pub fn is_ordered(&self, earlier: &Access) -> bool {
        self.is_visible(earlier) && self.is_after(earlier)
    }

    fn races_with(&self, earlier: &Access) -> bool {
        self.is_visible(earlier) && !self.is_after(earlier)
    }
}

/// Shadow of one memory.
#[derive(Default)]
pub(super) struct Shadow {
    pages: Vec<Option<Box<[Cell; PAGE]>>>,
    /// Reads and atomics of the cells that had any.
    others: Vec<Others>,
}

const PAGE: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    /// Index into `Shadow::others`, plus one.
    others: u32,
}

#[derive(Clone, Copy, Default)]
struct Others {
    reads: [Access; 2],
    atomics: [Access; 2],
}

impl Shadow {
    /// The last plain write of a cell.
    pub fn last_write(&self, index: usize) -> Access {
        self.pages.get(index / PAGE).and_then(Option::as_ref).map_or(Access::default(), |page| page[index % PAGE].write)
    }

    /// Whether a cell was written, plainly or by an atomic.
    pub fn is_written(&self, index: usize) -> bool {
        let Some(Some(page)) = self.pages.get(index / PAGE) else { return false };
        let cell = page[index % PAGE];
        let updated =
            || self.others.get((cell.others as usize).wrapping_sub(1)).is_some_and(|o| o.atomics[0].clock != 0);
        cell.write.clock != 0 || updated()
    }

    /// Records an access to cell `index`; gives an earlier access it races with, and how that one touched the cell.
    #[inline]
    pub fn record(&mut self, index: usize, kind: AccessKind, now: Now<'_>) -> Option<(Access, AccessKind)> {
        let (page, index) = (index / PAGE, index % PAGE);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let cell = &mut self.pages[page].get_or_insert_with(|| Box::new([Cell::default(); PAGE]))[index];
        let raced = |earlier: &Access, kind| now.races_with(earlier).then_some((*earlier, kind));

        let mut race = raced(&cell.write, AccessKind::Write);
        if kind == AccessKind::Write && cell.others == 0 {
            cell.write = now.access;
            return race;
        }
        if cell.others == 0 {
            self.others.push(Others::default());
            cell.others = self.others.len() as u32;
        }
        let others = &mut self.others[cell.others as usize - 1];
        if kind != AccessKind::Read {
            race = race.or_else(|| others.reads.iter().find_map(|r| raced(r, AccessKind::Read)));
        }
        if kind != AccessKind::Atomic {
            race = race.or_else(|| others.atomics.iter().find_map(|a| raced(a, AccessKind::Atomic)));
        }
        match kind {
            AccessKind::Read => remember(&mut others.reads, &now),
            AccessKind::Atomic => remember(&mut others.atomics, &now),
            AccessKind::Write => {
                // Whoever races with something older races with this write too, or that was just reported.
                cell.write = now.access;
                *others = Others::default();
            }
        }
        race
    }
}

#[inline]
fn remember(entries: &mut [Access; 2], now: &Now<'_>) {
    let access = now.access;
    let [first, second] = *entries;
    let slot = match (now.races_with(&first), now.races_with(&second)) {
        (true, true) => {
            let same_block = first.block == second.block;
            let same_warp = same_block && first.warp() == second.warp();
            if same_block && first.block != access.block || same_warp && first.warp() != access.warp() {
                1
            } else {
                return;
            }
        }
        // What this access is ordered after, it stands for; itself before others, so that it is kept once.
        (false, false) if second.block == access.block && second.thread == access.thread && second.clock != 0 => 1,
        (false, _) => 0,
        (true, false) => 1,
    };
    entries[slot] = access;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(block: u32, thread: u16, clock: u32) -> Access {
        Access { block, clock, thread, site: 0 }
    }

    fn record(shadow: &mut Shadow, kind: AccessKind, access: Access, seen: &[u32], global: bool) -> bool {
        let clocks = Clocks::new(1, seen.len() as u32, 0, false);
        let issuer = (access.block, access.thread);
        shadow
            .record(5000, kind, Now { access, issuer, clocks, seen, known: &Known::NOTHING, parallel: None, global })
            .is_some()
    }

    #[test]
    fn a_write_races_with_a_read_by_anyone_else_until_ordered() {
        for (thread, seen, races) in [
            (0, [0, 0], false),  // itself
            (1, [0, 0], true),   // a lane of the same warp
            (1, [1, 0], false),  // after a warp barrier
            (32, [0, 0], true),  // another warp
            (32, [1, 0], false), // after a block barrier
        ] {
            let mut shadow = Shadow::default();
            assert!(!record(&mut shadow, AccessKind::Read, at(0, 0, 1), &[0, 0], false));
            let access = at(0, thread, 2);
            assert_eq!(record(&mut shadow, AccessKind::Write, access, &seen, false), races, "thread {thread}");
        }
    }

    #[test]
    fn any_reader_is_enough_to_race_with_a_writer() {
        // Thirty-two lanes of warp 0, then one of warp 1; each of them conflicts with each writer but itself.
        for writer in [0u16, 7, 31, 32] {
            let mut shadow = Shadow::default();
            for reader in 0..=32 {
                assert!(!record(&mut shadow, AccessKind::Read, at(0, reader, 1), &[0, 0], false));
            }
            assert!(record(&mut shadow, AccessKind::Write, at(0, writer, 1), &[0, 0], false));
            // Ordered after its own warp alone: the other warp's read is still there.
            let mut shadow = Shadow::default();
            for reader in 0..=32 {
                record(&mut shadow, AccessKind::Read, at(0, reader, 1), &[0, 0], false);
            }
            assert!(record(&mut shadow, AccessKind::Write, at(0, 3, 2), &[1, 0], false));
        }
    }

    #[test]
    fn blocks_race_in_global_memory_and_not_in_shared() {
        for global in [false, true] {
            let mut shadow = Shadow::default();
            record(&mut shadow, AccessKind::Write, at(0, 0, 1), &[0], global);
            assert_eq!(record(&mut shadow, AccessKind::Read, at(1, 0, 9), &[8], global), global);
        }
    }

    #[test]
    fn atomics_race_with_plain_accesses_alone() {
        let mut shadow = Shadow::default();
        assert!(!record(&mut shadow, AccessKind::Write, at(0, 0, 1), &[0, 0], false));
        assert!(!record(&mut shadow, AccessKind::Atomic, at(0, 0, 1), &[0, 0], false));
        // The initial write is not forgotten by the writer's own atomic.
        assert!(record(&mut shadow, AccessKind::Atomic, at(0, 32, 1), &[0, 0], false));
        let mut shadow = Shadow::default();
        for thread in 0..64 {
            assert!(!record(&mut shadow, AccessKind::Atomic, at(0, thread, 1), &[0, 0], false));
        }
        assert!(record(&mut shadow, AccessKind::Read, at(0, 0, 1), &[0, 0], false));
    }
}
