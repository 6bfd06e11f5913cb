//! Asynchronous copies: each is an agent of its own from its issue to the wait that covers it.
//!
//! While a copy is in flight its bytes belong to it: whoever reads or writes them is reported, whenever the copy happens
//! to be made. It may be made at once or as late as the wait, as [`Copies`] says, so that both orders are executed. At
//! the wait the data counts as written by the waiting thread, there and then; other threads are ordered after that by a
//! barrier, as after any other write. Where copies are to arrive at an mbarrier they are complete there and then, too: others learn of
//! them by a wait for the mbarrier alone, and the thread that issued them has not to touch their bytes.

use super::access::{Element, Running, get, put};
use super::bytecode::{BarrierPlace, Slot};
use super::lanes::each;
use super::schedule::Machine;
use super::shadow::{Access, Now};
use super::warp::Warp;
use super::{AccessKind, Copies};
use crate::ir::{EntityRef, SpanId};
use crate::lowered::Space;

/// The copies of a warp's lanes that are not known to be complete.
#[derive(Default)]
pub(super) struct Flight {
    /// In order of issue.
    copies: Vec<Copy>,
    /// By lane: groups it has committed.
    committed: [u32; 32],
}

/// One lane's copy.
#[derive(Clone, Copy)]
struct Copy {
    lane: u8,
    /// The group it is, or will be, committed to.
    group: u32,
    /// Where to: site and first element.
    to: (u32, i64),
    /// Where from; none for zeros.
    from: Option<(u32, i64)>,
    /// Whether its data is written.
    made: bool,
}

/// Who is copying into a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pilot {
    /// Linear thread, plus one; 0 where nobody is.
    pub thread: u16,
    /// Which access of the program.
    pub site: u16,
}

impl Flight {
    pub fn clear(&mut self) {
        self.copies.clear();
        self.committed = [0; 32];
    }
}

