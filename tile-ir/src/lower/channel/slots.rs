//! The slots of a channel between two partitions: a pair of mbarriers a slot, and where a partition is among them.
//!
//! `full` completes when the bytes of a slot have arrived, `empty` when everyone who reads it has given it back. A partition waits for
//! the parity of a phase: consumers begin with 0, the producer with 1, which passes at once on fresh barriers.

use super::super::*;

/// A channel's slots as a partition sees them.
#[derive(Clone, Copy, Debug)]
pub(in crate::lower) struct Slots {
    full: BarrierId,
    /// None where no slot is filled twice.
    empty: Option<BarrierId>,
    at: At,
    pub(in crate::lower) count: u32,
}

/// Which slot a partition is at.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Iterations take the slots in turn. The registers hold the slot's number and the parity of the phase that is waited for.
    Turn { slot: RegId, parity: RegId },
    /// There is one slot, which is filled again.
    Only { parity: RegId },
    /// No slot is filled twice: an iteration's slot has the iteration's number, and its only phase parity 0.
    Own,
}

impl Slots {
    /// The registers with the slot's number and the parity.
    pub(in crate::lower) fn turn(&self) -> Option<(RegId, RegId)> {
        if let At::Turn { slot, parity } = self.at { Some((slot, parity)) } else { None }
    }

    /// Whether a slot is filled more than once, so that consumers give it back.
    pub(in crate::lower) fn are_refilled(&self) -> bool {
        self.empty.is_some()
    }

    /// The barrier that completes when a slot's bytes are there.
    pub(in crate::lower) fn full(&self, index: ValueId) -> BarrierRef {
        BarrierRef { array: self.full, index }
    }
}

impl<'a> Lowering<'a> {
    pub(in crate::lower) fn barrier_array(&mut self, name: &str, len: u32) -> BarrierId {
        let name = self.name(name);
        self.program.barriers.push(BarrierArray { name, len, offset: 0 })
    }

    /// Slots that iterations take in turn; `once`: there is one for every iteration.
    pub(in crate::lower) fn slots_in_turn(&mut self, count: u32, once: bool) -> Slots {
        let full = self.barrier_array("full", count);
        let empty = (!once).then(|| self.barrier_array("empty", count));
        let mut reg = |name: &str| self.reg(name, ValueType::Index, true);
        let at = if once { At::Own } else { At::Turn { slot: reg("slot"), parity: reg("parity") } };
        Slots { full, empty, at, count }
    }

    /// One slot that is no loop's; `again`: it is filled again.
    pub(in crate::lower) fn only_slot(&mut self, name: &str, again: bool) -> Slots {
        let full = self.barrier_array(&format!("{name}_full"), 1);
        let empty = again.then(|| self.barrier_array(&format!("{name}_empty"), 1));
        let parity = again.then(|| self.reg(&format!("{name}_parity"), ValueType::Index, true));
        let at = parity.map_or(At::Own, |parity| At::Only { parity });
        Slots { full, empty, at, count: 1 }
    }

    /// One thread makes the barriers of a slot, which so many arrivals of writers fill, and so many of readers give back.
    pub(in crate::lower) fn init_slot(
        &mut self,
        slots: &Slots,
        index: impl Into<Term>,
        (writers, readers): (u32, u32),
    ) {
        let index = self.eval(index);
        self.op(OpKind::BarrierInit { barrier: slots.full(index), arrivals: writers });
        if let Some(array) = slots.empty {
            self.op(OpKind::BarrierInit { barrier: BarrierRef { array, index }, arrivals: readers });
        }
    }

    /// Declares where a partition begins.
    pub(in crate::lower) fn enter(&mut self, slots: &Slots, first_parity: i64) {
        match slots.at {
            At::Turn { slot, parity } => {
                self.define(slot, 0);
                self.define(parity, first_parity);
            }
            At::Only { parity } => self.define(parity, first_parity),
            At::Own => {}
        }
    }

    /// The slot that a partition is at. `iteration`: the number of the loop's iteration, where it is in a loop.
    pub(in crate::lower) fn slot(&mut self, slots: &Slots, iteration: Option<ValueId>) -> ValueId {
        match (slots.at, iteration) {
            (At::Turn { slot, .. }, _) => self.read(slot),
            (At::Own, Some(iteration)) => iteration,
            (At::Own | At::Only { .. }, _) => self.int(0),
        }
    }

    fn await_phase(&mut self, slots: &Slots, barrier: BarrierRef) {
        let parity = match slots.at {
            At::Turn { parity, .. } | At::Only { parity } => self.read(parity),
            At::Own => self.int(0),
        };
        self.op(OpKind::BarrierWait { barrier, parity });
    }

    /// A consumer waits for the bytes of a slot.
    pub(in crate::lower) fn await_full(&mut self, slots: &Slots, index: impl Into<Term>) {
        let index = self.eval(index);
        self.await_phase(slots, slots.full(index));
    }

    /// The producer waits until a slot has been given back.
    pub(in crate::lower) fn await_empty(&mut self, slots: &Slots, index: impl Into<Term>) {
        let index = self.eval(index);
        if let Some(array) = slots.empty {
            self.await_phase(slots, BarrierRef { array, index });
        }
    }

    /// The threads for which `cond` holds give a slot back: to their block's producer, or to that of the block `cta`.
    pub(in crate::lower) fn give_back(
        &mut self,
        slots: &Slots,
        index: impl Into<Term>,
        cond: impl Into<Term>,
        cta: Option<ValueId>,
    ) {
        let (Some(array), index) = (slots.empty, self.eval(index)) else { return };
        let barrier = BarrierRef { array, index };
        self.when(cond, |l| l.op(OpKind::BarrierArrive { barrier, cta }));
    }

    /// The next slot; after the last the first again, a phase later.
    pub(in crate::lower) fn advance(&mut self, slots: &Slots) {
        let (slot, parity) = match slots.at {
            At::Turn { slot, parity } => (slot, parity),
            At::Only { parity } => return self.flip(parity),
            At::Own => return,
        };
        self.set(slot, slot + 1);
        self.when(slot.equals(slots.count), |l| {
            l.set(slot, 0);
            l.flip(parity);
        });
    }

    fn flip(&mut self, parity: RegId) {
        self.set(parity, parity ^ 1);
    }
}
