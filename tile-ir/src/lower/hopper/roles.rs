//! Warp specialisation: set-up of the channels' barriers, the split into partitions, and what a consumer executes of the kernel.

use super::super::channel::{Load, Sharing, Slots, sharers};
use super::super::*;
use super::copied::Copied;
use super::operand::Left;
use super::plan::{Alternate, BLOCK_ROWS, Plan, Ring, Split, WARP, WARPGROUP};
use super::resident::Once;
use super::store::Staging;
use super::threads::ring_of_threads;
use std::rc::Rc;

/// The named barrier of all consumers. Those of single warpgroups (1 to 7) and of ping-pong (5, 6) are below it.
const CONSUMERS: u32 = 8;
/// The named barrier of the author's threads, where they are the consumers.
const THREADS: u32 = 1;

/// A channel as a partition, producer or consumers, sees it.
#[derive(Clone)]
pub(crate) struct ChannelState {
    pub(super) slots: Slots,
    /// In which ways producers of several blocks fill this block's slots.
    pub(super) shared: Vec<Sharing>,
    /// Whether a second warp of the producer copies rows into them.
    pub(super) copied: bool,
}

impl ChannelState {
    /// Blocks whose producers fill this block's slots, itself among them.
    pub(super) fn feeders(&self) -> u32 {
        sharers(&self.shared)
    }

    /// Whether each warp that has read a slot gives it back, instead of one thread for its warpgroup.
    pub(super) fn is_left_by_warps(&self, split: Split) -> bool {
        self.copied || matches!(split, Split::Threads(_))
    }

    /// Arrivals that fill a slot, and those by which consumers of all blocks give it back.
    fn arrivals(&self, plan: &Plan) -> (u32, u32) {
        // A slot that several blocks' producers fill is free once the consumers of all of them have read it.
        let readers = plan.readers() * self.feeders();
        if self.copied { (1 + WARP, readers * (WARPGROUP / WARP)) } else { (1, readers) }
    }
}

/// The channels and what else a partition knows.
#[derive(Clone, Default)]
pub(crate) struct Roles {
    pub(super) plan: Rc<Plan>,
    pub(super) channels: Vec<ChannelState>,
    /// The consumer's warpgroup among those of its tile, and its thread in it. The producer has none.
    pub(super) consumer: Option<(ValueId, ValueId)>,
    /// With ping-pong, the number of the warpgroup, which takes every second tile.
    pub(super) group: Option<ValueId>,
    /// The warpgroup among all that compute.
    pub(super) warpgroup: Option<ValueId>,
    /// Descriptors of the operands' first slots, this warpgroup's parts.
    pub(super) descriptors: Vec<(BufferId, ValueId)>,
    /// Slots that the producer has begun to fill before it waited for the previous kernel, and not finished.
    pub(super) ahead: Option<RegId>,
    /// The buffers that sub-tiles go through, where the copy engine stores.
    pub(super) staging: Option<Staging>,
    /// The slots of what is loaded once.
    pub(super) once: Vec<Slots>,
    /// Rows that a warp of the producer copies.
    pub(super) copied: Vec<Copied>,
}

/// The arrays that other blocks of the cluster write into.
fn exchanged(kernel: &BoundKernel) -> impl Iterator<Item = BufferId> {
    kernel.stmts.values().filter_map(|stmt| {
        let StmtKind::Tile(TileOp::ClusterExchange { dst, .. }) = stmt.kind else { return None };
        Some(dst)
    })
}

