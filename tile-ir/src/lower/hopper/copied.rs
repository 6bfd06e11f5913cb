//! Rows of tensors that a warp of the producer copies into slots of shared memory, steps ahead of the work on a product that reads them (`held`).
//!
//! TMA would ask for rows at multiples of 16 bytes, which the author has not promised. So a second warp of the producer's copies elements, each
//! lane some of them, by `cp.async`, with the guard of the author's access: where that leaves something out there are zeros. The rows of a
//! loop are a channel of their own. All lanes of the warp arrive at a slot's `full` when their copies are complete; each warp of the consumers
//! gives the slot back when it has read its rows, long before the tiles' slot.

use super::super::channel::{Slice, Slots};
use super::super::uses::depends_on;
use super::super::*;
use super::held::{Held, RowLoad};
use super::plan::{Plan, Ring, WARP, WARPGROUP};
use super::roles::Roles;

/// Bytes of an element: the least that one asynchronous copy brings.
const ELEMENT: u32 = 4;

/// The rows of a loop's iterations.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    /// The loop.
    stmt: StmtId,
    slots: Slots,
    /// What is copied, and the slots that it is copied to.
    loads: Vec<(RowLoad, SharedId)>,
}

impl<'a> Lowering<'a> {
    /// The rows that loops' work on their products reads anew in every iteration, where the producer finds them and there is shared memory left
    /// for them; declares their slots.
    pub(super) fn declare_copied(&mut self, plan: &Plan) -> Vec<Copied> {
        let (mut all, mut room) = (Vec::new(), plan.room);
        // With ping-pong, and where tiles are counted, other partitions than the producer's first warp do not know every tile.
        if plan.groups > 1 || self.counted.is_some() {
            return all;
        }
        for ring in &plan.rings {
            let count = ring.fills.iter().map(|(channel, _)| plan.channels[*channel].slots).max().unwrap_or(0);
            let loads = self.loads_to_copy(plan, ring);
            let bytes: u64 = loads.iter().map(|load| u64::from(load.rows * ELEMENT) * u64::from(count)).sum();
            if loads.is_empty() || bytes > room {
                continue;
            }
            room -= bytes;
            let declare = |load: RowLoad| {
                let place = self.kernel.accesses[load.access].place;
                let name = format!("{}_rows", self.kernel.place_name(place));
                let dtype = self.dtype_of(place);
                let shared = self.shared_array(&name, dtype, load.rows * count, false);
                self.program.shared[shared].slots = count;
                self.op(OpKind::Shared { shared });
                (load, shared)
            };
            let loads = loads.into_iter().map(declare).collect();
            all.push(Copied { stmt: ring.at.stmt, slots: self.slots_in_turn(count, false), loads });
        }
        all
    }

    /// Of the rows that the work on a loop's one product holds, those of tensors that are others in every iteration.
    fn loads_to_copy(&self, plan: &Plan, ring: &Ring) -> Vec<RowLoad> {
        let (kernel, at) = (self.kernel, &ring.at);
        let StmtKind::For { body, .. } = &kernel.stmts[at.stmt].kind else { return Vec::new() };
        let mut products = (0..body.len()).filter(|number| plan.products.contains_key(&body[*number]));
        let (Some(number), None, None) = (products.next(), products.next(), &ring.shift) else { return Vec::new() };
        let mut all = self.row_loads(ring, &body[number + 1..]);
        all.retain(|load| {
            let Access { place, indices, .. } = &kernel.accesses[load.access];
            matches!(place, Place::Tensor(_))
                && self.dtype_of(*place).bytes() == ELEMENT
                && load.rows.is_multiple_of(WARP)
                && indices.iter().any(|index| depends_on(kernel, *index, &[at.var]))
                && Slice::new(kernel, vec![at.stmt], load.vars(kernel).into_iter()).producible(kernel).is_ok()
        });
        all
    }

