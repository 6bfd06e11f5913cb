//! Both sides of a loop that loads: a producer that fills slots, consumers that multiply from them.

use super::super::*;
use super::operand::Left;
use super::plan::{BLOCK_ROWS, Load, Product, Ring};
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
    /// A consumer waits for the bytes of its slot of each channel.
    pub(super) fn await_tiles(&mut self, channels: &[&ChannelState]) {
        for channel in channels {
            let slot = self.slot(&channel.slots, None);
            self.await_full(&channel.slots, slot);
        }
    }

    /// The producer's loop: for every iteration, when its slots are empty, say how many bytes will come and ask for them.
    pub(super) fn produce(&mut self, roles: &Roles, ring: &Ring, body: &'a [StmtId]) {
        let range = ring.at.range.map(|e| self.value(e));
        self.counted_loop(ring.at.var, range, Unroll::By(1), |l| {
            l.load_indices(ring, body, |_| true);
            let begins = |load: &&Load| roles.ahead.is_none() || load.independent;
            let fill = |l: &mut Self| {
                for (number, loads) in &ring.fills {
                    let channel = &roles.channels[*number];
                    let slot = l.slot(&channel.slots, None);
                    l.await_empty(&channel.slots, slot);
                    l.expect_tiles(channel);
                    for load in loads.iter().filter(begins) {
                        l.load_slot(roles, channel, load);
                    }
                }
            };
            match roles.ahead {
                None => fill(l),
                Some(ahead) => {
                    // These slots were requested before `griddepcontrol.wait`: do not request them again.
                    let (left, zero, one) = (l.read(ahead), l.int(0), l.int(1));
                    let cond = l.binary(BinaryOp::Gt, left, zero);
                    let fewer = l.binary(BinaryOp::Sub, left, one);
                    let then = l.nested(|l| l.op(OpKind::Set { reg: ahead, value: fewer }));
                    let otherwise = l.nested(fill);
                    l.op(OpKind::If { cond, then, otherwise });
                }
            }
            for (number, loads) in &ring.fills {
                let channel = &roles.channels[*number];
                for load in loads.iter().filter(|load| !begins(load)) {
                    l.load_slot(roles, channel, load);
                }
                l.advance(&channel.slots);
            }
        });
    }

    /// The indices that an iteration declares for its loads.
    pub(super) fn load_indices(&mut self, ring: &Ring, body: &'a [StmtId], which: impl Fn(&Load) -> bool) {
        for stmt in body {
            if matches!(self.kernel.stmts[*stmt].kind, StmtKind::Let { .. })
                && let Some(declared) = super::super::channel::declared(self.kernel, *stmt)
                && ring.loads().any(|load| which(load) && load.uses(self.kernel, declared))
            {
                self.block(std::slice::from_ref(stmt));
            }
        }
    }

    /// The bytes of all loads of the current slot will come.
    pub(super) fn expect_tiles(&mut self, channel: &ChannelState) {
        let slot = self.slot(&channel.slots, None);
        let bytes = self.int(i64::from(channel.bytes));
        self.expect(&channel.slots, slot, bytes);
    }

    /// Issues the TMA loads of one tile of the current slot.
    pub(super) fn load_slot(&mut self, roles: &Roles, channel: &ChannelState, load: &Load) {
        self.span = load.span;
        let Some(&map) = roles.maps.get(&load.stmt) else { return self.bug("a load has no tensor map") };
        let slot = self.slot(&channel.slots, None);
        let elements = load.layout.bytes() / load.layout.dtype().bytes();
        let elements = self.int(i64::from(elements));
        let base = self.binary(BinaryOp::Mul, slot, elements);
        self.load_tile(load, map, channel.slots.full(slot), base);
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

    /// The consumers' loop. Where its body is products alone, one iteration's products are in flight while the next
    /// one's are started, and slots are given back an iteration late.
    pub(super) fn consume_ring(&mut self, roles: &Roles, ring: &Ring, body: &'a [StmtId]) {
        let kernel = self.kernel;
        let var = ring.at.var;
        // The loads into slots are the producer's.
        let rest: Vec<StmtId> = body.iter().copied().filter(|s| !ring.at.loads.contains(s)).collect();
        // Indices that only the loads mention are the producer's.
        let read = super::super::uses::variables(kernel, &rest);
        let own = |stmt: &StmtId| super::super::channel::declared(kernel, *stmt).is_none_or(|var| read.contains(&var));
        let rest: Vec<StmtId> = rest.into_iter().filter(own).collect();
        let products: Vec<&Product> = rest.iter().filter_map(|s| roles.plan.products.get(s)).collect();
        let products_alone = rest
            .iter()
            .all(|s| matches!(kernel.stmts[*s].kind, StmtKind::Tile(TileOp::Gemm { .. }) | StmtKind::Let { .. }));
        // A left operand in registers is packed anew in each iteration, which the product before must not be reading.
        let plain = |p: &&Product| !p.clear && matches!(p.a.1, Left::Shared(_));
        let channels: Vec<&ChannelState> = ring.fills.iter().map(|(number, _)| &roles.channels[*number]).collect();
        let overlapped = products_alone
            && !ring.meets
            && channels.iter().all(|channel| channel.slots.count > 1)
            && products.iter().all(plain);
        let [start, end, step] = ring.at.range.map(|e| self.value(e));
        let [start, end] = [("start", start), ("end", end)]
            .map(|(bound, value)| self.once(&format!("{}_{bound}", kernel.vars[var].name), value));
        if let Some(shift) = &ring.shift {
            let outer = self.accumulates.take();
            let left = self.consume_shifted(roles, ring, shift, &rest, [start, end, step]);
            self.accumulates = outer;
            if !left {
                self.leave_ring(roles, ring);
            }
            return;
        }
        let accumulators: BTreeSet<LocalId> =
            products.iter().filter_map(|p| self.fragments[p.acc].map(|r| r.local)).collect();
        let previous: Vec<RegId> = channels.iter().map(|_| self.reg("previous", ValueType::Index, true)).collect();
        if overlapped {
            for &reg in &previous {
                let zero = self.int(0);
                self.op(OpKind::Let { reg, value: Some(zero) });
            }
        }
        let outer = self.accumulates.replace(Accumulates { ring: ring.at.stmt, start, begun: BTreeSet::new() });
        self.counted_loop(var, [start, end, step], Unroll::By(1), |l| {
            l.await_tiles(&channels);
            if ring.meets {
                l.block_barrier();
            }
            if overlapped {
                accumulators.iter().for_each(|&local| l.op(OpKind::Pin { local }));
                l.op(OpKind::WgmmaFence);
                for &stmt in &rest {
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
                let then = l.nested(|l| l.release_each(roles, &channels, &previous));
                l.op(OpKind::If { cond: later, then, otherwise: Vec::new() });
                for (channel, &reg) in channels.iter().zip(&previous) {
                    let value = l.slot(&channel.slots, None);
                    l.op(OpKind::Set { reg, value });
                }
            } else {
                l.elements_of_slots(roles, ring);
                l.block(&rest);
                l.no_elements_of_slots(ring);
                // One thread arrives on `empty` for the whole warpgroup, so all of its threads must have finished reading the slot, and
                // have seen its phase: a product that all of them come to says that they have.
                if products.is_empty() || ring.loads().any(|load| roles.plan.read.contains(&load.buffer)) {
                    l.warpgroup_barrier(roles);
                }
                channels.iter().for_each(|channel| l.release_current(roles, channel));
            }
            channels.iter().for_each(|channel| l.advance(&channel.slots));
        });
        self.accumulates = outer;
        self.give_turn(roles);
        if !overlapped {
            self.zero_if_empty(roles, ring, start, end);
        } else {
            self.op(OpKind::WgmmaWait { pending: 0 });
            let any = self.binary(BinaryOp::Lt, start, end);
            let then = self.nested(|l| l.release_each(roles, &channels, &previous));
            self.op(OpKind::If { cond: any, then, otherwise: Vec::new() });
            self.zero_if_empty(roles, ring, start, end);
            accumulators.iter().for_each(|&local| self.op(OpKind::Pin { local }));
        }
        self.leave_ring(roles, ring);
    }

    /// After the last loop that loads, the tiles that stay are given back.
    fn leave_ring(&mut self, roles: &Roles, ring: &Ring) {
        if roles.plan.rings.last().is_some_and(|last| last.at.stmt == ring.at.stmt) {
            self.release_resident(roles);
        }
    }

    /// Gives back a slot of each channel.
    fn release_each(&mut self, roles: &Roles, channels: &[&ChannelState], slots: &[RegId]) {
        for (channel, &slot) in channels.iter().zip(slots) {
            let slot = self.read(slot);
            self.release(roles, channel, slot);
        }
    }

    /// Names the first elements of the current slots of those arrays that threads read by elements.
    fn elements_of_slots(&mut self, roles: &Roles, ring: &Ring) {
        for load in ring.loads().filter(|load| roles.plan.elements.contains(&load.buffer)) {
            let elements = load.layout.bytes() / load.layout.dtype().bytes();
            self.slots[load.buffer] = Some(self.slot_elements(roles, load.buffer, elements));
        }
    }

    /// Outside of its loop an array has no current slot.
    fn no_elements_of_slots(&mut self, ring: &Ring) {
        ring.loads().for_each(|load| self.slots[load.buffer] = None);
    }

    /// A product that is waited for at once.
    pub(super) fn multiply_at_once(&mut self, roles: &Roles, product: &Product) {
        let words = self.left_words(product);
        self.multiply_words_at_once(roles, product, words);
    }

    /// A product that is waited for at once, of these words where its left operand is in registers.
    pub(super) fn multiply_words_at_once(&mut self, roles: &Roles, product: &Product, words: Option<LocalId>) {
        let own = self.fragments[product.acc].map(|r| r.local);
        let pinned: Vec<LocalId> = own.into_iter().chain(words).collect();
        pinned.iter().for_each(|&local| self.op(OpKind::Pin { local }));
        self.op(OpKind::WgmmaFence);
        self.multiply(roles, product, words);
        self.op(OpKind::WgmmaCommit);
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

    /// This warpgroup has read `slot`: one arrival for every producer that fills it.
    fn release(&mut self, roles: &Roles, channel: &ChannelState, slot: ValueId) {
        let Some((_, within)) = roles.consumer else { return self.bug("a release by no consumer") };
        let cond = match channel.shared[..] {
            [] => {
                let one = self.int(1);
                self.binary(BinaryOp::Lt, within, one)
            }
            _ => self.is_sharer(&channel.shared, within),
        };
        self.give_back(&channel.slots, slot, cond, (channel.feeders > 1).then_some(within));
    }
}
