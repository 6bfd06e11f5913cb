//! Operations with those inside them, and the operands of operations and values: the one place that knows which have any.

use super::{BarrierRef, Elements, Memory, Op, OpKind, ValueId, ValueKind, WgmmaOperand};

impl ValueKind {
    /// The values that it is made of, in the order of its text.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            ValueKind::Int(_)
            | ValueKind::Float(_)
            | ValueKind::Param(_)
            | ValueKind::Thread(_)
            | ValueKind::Block(_)
            | ValueKind::Reg(_)
            | ValueKind::Special(_)
            | ValueKind::Descriptor { .. } => Vec::new(),
            ValueKind::Unary(_, a) | ValueKind::Cast(a) | ValueKind::Divisor(a) | ValueKind::Unpack(_, a, _) => {
                vec![*a]
            }
            ValueKind::Binary(_, a, b) | ValueKind::Pack(_, a, b) => vec![*a, *b],
            ValueKind::Math(_, args) => args.clone(),
            ValueKind::Select(c, a, b) | ValueKind::Choose(c, a, b) => vec![*c, *a, *b],
            ValueKind::Load(memory) => [memory.offset].into_iter().chain(memory.guard.map(|g| g.cond)).collect(),
        }
    }
}

impl OpKind {
    /// The lists of operations inside: both sides of a conditional, the body of a loop.
    pub fn bodies(&self) -> [&[Op]; 2] {
        match self {
            OpKind::If { then, otherwise, .. } => [then, otherwise],
            OpKind::For { body, .. } => [body, &[]],
            _ => [&[], &[]],
        }
    }

    /// The values that the operation itself evaluates, those of operations inside it excepted.
    pub fn values(&self) -> Vec<ValueId> {
        let memory = |m: &Memory| [m.offset].into_iter().chain(m.guard.map(|guard| guard.cond));
        let barrier = |b: &BarrierRef| [b.index];
        match self {
            OpKind::Let { value, .. } => value.iter().copied().collect(),
            OpKind::Set { value, .. } => vec![*value],
            OpKind::Store { memory: m, value } | OpKind::Atomic { memory: m, value, .. } => {
                memory(m).chain([*value]).collect()
            }
            OpKind::VectorLoad { memory: m, start, .. }
            | OpKind::VectorStore { memory: m, start, .. }
            | OpKind::LoadMatrix { memory: m, start, .. }
            | OpKind::StoreMatrix { memory: m, start, .. } => memory(m).chain([*start]).collect(),
            OpKind::AsyncCopy { to, from, .. } => memory(to).chain(memory(from)).collect(),
            OpKind::If { cond, .. } | OpKind::Assert { cond, .. } => vec![*cond],
            OpKind::For { start, end, step, .. } => vec![*start, *end, *step],
            OpKind::Shuffle { value, lane, .. } => vec![*value, *lane],
            OpKind::Vote { pred, .. } => vec![*pred],
            OpKind::Mma { acc, a, b, .. } => vec![acc.1, a.1, b.1],
            OpKind::BarrierInit { barrier: b, .. } => barrier(b).into(),
            OpKind::BarrierArrive { barrier: b, cta } => barrier(b).into_iter().chain(*cta).collect(),
            OpKind::BarrierExpect { barrier: b, bytes } => barrier(b).into_iter().chain([*bytes]).collect(),
            OpKind::BarrierWait { barrier: b, parity } => barrier(b).into_iter().chain([*parity]).collect(),
            OpKind::TensorLoad { coordinates, offset, barrier: b, multicast, .. } => {
                coordinates.iter().copied().chain([*offset]).chain(barrier(b)).chain(*multicast).collect()
            }
            OpKind::TensorStore { coordinates, offset, .. } => coordinates.iter().copied().chain([*offset]).collect(),
            OpKind::BulkLoad { memory: m, offset, bytes, barrier: b, .. } => {
                memory(m).chain([*offset, *bytes]).chain(barrier(b)).collect()
            }
            OpKind::ClusterStore { memory: m, block, start, barrier: b, .. } => {
                memory(m).chain([*block, *start]).chain(barrier(b)).collect()
            }
            OpKind::Wgmma { start, a, b, accumulate, .. } => {
                let left = match a {
                    WgmmaOperand::Descriptor(value) | WgmmaOperand::Registers(_, value) => *value,
                };
                vec![*start, left, *b, *accumulate]
            }
            OpKind::Print { args, .. } => args.clone(),
            OpKind::Elements(Elements::At(number)) => vec![*number],
            OpKind::Elements(Elements::Begin | Elements::Next | Elements::End)
            | OpKind::Local { .. }
            | OpKind::Shared { .. }
            | OpKind::AsyncCommit
            | OpKind::AsyncWait { .. }
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::Wait
            | OpKind::LaunchDependents
            | OpKind::FenceBarrierInit
            | OpKind::BulkCommit
            | OpKind::BulkWait { .. }
            | OpKind::FenceProxyAsync
            | OpKind::PrefetchMap { .. }
            | OpKind::NamedBarrier { .. }
            | OpKind::ClusterBarrier { .. }
            | OpKind::SetRegisters { .. }
            | OpKind::WgmmaFence
            | OpKind::WgmmaCommit
            | OpKind::WgmmaWait { .. }
            | OpKind::Pin { .. }
            | OpKind::Order => Vec::new(),
        }
    }

