//! Resident tiles: loaded once before the pipelined loop, they stay in shared memory through all of its iterations. The queries of
//! an attention, weights that every step shares.
//!
//! Contract. In: copies from tensors into operands of products that stand before the loops that load, in the same block of
//! statements. Out: the producer fetches them together when it comes to the first of these loops, and consumers wait for them at the first
//! of the copies. Where a loop over tiles stands around the copies, consumers give the arrays back after the last loop that loads: the
//! tiles are then a slot of a ring of one, with its own pair of barriers and its own parity. Where none does, nobody asks for the arrays
//! again, so there is one barrier, for the bytes.

use super::super::channel::{Slots, holds};
use super::super::uses::each;
use super::super::*;
use super::plan::{Load, Plan, Planner};
use super::roles::Roles;
use crate::ir::pipeline::is_address;
use crate::layout::Operand;

/// A tile that stays.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    /// The copy.
    pub(super) stmt: StmtId,
    pub(super) load: Load,
}

/// A tile that is loaded once after the first of the loops that load: the weights of a second product. The producer fetches it while the
/// consumers are still in the loop.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) load: Load,
    /// The last statement that touches it, after which its array is given back.
    pub(super) last: StmtId,
}

/// The one slot of all resident tiles.
#[derive(Clone)]
pub(super) struct ResidentSlot {
    /// Filled again where a loop stands around the copies.
    pub(super) slots: Slots,
    /// The tensor map of each.
    maps: Vec<MapId>,
}

