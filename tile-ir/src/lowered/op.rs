//! Operations: structured, in the order in which a thread executes them.

use super::{BarrierRef, LocalId, MapId, Memory, MessageId, MmaAtom, RegId, SharedId, ValueId, WgmmaOperand};
use crate::ir::{AtomicOp, Dtype, Evict, ShuffleKind, SpanId, VoteKind};
use serde::{Deserialize, Serialize};

/// An operation and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Op {
    /// What it is.
    pub kind: OpKind,
    /// Where it comes from.
    pub span: SpanId,
}

/// What an operation is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OpKind {
    /// Declares a register; without a value it is uninitialised.
    Let {
        /// The register.
        reg: RegId,
        /// Its first value.
        value: Option<ValueId>,
    },
    /// Assigns a register.
    Set {
        /// The register.
        reg: RegId,
        /// Its new value.
        value: ValueId,
    },
    /// Declares a per-thread array, uninitialised from here.
    Local {
        /// The array.
        local: LocalId,
    },
    /// Marks a shared array uninitialised from here.
    Shared {
        /// The array.
        shared: SharedId,
    },
    /// Stores one element; nothing where the guard fails.
    Store {
        /// Where.
        memory: Memory,
        /// What.
        value: ValueId,
    },
    /// One transaction into a per-thread array; zeros where the guard fails. `width * element bytes` is 2, 4, 8 or
    /// 16 and the address is aligned to it.
    VectorLoad {
        /// The array.
        local: LocalId,
        /// First element in the array.
        start: ValueId,
        /// Where from.
        memory: Memory,
        /// Elements.
        width: u32,
    },
    /// One transaction from a per-thread array.
    VectorStore {
        /// Where to.
        memory: Memory,
        /// The array.
        local: LocalId,
        /// First element in the array.
        start: ValueId,
        /// Elements.
        width: u32,
    },
    /// One transaction from global to shared memory that goes on while the thread does: its data is there once the
    /// thread has waited for the group it is committed to. Where `from`'s guard fails, zeros are written; where `to`'s
    /// does, nothing happens. `width * element bytes` is 4, 8 or 16, and both addresses are aligned to it.
    AsyncCopy {
        /// Where to.
        to: Memory,
        /// Where from.
        from: Memory,
        /// Elements.
        width: u32,
    },
    /// Makes a group of the thread's asynchronous copies since the last commit; it may be empty.
    AsyncCommit,
    /// The thread waits until at most its `pending` newest groups are not complete. Other threads see the data after a
    /// barrier.
    AsyncWait {
        /// Groups that need not be complete.
        pending: u32,
    },
    /// One arrival at an mbarrier, once all asynchronous copies that the thread has issued are complete (sm_90): who waits for
    /// the phase sees their data. The thread goes on.
    AsyncArrive {
        /// Which. The arrival is one of those that it was initialised for.
        barrier: BarrierRef,
    },
    /// A conditional.
    If {
        /// The condition.
        cond: ValueId,
        /// Where it holds.
        then: Vec<Op>,
        /// Where it does not.
        otherwise: Vec<Op>,
    },
    /// `for (reg = start; reg < end; reg += step)`; `start`, `end` and `step` are evaluated once.
    For {
        /// The index, declared by the loop.
        reg: RegId,
        /// First value.
        start: ValueId,
        /// Bound, exclusive.
        end: ValueId,
        /// Step, at least 1.
        step: ValueId,
        /// Unrolling.
        unroll: Unroll,
        /// The body.
        body: Vec<Op>,
    },
    /// All threads of the block wait for each other; shared and global accesses before are visible after.
    Barrier,
    /// All threads of a warp wait for each other; their shared and global accesses before are visible after.
    WarpBarrier,
    /// Waits until the previous kernel of the stream is done and its writes are visible. Nothing where the launch was
    /// not made dependent.
    Wait,
    /// Lets the next kernel of the stream start, once every block has come here or ended. Only after [`OpKind::Wait`]:
    /// then what starts early starts after everything before the previous kernel is done.
    LaunchDependents,
    /// A lane exchange in the warp.
    Shuffle {
        /// The result.
        reg: RegId,
        /// Which.
        kind: ShuffleKind,
        /// This lane's value.
        value: ValueId,
        /// Lane mask or delta.
        lane: ValueId,
    },
    /// A vote in the warp.
    Vote {
        /// The result.
        reg: RegId,
        /// Which.
        kind: VoteKind,
        /// This lane's predicate.
        pred: ValueId,
    },
    /// An atomic read-modify-write; nothing (and an old value of 0) where the guard fails.
    Atomic {
        /// Which.
        op: AtomicOp,
        /// Where.
        memory: Memory,
        /// The operand.
        value: ValueId,
        /// The old value.
        old: Option<RegId>,
        /// Releases and acquires at device scope, instead of being relaxed: an addition to a u32 in global memory.
        ordered: bool,
    },
    // ---- matrices in registers (sm_80) ----
    /// `ldmatrix`: 8 x 8 matrices of 16-bit elements, one 32-bit word of each a lane. Lane `8 i + r` gives the address of
    /// row `r` of matrix `i` (16 bytes, aligned); a whole warp takes part.
    LoadMatrix {
        /// A u32 array.
        local: LocalId,
        /// Its first element of `count`.
        start: ValueId,
        /// Shared memory; the offset is this lane's row's. No guard.
        memory: Memory,
        /// Matrices: 1, 2 or 4.
        count: u32,
        /// Whether each is transposed on the way.
        transposed: bool,
    },
    /// `stmatrix` (sm_90): the inverse of `LoadMatrix`.
    StoreMatrix {
        /// Shared memory; the offset is this lane's row's. No guard.
        memory: Memory,
        /// A u32 array.
        local: LocalId,
        /// Its first element of `count`.
        start: ValueId,
        /// Matrices: 1, 2 or 4.
        count: u32,
        /// Whether each is transposed on the way.
        transposed: bool,
    },
    /// `movmatrix`: transposes an 8 x 8 matrix of 16-bit elements, of which each lane has one 32-bit word, as
    /// [`OpKind::LoadMatrix`] loads it; a whole warp takes part.
    TransposeMatrix {
        /// The result, a u32.
        reg: RegId,
        /// This lane's word.
        value: ValueId,
    },
    /// `mma.sync`: a product of a warp, in place in `acc`.
    Mma {
        /// Which.
        atom: MmaAtom,
        /// An f32 array and its first of 4 elements.
        acc: (LocalId, ValueId),
        /// A u32 (or, for tf32, f32) array and its first of 4.
        a: (LocalId, ValueId),
        /// A u32 (or, for tf32, f32) array and its first of 2.
        b: (LocalId, ValueId),
    },

    // ---- barriers that count arrivals and bytes (sm_90) ----
    /// Makes a barrier that completes a phase after so many arrivals. One thread.
    BarrierInit {
        /// Which.
        barrier: BarrierRef,
        /// Arrivals a phase, at least 1.
        arrivals: u32,
    },
    /// Makes this thread's initialised barriers visible to TMA and the cluster, before the barrier that
    /// lets others use them.
    FenceBarrierInit,
    /// One arrival.
    BarrierArrive {
        /// Which.
        barrier: BarrierRef,
        /// The block of the cluster whose barrier it is; this block's where `None`.
        cta: Option<ValueId>,
    },
    /// One arrival, and so many more bytes that this phase waits for.
    BarrierExpect {
        /// Which.
        barrier: BarrierRef,
        /// Bytes (`Index`).
        bytes: ValueId,
    },
    /// Waits until the phase of this parity has completed: 0 for the first. On a fresh barrier parity 1 passes at once.
    BarrierWait {
        /// Which.
        barrier: BarrierRef,
        /// 0 or 1 (`Index`).
        parity: ValueId,
    },

    // ---- bulk copies by TMA (sm_90) ----
    /// Copies a box of a tensor into shared memory, zeros where the box leaves the tensor; counts the whole box's bytes
    /// on the barrier when they have arrived. One thread.
    TensorLoad {
        /// The tensor and its box.
        map: MapId,
        /// The box's first element on each axis (`Index`), innermost first; may be outside.
        coordinates: Vec<ValueId>,
        /// Where to.
        shared: SharedId,
        /// The box's first element in the array (`Index`).
        offset: ValueId,
        /// The barrier.
        barrier: BarrierRef,
        /// The blocks of the cluster that receive it, a bit each (`Index`): the same offset and barrier in each.
        multicast: Option<ValueId>,
        /// How long to keep it cached.
        evict: Option<Evict>,
    },
    /// Copies a box from shared memory into a tensor, or adds it; what leaves the tensor is dropped. Part of this thread's current
    /// bulk group. One thread.
    TensorStore {
        /// The tensor and its box.
        map: MapId,
        /// The box's first element on each axis (`Index`), innermost first.
        coordinates: Vec<ValueId>,
        /// Where from.
        shared: SharedId,
        /// The box's first element in the array (`Index`).
        offset: ValueId,
        /// Whether every element is added to the tensor's, atomically, instead of replacing it: f32.
        adds: bool,
        /// How long to keep it cached.
        evict: Option<Evict>,
    },
    /// Copies bytes that lie together; counts them on the barrier. Both addresses and the count are multiples of 16.
    /// One thread.
    BulkLoad {
        /// Global memory. No guard.
        memory: Memory,
        /// Where to; the same element type.
        shared: SharedId,
        /// The first element in the array (`Index`).
        offset: ValueId,
        /// Bytes (`Index`).
        bytes: ValueId,
        /// The barrier.
        barrier: BarrierRef,
        /// How long to keep it cached.
        evict: Option<Evict>,
    },
    /// One transaction from a per-thread array to a block of the cluster, at the same place of the same array as it has here,
    /// that goes on while the thread does: counts its bytes on that block's barrier when they are there. `width * element
    /// bytes` is 4, 8 or 16, of elements of 4 bytes, and the address is aligned to it.
    ClusterStore {
        /// Shared memory. No guard.
        memory: Memory,
        /// The number in the cluster of the block that receives it (`Index`).
        block: ValueId,
        /// The array.
        local: LocalId,
        /// First element in the array.
        start: ValueId,
        /// Elements.
        width: u32,
        /// The receiving block's barrier.
        barrier: BarrierRef,
    },
    /// Closes this thread's current bulk group.
    BulkCommit,
    /// Waits until at most `pending` of this thread's latest bulk groups are unfinished.
    BulkWait {
        /// How many.
        pending: u32,
        /// Whether it is enough that their sources have been read.
        read: bool,
    },
    /// Makes this thread's accesses to shared memory visible to TMA and the tensor cores.
    FenceProxyAsync,
    /// Asks for a tensor map to be cached. One thread.
    PrefetchMap {
        /// Which.
        map: MapId,
    },

    // ---- roles and clusters (sm_90) ----
    /// A barrier of some of the block's warps: `threads` of them, this warp included.
    NamedBarrier {
        /// 1 to 15; 0 is `Barrier`'s.
        id: u32,
        /// A multiple of 32.
        threads: u32,
        /// Whether to go on without waiting.
        arrive: bool,
    },
    /// All threads of the cluster wait for each other.
    ClusterBarrier {
        /// Whether it orders no memory accesses but the barriers that `FenceBarrierInit` covers.
        relaxed: bool,
    },
    /// The first half of a relaxed [`OpKind::ClusterBarrier`]: this thread is there, and goes on.
    ClusterArrive,
    /// The second half: waits until all threads of the cluster have come to their `ClusterArrive`.
    ClusterWait,
    /// Gives registers of a warpgroup back, or takes some, waiting until there are enough. Every warp of it.
    SetRegisters {
        /// A thread's registers from here: 24 to 256, a multiple of 8.
        count: u32,
        /// Whether that is more than before.
        increase: bool,
    },

    // ---- products of a warpgroup (sm_90a) ----
    /// Orders register accesses before the products that follow. Every warp of the warpgroup, as for all below.
    WgmmaFence,
    /// Starts `acc[64, n] (+)= a[64, k] b[k, n]`, k being 32 bytes of an operand. `acc` and `a`, where it is in
    /// registers, are the product's until a wait covers it.
    Wgmma {
        /// An f32 array.
        acc: LocalId,
        /// Its first of `n / 2` elements.
        start: ValueId,
        /// Columns: a multiple of 8, 8 to 256.
        n: u32,
        /// Rows of `a` that are the tile's, from the first: 64, or fewer, a multiple of 8. Rows behind them are read from
        /// wherever they would lie, and what `acc` has of them means nothing.
        rows: u32,
        /// The operands' type: `f16`, `bf16`, or `f32` for tf32.
        dtype: Dtype,
        /// The left operand.
        a: WgmmaOperand,
        /// The right operand's descriptor (`Wide`).
        b: ValueId,
        /// Whether to add to `acc` (`bool`); else it is overwritten.
        accumulate: ValueId,
        /// Whether a and b are stored with m and n innermost (16-bit types only).
        transposed: [bool; 2],
    },
    /// Closes this warpgroup's current group of products.
    WgmmaCommit,
    /// Waits until at most `pending` of the latest groups are unfinished.
    WgmmaWait {
        /// How many, 0 to 7.
        pending: u32,
    },
    /// Keeps the compiler from moving accesses to these registers across this place.
    Pin {
        /// An f32 array.
        local: LocalId,
    },
    /// Where a `parallel` loop stands, and which of its elements is done: for the checked simulator, to which they are
    /// unordered. Nothing on the device.
    Elements(Elements),
    /// Keeps the compiler from moving memory accesses across this place: what stands above may free its registers before
    /// what stands below needs them. Orders nothing on the device.
    Order,

    /// `device_print`.
    Print {
        /// The line.
        message: MessageId,
        /// Its arguments.
        args: Vec<ValueId>,
    },
    /// `device_assert`.
    Assert {
        /// What must hold.
        cond: ValueId,
        /// What to say where it does not.
        message: MessageId,
    },
}

/// A place in a `parallel` loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Elements {
    /// It begins.
    Begin,
    /// From here on, another element.
    Next,
    /// From here on, the element of this number (`Index`), the same for the threads of a warp; it may be come by again.
    At(ValueId),
    /// It ends.
    End,
}

/// How a loop is unrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unroll {
    /// Left to the CUDA compiler.
    Auto,
    /// Fully.
    Full,
    /// By this factor.
    By(u32),
}
