//! The lowered program: explicit addresses, guards, vectors, shuffles and barriers. The CUDA emitter prints it and the
//! checked simulator executes it; neither decides anything.
//!
//! A [`Program`] is one instance for one target. Values are trees in one table (so the CUDA reads as it was written);
//! operations are structured. Offsets are in elements. Index values are 32-bit signed ([`ValueType::Index`]) where a
//! launch check bounds them, or 64-bit ([`ValueType::Wide`]).

mod host;
mod matrix;
mod transfer;

pub use host::{Check, CheckKind, HostExpr, HostValues, fold};
pub use matrix::{MmaAtom, WGMMA_M, WgmmaOperand, wgmma_k};
pub use transfer::{
    BARRIER_BYTES, BarrierArray, BarrierId, BarrierRef, MapId, Promotion, RolesRegisters, Special, TensorMap,
};

use crate::ir::{
    AtomicOp, BinaryOp, Class, Dtype, Evict, MathFn, ParamId, PrimaryMap, ShuffleKind, Source, Span, SpanId, Target,
    UnaryOp, VoteKind,
};
use serde::{Deserialize, Serialize};

crate::ir::entities! {
    /// A value.
    ValueId = "%";
    /// A register: a scalar variable of a thread.
    RegId = "r";
    /// A per-thread array.
    LocalId = "l";
    /// A block-shared array.
    SharedId = "sh";
}

/// One instance of a kernel for one target, ready to print or execute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The symbol: the kernel's name with its instance.
    pub name: String,
    /// What it is compiled for.
    pub target: Target,
    /// C parameters, in order.
    pub params: Vec<Parameter>,
    /// The tensors among the kernel's parameters, in order of parameters.
    pub tensors: Vec<TensorInfo>,
    /// Names of the dynamic dims, by `DimId` index.
    pub dims: Vec<String>,
    /// How it is launched.
    pub launch: Launch,
    /// How the copy engine sees tensors.
    pub tensor_maps: PrimaryMap<MapId, TensorMap>,
    /// Shared arrays, placed.
    pub shared: PrimaryMap<SharedId, SharedArray>,
    /// Arrays of barriers, placed in shared memory.
    pub barriers: PrimaryMap<BarrierId, BarrierArray>,
    /// Bytes of shared memory a block uses (static and dynamic together).
    pub shared_bytes: u32,
    /// Per-thread arrays.
    pub locals: PrimaryMap<LocalId, LocalArray>,
    /// Registers.
    pub regs: PrimaryMap<RegId, Reg>,
    /// Values.
    pub values: PrimaryMap<ValueId, Value>,
    /// The body.
    pub body: Vec<Op>,
    /// What the lowering chose, kept, or fell back to, for `explain`.
    pub remarks: Vec<Remark>,
    /// Source ranges; not part of the program's identity.
    pub spans: PrimaryMap<SpanId, Span>,
    /// Source text; not part of the program's identity.
    pub source: Source,
}

impl Program {
    /// The element type of what an address is in.
    pub fn dtype(&self, space: Space) -> Option<Dtype> {
        match space {
            Space::Global(param) => self.tensors.iter().find(|t| t.param == param).map(|t| t.dtype),
            Space::Shared(shared) => self.shared.get(shared).map(|s| s.dtype),
            Space::Local(local) => self.locals.get(local).map(|l| l.dtype),
        }
    }
}

/// A C parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name in C.
    pub name: String,
    /// Its type as a value (pointers: `Wide`).
    pub ty: ValueType,
    /// What the launcher passes.
    pub kind: ParameterKind,
}

/// What the launcher passes for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterKind {
    /// The tensor's device address (8 bytes).
    Pointer(ParamId),
    /// A dim's value, as i32.
    Dim(crate::ir::DimId),
    /// A tensor's stride on this axis, in elements, as i32.
    Stride(ParamId, u8),
    /// A scalar of the kernel: `usize` as i32, bool as u8, else the dtype.
    Scalar(ParamId),
    /// A tensor map, 128 bytes at a multiple of 64, made at launch from the tensor's address, extents and strides.
    TensorMap(MapId),
    /// Slots of a ring that a producer may fill before [`OpKind::Wait`], i32: this many where the launch may begin before
    /// the previous kernel is done, 0 where it may not.
    Ahead(u32),
}

/// A tensor as the program sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// Which parameter.
    pub param: ParamId,
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<HostExpr>,
    /// Whether the kernel may write it. Tensors that are not written are read through the read-only path.
    pub mutable: bool,
    /// Whether it is read once, so that loads of it leave no copy in L1.
    pub stream: bool,
    /// Whether it may be read before [`OpKind::Wait`]: the previous kernel of the stream does not write it.
    pub independent: bool,
}

/// How a program is launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Blocks on x, y, z.
    pub grid: [HostExpr; 3],
    /// Threads on x, y, z.
    pub threads: [u32; 3],
    /// `__launch_bounds__`'s second argument.
    pub min_blocks: Option<u32>,
    /// Blocks of a cluster on x, y, z; the grid is a multiple of it on each axis.
    pub cluster: [u32; 3],
    /// How registers are shared out between roles, where they are.
    pub registers: Option<RolesRegisters>,
    /// Whether it may be launched before the previous kernel of its stream is done: every thread runs an
    /// [`OpKind::Wait`], before it touches anything but independent tensors.
    pub dependent: bool,
    /// The alignment class that it is compiled for.
    pub class: Class,
    /// What must hold, in order of reporting.
    pub checks: Vec<Check>,
}