    /// The accesses to memory that the operation itself makes, but those of its values and of tensor maps.
    pub fn memories(&self) -> Vec<&Memory> {
        match self {
            OpKind::Store { memory, .. }
            | OpKind::Atomic { memory, .. }
            | OpKind::VectorLoad { memory, .. }
            | OpKind::VectorStore { memory, .. }
            | OpKind::LoadMatrix { memory, .. }
            | OpKind::StoreMatrix { memory, .. }
            | OpKind::BulkLoad { memory, .. }
            | OpKind::ClusterStore { memory, .. } => vec![memory],
            OpKind::AsyncCopy { to, from, .. } => vec![to, from],
            OpKind::Let { .. }
            | OpKind::Set { .. }
            | OpKind::Local { .. }
            | OpKind::Shared { .. }
            | OpKind::AsyncCommit
            | OpKind::AsyncWait { .. }
            | OpKind::If { .. }
            | OpKind::For { .. }
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::Wait
            | OpKind::LaunchDependents
            | OpKind::Shuffle { .. }
            | OpKind::Vote { .. }
            | OpKind::Mma { .. }
            | OpKind::BarrierInit { .. }
            | OpKind::FenceBarrierInit
            | OpKind::BarrierArrive { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierWait { .. }
            | OpKind::TensorLoad { .. }
            | OpKind::TensorStore { .. }
            | OpKind::BulkCommit
            | OpKind::BulkWait { .. }
            | OpKind::FenceProxyAsync
            | OpKind::PrefetchMap { .. }
            | OpKind::NamedBarrier { .. }
            | OpKind::ClusterBarrier { .. }
            | OpKind::SetRegisters { .. }
            | OpKind::WgmmaFence
            | OpKind::Wgmma { .. }
            | OpKind::WgmmaCommit
            | OpKind::WgmmaWait { .. }
            | OpKind::Pin { .. }
            | OpKind::Elements(_)
            | OpKind::Order
            | OpKind::Print { .. }
            | OpKind::Assert { .. } => Vec::new(),
        }
    }

    /// The same accesses, to change them.
    pub fn memories_mut(&mut self) -> Vec<&mut Memory> {
        match self {
            OpKind::Store { memory, .. }
            | OpKind::Atomic { memory, .. }
            | OpKind::VectorLoad { memory, .. }
            | OpKind::VectorStore { memory, .. }
            | OpKind::LoadMatrix { memory, .. }
            | OpKind::StoreMatrix { memory, .. }
            | OpKind::BulkLoad { memory, .. }
            | OpKind::ClusterStore { memory, .. } => vec![memory],
            OpKind::AsyncCopy { to, from, .. } => vec![to, from],
            _ => Vec::new(),
        }
    }

    pub(crate) fn bodies_mut(&mut self) -> [Option<&mut Vec<Op>>; 2] {
        match self {
            OpKind::If { then, otherwise, .. } => [Some(then), Some(otherwise)],
            OpKind::For { body, .. } => [Some(body), None],
            _ => [None, None],
        }
    }
}

/// `f` for every operation, an outer one before those inside it.
pub fn each(ops: &[Op], f: &mut impl FnMut(&Op)) {
    for op in ops {
        f(op);
        op.kind.bodies().into_iter().for_each(|body| each(body, f));
    }
}

/// The same, to change them.
pub fn each_mut(ops: &mut [Op], f: &mut impl FnMut(&mut Op)) {
    for op in ops {
        f(op);
        op.kind.bodies_mut().into_iter().flatten().for_each(|body| each_mut(body, f));
    }
}

/// `f` for every list of operations, an outer one before those inside it: to insert and remove.
pub fn each_list_mut(ops: &mut Vec<Op>, f: &mut impl FnMut(&mut Vec<Op>)) {
    f(ops);
    for op in ops {
        op.kind.bodies_mut().into_iter().flatten().for_each(|body| each_list_mut(body, f));
    }
}

/// Whether there is such an operation.
pub fn any(ops: &[Op], is: &impl Fn(&OpKind) -> bool) -> bool {
    ops.iter().any(|op| is(&op.kind) || op.kind.bodies().into_iter().any(|body| any(body, is)))
}

/// How many there are.
pub fn count(ops: &[Op], is: &impl Fn(&OpKind) -> bool) -> usize {
    let mut found = 0;
    each(ops, &mut |op| found += usize::from(is(&op.kind)));
    found
}
