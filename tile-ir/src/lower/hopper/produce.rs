//! The producer: of the kernel it executes what decides about loads, and fills the slots of channels where a loop that loads stands.

use super::super::channel::{Load, Slice, Slots};
use super::super::*;
use super::plan::{Ring, Split};
use super::roles::Roles;

impl<'a> Lowering<'a> {
    pub(super) fn producer(&mut self, roles: &Roles, warp: ValueId) {
        let split = roles.plan.split;
        if let Some(registers) = roles.plan.registers {
            self.op(OpKind::SetRegisters { count: registers.producer, increase: false });
        }
        let cond = match split {
            Split::Warpgroups => self.is_issuer(split, warp),
            Split::Threads(_) => self.eval(Special::Elected),
        };
        let issues = |l: &mut Self| {
            l.enter_channels(roles, 1);
            let (kernel, plan) = (l.kernel, &roles.plan);
            let slice = Slice::new(kernel, plan.loops(), plan.loads().flat_map(|load| load.vars(kernel)));
            let ahead = l.fill_ahead(roles);
            l.wait_for_previous(split);
            let roles = &Roles { ahead, ..roles.clone() };
            l.slice(&slice, &kernel.body, &mut |l, stmt| l.produce_at(roles, &slice, stmt));
            for channel in roles.channels.iter().filter(|channel| channel.feeders() > 1) {
                // A block that has ended must not be arrived at.
                l.unrolled("i", channel.slots.count, |l, _| {
                    let slot = l.slot(&channel.slots, None);
                    l.await_empty(&channel.slots, slot);
                    l.advance(&channel.slots);
                });
            }
        };
        // Every thread waits: a kernel that is done has waited.
        self.either(cond, issues, |l| {
            l.wait_for_previous(split);
            l.copy_rows(roles, warp);
        });
    }

    /// The producer comes to a statement; whether it is one that loads.
    fn produce_at(&mut self, roles: &Roles, slice: &Slice, stmt: StmtId) -> bool {
        let fetches = self.fetch_once(roles, stmt);
        let Some(ring) = roles.plan.ring(stmt) else { return fetches };
        self.produce(roles, ring, slice);
        true
    }

    /// The producer's loop: for every iteration, when its slots are empty, say how many bytes will come and ask for them.
    fn produce(&mut self, roles: &Roles, ring: &Ring, slice: &Slice) {
        let range = ring.at.range.map(|e| self.value(e));
        self.counted_loop(ring.at.var, range, Unroll::By(1), |l| {
            l.slice(slice, &ring.at.body, &mut |_, _| false);
            let begins = |load: &Load| roles.ahead.is_none() || load.independent;
            let fill = |l: &mut Self| {
                for (number, loads) in &ring.fills {
                    let slots = &roles.channels[*number].slots;
                    let slot = l.slot_of(slots, ring);
                    l.await_empty(slots, slot);
                    l.request(slots, slot, &loads.iter().collect::<Vec<_>>(), begins);
                }
            };
            match roles.ahead {
                None => fill(l),
                Some(ahead) => {
                    // These slots were requested before `griddepcontrol.wait`: do not request them again.
                    let left = l.eval(ahead.above(0));
                    l.either(left, |l| l.set(ahead, ahead - 1), fill);
                }
            }
            for (number, loads) in &ring.fills {
                let slots = &roles.channels[*number].slots;
                for load in loads.iter().filter(|load| !begins(load)) {
                    let slot = l.slot_of(slots, ring);
                    l.request_promised(slots, slot, load);
                }
                l.advance(slots);
            }
        });
    }

    /// The slot of a channel that this partition is at in an iteration of a loop.
    pub(super) fn slot_of(&mut self, slots: &Slots, ring: &Ring) -> ValueId {
        let iteration = if let Some(Binding::Reg(reg)) = self.vars[ring.at.var] { Some(self.read(reg)) } else { None };
        self.slot(slots, iteration)
    }
}
