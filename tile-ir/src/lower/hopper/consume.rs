//! The consumers' side of a loop that loads: they wait for a slot, compute from it, and give it back.

use super::super::uses::declared;
use super::super::*;
use super::held::Held;
use super::operand::Left;
use super::plan::{Alternate, BLOCK_ROWS, Product, Ring, Split};
use super::roles::{ChannelState, Roles};
use crate::layout::LayoutError;
use crate::layout::descriptor::UNIT;

/// A loop whose slots consumers read.
pub(super) struct Consumed<'p> {
    pub(super) roles: &'p Roles,
    pub(super) ring: &'p Ring,
    pub(super) channels: Vec<&'p ChannelState>,
    /// What consumers execute of its body: neither the loads, nor the indices that only those mention.
    pub(super) body: Vec<StmtId>,
    /// Start, end and step.
    pub(super) range: [ValueId; 3],
}

impl<'a> Lowering<'a> {
    /// The consumers' loop.
    pub(super) fn consume_ring(&mut self, roles: &Roles, ring: &Ring) {
        let kernel = self.kernel;
        let body: Vec<StmtId> = ring.at.body.iter().copied().filter(|s| !ring.at.loads.contains(s)).collect();
        // A read that is clipped mentions where its tile begins.
        let clipped = ring.loads().filter(|load| load.clipped().is_some()).flat_map(|load| load.vars(kernel));
        let body = self.needed_with(&body, &body, clipped.collect());
        let channels = ring.fills.iter().map(|(number, _)| &roles.channels[*number]).collect();
        let mut range = ring.at.range.map(|e| self.value(e));
        if roles.are_warpgroups() {
            let name = &kernel.vars[ring.at.var].name;
            range[0] = self.once(&format!("{name}_start"), range[0]);
            range[1] = self.once(&format!("{name}_end"), range[1]);
            self.first[ring.at.var] = Some(range[0]);
        }
        let at = Consumed { roles, ring, channels, body, range };
        if let Some(Alternate::By(product)) = &ring.alternate {
            self.consume_alternating(&at, *product);
        } else if let Some(shift) = &ring.shift {
            self.consume_shifted(&at, shift);
        } else if self.overlaps(&at) {
            self.consume_overlapped(&at);
        } else {
            self.consume_in_turn(&at);
        }
        if roles.leaves_at_once(ring.at.stmt) {
            // Where there was no iteration, no product says that all of the warpgroup have seen the phase of what is given back now.
            let [start, end, _] = at.range;
            self.when(start.at_least(end), |l| l.warpgroup_barrier(roles));
        }
    }

    /// Whether one iteration's products may be in flight while the next one's are issued: they are all that the loop does.
    fn overlaps(&self, at: &Consumed<'_>) -> bool {
        let kernel = self.kernel;
        let plain = |s: &StmtId| match at.roles.plan.products.get(s) {
            // A left operand in registers is packed anew in each iteration, which the product before must not be reading.
            Some(product) => !product.clear && matches!(product.a.1, Left::Shared(_)),
            None => matches!(kernel.stmts[*s].kind, StmtKind::Let { .. }),
        };
        let multiplies = at.body.iter().any(|s| at.roles.plan.products.contains_key(s));
        let slots = at.channels.iter().all(|channel| channel.slots.count > 1);
        multiplies && slots && !at.ring.meets && at.body.iter().all(plain)
    }

    /// Computes from one slot after the other, and gives each back when it has been read.
    fn consume_in_turn(&mut self, at: &Consumed<'_>) {
        let Consumed { roles, ring, ref channels, ref body, range } = *at;
        let unroll = if ring.written_out { Unroll::Full } else { Unroll::By(1) };
        let is_let = |stmt: &&StmtId| declared(self.kernel, **stmt).is_some();
        // The author's threads find an iteration's indices while its bytes are on their way.
        let leading = if roles.are_warpgroups() { 0 } else { body.iter().take_while(is_let).count() };
        let (leading, rest) = body.split_at(leading);
        let products: Vec<usize> = (0..rest.len()).filter(|n| roles.plan.products.contains_key(&rest[*n])).collect();
        self.counted_loop(ring.at.var, range, unroll, |l| {
            l.block(leading);
            l.await_slots(ring, channels);
            if ring.meets {
                l.block_barrier();
            }
            l.elements_of_slots(at, None);
            for (number, stmt) in rest.iter().enumerate() {
                // What the work behind the only product needs of memory is loaded while that runs.
                if products[..] == [number] {
                    let held = l.declare_held(ring, &rest[number + 1..]);
                    l.held.insert(*stmt, held);
                }
                l.block(std::slice::from_ref(stmt));
                if ring.last_read == Some(*stmt) {
                    l.leave_slots(at, None);
                }
            }
            l.no_elements_of_slots(ring);
            if ring.last_read.is_none() {
                l.leave_slots(at, None);
            }
            channels.iter().for_each(|channel| l.advance(&channel.slots));
        });
        self.give_turn(roles);
        self.zero_if_empty(at);
    }

