//! Resident tiles: loaded once before the pipelined loop, they stay in shared memory through all of its iterations. The queries of
//! an attention, weights that every step shares.
//!
//! Contract. In: copies from tensors into operands of products that stand before the loops that load, in the same block of
//! statements. Out: the producer fetches them together when it comes to the first of these loops, and consumers wait for them at the first
//! of the copies. Where a loop over tiles stands around the copies, consumers give the arrays back after the last loop that loads: the
//! tiles are then a slot of a ring of one, with its own pair of barriers and its own parity. Where none does, nobody asks for the arrays
//! again, so there is one barrier, for the bytes.

use super::super::channel::{Load, Slots, holds};
use super::super::uses::each;
use super::super::*;
use super::plan::{Plan, Planner};
use super::roles::Roles;
use crate::ir::pipeline::is_address;
use crate::layout::Operand;

/// A tile that is loaded once after the first of the loops that load: the weights of a second product. The producer fetches it while the
/// consumers are still in the loop.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) load: Load,
    /// The last statement that touches it, after which its array is given back.
    pub(super) last: StmtId,
}

impl Planner<'_> {
    /// The copies from tensors into shared arrays that no channel's loop makes.
    pub(super) fn resident_copies(&self) -> Vec<StmtId> {
        let kernel = self.kernel;
        let loops: Vec<StmtId> = self.loops.iter().map(|l| l.stmt).collect();
        let mut all = Vec::new();
        each(kernel, &kernel.body, &mut |stmt| {
            if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind
                && let (Place::Tensor(_), Place::Buffer(buffer)) = (src.place, dst.place)
                && kernel.buffers[buffer].scope == Scope::Shared
                && !holds(kernel, &loops, &[stmt])
            {
                all.push(stmt);
            }
        });
        all
    }

    /// The tiles that stay while loops go round, operands that are loaded once, right before; and those that are loaded once after the
    /// first loop. `filled`: the arrays that channels fill. A copy that is neither is the consumers'.
    pub(super) fn residents(
        &self,
        filled: &BTreeSet<BufferId>,
        operands: &BTreeMap<BufferId, Operand>,
    ) -> (Vec<Load>, Vec<Late>) {
        let kernel = self.kernel;
        let mut around: &[StmtId] = &[];
        let Some((first, last)) = self.loops.first().zip(self.loops.last()) else { return Default::default() };
        beside(kernel, &kernel.body, first.stmt, &mut around);
        let place = |of: StmtId| around.iter().position(|s| *s == of);
        // Where the loops do not stand together, nothing says when the last of them is over.
        let Some((begin, end)) = place(first.stmt).zip(place(last.stmt)) else { return Default::default() };
        let copies = self.resident_copies();
        let mentions = |body: &[StmtId], buffer: BufferId| {
            let mut count = 0;
            each(kernel, body, &mut |s| count += self.touched(s).iter().filter(|(b, ..)| *b == buffer).count());
            count
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
            match is_before {
                true => stay.push(load),
                false => late.push(Late { load, last: touching.next_back().unwrap_or(stmt) }),
            }
        }
        (stay, late)
    }
}

