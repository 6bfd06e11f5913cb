//! The bytecode: what a warp executes. Operands are slots of 32 lanes; control flow is jumps and a mask stack.

use super::AccessKind;
use crate::ir::{AtomicOp, BinaryOp, Dtype, FloatFormat, MathFn, ShuffleKind, SpanId, UnaryOp, VoteKind};
use crate::lowered::{BarrierId, GuardReason, MapId, RegId, SharedId, Space, ValueType};

/// A slot of a warp: one value a lane (see [`super::lanes`]). Registers come first, then presets, then temporaries.
pub(super) type Slot = u32;
/// An instruction's index.
pub(super) type Pc = u32;

/// A compiled program.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub instrs: Vec<Instr>,
    /// Where each instruction comes from.
    pub spans: Vec<SpanId>,
    pub sites: Vec<Site>,
    /// Indices that guards test for being negative.
    pub below: Vec<(Slot, SpanId)>,
    pub formats: Vec<Format>,
    pub messages: Vec<String>,
    /// Values of the slots from `regs` on that never change while a block runs.
    pub presets: Vec<Preset>,
    /// Sets of the author's tiles that an effect belongs to, by position in `Program::tiles`; the first is empty.
    pub scopes: Vec<Vec<u32>>,
    /// How many registers, hence slots that hold them.
    pub regs: u32,
    /// How many slots in all.
    pub slots: u32,
    /// Elements of each local array.
    pub locals: Vec<u32>,
    /// How many shared arrays.
    pub shared: u32,
    pub boxes: Vec<BoxCopy>,
    pub bulks: Vec<BulkCopy>,
    pub cluster_stores: Vec<ClusterStore>,
    pub mmas: Vec<WarpProduct>,
    pub products: Vec<GroupProduct>,
    /// Whether anything happens beside the threads: barriers, TMA, warpgroup products.
    pub agents: bool,
}

/// A barrier of the program: its array and the slot of its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct BarrierPlace {
    pub array: BarrierId,
    pub index: Slot,
}

/// A box copied by TMA.
#[derive(Debug)]
pub(super) struct BoxCopy {
    pub map: MapId,
    pub coordinates: Vec<Slot>,
    pub shared: SharedId,
    pub offset: Slot,
    /// For loads.
    pub barrier: Option<BarrierPlace>,
    pub multicast: Option<Slot>,
    /// Sites of the tensor's and the array's side.
    pub sites: [u32; 2],
}

/// Bytes that lie together, copied by TMA.
#[derive(Debug)]
pub(super) struct BulkCopy {
    pub from: Slot,
    pub shared: SharedId,
    pub offset: Slot,
    pub bytes: Slot,
    pub barrier: BarrierPlace,
    pub sites: [u32; 2],
}

/// A store into another block's shared memory.
#[derive(Debug)]
pub(super) struct ClusterStore {
    pub shared: SharedId,
    pub offset: Slot,
    /// The receiving block's number in the cluster.
    pub block: Slot,
    pub from: LocalPart,
    /// Elements.
    pub width: u32,
    pub barrier: BarrierPlace,
    /// What it writes.
    pub site: u32,
}

/// A part of a per-thread array: its number, the slot of its first element, and a site that names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalPart {
    pub local: u32,
    pub start: Slot,
    pub site: u32,
}

/// A product of a warp.
#[derive(Debug)]
pub(super) struct WarpProduct {
    /// What is multiplied; binary32 is read as tf32.
    pub format: FloatFormat,
    pub acc: LocalPart,
    pub a: LocalPart,
    pub b: LocalPart,
}

/// A product of a warpgroup.
#[derive(Debug)]
pub(super) struct GroupProduct {
    pub acc: LocalPart,
    pub n: u32,
    /// Rows that are the tile's, of 64.
    pub rows: u32,
    /// The operands' element type.
    pub dtype: Dtype,
    /// What is multiplied; binary32 is read as tf32.
    pub format: FloatFormat,
    pub a: GroupOperand,
    pub b: Slot,
    pub accumulate: Slot,
    pub transposed: [bool; 2],
    /// Sites of what a and b read.
    pub sites: [u32; 2],
}

