//! The producer: of the kernel it executes what decides about loads, and fills the slots of channels where a loop that loads stands.

use super::super::channel::{Load, Slice, Slots};
use super::super::uses::{constant, declared, depends_on, loaded, statements};
use super::super::*;
use super::plan::{Ring, Split};
use super::roles::Roles;
use crate::ir::parts::alike;

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
        self.divide_before(ring, slice, range);
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
        self.quotients.clear();
    }

    /// Computes the quotients and remainders that are the same in every iteration of a loop that loads, such as `h / group`, before it. NVRTC leaves
    /// them in it, at some 30 instructions and a reciprocal an iteration: the loop may have none, and nothing says that a divisor is positive then.
    fn divide_before(&mut self, ring: &Ring, slice: &Slice, [start, end, _]: [ValueId; 3]) {
        let kernel = self.kernel;
        let kinds = statements(kernel, &ring.at.body).into_iter().map(|stmt| &kernel.stmts[stmt].kind);
        let changed: Vec<_> = kinds.flat_map(|k| [k.binds(), k.sets()].concat()).chain([ring.at.var]).collect();
        let is_same = |expr: ExprId| !depends_on(kernel, expr, &changed) && loaded(kernel, expr).is_empty();
        let lets = ring.at.body.iter().filter(|stmt| declared(kernel, **stmt).is_some_and(|v| slice.vars.contains(&v)));
        let mut left: Vec<_> = lets.flat_map(|stmt| kernel.stmts[*stmt].kind.values()).collect();
        left.extend(ring.loads().flat_map(|load| &load.src.start));
        while let Some(expr) = left.pop() {
            let kind = &kernel.exprs[expr].kind;
            if let ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), _, by) = kind
                && constant(kernel, *by).is_none()
                && is_same(expr)
            {
                let same = self.quotients.iter().find(|(other, _)| alike(kernel, **other, expr));
                let quotient = same.map(|(_, quotient)| *quotient).unwrap_or_else(|| {
                    let quotient = self.value(expr);
                    let ty = self.program.values[quotient].ty;
                    let (runs, zero) = (self.eval(start.below(end)), self.zero(ty));
                    let quotient = self.push(ValueKind::Choose(runs, quotient, zero), ty);
                    self.once(if *op == BinaryOp::Div { "quotient" } else { "remainder" }, quotient)
                });
                self.quotients.insert(expr, quotient);
            } else if !matches!(kind, ExprKind::If(..) | ExprKind::Select(..)) {
                // A condition may be what makes a divisor positive.
                kind.operands(kernel, &mut |part| left.push(part));
            }
        }
    }

    /// The slot of a channel that this partition is at in an iteration of a loop.
    pub(super) fn slot_of(&mut self, slots: &Slots, ring: &Ring) -> ValueId {
        let iteration = if let Some(Binding::Reg(reg)) = self.vars[ring.at.var] { Some(self.read(reg)) } else { None };
        self.slot(slots, iteration)
    }
}