    /// One thread makes the barriers of the slots.
    pub(super) fn init_copied(&mut self, roles: &Roles) {
        let readers = roles.plan.readers() * (WARPGROUP / WARP);
        for Copied { slots, .. } in &roles.copied {
            self.unrolled("i", slots.count, |l, index| l.init_slot(slots, index, (WARP, readers)));
        }
    }

    /// Declares where a partition is among the slots.
    pub(super) fn enter_copied(&mut self, roles: &Roles, parity: i64) {
        roles.copied.iter().for_each(|copied| self.enter(&copied.slots, parity));
    }

    /// The producer's second warp.
    pub(super) fn copy_rows(&mut self, roles: &Roles, warp: ValueId) {
        if roles.copied.is_empty() {
            return;
        }
        let kernel = self.kernel;
        self.when(warp.equals(1), |l| {
            l.enter_copied(roles, 1);
            let loads = || roles.copied.iter().flat_map(|copied| &copied.loads);
            let loops = roles.copied.iter().map(|copied| copied.stmt).collect();
            let slice = Slice::new(kernel, loops, loads().flat_map(|(load, _)| load.vars(kernel)));
            l.slice(&slice, &kernel.body, &mut |l, stmt| {
                let Some(copied) = roles.copied.iter().find(|copied| copied.stmt == stmt) else { return false };
                let (Some(ring), StmtKind::For { body, .. }) = (roles.plan.ring(stmt), &kernel.stmts[stmt].kind) else {
                    return false;
                };
                let range = ring.at.range.map(|e| l.value(e));
                l.counted_loop(ring.at.var, range, Unroll::By(1), |l| {
                    l.slice(&slice, body, &mut |_, _| false);
                    l.fill_copied(copied);
                });
                true
            });
        });
    }

    /// Copies an iteration's rows into the current slot.
    fn fill_copied(&mut self, Copied { slots, loads, .. }: &Copied) {
        let slot = self.slot(slots, None);
        self.await_empty(slots, slot);
        for (RowLoad { access, vars: [row, _], rows, .. }, shared) in loads {
            self.unrolled("i", rows / WARP, |l, number| {
                let lane = l.eval(Special::Lane);
                let index = l.once("row", number * WARP + lane);
                l.vars[*row] = Some(Binding::Value(index));
                let from = l.memory(*access);
                let to = l.eval(slot * *rows + index);
                let to = l.at(*shared, to);
                l.op(OpKind::AsyncCopy { to, from, width: 1 });
            });
        }
        self.op(OpKind::AsyncArrive { barrier: slots.full(slot) });
        self.advance(slots);
    }

    /// A consumer waits for the rows among what it holds, if some are copied.
    pub(super) fn await_copied(&mut self, held: &[Held]) -> Option<(Copied, ValueId)> {
        let roles = self.roles.clone()?;
        let is_held = |(load, _): &(RowLoad, SharedId)| held.iter().any(|held| held.access == load.access);
        let copied = roles.copied.iter().find(|copied| copied.loads.iter().any(is_held))?;
        let slot = self.slot(&copied.slots, None);
        self.await_full(&copied.slots, slot);
        Some((copied.clone(), slot))
    }

    /// Where the element of a row is that was copied.
    pub(super) fn copied_row(
        &mut self,
        copied: Option<&(Copied, ValueId)>,
        access: AccessId,
        row: ValueId,
    ) -> Option<Memory> {
        let (Copied { loads, .. }, slot) = copied?;
        let (load, shared) = loads.iter().find(|(load, _)| load.access == access)?;
        let offset = self.eval(*slot * load.rows + row);
        Some(self.at(*shared, offset))
    }

    /// A consumer's warp has read the rows of an iteration: it gives the slot back.
    pub(super) fn leave_copied(&mut self, copied: Option<(Copied, ValueId)>) {
        let Some((Copied { slots, .. }, slot)) = copied else { return };
        self.op(OpKind::WarpBarrier);
        let first = self.eval(Special::Lane).equals(0);
        self.give_back(&slots, slot, first, None);
        self.advance(&slots);
    }
}
