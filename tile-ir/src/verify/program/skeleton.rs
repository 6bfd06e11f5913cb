//! The slice of a program that decides what it synchronises: control flow, barriers, asynchronous copies and products, every access
//! to shared memory, and whatever their conditions and addresses are made of. What else it computes is left out.
//!
//! An array is *watched* where its accesses matter although its contents may not: shared arrays, which several threads and TMA
//! use, and the registers of products. A store to a watched array whose contents decide nothing stores a zero; a load from one
//! whose result decides nothing is kept as a load by itself.

use crate::ir::{AccessMode, SpanId};
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
    /// Whether there is anything that an order of threads, copies and products could break: shared memory too, where nothing orders its accesses.
    pub fn synchronises(&self) -> bool {
        let is_dependent = self.program.launch.dependent.is_some();
        is_dependent
            || !self.program.shared.is_empty()
            || visit::any(&self.program.body, &|kind| kind.protocol().is_some_and(|p| p != Protocol::MeetsWarp))
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
        if matches!(op.kind, OpKind::Wgmma { .. }) {
            let local = |part| if let Part::Local(local, ..) = part { Some(*local) } else { None };
            watched.extend(op.kind.parts().into_iter().filter_map(local));
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

    /// What one array holds goes to another: where that one's contents decide something, so do the first one's.
    fn flows(&mut self, from: Space, to: Space) {
        if self.contents_decide(to) {
            self.decides.insert(Thing::Contents(from));
        }
    }

    /// A value that something kept is made of.
    fn need(&mut self, id: ValueId) {
        let mut rest = vec![id];
        while let Some(id) = rest.pop() {
            let Some(value) = self.program.values.get(id) else { continue };
            if let ValueKind::Reg(reg) = value.kind {
                self.decides.insert(Thing::Reg(reg));
            } else if let ValueKind::Load(memory) = &value.kind {
                self.decides.insert(Thing::Contents(memory.space));
            }
            rest.extend(value.kind.operands());
        }
    }

    fn need_all(&mut self, ids: impl IntoIterator<Item = ValueId>) {
        ids.into_iter().for_each(|id| self.need(id));
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
                self.need_all(memory.values());
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
        self.program.values.push(Value { kind: ty.zero(), ty, span })
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
        if let Some(kind) = self.kept(op, kept) {
            kept.push(Op { kind, span: op.span });
        }
    }

    /// What is kept of an operation.
    fn kept(&mut self, op: &Op, kept: &mut Vec<Op>) -> Option<OpKind> {
        let span = op.span;
        if let OpKind::Store { memory, value } = &op.kind {
            let decides = self.contents_decide(memory.space);
            if !decides && !self.is_watched(memory.space) {
                self.observe(*value, span, kept);
                return None;
            }
            self.need_all(memory.values());
            let value = self.stored(*value, decides, span, kept);
            return Some(OpKind::Store { memory: *memory, value });
        }
        if let OpKind::Atomic { op: atomic, memory, value, old, ordered } = &op.kind {
            let decides = self.contents_decide(memory.space) || old.is_some_and(|r| self.decides(Thing::Reg(r)));
            if !decides && !*ordered && !self.is_watched(memory.space) {
                self.observe(*value, span, kept);
                return None;
            }
            // A counter's own contents decide what is counted.
            if decides || *ordered {
                self.decides.insert(Thing::Contents(memory.space));
            }
            self.need_all(memory.values());
            let value = self.stored(*value, decides || *ordered, span, kept);
            return Some(OpKind::Atomic { op: *atomic, memory: *memory, value, old: *old, ordered: *ordered });
        }
        if let OpKind::If { cond, then, otherwise } = &op.kind {
            let (then, otherwise) = (self.ops(then), self.ops(otherwise));
            if then.is_empty() && otherwise.is_empty() {
                self.observe(*cond, span, kept);
                return None;
            }
            self.need(*cond);
            return Some(OpKind::If { cond: *cond, then, otherwise });
        }
        if let OpKind::For { reg, start, end, step, unroll, body } = &op.kind {
            let body = self.ops(body);
            if body.is_empty() {
                return None;
            }
            self.need_all([*start, *end, *step]);
            return Some(OpKind::For { reg: *reg, start: *start, end: *end, step: *step, unroll: *unroll, body });
        }
        let parts = op.kind.parts();
        let set = |part: &Part<'_>| if let Part::Declares(reg) | Part::Sets(reg) = part { Some(**reg) } else { None };
        let mut sets = parts.iter().filter_map(set).peekable();
        if sets.peek().is_some() && !sets.any(|reg| self.decides(Thing::Reg(reg))) {
            op.kind.values().into_iter().for_each(|value| self.observe(value, span, kept));
            return None;
        }
        let accesses = op.kind.accesses(&self.program);
        if op.kind.protocol().is_none() {
            // What is said, and how a `parallel` loop's elements are told apart, synchronises nothing.
            let synchronises = |part: &Part<'_>| !matches!(part, Part::Value(_) | Part::Message(_));
            let decides = |&(space, access)| access != AccessMode::Read && self.contents_decide(space);
            let matters = accesses.is_empty() || accesses.iter().any(|a| self.is_watched(a.0) || decides(a));
            if !matters || !parts.iter().any(synchronises) {
                return None;
            }
        }
        let read = accesses.iter().filter(|(_, access)| *access != AccessMode::Write);
        for (from, (to, access)) in read.flat_map(|(from, _)| accesses.iter().map(move |to| (*from, *to))) {
            if access != AccessMode::Read {
                self.flows(from, to);
            }
        }
        self.need_all(op.kind.values());
        Some(op.kind.clone())
    }
}
