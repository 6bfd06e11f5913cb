//! Both partitions of a bulk pipeline: a producer warp that fills slots by bulk copies, and the author's threads, which read them.

use super::super::channel::{Slice, Slots, declared};
use super::super::uses::depends;
use super::super::*;
use super::plan::{Load, Plan, WARP};
use crate::ir::parts::variables;

/// The barrier of the author's threads; 0 is the block's.
const COMPUTE_BARRIER: u32 = 1;
/// Registers and shared memory of a multiprocessor, and what a block takes of the latter beside its own.
/// Source: CUDA C++ Programming Guide, compute capability 9.0.
const REGISTERS: u32 = 65_536;
const SHARED_BYTES: u32 = 233_472;
const RESERVED_BYTES: u32 = 1_024;
/// Registers a thread should have, and blocks of a multiprocessor beyond which nothing is gained.
const ENOUGH_REGISTERS: u32 = 96;
const ENOUGH_BLOCKS: u32 = 4;

/// The ring as the producer warp and the author's threads see it.
#[derive(Clone)]
pub(crate) struct Ring {
    plan: Rc<Plan>,
    slots: Slots,
}

impl<'a> Lowering<'a> {
    /// Lowers the kernel's body into a producer and the author's threads.
    pub(in super::super) fn ring_of_rows(&mut self, plan: Plan) {
        let kernel = self.kernel;
        let plan = Rc::new(plan);
        self.program.launch.threads = [plan.threads + WARP, 1, 1];
        self.span = kernel.stmts[plan.at.stmt].span;
        self.remark_ring(&plan);
        for load in &plan.loads {
            let name = &kernel.buffers[load.buffer].name;
            let shared = self.shared_array(name, load.dtype, load.elements().saturating_mul(plan.slots), false);
            self.program.shared[shared].slots = plan.slots;
            self.program.shared[shared].align = 128;
            self.shared[load.buffer] = Some(shared);
            self.op(OpKind::Shared { shared });
        }
        let ring = Ring { plan: plan.clone(), slots: self.slots_in_turn(plan.slots, plan.once) };
        let warp = self.push(ValueKind::Special(Special::Warp), ValueType::Index);
        let warp = self.once("warp_index", warp);
        let last = self.int(i64::from(plan.threads / WARP));
        let produces = self.binary(BinaryOp::Eq, warp, last);
        let elected = self.push(ValueKind::Special(Special::Elected), ValueType::BOOL);
        let first = self.binary(BinaryOp::And, produces, elected);
        let then = self.nested(|l| l.make_barriers(&ring));
        self.op(OpKind::If { cond: first, then, otherwise: Vec::new() });
        self.op(OpKind::Barrier);
        self.plain_grid();
        self.grid_bindings();
        let then = self.nested(|l| l.produce_rows(&ring));
        let otherwise = self.nested(|l| l.compute_from_rows(&ring));
        self.op(OpKind::If { cond: produces, then, otherwise });
        if self.program.launch.min_blocks.is_none() {
            self.program.launch.min_blocks = Some(self.blocks_that_fit());
        }
    }

    fn remark_ring(&mut self, plan: &Plan) {
        let bytes: u32 = plan.loads.iter().map(Load::bytes).sum();
        let rows: u32 = plan.loads.iter().map(|load| load.rows).sum();
        let text = format!(
            "a producer warp fills {} slots of {bytes} bytes by bulk copies, {rows} row{} each; {} threads compute{}",
            plan.slots,
            if rows == 1 { "" } else { "s" },
            plan.threads,
            if plan.once { ", every iteration from a slot of its own" } else { "" },
        );
        self.remark_here(RemarkKind::Choice, text);
    }

    /// One thread makes the barriers.
    fn make_barriers(&mut self, ring: &Ring) {
        let warps = ring.plan.threads / WARP;
        self.unrolled("i", ring.plan.slots, |l, index| l.init_slot(&ring.slots, index, warps));
        self.op(OpKind::FenceBarrierInit);
    }

