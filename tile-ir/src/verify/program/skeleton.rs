//! The slice of a program that decides what it synchronises: control flow, barriers, asynchronous copies and products, every access
//! to shared memory, and whatever their conditions and addresses are made of. What else it computes is left out.
//!
//! An array is *watched* where its accesses matter although its contents may not: shared arrays, which several threads and TMA
//! use, and the registers of products. A store to a watched array whose contents decide nothing stores a zero; a load from one
//! whose result decides nothing is kept as a load by itself.

use crate::ir::{Dtype, SpanId};
use crate::lowered::*;
use std::collections::HashSet;

/// A program's slice.
pub(super) struct Skeleton {
    /// What synchronises as the program does.
    pub program: Program,
    /// Whether its conditions or addresses are made of what tensors hold.
    pub reads_tensors: bool,
    /// Whether they are made of what products compute.
    pub needs_products: bool,
}

impl Skeleton {
    /// Whether there is anything that an order of threads, copies and products could break.
    pub fn synchronises(&self) -> bool {
        let is_dependent = self.program.launch.dependent.is_some();
        is_dependent
            || visit::any(&self.program.body, &|kind| {
                matches!(
                    kind,
                    OpKind::Barrier
                        | OpKind::BarrierWait { .. }
                        | OpKind::NamedBarrier { .. }
                        | OpKind::ClusterBarrier { .. }
                        | OpKind::AsyncCopy { .. }
                        | OpKind::Wgmma { .. }
                )
            })
    }
}

/// The slice of a program.
pub(super) fn skeleton(program: &Program) -> Skeleton {
    let (decides, watched) = (HashSet::new(), watched(program));
    let mut slice = Slice { program: program.clone(), decides, watched, is_last: false };
    loop {
        let before = slice.decides.len();
        slice.ops(&program.body);
        if slice.decides.len() == before {
            break;
        }
    }
    slice.is_last = true;
    let body = slice.ops(&program.body);
    let decides = |is: &dyn Fn(Space) -> bool| {
        slice.decides.iter().any(|thing| matches!(thing, Thing::Contents(space) if is(*space)))
    };
    let reads_tensors = decides(&|space| matches!(space, Space::Global(_)));
    let needs_products = decides(&|space| matches!(space, Space::Local(local) if slice.watched.contains(&local)));
    Skeleton { program: Program { body, ..slice.program }, reads_tensors, needs_products }
}

/// Something that what is kept is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Thing {
    Reg(RegId),
    Contents(Space),
}

/// The registers of products of warpgroups.
fn watched(program: &Program) -> HashSet<LocalId> {
    let mut watched = HashSet::new();
    visit::each(&program.body, &mut |op| {
        if let OpKind::Wgmma { acc, a, .. } = &op.kind {
            watched.insert(*acc);
            if let WgmmaOperand::Registers(words, _) = a {
                watched.insert(*words);
            }
        }
    });
    watched
}

struct Slice {
    /// The program, to which values and registers of the slice are added.
    program: Program,
    decides: HashSet<Thing>,
    watched: HashSet<LocalId>,
    /// Whether `decides` is complete, so that what is made is the slice.
    is_last: bool,
}

impl Slice {
    fn ops(&mut self, ops: &[Op]) -> Vec<Op> {
        let mut kept = Vec::new();
        for op in ops {
            self.op(op, &mut kept);
        }
        kept
    }

    fn is_watched(&self, space: Space) -> bool {
        match space {
            Space::Shared(_) => true,
            Space::Local(local) => self.watched.contains(&local),
            Space::Global(_) => false,
        }
    }

    fn decides(&self, thing: Thing) -> bool {
        self.decides.contains(&thing)
    }

    fn contents_decide(&self, space: Space) -> bool {
        self.decides(Thing::Contents(space))
    }

