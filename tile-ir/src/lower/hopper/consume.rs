//! The consumers' side of a loop that loads: they wait for a slot, compute from it, and give it back.

use super::super::uses::depends;
use super::super::*;
use super::operand::Left;
use super::plan::{Alternate, BLOCK_ROWS, Product, Ring, Split};
use super::roles::{ChannelState, Roles};
use crate::layout::descriptor::UNIT;

/// The loop whose products are being lowered: those that come first in it may overwrite their accumulators.
pub(crate) struct Accumulates {
    ring: StmtId,
    /// The value of the loop's index in the first iteration.
    start: ValueId,
    /// The accumulators that a product of the iteration has met.
    begun: BTreeSet<BufferId>,
}

impl<'a> Lowering<'a> {
    /// A consumer waits for the bytes of an iteration of a loop.
    pub(super) fn await_slots(&mut self, ring: &Ring, channels: &[&ChannelState]) {
        for channel in channels {
            let slot = self.slot_of(&channel.slots, ring);
            self.await_full(&channel.slots, slot);
        }
    }

    /// Descriptors of this warpgroup's parts of the operands, in the first slot.
    pub(super) fn descriptors(&mut self, roles: &mut Roles) {
        let plan = roles.plan.clone();
        for product in plan.products.values() {
            let left = match product.a {
                (buffer, Left::Shared(operand)) => Some((true, (buffer, operand))),
                (_, Left::Registers) => None,
            };
            for (left, (buffer, operand)) in left.into_iter().chain([(false, product.b)]) {
                let Some(shared) = self.shared[buffer] else { return self.bug("an operand has no stages") };
                if roles.descriptors.iter().any(|(b, _)| *b == buffer) {
                    continue;
                }
                let bits = operand.descriptor.bits(0);
                let mut value = self.push(ValueKind::Descriptor { shared, bits }, ValueType::Wide);
                // A warpgroup's rows of a left operand, or its columns of a right one.
                let (divided, first) = if left {
                    (product.grid.rows, product.blocks * BLOCK_ROWS)
                } else {
                    (product.grid.cols, product.n)
                };
                if divided > 1
                    && let Some((consumer, _)) = roles.consumer
                {
                    let Ok(bytes) = operand.offset(first, 0) else {
                        return self.bug("a part of an operand that no descriptor reaches");
                    };
                    let units = self.int(i64::from(bytes / UNIT));
                    let rows = self.binary(BinaryOp::Mul, consumer, units);
                    let rows = self.push(ValueKind::Cast(rows), ValueType::Wide);
                    value = self.binary(BinaryOp::Add, value, rows);
                }
                let name = format!("{}_descriptor", self.kernel.buffers[buffer].name);
                let reg = self.reg(&name, ValueType::Wide, false);
                self.op(OpKind::Let { reg, value: Some(value) });
                let value = self.read(reg);
                roles.descriptors.push((buffer, value));
            }
        }
    }

    /// The consumers' loop.
    pub(super) fn consume_ring(&mut self, roles: &Roles, ring: &Ring, body: &'a [StmtId]) {
        let kernel = self.kernel;
        let rest = self.consumed(ring, body);
        let products: Vec<&Product> = rest.iter().filter_map(|s| roles.plan.products.get(s)).collect();
        let products_alone = rest
            .iter()
            .all(|s| matches!(kernel.stmts[*s].kind, StmtKind::Tile(TileOp::Gemm { .. }) | StmtKind::Let { .. }));
        // A left operand in registers is packed anew in each iteration, which the product before must not be reading.
        let plain = |p: &&Product| !p.clear && matches!(p.a.1, Left::Shared(_));
        let channels: Vec<&ChannelState> = ring.fills.iter().map(|(number, _)| &roles.channels[*number]).collect();
        let overlapped = products_alone
            && !products.is_empty()
            && !ring.meets
            && channels.iter().all(|channel| channel.slots.count > 1)
            && products.iter().all(plain);
        let mut range = ring.at.range.map(|e| self.value(e));
        if roles.are_warpgroups() {
            let name = &kernel.vars[ring.at.var].name;
            range[0] = self.once(&format!("{name}_start"), range[0]);
            range[1] = self.once(&format!("{name}_end"), range[1]);
        }
        let outer = self.accumulates.take();
        let mut left = false;
        if let Some(Alternate::By(product)) = &ring.alternate {
            self.consume_alternating(roles, ring, *product, (&channels, &rest), range);
        } else if let Some(shift) = &ring.shift {
            left = self.consume_shifted(roles, ring, shift, &rest, range);
        } else {
            self.accumulates = roles.are_warpgroups().then(|| Accumulates {
                ring: ring.at.stmt,
                start: range[0],
                begun: BTreeSet::new(),
            });
            if overlapped {
                self.consume_overlapped(roles, ring, (&channels, &rest), range);
            } else {
                self.consume_in_turn(roles, ring, (&channels, &rest), range);
            }
        }
        self.accumulates = outer;
        if !left && roles.plan.rings.last().is_some_and(|last| last.at.stmt == ring.at.stmt) {
            // After the last loop that loads, the tiles that stay are given back.
            self.release_resident(roles);
        }
    }

