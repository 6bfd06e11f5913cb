//! Programs by hand. Each statement is a line of its own, counted from 1; values made before a statement stand on its
//! line.

use crate::ir::*;
use crate::lowered::*;
use crate::sim::{self, Argument, TensorArgument};
use std::sync::Arc;

/// A program under construction.
pub struct Build {
    pub program: Program,
    ops: Vec<Op>,
    span: SpanId,
    shared_end: u32,
}

/// `f32` as an element type.
pub const F32: ValueType = ValueType::Element(Dtype::F32);

impl Build {
    /// A program of one block of so many threads.
    pub fn threads(x: u32) -> Build {
        let mut program = Program::empty("kernel", Target::Sm90a);
        program.launch.threads = [x, 1, 1];
        program.source = Source { file: "kernel.rs".into(), first_line: 1, lines: vec![], functions: vec![] };
        let mut build = Build { program, ops: vec![], span: SpanId::new(0), shared_end: 0 };
        build.line();
        build
    }

    pub fn blocks(mut self, x: i64) -> Build {
        self.program.launch.grid[0] = HostExpr::Int(x);
        self
    }

    fn line(&mut self) {
        let line = self.program.spans.len() as u32 + 1;
        self.span = self.program.spans.push(Span { line, column: 1, end_line: line, end_column: 7, text: 0 });
        self.program.source.lines.push(format!("line {line};"));
    }

    // ---- declarations ----

    /// A tensor parameter whose extents are dims of their own.
    pub fn tensor(&mut self, name: &str, dtype: Dtype, rank: usize, mutable: bool) -> Space {
        let param = ParamId::new(self.program.tensors.len());
        let mut shape = vec![];
        for axis in 0..rank {
            shape.push(HostExpr::Dim(DimId::new(self.program.dims.len())));
            self.program.dims.push(format!("{}{axis}", name.to_uppercase()));
        }
        self.program.tensors.push(TensorInfo {
            param,
            name: name.into(),
            dtype,
            shape,
            mutable,
            stream: false,
            output: false,
            independent: false,
            ordered: false,
        });
        self.program.params.push(Parameter {
            name: name.into(),
            kind: ParameterKind::Pointer(param),
            ty: ValueType::Wide,
        });
        Space::Global(param)
    }

    /// What threads may say.
    pub fn message(&mut self, kind: MessageKind, text: &str) -> MessageId {
        let message = Message { kind, text: text.into(), args: Vec::new(), span: SpanId::from_u32(0) };
        self.program.messages.push(message)
    }

    pub fn shared(&mut self, name: &str, dtype: Dtype, len: u32) -> Space {
        let offset = self.shared_end.next_multiple_of(16);
        self.shared_end = offset + len * dtype.bytes();
        self.program.shared_bytes = self.shared_end;
        let array =
            SharedArray { name: name.into(), dtype, len, slots: 1, offset, align: 16, scratch: false, beyond: 0 };
        let shared = self.program.shared.push(array);
        self.op(OpKind::Shared { shared });
        Space::Shared(shared)
    }

    /// A shared array at a multiple of 1024 bytes, as swizzled boxes need it; not marked uninitialised.
    pub fn swizzled(&mut self, name: &str, dtype: Dtype, len: u32) -> SharedId {
        let offset = self.shared_end.next_multiple_of(1024);
        self.shared_end = offset + len * dtype.bytes();
        self.program.shared_bytes = self.shared_end;
        self.program.shared.push(SharedArray {
            name: name.into(),
            dtype,
            len,
            slots: 1,
            offset,
            align: 1024,
            scratch: false,
            beyond: 0,
        })
    }

    pub fn barriers(&mut self, name: &str, len: u32) -> BarrierId {
        let offset = self.shared_end.next_multiple_of(BARRIER_BYTES);
        self.shared_end = offset + len * BARRIER_BYTES;
        self.program.shared_bytes = self.shared_end;
        self.program.barriers.push(BarrierArray { name: name.into(), len, offset })
    }

    /// A map of a tensor, with its C parameter.
    pub fn map(&mut self, name: &str, tensor: Space, box_extents: &[u32], swizzle: Swizzle) -> MapId {
        let Space::Global(tensor) = tensor else { panic!("only tensors have maps") };
        let (name, box_extents) = (name.to_string(), box_extents.to_vec());
        let promotion = Promotion::B128;
        let map = TensorMap { name: name.clone(), tensor, box_extents, swizzle, promotion, stores: false };
        let map = self.program.tensor_maps.push(map);
        self.program.params.push(Parameter { name, kind: ParameterKind::TensorMap(map), ty: ValueType::Wide });
        map
    }