/// A left operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum GroupOperand {
    Descriptor(Slot),
    Registers(LocalPart),
}

impl Code {
    /// Whether a slot is a constant, parameter or index of the launch.
    pub fn is_preset(&self, slot: Slot) -> bool {
        (self.regs..self.regs + self.presets.len() as u32).contains(&slot)
    }
}

/// What a preset slot holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Preset {
    /// One number in every lane.
    Constant(i64),
    /// A scalar parameter, by position in `Program::params`, of this type.
    Param(u32, ValueType),
    /// `threadIdx`.
    Thread(u8),
    /// `blockIdx`.
    Block(u8),
    /// The warp's number in its block.
    Warp,
    Lane,
    /// The block's number in its cluster.
    ClusterRank,
    /// `gridDim`.
    Grid(u8),
}

/// A memory access of the program.
#[derive(Debug)]
pub(super) struct Site {
    pub space: Space,
    pub dtype: Dtype,
    pub kind: AccessKind,
    /// Elements a lane.
    pub width: u32,
    pub guard: Option<GuardReason>,
    /// Whether it may only happen after a wait for the previous kernel.
    pub dependent: bool,
    /// The tiles in whose work it happens, by position in [`Code::scopes`].
    pub scope: u32,
    /// The access as the author wrote it.
    pub span: SpanId,
    /// Where its code begins.
    pub pc: Pc,
}

/// A `device_print`.
#[derive(Debug)]
pub(super) struct Format {
    pub text: String,
    /// As a site's.
    pub scope: u32,
    pub args: Vec<(Slot, ValueType)>,
}