    /// What consumers execute of a loop's body: neither the loads, nor the indices that only those mention. A read that is clipped mentions
    /// where its tile begins.
    fn consumed(&self, ring: &Ring, body: &[StmtId]) -> Vec<StmtId> {
        let kernel = self.kernel;
        let rest: Vec<StmtId> = body.iter().copied().filter(|s| !ring.at.loads.contains(s)).collect();
        let clipped = ring.loads().filter(|load| load.clipped().is_some());
        let clipped = clipped.flat_map(|load| load.start().iter().flat_map(|e| depends(kernel, *e)));
        self.needed_with(&rest, &rest, clipped.collect())
    }

    /// Computes from one slot after the other, and gives each back when it has been read.
    fn consume_in_turn(
        &mut self,
        roles: &Roles,
        ring: &Ring,
        (channels, rest): (&[&ChannelState], &[StmtId]),
        range: [ValueId; 3],
    ) {
        let unroll = if ring.written_out { Unroll::Full } else { Unroll::By(1) };
        let is_let = |stmt: &&StmtId| super::super::channel::declared(self.kernel, **stmt).is_some();
        // The author's threads find an iteration's indices while its bytes are on their way.
        let leading = if roles.are_warpgroups() { 0 } else { rest.iter().take_while(is_let).count() };
        let (leading, rest) = rest.split_at(leading);
        let products = rest.iter().enumerate().filter(|(_, stmt)| roles.plan.products.contains_key(stmt));
        let products: Vec<usize> = products.map(|(at, _)| at).collect();
        self.counted_loop(ring.at.var, range, unroll, |l| {
            l.block(leading);
            l.await_slots(ring, channels);
            if ring.meets {
                l.block_barrier();
            }
            l.elements_of_slots(roles, ring);
            let outer = std::mem::take(&mut l.held);
            for (at, stmt) in rest.iter().enumerate() {
                // What the work behind the only product needs of memory is loaded while that runs.
                if products[..] == [at] {
                    l.held = l.declare_held(ring, &rest[at + 1..]);
                }
                l.block(std::slice::from_ref(stmt));
                if ring.last_read == Some(*stmt) {
                    l.leave_read(roles, ring, (channels, rest));
                }
            }
            l.held = outer;
            l.no_elements_of_slots(ring);
            if ring.last_read.is_none() {
                l.leave_read(roles, ring, (channels, rest));
            }
            channels.iter().for_each(|channel| l.advance(&channel.slots));
        });
        let [start, end, _] = range;
        self.give_turn(roles);
        self.zero_if_empty(roles, ring, start, end);
    }

    /// Gives back the slots of an iteration. One thread arrives on `empty` for all of its warpgroup (or warp), so all of these must have
    /// finished reading the slot, and have seen its phase: a product that all of a warpgroup come to says that they have.
    fn leave_read(&mut self, roles: &Roles, ring: &Ring, (channels, rest): (&[&ChannelState], &[StmtId])) {
        let multiplied = rest.iter().any(|s| roles.plan.products.contains_key(s));
        let read = !multiplied || ring.loads().any(|load| roles.plan.read.contains(&load.buffer));
        if read && channels.iter().any(|channel| channel.slots.are_refilled()) {
            match roles.plan.split {
                Split::Warpgroups => self.warpgroup_barrier(roles),
                Split::Threads(_) => self.op(OpKind::WarpBarrier),
            }
        }
        for channel in channels {
            let slot = self.slot_of(&channel.slots, ring);
            self.release(roles, channel, slot);
        }
    }