    pub fn local(&mut self, name: &str, dtype: Dtype, len: u32) -> LocalId {
        let local = self.program.locals.push(LocalArray { name: name.into(), dtype, len });
        self.op(OpKind::Local { local });
        local
    }

    pub fn reg(&mut self, name: &str, ty: ValueType) -> RegId {
        // Names are C's too: one that is taken gets a number.
        let taken = |name: &str| self.program.regs.values().any(|r| r.name == name);
        let numbered = (1..).map(|i| format!("{name}_{i}")).find(|n| !taken(n));
        let name = if taken(name) { numbered.unwrap_or_default() } else { name.to_string() };
        self.program.regs.push(Reg { name, ty, mutable: true })
    }

    // ---- values ----

    pub fn value(&mut self, kind: ValueKind, ty: ValueType) -> ValueId {
        self.program.values.push(Value { kind, ty, span: self.span })
    }

    pub fn int(&mut self, value: i64) -> ValueId {
        self.value(ValueKind::Int(value), ValueType::Index)
    }

    pub fn float(&mut self, value: f64) -> ValueId {
        self.value(ValueKind::Float(value), F32)
    }

    pub fn tx(&mut self) -> ValueId {
        self.value(ValueKind::Thread(0), ValueType::Index)
    }

    pub fn bx(&mut self) -> ValueId {
        self.value(ValueKind::Block(0), ValueType::Index)
    }

    pub fn special(&mut self, special: Special) -> ValueId {
        let ty = if special == Special::Elected { ValueType::BOOL } else { ValueType::Index };
        self.value(ValueKind::Special(special), ty)
    }

    pub fn bool(&mut self, value: bool) -> ValueId {
        self.value(ValueKind::Int(value.into()), ValueType::BOOL)
    }

    pub fn barrier_at(&mut self, array: BarrierId, index: i64) -> BarrierRef {
        BarrierRef { array, index: self.int(index) }
    }

    /// The extent of a tensor's axis.
    pub fn dim(&mut self, name: &str) -> ValueId {
        let dim = self.program.dims.iter().position(|d| d == name).expect("a dim of a declared tensor");
        let kind = ParameterKind::Dim(DimId::new(dim));
        if let Some(position) = self.program.params.iter().position(|p| p.kind == kind) {
            return self.value(ValueKind::Param(position as u32), ValueType::Index);
        }
        let position = self.program.params.len() as u32;
        self.program.params.push(Parameter {
            name: name.into(),
            kind: ParameterKind::Dim(DimId::new(dim)),
            ty: ValueType::Index,
        });
        self.value(ValueKind::Param(position), ValueType::Index)
    }