    /// A value that something kept is made of.
    fn need(&mut self, id: ValueId) {
        let mut rest = vec![id];
        while let Some(id) = rest.pop() {
            let Some(value) = self.program.values.get(id) else { continue };
            match &value.kind {
                ValueKind::Reg(reg) => {
                    self.decides.insert(Thing::Reg(*reg));
                }
                ValueKind::Load(memory) => {
                    self.decides.insert(Thing::Contents(memory.space));
                }
                _ => {}
            }
            rest.extend(value.kind.operands());
        }
    }

    fn need_all(&mut self, ids: impl IntoIterator<Item = ValueId>) {
        ids.into_iter().for_each(|id| self.need(id));
    }

    fn need_place(&mut self, memory: &Memory) {
        self.need(memory.offset);
        self.need_all(memory.guard.map(|guard| guard.cond));
    }

    /// The loads from watched arrays in a value that is not kept.
    fn observe(&mut self, id: ValueId, span: SpanId, kept: &mut Vec<Op>) {
        let mut rest = vec![id];
        while let Some(id) = rest.pop() {
            let Some(value) = self.program.values.get(id) else { continue };
            let (ty, operands) = (value.ty, value.kind.operands());
            if let ValueKind::Load(memory) = value.kind
                && self.is_watched(memory.space)
            {
                self.need_place(&memory);
                if self.is_last {
                    let name = format!("observed_{}", self.program.regs.len());
                    let reg = self.program.regs.push(Reg { name, ty, mutable: false });
                    kept.push(Op { kind: OpKind::Let { reg, value: Some(id) }, span });
                }
            } else {
                rest.extend(operands);
            }
        }
    }

    /// A zero in place of a value that decides nothing.
    fn zero(&mut self, instead: ValueId) -> ValueId {
        let Some(value) = self.program.values.get(instead).filter(|_| self.is_last) else { return instead };
        let (ty, span) = (value.ty, value.span);
        let kind = match ty {
            ValueType::Element(Dtype::F16 | Dtype::Bf16 | Dtype::F32) => ValueKind::Float(0.0),
            ValueType::Element(Dtype::I32 | Dtype::U32 | Dtype::Bool) | ValueType::Index | ValueType::Wide => {
                ValueKind::Int(0)
            }
        };
        self.program.values.push(Value { kind, ty, span })
    }

    /// What is stored: the value where the array's contents decide something.
    fn stored(&mut self, value: ValueId, decides: bool, span: SpanId, kept: &mut Vec<Op>) -> ValueId {
        if decides {
            self.need(value);
            return value;
        }
        self.observe(value, span, kept);
        self.zero(value)
    }

