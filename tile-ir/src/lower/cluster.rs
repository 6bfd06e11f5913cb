//! `cluster_reduce`: the blocks of a cluster send their tiles to the block of rank 0, which adds them in the order of ranks; and
//! `cluster_exchange`: each block sends every block of the cluster a part of an array.
//!
//! Contract. In, of a reduction: a fragment of every block of the cluster, at a place that each of them comes by once. Out: the first block
//! has the combination, and the others have what they had. Each thread sends what it holds straight from its registers to
//! an inbox in the first block's shared memory, from where the thread of the same number there takes it: both have the
//! same elements, so a transfer is 16 bytes a lane that lie together. The inbox has a barrier that counts bytes, and nobody
//! writes it twice; so the others may end as soon as they have sent, and nothing else is waited for. An exchange is alike, but each block receives: straight
//! into the author's array, which nothing before it uses, and which is written once.

use super::*;
use crate::layout::{Fragment, Index};

/// Where the tiles of a cluster's other blocks arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbox {
    /// A tile a block, from that of rank 1.
    array: SharedId,
    /// Completes when all of them are there.
    arrived: BarrierId,
}

impl Lowering<'_> {
    /// Declares what `cluster_reduce` and `cluster_exchange` need; nothing where a cluster is one block.
    pub(super) fn declare_inboxes(&mut self) {
        let kernel = self.kernel;
        let others = self.cluster_size() - 1;
        if others == 0 {
            return;
        }
        for &stmt in &kernel.body {
            let kind = &kernel.stmts[stmt].kind;
            let (name, array) = if let StmtKind::Tile(TileOp::ClusterExchange { dst, .. }) = *kind {
                let name = &kernel.buffers[dst].name;
                let (dtype, len) = (kernel.buffer_dtype(dst), kernel.buffer_len(dst) as u32);
                let array = self.shared_array(name, dtype, len, false);
                if let Some(layout) = self.layouts.shared.get(&dst) {
                    self.program.shared[array].align = layout.alignment().max(128);
                }
                self.shared[dst] = Some(array);
                (name, array)
            } else if let StmtKind::Tile(TileOp::ClusterReduce { tile, .. }) = *kind
                && let Some(layout) = self.layouts.fragments.get(&tile)
            {
                let name = &kernel.buffers[tile].name;
                let elements = layout.holders().saturating_mul(layout.held_registers()).saturating_mul(others);
                (name, self.shared_array(&format!("{name}_inbox"), kernel.buffer_dtype(tile), elements, true))
            } else {
                continue;
            };
            let arrived = self.barrier_array(&format!("{name}_arrived"), 1);
            self.inboxes.insert(stmt, Inbox { array, arrived });
        }
    }

    /// One thread makes their barriers.
    pub(super) fn init_inboxes(&mut self) {
        for inbox in self.inboxes.clone().into_values() {
            let barrier = self.arrived(inbox);
            self.op(OpKind::BarrierInit { barrier, arrivals: 1 });
        }
    }

    /// Of a block without roles: launches clusters, and says that this block has begun.
    pub(super) fn meet_cluster(&mut self) {
        self.declare_inboxes();
        if self.inboxes.is_empty() {
            return;
        }
        self.program.launch.cluster = [self.cluster_size(), 1, 1];
        let thread = self.linear_thread();
        self.when(thread.equals(0), |l| {
            l.init_inboxes();
            l.op(OpKind::FenceBarrierInit);
        });
        // What waits for the cluster also sees the barriers.
        self.op(OpKind::ClusterArrive);
        self.is_met = false;
    }

    /// Waits until the cluster's blocks have begun, whose shared memory is written from here on, where that is not known.
    fn await_cluster(&mut self) {
        if !std::mem::replace(&mut self.is_met, true) {
            self.op(OpKind::ClusterWait);
        }
    }

    pub(super) fn cluster_reduce(&mut self, stmt: StmtId, op: ReduceOp, tile: BufferId) {
        // A block that is a cluster by itself has nothing to add.
        let others = self.cluster_size() - 1;
        if others == 0 {
            return;
        }
        let (Some(inbox), Some(registers)) = (self.inboxes.get(&stmt).copied(), self.fragments[tile]) else {
            return self.bug("a reduction in a cluster has nowhere to put its tiles");
        };
        let layout = registers.layout;
        let (held, holders) = (layout.held_registers(), layout.holders());
        // Registers that a narrow tile does not use lie between pairs.
        let whole = held == layout.registers();
        let width = [4, 2].into_iter().find(|w| held % w == 0 && (whole || *w == 2)).unwrap_or(1);
        let exchange = Exchange { inbox, local: registers.local, width, pieces: held / width, holders };
        let bytes =
            i64::from(held) * i64::from(holders) * i64::from(self.program.locals[registers.local].dtype.bytes());
        let text = format!(
            "the block of rank 0 adds {others} {} of {bytes} bytes from its cluster, through distributed shared memory",
            if others == 1 { "tile" } else { "tiles" }
        );
        self.remark_here(RemarkKind::Choice, text);

        self.await_cluster();
        let rank = self.once("rank", Special::ClusterRank);
        let is_first = self.eval(rank.equals(0));
        self.either(
            is_first,
            |l| {
                let barrier = l.expect_parts(inbox, bytes * i64::from(others));
                l.await_parts(barrier);
                l.where_held(&layout, |l| {
                    (0..others).for_each(|sender| l.take(&exchange, &layout, op, sender));
                });
            },
            |l| {
                l.where_held(&layout, |l| {
                    let sender = l.eval(rank - 1);
                    l.send(&exchange, &layout, sender);
                });
            },
        );
    }

    /// The barrier of an inbox.
    fn arrived(&mut self, inbox: Inbox) -> BarrierRef {
        BarrierRef { array: inbox.arrived, index: self.int(0) }
    }

    /// One thread says how many bytes come.
    fn expect_parts(&mut self, inbox: Inbox, bytes: i64) -> BarrierRef {
        let (barrier, thread) = (self.arrived(inbox), self.compute_thread());
        self.when(thread.equals(0), |l| {
            let bytes = l.int(bytes);
            l.op(OpKind::BarrierExpect { barrier, bytes });
        });
        barrier
    }

    /// Waits until they are there.
    fn await_parts(&mut self, barrier: BarrierRef) {
        let parity = self.int(0);
        self.op(OpKind::BarrierWait { barrier, parity });
    }

    /// Whether other blocks of the cluster write into the array.
    pub(super) fn receives(&self, buffer: BufferId) -> bool {
        self.shared[buffer].is_some_and(|shared| self.inboxes.values().any(|inbox| inbox.array == shared))
    }

    pub(super) fn cluster_exchange(&mut self, stmt: StmtId, src: BufferId, dst: BufferId) {
        let kernel = self.kernel;
        let (Some(from), Some(to)) = (self.shared[src], self.shared[dst]) else {
            return self.bug("an exchange of arrays that the block does not have");
        };
        let (sent, received) = ((src, from), (dst, to));
        let blocks = self.cluster_size();
        let (dtype, len) = (kernel.buffer_dtype(src), kernel.buffer_len(src) as u32);
        let width = [4, 2].into_iter().find(|w| (len / blocks).is_multiple_of(*w)).unwrap_or(1);
        let pieces = len / width;
        if blocks == 1 {
            // A block that is a cluster by itself keeps what it has.
            return self.spread("piece", &[pieces], |l, indices| {
                let [from, to] = [sent, received].map(|array| l.elements_at(array, indices[0] * width));
                let part = l.local("part", dtype, width);
                l.vector_load(part, 0, from, width);
                l.vector_store(to, part, 0, width);
            });
        }
        let Some(inbox) = self.inboxes.get(&stmt).copied() else {
            return self.bug("an exchange in a cluster has no barrier");
        };
        let bytes = i64::from(len) * i64::from(dtype.bytes());
        let text = format!(
            "each of {blocks} blocks of a cluster receives {bytes} bytes, a part of every block's array, through distributed shared memory"
        );
        self.remark_here(RemarkKind::Choice, text);
        self.await_cluster();
        let barrier = self.expect_parts(inbox, bytes);
        let rank = self.once("rank", Special::ClusterRank);
        let of_part = len / blocks / width;
        self.spread("piece", &[pieces], |l, indices| {
            let (block, piece) = (l.eval(indices[0] / of_part), indices[0] % of_part);
            let from = l.elements_at(sent, indices[0] * width);
            let memory = l.elements_at(received, (rank * of_part + piece) * width);
            let (part, start) = (l.local("part", dtype, width), l.int(0));
            l.vector_load(part, 0, from, width);
            l.op(OpKind::ClusterStore { memory, block, local: part, start, width, barrier });
        });
        self.await_parts(barrier);
    }

    /// Where elements of a shared array lie that stand side by side in one of its rows, the first of which is element `first` of
    /// all of them. Those of 16 bytes lie together in every layout.
    fn elements_at(&mut self, (array, shared): (BufferId, SharedId), first: impl Into<Term>) -> Memory {
        let first = self.eval(first);
        let offset = match (self.layouts.shared.get(&array).copied(), self.kernel.buffer_extents(array)) {
            (Some(layout), [_, columns]) => {
                let bytes = layout.dtype().bytes();
                self.formula([first / *columns, first % *columns], |[row, col]| layout.offset(row, col).over(bytes))
            }
            _ => first,
        };
        let offset = self.in_slot(array, offset);
        self.at(shared, offset)
    }

    /// Where piece `piece` of this thread's elements lies in the inbox, of the tile of block `sender + 1`.
    fn piece_at(&mut self, exchange: &Exchange, sender: impl Into<Term>, piece: ValueId) -> Memory {
        let Exchange { pieces, holders, width, .. } = *exchange;
        let thread = self.compute_thread();
        self.at(exchange.inbox.array, (sender.into() * pieces + piece) * (holders * width) + thread * width)
    }

    /// The first register of a piece.
    fn piece_start(&mut self, exchange: &Exchange, layout: &Fragment, piece: ValueId) -> ValueId {
        self.formula([piece * exchange.width], |[first]| layout.held(first))
    }

    fn send(&mut self, exchange: &Exchange, layout: &Fragment, sender: ValueId) {
        self.unrolled("i", exchange.pieces, |l, piece| {
            let memory = l.piece_at(exchange, sender, piece);
            let start = l.piece_start(exchange, layout, piece);
            let (block, barrier) = (l.int(0), l.arrived(exchange.inbox));
            l.op(OpKind::ClusterStore { memory, block, local: exchange.local, start, width: exchange.width, barrier });
        });
    }

    fn take(&mut self, exchange: &Exchange, layout: &Fragment, op: ReduceOp, sender: u32) {
        let local = exchange.local;
        let part = self.out.local("part", self.out.program.locals[local].dtype, exchange.width);
        self.unrolled("i", exchange.pieces, |l, piece| {
            let memory = l.piece_at(exchange, sender, piece);
            l.vector_load(part, 0, memory, exchange.width);
            let start = l.piece_start(exchange, layout, piece);
            for element in 0..exchange.width {
                let (own, theirs) = (l.at(local, start + element), l.get(part, element));
                let mine = l.fetch(own);
                let value = l.combine(op, mine, theirs);
                l.store(own, value);
            }
        });
    }
}

/// How the threads of two blocks pass a tile.
struct Exchange {
    inbox: Inbox,
    /// The registers.
    local: LocalId,
    /// Elements of a piece, one transfer.
    width: u32,
    /// Pieces of a thread.
    pieces: u32,
    /// Threads that hold elements.
    holders: u32,
}