    pub fn get(&mut self, reg: RegId) -> ValueId {
        let ty = self.program.regs[reg].ty;
        self.value(ValueKind::Reg(reg), ty)
    }

    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let logic = op.is_comparison() || matches!(op, BinaryOp::And | BinaryOp::Or);
        let ty = if logic { ValueType::BOOL } else { self.program.values[a].ty };
        self.value(ValueKind::Binary(op, a, b), ty)
    }

    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Add, a, b)
    }

    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Mul, a, b)
    }

    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Sub, a, b)
    }

    pub fn div(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Div, a, b)
    }

    pub fn rem(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Rem, a, b)
    }

    pub fn equal(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Eq, a, b)
    }

    pub fn less(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(BinaryOp::Lt, a, b)
    }

    pub fn cast(&mut self, a: ValueId, ty: ValueType) -> ValueId {
        self.value(ValueKind::Cast(a), ty)
    }

    pub fn at(&self, space: Space, offset: ValueId) -> Memory {
        Memory { space, offset, guard: None, span: self.span }
    }

    pub fn guarded(&self, space: Space, offset: ValueId, cond: ValueId, reason: GuardReason) -> Memory {
        Memory { guard: Some(Guard { cond, reason }), ..self.at(space, offset) }
    }

    pub fn load(&mut self, space: Space, offset: ValueId) -> ValueId {
        let memory = self.at(space, offset);
        self.load_at(memory)
    }

    pub fn load_at(&mut self, memory: Memory) -> ValueId {
        let dtype = self.program.dtype(memory.space).expect("a tensor or an array");
        self.value(ValueKind::Load(memory), ValueType::Element(dtype))
    }

    // ---- statements ----

    pub fn op(&mut self, kind: OpKind) {
        self.ops.push(Op { kind, span: self.span });
        self.line();
    }

    pub fn let_(&mut self, name: &str, value: ValueId) -> RegId {
        let ty = self.program.values[value].ty;
        let reg = self.reg(name, ty);
        self.op(OpKind::Let { reg, value: Some(value) });
        reg
    }

    pub fn set(&mut self, reg: RegId, value: ValueId) {
        self.op(OpKind::Set { reg, value });
    }

    pub fn store(&mut self, space: Space, offset: ValueId, value: ValueId) {
        let memory = self.at(space, offset);
        self.op(OpKind::Store { memory, value });
    }

    pub fn atomic_add(&mut self, space: Space, offset: ValueId, value: ValueId) {
        let memory = self.at(space, offset);
        self.op(OpKind::Atomic { op: AtomicOp::Add, memory, value, old: None, ordered: false });
    }

    pub fn barrier(&mut self) {
        self.op(OpKind::Barrier);
    }

    pub fn if_(&mut self, cond: ValueId, then: impl FnOnce(&mut Build)) {
        self.if_else(cond, then, |_| {});
    }

    pub fn if_else(&mut self, cond: ValueId, then: impl FnOnce(&mut Build), otherwise: impl FnOnce(&mut Build)) {
        let span = self.span;
        self.line();
        let then = self.nested(then);
        let otherwise = self.nested(otherwise);
        self.ops.push(Op { kind: OpKind::If { cond, then, otherwise }, span });
    }

    pub fn for_(&mut self, start: i64, end: ValueId, step: i64, body: impl FnOnce(&mut Build, RegId)) {
        let (start, step) = (self.int(start), self.int(step));
        self.for_between("i", [start, end, step], body);
    }

    /// `for name in (start..end).step_by(step)`
    pub fn for_between(&mut self, name: &str, bounds: [ValueId; 3], body: impl FnOnce(&mut Build, RegId)) {
        let [start, end, step] = bounds;
        let span = self.span;
        let reg = self.reg(name, ValueType::Index);
        self.line();
        let body = self.nested(|b| body(b, reg));
        self.ops.push(Op { kind: OpKind::For { reg, start, end, step, unroll: Unroll::Auto, body }, span });
    }

    fn nested(&mut self, body: impl FnOnce(&mut Build)) -> Vec<Op> {
        let outer = std::mem::take(&mut self.ops);
        body(self);
        std::mem::replace(&mut self.ops, outer)
    }

    pub fn finish(mut self) -> Program {
        self.program.body = std::mem::take(&mut self.ops);
        self.program
    }
}

/// A contiguous f32 tensor.
pub fn floats(shape: &[i64], f: impl Fn(usize) -> f32) -> Argument {
    let count = shape.iter().product::<i64>() as usize;
    let bytes: Vec<u8> = (0..count).flat_map(|i| f(i).to_le_bytes()).collect();
    tensor(Dtype::F32, shape, &bytes)
}

/// A contiguous i32 tensor.
pub fn ints(shape: &[i64], f: impl Fn(usize) -> i32) -> Argument {
    let count = shape.iter().product::<i64>() as usize;
    let bytes: Vec<u8> = (0..count).flat_map(|i| f(i).to_le_bytes()).collect();
    tensor(Dtype::I32, shape, &bytes)
}

/// A contiguous tensor of these bytes.
pub fn tensor(dtype: Dtype, shape: &[i64], bytes: &[u8]) -> Argument {
    let memory = sim::Memory::zeros(bytes.len());
    memory.write(0, bytes).unwrap();
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    Argument::Tensor(TensorArgument { dtype, shape: shape.to_vec(), strides, memory: Arc::new(memory), offset: 0 })
}

/// The bytes of a tensor's memory.
pub fn bytes(argument: &Argument) -> Vec<u8> {
    let Argument::Tensor(tensor) = argument else { return vec![] };
    let mut bytes = vec![0; tensor.memory.len()];
    tensor.memory.read(0, &mut bytes).unwrap();
    bytes
}

/// The f32 elements of a tensor's memory.
pub fn read(argument: &Argument) -> Vec<f32> {
    bytes(argument).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}