    fn op(&mut self, op: &Op, kept: &mut Vec<Op>) {
        let span = op.span;
        let kind = match &op.kind {
            OpKind::Let { reg, value } if self.decides(Thing::Reg(*reg)) => {
                self.need_all(*value);
                op.kind.clone()
            }
            OpKind::Set { reg, value } if self.decides(Thing::Reg(*reg)) => {
                self.need(*value);
                op.kind.clone()
            }
            OpKind::Shuffle { reg, .. } | OpKind::Vote { reg, .. } if self.decides(Thing::Reg(*reg)) => {
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::Let { .. } | OpKind::Set { .. } | OpKind::Shuffle { .. } | OpKind::Vote { .. } => {
                op.kind.values().into_iter().for_each(|value| self.observe(value, span, kept));
                return;
            }
            OpKind::Store { memory, value } => {
                let decides = self.contents_decide(memory.space);
                if !decides && !self.is_watched(memory.space) {
                    return self.observe(*value, span, kept);
                }
                self.need_place(memory);
                let value = self.stored(*value, decides, span, kept);
                OpKind::Store { memory: *memory, value }
            }
            OpKind::Atomic { op: atomic, memory, value, old, ordered } => {
                let decides = self.contents_decide(memory.space) || old.is_some_and(|r| self.decides(Thing::Reg(r)));
                if !decides && !*ordered && !self.is_watched(memory.space) {
                    return self.observe(*value, span, kept);
                }
                // A counter's own contents decide what is counted.
                if decides || *ordered {
                    self.decides.insert(Thing::Contents(memory.space));
                }
                self.need_place(memory);
                let value = self.stored(*value, decides || *ordered, span, kept);
                OpKind::Atomic { op: *atomic, memory: *memory, value, old: *old, ordered: *ordered }
            }
            OpKind::VectorLoad { local, start, memory, .. } => {
                let local = Space::Local(*local);
                let decides = self.contents_decide(local);
                if !decides && !self.is_watched(memory.space) && !self.is_watched(local) {
                    return;
                }
                if decides {
                    self.decides.insert(Thing::Contents(memory.space));
                }
                self.need(*start);
                self.need_place(memory);
                op.kind.clone()
            }
            OpKind::VectorStore { memory, local, start, .. } => {
                let local = Space::Local(*local);
                let decides = self.contents_decide(memory.space);
                if !decides && !self.is_watched(memory.space) && !self.is_watched(local) {
                    return;
                }
                if decides {
                    self.decides.insert(Thing::Contents(local));
                }
                self.need(*start);
                self.need_place(memory);
                op.kind.clone()
            }
            OpKind::AsyncCopy { to, from, .. } => {
                if self.contents_decide(to.space) {
                    self.decides.insert(Thing::Contents(from.space));
                }
                self.need_place(to);
                self.need_place(from);
                op.kind.clone()
            }
            OpKind::LoadMatrix { local, memory, .. } => {
                if self.contents_decide(Space::Local(*local)) {
                    self.decides.insert(Thing::Contents(memory.space));
                }
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::StoreMatrix { memory, local, .. } => {
                if self.contents_decide(memory.space) {
                    self.decides.insert(Thing::Contents(Space::Local(*local)));
                }
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::TensorLoad { map, shared, .. } => {
                if self.contents_decide(Space::Shared(*shared))
                    && let Some(map) = self.program.tensor_maps.get(*map)
                {
                    self.decides.insert(Thing::Contents(Space::Global(map.tensor)));
                }
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::BulkLoad { memory, shared, .. } => {
                if self.contents_decide(Space::Shared(*shared)) {
                    self.decides.insert(Thing::Contents(memory.space));
                }
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::ClusterStore { memory, local, .. } => {
                if self.contents_decide(memory.space) {
                    self.decides.insert(Thing::Contents(Space::Local(*local)));
                }
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::Mma { acc, a, b, .. } => {
                if !self.contents_decide(Space::Local(acc.0)) {
                    return;
                }
                self.decides.extend([a.0, b.0].map(|local| Thing::Contents(Space::Local(local))));
                self.need_all(op.kind.values());
                op.kind.clone()
            }
            OpKind::If { cond, then, otherwise } => {
                let (then, otherwise) = (self.ops(then), self.ops(otherwise));
                if then.is_empty() && otherwise.is_empty() {
                    return self.observe(*cond, span, kept);
                }
                self.need(*cond);
                OpKind::If { cond: *cond, then, otherwise }
            }
            OpKind::For { reg, start, end, step, unroll, body } => {
                let body = self.ops(body);
                if body.is_empty() {
                    return;
                }
                self.need_all([*start, *end, *step]);
                OpKind::For { reg: *reg, start: *start, end: *end, step: *step, unroll: *unroll, body }
            }
            // What is said, and how a `parallel` loop's elements are told apart, synchronises nothing.
            OpKind::Elements(_) | OpKind::Order | OpKind::Print { .. } | OpKind::Assert { .. } => return,
            OpKind::Local { .. }
            | OpKind::Shared { .. }
            | OpKind::AsyncCommit
            | OpKind::AsyncWait { .. }
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::Wait
            | OpKind::LaunchDependents
            | OpKind::BarrierInit { .. }
            | OpKind::FenceBarrierInit
            | OpKind::BarrierArrive { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierWait { .. }
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
            | OpKind::Pin { .. } => {
                self.need_all(op.kind.values());
                op.kind.clone()
            }
        };
        kept.push(Op { kind, span });
    }
}
