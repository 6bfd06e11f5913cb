//! What every operation is made of: the one table that everything generic over operations reads, and where a new operation has its
//! row. Beside it a new operation has its text (`text/operation.rs`, and `text/parse/program`, which reads it back), its CUDA C
//! (`emit/cuda/operation.rs`) and what the checked simulator does (`sim/checked/compile`): these matches have no default.

use super::{
    BarrierRef, LocalId, MapId, Memory, MessageId, MmaAtom, Op, OpKind, RegId, SharedId, ValueId, WgmmaOperand,
};
use crate::ir::AccessMode;

/// How much of memory one thread accesses at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessWidth {
    /// So many elements.
    Elements(u32),
    /// A row of 16 bytes, in the first eight lanes for each of so many 8 x 8 matrices.
    Matrices(u32),
    /// Bytes that lie together, as many as a value of the operation says.
    Bytes,
}

/// What an operation is in the protocol between threads, asynchronous copies and products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Starts something that goes on while the thread does: a copy, a product.
    Starts,
    /// Closes a group of what was started.
    Commits,
    /// Waits for a phase of an mbarrier, for groups, for registers or for the previous kernel.
    Waits,
    /// Tells others something without waiting for them: makes an mbarrier or arrives at one, lets the next kernel start.
    Arrives,
    /// Makes accesses visible, or orders them.
    Fences,
    /// Waits together with other lanes of the warp.
    MeetsWarp,
    /// Waits together with other warps of the block or of its cluster.
    Meets,
}

/// An operation's row of the table.
struct Row<P> {
    name: &'static str,
    protocol: Option<Protocol>,
    parts: Vec<P>,
}

fn row<P>(name: &'static str, protocol: impl Into<Option<Protocol>>, parts: Vec<P>) -> Row<P> {
    Row { name, protocol: protocol.into(), parts }
}