impl Machine<'_> {
    pub(super) fn async_copy(&mut self, run: &mut Running<'_>, to: (u32, Slot), from: Option<(u32, Slot)>) {
        let targets = run.warp.slots[to.1 as usize];
        let sources = from.map(|(site, slot)| (site, run.warp.slots[slot as usize]));
        self.check_site(run, to.0, &targets);
        if let Some((site, offsets)) = &sources {
            self.check_site(run, *site, offsets);
        }
        each(run.warp.active, |lane| {
            self.counters.async_copies += 1;
            let made = match self.options.copies {
                Copies::Early => true,
                Copies::Late => false,
                Copies::Seeded => self.toss(),
            };
            let copy = Copy {
                lane: lane as u8,
                group: run.warp.flight.committed[lane],
                to: (to.0, targets[lane]),
                from: sources.as_ref().map(|(site, offsets)| (*site, offsets[lane])),
                made,
            };
            self.take_off(run, &copy);
            run.warp.flight.copies.push(copy);
        });
    }

    pub(super) fn async_commit(&mut self, warp: &mut Warp) {
        each(warp.active, |lane| warp.flight.committed[lane] += 1);
    }

    pub(super) fn async_wait(&mut self, run: &mut Running<'_>, pending: u32) {
        let active = run.warp.active;
        let committed = run.warp.flight.committed;
        let waits = |lane: u8| active >> lane & 1 == 1;
        let copies = std::mem::take(&mut run.warp.flight.copies);
        let (mut left, mut newest) = ([0u32; 32], [u32::MAX; 32]);
        for copy in copies {
            let lane = copy.lane as usize;
            if waits(copy.lane) && copy.group.saturating_add(pending) < committed[lane] {
                self.land(run, &copy);
                continue;
            }
            if waits(copy.lane) && copy.group < committed[lane] && newest[lane] != copy.group {
                newest[lane] = copy.group;
                left[lane] += 1;
            }
            run.warp.flight.copies.push(copy);
        }
        let most = left.into_iter().max().unwrap_or(0);
        self.counters.groups_in_flight = self.counters.groups_in_flight.max(most);
    }

    /// The lanes' copies are complete, and each lane arrives.
    pub(super) fn async_arrive(&mut self, run: &mut Running<'_>, at: BarrierPlace, span: SpanId) {
        let active = run.warp.active;
        let copies = std::mem::take(&mut run.warp.flight.copies);
        let (done, left): (Vec<Copy>, Vec<Copy>) = copies.into_iter().partition(|copy| active >> copy.lane & 1 == 1);
        run.warp.flight.copies = left;
        done.iter().for_each(|copy| self.land(run, copy));
        self.barrier_arrive(run, at, (None, None), span);
    }

    /// The warp ends: nothing waits for what is still in flight.
    pub(super) fn end_of_flight(&mut self, run: &mut Running<'_>) {
        for copy in std::mem::take(&mut run.warp.flight.copies) {
            self.exit_in_flight(run.who, &self.code.sites[copy.to.0 as usize], copy.lane as usize);
            self.land(run, &copy);
        }
    }

    /// The copy is issued: it needs its bytes from here on.
    fn take_off(&mut self, run: &mut Running<'_>, copy: &Copy) {
        let lane = copy.lane as usize;
        let pilot = Pilot { thread: run.who.thread(lane) as u16 + 1, site: copy.to.0 as u16 };
        for i in 0..self.width(copy) {
            // What is read is fixed where the copy is made, but it is an access of this thread from here on.
            let bits = self.source(run, copy, i);
            let Some(element) = self.touch(run, copy.to.0, lane, copy.to.1.wrapping_add(i)) else { continue };
            let Element::Shared { cells, .. } = &element else { continue };
            run.shared.flying[cells.clone()].fill(pilot);
            if copy.made {
                put(run, &element, self.code.sites[copy.to.0 as usize].dtype, lane, bits);
            }
        }
    }

    /// The copy is complete: the waiting thread has written its bytes.
    fn land(&mut self, run: &mut Running<'_>, copy: &Copy) {
        let (lane, code) = (copy.lane as usize, self.code);
        let site = &code.sites[copy.to.0 as usize];
        let access = Access {
            block: run.who.linear,
            clock: run.warp.clock,
            thread: run.who.thread(lane) as u16,
            site: copy.to.0 as u16,
        };
        for i in 0..self.width(copy) {
            let bits = if copy.made { 0 } else { self.late_source(run, copy, i) };
            // What was out of bounds has been reported.
            let Some(element) = self.shared_element(run, site, copy.to.1.wrapping_add(i)) else { continue };
            let Element::Shared { cells, .. } = &element else { continue };
            let cells = cells.clone();
            if !copy.made {
                put(run, &element, site.dtype, lane, bits);
            }
            for cell in cells {
                run.shared.flying[cell] = Pilot::default();
                let issuer = (access.block, access.thread);
                let now = Now {
                    access,
                    issuer,
                    clocks: self.launch.clocks,
                    seen: &run.warp.seen,
                    known: &run.warp.known,
                    parallel: None,
                    global: false,
                };
                run.shared.shadow.record(cell, AccessKind::Write, now);
            }
        }
    }

    fn width(&self, copy: &Copy) -> i64 {
        i64::from(self.code.sites[copy.to.0 as usize].width)
    }

    /// The bits of a source element; zeros where there is none.
    fn source(&mut self, run: &mut Running<'_>, copy: &Copy, i: i64) -> u32 {
        let Some((site, offset)) = copy.from else { return 0 };
        let (lane, dtype) = (copy.lane as usize, self.code.sites[site as usize].dtype);
        match self.touch(run, site, lane, offset.wrapping_add(i)) {
            Some(element) => get(run, &element, dtype, lane),
            None => 0,
        }
    }

    /// Element `i` of the source of a copy that is made late; its access was recorded when it was issued.
    fn late_source(&self, run: &Running<'_>, copy: &Copy, i: i64) -> u32 {
        let Some((site, offset)) = copy.from else { return 0 };
        let (site, offset) = (&self.code.sites[site as usize], offset.wrapping_add(i));
        let Space::Global(param) = site.space else { return 0 };
        match self.launch.views[param.index()].as_ref().filter(|v| v.contains(offset)) {
            Some(view) => get(run, &Element::Global { view, byte: view.byte(offset) }, site.dtype, copy.lane as usize),
            None => 0,
        }
    }
}