    /// The loop of a body that is products alone: one iteration's products are in flight while the next one's are started, and slots are
    /// given back an iteration late.
    fn consume_overlapped(
        &mut self,
        roles: &Roles,
        ring: &Ring,
        (channels, rest): (&[&ChannelState], &[StmtId]),
        [start, end, step]: [ValueId; 3],
    ) {
        let (kernel, var) = (self.kernel, ring.at.var);
        let products = rest.iter().filter_map(|s| roles.plan.products.get(s));
        let accumulators: BTreeSet<LocalId> = products.filter_map(|p| self.fragments[p.acc].map(|r| r.local)).collect();
        let previous: Vec<RegId> = channels.iter().map(|_| self.reg("previous", ValueType::Index, true)).collect();
        for &reg in &previous {
            let zero = self.int(0);
            self.op(OpKind::Let { reg, value: Some(zero) });
        }
        self.counted_loop(var, [start, end, step], Unroll::By(1), |l| {
            l.await_slots(ring, channels);
            accumulators.iter().for_each(|&local| l.op(OpKind::Pin { local }));
            l.op(OpKind::WgmmaFence);
            for &stmt in rest {
                if let Some(product) = roles.plan.products.get(&stmt) {
                    l.span = kernel.stmts[stmt].span;
                    l.multiply(roles, product, None);
                } else {
                    l.block(&[stmt]);
                }
            }
            l.op(OpKind::WgmmaCommit);
            accumulators.iter().for_each(|&local| l.op(OpKind::Pin { local }));
            // Last iteration's products have read their slots.
            l.op(OpKind::WgmmaWait { pending: 1 });
            let index = l.value_of(var);
            let later = l.binary(BinaryOp::Gt, index, start);
            let then = l.nested(|l| l.release_each(roles, channels, &previous));
            l.op(OpKind::If { cond: later, then, otherwise: Vec::new() });
            for (channel, &reg) in channels.iter().zip(&previous) {
                let value = l.slot(&channel.slots, None);
                l.op(OpKind::Set { reg, value });
            }
            channels.iter().for_each(|channel| l.advance(&channel.slots));
        });
        self.give_turn(roles);
        self.op(OpKind::WgmmaWait { pending: 0 });
        let any = self.binary(BinaryOp::Lt, start, end);
        let then = self.nested(|l| l.release_each(roles, channels, &previous));
        self.op(OpKind::If { cond: any, then, otherwise: Vec::new() });
        self.zero_if_empty(roles, ring, start, end);
        accumulators.iter().for_each(|&local| self.op(OpKind::Pin { local }));
    }

    /// Gives back a slot of each channel.
    pub(super) fn release_each(&mut self, roles: &Roles, channels: &[&ChannelState], slots: &[RegId]) {
        for (channel, &slot) in channels.iter().zip(slots) {
            let slot = self.read(slot);
            self.release(roles, channel, slot);
        }
    }

    /// Names the first elements of the current slots of those arrays that threads read by elements.
    fn elements_of_slots(&mut self, roles: &Roles, ring: &Ring) {
        let slot = |l: &mut Self, number: usize| l.slot_of(&roles.channels[number].slots, ring);
        self.elements_at(roles, ring, |l, at| slot(l, ring.fills[at].0));
    }

    /// Names the first elements of those arrays that threads read by elements, in the slot that `slot` says of each channel of the ring.
    pub(super) fn elements_at(
        &mut self,
        roles: &Roles,
        ring: &Ring,
        mut slot: impl FnMut(&mut Self, usize) -> ValueId,
    ) {
        for (at, (_, loads)) in ring.fills.iter().enumerate() {
            for load in loads.iter().filter(|load| roles.plan.elements.contains(&load.buffer)) {
                let elements = self.int(i64::from(load.elements()));
                let slot = slot(self, at);
                let first = self.binary(BinaryOp::Mul, slot, elements);
                let name = match roles.plan.split {
                    Split::Warpgroups => "slot_start".to_owned(),
                    Split::Threads(_) => format!("{}_slot", self.kernel.buffers[load.buffer].name),
                };
                self.slots[load.buffer] = Some(self.once(&name, first));
            }
        }
    }