impl<'a> Lowering<'a> {
    /// Lowers the kernel's body into a producer and consumers.
    pub(in super::super) fn specialised(&mut self, plan: Plan) {
        let kernel = self.kernel;
        let plan = Rc::new(plan);
        let cluster = self.cluster_size();
        self.layouts = plan.layouts.clone();
        self.program.launch.threads = [plan.threads()[0], 1, 1];
        self.program.launch.cluster = [cluster, 1, 1];
        self.program.launch.registers = plan.registers;
        if plan.registers.is_some() {
            // ptxas ignores `setmaxnreg` unless `__launch_bounds__` names a number of blocks.
            self.program.launch.min_blocks = Some(1);
        }
        self.remark_plan(&plan);
        for (channel, loads) in plan.rings.iter().flat_map(|ring| &ring.fills) {
            loads.iter().for_each(|load| self.declare_slots(load, plan.channels[*channel].slots));
        }
        // Before the descriptors of those that are operands.
        for &buffer in &plan.own {
            // What other blocks write into is declared with the inboxes.
            if exchanged(kernel).any(|received| received == buffer) {
                continue;
            }
            self.declare(buffer);
            if let (Some(shared), Some(tile)) = (self.shared[buffer], self.layouts.shared.get(&buffer)) {
                self.program.shared[shared].align = tile.alignment().max(16);
            }
        }
        for product in plan.products.values() {
            let (buffer, Left::Shared(operand)) = product.a else { continue };
            if let (Some(shared), Some(tile)) = (self.shared[buffer], self.layouts.shared.get(&buffer))
                && product.rows < BLOCK_ROWS
            {
                debug_assert!(!operand.transposed);
                self.program.shared[shared].beyond = (BLOCK_ROWS - product.rows) * tile.panel();
            }
        }
        let once = self.slots_of_once(&plan);
        self.counted = self.declare_counted(cluster);
        let copied = self.declare_copied(&plan);
        let channels = (plan.channels.iter().enumerate())
            .map(|(number, channel)| ChannelState {
                slots: self.slots_in_turn(channel.slots, channel.once),
                shared: channel.shared.clone(),
                copied: copied.iter().any(|rows| rows.channel == number),
            })
            .collect();
        self.declare_inboxes();
        let warp = self.once(if plan.split == Split::Warpgroups { "warp" } else { "warp_index" }, Special::Warp);
        let roles = Roles { plan: plan.clone(), channels, once, copied, ..Roles::default() };
        let first = self.is_issuer(plan.split, warp);
        self.when(first, |l| l.set_up_ring(&roles));
        if cluster > 1 {
            self.op(OpKind::ClusterBarrier { relaxed: true });
        }
        self.op(OpKind::Barrier);
        if plan.split != Split::Warpgroups {
            self.plain_grid();
            self.grid_bindings();
        } else if !kernel.grid.is_empty() {
            self.by_reciprocals(Self::grid_line);
        }
        let produces = self.produces(plan.split, warp);
        let producer = |l: &mut Self| l.by_reciprocals(|l| l.producer(&roles, warp));
        self.either(produces, producer, |l| l.consumers(roles.clone(), warp));
        self.prefetch_stored();
        if self.program.launch.min_blocks.is_none() {
            self.program.launch.min_blocks = Some(self.blocks_that_fit(plan.enough_registers()));
        }
    }

    /// Says what was chosen.
    fn remark_plan(&mut self, plan: &Plan) {
        let kernel = self.kernel;
        let name = |buffer: BufferId| &kernel.buffers[buffer].name;
        let mut say = |at: StmtId, text: String| self.remark(RemarkKind::Choice, kernel.stmts[at].span, text);
        let pipelined = |what: &str| {
            format!(
                "software pipelined: this product of the next iteration is issued before {what} (`.schedule(Cooperative)` keeps them in \
                 order)"
            )
        };
        for (number, ring) in plan.rings.iter().enumerate() {
            say(
                ring.at.stmt,
                match plan.split {
                    Split::Warpgroups => ring_of_warpgroups(plan, number, ring),
                    Split::Threads(_) => ring_of_threads(plan, ring),
                },
            );
            match &ring.alternate {
                Some(Alternate::By(product)) => say(*product, pipelined("the work on this one")),
                Some(Alternate::No(product, why)) => {
                    say(
                        *product,
                        format!("not software pipelined, the next product waits for the work on this one: {why}"),
                    );
                }
                None => {}
            }
            if let Some(shift) = &ring.shift {
                say(shift.first, pipelined("the second one of this"));
            }
        }
        for (stmt, product) in &plan.products {
            let how = match product.a.1 {
                Left::Shared(_) => continue,
                Left::Registers => "",
                Left::Loaded(_) => ", loaded word by word: wgmma reads tf32 along K alone",
            };
            say(*stmt, format!("`{}` is multiplied with wgmma from registers{how}", name(product.a.0)));
        }
        for Once { loads, stays, .. } in plan.once.iter().rev() {
            let how = if *stays { "loaded once and stays" } else { "loaded while the loop before goes on" };
            loads.iter().for_each(|load| say(load.stmt, format!("`{}` is {how}", name(load.buffer))));
        }
    }

    /// Whether this thread is the producer's: of its warpgroup, or its warp.
    fn produces(&mut self, split: Split, warp: ValueId) -> ValueId {
        self.eval(match split {
            Split::Warpgroups => warp.below(WARPGROUP / WARP),
            Split::Threads(threads) => warp.equals(threads / WARP),
        })
    }