    /// The loop of a body that is products alone: one iteration's products are in flight while the next one's are started, and slots are
    /// given back an iteration late.
    fn consume_overlapped(&mut self, at: &Consumed<'_>) {
        let Consumed { roles, ring, ref channels, ref body, range: [start, end, step] } = *at;
        let products = body.iter().filter_map(|s| roles.plan.products.get(s));
        let accumulators: BTreeSet<LocalId> = products.filter_map(|p| self.fragments[p.acc].map(|r| r.local)).collect();
        let accumulators: Vec<LocalId> = accumulators.into_iter().collect();
        let previous: Vec<RegId> = channels.iter().map(|_| self.variable("previous", ValueType::Index, 0)).collect();
        self.counted_loop(ring.at.var, [start, end, step], Unroll::By(1), |l| {
            l.await_slots(ring, channels);
            l.pin(&accumulators);
            l.op(OpKind::WgmmaFence);
            for &stmt in body {
                if let Some(product) = roles.plan.products.get(&stmt) {
                    l.span = l.kernel.stmts[stmt].span;
                    l.multiply(roles, product, None);
                } else {
                    l.block(&[stmt]);
                }
            }
            l.op(OpKind::WgmmaCommit);
            l.pin(&accumulators);
            // Last iteration's products have read their slots.
            l.op(OpKind::WgmmaWait { pending: 1 });
            let index = l.variable_value(ring.at.var, ValueType::Index);
            l.when(index.above(start), |l| l.release_each(at, &previous));
            for (channel, &reg) in channels.iter().zip(&previous) {
                let value = l.slot(&channel.slots, None);
                l.set(reg, value);
            }
            channels.iter().for_each(|channel| l.advance(&channel.slots));
        });
        self.give_turn(roles);
        self.op(OpKind::WgmmaWait { pending: 0 });
        self.when(start.below(end), |l| l.release_each(at, &previous));
        self.zero_if_empty(at);
        self.pin(&accumulators);
    }

    /// A consumer waits for the bytes of an iteration of a loop.
    pub(super) fn await_slots(&mut self, ring: &Ring, channels: &[&ChannelState]) {
        for channel in channels {
            let slot = self.slot_of(&channel.slots, ring);
            self.await_full(&channel.slots, slot);
        }
    }

    /// Gives back the slots of an iteration: those in the registers `taken`, or the current ones. One thread arrives on `empty` for all of its
    /// warpgroup (or warp), so all of these must have finished reading the slot, and have seen its phase: a product that all of a warpgroup
    /// come to says that they have.
    pub(super) fn leave_slots(&mut self, at: &Consumed<'_>, taken: Option<&[RegId]>) {
        let Consumed { roles, ring, ref channels, .. } = *at;
        let multiplied = at.body.iter().any(|s| roles.plan.products.contains_key(s));
        let read = !multiplied || ring.loads().any(|load| roles.plan.read.contains(&load.buffer));
        let split = roles.plan.split;
        let left = |by_warps: bool| {
            let mut left = channels.iter().filter(|c| c.slots.are_refilled() && c.is_left_by_warps(split) == by_warps);
            left.any(|channel| read || channel.copied)
        };
        if left(false) {
            self.warpgroup_barrier(roles);
        }
        if left(true) {
            self.op(OpKind::WarpBarrier);
        }
        for (number, channel) in channels.iter().enumerate() {
            let slot = self.slot_at(at, taken, number);
            self.release(roles, channel, slot);
        }
    }

    /// Gives back a slot of each channel, which only tensor cores have read.
    fn release_each(&mut self, at: &Consumed<'_>, slots: &[RegId]) {
        for (channel, &slot) in at.channels.iter().zip(slots) {
            let slot = self.read(slot);
            self.release(at.roles, channel, slot);
        }
    }

