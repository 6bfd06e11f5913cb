//! What is loaded once. Resident tiles: loaded before the pipelined loop, they stay in shared memory through all of its iterations. The queries of
//! an attention, weights that every step shares.
//!
//! Contract. In: copies from tensors into operands of products that stand before the loops that load, in the same block of
//! statements. Out: the producer fetches them together when it comes to the first of these loops, and consumers wait for them at the first
//! of the copies. Where a loop over tiles stands around the copies, consumers give the arrays back after the last loop that loads: the
//! tiles are then a slot of a ring of one, with its own pair of barriers and its own parity. Where none does, nobody asks for the arrays
//! again, so there is one barrier, for the bytes.

use super::super::channel::{Load, Slots, holds};
use super::super::uses::statements;
use super::super::*;
use super::plan::{Plan, Planner};
use super::roles::Roles;
use crate::ir::pipeline::is_address;
use crate::layout::Operand;

/// What is loaded once: all tiles that stay while loops go round; or a tile that is loaded late, after the first of the loops that load, such as
/// the weights of a second product, which the producer fetches while the consumers are still in the loop.
#[derive(Clone, Debug)]
pub(super) struct Once {
    pub(super) loads: Vec<Load>,
    pub(super) stays: bool,
    /// Where the producer fetches: at the first of the loops that load, or at the copy of a late tile.
    pub(super) fetched: StmtId,
    /// The statement after which the arrays are given back: the last of the loops, or the last that touches a late tile.
    pub(super) last: StmtId,
}

impl Planner<'_> {
    /// The copies from tensors into shared arrays that no channel's loop makes.
    pub(super) fn resident_copies(&self) -> Vec<StmtId> {
        let kernel = self.kernel;
        let loops: Vec<StmtId> = self.loops.iter().map(|l| l.stmt).collect();
        let mut all = statements(kernel, &kernel.body);
        all.retain(|stmt| {
            let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[*stmt].kind else { return false };
            matches!(src.place, Place::Tensor(_))
                && kernel.scope_of(dst.place) == Some(Scope::Shared)
                && !holds(kernel, &loops, &[*stmt])
        });
        all
    }

    /// The tiles that stay while loops go round, operands that are loaded once, right before; and those that are loaded once after the
    /// first loop. `filled`: the arrays that channels fill. A copy that is neither is the consumers'.
    pub(super) fn once(&self, filled: &BTreeSet<BufferId>, operands: &BTreeMap<BufferId, Operand>) -> Vec<Once> {
        let kernel = self.kernel;
        let Some((first, last)) = self.loops.first().zip(self.loops.last()) else { return Default::default() };
        let around = beside(kernel, &kernel.body, first.stmt).unwrap_or_default();
        let place = |of: StmtId| around.iter().position(|s| *s == of);
        // Where the loops do not stand together, nothing says when the last of them is over.
        let Some((begin, end)) = place(first.stmt).zip(place(last.stmt)) else { return Default::default() };
        let copies = self.resident_copies();
        let mentions = |body: &[StmtId], buffer: BufferId| {
            let touched = statements(kernel, body).into_iter().flat_map(|stmt| self.touched(stmt));
            touched.filter(|(of, ..)| *of == buffer).count()
        };
        let (mut stay, mut late) = (Vec::new(), Vec::new());
        for (at, &stmt) in around.iter().enumerate().filter(|(_, s)| copies.contains(s)) {
            let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind else { continue };
            let Place::Buffer(buffer) = dst.place else { continue };
            let mut touching = around.iter().copied().filter(|s| mentions(&[*s], buffer) > 0);
            let is_before = at < begin;
            let lifetime = if is_before { &around[..=end] } else { around };
            let qualifies = operands.contains_key(&buffer)
                && !filled.contains(&buffer)
                && copies.iter().filter(|s| self.fills(**s, buffer)).count() == 1
                && src.start.iter().all(|e| is_address(kernel, *e))
                && mentions(&kernel.body, buffer) == mentions(lifetime, buffer)
                && (is_before || touching.next() == Some(stmt));
            let Some(load) = qualifies.then(|| self.load_boxes(stmt, false, operands).ok()).flatten() else { continue };
            if is_before {
                stay.push(load);
            } else {
                let last = touching.next_back().unwrap_or(stmt);
                late.push(Once { loads: vec![load], stays: false, fetched: stmt, last });
            }
        }
        let stay = Once { loads: stay, stays: true, fetched: first.stmt, last: last.stmt };
        Some(stay).filter(|stay| !stay.loads.is_empty()).into_iter().chain(late).collect()
    }
}

/// The statements that `stmt` stands among.
fn beside<'k>(kernel: &'k BoundKernel, body: &'k [StmtId], stmt: StmtId) -> Option<&'k [StmtId]> {
    let mut nested = body.iter().flat_map(|inner| kernel.stmts[*inner].kind.bodies());
    if body.contains(&stmt) { Some(body) } else { nested.find_map(|body| beside(kernel, body, stmt)) }
}