/// The table, once for parts to read and once for parts to change.
macro_rules! table {
    ($(#[$doc:meta])* $Part:ident, $row:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $Part<'a> {
            /// A value that the operation evaluates.
            Value(&'a $($mut)? ValueId),
            /// An address that each thread accesses.
            Memory(&'a $($mut)? Memory, AccessMode, AccessWidth),
            /// Elements of a per-thread array: the first, and how many.
            Local(&'a $($mut)? LocalId, &'a $($mut)? ValueId, u32, AccessMode),
            /// Elements of a shared array, from the first on, accessed by TMA.
            Shared(&'a $($mut)? SharedId, &'a $($mut)? ValueId, AccessMode),
            /// A tensor by its map: what TMA does to the tensor's elements, if anything.
            Map(&'a $($mut)? MapId, Option<AccessMode>),
            /// An mbarrier that is used.
            Barrier(&'a $($mut)? BarrierRef),
            /// What a thread says.
            Message(&'a $($mut)? MessageId),
            /// A register that is declared in the list that the operation stands in.
            Declares(&'a $($mut)? RegId),
            /// A register that is assigned.
            Sets(&'a $($mut)? RegId),
            /// A per-thread array that is declared.
            DeclaresLocal(&'a $($mut)? LocalId),
            /// A shared array that is uninitialised from here.
            DeclaresShared(&'a $($mut)? SharedId),
            /// A per-thread array that stays in its registers.
            Pins(&'a $($mut)? LocalId),
            /// Operations inside, and the register that is declared for them: a loop's index.
            Body(&'a $($mut)? Vec<Op>, Option<&'a $($mut)? RegId>),
        }

        impl OpKind {
            /// In the order in which the parts are evaluated and accessed.
            fn $row(&$($mut)? self) -> Row<$Part<'_>> {
                use {AccessMode::*, AccessWidth::*, Protocol::*, $Part::*};
                match self {
                    OpKind::Let { reg, value } => {
                        row("let", None, value.into_iter().map(Value).chain([Declares(reg)]).collect())
                    }
                    OpKind::Set { reg, value } => row("set", None, vec![Value(value), Sets(reg)]),
                    OpKind::Local { local } => row("local", None, vec![DeclaresLocal(local)]),
                    OpKind::Shared { shared } => row("shared", None, vec![DeclaresShared(shared)]),
                    OpKind::Store { memory, value } => {
                        row("store element", None, vec![Value(value), Memory(memory, Write, Elements(1))])
                    }
                    OpKind::VectorLoad { local, start, memory, width } => {
                        let from = Memory(memory, Read, Elements(*width));
                        row("load", None, vec![from, Local(local, start, *width, Write)])
                    }
                    OpKind::VectorStore { memory, local, start, width } => {
                        let to = Memory(memory, Write, Elements(*width));
                        row("store", None, vec![to, Local(local, start, *width, Read)])
                    }
                    OpKind::AsyncCopy { to, from, width } => {
                        let (from, to) = (Memory(from, Read, Elements(*width)), Memory(to, Write, Elements(*width)));
                        row("async copy", Starts, vec![from, to])
                    }
                    OpKind::AsyncCommit => row("async commit", Commits, vec![]),
                    OpKind::AsyncWait { pending: _ } => row("async wait", Waits, vec![]),
                    OpKind::AsyncArrive { barrier } => row("async arrive", Arrives, vec![Barrier(barrier)]),
                    OpKind::If { cond, then, otherwise } => {
                        row("if", None, vec![Value(cond), Body(then, None), Body(otherwise, None)])
                    }
                    OpKind::For { reg, start, end, step, unroll: _, body } => {
                        row("for", None, vec![Value(start), Value(end), Value(step), Body(body, Some(reg))])
                    }
                    OpKind::Barrier => row("barrier", Meets, vec![]),
                    OpKind::WarpBarrier => row("warp barrier", MeetsWarp, vec![]),
                    OpKind::Wait => row("wait for the previous kernel", Waits, vec![]),
                    OpKind::LaunchDependents => row("launch dependents", Arrives, vec![]),
                    OpKind::Shuffle { reg, kind: _, value, lane } => {
                        row("shuffle", None, vec![Value(value), Value(lane), Declares(reg)])
                    }
                    OpKind::Vote { reg, kind: _, pred } => row("vote", None, vec![Value(pred), Declares(reg)]),
                    OpKind::Atomic { op: _, memory, value, old, ordered: _ } => {
                        let parts = [Value(value), Memory(memory, Atomic, Elements(1))];
                        row("atomic", None, parts.into_iter().chain(old.into_iter().map(Declares)).collect())
                    }
                    OpKind::LoadMatrix { local, start, memory, count, transposed: _ } => {
                        let from = Memory(memory, Read, Matrices(*count));
                        row("load matrices", None, vec![from, Local(local, start, *count, Write)])
                    }
                    OpKind::StoreMatrix { memory, local, start, count, transposed: _ } => {
                        let to = Memory(memory, Write, Matrices(*count));
                        row("store matrices", None, vec![to, Local(local, start, *count, Read)])
                    }
                    OpKind::TransposeMatrix { reg, value } => {
                        row("transpose matrix", None, vec![Value(value), Declares(reg)])
                    }
                    OpKind::Mma { atom: _, acc: (acc, at), a: (a, a_at), b: (b, b_at) } => {
                        let (a, b) = (Local(a, a_at, MmaAtom::A, Read), Local(b, b_at, MmaAtom::B, Read));
                        row("mma", None, vec![Local(acc, at, MmaAtom::ACC, Update), a, b])
                    }
                    OpKind::BarrierInit { barrier, arrivals: _ } => row("init mbarrier", Arrives, vec![Barrier(barrier)]),
                    OpKind::FenceBarrierInit => row("fence barrier init", Fences, vec![]),
                    OpKind::BarrierArrive { barrier, cta } => {
                        row("arrive", Arrives, [Barrier(barrier)].into_iter().chain(cta.into_iter().map(Value)).collect())
                    }
                    OpKind::BarrierExpect { barrier, bytes } => {
                        row("arrive and expect", Arrives, vec![Barrier(barrier), Value(bytes)])
                    }
                    OpKind::BarrierWait { barrier, parity } => {
                        row("wait for mbarrier", Waits, vec![Barrier(barrier), Value(parity)])
                    }
                    OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict: _ } => {
                        let place = [Map(map, Some(Read)), Shared(shared, offset, Write), Barrier(barrier)];
                        let values = coordinates.into_iter().map(Value);
                        row("tensor load", Starts, values.chain(place).chain(multicast.into_iter().map(Value)).collect())
                    }
                    OpKind::TensorStore { map, coordinates, shared, offset, adds, evict: _ } => {
                        let place = [Shared(shared, offset, Read), Map(map, Some(if *adds { Atomic } else { Write }))];
                        row("tensor store", Starts, coordinates.into_iter().map(Value).chain(place).collect())
                    }
                    OpKind::BulkLoad { memory, shared, offset, bytes, barrier, evict: _ } => {
                        let (from, to) = (Memory(memory, Read, Bytes), Shared(shared, offset, Write));
                        row("bulk load", Starts, vec![from, to, Value(bytes), Barrier(barrier)])
                    }
                    OpKind::ClusterStore { memory, block, local, start, width, barrier } => {
                        let (to, from) = (Memory(memory, Write, Elements(*width)), Local(local, start, *width, Read));
                        row("cluster store", Starts, vec![to, Value(block), from, Barrier(barrier)])
                    }
                    OpKind::BulkCommit => row("bulk commit", Commits, vec![]),
                    OpKind::BulkWait { pending: _, read: _ } => row("bulk wait", Waits, vec![]),
                    OpKind::FenceProxyAsync => row("fence proxy async", Fences, vec![]),
                    OpKind::PrefetchMap { map } => row("prefetch", None, vec![Map(map, None)]),
                    OpKind::NamedBarrier { id: _, threads: _, arrive } => {
                        row("named barrier", if *arrive { Arrives } else { Meets }, vec![])
                    }
                    OpKind::ClusterBarrier { relaxed: false } => row("cluster barrier", Meets, vec![]),
                    OpKind::ClusterBarrier { relaxed: true } => row("cluster barrier relaxed", Meets, vec![]),
                    OpKind::ClusterArrive => row("cluster arrive", Arrives, vec![]),
                    OpKind::ClusterWait => row("cluster wait", Waits, vec![]),
                    OpKind::SetRegisters { count: _, increase: _ } => row("set registers", Waits, vec![]),
                    OpKind::WgmmaFence => row("wgmma fence", Fences, vec![]),
                    OpKind::Wgmma { acc, start, n, rows: _, dtype: _, a, b, accumulate, transposed: _ } => {
                        let a = match a {
                            WgmmaOperand::Descriptor(a) => Value(a),
                            WgmmaOperand::Registers(words, start) => Local(words, start, 4, Read),
                        };
                        row("wgmma", Starts, vec![Local(acc, start, *n / 2, Update), a, Value(b), Value(accumulate)])
                    }
                    OpKind::WgmmaCommit => row("wgmma commit", Commits, vec![]),
                    OpKind::WgmmaWait { pending: _ } => row("wgmma wait", Waits, vec![]),
                    OpKind::Pin { local } => row("pin", None, vec![Pins(local)]),
                    OpKind::Elements(super::Elements::Begin) => row("elements begin", None, vec![]),
                    OpKind::Elements(super::Elements::Next) => row("elements next", None, vec![]),
                    OpKind::Elements(super::Elements::At(number)) => row("elements at", None, vec![Value(number)]),
                    OpKind::Elements(super::Elements::End) => row("elements end", None, vec![]),
                    OpKind::Order => row("order", None, vec![]),
                    OpKind::Print { message, args } => {
                        row("print", None, args.into_iter().map(Value).chain([Message(message)]).collect())
                    }
                    OpKind::Assert { cond, message } => row("assert", None, vec![Value(cond), Message(message)]),
                }
            }
        }
    };
}

table! {
    /// One thing that an operation is made of, and its role.
    Part, row
}

table! {
    /// One thing that an operation is made of, and its role, to change it. Plain numbers among them are copies.
    PartMut, row_mut, mut
}

impl OpKind {
    /// A name for messages and tables: all of its text, where it has no operands.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// What it is in the protocol between threads, copies and products: `None` where it neither waits for others nor is waited for.
    pub fn protocol(&self) -> Option<Protocol> {
        self.row().protocol
    }

    /// What it is made of, those of operations inside it excepted, in the order in which they are evaluated and accessed.
    pub fn parts(&self) -> Vec<Part<'_>> {
        self.row().parts
    }

    /// What it is made of, to change it.
    pub fn parts_mut(&mut self) -> Vec<PartMut<'_>> {
        self.row_mut().parts
    }
}