    fn slot_at(&mut self, at: &Consumed<'_>, taken: Option<&[RegId]>, number: usize) -> ValueId {
        match taken {
            Some(slots) => self.read(slots[number]),
            None => self.slot_of(&at.channels[number].slots, at.ring),
        }
    }

    /// Names the first elements of those arrays that threads read by elements, in the slots `taken` or the current ones.
    pub(super) fn elements_of_slots(&mut self, at: &Consumed<'_>, taken: Option<&[RegId]>) {
        for (number, (_, loads)) in at.ring.fills.iter().enumerate() {
            for load in loads.iter().filter(|load| at.roles.plan.elements.contains(&load.buffer)) {
                let slot = self.slot_at(at, taken, number);
                let name = match at.roles.plan.split {
                    Split::Warpgroups => "slot_start".to_owned(),
                    Split::Threads(_) => format!("{}_slot", self.kernel.buffers[load.buffer].name),
                };
                self.slots[load.buffer] = Some(self.once(&name, slot * load.elements));
            }
        }
    }

    /// Outside of its loop an array has no current slot.
    pub(super) fn no_elements_of_slots(&mut self, ring: &Ring) {
        ring.loads().for_each(|load| self.slots[load.buffer] = None);
    }

    /// Descriptors of this warpgroup's parts of the operands, in the first slot.
    pub(super) fn descriptors(&mut self, roles: &mut Roles) {
        let plan = roles.plan.clone();
        for &Product { a, b, grid, blocks, n, .. } in plan.products.values() {
            // A warpgroup's rows of a left operand, or its columns of a right one.
            let left = match a.1 {
                Left::Shared(operand) => Some((a.0, operand, grid.rows, blocks * BLOCK_ROWS)),
                Left::Registers | Left::Loaded(_) => None,
            };
            for (buffer, operand, divided, first) in left.into_iter().chain([(b.0, b.1, grid.cols, n)]) {
                let Some(shared) = self.shared[buffer] else { return self.bug("an operand has no stages") };
                if roles.descriptors.iter().any(|(b, _)| *b == buffer) {
                    continue;
                }
                let bits = operand.descriptor.bits(0);
                let mut value = self.push(ValueKind::Descriptor { shared, bits }, ValueType::Wide);
                if divided > 1
                    && let Some((consumer, _)) = roles.consumer
                {
                    let Ok(bytes) = operand.offset(first, 0) else {
                        return self.bug("a part of an operand that no descriptor reaches");
                    };
                    value = self.eval(value + consumer * (bytes / UNIT));
                }
                let value = self.out.once(&format!("{}_descriptor", self.kernel.buffers[buffer].name), value);
                roles.descriptors.push((buffer, value));
            }
        }
    }

    /// Issues a product, loads what the work on it reads of memory (`held`) while tensor cores multiply, and waits for the product. `words` are
    /// the left operand, where that is in registers.
    pub(super) fn multiply_at_once(&mut self, roles: &Roles, product: &Product, words: Option<LocalId>, held: &[Held]) {
        let own = self.fragments[product.acc].map(|r| r.local);
        let pinned: Vec<LocalId> = own.into_iter().chain(words).collect();
        self.start_product(roles, product, words, &pinned);
        self.load_held(held);
        self.await_products(0, &pinned);
    }

    /// Issues a product. What it and those in flight read or write of registers has its values, and keeps them.
    pub(super) fn start_product(
        &mut self,
        roles: &Roles,
        product: &Product,
        words: Option<LocalId>,
        pinned: &[LocalId],
    ) {
        self.pin(pinned);
        self.op(OpKind::WgmmaFence);
        self.multiply(roles, product, words);
        self.op(OpKind::WgmmaCommit);
    }

    /// Waits for all products but the last `pending`: these registers are free.
    pub(super) fn await_products(&mut self, pending: u32, pinned: &[LocalId]) {
        self.op(OpKind::WgmmaWait { pending });
        self.pin(pinned);
    }

    pub(super) fn pin(&mut self, locals: &[LocalId]) {
        locals.iter().for_each(|&local| self.op(OpKind::Pin { local }));
    }

