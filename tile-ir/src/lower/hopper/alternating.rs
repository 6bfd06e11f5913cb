//! The consumers' side of a loop whose product is issued an iteration ahead of the work on it ([`super::plan::Alternate`]).
//!
//! ```text
//! P(0)  [ P'(k+1)  wait P(k)  work(k)  P(k+2)  wait P'(k+1)  work'(k+1) ] k = 0, 2, ..  then the last one or two
//! ```
//!
//! Iterations alternate between two accumulators, which are registers by name, so the loop is written out for two of them. What threads read for
//! the work on an iteration without knowing its product (`held`) is loaded behind the product's issue, and arrives while it runs.

use super::super::*;
use super::held::Held;
use super::plan::{Product, Ring};
use super::roles::{ChannelState, Roles};
use crate::lower::fragment::Registers;

/// What every second iteration has.
struct Side {
    /// The accumulator.
    acc: Registers,
    /// The slot of each channel that its product reads.
    slots: Vec<RegId>,
    /// What threads have loaded for the work.
    held: Vec<Held>,
}

/// The loop's parts.
struct Parts<'p> {
    ring: &'p Ring,
    product: &'p Product,
    /// Indices.
    lets: &'p [StmtId],
    /// What follows the product.
    work: &'p [StmtId],
    channels: &'p [&'p ChannelState],
    sides: [Side; 2],
    /// Whether the work itself reads no slot.
    done: bool,
}

impl<'a> Lowering<'a> {
    /// Lowers the consumers' loop; `body` is without the loads.
    pub(super) fn consume_alternating(
        &mut self,
        roles: &Roles,
        ring: &Ring,
        product: StmtId,
        (channels, body): (&[&ChannelState], &[StmtId]),
        [start, end, step]: [ValueId; 3],
    ) {
        let kernel = self.kernel;
        let (Some(at), Some(of)) = (body.iter().position(|s| *s == product), roles.plan.products.get(&product)) else {
            return self.bug("an alternating loop without its product");
        };
        let Some(first) = self.fragments[of.acc] else { return self.bug("an accumulator has no registers") };
        let (lets, work) = (&body[..at], &body[at + 1..]);
        let name = format!("{}_next", kernel.buffers[of.acc].name);
        let local = self.local(&name, kernel.buffer_dtype(of.acc), first.count());
        self.op(OpKind::Local { local });
        let sides = [first, Registers { local, ..first }].map(|acc| {
            let slots: Vec<RegId> = channels.iter().map(|_| self.reg("taken", ValueType::Index, true)).collect();
            for &reg in &slots {
                let zero = self.int(0);
                self.op(OpKind::Let { reg, value: Some(zero) });
            }
            Side { acc, slots, held: self.declare_held(ring, work) }
        });
        let done = self.reads_no_slot(ring, work, &sides[0].held);
        let parts = Parts { ring, product: of, lets, work, channels, sides, done };
        let any = self.binary(BinaryOp::Lt, start, end);
        let then = self.nested(|l| {
            l.issue_product(roles, &parts, 0, start);
            let left = l.reg("left", ValueType::Index, true);
            l.op(OpKind::Let { reg: left, value: Some(start) });
            let twice = l.binary(BinaryOp::Add, step, step);
            let last = l.binary(BinaryOp::Sub, end, twice);
            let index = l.reg(&kernel.vars[ring.at.var].name, ValueType::Index, false);
            l.loop_over(index, [start, last, twice], Unroll::By(1), |l| {
                let now = l.read(index);
                let next = l.binary(BinaryOp::Add, now, step);
                let then = l.binary(BinaryOp::Add, now, twice);
                l.issue_product(roles, &parts, 1, next);
                l.finish_product(roles, &parts, 0, now, 1);
                l.issue_product(roles, &parts, 0, then);
                l.finish_product(roles, &parts, 1, next, 1);
                l.op(OpKind::Set { reg: left, value: then });
            });
            let now = l.read(left);
            let next = l.binary(BinaryOp::Add, now, step);
            let two = l.binary(BinaryOp::Lt, next, end);
            let then = l.nested(|l| {
                l.issue_product(roles, &parts, 1, next);
                l.finish_product(roles, &parts, 0, now, 1);
                l.finish_product(roles, &parts, 1, next, 0);
            });
            let otherwise = l.nested(|l| l.finish_product(roles, &parts, 0, now, 0));
            l.op(OpKind::If { cond: two, then, otherwise });
        });
        self.op(OpKind::If { cond: any, then, otherwise: Vec::new() });
        self.fragments[of.acc] = Some(first);
    }

    /// Binds the loop's index and what the body makes of it.
    fn enter_iteration(&mut self, parts: &Parts<'_>, index: ValueId) {
        self.vars[parts.ring.at.var] = Some(Binding::Value(index));
        self.block(parts.lets);
    }

    /// Issues the product of the iteration `index`, and the loads of what the work on it needs.
    fn issue_product(&mut self, roles: &Roles, parts: &Parts<'_>, side: usize, index: ValueId) {
        let Parts { ring, product, channels, .. } = *parts;
        let Side { acc, slots, held } = &parts.sides[side];
        for (channel, &reg) in channels.iter().zip(slots) {
            let value = self.slot(&channel.slots, Some(index));
            self.await_full(&channel.slots, value);
            self.op(OpKind::Set { reg, value });
        }
        self.fragments[product.acc] = Some(*acc);
        self.op(OpKind::Pin { local: acc.local });
        self.op(OpKind::WgmmaFence);
        self.multiply(roles, product, None);
        self.op(OpKind::WgmmaCommit);
        if !held.is_empty() {
            self.enter_iteration(parts, index);
            self.elements_of_taken(roles, parts, side);
            self.load_held(held);
            self.no_elements_of_slots(ring);
        }
        channels.iter().for_each(|channel| self.advance(&channel.slots));
    }

    /// Waits for the product of the iteration `index` but not for `pending` later ones, and does the work on it.
    fn finish_product(&mut self, roles: &Roles, parts: &Parts<'_>, side: usize, index: ValueId, pending: u32) {
        let Parts { ring, product, .. } = *parts;
        let Side { acc, held, .. } = &parts.sides[side];
        self.op(OpKind::WgmmaWait { pending });
        self.op(OpKind::Pin { local: acc.local });
        if parts.done {
            self.leave_taken(roles, parts, side);
        }
        self.enter_iteration(parts, index);
        self.fragments[product.acc] = Some(*acc);
        if !parts.done {
            self.elements_of_taken(roles, parts, side);
        }
        let outer = std::mem::replace(&mut self.held, held.clone());
        self.block(parts.work);
        self.held = outer;
        self.no_elements_of_slots(ring);
        if !parts.done {
            self.leave_taken(roles, parts, side);
        }
    }

    /// Names the first elements of the slots that a product was issued on.
    fn elements_of_taken(&mut self, roles: &Roles, parts: &Parts<'_>, side: usize) {
        let slots = &parts.sides[side].slots;
        self.elements_at(roles, parts.ring, |l, at| l.read(slots[at]));
    }

    /// Gives back the slots that a product was issued on.
    fn leave_taken(&mut self, roles: &Roles, parts: &Parts<'_>, side: usize) {
        let read = parts.ring.loads().any(|load| roles.plan.read.contains(&load.buffer));
        if read && parts.channels.iter().any(|channel| channel.slots.are_refilled()) {
            self.warpgroup_barrier(roles);
        }
        self.release_each(roles, parts.channels, &parts.sides[side].slots);
    }
}