    /// Outside of its loop an array has no current slot.
    pub(super) fn no_elements_of_slots(&mut self, ring: &Ring) {
        ring.loads().for_each(|load| self.slots[load.buffer] = None);
    }

    /// A product that is waited for at once.
    pub(super) fn multiply_at_once(&mut self, roles: &Roles, product: &Product) {
        let words = self.left_words(product);
        self.multiply_words_at_once(roles, product, words);
    }

    /// Issues a product, loads what the work on it reads of memory (`self.held`) while tensor cores multiply, and waits for the product. `words` are the
    /// left operand, where that is in registers.
    pub(super) fn multiply_words_at_once(&mut self, roles: &Roles, product: &Product, words: Option<LocalId>) {
        let own = self.fragments[product.acc].map(|r| r.local);
        let pinned: Vec<LocalId> = own.into_iter().chain(words).collect();
        pinned.iter().for_each(|&local| self.op(OpKind::Pin { local }));
        self.op(OpKind::WgmmaFence);
        self.multiply(roles, product, words);
        self.op(OpKind::WgmmaCommit);
        let held = self.held.clone();
        self.load_held(&held);
        self.op(OpKind::WgmmaWait { pending: 0 });
        pinned.iter().for_each(|&local| self.op(OpKind::Pin { local }));
    }

    pub(super) fn value_of(&mut self, var: VarId) -> ValueId {
        match self.vars[var] {
            Some(Binding::Reg(reg)) => self.read(reg),
            Some(Binding::Value(value)) => value,
            _ => {
                self.bug("the index of a pipelined loop has no register");
                self.int(0)
            }
        }
    }

    /// Accumulators that the first product overwrites are zeros where there is no product. After the loop: before it,
    /// the assembler would carry two copies of them into it, and spill.
    fn zero_if_empty(&mut self, roles: &Roles, ring: &Ring, start: ValueId, end: ValueId) {
        let folded = roles.plan.folded.values().filter(|(_, stmt)| *stmt == ring.at.stmt);
        let folded: BTreeSet<BufferId> = folded.map(|(buffer, _)| *buffer).collect();
        if folded.is_empty() {
            return;
        }
        let cond = self.binary(BinaryOp::Ge, start, end);
        let then = self.nested(|l| {
            for buffer in folded {
                let zero = l.push(ValueKind::Float(0.0), ValueType::Element(Dtype::F32));
                l.fill_fragment(buffer, zero);
            }
        });
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
    }

    /// Where the first product of an iteration finds an accumulator that a fill would have cleared before the loop: the loop's
    /// index, and the value of it at which the product does not add.
    fn accumulates_from(&mut self, roles: &Roles, acc: BufferId) -> Option<(ValueId, ValueId)> {
        let loop_ = self.accumulates.as_mut()?;
        let folded = roles.plan.folded.values().any(|of| *of == (acc, loop_.ring));
        let (start, ring) = (loop_.start, loop_.ring);
        if !folded || !loop_.begun.insert(acc) {
            return None;
        }
        let var = roles.plan.ring(ring)?.at.var;
        Some((self.value_of(var), start))
    }