/// The statements that `stmt` stands among.
fn beside<'k>(kernel: &'k BoundKernel, body: &'k [StmtId], stmt: StmtId, found: &mut &'k [StmtId]) {
    if body.contains(&stmt) {
        *found = body;
        return;
    }
    for &inner in body {
        kernel.stmts[inner].kind.bodies().into_iter().for_each(|body| beside(kernel, body, stmt, found));
    }
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

impl<'a> Lowering<'a> {
    /// The arrays, tensor maps and barriers of the tiles that stay: one slot for all.
    pub(super) fn resident_slot(&mut self, plan: &Plan) -> Option<Slots> {
        let first = plan.residents.first()?.stmt;
        plan.residents.iter().for_each(|load| self.declare_slots(load, 1));
        Some(self.slot_of_copies("resident", first))
    }

    /// The arrays, tensor maps and barriers of the tiles that are loaded late.
    pub(super) fn late_slots(&mut self, plan: &Plan) -> BTreeMap<StmtId, Slots> {
        let mut all = BTreeMap::new();
        for late in &plan.late {
            self.declare_slots(&late.load, 1);
            all.insert(late.load.stmt, self.slot_of_copies("late", late.load.stmt));
        }
        all
    }

    /// The barriers of a slot, which is filled again where a loop stands around `copy`: one of the copies that fill it, side by side.
    fn slot_of_copies(&mut self, name: &str, copy: StmtId) -> Slots {
        let again = is_in_loop(self.kernel, &self.kernel.body, copy);
        self.only_slot(name, again)
    }

    /// The producer fetches a tile that is loaded late; whether the statement is its copy.
    pub(super) fn fill_late(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(late) = roles.plan.late.iter().find(|late| late.load.stmt == stmt) else { return false };
        let Some(slot) = roles.late.get(&stmt) else { return false };
        self.fetch_once(slot, &[&late.load]);
        true
    }

    /// A consumer comes to the copy of a tile that is loaded late; whether the statement is one.
    pub(super) fn await_late(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(slot) = roles.late.get(&stmt) else { return false };
        self.await_once(slot);
        true
    }

    fn await_once(&mut self, slot: &Slots) {
        let zero = self.int(0);
        self.await_full(slot, zero);
    }

    /// After the last statement that touches a tile that is loaded late, its array is given back.
    pub(in super::super) fn release_late(&mut self, stmt: StmtId) {
        let Some(roles) = self.roles.clone() else { return };
        for late in roles.plan.late.iter().filter(|late| late.last == stmt) {
            let Some(slot) = roles.late.get(&late.load.stmt) else { continue };
            self.give_back_once(&roles, slot, roles.plan.read.contains(&late.load.buffer));
        }
    }

    /// One thread makes the barriers.
    pub(super) fn set_up_resident(&mut self, roles: &Roles) {
        for slot in roles.late.values().chain(&roles.resident) {
            let zero = self.int(0);
            self.init_slot(slot, zero, roles.plan.readers());
        }
    }

    /// The producer fetches the tiles, once their arrays are free.
    pub(super) fn fill_resident(&mut self, roles: &Roles) {
        let Some(slot) = &roles.resident else { return };
        self.fetch_once(slot, &roles.plan.residents.iter().collect::<Vec<_>>());
    }

    fn fetch_once(&mut self, slot: &Slots, loads: &[&Load]) {
        let zero = self.int(0);
        self.await_empty(slot, zero);
        self.request(slot, zero, loads, |_| true);
        self.advance(slot);
    }

    /// A consumer comes to one of the copies: at the first it waits for all. Whether it was one.
    pub(super) fn await_resident(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(slot) = &roles.resident else { return false };
        let Some(at) = roles.plan.residents.iter().position(|r| r.stmt == stmt) else { return false };
        if at == 0 {
            self.await_once(slot);
        }
        true
    }

    /// After the loop, a consumer gives the resident tiles' arrays back to the producer.
    pub(super) fn release_resident(&mut self, roles: &Roles) {
        let Some(slot) = &roles.resident else { return };
        let read = roles.plan.residents.iter().any(|load| roles.plan.read.contains(&load.buffer));
        self.give_back_once(roles, slot, read);
    }

    /// Gives a slot back, where it is filled again. `read`: by threads, not only by tensor cores.
    pub(super) fn give_back_once(&mut self, roles: &Roles, slot: &Slots, read: bool) {
        if !slot.are_refilled() {
            return;
        }
        // One thread arrives on `empty` for the whole warpgroup, so all of its threads must have finished reading the tiles.
        if read {
            self.warpgroup_barrier(roles);
        }
        let (zero, leader) = (self.int(0), self.is_leader(roles));
        self.give_back(slot, zero, leader, None);
        self.advance(slot);
    }
}
