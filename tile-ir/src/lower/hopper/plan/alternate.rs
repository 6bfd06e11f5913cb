//! Software pipelining of a loop of one product whose result threads work on: the next product is issued before that work begins.
//!
//! The product of the next iteration depends on nothing that threads do, but it would overwrite what they work on, so iterations alternate between
//! two accumulators. Legal where the product overwrites its accumulator, nothing outside the iteration mentions that, only indices come before it
//! in the body, and what follows it is work of a thread on its own elements. It takes two slots, and the registers of a second accumulator.

use super::{Loop, MOST_ACCUMULATORS, Planner, Product, Ring, SHIFTED_BESIDE, most_registers};
use crate::ir::*;
use crate::layout::Fragment;
use crate::lower::channel::Channel;
use crate::lower::hopper::operand::Left;
use crate::lower::uses::{accesses, mentions, statements};
use std::collections::BTreeMap;

/// How the product of an iteration and the work on it overlap.
#[derive(Clone, Debug)]
pub(in super::super) enum Alternate {
    /// The product of the next iteration is in flight during the work on this one's.
    By(StmtId),
    /// Threads wait for this product and it for them: why.
    No(StmtId, String),
}

impl Planner<'_> {
    /// How the product of a ring's loop and the work on it overlap, if that is all the loop does.
    pub(super) fn alternate(
        &self,
        ring: &Ring,
        channels: &[Channel],
        products: &BTreeMap<StmtId, Product>,
        fragments: &BTreeMap<BufferId, Fragment>,
        (held, consumers): (u32, u32),
    ) -> Option<Alternate> {
        let kernel = self.kernel;
        let (stmt, product) = self.lone_product(&ring.at, products)?;
        if ring.meets || ring.shift.is_some() {
            return None;
        }
        let registers = fragments.get(&product.acc)?.registers();
        let (needed, most) = (held + registers, MOST_ACCUMULATORS.min(most_registers(consumers) - SHIFTED_BESIDE));
        let name = &kernel.buffers[product.acc].name;
        if needed > most {
            let text = format!("a second `{name}` would make it {needed} registers a thread, of {most}");
            return Some(Alternate::No(stmt, text));
        }
        if ring.fills.iter().any(|(number, _)| channels[*number].slots < 2) {
            return Some(Alternate::No(stmt, "its tiles have one slot".to_owned()));
        }
        Some(Alternate::By(stmt))
    }

    /// The product of a loop whose body is indices, one product that overwrites its accumulator, and work of threads on their own elements.
    fn lone_product<'p>(&self, at: &Loop, products: &'p BTreeMap<StmtId, Product>) -> Option<(StmtId, &'p Product)> {
        let kernel = self.kernel;
        if at.stages.is_some() && at.schedule != Schedule::Auto {
            return None;
        }
        let rest: Vec<StmtId> = at.body.iter().copied().filter(|s| !at.loads.contains(s)).collect();
        let position = rest.iter().position(|s| products.contains_key(s))?;
        let (before, after) = rest.split_at(position);
        let (stmt, after) = after.split_first()?;
        let product = products.get(stmt)?;
        let is_let = |s: &StmtId| matches!(kernel.stmts[*s].kind, StmtKind::Let { var, value: Some(_) } if kernel.vars[var].kind == VarKind::Let);
        let is_index = |s: &StmtId| is_let(s) && accesses(kernel, &[*s]).is_empty();
        let (Left::Shared(_), true) = (product.a.1, product.clear) else { return None };
        let is_work = |s: &StmtId| {
            matches!(
                kernel.stmts[*s].kind,
                StmtKind::Parallel { .. } | StmtKind::Let { .. } | StmtKind::Assign { .. } | StmtKind::Store { .. }
            ) || matches!(kernel.stmts[*s].kind, StmtKind::If { .. } | StmtKind::Tile(TileOp::Fill { .. }))
        };
        let inside = statements(kernel, &at.body);
        let has_no_part = |s: &StmtId| {
            let kind = &kernel.stmts[*s].kind;
            let is_declaration = kind.allocates() == Some(product.acc);
            inside.contains(s) || !kind.bodies().is_empty() || is_declaration || !mentions(kernel, *s, product.acc)
        };
        let own = !after.is_empty() && before.iter().all(is_index) && statements(kernel, after).iter().all(is_work);
        (own && statements(kernel, &kernel.body).iter().all(has_no_part)).then_some((*stmt, product))
    }
}
