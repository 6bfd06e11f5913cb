//! The consumers' side of a loop whose product is issued an iteration ahead of the work on it ([`super::plan::Alternate`]).
//!
//! ```text
//! P(0)  [ P'(k+1)  wait P(k)  work(k)  P(k+2)  wait P'(k+1)  work'(k+1) ] k = 0, 2, ..  then the last one or two
//! ```
//!
//! Iterations alternate between two accumulators, which are registers by name, so the loop is written out for two of them. What threads read for
//! the work on an iteration without knowing its product (`held`) is loaded behind the product's issue, and arrives while it runs.

use super::super::*;
use super::consume::Consumed;
use super::held::Held;
use super::plan::Product;
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
    at: &'p Consumed<'p>,
    stmt: StmtId,
    product: &'p Product,
    /// Indices.
    lets: &'p [StmtId],
    /// What follows the product.
    work: &'p [StmtId],
    sides: [Side; 2],
    /// Whether the work itself reads no slot.
    done: bool,
}

impl Lowering<'_> {
    /// Lowers the consumers' loop.
    pub(super) fn consume_alternating(&mut self, at: &Consumed<'_>, stmt: StmtId) {
        let Consumed { roles, ring, ref channels, ref body, range: [start, end, step] } = *at;
        let (Some(number), Some(product)) = (body.iter().position(|s| *s == stmt), roles.plan.products.get(&stmt))
        else {
            return self.bug("an alternating loop without its product");
        };
        let Some(first) = self.held_in(product.acc) else { return };
        let (lets, work) = (&body[..number], &body[number + 1..]);
        let name = format!("{}_next", self.kernel.buffers[product.acc].name);
        let count = self.program.locals[first.local].len;
        let local = self.out.local(&name, self.kernel.buffer_dtype(product.acc), count);
        let sides = [first, Registers { local, ..first }].map(|acc| {
            let slots = channels.iter().map(|_| self.variable("taken", ValueType::Index, 0)).collect();
            Side { acc, slots, held: self.declare_held(ring, work) }
        });
        let done = self.reads_no_slot(ring, work, &sides[0].held);
        let parts = Parts { at, stmt, product, lets, work, sides, done };
        self.when(start.below(end), |l| {
            l.issue_product(&parts, 0, start);
            let left = l.variable("left", ValueType::Index, start);
            let twice = l.eval(step + step);
            let last = l.eval(end - twice);
            let index = l.out.reg(&l.kernel.vars[ring.at.var].name, ValueType::Index, false);
            l.loop_over(index, [start, last, twice], Unroll::By(1), |l| {
                let [now, next, then] = [Term::from(index), index + step, index + twice].map(|at| l.eval(at));
                l.issue_product(&parts, 1, next);
                l.finish_product(&parts, 0, now, 1);
                l.issue_product(&parts, 0, then);
                l.finish_product(&parts, 1, next, 1);
                l.set(left, then);
            });
            let (now, next) = (l.read(left), l.eval(left + step));
            let two = l.eval(next.below(end));
            let both = |l: &mut Self| {
                l.issue_product(&parts, 1, next);
                l.finish_product(&parts, 0, now, 1);
                l.finish_product(&parts, 1, next, 0);
            };
            l.either(two, both, |l| l.finish_product(&parts, 0, now, 0));
        });
        self.fragments[product.acc] = Some(first);
    }

    /// Binds the loop's index and what the body makes of it.
    fn enter_iteration(&mut self, parts: &Parts<'_>, index: ValueId) {
        self.vars[parts.at.ring.at.var] = Some(Binding::Value(index));
        self.block(parts.lets);
    }

    /// Issues the product of the iteration `index`, and the loads of what the work on it needs.
    fn issue_product(&mut self, parts: &Parts<'_>, side: usize, index: ValueId) {
        let (Consumed { roles, ring, channels, .. }, Side { acc, slots, held }) = (parts.at, &parts.sides[side]);
        for (channel, &reg) in channels.iter().zip(slots) {
            let value = self.slot(&channel.slots, Some(index));
            self.await_full(&channel.slots, value);
            self.set(reg, value);
        }
        self.fragments[parts.product.acc] = Some(*acc);
        self.start_product(roles, parts.product, None, &[acc.local]);
        if !held.is_empty() {
            self.enter_iteration(parts, index);
            self.elements_of_slots(parts.at, Some(slots));
            self.load_held(held);
            self.no_elements_of_slots(ring);
        }
        channels.iter().for_each(|channel| self.advance(&channel.slots));
    }

    /// Waits for the product of the iteration `index` but not for `pending` later ones, and does the work on it.
    fn finish_product(&mut self, parts: &Parts<'_>, side: usize, index: ValueId, pending: u32) {
        let Side { acc, held, slots } = &parts.sides[side];
        self.await_products(pending, &[acc.local]);
        if parts.done {
            self.leave_slots(parts.at, Some(slots));
        }
        self.enter_iteration(parts, index);
        self.fragments[parts.product.acc] = Some(*acc);
        if !parts.done {
            self.elements_of_slots(parts.at, Some(slots));
        }
        self.held.insert(parts.stmt, held.clone());
        self.block(parts.work);
        self.no_elements_of_slots(parts.at.ring);
        if !parts.done {
            self.leave_slots(parts.at, Some(slots));
        }
    }
}