/// Whether a loop, over tiles or any other, stands around a statement of a body.
pub(super) fn is_in_loop(kernel: &BoundKernel, body: &[StmtId], stmt: StmtId) -> bool {
    body.iter().any(|&outer| {
        let kind = &kernel.stmts[outer].kind;
        let is_loop = matches!(kind, StmtKind::For { .. } | StmtKind::Persistent { .. });
        let inside =
            |body: &[StmtId]| if is_loop { holds(kernel, body, &[stmt]) } else { is_in_loop(kernel, body, stmt) };
        kind.bodies().into_iter().any(inside)
    })
}

impl Plan {
    /// Whether threads read some of these tiles, not only tensor cores.
    fn reads(&self, once: &Once) -> bool {
        once.loads.iter().any(|load| self.read.contains(&load.buffer))
    }

    /// Whether a warpgroup meets before these tiles are given back, other than at a product: where threads read them, or where nothing is known to be
    /// a product of theirs.
    fn meets(&self, once: &Once) -> bool {
        self.reads(once) || !self.products.contains_key(&once.last) && self.ring(once.last).is_none()
    }

    /// Whether the first product of a software-pipelined loop gives the tiles back, which alone reads them.
    fn leaves_early(&self, once: &Once) -> bool {
        once.stays && !self.reads(once) && self.ring(once.last).is_some_and(|ring| ring.shift.is_some())
    }
}

impl Roles {
    /// What is loaded once, with its slot.
    fn once(&self) -> impl Iterator<Item = (&Once, &Slots)> {
        self.plan.once.iter().zip(&self.once)
    }

    /// Whether a slot is given back behind a loop that loads, without a barrier: the products of the loop's iterations say that all of the warpgroup
    /// have seen its phase.
    pub(super) fn leaves_at_once(&self, ring: StmtId) -> bool {
        self.once().any(|(once, slot)| {
            once.last == ring && slot.are_refilled() && !self.plan.leaves_early(once) && !self.plan.meets(once)
        })
    }

    /// The slot of tiles that the first product of a software-pipelined loop gives back: the producer fetches the next ones while threads work on the
    /// last scores.
    pub(super) fn left_early(&self, ring: StmtId) -> Option<Slots> {
        let mut left = self.once().filter(|(once, _)| once.last == ring && self.plan.leaves_early(once));
        left.next().map(|(_, slots)| *slots).filter(Slots::are_refilled)
    }
}

impl Lowering<'_> {
    /// The arrays, tensor maps and barriers of what is loaded once: a slot for each. It is filled again where a loop stands around the copies.
    pub(super) fn slots_of_once(&mut self, plan: &Plan) -> Vec<Slots> {
        let mut all = Vec::new();
        for Once { loads, stays, .. } in &plan.once {
            loads.iter().for_each(|load| self.declare_slots(load, 1));
            let again = loads.iter().any(|load| is_in_loop(self.kernel, &self.kernel.body, load.stmt));
            all.push(self.only_slot(if *stays { "resident" } else { "late" }, again));
        }
        all
    }

    /// The producer comes to a statement: it fetches what is fetched there. Whether there was something.
    pub(super) fn fetch_once(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let mut any = false;
        for (once, slot) in roles.once().filter(|(once, _)| once.fetched == stmt) {
            let zero = self.int(0);
            self.await_empty(slot, zero);
            self.request(slot, zero, &once.loads.iter().collect::<Vec<_>>(), |_| true);
            self.advance(slot);
            any = true;
        }
        any
    }

    /// A consumer comes to the copy of a tile that is loaded once: at the first of those that come together it waits for all. Whether it was one.
    pub(super) fn await_once(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        for (once, slot) in roles.once() {
            let Some(at) = once.loads.iter().position(|load| load.stmt == stmt) else { continue };
            if at == 0 {
                self.await_full(slot, 0);
            }
            return true;
        }
        false
    }

    /// After the last statement that needs tiles that are loaded once, their arrays are given back.
    pub(in super::super) fn release_once(&mut self, stmt: StmtId) {
        let Some(roles) = self.roles.clone() else { return };
        for (once, slot) in roles.once().filter(|(once, _)| once.last == stmt && !roles.plan.leaves_early(once)) {
            self.give_back_once(&roles, slot, roles.plan.meets(once));
        }
    }

    /// Gives a slot back, where it is filled again. `meets`: behind a barrier of the warpgroup.
    pub(super) fn give_back_once(&mut self, roles: &Roles, slot: &Slots, meets: bool) {
        if !slot.are_refilled() {
            return;
        }
        // One thread arrives on `empty` for the whole warpgroup, so all of its threads must have finished reading the tiles, and have seen the
        // slot's phase: the next one may complete as soon as that thread has arrived.
        if meets {
            self.warpgroup_barrier(roles);
        }
        let leader = self.is_leader(roles);
        self.give_back(slot, 0, leader, None);
        self.advance(slot);
    }
}
