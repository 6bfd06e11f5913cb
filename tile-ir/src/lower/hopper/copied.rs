//! Rows of tensors that a second warp of the producer copies into the slots of a loop's tiles, ahead of the work on a product that reads them
//! (`held`).
//!
//! TMA would ask for rows at multiples of 16 bytes, which the author has not promised. So each lane of the warp copies some elements, by
//! `cp.async`, with the guard of the author's access: where that leaves something out there are zeros. When its copies are complete, each lane
//! arrives on the slot's `full`, as the first warp does for the tiles. Since threads read the rows, every warp of the consumers gives the slot
//! back, instead of one thread of a warpgroup behind a barrier of that.

use super::super::channel::Slice;
use super::super::uses::depends_on;
use super::super::*;
use super::held::RowLoad;
use super::plan::{Plan, Ring, WARP};
use super::roles::Roles;

/// Bytes of an element: the least that one asynchronous copy brings.
const ELEMENT: u32 = 4;

/// The rows of a loop's iterations.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    /// The loop.
    stmt: StmtId,
    /// The channel whose slots have them.
    pub(super) channel: usize,
    /// What is copied, and where to.
    loads: Vec<(RowLoad, SharedId)>,
}

impl<'a> Lowering<'a> {
    /// The rows that loops' work on their products reads anew in every iteration, where the producer finds them and there is shared memory left
    /// for them; declares the slots' arrays.
    pub(super) fn declare_copied(&mut self, plan: &Plan) -> Vec<Copied> {
        let (mut all, mut room) = (Vec::new(), plan.room);
        // With ping-pong the warp would take turns with itself, and where tiles are counted nobody tells it which is next.
        if plan.groups > 1 || self.counted.is_some() {
            return all;
        }
        for ring in &plan.rings {
            let Some(&(channel, _)) = ring.fills.first() else { continue };
            let fills = plan.rings.iter().flat_map(|ring| &ring.fills).filter(|(filled, _)| *filled == channel);
            let slots = &plan.channels[channel];
            if slots.once || !slots.shared.is_empty() || fills.count() > 1 {
                continue;
            }
            let loads = self.loads_to_copy(plan, ring);
            let bytes: u64 = loads.iter().map(|load| u64::from(load.rows * ELEMENT) * u64::from(slots.slots)).sum();
            if loads.is_empty() || bytes > room {
                continue;
            }
            room -= bytes;
            let declare = |load: RowLoad| {
                let Access { place, span, .. } = self.kernel.accesses[load.access];
                let name = self.kernel.place_name(place).to_owned();
                let text = format!("rows of `{name}` are copied into the slots by a second warp of the producer");
                self.remark(RemarkKind::Choice, span, text);
                let dtype = self.dtype_of(place);
                let shared = self.shared_array(&format!("{name}_rows"), dtype, load.rows * slots.slots, false);
                self.program.shared[shared].slots = slots.slots;
                self.op(OpKind::Shared { shared });
                (load, shared)
            };
            all.push(Copied { stmt: ring.at.stmt, channel, loads: loads.into_iter().map(declare).collect() });
        }
        all
    }

    /// Of the rows that the work on a loop's one product holds, those of tensors that are others in every iteration.
    fn loads_to_copy(&self, plan: &Plan, ring: &Ring) -> Vec<RowLoad> {
        let (kernel, at) = (self.kernel, &ring.at);
        let body = &at.body;
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

    /// The producer's second warp: in every iteration of loops with such rows, when the slot is empty, it copies them.
    pub(super) fn copy_rows(&mut self, roles: &Roles, warp: ValueId) {
        if roles.copied.is_empty() {
            return;
        }
        let kernel = self.kernel;
        self.when(warp.equals(1), |l| {
            roles.copied.iter().for_each(|copied| l.enter(&roles.channels[copied.channel].slots, 1));
            let loads = roles.copied.iter().flat_map(|copied| &copied.loads);
            let loops = roles.copied.iter().map(|copied| copied.stmt).collect();
            let slice = Slice::new(kernel, loops, loads.flat_map(|(load, _)| load.vars(kernel)));
            l.slice(&slice, &kernel.body, &mut |l, stmt| {
                let found = roles.copied.iter().find(|copied| copied.stmt == stmt).zip(roles.plan.ring(stmt));
                let Some((copied, ring)) = found else { return false };
                let range = ring.at.range.map(|e| l.value(e));
                l.counted_loop(ring.at.var, range, Unroll::By(1), |l| {
                    l.slice(&slice, &ring.at.body, &mut |_, _| false);
                    l.fill_copied(roles, copied);
                });
                true
            });
        });
    }

    /// Copies an iteration's rows into the current slot.
    fn fill_copied(&mut self, roles: &Roles, Copied { channel, loads, .. }: &Copied) {
        let slots = &roles.channels[*channel].slots;
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

    /// Where a consumer finds the element of a row that was copied, in the current slot.
    pub(super) fn copied_row(&mut self, access: AccessId, row: ValueId) -> Option<Memory> {
        let roles = self.roles.clone()?;
        let is_it = |(load, _): &&(RowLoad, SharedId)| load.access == access;
        let mut all = roles.copied.iter().filter_map(|copied| Some((copied.channel, copied.loads.iter().find(is_it)?)));
        let (channel, (load, shared)) = all.next()?;
        let slot = self.slot(&roles.channels[channel].slots, None);
        let offset = self.eval(slot * load.rows + row);
        Some(self.at(*shared, offset))
    }
}