impl Launch {
    /// Blocks of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().product()
    }
}

/// A shared array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedArray {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Elements, of all slots together.
    pub len: u32,
    /// How many slots it has, of equally many elements, one behind the other: a pipelined loop fills one while others
    /// are read. 1 for any other array.
    pub slots: u32,
    /// Byte offset in the block's shared memory.
    pub offset: u32,
    /// Alignment of the offset, bytes.
    pub align: u32,
    /// Whether the compiler made it (reduction scratch).
    pub scratch: bool,
}

/// A per-thread array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalArray {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Elements.
    pub len: u32,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reg {
    /// Its name, unique in the program and a legal C identifier.
    pub name: String,
    /// Its type.
    pub ty: ValueType,
    /// Whether it is assigned after its declaration.
    pub mutable: bool,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValueType {
    /// A 32-bit signed index.
    Index,
    /// A 64-bit signed index.
    Wide,
    /// An element value.
    Element(Dtype),
}

impl ValueType {
    /// The type of conditions.
    pub const BOOL: ValueType = ValueType::Element(Dtype::Bool);
}

/// A value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// What it is.
    pub kind: ValueKind,
    /// Its type.
    pub ty: ValueType,
    /// Where it comes from.
    pub span: SpanId,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ValueKind {
    /// An integer constant (index, i32, u32; bool as 0 and 1).
    Int(i64),
    /// A floating-point constant, already rounded to its dtype.
    Float(f64),
    /// A scalar C parameter, by position in `Program::params`.
    Param(u32),
    /// `threadIdx` on an axis.
    Thread(u8),
    /// `blockIdx` on an axis.
    Block(u8),
    /// A register's current value.
    Reg(RegId),
    /// One operand.
    Unary(UnaryOp, ValueId),
    /// Two operands of one type. `And`/`Or` short-circuit. Index arithmetic never wraps; i32/u32 arithmetic wraps;
    /// f16 and bf16 are computed in f32 and rounded.
    Binary(BinaryOp, ValueId, ValueId),
    /// An elementwise function.
    Math(MathFn, Vec<ValueId>),
    /// Both operands are evaluated.
    Select(ValueId, ValueId, ValueId),
    /// One operand is evaluated.
    Choose(ValueId, ValueId, ValueId),
    /// Conversion to the value's type.
    Cast(ValueId),
    /// A load of one element; 0 where the guard fails.
    Load(Memory),
    /// The thread's place beyond `threadIdx` and `blockIdx`.
    Special(Special),
    /// Two f32, low half first, rounded to a 16-bit float and packed into a u32; or two of that 16-bit float as they are.
    Pack(Dtype, ValueId, ValueId),
    /// The low (`false`) or high half of a u32 that holds two of a 16-bit float: as f32, or as it is, by the value's type.
    Unpack(Dtype, ValueId, bool),
    /// A matrix descriptor for `Wgmma`, `Wide`: `bits | (address & 0x3FFFF) >> 4`, where the address is the array's in
    /// shared memory. Offsets are added to it in units of 16 bytes.
    Descriptor {
        /// The array.
        shared: SharedId,
        /// The fields beside the address: leading and stride offsets, swizzle.
        bits: u64,
    },
}

/// An address: one element, or the first of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Which array.
    pub space: Space,
    /// Offset in elements, `Index` or `Wide`.
    pub offset: ValueId,
    /// Whether the access happens.
    pub guard: Option<Guard>,
    /// The access as the author wrote it.
    pub span: SpanId,
}

/// What an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Space {
    /// A tensor.
    Global(ParamId),
    /// A shared array.
    Shared(SharedId),
    /// A per-thread array.
    Local(LocalId),
}

/// A predicate on an access.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// The access happens where this holds.
    pub cond: ValueId,
    /// Why it is there.
    pub reason: GuardReason,
}

/// Why an access is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardReason {
    /// The author asked for clipping (`masked`, a tile copy).
    Masked,
    /// A plain access that could not be proven in bounds. Where it fails, the program is wrong (TK0302).
    Unproven,
}

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
    /// The same for a warp.
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
    /// Makes this thread's initialised barriers visible to the copy engine and the cluster, before the barrier that
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

    // ---- bulk copies by the copy engine (sm_90) ----
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
    /// Copies a box from shared memory into a tensor; what leaves the tensor is dropped. Part of this thread's current
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
    /// Makes this thread's accesses to shared memory visible to the copy engine and the tensor cores.
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
    /// Keeps the compiler from moving memory accesses across this place: what stands above may free its registers before
    /// what stands below needs them. Orders nothing on the device.
    Order,

    /// `device_print`: simulators only.
    Print {
        /// The text, with `{}` for each argument.
        format: String,
        /// The arguments.
        args: Vec<ValueId>,
    },
    /// `device_assert`: simulators only.
    Assert {
        /// What must hold.
        cond: ValueId,
        /// What to say where it does not.
        message: String,
    },
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

/// Something the lowering wants known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// What kind.
    pub kind: RemarkKind,
    /// In the author's words.
    pub text: String,
    /// Where.
    pub span: SpanId,
}

/// What a remark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemarkKind {
    /// A guard that remains.
    Guard,
    /// A lesser form was used.
    Fallback,
    /// A choice the compiler made.
    Choice,
    /// A check postponed to the launch.
    LaunchCheck,
}
