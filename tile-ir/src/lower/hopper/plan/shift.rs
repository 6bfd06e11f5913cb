//! Software pipelining across two dependent products: attention's `s = q k^T`, work on `s`, `o += p v`.
//!
//! Between the two products of one iteration there is work that tensor cores wait for. The first product of the *next* iteration depends on
//! none of it, so it is issued before the second one of this iteration, and both are in flight while threads work. Legal where the second
//! product is the last statement of the body, takes its left operand from registers, and nothing but it reads or writes what the two
//! share; the slots of the first product's operands are given back before those of the second one's, so they are channels of their own.

use super::{Planner, Product};
use crate::ir::*;
use crate::lower::hopper::operand::Left;
use crate::lower::uses::{mentions, statements};
use std::collections::{BTreeMap, BTreeSet};

/// How a loop is software-pipelined.
#[derive(Clone, Debug)]
pub(in super::super) struct Shift {
    /// The product that is issued an iteration ahead.
    pub(in super::super) first: StmtId,
    /// The product that is in flight while the next iteration's threads work.
    pub(in super::super) second: StmtId,
    /// Arrays that the second product alone reads.
    pub(in super::super) late: BTreeSet<BufferId>,
}

impl Planner<'_> {
    /// How the loop number `at` is software-pipelined, if it can be.
    pub(super) fn shift(&self, at: usize, products: &BTreeMap<StmtId, Product>) -> Option<Shift> {
        let kernel = self.kernel;
        let at = &self.loops[at];
        // With one slot the producer would wait for the second product to load for the next first one, which is issued before.
        if at.stages.is_none_or(|stages| stages < 2) || at.schedule != Schedule::Auto {
            return None;
        }
        let body = &at.body;
        let mut all = statements(kernel, body);
        all.retain(|stmt| products.contains_key(stmt));
        let [first, second] = all[..] else { return None };
        if body.last() != Some(&second) || !body.contains(&first) {
            return None;
        }
        let (one, two) = (products.get(&first)?, products.get(&second)?);
        let (Left::Shared(_), Left::Registers) = (one.a.1, two.a.1) else { return None };
        if !one.clear || two.clear || one.acc == two.acc || two.a.0 == one.acc {
            return None;
        }
        // Before the first product there is nothing but loads and indices.
        let mut before = body.iter().take_while(|s| **s != first);
        if !before.all(|s| at.loads.contains(s) || matches!(kernel.stmts[*s].kind, StmtKind::Let { .. })) {
            return None;
        }
        let filled = |buffer: BufferId| at.loads.iter().any(|s| self.fills(*s, buffer));
        let late: BTreeSet<BufferId> = [two.b.0].into_iter().filter(|b| filled(*b)).collect();
        let early = [one.a.0, one.b.0];
        // Work between the products reads no slot; the loop fills nothing else.
        let mut others = body.iter().filter(|s| !at.loads.contains(s) && **s != first && **s != second);
        let slots: Vec<BufferId> = late.iter().copied().chain(early).collect();
        let apart = late.iter().all(|b| !early.contains(b))
            && at.loads.iter().all(|s| slots.iter().any(|b| self.fills(*s, *b)));
        let unread = others.all(|s| slots.iter().all(|b| !mentions(kernel, *s, *b)));
        (!late.is_empty() && apart && unread).then_some(Shift { first, second, late })
    }
}