    /// Blocks of a multiprocessor that its shared memory holds and that leave threads enough registers: what the
    /// assembler is told, so that registers do not keep out a block that has room.
    fn blocks_that_fit(&self) -> u32 {
        let bytes: u32 = self.program.shared.values().map(|a| a.len.saturating_mul(a.dtype.bytes())).sum();
        let threads: u32 = self.program.launch.threads.iter().product();
        let by_memory = SHARED_BYTES / bytes.saturating_add(RESERVED_BYTES).max(1);
        let by_registers = REGISTERS / (threads * ENOUGH_REGISTERS).max(1);
        by_memory.min(by_registers).clamp(1, ENOUGH_BLOCKS)
    }

    /// The slot of this iteration.
    fn slot_at(&mut self, ring: &Ring, var: VarId) -> ValueId {
        let iteration = match self.vars[var] {
            Some(Binding::Reg(reg)) => Some(self.read(reg)),
            _ => None,
        };
        self.slot(&ring.slots, iteration)
    }

    /// The producer: for every iteration, when its slot is empty, it says how many bytes will come and asks for them.
    fn produce_rows(&mut self, ring: &Ring) {
        let kernel = self.kernel;
        let plan = ring.plan.clone();
        let slice = Slice::new(kernel, vec![plan.at.stmt], plan.loads.iter().flat_map(|load| &load.src.start));
        let cond = self.push(ValueKind::Special(Special::Elected), ValueType::BOOL);
        let then = self.nested(|l| {
            l.enter(&ring.slots, 1);
            l.slice(&slice, &kernel.body, &mut |l, stmt| stmt == plan.at.stmt && l.produce_iterations(ring, &slice));
        });
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
    }

    /// The producer's side of the loop. Always true: the loop loads.
    fn produce_iterations(&mut self, ring: &Ring, slice: &Slice) -> bool {
        let (kernel, plan) = (self.kernel, ring.plan.clone());
        let StmtKind::For { body, .. } = &kernel.stmts[plan.at.stmt].kind else {
            self.bug("a ring that is no loop");
            return true;
        };
        let range = plan.at.range.map(|e| self.value(e));
        self.counted_loop(plan.at.var, range, Unroll::By(1), |l| {
            l.slice(slice, body, &mut |_, _| false);
            let slot = l.slot_at(ring, plan.at.var);
            l.await_empty(&ring.slots, slot);
            l.load_rows_of(&ring.slots, &plan.loads, slot);
            l.advance(&ring.slots);
        });
        true
    }

    /// The author's threads: the kernel as it is written, but for its ring.
    fn compute_from_rows(&mut self, ring: &Ring) {
        let thread = self.push(ValueKind::Thread(0), ValueType::Index);
        let reg = self.reg("thread", ValueType::Index, false);
        self.op(OpKind::Let { reg, value: Some(thread) });
        self.thread = Some(reg);
        let thread = self.read(reg);
        self.bind_threads(thread, true);
        self.ring = Some(Rc::new(ring.clone()));
        let kernel = self.kernel;
        self.enter(&ring.slots, 0);
        self.block(&kernel.body);
        self.ring = None;
        self.thread = None;
        ring.plan.loads.iter().for_each(|load| self.slots[load.buffer] = None);
    }

    /// Lowers a statement that means something else to the author's threads of a bulk pipeline; false where it does not.
    pub(in super::super) fn compute_from_ring(&mut self, stmt: StmtId) -> bool {
        let Some(ring) = self.ring.clone() else { return false };
        let kind = &self.kernel.stmts[stmt].kind;
        if let StmtKind::For { var, start, end, step, body, .. } = kind
            && stmt == ring.plan.at.stmt
        {
            self.read_slots(&ring, *var, [*start, *end, *step], body);
            return true;
        }
        // Slots are declared before the partitions diverge.
        let StmtKind::Alloc { buffer } = kind else { return false };
        ring.plan.loads.iter().any(|load| load.buffer == *buffer)
    }