    /// The instructions of one tile product on the current slots. `words`: of a left operand in registers.
    pub(super) fn multiply(&mut self, roles: &Roles, product: &Product, words: Option<LocalId>) {
        let Some(registers) = self.fragments[product.acc] else { return self.bug("an accumulator has no registers") };
        let in_slot = |l: &mut Self, buffer: BufferId| {
            let base = roles.descriptors.iter().find(|(b, _)| *b == buffer).map(|(_, value)| *value);
            let mut value = base.unwrap_or_else(|| l.push(ValueKind::Int(0), ValueType::Wide));
            if let Some(channel) = roles.channel_of(buffer) {
                let bytes = l.layouts.shared.get(&buffer).map_or(0, |tile| tile.bytes());
                let (slot, units) = (l.slot(&channel.slots, None), l.int(i64::from(bytes / UNIT)));
                let shift = l.binary(BinaryOp::Mul, slot, units);
                let shift = l.push(ValueKind::Cast(shift), ValueType::Wide);
                value = l.binary(BinaryOp::Add, value, shift);
            }
            let reg = l.out.reg(&format!("{}_slot", l.kernel.buffers[buffer].name), ValueType::Wide, false);
            l.op(OpKind::Let { reg, value: Some(value) });
            reg
        };
        let a = match product.a {
            (buffer, Left::Shared(operand)) => Some((in_slot(self, buffer), operand)),
            (_, Left::Registers) => None,
        };
        let b = (in_slot(self, product.b.0), product.b.1);
        let adds = self.accumulates_from(roles, product.acc);
        for step in 0..b.1.k_steps() {
            for block in 0..product.blocks {
                // `.clear()` is of each product.
                let accumulate = match adds {
                    _ if step == 0 && product.clear => self.push(ValueKind::Int(0), ValueType::BOOL),
                    Some((index, start)) if step == 0 => self.binary(BinaryOp::Ne, index, start),
                    _ => self.push(ValueKind::Int(1), ValueType::BOOL),
                };
                let piece = |l: &mut Self, reg: RegId, bytes: u32| {
                    let base = l.read(reg);
                    let units = l.push(ValueKind::Int(i64::from(bytes / UNIT)), ValueType::Wide);
                    l.binary(BinaryOp::Add, base, units)
                };
                let left = match (a, words) {
                    (Some((reg, operand)), _) => {
                        let bytes = operand.offset(block * BLOCK_ROWS, step);
                        let bytes = bytes.unwrap_or_else(|_| {
                            self.bug("rows of a left operand that no descriptor reaches");
                            0
                        });
                        WgmmaOperand::Descriptor(piece(self, reg, bytes))
                    }
                    (None, Some(words)) => WgmmaOperand::Registers(words, self.left_offset(product, block, step, 0)),
                    (None, None) => return self.bug("a left operand has neither a descriptor nor registers"),
                };
                let right = b.1.offset(0, step).unwrap_or_else(|_| {
                    self.bug("columns of a right operand that no descriptor reaches");
                    0
                });
                let right = piece(self, b.0, right);
                let offset = self.int(i64::from(block * product.n / 2));
                self.op(OpKind::Wgmma {
                    acc: registers.local,
                    start: offset,
                    n: product.n,
                    rows: product.rows,
                    dtype: product.dtype,
                    a: left,
                    b: right,
                    accumulate,
                    transposed: [a.is_some_and(|a| a.1.transposed), b.1.transposed],
                });
            }
        }
    }

    /// This warpgroup has read the slot that it is at.
    pub(super) fn release_current(&mut self, roles: &Roles, channel: &ChannelState) {
        let slot = self.slot(&channel.slots, None);
        self.release(roles, channel, slot);
    }

    /// This warpgroup (or warp) has read `slot`: one arrival for every producer that fills it.
    fn release(&mut self, roles: &Roles, channel: &ChannelState, slot: ValueId) {
        if !channel.slots.are_refilled() {
            return;
        }
        let within = match (roles.plan.split, roles.consumer) {
            (Split::Threads(_), _) => self.push(ValueKind::Special(Special::Lane), ValueType::Index),
            (Split::Warpgroups, Some((_, within))) => within,
            (Split::Warpgroups, None) => return self.bug("a release by no consumer"),
        };
        let cond = match (roles.plan.split, &channel.shared[..]) {
            (Split::Threads(_), _) => {
                let zero = self.int(0);
                self.binary(BinaryOp::Eq, within, zero)
            }
            (Split::Warpgroups, []) => {
                let one = self.int(1);
                self.binary(BinaryOp::Lt, within, one)
            }
            (Split::Warpgroups, shared) => self.is_sharer(shared, within),
        };
        self.give_back(&channel.slots, slot, cond, (channel.feeders() > 1).then_some(within));
    }

    /// All threads that compute wait for each other.
    pub(in super::super) fn block_barrier(&mut self) {
        if self.roles.as_ref().is_some_and(|roles| roles.shows_own()) {
            self.op(OpKind::FenceProxyAsync);
        }
        let kind = self.roles.as_ref().map_or(OpKind::Barrier, |roles| roles.consumer_barrier());
        self.op(kind);
    }
}
