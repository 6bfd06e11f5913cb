//! The lowered program: explicit addresses, guards, vectors, shuffles and barriers. The CUDA emitter prints it and the
//! checked simulator executes it; neither decides anything.
//!
//! A [`Program`] is one instance for one target. Values are trees in one table (so the CUDA reads as it was written);
//! operations are structured. Offsets are in elements. Index values are 32-bit signed ([`ValueType::Index`]) where a
//! launch check bounds them, or 64-bit ([`ValueType::Wide`]).

mod host;
mod matrix;
mod op;
mod parts;
mod transfer;
mod value;
pub mod visit;

pub use host::{Check, CheckKind, HostExpr, HostValues, OperandKind, fold};
pub use matrix::{MmaAtom, WGMMA_M, WgmmaOperand, wgmma_k};
pub use op::{Elements, Op, OpKind, Unroll};
pub use parts::{AccessWidth, Part, PartMut, Protocol};
pub use transfer::{
    BARRIER_BYTES, BarrierArray, BarrierId, BarrierRef, MapId, Promotion, RolesRegisters, Special, TensorMap,
};
pub use value::{Guard, GuardReason, Memory, Space, Value, ValueKind, ValueType};

use crate::ir::{BinaryOp, Class, Dtype, ParamId, PrimaryMap, Source, Span, SpanId, Target, Trigger, UnaryOp};
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
    /// What a thread may say.
    MessageId = "msg";
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
    /// How TMA sees tensors.
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
    /// What threads may say while they run.
    pub messages: PrimaryMap<MessageId, Message>,
    /// What `last_arriver` says, for `explain`.
    pub arrivals: Vec<Arrival>,
    /// The author's grid, where blocks take its tiles in an order of their own: what the checked simulator holds every
    /// effect against. Empty where the launch is the grid.
    pub tiles: Vec<TileIndex>,
    /// What the lowering chose, kept, or fell back to, for `explain`.
    pub remarks: Vec<Remark>,
    /// Source ranges; not part of the program's identity.
    pub spans: PrimaryMap<SpanId, Span>,
    /// Source text; not part of the program's identity.
    pub source: Source,
}

impl Program {
    /// A program that does nothing yet, to be launched as one block of one thread.
    pub fn empty(name: impl Into<String>, target: Target) -> Program {
        let one = HostExpr::Int(1);
        Program {
            name: name.into(),
            target,
            params: Vec::new(),
            tensors: Vec::new(),
            dims: Vec::new(),
            launch: Launch {
                grid: [one.clone(), one.clone(), one],
                threads: [1, 1, 1],
                states_threads: false,
                min_blocks: None,
                cluster: [1, 1, 1],
                registers: None,
                dependent: None,
                class: Class::WIDEST,
                checks: Vec::new(),
                computed: Vec::new(),
            },
            tensor_maps: PrimaryMap::new(),
            shared: PrimaryMap::new(),
            barriers: PrimaryMap::new(),
            shared_bytes: 0,
            locals: PrimaryMap::new(),
            regs: PrimaryMap::new(),
            values: PrimaryMap::new(),
            body: Vec::new(),
            messages: PrimaryMap::new(),
            arrivals: Vec::new(),
            tiles: Vec::new(),
            remarks: Vec::new(),
            spans: PrimaryMap::new(),
            source: Source::default(),
        }
    }

    /// Whether the right operand of a sum is computed before it is added, where sums of indices are otherwise added up from
    /// the left: it subtracts, or it is a conversion to its own type, which says so.
    pub fn is_apart(&self, operand: ValueId) -> bool {
        let value = &self.values[operand];
        match &value.kind {
            ValueKind::Binary(BinaryOp::Add, a, b) => self.is_apart(*a) || self.is_apart(*b),
            ValueKind::Binary(BinaryOp::Sub, ..) | ValueKind::Unary(UnaryOp::Neg, _) => true,
            ValueKind::Int(number) => *number < 0,
            ValueKind::Cast(x) => self.values[*x].ty == value.ty,
            _ => false,
        }
    }

    /// The tensor that an address is in; none where that is an array.
    pub fn tensor(&self, space: Space) -> Option<&TensorInfo> {
        let Space::Global(param) = space else { return None };
        self.tensors.iter().find(|tensor| tensor.param == param)
    }

    /// The element type of what an address is in.
    pub fn dtype(&self, space: Space) -> Option<Dtype> {
        match space {
            Space::Global(_) => self.tensor(space).map(|t| t.dtype),
            Space::Shared(shared) => self.shared.get(shared).map(|s| s.dtype),
            Space::Local(local) => self.locals.get(local).map(|l| l.dtype),
        }
    }