    /// The threads' side of the loop.
    fn read_slots(&mut self, ring: &Ring, var: VarId, range: [ExprId; 3], body: &'a [StmtId]) {
        let kernel = self.kernel;
        let plan = ring.plan.clone();
        let unroll = if plan.written_out { Unroll::Full } else { Unroll::By(1) };
        let is_let = |stmt: &StmtId| declared(kernel, *stmt).is_some();
        let rest: Vec<StmtId> = body.iter().copied().filter(|s| !plan.at.loads.contains(s)).collect();
        let (leading, rest) = rest.split_at(rest.iter().take_while(|s| is_let(s)).count());
        // Indices that only the loads mention are the producer's; clipped reads mention where a tile begins.
        let mut read = variables(kernel, rest);
        let clipped = plan.loads.iter().filter(|load| !load.open.is_empty());
        read.extend(clipped.flat_map(|load| &load.src.start).flat_map(|e| depends(kernel, *e)));
        for stmt in leading.iter().rev() {
            if declared(kernel, *stmt).is_some_and(|var| read.contains(&var)) {
                read.extend(variables(kernel, &[*stmt]));
            }
        }
        let own: Vec<StmtId> =
            leading.iter().copied().filter(|s| declared(kernel, *s).is_some_and(|var| read.contains(&var))).collect();
        let range = range.map(|e| self.value(e));
        self.counted_loop(var, range, unroll, |l| {
            l.block(&own);
            let slot = l.slot_at(ring, var);
            l.await_full(&ring.slots, slot);
            for load in &plan.loads {
                let elements = l.int(i64::from(load.elements()));
                let first = l.binary(BinaryOp::Mul, slot, elements);
                let first = l.once(&format!("{}_slot", kernel.buffers[load.buffer].name), first);
                l.slots[load.buffer] = Some(first);
            }
            for stmt in rest {
                l.block(&[*stmt]);
                if *stmt == plan.last_read {
                    l.release_rows(ring, slot);
                }
            }
            l.advance(&ring.slots);
        });
    }

    /// This warp has read a slot.
    fn release_rows(&mut self, ring: &Ring, slot: ValueId) {
        if !ring.slots.are_refilled() {
            return;
        }
        self.op(OpKind::WarpBarrier);
        let lane = self.push(ValueKind::Special(Special::Lane), ValueType::Index);
        let zero = self.int(0);
        let cond = self.binary(BinaryOp::Eq, lane, zero);
        self.give_back(&ring.slots, slot, cond, None);
    }

    /// What else a read of a slot's element depends on: whether the tensor has it.
    pub(in super::super) fn clipped_read(
        &mut self,
        place: Place,
        indices: &[ValueId],
        guard: Option<Guard>,
    ) -> Option<Guard> {
        let Some(ring) = self.ring.clone() else { return guard };
        let load = ring.plan.loads.iter().find(|load| Place::Buffer(load.buffer) == place);
        let Some(load) = load.filter(|load| !load.open.is_empty()) else { return guard };
        let inside = self.tile_memory(&load.src, indices, &load.open).guard?;
        Some(match guard {
            None => inside,
            // Clipping is no mistake, so this guard is none that reports one.
            Some(own) => Guard { cond: self.binary(BinaryOp::And, own.cond, inside.cond), ..inside },
        })
    }

    /// All of the author's threads wait for each other.
    pub(in super::super) fn block_barrier(&mut self) {
        if self.roles.as_ref().is_some_and(|roles| roles.shows_own()) {
            self.op(OpKind::FenceProxyAsync);
        }
        let kind = match (&self.ring, &self.roles) {
            (Some(ring), _) => OpKind::NamedBarrier { id: COMPUTE_BARRIER, threads: ring.plan.threads, arrive: false },
            (None, Some(roles)) => roles.consumer_barrier(),
            (None, None) => OpKind::Barrier,
        };
        self.op(kind);
    }
}
