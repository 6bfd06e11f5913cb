//! Both partitions of a bulk pipeline: a producer warp that fills slots by bulk copies, and the author's threads, which read them.

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
/// Rows of a slot up to which their copies are written out.
const FEW: u32 = 4;
/// Registers a thread should have, and blocks of a multiprocessor beyond which nothing is gained.
const ENOUGH_REGISTERS: u32 = 96;
const ENOUGH_BLOCKS: u32 = 4;

/// The ring as the producer warp and the author's threads see it.
#[derive(Clone)]
pub(crate) struct Ring {
    plan: Rc<Plan>,
    /// Completes when a slot's bytes have arrived.
    full: BarrierId,
    /// Completes when every warp has read a slot; none where no slot is filled twice.
    empty: Option<BarrierId>,
    /// The slot that the partition being lowered is at and the parity of the phase it waits for, where iterations share slots.
    place: Option<(RegId, RegId)>,
}

impl<'a> Lowering<'a> {
    /// Lowers the kernel's body into a producer and the author's threads.
    pub(in super::super) fn ring_of_rows(&mut self, plan: Plan) {
        let kernel = self.kernel;
        let plan = Rc::new(plan);
        self.program.launch.threads = [plan.threads + WARP, 1, 1];
        self.span = kernel.stmts[plan.ring].span;
        self.remark_ring(&plan);
        for load in &plan.loads {
            let name = &kernel.buffers[load.buffer].name;
            let shared = self.shared_array(name, load.dtype, load.elements().saturating_mul(plan.slots), false);
            self.program.shared[shared].slots = plan.slots;
            self.program.shared[shared].align = 128;
            self.shared[load.buffer] = Some(shared);
            self.op(OpKind::Shared { shared });
        }
        let full = self.ring_barriers("full", plan.slots);
        let empty = (!plan.once).then(|| self.ring_barriers("empty", plan.slots));
        let place = (!plan.once).then(|| {
            let slot = self.reg("slot", ValueType::Index, true);
            (slot, self.reg("parity", ValueType::Index, true))
        });
        let ring = Ring { plan: plan.clone(), full, empty, place };
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

    fn ring_barriers(&mut self, name: &str, len: u32) -> BarrierId {
        let name = self.name(name);
        self.program.barriers.push(BarrierArray { name, len, offset: 0 })
    }

    /// One thread makes the barriers.
    fn make_barriers(&mut self, ring: &Ring) {
        let warps = ring.plan.threads / WARP;
        self.unrolled("i", ring.plan.slots, |l, index| {
            l.op(OpKind::BarrierInit { barrier: BarrierRef { array: ring.full, index }, arrivals: 1 });
            if let Some(array) = ring.empty {
                l.op(OpKind::BarrierInit { barrier: BarrierRef { array, index }, arrivals: warps });
            }
        });
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

    /// Declares the slot and parity that a partition begins with. Parity 1 passes at once on fresh barriers.
    fn enter(&mut self, ring: &Ring, first_parity: i64) {
        if let Some((slot, parity)) = ring.place {
            for (reg, value) in [(slot, 0), (parity, first_parity)] {
                let value = self.int(value);
                self.op(OpKind::Let { reg, value: Some(value) });
            }
        }
    }

    /// The slot of this iteration and the parity to wait for.
    fn slot_at(&mut self, ring: &Ring, var: VarId) -> (ValueId, ValueId) {
        match ring.place {
            Some((slot, parity)) => (self.read(slot), self.read(parity)),
            None => {
                let slot = match self.vars[var] {
                    Some(Binding::Reg(reg)) => self.read(reg),
                    _ => self.int(0),
                };
                (slot, self.int(0))
            }
        }
    }

    /// The next slot; after the last the first again, a phase later.
    fn next_slot(&mut self, ring: &Ring) {
        // Where every iteration has a stage of its own, its number is the iteration's.
        let Some((slot, parity)) = ring.place else { return };
        let (current, one) = (self.read(slot), self.int(1));
        let next = self.binary(BinaryOp::Add, current, one);
        self.op(OpKind::Set { reg: slot, value: next });
        let (current, slots) = (self.read(slot), self.int(i64::from(ring.plan.slots)));
        let cond = self.binary(BinaryOp::Eq, current, slots);
        let then = self.nested(|l| {
            let zero = l.int(0);
            l.op(OpKind::Set { reg: slot, value: zero });
            let (current, one) = (l.read(parity), l.int(1));
            let flipped = l.binary(BinaryOp::BitXor, current, one);
            l.op(OpKind::Set { reg: parity, value: flipped });
        });
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
    }

    /// The producer: for every iteration, when its slot is empty, it says how many bytes will come and asks for them.
    fn produce_rows(&mut self, ring: &Ring) {
        let kernel = self.kernel;
        let plan = ring.plan.clone();
        let StmtKind::For { var, start, end, step, body, .. } = &kernel.stmts[plan.ring].kind else {
            return self.bug("a ring that is no loop");
        };
        let cond = self.push(ValueKind::Special(Special::Elected), ValueType::BOOL);
        let then = self.nested(|l| {
            let needs = |stmt: &&StmtId| {
                super::super::pipeline::declared(kernel, **stmt).is_some_and(|var| plan.needed.contains(&var))
            };
            for stmt in kernel.body.iter().filter(needs) {
                l.block(std::slice::from_ref(stmt));
            }
            l.enter(ring, 1);
            let range = [*start, *end, *step].map(|e| l.value(e));
            l.counted_loop(*var, range, Unroll::By(1), |l| {
                for stmt in body[..plan.leading].iter().filter(needs) {
                    l.block(std::slice::from_ref(stmt));
                }
                let (slot, parity) = l.slot_at(ring, *var);
                if let Some(array) = ring.empty {
                    l.op(OpKind::BarrierWait { barrier: BarrierRef { array, index: slot }, parity });
                }
                l.fill_slot(ring, slot);
                l.next_slot(ring);
            });
        });
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
    }

    /// Asks for the rows of one slot.
    fn fill_slot(&mut self, ring: &Ring, slot: ValueId) {
        let barrier = BarrierRef { array: ring.full, index: slot };
        let mut all = None;
        let mut parts = Vec::new();
        for load in &ring.plan.loads {
            let (rows, bytes) = self.inside(load);
            let sum = self.binary(BinaryOp::Mul, rows, bytes);
            all = Some(match all {
                None => sum,
                Some(all) => self.binary(BinaryOp::Add, all, sum),
            });
            parts.push((rows, bytes));
        }
        let Some(bytes) = all else { return self.bug("a ring without loads") };
        self.op(OpKind::BarrierExpect { barrier, bytes });
        for (load, (rows, bytes)) in ring.plan.loads.iter().zip(parts) {
            self.span = load.span;
            self.load_rows(load, slot, (rows, bytes), barrier);
        }
    }

    /// Rows of a tile that are inside the tensor, and bytes of one.
    fn inside(&mut self, load: &Load) -> (ValueId, ValueId) {
        let rank = self.axes(load.tensor);
        let mut counts = [load.rows, load.columns].map(|n| self.int(i64::from(n)));
        for (back, count) in [(2, 0), (1, 1)] {
            let Some(axis) = rank.checked_sub(back) else { continue };
            if !load.open.iter().any(|open| open.axis == axis) {
                continue;
            }
            let extent = self.extent(Place::Tensor(load.tensor), axis);
            let start = self.coordinate(load, axis);
            // An index is never negative, also where the tile begins past the end.
            let end = self.binary(BinaryOp::Add, start, counts[count]);
            let [end, start] = [end, start].map(|at| self.binary(BinaryOp::Min, at, extent));
            let inside = self.binary(BinaryOp::Sub, end, start);
            let name = if count == 0 { "rows_inside" } else { "columns_inside" };
            counts[count] = self.once(name, inside);
        }
        let size = i64::from(load.dtype.bytes());
        let bytes = if let Some(columns) = self.program.values[counts[1]].kind.as_int() {
            self.int(columns * size)
        } else {
            let size = self.int(size);
            self.binary(BinaryOp::Mul, counts[1], size)
        };
        (counts[0], bytes)
    }

    fn axes(&self, tensor: ParamId) -> usize {
        match &self.kernel.params[tensor].kind {
            ParamKind::Tensor { shape, .. } => shape.len(),
            ParamKind::Scalar { .. } | ParamKind::Absent => 0,
        }
    }

    /// The tile's first coordinate on an axis.
    fn coordinate(&mut self, load: &Load, axis: usize) -> ValueId {
        match load.src.start.get(axis) {
            Some(&start) => self.narrow_value(start),
            None => self.int(0),
        }
    }

    /// One copy a row; one copy in all, where the rows are whole and lie one behind the other.
    fn load_rows(&mut self, load: &Load, slot: ValueId, (rows, bytes): (ValueId, ValueId), barrier: BarrierRef) {
        let Some(shared) = self.shared[load.buffer] else { return self.bug("a load has no stages") };
        let rank = self.axes(load.tensor);
        let elements = self.int(i64::from(load.elements()));
        let base = self.binary(BinaryOp::Mul, slot, elements);
        let row = |l: &mut Self, row: ValueId, bytes: ValueId| {
            let zero = l.int(0);
            let Memory { space, offset, guard, span } = l.tile_memory(&load.src, &[row, zero], &load.open);
            let columns = l.int(i64::from(load.columns));
            let within = l.binary(BinaryOp::Mul, row, columns);
            let to = l.binary(BinaryOp::Add, base, within);
            let memory = Memory { space, offset, guard: None, span };
            let copy = OpKind::BulkLoad { memory, shared, offset: to, bytes, barrier, evict: load.evict };
            match guard {
                None => l.op(copy),
                Some(guard) => {
                    let then = l.nested(|l| l.op(copy));
                    l.op(OpKind::If { cond: guard.cond, then, otherwise: Vec::new() });
                }
            }
        };
        let zero = self.int(0);
        if load.rows == 1 {
            return row(self, zero, bytes);
        }
        let each = |l: &mut Self| {
            let reg = l.reg("row_in_slot", ValueType::Index, false);
            let bounds = [l.int(0), l.int(i64::from(load.rows)), l.int(1)];
            let unroll = if load.rows <= FEW { Unroll::Full } else { Unroll::By(1) };
            l.loop_over(reg, bounds, unroll, |l| {
                let index = l.read(reg);
                row(l, index, bytes);
            });
        };
        let clipped = rank.checked_sub(1).is_some_and(|last| load.open.iter().any(|open| open.axis == last));
        if clipped {
            return each(self);
        }
        let stride = self.param(ParameterKind::Stride(load.tensor, rank.saturating_sub(2) as u8));
        let columns = self.int(i64::from(load.columns));
        let cond = self.binary(BinaryOp::Eq, stride, columns);
        let then = self.nested(|l| {
            let all = l.binary(BinaryOp::Mul, rows, bytes);
            let zero = l.int(0);
            row(l, zero, all);
        });
        let otherwise = self.nested(each);
        self.op(OpKind::If { cond, then, otherwise });
    }

    /// The author's threads: the kernel as it is written, but for its ring.
    fn compute_from_rows(&mut self, ring: &Ring) {
        let thread = self.push(ValueKind::Thread(0), ValueType::Index);
        let reg = self.reg("thread", ValueType::Index, false);
        self.op(OpKind::Let { reg, value: Some(thread) });
        self.thread = Some(reg);
        self.compute_bindings(reg);
        self.ring = Some(Rc::new(ring.clone()));
        let kernel = self.kernel;
        self.block(&kernel.body);
        self.ring = None;
        self.thread = None;
        ring.plan.loads.iter().for_each(|load| self.slots[load.buffer] = None);
    }

    /// Binds the author's thread indices.
    fn compute_bindings(&mut self, thread: RegId) {
        let kernel = self.kernel;
        let extents = kernel.thread_extents();
        let mut stride = 1;
        for (axis, bound) in kernel.threads.iter().enumerate() {
            let (linear, by) = (self.read(thread), self.int(i64::from(stride)));
            let mut index = self.binary(BinaryOp::Div, linear, by);
            if axis + 1 < kernel.threads.len() {
                let extent = self.int(i64::from(extents[axis]));
                index = self.binary(BinaryOp::Rem, index, extent);
            }
            stride *= extents[axis];
            let name = kernel.vars[bound.var].name.clone();
            let reg = self.reg(&name, ValueType::Index, false);
            self.op(OpKind::Let { reg, value: Some(index) });
            self.vars[bound.var] = Some(Binding::Reg(reg));
        }
    }

    /// Lowers a statement that means something else to the author's threads of a bulk pipeline; false where it does not.
    pub(in super::super) fn compute_from_ring(&mut self, stmt: StmtId) -> bool {
        let Some(ring) = self.ring.clone() else { return false };
        let kind = &self.kernel.stmts[stmt].kind;
        if let StmtKind::For { var, start, end, step, body, .. } = kind
            && stmt == ring.plan.ring
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
        let (leading, rest) = body.split_at(plan.leading);
        // Indices that only the loads mention are the producer's; clipped reads mention where a tile begins.
        let mut read = variables(kernel, rest);
        let clipped = plan.loads.iter().filter(|load| !load.open.is_empty());
        read.extend(clipped.flat_map(|load| &load.src.start).flat_map(|e| depends(kernel, *e)));
        for stmt in leading.iter().rev() {
            if super::super::pipeline::declared(kernel, *stmt).is_some_and(|var| read.contains(&var)) {
                read.extend(variables(kernel, std::slice::from_ref(stmt)));
            }
        }
        let own = |stmt: &&StmtId| super::super::pipeline::declared(kernel, **stmt).is_some_and(|v| read.contains(&v));
        self.enter(ring, 0);
        let range = range.map(|e| self.value(e));
        self.counted_loop(var, range, unroll, |l| {
            for stmt in leading.iter().filter(own) {
                l.block(std::slice::from_ref(stmt));
            }
            let (slot, parity) = l.slot_at(ring, var);
            l.op(OpKind::BarrierWait { barrier: BarrierRef { array: ring.full, index: slot }, parity });
            for load in &plan.loads {
                let elements = l.int(i64::from(load.elements()));
                let first = l.binary(BinaryOp::Mul, slot, elements);
                let first = l.once(&format!("{}_slot", kernel.buffers[load.buffer].name), first);
                l.slots[load.buffer] = Some(first);
            }
            for (at, stmt) in body.iter().enumerate().skip(plan.leading) {
                l.block(std::slice::from_ref(stmt));
                if at == plan.last_read {
                    l.release_rows(ring, slot);
                }
            }
            l.next_slot(ring);
        });
    }

    /// This warp has read a slot.
    fn release_rows(&mut self, ring: &Ring, slot: ValueId) {
        let Some(array) = ring.empty else { return };
        self.op(OpKind::WarpBarrier);
        let lane = self.push(ValueKind::Special(Special::Lane), ValueType::Index);
        let zero = self.int(0);
        let cond = self.binary(BinaryOp::Eq, lane, zero);
        let barrier = BarrierRef { array, index: slot };
        let then = self.nested(|l| l.op(OpKind::BarrierArrive { barrier, cta: None }));
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
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

impl Load {
    /// Elements of a slot.
    fn elements(&self) -> u32 {
        self.rows.saturating_mul(self.columns)
    }

    /// Bytes of a slot.
    fn bytes(&self) -> u32 {
        self.elements().saturating_mul(self.dtype.bytes())
    }
}