    /// The array that a matrix descriptor points into, as far as the text shows it: `register` says it of registers.
    pub(crate) fn described(&self, id: ValueId, register: &dyn Fn(RegId) -> Option<SharedId>) -> Option<SharedId> {
        let kind = &self.values.get(id)?.kind;
        if let ValueKind::Descriptor { shared, .. } = kind {
            return Some(*shared);
        }
        if let ValueKind::Reg(reg) = kind {
            return register(*reg);
        }
        let moves = matches!(kind, ValueKind::Binary(..) | ValueKind::Cast(_));
        kind.operands().into_iter().filter(|_| moves).find_map(|operand| self.described(operand, register))
    }
}

/// Where a block is along one axis of the author's grid. From the register's assignment on, a thread that finds it at or
/// beyond the extent works on a tile that is not the author's, and may change nothing that outlives the block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileIndex {
    /// The index, as it is before anything keeps it within the extent.
    pub index: RegId,
    /// Tiles along the axis.
    pub extent: HostExpr,
    /// The register that says whether the tile is the author's on every axis, where something would be seen of one that is not.
    pub inside: Option<RegId>,
}

/// A condition that holds in one block of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The condition.
    pub last: ValueId,
    /// How many blocks arrive.
    pub of: ValueId,
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
    /// A number that the launcher computes, i32: the one at this place in [`Launch::computed`].
    Computed(u32),
    /// Where threads leave their messages: the device's log (8 bytes). Only where the program has any.
    Log,
    /// Which function of the log's the messages are of, u32.
    LogFunction,
}

/// What a thread says: a line of `device_print`, or a `device_assert` that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Which of the two.
    pub kind: MessageKind,
    /// The text: of a line, with `{}` for each argument.
    pub text: String,
    /// Types of the arguments.
    pub args: Vec<ValueType>,
    /// The statement.
    pub span: SpanId,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageKind {
    /// `device_print`.
    Print,
    /// `device_assert`.
    Assert,
}

/// Most arguments of a `device_print`: what a record of the device's log holds.
pub const MESSAGE_ARGS: usize = 8;

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
    /// Whether the kernel may write it. Tensors that are not written are read through the read-only path, unless they are `ordered`.
    pub mutable: bool,
    /// Whether its data are not to stay in the caches: what is only read is read past L1, stores to what is written are the first to
    /// leave L2 (`st.global.cs`).
    pub stream: bool,
    /// Whether a launch is to write all of it: the kernel neither reads nor updates it, and its author did not say that
    /// elements may stay as they are. The checked simulator reports those that do.
    pub output: bool,
    /// Whether it may be read before [`OpKind::Wait`]: the previous kernel of the stream does not write it.
    pub independent: bool,
    /// Whether its loads stay on their side of [`OpKind::Wait`], which divides what is read before from what is read after. A load through a
    /// restricted pointer or the read-only path is free to move, since nothing that the compiler sees could write there: it would move a
    /// dependent load up, which is wrong, and independent ones down, which is slow, as ptxas puts the wait first.
    pub ordered: bool,
}

/// How a program is launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Blocks on x, y, z.
    pub grid: [HostExpr; 3],
    /// Threads on x, y, z.
    pub threads: [u32; 3],
    /// Whether the CUDA C says how many threads there are. Otherwise nvcc takes a thread's number for any up to 1,023: of the places that follow
    /// from it, pieces of a tile or a slot's swizzle, it then computes each alone and keeps them in registers from iteration to iteration.
    pub states_threads: bool,
    /// `__launch_bounds__`'s second argument.
    pub min_blocks: Option<u32>,
    /// Blocks of a cluster on x, y, z; the grid is a multiple of it on each axis.
    pub cluster: [u32; 3],
    /// How registers are shared out between roles, where they are.
    pub registers: Option<RolesRegisters>,
    /// Whether it may be launched before the previous kernel of its stream is done, and when it lets the next one start: every
    /// thread then runs an [`OpKind::Wait`], before it touches anything but independent tensors.
    pub dependent: Option<Trigger>,
    /// The alignment class that it is compiled for.
    pub class: Class,
    /// What must hold, in order of reporting.
    pub checks: Vec<Check>,
    /// Numbers that the launcher computes for the blocks ([`ParameterKind::Computed`]), each from 0 to 2^31 - 1.
    pub computed: Vec<HostExpr>,
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
    /// Bytes behind it that are read, whatever is there: tensor cores read rows that a tile does not have. They are within the block's
    /// shared memory.
    pub beyond: u32,
}

impl SharedArray {
    /// Bytes, of all slots together.
    pub fn bytes(&self) -> u32 {
        self.len.saturating_mul(self.dtype.bytes())
    }

    /// The byte behind its last one.
    pub fn end(&self) -> u32 {
        self.offset.saturating_add(self.bytes())
    }
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