impl ResidentSlot {
    /// One that no copy fills.
    pub(super) fn of(slots: Slots) -> ResidentSlot {
        ResidentSlot { slots, maps: Vec::new() }
    }
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
    ) -> (Vec<Resident>, Vec<Late>) {
        let kernel = self.kernel;
        let mut around: &[StmtId] = &[];
        let Some((first, last)) = self.loops.first().zip(self.loops.last()) else { return Default::default() };
        beside(kernel, &kernel.body, first.stmt, &mut around);
        // Where the loops do not stand together, nothing says when the last of them is over.
        let Some(end) = around.iter().position(|s| *s == last.stmt) else { return Default::default() };
        let copies = self.resident_copies();
        let mentions = |body: &[StmtId], buffer: BufferId| {
            let mut count = 0;
            each(kernel, body, &mut |s| count += self.touched(s).iter().filter(|(b, ..)| *b == buffer).count());
            count
        };
        let mut all: Vec<Resident> = Vec::new();
        let mut late: Vec<Late> = Vec::new();
        for &stmt in copies.iter().filter(|s| around.iter().skip_while(|s| **s != first.stmt).any(|at| at == *s)) {
            let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind else { continue };
            let Place::Buffer(buffer) = dst.place else { continue };
            let touching: Vec<StmtId> = around.iter().copied().filter(|s| mentions(&[*s], buffer) > 0).collect();
            let everywhere = mentions(&kernel.body, buffer) == mentions(around, buffer);
            if operands.contains_key(&buffer)
                && !filled.contains(&buffer)
                && copies.iter().filter(|s| self.fills(**s, buffer)).count() == 1
                && src.start.iter().all(|e| is_address(kernel, *e))
                && touching.first() == Some(&stmt)
                && everywhere
                && let Some(&last) = touching.last()
                && let Ok(load) = self.load(stmt, false, operands)
            {
                late.push(Late { load, last });
            }
        }
        for &stmt in copies.iter().filter(|s| around.iter().take_while(|s| **s != first.stmt).any(|at| at == *s)) {
            let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind else { continue };
            let Place::Buffer(buffer) = dst.place else { continue };
            let is_operand = operands.contains_key(&buffer) && !filled.contains(&buffer);
            let once = copies.iter().filter(|s| self.fills(**s, buffer)).count() == 1;
            let known = src.start.iter().all(|e| is_address(kernel, *e));
            let ends = mentions(&kernel.body, buffer) == mentions(&around[..=end], buffer);
            if is_operand
                && once
                && known
                && ends
                && let Ok(load) = self.load(stmt, false, operands)
            {
                all.push(Resident { stmt, load });
            }
        }
        (all, late)
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
    /// The arrays, tensor maps and barriers of the tiles that stay.
    pub(super) fn resident_slot(&mut self, plan: &Plan) -> Option<ResidentSlot> {
        let first = plan.residents.first()?.stmt;
        let maps = plan.residents.iter().map(|r| self.slots_of(&r.load, 1)).collect();
        Some(self.slot_of_copies("resident", first, maps))
    }

    /// The arrays, tensor maps and barriers of the tiles that are loaded late.
    pub(super) fn late_slots(&mut self, plan: &Plan) -> BTreeMap<StmtId, ResidentSlot> {
        let mut all = BTreeMap::new();
        for late in &plan.late {
            let maps = vec![self.slots_of(&late.load, 1)];
            all.insert(late.load.stmt, self.slot_of_copies("late", late.load.stmt, maps));
        }
        all
    }

    /// The barriers of a slot. `copy`: one of the copies that fill it, which stand side by side.
    fn slot_of_copies(&mut self, name: &str, copy: StmtId, maps: Vec<MapId>) -> ResidentSlot {
        let again = is_in_loop(self.kernel, &self.kernel.body, copy);
        ResidentSlot { slots: self.only_slot(name, again), maps }
    }

    /// The producer fetches a tile that is loaded late; whether the statement is its copy.
    pub(super) fn fill_late(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(late) = roles.plan.late.iter().find(|late| late.load.stmt == stmt) else { return false };
        let Some(slot) = roles.late.get(&stmt).cloned() else { return false };
        self.fetch_once(&slot, &[&late.load]);
        true
    }

    /// A consumer comes to the copy of a tile that is loaded late; whether the statement is one.
    pub(super) fn await_late(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(slot) = roles.late.get(&stmt) else { return false };
        self.await_once(slot);
        true
    }

    fn await_once(&mut self, slot: &ResidentSlot) {
        let zero = self.int(0);
        self.await_full(&slot.slots, zero);
    }

    /// After the last statement that touches a tile that is loaded late, its array is given back.
    pub(in super::super) fn release_late(&mut self, stmt: StmtId) {
        let Some(roles) = self.roles.clone() else { return };
        for late in roles.plan.late.iter().filter(|late| late.last == stmt) {
            let Some(slot) = roles.late.get(&late.load.stmt).cloned() else { continue };
            self.give_back_once(&roles, &slot, roles.plan.read.contains(&late.load.buffer));
        }
    }

    /// One thread makes the barriers.
    pub(super) fn set_up_resident(&mut self, roles: &Roles) {
        for slot in roles.late.values().chain(&roles.resident) {
            let zero = self.int(0);
            self.init_slot(&slot.slots, zero, roles.plan.consumers);
        }
    }

    /// The producer fetches the tiles, once their arrays are free.
    pub(super) fn fill_resident(&mut self, roles: &Roles) {
        let Some(slot) = roles.resident.clone() else { return };
        let loads: Vec<&Load> = roles.plan.residents.iter().map(|r| &r.load).collect();
        self.fetch_once(&slot, &loads);
    }

    fn fetch_once(&mut self, slot: &ResidentSlot, loads: &[&Load]) {
        let zero = self.int(0);
        self.await_empty(&slot.slots, zero);
        let bytes: u32 = loads.iter().map(|load| load.layout.bytes()).sum();
        let bytes = self.int(i64::from(bytes));
        self.expect(&slot.slots, zero, bytes);
        for (load, &map) in loads.iter().zip(&slot.maps) {
            self.load_tile(load, map, slot.slots.full(zero), zero);
        }
        self.advance(&slot.slots);
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
        let Some(slot) = roles.resident.clone() else { return };
        let read = roles.plan.residents.iter().any(|r| roles.plan.read.contains(&r.load.buffer));
        self.give_back_once(roles, &slot, read);
    }

    /// Gives a slot back, where it is filled again. `read`: by threads, not only by tensor cores.
    pub(super) fn give_back_once(&mut self, roles: &Roles, slot: &ResidentSlot, read: bool) {
        if !slot.slots.are_refilled() {
            return;
        }
        // One thread arrives on `empty` for the whole warpgroup, so all of its threads must have finished reading the tiles.
        if read {
            self.warpgroup_barrier(roles);
        }
        let (zero, leader) = (self.int(0), self.is_leader(roles));
        self.give_back(&slot.slots, zero, leader, None);
        self.advance(&slot.slots);
    }
}