    /// Whether this thread is the one of the producer's that issues its loads.
    pub(super) fn is_issuer(&mut self, split: Split, warp: ValueId) -> ValueId {
        let first = match split {
            Split::Warpgroups => self.binary(BinaryOp::Eq, warp, 0),
            Split::Threads(_) => self.produces(split, warp),
        };
        self.eval(first.and(Special::Elected))
    }

    /// One thread makes the barriers.
    fn set_up_ring(&mut self, roles: &Roles) {
        let mut fetched = Vec::new();
        for load in roles.plan.rings.iter().flat_map(Ring::loads) {
            // Loads of alike tiles have one map.
            if let Some(map) = self.map_of(load).filter(|map| !fetched.contains(map)) {
                fetched.push(map);
                self.op(OpKind::PrefetchMap { map });
            }
        }
        for channel in &roles.channels {
            let arrivals = channel.arrivals(&roles.plan);
            self.unrolled("i", channel.slots.count, |l, index| l.init_slot(&channel.slots, index, arrivals));
        }
        let counted = self.counted.as_ref().map(|counted| counted.slots);
        let single = roles.once.iter().rev().copied().chain(counted);
        single.for_each(|slot| self.init_slot(&slot, 0, (1, roles.plan.readers())));
        self.init_inboxes();
        self.op(OpKind::FenceBarrierInit);
    }

    /// Fetches the maps that tiles are stored by where those of the loads are: a first store would wait for its map.
    fn prefetch_stored(&mut self) {
        let span = self.span;
        let stored = self.program.tensor_maps.iter().filter(|(_, map)| map.stores);
        let stored: Vec<Op> = stored.map(|(map, _)| Op { kind: OpKind::PrefetchMap { map }, span }).collect();
        visit::each_list_mut(&mut self.out.ops, &mut |ops| {
            if let Some(last) = ops.iter().rposition(|op| matches!(op.kind, OpKind::PrefetchMap { .. })) {
                ops.splice(last + 1..last + 1, stored.iter().cloned());
            }
        });
    }

    /// Declares where a partition is in every channel.
    pub(super) fn enter_channels(&mut self, roles: &Roles, parity: i64) {
        let channels = roles.channels.iter().map(|channel| channel.slots);
        let counted = self.counted.as_ref().map(|counted| counted.slots);
        roles.once.iter().rev().copied().chain(channels).chain(counted).for_each(|slots| self.enter(&slots, parity));
    }

    fn consumers(&mut self, mut roles: Roles, warp: ValueId) {
        let kernel = self.kernel;
        let plan = roles.plan.clone();
        if let Some(registers) = plan.registers {
            self.op(OpKind::SetRegisters { count: registers.consumer, increase: true });
        }
        self.wait_for_previous(plan.split);
        let mut thread = self.push(ValueKind::Thread(0), ValueType::Index);
        if plan.split == Split::Warpgroups {
            thread = self.binary(BinaryOp::Sub, thread, WARPGROUP);
        }
        let reg = self.reg("thread", ValueType::Index, false);
        self.define(reg, thread);
        self.thread = Some(reg);
        let mut thread = self.compute_thread();
        if plan.groups > 1 {
            // Each warpgroup has a tile of its own.
            thread = self.binary(BinaryOp::Rem, thread, WARPGROUP);
        }
        self.bind_threads(thread, plan.split != Split::Warpgroups);
        if plan.split == Split::Warpgroups {
            self.find_warpgroup(&mut roles, warp, reg);
        }
        self.enter_channels(&roles, 0);
        if plan.split == Split::Warpgroups {
            self.first_turn(&roles);
            self.descriptors(&mut roles);
            self.staging(&mut roles);
            self.begin_last_first(&roles);
        }
        let sends = roles.staging.is_some() && !self.is_by_threads();
        let roles = Rc::new(roles);
        self.roles = Some(roles.clone());
        self.block(&kernel.body);
        self.roles = None;
        self.thread = None;
        if sends {
            // What TMA still reads must outlive the block; its writes are visible when the grid ends.
            let leader = self.is_leader(&roles);
            self.when(leader, |l| l.op(OpKind::BulkWait { pending: 0, read: true }));
        }
    }

    /// Which warpgroup a consumer's thread is in, and which of its threads it is.
    fn find_warpgroup(&mut self, roles: &mut Roles, warp: ValueId, thread: RegId) {
        let plan = roles.plan.clone();
        let group = warp / (WARPGROUP / WARP);
        let warpgroup = if plan.warpgroups() == 1 { self.int(0) } else { self.once("consumer", group - 1) };
        let consumer = if plan.consumers == 1 { self.int(0) } else { warpgroup };
        roles.warpgroup = Some(warpgroup);
        roles.group = (plan.groups > 1).then_some(warpgroup);
        let within = self.once("group_thread", thread & (WARPGROUP - 1));
        roles.consumer = Some((consumer, within));
    }