/// An instruction. All act on the active lanes alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instr {
    // ---- values ----
    /// Index arithmetic; reports what leaves the range, unless `quiet`.
    IndexBinary {
        op: BinaryOp,
        wide: bool,
        quiet: bool,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    IndexCompare {
        op: BinaryOp,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    FloatBinary {
        op: BinaryOp,
        dtype: Dtype,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    FloatCompare {
        op: BinaryOp,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    IntBinary {
        op: BinaryOp,
        dtype: Dtype,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    IntCompare {
        op: BinaryOp,
        dtype: Dtype,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    Unary {
        op: UnaryOp,
        dtype: Dtype,
        dst: Slot,
        a: Slot,
    },
    Math {
        function: MathFn,
        dtype: Dtype,
        dst: Slot,
        args: [Slot; 3],
    },
    Select {
        dst: Slot,
        cond: Slot,
        a: Slot,
        b: Slot,
    },
    Cast {
        from: ValueType,
        to: ValueType,
        quiet: bool,
        dst: Slot,
        a: Slot,
    },
    Copy {
        dst: Slot,
        src: Slot,
    },
    /// Reports lanes whose register is uninitialised.
    CheckReg {
        reg: RegId,
    },
    Assign {
        reg: RegId,
        src: Slot,
    },
    Declare {
        reg: RegId,
    },
    DeclareLocal {
        local: u32,
    },
    DeclareShared {
        shared: SharedId,
    },
    /// A `parallel` loop begins, or ends.
    Elements {
        begins: bool,
    },
    /// Another element of it, by its number where it is come by several times.
    Element {
        number: Option<Slot>,
    },

    // ---- memory ----
    Load {
        site: u32,
        offset: Slot,
        dst: Slot,
    },
    Store {
        site: u32,
        offset: Slot,
        value: Slot,
    },
    VectorLoad {
        site: u32,
        offset: Slot,
        local: u32,
        start: Slot,
    },
    VectorStore {
        site: u32,
        offset: Slot,
        local: u32,
        start: Slot,
    },
    /// What a vector load gives where its guard fails.
    VectorZero {
        site: u32,
        local: u32,
        start: Slot,
    },
    Atomic {
        op: AtomicOp,
        /// It releases and acquires.
        ordered: bool,
        site: u32,
        offset: Slot,
        value: Slot,
        old: Slot,
    },
    /// Issues an asynchronous copy: sites and offsets of its two sides. Without a source, of zeros.
    AsyncCopy {
        to: (u32, Slot),
        from: Option<(u32, Slot)>,
    },
    AsyncCommit,
    AsyncWait {
        pending: u32,
    },
    AsyncArrive {
        at: BarrierPlace,
    },
    /// A guard the compiler added failed in the active lanes; `offset` is where the access would have gone.
    GuardFired {
        site: u32,
        offset: Option<Slot>,
        /// Where in `Code::below` the indices are that it tests for being negative.
        below: (u32, u32),
    },

    // ---- control ----
    /// Pushes; keeps the lanes where `cond` holds; jumps to the matching `Else` or `EndIf` where there are none.
    If {
        cond: Slot,
        target: Pc,
    },
    /// `If` on the guard of an access, which is counted.
    Guard {
        cond: Slot,
        site: u32,
        target: Pc,
    },
    /// The lanes that `If` left out; jumps to the matching `EndIf` where there are none.
    Else {
        end: Pc,
    },
    /// Pops.
    EndIf,
    /// Pushes.
    LoopEnter {
        step: Slot,
    },
    /// Keeps the lanes where `index < end`; jumps to `exit` where there are none.
    LoopTest {
        index: RegId,
        end: Slot,
        exit: Pc,
    },
    /// `index += step`; jumps to the test.
    LoopNext {
        index: RegId,
        step: Slot,
        wide: bool,
        test: Pc,
    },
    /// Pops.
    LoopExit,
    /// The warp is done.
    End,

    // ---- tensor cores ----
    /// True in one lane.
    Elected {
        dst: Slot,
    },
    Pack {
        dtype: Dtype,
        dst: Slot,
        low: Slot,
        high: Slot,
    },
    Unpack {
        dtype: Dtype,
        dst: Slot,
        word: Slot,
        high: bool,
    },
    /// `ldmatrix`, or `stmatrix` where the site writes.
    Matrices {
        site: u32,
        offset: Slot,
        part: LocalPart,
        count: u32,
        transposed: bool,
    },
    Mma {
        product: u32,
    },
    WgmmaFence,
    Wgmma {
        product: u32,
    },
    WgmmaCommit,
    WgmmaWait {
        pending: u32,
    },

    // ---- barriers in memory, TMA, roles ----
    BarrierInit {
        at: BarrierPlace,
        arrivals: u32,
    },
    FenceBarrierInit,
    /// With bytes to expect, or at another block's barrier.
    BarrierArrive {
        at: BarrierPlace,
        bytes: Option<Slot>,
        cta: Option<Slot>,
    },
    BarrierWait {
        at: BarrierPlace,
        parity: Slot,
    },
    BoxCopy {
        copy: u32,
    },
    BulkCopy {
        copy: u32,
    },
    ClusterStore {
        store: u32,
    },
    BulkCommit,
    BulkWait {
        pending: u32,
        read: bool,
    },
    FenceProxy,
    NamedBarrier {
        id: u32,
        threads: u32,
        arrive: bool,
    },
    ClusterBarrier {
        relaxed: bool,
    },
    ClusterArrive,
    ClusterWait,
    SetRegisters {
        count: u32,
        increase: bool,
    },

    // ---- synchronisation and the rest ----
    Barrier,
    WarpBarrier,
    /// Waits for the previous kernel.
    Wait,
    LaunchDependents,
    Shuffle {
        reg: RegId,
        kind: ShuffleKind,
        value: Slot,
        lane: Slot,
    },
    TransposeMatrix {
        reg: RegId,
        value: Slot,
    },
    Vote {
        reg: RegId,
        kind: VoteKind,
        pred: Slot,
    },
    Print {
        format: u32,
    },
    Assert {
        cond: Slot,
        message: u32,
    },
}
