//! Resident tiles: loaded once before the pipelined loop, they stay in shared memory through all of its iterations. The queries of
//! an attention, weights that every step shares.
//!
//! Contract. In: copies from tensors into shared arrays that stand before the pipelined loop, in the same block of
//! statements. Out: the producer fetches them together when it comes to the loop, consumers wait for them at the first of
//! the copies, and give their arrays back after the loop, for the next tile of a loop over tiles. They are a slot of a ring of one, with
//! its own pair of barriers and its own parity.

use super::super::uses::each;
use super::super::*;
use super::plan::{Load, Plan, Planner, Reason};
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

/// The one slot of all resident tiles, and the phase that a partition (producer or consumer) waits for.
#[derive(Clone)]
pub(super) struct ResidentSlot {
    /// Completes when the bytes have arrived.
    full: BarrierId,
    /// Completes when every consumer is done with them.
    empty: BarrierId,
    /// The tensor map of each.
    maps: Vec<MapId>,
    /// The parity of the phase that this partition waits for.
    parity: RegId,
}

impl Planner<'_> {
    /// The copies into shared arrays outside of the ring.
    pub(super) fn resident_copies(&self) -> Vec<StmtId> {
        let kernel = self.kernel;
        let mut all = Vec::new();
        each(kernel, &kernel.body, &mut |stmt| {
            if let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = &kernel.stmts[stmt].kind
                && let (Place::Tensor(_), Place::Buffer(buffer)) = (src.place, dst.place)
                && kernel.buffers[buffer].scope == Scope::Shared
                && !self.is_of_ring(stmt)
            {
                all.push(stmt);
            }
        });
        all
    }

    /// Whether a statement stands in the pipelined loop.
    pub(super) fn is_of_ring(&self, stmt: StmtId) -> bool {
        let mut found = false;
        each(self.kernel, &[self.ring], &mut |s| found |= s == stmt);
        found
    }

    /// The tiles that stay while the ring turns. `filled`: the arrays that the ring fills.
    pub(super) fn residents(
        &self,
        filled: &[BufferId],
        operands: &BTreeMap<BufferId, Operand>,
    ) -> Result<Vec<Resident>, Reason> {
        let kernel = self.kernel;
        let mut around: &[StmtId] = &[];
        beside(kernel, &kernel.body, self.ring, &mut around);
        let mut all: Vec<Resident> = Vec::new();
        for stmt in self.resident_copies() {
            let StmtKind::Tile(TileOp::Copy { src, dst, tma, evict, .. }) = &kernel.stmts[stmt].kind else { continue };
            let (Place::Tensor(tensor), Place::Buffer(buffer)) = (src.place, dst.place) else { continue };
            let name = &kernel.buffers[buffer].name;
            let no = |text: String| Err(Reason { text, span: kernel.stmts[stmt].span });
            if !around.iter().take_while(|s| **s != self.ring).any(|s| *s == stmt) {
                return no(format!("`{name}` is loaded neither in the pipelined loop nor right before it"));
            }
            if filled.contains(&buffer) || all.iter().any(|r| r.load.buffer == buffer) {
                return no(format!("`{name}` is loaded twice"));
            }
            if !src.start.iter().all(|e| is_address(kernel, *e)) {
                return no(format!("where `{name}` is loaded from depends on what is computed"));
            }
            let evict = evict.as_ref().and_then(Eviction::hint);
            let load = self.load(stmt, tensor, buffer, src, *tma, evict, operands)?;
            all.push(Resident { stmt, load });
        }
        Ok(all)
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

impl Plan {
    /// Whether an array stays while the ring turns.
    pub(super) fn is_resident(&self, buffer: BufferId) -> bool {
        self.residents.iter().any(|r| r.load.buffer == buffer)
    }
}

impl Roles {
    /// The slot's barriers.
    fn resident_barriers(slot: &ResidentSlot, index: ValueId) -> [BarrierRef; 2] {
        [slot.full, slot.empty].map(|array| BarrierRef { array, index })
    }
}

impl<'a> Lowering<'a> {
    /// The arrays, tensor maps and barriers of the tiles that stay.
    pub(super) fn resident_slot(&mut self, plan: &Plan) -> Option<ResidentSlot> {
        if plan.residents.is_empty() {
            return None;
        }
        let maps = plan.residents.iter().map(|r| self.slots_of(&r.load, 1)).collect();
        let full = self.barrier_array("resident_full", 1);
        let empty = self.barrier_array("resident_empty", 1);
        let parity = self.reg("resident_parity", ValueType::Index, true);
        Some(ResidentSlot { full, empty, maps, parity })
    }

    /// One thread makes the barriers.
    pub(super) fn set_up_resident(&mut self, roles: &Roles) {
        let Some(slot) = &roles.resident else { return };
        let zero = self.int(0);
        let [full, empty] = Roles::resident_barriers(slot, zero);
        self.op(OpKind::BarrierInit { barrier: full, arrivals: 1 });
        self.op(OpKind::BarrierInit { barrier: empty, arrivals: roles.plan.consumers });
    }

    /// Declares the parity that a role begins with.
    pub(super) fn enter_resident(&mut self, roles: &Roles, parity: i64) {
        let Some(slot) = &roles.resident else { return };
        let parity = self.int(parity);
        self.op(OpKind::Let { reg: slot.parity, value: Some(parity) });
    }

    /// The producer fetches the tiles, once their arrays are free.
    pub(super) fn fill_resident(&mut self, roles: &Roles) {
        let Some(slot) = roles.resident.clone() else { return };
        let (zero, parity) = (self.int(0), self.read(slot.parity));
        let [full, empty] = Roles::resident_barriers(&slot, zero);
        self.op(OpKind::BarrierWait { barrier: empty, parity });
        let bytes: u32 = roles.plan.residents.iter().map(|r| r.load.layout.bytes()).sum();
        let bytes = self.int(i64::from(bytes));
        self.op(OpKind::BarrierExpect { barrier: full, bytes });
        for (resident, &map) in roles.plan.residents.iter().zip(&slot.maps) {
            self.load_tile(roles, &resident.load, map, full, zero);
        }
        self.flip(slot.parity);
    }

    /// A consumer comes to one of the copies: at the first it waits for all. Whether it was one.
    pub(super) fn await_resident(&mut self, roles: &Roles, stmt: StmtId) -> bool {
        let Some(slot) = &roles.resident else { return false };
        let Some(at) = roles.plan.residents.iter().position(|r| r.stmt == stmt) else { return false };
        if at == 0 {
            let (zero, parity) = (self.int(0), self.read(slot.parity));
            let [full, _] = Roles::resident_barriers(slot, zero);
            self.op(OpKind::BarrierWait { barrier: full, parity });
        }
        true
    }

    /// After the loop, a consumer gives the resident tiles' arrays back to the producer.
    pub(super) fn release_resident(&mut self, roles: &Roles) {
        let Some(slot) = roles.resident.clone() else { return };
        // One thread arrives on `empty` for the whole warpgroup, so all of its threads must have finished reading the tiles.
        if roles.plan.residents.iter().any(|r| roles.plan.unpacked.contains(&r.load.buffer)) {
            self.warpgroup_barrier(roles);
        }
        let zero = self.int(0);
        let [_, empty] = Roles::resident_barriers(&slot, zero);
        let leader = self.is_leader(roles);
        let then = self.nested(|l| l.op(OpKind::BarrierArrive { barrier: empty, cta: None }));
        self.op(OpKind::If { cond: leader, then, otherwise: Vec::new() });
        self.flip(slot.parity);
    }

    fn flip(&mut self, parity: RegId) {
        let (value, one) = (self.read(parity), self.int(1));
        let flipped = self.binary(BinaryOp::BitXor, value, one);
        self.op(OpKind::Set { reg: parity, value: flipped });
    }
}