    /// Whether this thread is the first of its warpgroup, which issues what one thread issues for all.
    pub(super) fn is_leader(&mut self, roles: &Roles) -> ValueId {
        let within = roles.consumer.map_or(Term::Int(0), |(_, within)| within.into());
        self.eval(within.equals(0))
    }

    /// Lowers a statement that means something else to a consumer than to a whole block; false where it does not.
    pub(in super::super) fn consume(&mut self, stmt: StmtId) -> bool {
        let Some(roles) = self.roles.clone() else { return false };
        let kernel = self.kernel;
        let kind = &kernel.stmts[stmt].kind;
        if let Some(ring) = roles.plan.ring(stmt) {
            self.consume_ring(&roles, ring);
            return true;
        }
        if let Some(product) = roles.plan.products.get(&stmt) {
            let (words, held) = (self.left_words(&roles, product), self.held.get(&stmt).cloned().unwrap_or_default());
            self.multiply_at_once(&roles, product, words, &held);
            return true;
        }
        if let StmtKind::Persistent { extents, body, .. } = kind {
            self.launch_persistent(extents);
            match roles.group {
                Some(group) => self.take_turns(&roles, group, body),
                None => self.persistent_loop(None, |l| l.block(body)),
            }
            return true;
        }
        if matches!(kind, StmtKind::Parallel { .. }) {
            return self.add_by_copy_engine(&roles, stmt);
        }
        if let StmtKind::Alloc { buffer } = kind {
            return roles.plan.declares(*buffer);
        }
        if matches!(kind, StmtKind::Tile(TileOp::Fill { .. })) {
            return roles.plan.folded.contains_key(&stmt);
        }
        let StmtKind::Tile(TileOp::Copy { src, dst, .. }) = kind else { return false };
        match (src.place, dst.place) {
            (Place::Tensor(_), _) => self.await_once(&roles, stmt),
            (Place::Buffer(from), to) => match (kernel.buffers[from].scope, to) {
                (Scope::Shared, Place::Buffer(to)) => {
                    roles.plan.unpacked.contains(&stmt) && self.load_from_slot(&roles, from, to)
                }
                (Scope::Fragment, Place::Tensor(_)) => self.store_staged(&roles, stmt, dst),
                (Scope::Shared, Place::Tensor(_)) => self.store_own(&roles, stmt, from, dst),
                (Scope::Fragment, Place::Buffer(_)) | (Scope::Local, _) => false,
            },
        }
    }
}

impl Roles {
    /// A barrier of all threads that compute, which a tile has to itself where something has one.
    pub(in super::super) fn consumer_barrier(&self) -> OpKind {
        let id = if self.plan.split == Split::Warpgroups { CONSUMERS } else { THREADS };
        OpKind::NamedBarrier { id, threads: self.plan.threads()[1], arrive: false }
    }

    /// What the producer loads.
    pub(in super::super) fn loads(&self) -> impl Iterator<Item = &Load> {
        self.plan.loads()
    }

    /// Whether warpgroups compute, which store tiles by pairs of elements.
    pub(in super::super) fn are_warpgroups(&self) -> bool {
        self.plan.split == Split::Warpgroups
    }

    /// Statements before which consumers wait for each other.
    pub(in super::super) fn barriers(&self) -> &BTreeSet<StmtId> {
        &self.plan.barriers
    }

    /// The channel of an array, if it is one's.
    pub(super) fn channel_of(&self, buffer: BufferId) -> Option<&ChannelState> {
        self.plan.channel_of(buffer).and_then(|number| self.channels.get(number))
    }
}

/// What is remarked on a loop that warpgroups multiply in.
fn ring_of_warpgroups(plan: &Plan, number: usize, ring: &Ring) -> String {
    let slots = ring.fills.iter().map(|(channel, _)| plan.channels[*channel].slots).max().unwrap_or(0);
    let pipelined = if ring.at.stages.is_some() { "" } else { " and pipelined" };
    let mut text = format!("warp specialised{pipelined}: a producer fills {slots} slots");
    if number == 0 {
        text += &format!(
            ", {} warpgroup{} with wgmma{}",
            plan.warpgroups(),
            if plan.warpgroups() == 1 { " multiplies" } else { "s multiply" },
            if plan.groups == 1 { "" } else { ", in turn" },
        );
    }
    text
}