    /// Accumulators that the first product overwrites are zeros where there is no product. After the loop: before it,
    /// the assembler would carry two copies of them into it, and spill.
    fn zero_if_empty(&mut self, at: &Consumed<'_>) {
        let folded = at.roles.plan.folded.values().filter(|(_, stmt)| *stmt == at.ring.at.stmt);
        let folded: BTreeSet<BufferId> = folded.map(|(buffer, _)| *buffer).collect();
        if folded.is_empty() {
            return;
        }
        let [start, end, _] = at.range;
        self.when(start.at_least(end), |l| {
            for buffer in folded {
                let zero = l.push(ValueKind::Float(0.0), ValueType::Element(Dtype::F32));
                l.fill_fragment(buffer, zero);
            }
        });
    }

    /// The instructions of one tile product on the current slots. `words`: of a left operand in registers.
    pub(super) fn multiply(&mut self, roles: &Roles, product: &Product, words: Option<LocalId>) {
        let Some(registers) = self.held_in(product.acc) else { return };
        let in_slot = |l: &mut Self, buffer: BufferId| {
            let base = roles.descriptors.iter().find(|(b, _)| *b == buffer).map(|(_, value)| *value);
            let mut value = base.unwrap_or_else(|| l.push(ValueKind::Int(0), ValueType::Wide));
            if let Some(channel) = roles.channel_of(buffer) {
                let bytes = l.layouts.shared.get(&buffer).map_or(0, |tile| tile.bytes());
                let slot = l.slot(&channel.slots, None);
                value = l.eval(value + slot * (bytes / UNIT));
            }
            l.out.once(&format!("{}_slot", l.kernel.buffers[buffer].name), value)
        };
        let (a, left) = product.a;
        let a = if let Left::Shared(operand) = left { Some((in_slot(self, a), operand)) } else { None };
        let b = (in_slot(self, product.b.0), product.b.1);
        let adds = product.begins.and_then(|var| Some((self.variable_value(var, ValueType::Index), self.first[var]?)));
        for step in 0..b.1.k_steps() {
            for block in 0..product.blocks {
                // `.clear()` is of each product.
                let accumulate = match adds {
                    _ if step == 0 && product.clear => self.push(ValueKind::Int(0), ValueType::BOOL),
                    Some((index, start)) if step == 0 => self.binary(BinaryOp::Ne, index, start),
                    _ => self.push(ValueKind::Int(1), ValueType::BOOL),
                };
                let piece = |l: &mut Self, first: ValueId, bytes: Result<u32, LayoutError>| {
                    let Ok(bytes) = bytes else {
                        l.bug("a part of an operand that no descriptor reaches");
                        return first;
                    };
                    l.binary(BinaryOp::Add, first, bytes / UNIT)
                };
                let left = match (a, words) {
                    (Some((reg, operand)), _) => {
                        WgmmaOperand::Descriptor(piece(self, reg, operand.offset(block * BLOCK_ROWS, step)))
                    }
                    (None, Some(words)) => WgmmaOperand::Registers(words, self.left_offset(product, block, step, 0)),
                    (None, None) => return self.bug("a left operand has neither a descriptor nor registers"),
                };
                let right = piece(self, b.0, b.1.offset(0, step));
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

    /// This warpgroup (or warp) has read `slot`: one arrival for every producer that fills it.
    pub(super) fn release(&mut self, roles: &Roles, channel: &ChannelState, slot: ValueId) {
        if !channel.slots.are_refilled() {
            return;
        }
        let by_warps = channel.is_left_by_warps(roles.plan.split);
        let within = match roles.consumer {
            _ if by_warps => self.eval(Special::Lane),
            Some((_, within)) => within,
            None => return self.bug("a release by no consumer"),
        };
        let cond = match &channel.shared[..] {
            _ if by_warps => within.equals(0),
            [] => within.below(1),
            shared => self.is_sharer(shared, within).into(),
        };
        self.give_back(&channel.slots, slot, cond, (channel.feeders() > 1).then_some(within));
    }

    /// All threads that compute wait for each other.
    pub(in super::super) fn block_barrier(&mut self) {
        // Tensor cores or TMA may read what consumers have stored.
        if self.roles.as_ref().is_some_and(|roles| roles.plan.shows_own) {
            self.op(OpKind::FenceProxyAsync);
        }
        let kind = self.roles.as_ref().map_or(OpKind::Barrier, |roles| roles.consumer_barrier());
        self.op(kind);
    }
}
